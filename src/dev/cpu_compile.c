/* cpu_compile.c - how a kernel becomes an object. */
#include "dev/cpu.h"

bool cpu_choose_compiler(cpu *c, str *why) {
    c->llvm = emit_llvm_open(c->ctx, why);
    return c->llvm != NULL;
}

void cpu_compile(cpu *c, kern *k, str *out) {
    emit_llvm_object(c->llvm, k, out);
}
