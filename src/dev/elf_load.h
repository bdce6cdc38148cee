/* elf_load.h - put one relocatable object into memory, ready to be called. See elf_load.c. */
#ifndef QN_ELF_LOAD_H
#define QN_ELF_LOAD_H

#include "base/base.h"

/* Pages of an object's code and constants; nothing in them can be written any more. */
typedef struct elf_image {
    uint8_t *base;
    size_t size;
} elf_image;

/* What elf_load() returns when there is no memory; told from other reasons by its address. */
extern const char elf_no_memory[];
/* Load `object` and find `n` functions of it. Returns NULL, or a constant text saying what is wrong
 * (then nothing stays mapped). Scratch memory comes from the heap; never raises. */
const char *elf_load(heap *h, const void *object, size_t size, int n, const char *const *name,
                     void **function, elf_image *image);
void elf_unload(elf_image *image); /* an all-zero image is fine */

#endif
