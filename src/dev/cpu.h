/* cpu.h - the CPU device's own parts: cpu.c runs programs, the others make or find objects. */
#ifndef QN_CPU_H
#define QN_CPU_H

#include "dev/dev.h"
#include "emit/emit.h"

typedef struct cpu {
    qn_ctx *ctx; /* first: dev_host_* look for it here */
    pool *pool;
    uint8_t *scratch;
    size_t scratch_each; /* bytes for one thread */
    bool chosen;         /* how objects are made is known: by llvm, or if that is NULL, by cc */
    emit_llvm *llvm;
    bool cached; /* the folder of knob cache is trusted */
} cpu;

/* ---- cpu_compile.c --------------------------------------------------------------------------- */

/* Find out how objects are made here; false with the reason in `why`. */
bool cpu_choose_compiler(cpu *c, str *why);
/* One kernel on its way to an object. The caller gives `k` and opens and frees the strings. */
typedef struct cpu_unit {
    kern *k;
    str key, text, object;
    emit_unit *llvm; /* under way */
    bool cached;     /* the object came from the disk cache */
    double seconds;  /* spent on it */
} cpu_unit;
/* Make or find every unit's object; LLVM runs on all threads at once. Raises. */
void cpu_compile(cpu *c, int n, cpu_unit *unit);
bool cpu_wide(void); /* are there vectors of 512 bits? */

/* ---- cpu_cc.c -------------------------------------------------------------------------------- */

bool cpu_cc_found(qn_ctx *qn); /* is the program of knob cc there? */
void cpu_cc_compile(qn_ctx *qn, const char *name, const str *text, str *object); /* raises */

/* ---- cpu_cache.c ----------------------------------------------------------------------------- */

bool cpu_cache_open(qn_ctx *qn); /* may the folder of knob cache be trusted? Made where missing. */
/* The object kept under a key; false: there is none that can be trusted. Raises only QN_ENOMEM. */
bool cpu_cache_get(qn_ctx *qn, const str *key, str *object);
void cpu_cache_put(qn_ctx *qn, const str *key, const str *object); /* failing is no error */

#endif
