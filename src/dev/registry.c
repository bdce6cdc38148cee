/* registry.c - the built-in devices, and the memory functions that host devices share.
 *
 * The order is the one in which devices are listed. Nothing is opened here: a context opens the one
 * it was asked for. */
#include "dev/dev.h"

static const dev_table *const built_in[] = {&dev_cpu, &dev_opencl, &dev_ref, &dev_null};

const dev_table *dev_at(int i) {
    return i >= 0 && i < (int)COUNT_OF(built_in) ? built_in[i] : NULL;
}

const dev_table *dev_find(const char *name) {
    for (int i = 0; i < (int)COUNT_OF(built_in); i++)
        if (!strcmp(built_in[i]->name, name)) return built_in[i];
    return NULL;
}

void dev_made_cleanup(void *made) {
    const dev_made *m = made;
    m->unload(m->state, m->program);
}

void dev_compile_many(const dev_table *t, void *state, int n, kernel *const *k, dev_program **out) {
    for (int i = 0; i < n; i++) out[i] = NULL;
    if (t->compile_many) t->compile_many(state, n, k, out);
    for (int i = 0; i < n; i++)
        if (!out[i]) out[i] = t->compile(state, k[i]);
}

qn_code dev_check_set(qn_ctx *qn, const dev_program *p, emit_facts *f, const dev_set *set) {
    for (int i = 0; i < f->vars; i++) {
        int64_t lo = sym_lo(f->syms, f->var[i]), hi = sym_hi(f->syms, f->var[i]);
        if (set->var[i] < lo || set->var[i] > hi)
            return fail(qn, QN_ERANGE, "kernel %s: variable %d is %lld, outside [%lld, %lld]",
                        p->name, i, (long long)set->var[i], (long long)lo, (long long)hi);
    }
    if (f->vars && !emit_facts_at(f, set->var))
        return fail(qn, QN_EINTERNAL, "kernel %s: a launch without numbers", p->name);
    for (int i = 0; i < p->args; i++)
        if ((int64_t)set->arg[i].size < f->number[EMIT_SIZES + i])
            return fail(qn, QN_EINTERNAL, "kernel %s: argument %d has %zu bytes, not %lld", p->name,
                        i, set->arg[i].size, (long long)f->number[EMIT_SIZES + i]);
    return QN_OK;
}

static heap *state_heap(void *state) {
    return &(*(qn_ctx **)state)->heap;
}

void *dev_host_alloc(void *state, size_t size) {
    return heap_try(state_heap(state), size ? size : 1);
}

void dev_host_free(void *state, void *memory, size_t size) {
    heap_free(state_heap(state), memory, size ? size : 1);
}

qn_code dev_host_copy_in(void *state, void *memory, size_t offset, const void *from, size_t size) {
    (void)state;
    if (size) memcpy((char *)memory + offset, from, size);
    return QN_OK;
}

qn_code dev_host_copy_out(void *state, const void *memory, size_t offset, void *to, size_t size) {
    (void)state;
    if (size) memcpy(to, (const char *)memory + offset, size);
    return QN_OK;
}
