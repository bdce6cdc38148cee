/* null.c - the device that checks everything and computes nothing.
 *
 * It holds a launch against what was promised: the kernel is well formed, every variable lies in
 * its bounds, every argument lies in memory that is alive, inside of it, large enough and aligned,
 * and what is written overlaps nothing else, of that set or of those that may run beside it. Memory
 * is real and zero, so reading values back works and gives zeros. Measuring everything but the
 * kernels is the other use. */
#include "dev/dev.h"

typedef struct null_block {
    uint8_t *memory;
    size_t size;
} null_block;

typedef struct null_state {
    qn_ctx *ctx;
    null_block *block;
    uint32_t blocks, cap;
} null_state;

typedef struct null_arg {
    sym size; /* elements, over the program's own variables */
    uint8_t element, access;
} null_arg;

typedef struct null_program {
    dev_program program;
    sym_store *syms;
    sym *var;
    null_arg *arg;
    int vars; /* dimension variables */
    size_t size;
} null_program;

static void *null_open(qn_ctx *qn, str *why) {
    (void)why;
    null_state *n = heap_zeroed(&qn->heap, sizeof *n);
    n->ctx = qn;
    return n;
}

static void null_close(void *state) {
    null_state *n = state;
    heap_free(&n->ctx->heap, n->block, n->cap * sizeof *n->block);
    heap_free(&n->ctx->heap, n, sizeof *n);
}

static void null_limits(void *state, machine *out) {
    null_state *n = state;
    *out = machine_generic();
    out->vector_bytes = 64;
    out->registers = 32;
    out->l2 = 1 << 20;
    out->l3 = 16 << 20;
    out->page_parallel_read_gain = 150;
    out->page_parallel_gain = 150;
    out->threads = 4;
    machine_choose(n->ctx, out);
}

/* ---- memory --------------------------------------------------------------------------------- */

static void *null_alloc(void *state, size_t size) {
    null_state *n = state;
    if (n->blocks == n->cap) {
        uint32_t cap = heap_grown(n->cap, n->blocks + 1);
        null_block *grown = heap_try(&n->ctx->heap, cap * sizeof *grown);
        if (!grown) return NULL;
        if (n->blocks) memcpy(grown, n->block, n->blocks * sizeof *grown);
        heap_free(&n->ctx->heap, n->block, n->cap * sizeof *n->block);
        n->block = grown;
        n->cap = cap;
    }
    uint8_t *memory = heap_try(&n->ctx->heap, size ? size : 1);
    if (!memory) return NULL;
    memset(memory, 0, size);
    n->block[n->blocks++] = (null_block){memory, size};
    return memory;
}

static null_block *find_block(null_state *n, const void *memory) {
    for (uint32_t i = 0; i < n->blocks; i++)
        if (n->block[i].memory == memory) return &n->block[i];
    return NULL;
}

static void null_free(void *state, void *memory, size_t size) {
    null_state *n = state;
    null_block *b = find_block(n, memory);
    if (b && b->size == size)
        *b = n->block[--n->blocks];
    else
        fail(n->ctx, QN_EINTERNAL, "null: memory freed that is not there");
    if (b) heap_free(&n->ctx->heap, memory, size ? size : 1);
}

static qn_code check_range(null_state *n, const void *memory, size_t offset, size_t size,
                           const char *what) {
    const null_block *b = find_block(n, memory);
    if (!b) return fail(n->ctx, QN_EINTERNAL, "null: %s of memory that is not alive", what);
    if (offset > b->size || size > b->size - offset)
        return fail(n->ctx, QN_EINTERNAL, "null: %s of bytes [%zu, +%zu) of %zu", what, offset,
                    size, b->size);
    return QN_OK;
}

static qn_code null_copy_in(void *state, void *memory, size_t offset, const void *from,
                            size_t size) {
    qn_code code = check_range(state, memory, offset, size, "a write");
    return code ? code : dev_host_copy_in(state, memory, offset, from, size);
}

static qn_code null_copy_out(void *state, const void *memory, size_t offset, void *to,
                             size_t size) {
    qn_code code = check_range(state, memory, offset, size, "a read");
    return code ? code : dev_host_copy_out(state, memory, offset, to, size);
}

