/* llvm_load.c - finding libLLVM at run time, and target machines for each context.
 *
 * Nothing of LLVM is linked: a program that never compiles a kernel, or finds every kernel in its
 * cache, runs without it. The table of functions is filled once in a process, because LLVM's own
 * registry of targets is the process's; after that the table never changes. The library is not
 * unloaded: it holds thread-local and static state of its own that would not come back. */
#include "emit/llvm.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

enum { LLVM_MAJOR = 19 };
static const char *const libraries[] = {"libLLVM.so.19.1",
                                        "libLLVM-19.so.1",
                                        "libLLVM-19.so",
                                        "libLLVM.so.19",
                                        "/usr/lib/llvm-19/lib/libLLVM.so.1",
                                        "/usr/lib/llvm-19/lib/libLLVM.so"};

static pthread_once_t load_once = PTHREAD_ONCE_INIT;
static llvm_api loaded_api;
static const char *load_failure = "no libLLVM of version 19";

static bool find_functions(void *library, llvm_api *api) {
    void *f;
    bool all = true;
#define X(name, returns, parameters)                                                               \
    f = dlsym(library, "LLVM" #name);                                                              \
    memcpy(&api->name, &f, sizeof f);                                                              \
    all = all && f;
    LLVM_API(X)
#undef X
    return all;
}

static void load_library(void) {
#if !defined(__x86_64__)
    load_failure = "kernels are compiled for x86-64 only";
    return;
#endif
    if (!library_loading()) {
        load_failure = "a static program loads no libLLVM";
        return;
    }
    for (size_t i = 0; i < COUNT_OF(libraries); i++) {
        void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_LOCAL);
        if (!library) continue;
        llvm_api api;
        unsigned major = 0, minor, patch;
        if (find_functions(library, &api)) api.GetVersion(&major, &minor, &patch);
        if (major != LLVM_MAJOR) {
            load_failure = "libLLVM lacks functions of version 19";
            dlclose(library);
            continue;
        }
        api.InitializeX86TargetInfo();
        api.InitializeX86Target();
        api.InitializeX86TargetMC();
        api.InitializeX86AsmPrinter();
        loaded_api = api;
        load_failure = NULL;
        return;
    }
}

static bool has_feature(const char *features, const char *name) {
    const char *at = strstr(features, name);
    return at && (at[strlen(name)] == ',' || !at[strlen(name)]);
}

/* The kernels' vectors are compiled for what the processor has; below AVX2 and FMA the C compiler
 * does as well, and knows how to do without. */
static bool open_target(emit_llvm *e, char *why, size_t size) {
    const llvm_api *L = e->L;
    char *triple = L->GetDefaultTargetTriple(), *message = NULL;
    snprintf(e->triple, sizeof e->triple, "%s", triple);
    L->DisposeMessage(triple);
    e->cpu = L->GetHostCPUName();
    e->features = L->GetHostCPUFeatures();
    bool able = has_feature(e->features, "+avx2") && has_feature(e->features, "+fma") &&
                has_feature(e->features, "+f16c");
    e->avx512 = has_feature(e->features, "+avx512vl") && has_feature(e->features, "+avx512bw") &&
                has_feature(e->features, "+avx512dq");
    static const char *const dot[KERN_DOTS] = {"+avx512vnni", "+avx512vnni", "+avx512bf16"};
    for (int i = 0; i < KERN_DOTS; i++) e->dots[i] = e->avx512 && has_feature(e->features, dot[i]);
    if (!able) {
        snprintf(why, size, "the processor has no AVX2, FMA and F16C");
    } else if (L->GetTargetFromTriple(e->triple, &e->target, &message)) {
        snprintf(why, size, "LLVM: %s", message ? message : "no target for this machine");
        L->DisposeMessage(message);
    } else {
        if (llvm_machine(e, 0)) return true;
        snprintf(why, size, "LLVM makes no code for this machine");
    }
    return false;
}

emit_llvm *emit_llvm_open(qn_ctx *qn, str *why) {
    pthread_once(&load_once, load_library);
    if (load_failure) {
        str_add(why, load_failure);
        return NULL;
    }
    emit_llvm *e = heap_zeroed(&qn->heap, sizeof *e);
    e->ctx = qn;
    e->L = &loaded_api;
    char reason[200];
    if (open_target(e, reason, sizeof reason)) return e;
    emit_llvm_close(e);
    str_add(why, reason);
    return NULL;
}

const char *emit_llvm_file(const emit_llvm *e) {
    Dl_info info;
    void *f;
    memcpy(&f, &e->L->GetVersion, sizeof f);
    return dladdr(f, &info) && info.dli_fname ? info.dli_fname : "";
}

ll_machine llvm_machine(emit_llvm *e, int lane) {
    if (!e->machine[lane])
        e->machine[lane] =
            e->L->CreateTargetMachine(e->target, e->triple, e->cpu, e->features,
                                      LL_OPTIMIZE_DEFAULT, LL_RELOC_PIC, LL_CODE_SMALL);
    return e->machine[lane];
}

void emit_llvm_close(emit_llvm *e) {
    if (!e) return;
    for (int i = 0; i < EMIT_LANES; i++)
        if (e->machine[i]) e->L->DisposeTargetMachine(e->machine[i]);
    if (e->cpu) e->L->DisposeMessage(e->cpu);
    if (e->features) e->L->DisposeMessage(e->features);
    heap_free(&e->ctx->heap, e, sizeof *e);
}
