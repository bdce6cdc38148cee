/* cpu.c - the processor this process runs on.
 *
 * A kernel becomes an object file, by LLVM in this process or by the C compiler in another one, and
 * the object becomes a program: pages of code (elf_load.c) with one function (emit.h), beside the
 * facts of its launch. Where the object came from makes no difference afterwards, so it may as well
 * come from the disk cache.
 *
 * A launch hands the kernel's work items to the thread pool in contiguous ranges; small ones run on
 * the calling thread, where waking another would cost more than it saves. Each thread has scratch
 * of its own, as large as any loaded program needs, so that launching allocates nothing. */
#include "dev/cpu.h"

#include "dev/elf_load.h"

#include <unistd.h>

/* Fewer scalar operations than this are done sooner than a second thread is at work. */
static const int64_t least_shared_work = 1 << 16;

typedef struct cpu_program {
    dev_program program;
    elf_image image;
    emit_kernel run;
    emit_facts *facts;
    void **pointer; /* room for the arguments of a launch */
    size_t size;    /* of this block, all the above included */
} cpu_program;

static int64_t system_number(int name, int64_t otherwise) {
    long n = sysconf(name);
    return n > 0 ? n : otherwise;
}

static void cpu_limits(void *state, kern_limits *out) {
    cpu *c = state;
    bool wide = cpu_wide();
    *out = (kern_limits){.vector_bytes = wide ? 64 : 32,
                         .registers = wide ? 32 : 16,
                         .l1 = system_number(_SC_LEVEL1_DCACHE_SIZE, 32 << 10),
                         .l2 = system_number(_SC_LEVEL2_CACHE_SIZE, 256 << 10),
                         .l3 = system_number(_SC_LEVEL3_CACHE_SIZE, 0),
                         .threads = pool_threads(c->pool),
                         .dots = cpu_dots(c)};
}

static void cpu_describe(void *state, str *out) {
    (void)state;
    cpu_key_processor(out);
}

/* ---- opening -------------------------------------------------------------------------------- */

static void cpu_close(void *state) {
    cpu *c = state;
    emit_llvm_close(c->llvm);
    cpu_cache_close(&c->cache);
    str_free(&c->here);
    str_free(&c->compiler);
    str_free(&c->record_key);
    str_free(&c->record);
    heap_free(&c->ctx->heap, c->scratch, c->scratch_each * (size_t)pool_threads(c->pool));
    pool_close(c->pool);
    heap_free(&c->ctx->heap, c, sizeof *c);
}

static void *cpu_open(qn_ctx *qn, str *why) {
    cpu *c = heap_zeroed(&qn->heap, sizeof *c);
    c->ctx = qn;
    c->cache.folder = -1;
    str_open(&c->here, &qn->heap);
    str_open(&c->compiler, &qn->heap);
    str_open(&c->record_key, &qn->heap);
    str_open(&c->record, &qn->heap);
    guard g;
    guard_open(&qn->heap, &g);
    if (setjmp(g.at)) {
        guard_close(&qn->heap, &g);
        cpu_close(c);
        heap_unwind(&qn->heap);
    }
    int threads = (int)qn->knob[KNOB_THREADS].number;
    c->pool = pool_open(&qn->heap, threads > 0 ? threads : processors());
    bool able = cpu_choose_compiler(c, why);
    guard_close(&qn->heap, &g);
    if (able) return c;
    cpu_close(c);
    return NULL;
}

/* ---- programs ------------------------------------------------------------------------------- */

static cpu_program *new_program(cpu *c, const kern *k) {
    size_t args = (size_t)k->args, name = strlen(k->name) + 1;
    size_t size = sizeof(cpu_program) + args * sizeof(void *) + name;
    cpu_program *p = heap_zeroed(&c->ctx->heap, size);
    p->size = size;
    p->pointer = (void **)(p + 1);
    char *text = memcpy(p->pointer + args, k->name, name);
    p->program = (dev_program){.name = text, .args = k->args, .vars = k->dim_vars};
    return p;
}

static void cpu_unload(void *state, dev_program *program) {
    cpu *c = state;
    cpu_program *p = (cpu_program *)program;
    elf_unload(&p->image);
    emit_facts_close(p->facts);
    heap_free(&c->ctx->heap, p, p->size);
}

/* Make every thread's scratch at least as large as the program wants. */
static bool grow_scratch(cpu *c, const cpu_program *p) {
    int64_t scratch;
    sym_is_const(p->facts->syms, p->facts->fact[EMIT_SCRATCH], &scratch);
    size_t each = (size_t)scratch, threads = (size_t)pool_threads(c->pool);
    if (each <= c->scratch_each) return true;
    uint8_t *grown = each <= SIZE_MAX / threads ? heap_try(&c->ctx->heap, each * threads) : NULL;
    if (!grown) return false;
    heap_free(&c->ctx->heap, c->scratch, c->scratch_each * threads);
    c->scratch = grown;
    c->scratch_each = each;
    return true;
}