/* ---- programs ------------------------------------------------------------------------------- */

static void null_unload(void *state, dev_program *program) {
    null_state *n = state;
    null_program *p = (null_program *)program;
    sym_close(p->syms);
    heap_free(&n->ctx->heap, p, p->size);
}

static void check_kernel(null_state *n, const kernel *k, str *why) {
    if (ir_verify(k, why) == VERDICT_BROKEN)
        raise_error(n->ctx, QN_EINTERNAL, "kernel %s: %s", k->name, why->s ? why->s : "");
}

static void describe(null_program *p, const kernel *k) {
    p->syms = sym_open(&k->ctx->heap);
    for (int i = 0; i < k->dim_vars; i++)
        p->var[i] = sym_var(p->syms, sym_name(k->syms, k->dim_var[i]),
                            sym_lo(k->syms, k->dim_var[i]), sym_hi(k->syms, k->dim_var[i]));
    for (mem_id m = 1; m < k->mems; m++) {
        const ir_memory *mem = ir_m(k, m);
        if (mem->scope != MEM_ARG) continue;
        sym size = sym_import(p->syms, k->syms, mem->size, k->dim_vars, k->dim_var, p->var);
        p->arg[mem->arg] = (null_arg){size, (uint8_t)qn_dtype_size(mem->dtype), mem->access};
    }
}

static dev_program *null_compile(void *state, kernel *k) {
    null_state *n = state;
    heap *h = &n->ctx->heap;
    size_t vars = (size_t)k->dim_vars, args = (size_t)k->args, name = strlen(k->name) + 1;
    uint64_t before = h->bytes;
    size_t size = sizeof(null_program) + args * sizeof(null_arg) + vars * sizeof(sym) + name;
    null_program *p = heap_zeroed(h, size);
    p->size = size;
    p->vars = k->dim_vars;
    p->arg = (null_arg *)(p + 1);
    p->var = (sym *)(p->arg + args);
    char *text = memcpy(p->var + vars, k->name, name);
    p->program = (dev_program){.name = text, .args = k->args, .vars = ir_vars(k)};
    str why;
    str_open(&why, h);
    dev_made made = {null_unload, n, &p->program};
    cleanup program, text_of;
    cleanup_push(h, &program, dev_made_cleanup, &made);
    cleanup_push(h, &text_of, str_cleanup, &why);
    check_kernel(n, k, &why);
    describe(p, k);
    cleanup_run(h, &text_of);
    cleanup_drop(h, &program);
    p->program.size = (size_t)(h->bytes - before);
    return &p->program;
}

/* ---- launching ------------------------------------------------------------------------------ */

/* Pieces of one value have their elements between each other's. */
static bool overlap(const null_arg *x, const dev_slice *a, const null_arg *y, const dev_slice *b) {
    if (x->access & y->access & ACCESS_PIECE) return false;
    return a->memory == b->memory && a->offset < b->offset + b->size &&
           b->offset < a->offset + a->size;
}

static qn_code check_arg(null_state *n, const null_program *p, const dev_set *set, int i) {
    const dev_slice *a = &set->arg[i];
    int64_t elements;
    if (!sym_eval(p->syms, p->arg[i].size, p->vars, p->var, set->var, &elements))
        return fail(n->ctx, QN_EINTERNAL, "null: kernel %s: argument %d has no size",
                    p->program.name, i);
    qn_code code = check_range(n, a->memory, a->offset, a->size, "an argument");
    if (code) return code;
    if (a->offset % (p->arg[i].access & ACCESS_PIECE ? p->arg[i].element : 64))
        return fail(n->ctx, QN_EINTERNAL, "null: kernel %s: argument %d is not aligned",
                    p->program.name, i);
    if (elements > (int64_t)(a->size / p->arg[i].element))
        return fail(n->ctx, QN_EINTERNAL,
                    "null: kernel %s: argument %d has %zu bytes for %lld elements", p->program.name,
                    i, a->size, (long long)elements);
    for (int k = 0; k < p->program.args && (p->arg[i].access & ACCESS_WRITE); k++)
        if (k != i && a->size && set->arg[k].size &&
            overlap(&p->arg[i], a, &p->arg[k], &set->arg[k]))
            return fail(n->ctx, QN_EINTERNAL,
                        "null: kernel %s: argument %d is written and overlaps %d", p->program.name,
                        i, k);
    return QN_OK;
}

