/* code.h - pages for compiled code and its constants. See code.c. */
#ifndef QN_CODE_H
#define QN_CODE_H

#include "base/base.h"

enum { CODE_PAGE = 4096 };

typedef struct code_slab code_slab;

/* All that one device has; used by one thread at a time. */
typedef struct code_store {
    heap *h;
    code_slab *first, *last; /* shared slabs, those most likely to have room first */
    uint32_t slabs;
} code_store;

/* Pages of one program: `text` and `data` are offsets from `base`, sizes are whole pages. */
typedef struct code_room {
    code_slab *slab;
    uint8_t *base;
    size_t text, text_size, data, data_size;
    size_t length; /* of the code of the first function that was asked for */
} code_room;

void code_open(code_store *c, heap *h);
/* Room for so many bytes of code and of constants, zeroed and writable until it is sealed. false:
 * there is no memory. Never raises. */
bool code_take(code_store *c, size_t text, size_t data, code_room *out);
bool code_seal(const code_room *r); /* executable the one, read-only the other; or refused */
void code_give(code_store *c, code_room *r); /* zeroes it; an all-zero room is fine */
void code_close(code_store *c);              /* every room was given back */

#endif
