/* load.c - finding a LAPACK library at run time.
 *
 * OpenBLAS is looked for under the names that distributions give it, then what they call LAPACK,
 * which is OpenBLAS, too, where that was chosen; LAPACK over the reference BLAS, in plain loops, is
 * no faster than our own routines and is taken only where knob lapack names it. Wheels of SciPy
 * carry an OpenBLAS whose functions have a prefix.
 *
 * OpenBLAS has threads of its own, as many as a process says. A library that this process has not
 * loaded yet is ours alone, and set to one; what a program has loaded itself stays as it set it,
 * and its results' bits are then that setting's. */
#include "routine/lapack/lapack.h"

#include <dlfcn.h>
#include <stdio.h>

static const char *const names[] = {"libopenblas.so.0", "libopenblasp.so.0", "libopenblas.so",
                                    "libopenblas.dylib", "liblapack.so.3"};
static const char *const prefixes[] = {"", "scipy_"};

static void *function(void *library, const char *prefix, const char *name) {
    char text[80];
    snprintf(text, sizeof text, "%s%s", prefix, name);
    return dlsym(library, text);
}

static const struct {
    const char *name;
    size_t at;
} functions[] = {
#define X(name, arguments) {#name, offsetof(lapack_functions, name)},
    LAPACK_API(X)
#undef X
};

/* Has the library all functions of elements of `type`? */
static bool find_functions(void *library, const char *prefix, char type, lapack_functions *out) {
    for (size_t i = 0; i < COUNT_OF(functions); i++) {
        char name[40];
        snprintf(name, sizeof name, "%c%s_", type, functions[i].name);
        void *f = function(library, prefix, name);
        memcpy((char *)out + functions[i].at, &f, sizeof f);
        if (!f) return false;
    }
    return true;
}

/* Whose threads can be counted it is no plain one. */
static bool set_threads(void *library, const char *prefix, bool alone) {
    void (*set)(int n) = NULL;
    void *f = function(library, prefix, "openblas_set_num_threads");
    memcpy(&set, &f, sizeof f);
    if (set && alone) set(1);
    return set;
}

static bool has_long_integers(void *library, const char *prefix) {
    char *(*config)(void) = NULL;
    void *f = function(library, prefix, "openblas_get_config");
    memcpy(&config, &f, sizeof f);
    return config && strstr(config(), "USE64BITINT");
}

static const char *file_of(const lapack *l) {
    Dl_info info;
    void *f;
    memcpy(&f, &l->f64.potrf, sizeof f);
    return dladdr(f, &info) && info.dli_fname ? info.dli_fname : "";
}

/* NULL, or why it is not taken. */
static const char *take(lapack *l, void *library, bool alone, bool named) {
    for (size_t i = 0; i < COUNT_OF(prefixes); i++) {
        const char *prefix = prefixes[i];
        if (!find_functions(library, prefix, 's', &l->f32) ||
            !find_functions(library, prefix, 'd', &l->f64))
            continue;
        if (has_long_integers(library, prefix)) return "has integers of 64 bits";
        if (!set_threads(library, prefix, alone) && !named) return "is a plain one, no faster";
        return NULL;
    }
    return "is no LAPACK";
}

static bool try_name(lapack *l, const char *name, bool named) {
    void *before = dlopen(name, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
    void *library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    const char *why = library ? take(l, library, !before, named) : named ? "is not here" : "";
    if (before) dlclose(before);
    if (!why) {
        snprintf(l->told, sizeof l->told, "%s", file_of(l));
        return true;
    }
    if (library) dlclose(library);
    if (!*why) return false;
    size_t n = strlen(l->told);
    snprintf(l->told + n, sizeof l->told - n, "%s%s %s", n ? "; " : "", name, why);
    return false;
}

/* A library is not unloaded: its threads and memory would not come back. */
lapack *lapack_open(heap *h, const char *asked) {
    lapack *l = heap_zeroed(h, sizeof *l);
    if (!library_loading())
        snprintf(l->told, sizeof l->told, "a static program loads no libraries");
    else if (!strcmp(asked, "no"))
        snprintf(l->told, sizeof l->told, "QN_LAPACK=no");
    else if (*asked)
        l->here = try_name(l, asked, true);
    else
        for (size_t i = 0; i < COUNT_OF(names) && !l->here; i++)
            l->here = try_name(l, names[i], false);
    if (!*l->told) snprintf(l->told, sizeof l->told, "no OpenBLAS is installed");
    return l;
}

void lapack_close(heap *h, lapack *l) {
    if (l) heap_free(h, l, sizeof *l);
}

bool lapack_here(const lapack *l) {
    return l->here;
}

const char *lapack_told(const lapack *l) {
    return l->told;
}