static qn_code check_set(null_state *n, const null_program *p, const dev_set *set) {
    for (int i = 0; i < p->vars; i++)
        if (set->var[i] < sym_lo(p->syms, p->var[i]) || set->var[i] > sym_hi(p->syms, p->var[i]))
            return fail(n->ctx, QN_ERANGE, "null: kernel %s: variable %d is %lld", p->program.name,
                        i, (long long)set->var[i]);
    qn_code code = QN_OK;
    for (int i = 0; i < p->program.args && !code; i++) code = check_arg(n, p, set, i);
    return code;
}

/* The slices of a call of a routine. */
static qn_code null_check(void *state, const dev_program *p, const dev_slice *arg,
                          const bool *writes) {
    static const null_arg any = {0};
    null_state *n = state;
    qn_code code = QN_OK;
    for (int i = 0; i < p->args && !code; i++) {
        code = check_range(n, arg[i].memory, arg[i].offset, arg[i].size, "an argument");
        for (int k = 0; k < p->args && writes[i] && !code; k++)
            if (k != i && arg[i].size && arg[k].size && overlap(&any, &arg[i], &any, &arg[k]))
                code =
                    fail(n->ctx, QN_EINTERNAL,
                         "null: routine %s: argument %d is written and overlaps %d", p->name, i, k);
    }
    return code;
}

/* Does a set write what another one, which may run at the same time, reads or writes? */
static qn_code check_apart(null_state *n, const dev_launch *l, const dev_set *set,
                           const dev_launch *other, const dev_set *touches) {
    const null_program *p = (const null_program *)l->program;
    const null_program *q = (const null_program *)other->program;
    for (int i = 0; i < p->program.args; i++)
        for (int k = 0; k < q->program.args && (p->arg[i].access & ACCESS_WRITE); k++)
            if (set->arg[i].size && touches->arg[k].size &&
                overlap(&p->arg[i], &set->arg[i], &q->arg[k], &touches->arg[k]))
                return fail(n->ctx, QN_EINTERNAL,
                            "null: kernel %s writes argument %d beside kernel %s with argument %d",
                            p->program.name, i, other->program->name, k);
    return QN_OK;
}

static qn_code check_beside(null_state *n, int launches, const dev_launch *all, const dev_launch *l,
                            const dev_set *set) {
    qn_code code = QN_OK;
    for (int i = 0; i < launches; i++)
        for (uint32_t s = 0; s < all[i].sets && !code; s++)
            if (&all[i].set[s] != set) code = check_apart(n, l, set, &all[i], &all[i].set[s]);
    return code;
}

static qn_code null_launch_many(void *state, int launches, const dev_launch *l) {
    qn_code code = QN_OK;
    for (int i = 0; i < launches; i++)
        for (uint32_t s = 0; s < l[i].sets && !code; s++) {
            code = check_set(state, (const null_program *)l[i].program, &l[i].set[s]);
            if (!code) code = check_beside(state, launches, l, &l[i], &l[i].set[s]);
        }
    return code;
}

static qn_code null_launch(void *state, dev_program *program, int sets, const dev_set *set) {
    return null_launch_many(state, 1, &(dev_launch){program, (uint32_t)sets, set});
}

const dev_table dev_null = {
    .name = "null",
    .description = "checks every kernel, launch and copy, and computes nothing",
    .host_memory = true,
    .open = null_open,
    .close = null_close,
    .limits = null_limits,
    .compile = null_compile,
    .unload = null_unload,
    .launch = null_launch,
    .launch_many = null_launch_many,
    .check = null_check,
    .alloc = null_alloc,
    .free = null_free,
    .copy_in = null_copy_in,
    .copy_out = null_copy_out,
};
