/* disassemble.c - a program's machine code as text, by the disassembler of the libLLVM that
 * compiles kernels. Where there is none, as where the C compiler makes them, there is no text. */
#include "dev/cpu/cpu.h"

#include <dlfcn.h>
#include <stdlib.h>

enum { MOST_INSTRUCTIONS = 2000, INTEL = 4 /* LLVM's option for Intel's syntax */ };

/* LLVM's C API, as far as it takes. */
typedef struct disassembler {
    void (*init)(void);
    void *(*create)(const char *triple, const char *processor, void *info, int tag, void *op,
                    void *symbol);
    int (*options)(void *d, uint64_t options);
    size_t (*instruction)(void *d, uint8_t *bytes, uint64_t size, uint64_t at, char *out,
                          size_t room);
    void (*dispose)(void *d);
} disassembler;

static bool find(void *library, disassembler *d) {
    static const char *const name[] = {"LLVMInitializeX86Disassembler", "LLVMCreateDisasmCPU",
                                       "LLVMSetDisasmOptions", "LLVMDisasmInstruction",
                                       "LLVMDisasmDispose"};
    void *f[COUNT_OF(name)];
    _Static_assert(sizeof f == sizeof *d, "a function each");
    for (size_t i = 0; i < COUNT_OF(name); i++)
        if (!(f[i] = dlsym(library, name[i]))) return false;
    memcpy(d, f, sizeof f);
    return true;
}

static void write_all(const disassembler *d, void *with, const uint8_t *code, size_t size,
                      str *out) {
    char line[256];
    size_t at = 0;
    for (int i = 0; at < size && i < MOST_INSTRUCTIONS; i++) {
        size_t n =
            d->instruction(with, (uint8_t *)(uintptr_t)code + at, size - at, at, line, sizeof line);
        if (!n) break;
        at += n;
        const char *jump = line[0] == '\t' && line[1] == 'j' ? strrchr(line, '\t') : NULL;
        long to = jump ? strtol(jump + 1, NULL, 10) : 0; /* from behind the instruction */
        if (to)
            str_addf(out, "%6zx%.*s\t%lx\n", at - n, (int)(jump - line), line, (long)at + to);
        else
            str_addf(out, "%6zx%s\n", at - n, line);
    }
    if (at < size) str_addf(out, "... and %zu bytes more\n", size - at);
}

typedef struct taking_apart {
    void *library;
    disassembler d;
    void *with;
    emit_llvm *own;
} taking_apart;

static void end(void *of) {
    taking_apart *t = of;
    if (t->with) t->d.dispose(t->with);
    if (t->library) dlclose(t->library);
    emit_llvm_close(t->own);
}

void cpu_disassemble(cpu *c, const void *code, size_t size, str *out) {
    taking_apart t = {NULL, {0}, NULL, NULL};
    cleanup undo, text;
    str why;
    if (!size || c->by_cc) return;
    str_open(&why, &c->ctx->heap);
    cleanup_push(&c->ctx->heap, &text, str_cleanup, &why);
    cleanup_push(&c->ctx->heap, &undo, end, &t);
    const emit_llvm *llvm = c->llvm ? c->llvm : (t.own = emit_llvm_open(c->ctx, &c->isa, &why));
    if (llvm) t.library = dlopen(emit_llvm_file(llvm), RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
    if (t.library && find(t.library, &t.d)) {
        t.d.init();
        t.with = t.d.create("x86_64-unknown-linux-gnu", "", NULL, 0, NULL, NULL);
        if (t.with) t.d.options(t.with, INTEL);
        if (t.with) write_all(&t.d, t.with, code, size, out);
    }
    cleanup_run(&c->ctx->heap, &undo);
    cleanup_run(&c->ctx->heap, &text);
}
