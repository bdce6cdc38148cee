/* load.c - finding libLLVM at run time, and target machines for each context.
 *
 * Nothing of LLVM is linked: a program that never compiles a kernel, or finds every kernel in its
 * cache, runs without it. Any version from LLVM_OLDEST to LLVM_NEWEST will do; of those that the
 * loader finds the newest is taken, unless knob llvm names a version or a file.
 *
 * A library's table of functions is filled once in a process, because LLVM's own registry of
 * targets is the process's; after that the table never changes. So each demand, as the knob has it,
 * is answered once, under a lock, and contexts with different demands each have their own library;
 * LLVM's symbols carry their version, so several can be loaded. None is unloaded: it holds
 * thread-local and static state of its own that would not come back. */
#include "emit/llvm/llvm.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* As Debian, Ubuntu and Arch, Fedora, LLVM itself, Alpine, Gentoo and Homebrew name a version's. */
static const char *const patterns[] = {"libLLVM.so.%d.1",
                                       "libLLVM-%d.so.1",
                                       "libLLVM-%d.so",
                                       "libLLVM.so.%d",
                                       "/usr/lib/llvm-%d/lib/libLLVM.so.1",
                                       "/usr/lib/llvm-%d/lib/libLLVM.so",
                                       "/usr/lib64/llvm%d/lib/libLLVM.so",
                                       "/usr/lib/llvm%d/lib/libLLVM.so",
                                       "/usr/lib/llvm/%d/lib64/libLLVM.so",
                                       "/home/linuxbrew/.linuxbrew/opt/llvm@%d/lib/libLLVM.so"};

/* What one value of the knob came to. `asked` stays empty in slots that nobody has used. */
typedef struct loaded {
    bool used;
    char asked[256];
    llvm_api api;   /* major 0: none was found */
    char told[512]; /* why none was, or none newer */
} loaded;

enum { MOST_LOADED = 16 };
static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
static loaded loaded_libraries[MOST_LOADED];

