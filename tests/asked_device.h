/* asked_device.h - what a device is asked to do, as a number, without doing it: the kernels, by
 * their text and by what the emitter makes of it, the memory of each launch, what is in there that
 * was not computed, the sizes. Two states of the library that ask the same compute the same, as far
 * as what is behind it (dev/, LLVM) is the same: of a million graphs only those have to be run
 * again that ask something else. Nothing is computed: results are of one byte, zeros mostly. */
#ifndef QN_ASKED_DEVICE_H
#define QN_ASKED_DEVICE_H

#include <stdlib.h>

#include "dev/cpu/cpu.h"
#include "run/run.h"

enum { ASKED_MEMORIES = 4096 };

/* The device that is asked; one at a time. */
typedef struct asked_device {
    dev_table table;
    const dev_table *dev;
    qn_ctx *qn;
    emit_llvm *llvm; /* NULL: kernels are told by their text only */
    uint64_t hash;   /* of all since asked_begin */
    int fill;        /* each byte of a result: 1 for conditions that hold */
    const void *seen[ASKED_MEMORIES];
    int seens;
} asked_device;

static asked_device asked_now;

typedef struct asked_program {
    dev_program base;
    uint64_t hash;
    uint8_t *access; /* of each argument: ACCESS bits */
} asked_program;

static inline void asked_add(uint64_t x) {
    asked_now.hash = hash_mix(asked_now.hash, x);
}

/* A graph begins: memory that is left from before is new. */
static inline void asked_begin(void) {
    asked_now.hash = 0;
    asked_now.seens = 0;
}

static inline uint64_t asked_hash(kernel *k) {
    qn_ctx *qn = asked_now.qn;
    str text;
    str_open(&text, &qn->heap);
    ir_print(k, &text);
    uint64_t hash = hash_bytes(text.s, text.len, 1);
    text.len = 0;
    emit_unit *u = asked_now.llvm ? emit_llvm_begin(asked_now.llvm) : NULL;
    if (u) {
        emit_llvm_add(u, k);
        emit_llvm_text(u, &text);
        emit_llvm_drop(u);
        hash = hash_bytes(text.s, text.len, hash);
    }
    str_free(&text);
    return hash;
}

static inline dev_program *asked_compile(void *state, kernel *k) {
    heap *h = &asked_now.qn->heap;
    inplace_pair over[64];
    (void)state;
    uint64_t hash = asked_hash(k);
    asked_add(hash); /* it may never be launched */
    int n = asked_now.dev == &dev_opencl ? 0
            : asked_now.llvm             ? inplace_pairs(k, 64, over)
                                         : rest_pairs(k, 64, over);
    size_t name = strlen(k->name) + 1, args = (size_t)k->args;
    asked_program *p = heap_zeroed(h, sizeof *p);
    char *kept = heap_alloc(h, name);
    p->base =
        (dev_program){.name = memcpy(kept, k->name, name), .args = k->args, .vars = ir_vars(k)};
    p->hash = hash;
    p->access = heap_zeroed(h, args + 1);
    for (mem_id m = 1; m < k->mems; m++)
        if (ir_m(k, m)->scope == MEM_ARG) p->access[ir_m(k, m)->arg] |= (uint8_t)ir_m(k, m)->access;
    p->base.over = heap_alloc(h, (size_t)n * sizeof *over + 1);
    if (n) memcpy(p->base.over, over, (size_t)n * sizeof *over);
    p->base.inplaces = n;
    return &p->base;
}

static inline void asked_unload(void *state, dev_program *program) {
    heap *h = &asked_now.qn->heap;
    asked_program *p = (asked_program *)program;
    (void)state;
    heap_free(h, p->base.over, (size_t)p->base.inplaces * sizeof(inplace_pair) + 1);
    heap_free(h, p->access, (size_t)p->base.args + 1);
    heap_free(h, (void *)(uintptr_t)p->base.name, strlen(p->base.name) + 1);
    heap_free(h, p, sizeof *p);
}

/* The memory's number among those of this graph. */
static inline uint64_t asked_memory(const void *memory) {
    for (int i = asked_now.seens; i-- > 0;)
        if (asked_now.seen[i] == memory) return (uint64_t)i;
    if (asked_now.seens == ASKED_MEMORIES) abort();
    asked_now.seen[asked_now.seens] = memory;
    return (uint64_t)asked_now.seens++;
}

static inline void asked_set(const asked_program *p, const dev_set *set) {
    asked_add(p->hash);
    for (int i = 0; i < p->base.vars; i++) asked_add((uint64_t)set->var[i]);
    for (int i = 0; i < p->base.args; i++) {
        const dev_slice *a = &set->arg[i];
        asked_add(asked_memory(a->memory));
        asked_add(a->offset), asked_add(a->size);
        if (p->access[i] & ACCESS_READ)
            asked_add(hash_bytes((const char *)a->memory + a->offset, a->size, 2));
    }
    for (int i = 0; i < p->base.args; i++)
        if (p->access[i] & ACCESS_WRITE && set->arg[i].size)
            memset((char *)set->arg[i].memory + set->arg[i].offset, asked_now.fill,
                   set->arg[i].size);
}

static inline qn_code asked_launch(void *state, dev_program *program, int sets,
                                   const dev_set *set) {
    (void)state;
    for (int s = 0; s < sets; s++) asked_set((const asked_program *)program, &set[s]);
    return QN_OK;
}

static inline qn_code asked_launch_many(void *state, int n, const dev_launch *all) {
    asked_add((uint64_t)n);
    for (int i = 0; i < n; i++) asked_launch(state, all[i].program, (int)all[i].sets, all[i].set);
    return QN_OK;
}

static inline void *asked_alloc(void *state, size_t size) {
    void *memory = dev_host_alloc(state, size);
    if (memory && size) memset(memory, 0, size);
    return memory;
}

/* What is allocated next may lie where this was, and is another. */
static inline void asked_free(void *state, void *memory, size_t size) {
    for (int i = 0; i < asked_now.seens; i++)
        if (asked_now.seen[i] == memory) asked_now.seen[i] = NULL;
    dev_host_free(state, memory, size);
}

/* The context is asked from now on. `llvm`: its kernels are made by it. */
static inline void asked_open(qn_ctx *qn, bool llvm) {
    run_state *r = qn->run;
    asked_now.dev = r->dev, asked_now.qn = qn;
    asked_now.table = *r->dev;
    asked_now.llvm = NULL;
    if (llvm) {
        str told;
        str_open(&told, &qn->heap);
        cpu_tell_compiler(r->dev_state, &told); /* it is chosen now */
        str_free(&told);
        asked_now.llvm = ((cpu *)r->dev_state)->llvm;
        if (!asked_now.llvm) abort();
    }
    dev_table *t = &asked_now.table;
    t->compile = asked_compile, t->compile_many = NULL, t->unload = asked_unload;
    t->launch = asked_launch, t->launch_many = asked_launch_many;
    t->work = NULL, t->assembly = NULL, t->check = NULL;
    t->alloc = asked_alloc, t->free = asked_free;
    t->copy_in = dev_host_copy_in, t->copy_out = dev_host_copy_out;
    r->dev = t;
}

#endif
