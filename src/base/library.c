/* library.c - libraries that are loaded at run time.
 *
 * A program linked statically has no dynamic loader, and glibc's dlopen in one loads a second C
 * library beside the first, which crashes. Whether there is a loader the program's own headers say:
 * they name it as the interpreter (PT_INTERP). */
#include "base/base.h"

#include <dlfcn.h>
#include <link.h>

/* The program itself comes first. */
static int find_interpreter(struct dl_phdr_info *info, size_t size, void *found) {
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_INTERP) *(bool *)found = true;
    return 1;
}

bool library_loading(void) {
    bool found = false;
    dl_iterate_phdr(find_interpreter, &found);
    return found;
}

void *library_open(const char *name, int flags, str *why) {
    void *library = library_loading() ? dlopen(name, flags) : NULL;
    if (library) return library;
    if (library_loading())
        str_addf(why, "no library \"%s\"", name);
    else
        str_add(why, "a static program loads no libraries");
    return NULL;
}