/* NULL, or why the object does not become a program. */
static const char *load(cpu *c, cpu_program *p, const str *object, int number) {
    char text[EMIT_NAME];
    const char *name = text;
    void *function;
    emit_name(number, text);
    const char *why =
        elf_load(&c->ctx->heap, object->s, object->len, 1, &name, &function, &p->image);
    if (why) return why;
    memcpy(&p->run, &function, sizeof p->run);
    p->program.size = p->image.size;
    return grow_scratch(c, p) ? NULL : elf_no_memory;
}

static dev_program *make_program(cpu *c, const cpu_unit *u) {
    cpu_program *p = new_program(c, u->k);
    guard g;
    guard_open(&c->ctx->heap, &g);
    if (setjmp(g.at)) {
        guard_close(&c->ctx->heap, &g);
        cpu_unload(c, &p->program);
        heap_unwind(&c->ctx->heap);
    }
    double start = clock_seconds();
    p->facts = emit_facts_open(u->k);
    const char *why = load(c, p, &u->holder->object, u->function);
    qn_code code = why == elf_no_memory ? QN_ENOMEM : QN_EDEVICE;
    if (why) raise_error(c->ctx, code, "kernel %s: %s", u->k->name, why);
    p->program.cached = u->cached;
    p->program.seconds = u->seconds + clock_seconds() - start;
    guard_close(&c->ctx->heap, &g);
    return &p->program;
}

static void free_units(heap *h, int n, cpu_unit *unit) {
    for (int i = 0; i < n; i++) {
        str_free(&unit[i].key);
        str_free(&unit[i].text);
        str_free(&unit[i].object);
    }
    heap_free(h, unit, (size_t)n * sizeof *unit);
}

static void cpu_compile_many(void *state, int n, kern *const *k, dev_program **out) {
    cpu *c = state;
    heap *h = &c->ctx->heap;
    cpu_unit *unit = heap_zeroed(h, (size_t)n * sizeof *unit);
    for (int i = 0; i < n; i++) {
        unit[i].k = k[i];
        str_open(&unit[i].key, h);
        str_open(&unit[i].text, h);
        str_open(&unit[i].object, h);
    }
    guard g;
    guard_open(h, &g);
    if (setjmp(g.at)) {
        guard_close(h, &g);
        free_units(h, n, unit);
        heap_unwind(h);
    }
    cpu_compile(c, n, unit);
    for (int i = 0; i < n; i++) out[i] = make_program(c, &unit[i]);
    guard_close(h, &g);
    free_units(h, n, unit);
}

static dev_program *cpu_compile_one(void *state, kern *k) {
    dev_program *p = NULL;
    cpu_compile_many(state, 1, &k, &p);
    return p;
}

/* ---- launching ------------------------------------------------------------------------------ */

typedef struct job {
    const cpu_program *p;
    const int64_t *vars;
    uint8_t *scratch;
    size_t scratch_each;
} job;

static void run_items(void *arg, int thread, int64_t begin, int64_t end) {
    const job *j = arg;
    uint8_t *own = j->scratch ? j->scratch + (size_t)thread * j->scratch_each : NULL;
    if (begin < end) j->p->run(j->p->pointer, j->vars, own, begin, end);
}

static qn_code cpu_launch(void *state, dev_program *program, int sets, const dev_set *set) {
    cpu *c = state;
    cpu_program *p = (cpu_program *)program;
    for (int i = 0; i < sets; i++) {
        qn_code code = dev_check_set(c->ctx, program, p->facts, &set[i]);
        if (code) return code;
        for (int a = 0; a < program->args; a++)
            p->pointer[a] = (char *)set[i].arg[a].memory + set[i].arg[a].offset;
        job j = {p, set[i].var, c->scratch, c->scratch_each};
        int64_t items = p->facts->number[EMIT_ITEMS];
        if (items == 1 || p->facts->number[EMIT_WORK] < least_shared_work)
            run_items(&j, 0, 0, items);
        else
            pool_run(c->pool, items, run_items, &j);
    }
    return QN_OK;
}

const dev_table dev_cpu = {
    .name = "cpu",
    .description = "this machine's processor, kernels compiled by LLVM or the C compiler",
    .host_memory = true,
    .executes = true,
    .open = cpu_open,
    .close = cpu_close,
    .limits = cpu_limits,
    .describe = cpu_describe,
    .compile = cpu_compile_one,
    .compile_many = cpu_compile_many,
    .unload = cpu_unload,
    .launch = cpu_launch,
    .alloc = dev_host_alloc,
    .free = dev_host_free,
    .copy_in = dev_host_copy_in,
    .copy_out = dev_host_copy_out,
};