static void tell(loaded *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void tell(loaded *l, const char *format, ...) {
    size_t n = strlen(l->told);
    va_list args;
    va_start(args, format);
    if (n) n += (size_t)snprintf(l->told + n, sizeof l->told - n, "; ");
    if (n < sizeof l->told) vsnprintf(l->told + n, sizeof l->told - n, format, args);
    va_end(args);
}

/* The functions' names one behind the other, each with its 0, and their places in the table. */
static const char function_names[] =
#define X(name, returns, parameters) "LLVM" #name "\0"
    LLVM_API(X)
#undef X
    ;
static const uint16_t function_at[] = {
#define X(name, returns, parameters) offsetof(llvm_api, name),
    LLVM_API(X)
#undef X
};

/* The first function that the library lacks, NULL: it has them all. */
static const char *find_functions(void *library, llvm_api *api) {
    const char *lacks = NULL, *name = function_names;
    void *f;
    for (size_t i = 0; i < COUNT_OF(function_at); i++, name += strlen(name) + 1) {
        f = dlsym(library, name);
        memcpy((char *)api + function_at[i], &f, sizeof f);
        if (!f && !lacks) lacks = name;
    }
    f = dlsym(library, "LLVMGetVersion");
    memcpy(&api->get_version, &f, sizeof f);
    return lacks;
}

/* 15 has no function that tells; what an older one lacks shows. */
static void find_version(llvm_api *api, bool complete) {
    api->major = complete ? 15 : 0;
    if (api->get_version) api->get_version(&api->major, &api->minor, &api->patch);
}

static bool take(loaded *l, const char *name, void *library) {
    llvm_api api = {.major = 0};
    const char *lacks = find_functions(library, &api);
    find_version(&api, !lacks);
    if (!api.major || api.major < LLVM_OLDEST || api.major > LLVM_NEWEST) {
        if (api.major)
            tell(l, "%s is version %u, not %d to %d", name, api.major, LLVM_OLDEST, LLVM_NEWEST);
        else
            tell(l, "%s is no libLLVM of version %d to %d: it lacks %s", name, LLVM_OLDEST,
                 LLVM_NEWEST, lacks);
    } else if (lacks) {
        tell(l, "%s, version %u, lacks %s", name, api.major, lacks);
    } else {
        api.InitializeX86TargetInfo();
        api.InitializeX86Target();
        api.InitializeX86TargetMC();
        api.InitializeX86AsmPrinter();
        l->api = api;
        return true;
    }
    dlclose(library);
    return false;
}

static bool try_version(loaded *l, int version) {
    bool found = false;
    for (size_t i = 0; i < COUNT_OF(patterns); i++) {
        char name[80];
        snprintf(name, sizeof name, patterns[i], version);
        void *library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
        if (!library) continue;
        found = true;
        if (take(l, name, library)) return true;
    }
    if (!found) tell(l, "libLLVM %d is not installed", version);
    return false;
}

static void try_file(loaded *l, const char *file) {
    void *library = dlopen(file, RTLD_LAZY | RTLD_LOCAL);
    const char *why = library ? NULL : dlerror();
    if (!library)
        tell(l, "%s", why ? why : file);
    else
        take(l, file, library);
}

static void load(loaded *l, const char *asked) {
#if !defined(__x86_64__)
    (void)try_version, (void)try_file;
    tell(l, "kernels are compiled for x86-64 only");
#else
    char *end;
    long version = strtol(asked, &end, 10);
    if (!library_loading()) {
        tell(l, "a static program loads no libLLVM");
    } else if (strchr(asked, '/')) {
        try_file(l, asked);
    } else if (!*asked) {
        for (int v = LLVM_NEWEST; v >= LLVM_OLDEST && !l->api.major; v--) try_version(l, v);
    } else if (*end || version < LLVM_OLDEST || version > LLVM_NEWEST) {
        tell(l, "QN_LLVM is \"%.100s\", not a version from %d to %d or a file with a slash", asked,
             LLVM_OLDEST, LLVM_NEWEST);
    } else {
        try_version(l, (int)version);
    }
#endif
}

/* NULL, with the reason: there is no room for another demand. */
static const loaded *answer(const char *asked, str *why) {
    const loaded *out = NULL;
    pthread_mutex_lock(&load_lock);
    for (int i = 0; i < MOST_LOADED && !out; i++) {
        loaded *l = &loaded_libraries[i];
        if (!l->used) {
            l->used = true;
            snprintf(l->asked, sizeof l->asked, "%s", asked);
            load(l, l->asked);
        }
        if (!strcmp(l->asked, asked)) out = l;
    }
    pthread_mutex_unlock(&load_lock);
    if (!out) str_addf(why, "%d values of QN_LLVM in one process are too many", MOST_LOADED);
    return out;
}

/* ---- targets -------------------------------------------------------------------------------- */

static const char *cpu_of(const emit_llvm *e) {
    return e->isa.cpu ? e->isa.cpu : e->cpu;
}

static bool open_target(emit_llvm *e, char *why, size_t size) {
    const llvm_api *L = e->L;
    char *triple = L->GetDefaultTargetTriple(), *message = NULL;
    snprintf(e->triple, sizeof e->triple, "%s", triple);
    L->DisposeMessage(triple);
    e->cpu = L->GetHostCPUName();
    e->features = L->GetHostCPUFeatures();
    bool whole = e->isa.vnni || e->isa.avx2;
    const bool dot[IR_DOTS] = {whole, whole, e->isa.bf16};
    for (int i = 0; i < IR_DOTS; i++) e->dots[i] = dot[i];
    if (L->GetTargetFromTriple(e->triple, &e->target, &message)) {
        snprintf(why, size, "LLVM: %s", message ? message : "no target for this machine");
        L->DisposeMessage(message);
        return false;
    }
    if (llvm_machine(e, 0, false)) return true;
    snprintf(why, size, "LLVM makes no code for this machine");
    return false;
}

emit_llvm *emit_llvm_open(qn_ctx *qn, const emit_isa *isa, str *why) {
    const loaded *l = answer(qn->knob[KNOB_LLVM].text, why);
    if (!l) return NULL;
    if (!l->api.major) {
        str_add(why, l->told);
        return NULL;
    }
    emit_llvm *e = heap_zeroed(&qn->heap, sizeof *e);
    e->ctx = qn;
    e->L = &l->api;
    e->isa = *isa;
    e->told = l->told;
    char reason[200];
    if (open_target(e, reason, sizeof reason)) return e;
    emit_llvm_close(e);
    str_add(why, reason);
    return NULL;
}

const char *emit_llvm_file(const emit_llvm *e) {
    Dl_info info;
    void *f;
    memcpy(&f, &e->L->ContextCreate, sizeof f);
    return dladdr(f, &info) && info.dli_fname ? info.dli_fname : "";
}

void emit_llvm_tell(const emit_llvm *e, str *out) {
    const llvm_api *L = e->L;
    str_addf(out, "libLLVM %u", L->major);
    if (L->get_version) str_addf(out, ".%u.%u", L->minor, L->patch);
    str_addf(out, ", %s", emit_llvm_file(e));
    if (*e->told) str_addf(out, " (%s)", e->told);
}

ll_machine llvm_machine(emit_llvm *e, int lane, bool large) {
    ll_machine *m = &e->machine[large][lane];
    if (!*m)
        *m = e->L->CreateTargetMachine(
            e->target, e->triple, cpu_of(e), e->isa.cpu ? "" : e->features,
            large ? LL_OPTIMIZE_NONE : LL_OPTIMIZE_DEFAULT, LL_RELOC_PIC, LL_CODE_SMALL);
    return *m;
}

void emit_llvm_close(emit_llvm *e) {
    if (!e) return;
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < EMIT_LANES; k++)
            if (e->machine[i][k]) e->L->DisposeTargetMachine(e->machine[i][k]);
    if (e->cpu) e->L->DisposeMessage(e->cpu);
    if (e->features) e->L->DisposeMessage(e->features);
    heap_free(&e->ctx->heap, e, sizeof *e);
}
