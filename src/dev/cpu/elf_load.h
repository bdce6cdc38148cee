/* elf_load.h - put one relocatable object into memory, ready to be called. See elf_load.c. */
#ifndef QN_ELF_LOAD_H
#define QN_ELF_LOAD_H

#include "dev/cpu/code.h"

/* What elf_load() returns when there is no memory; told from other reasons by its address. */
extern const char elf_no_memory[];
/* An object, and the n functions of it that are wanted. */
typedef struct elf_object {
    const void *bytes;
    size_t size;
    int n;
    const char *const *name;
} elf_object;
/* Load it into pages of the store, sealed, and find its functions. Returns NULL, or a constant text
 * saying what is wrong (then no pages are taken). Never raises. */
const char *elf_load(code_store *c, const elf_object *object, void **function, code_room *room);

#endif
