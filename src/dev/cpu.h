/* cpu.h - the CPU device's own parts: cpu.c runs programs, cpu_compile.c makes objects. */
#ifndef QN_CPU_H
#define QN_CPU_H

#include "dev/dev.h"
#include "emit/emit.h"

typedef struct cpu {
    qn_ctx *ctx; /* first: dev_host_* look for it here */
    pool *pool;
    uint8_t *scratch;
    size_t scratch_each; /* bytes for one thread */
    emit_llvm *llvm;     /* NULL: the C compiler makes objects */
    const char *cc;
} cpu;

/* Find out how objects are made here; false with the reason in `why`. */
bool cpu_choose_compiler(cpu *c, str *why);
/* Append the kernel's object to `out`. Raises. */
void cpu_compile(cpu *c, kern *k, str *out);

#endif
