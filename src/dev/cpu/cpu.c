/* cpu.c - the processor this process runs on.
 *
 * A kernel becomes an object file, by LLVM in this process or by the C compiler in another one, and
 * the object becomes a program: pages of code (elf_load.c) with one function (emit.h), beside the
 * facts of its launch. Where the object came from makes no difference afterwards, so it may as well
 * come from the disk cache.
 *
 * A launch hands the kernel's work items to the thread pool in contiguous ranges; small ones run on
 * the calling thread, where waking another would cost more than it saves. Several sets or launches
 * are one line of items, cut into pieces of about equal work that the threads take one by one: ten
 * kernels of a microsecond need one fork and one join. Each thread has scratch of its own, as large
 * as any loaded program needs, and the line has room for some tasks, so that launching allocates
 * nothing. */
#include "dev/cpu/cpu.h"

#include "dev/cpu/elf_load.h"

#include <math.h>

enum {
    PIECES = 8,            /* for each thread, at most */
    MOST_OVERS = 64,       /* pairs of a program */
    LEAST_POINTERS = 1024, /* arguments of a line's tasks */
};

typedef struct cpu_program {
    dev_program program;
    code_room room;
    emit_kernel run;
    emit_facts *facts;
    size_t size; /* of this block */
} cpu_program;

static void cpu_limits(void *state, machine *out) {
    cpu *c = state;
    *out = machine_here();
    out->vector_bytes = emit_isa_bytes(&c->isa);
    out->registers = c->isa.avx512 ? 32 : 16;
    cpu_ask_system(out);
    out->threads = pool_threads(c->pool);
    out->dots = cpu_dots(c);
    out->no_fma = !c->isa.fma;
    str processor;
    cleanup done;
    str_open(&processor, &c->ctx->heap);
    cleanup_push(&c->ctx->heap, &done, str_cleanup, &processor);
    cpu_key_processor(c, &processor);
    machine_recall(c->ctx, processor.s, processor.len, out);
    cleanup_run(&c->ctx->heap, &done);
    machine_choose(c->ctx, out);
    c->shared_work = machine_work(out, out->fork_join_ns);
    c->spread_work = sat_mul(out->spread_forks, c->shared_work);
    c->piece_part = out->piece_part;
    pool_spin(c->pool, out->spin_ns);
}

static void cpu_describe(void *state, str *out) {
    cpu_key_processor(state, out);
}

static void cpu_tell(void *state, str *out) {
    cpu *c = state;
    cpu_key_name(out);
    str_add(out, "instructions: ");
    emit_isa_tell(&c->isa, out);
    str_addf(out, "\nthreads: %d\nkernels: ", pool_threads(c->pool));
    cpu_tell_compiler(c, out);
    str_add(out, "\n");
}

/* ---- opening -------------------------------------------------------------------------------- */

static void cpu_close(void *state) {
    cpu *c = state;
    emit_llvm_close(c->llvm);
    cpu_cache_close(&c->cache);
    str_free(&c->here);
    str_free(&c->no_llvm);
    str_free(&c->compiler);
    str_free(&c->record_key);
    str_free(&c->record);
    heap_free(&c->ctx->heap, c->scratch, c->scratch_each * (size_t)pool_threads(c->pool));
    heap_free(&c->ctx->heap, c->pointer, c->pointers * sizeof *c->pointer);
    pool_close(c->pool);
    code_close(&c->code);
    heap_free(&c->ctx->heap, c, sizeof *c);
}

static void *cpu_open(qn_ctx *qn, str *why) {
    cpu *c = heap_zeroed(&qn->heap, sizeof *c);
    c->ctx = qn;
    c->cache.folder = -1;
    code_open(&c->code, &qn->heap);
    str_open(&c->here, &qn->heap);
    str_open(&c->no_llvm, &qn->heap);
    str_open(&c->compiler, &qn->heap);
    str_open(&c->record_key, &qn->heap);
    str_open(&c->record, &qn->heap);
    cleanup undo;
    cleanup_push(&qn->heap, &undo, cpu_close, c);
    int threads = (int)qn->knob[KNOB_THREADS].number;
    c->pool = pool_open(&qn->heap, threads > 0 ? threads : processors());
    bool able = cpu_choose_compiler(c, why);
    cleanup_drop(&qn->heap, &undo);
    if (able) return c;
    cpu_close(c);
    return NULL;
}

/* ---- programs ------------------------------------------------------------------------------- */

static cpu_program *new_program(cpu *c, const kernel *k) {
    size_t name = strlen(k->name) + 1, size = sizeof(cpu_program) + name;
    cpu_program *p = heap_zeroed(&c->ctx->heap, size);
    p->size = size;
    char *text = memcpy(p + 1, k->name, name);
    p->program = (dev_program){.name = text, .args = k->args, .vars = ir_vars(k)};
    return p;
}

static void cpu_unload(void *state, dev_program *program) {
    cpu *c = state;
    cpu_program *p = (cpu_program *)program;
    code_give(&c->code, &p->room);
    emit_facts_close(p->facts);
    heap_free(&c->ctx->heap, p->program.over, (size_t)p->program.inplaces * sizeof(inplace_pair));
    heap_free(&c->ctx->heap, p, p->size);
}

/* Make every thread's scratch at least as large as the program wants. */
static bool grow_scratch(cpu *c, const cpu_program *p) {
    size_t each = (size_t)p->facts->scratch, threads = (size_t)pool_threads(c->pool);
    if (each <= c->scratch_each) return true;
    uint8_t *grown = each <= SIZE_MAX / threads ? heap_try(&c->ctx->heap, each * threads) : NULL;
    if (!grown) return false;
    heap_free(&c->ctx->heap, c->scratch, c->scratch_each * threads);
    c->scratch = grown;
    c->scratch_each = each;
    return true;
}

/* And a line long enough for its arguments. */
static bool grow_line(cpu *c, const cpu_program *p) {
    size_t need = (size_t)p->program.args;
    if (need < LEAST_POINTERS) need = LEAST_POINTERS;
    if (need <= c->pointers) return true;
    void **grown = heap_try(&c->ctx->heap, need * sizeof *grown);
    if (!grown) return false;
    heap_free(&c->ctx->heap, c->pointer, c->pointers * sizeof *c->pointer);
    c->pointer = grown;
    c->pointers = need;
    return true;
}

/* NULL, or why the object does not become a program. */
static const char *load(cpu *c, cpu_program *p, const str *object, int number) {
    char text[EMIT_NAME];
    const char *name = text;
    void *function;
    emit_name(number, text);
    const char *why =
        elf_load(&c->code, &(elf_object){object->s, object->len, 1, &name}, &function, &p->room);
    if (!why) memcpy(&p->run, &function, sizeof p->run);
    return why;
}

/* Once a launch is checked nothing of it can fail, so results may replace what they are made of. */
static void find_overs(const cpu *c, dev_program *p, kernel *k) {
    inplace_pair over[MOST_OVERS];
    int n = (c->by_cc ? rest_pairs : inplace_pairs)(k, MOST_OVERS, over);
    if (!n) return;
    p->over = heap_alloc(&c->ctx->heap, (size_t)n * sizeof *over);
    memcpy(p->over, over, (size_t)n * sizeof *over);
    p->inplaces = n;
}

static dev_program *make_program(cpu *c, const cpu_unit *u) {
    uint64_t before = c->ctx->heap.bytes;
    cpu_program *p = new_program(c, u->k);
    dev_made made = {cpu_unload, c, &p->program};
    cleanup undo;
    cleanup_push(&c->ctx->heap, &undo, dev_made_cleanup, &made);
    double start = clock_seconds();
    p->facts = emit_facts_open(u->k);
    const char *why = load(c, p, &u->holder->object, u->function);
    qn_code code = why == elf_no_memory ? QN_ENOMEM : QN_EDEVICE;
    if (why) raise_error(c->ctx, code, "kernel %s: %s", u->k->name, why);
    find_overs(c, &p->program, u->k);
    p->program.size = (size_t)(c->ctx->heap.bytes - before) + p->room.text_size + p->room.data_size;
    if (!grow_scratch(c, p) || !grow_line(c, p))
        raise_error(c->ctx, QN_ENOMEM, "kernel %s: no memory for its scratch", u->k->name);
    p->program.cached = u->cached;
    p->program.seconds = u->seconds + clock_seconds() - start;
    cleanup_drop(&c->ctx->heap, &undo);
    return &p->program;
}

typedef struct units {
    heap *h;
    int n;
    cpu_unit *unit;
} units;

static void free_units(void *of) {
    const units *u = of;
    for (int i = 0; i < u->n; i++) {
        str_free(&u->unit[i].key);
        str_free(&u->unit[i].text);
        str_free(&u->unit[i].object);
    }
    heap_free(u->h, u->unit, (size_t)u->n * sizeof *u->unit);
}

static void cpu_compile_many(void *state, int n, kernel *const *k, dev_program **out) {
    cpu *c = state;
    heap *h = &c->ctx->heap;
    cpu_unit *unit = heap_zeroed(h, (size_t)n * sizeof *unit);
    for (int i = 0; i < n; i++) {
        unit[i].k = k[i];
        str_open(&unit[i].key, h);
        str_open(&unit[i].text, h);
        str_open(&unit[i].object, h);
    }
    units own = {h, n, unit};
    cleanup undo;
    cleanup_push(h, &undo, free_units, &own);
    cpu_compile(c, n, unit);
    for (int i = 0; i < n; i++)
        if (!unit[i].code) out[i] = make_program(c, &unit[i]);
    for (int i = 0; i < n; i++)
        if (unit[i].code) cpu_raise(c, &unit[i]);
    cleanup_run(h, &undo);
}

static dev_program *cpu_compile_one(void *state, kernel *k) {
    dev_program *p = NULL;
    cpu_compile_many(state, 1, &k, &p);
    return p;
}

/* ---- launching ------------------------------------------------------------------------------ */

static void run_task(const cpu *c, const cpu_task *t, int thread, int64_t begin, int64_t end) {
    uint8_t *own = c->scratch ? c->scratch + (size_t)thread * c->scratch_each : NULL;
    if (begin < end) t->run(t->pointer, t->vars, own, begin, end);
}

static void run_items(void *arg, int thread, int64_t begin, int64_t end) {
    const cpu *c = arg;
    run_task(c, &c->task[0], thread, begin, end);
}

/* The first item of the task that begins at or behind this point of the line's work. */
static int64_t item_at(const cpu_task *t, double point) {
    double items = (double)t->items, at = (point - t->begin) / t->work * items;
    return at <= 0 ? 0 : at >= items ? t->items : (int64_t)ceil(at);
}

/* A piece has the items that begin in it. */
static void run_piece(void *arg, int thread, int64_t begin, int64_t end) {
    const cpu *c = arg;
    double lo = c->work / c->pieces * (double)begin, hi = c->work / c->pieces * (double)end;
    for (int i = 0; i < c->tasks; i++) {
        const cpu_task *t = &c->task[i];
        run_task(c, t, thread, item_at(t, lo), end == c->pieces ? t->items : item_at(t, hi));
    }
}

/* Run what stands in line, and clear it. What ran on one thread left its results in that thread's
 * cache, so several launches behind it are spread only where they have much more work. */
static void run_line(cpu *c) {
    double pieces = c->work * (double)c->piece_part / (double)c->shared_work;
    double most = PIECES * pool_threads(c->pool);
    c->pieces = pieces < most ? (int)pieces : (int)most;
    int64_t least = c->tasks > 1 && !c->spread ? c->spread_work : c->shared_work;
    c->spread = c->work >= (double)least && pool_threads(c->pool) > 1;
    if (!c->spread)
        for (int i = 0; i < c->tasks; i++) run_task(c, &c->task[i], 0, 0, c->task[i].items);
    else if (c->tasks == 1)
        pool_run(c->pool, c->task[0].items, run_items, c);
    else
        pool_share(c->pool, c->pieces, run_piece, c);
    c->tasks = 0;
    c->line = 0;
    c->work = 0;
}

/* How much the set is to be done; what was checked before need not be again. */
static qn_code check(cpu *c, const cpu_program *p, const dev_set *set, dev_checked *out) {
    qn_code code = dev_check_set(c->ctx, &p->program, p->facts, set);
    int64_t items = p->facts->number[EMIT_ITEMS], work = p->facts->number[EMIT_WORK];
    *out = (dev_checked){code == QN_OK, items, work < items ? items : work};
    if (set->checked) *set->checked = *out;
    return code;
}

static inline void point(void **to, const cpu_program *p, const dev_set *set) {
    for (int a = 0; a < p->program.args; a++)
        to[a] = (char *)set->arg[a].memory + set->arg[a].offset;
}

static qn_code add_task(cpu *c, cpu_program *p, const dev_set *set) {
    size_t args = (size_t)p->program.args;
    dev_checked is = set->checked ? *set->checked : (dev_checked){.is = false};
    qn_code code = is.is ? QN_OK : check(c, p, set, &is);
    if (code) return code;
    if (c->tasks == CPU_TASKS || c->line + args > c->pointers) run_line(c);
    if (is.items < 1) return QN_OK;
    cpu_task *t = &c->task[c->tasks++];
    *t = (cpu_task){p->run, c->pointer + c->line, set->var, is.items, c->work, (double)is.work};
    c->line += args;
    c->work += t->work;
    point(t->pointer, p, set);
    return QN_OK;
}

static qn_code cpu_launch_many(void *state, int n, const dev_launch *launch) {
    cpu *c = state;
    qn_code code = QN_OK;
    for (int i = 0; i < n; i++)
        for (uint32_t s = 0; s < launch[i].sets && !code; s++)
            code = add_task(c, (cpu_program *)launch[i].program, &launch[i].set[s]);
    run_line(c);
    return code;
}

/* A small one that was checked before is as quick as can be. */
static qn_code cpu_launch(void *state, dev_program *program, int sets, const dev_set *set) {
    cpu *c = state;
    const cpu_program *p = (const cpu_program *)program;
    const dev_checked *is = set->checked;
    if (sets == 1 && is && is->is && (is->work < c->shared_work || pool_threads(c->pool) == 1)) {
        point(c->pointer, p, set);
        if (is->items > 0) p->run(c->pointer, set->var, c->scratch, 0, is->items);
        c->spread = false;
        return QN_OK;
    }
    return cpu_launch_many(state, 1, &(dev_launch){program, (uint32_t)sets, set});
}

static int64_t cpu_work(void *state, dev_program *program, const int64_t *var) {
    emit_facts *f = ((cpu_program *)program)->facts;
    (void)state;
    return !f->vars || emit_facts_at(f, var) ? f->number[EMIT_WORK] : INT64_MAX;
}

static void cpu_assembly(void *state, dev_program *program, str *out) {
    const cpu_program *p = (const cpu_program *)program;
    const void *code;
    memcpy(&code, &p->run, sizeof code);
    cpu_disassemble(state, code, p->room.length, out);
}

static void cpu_share(void *state, int64_t n, pool_work work, void *arg) {
    pool_share(((cpu *)state)->pool, n, work, arg);
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
    .tell = cpu_tell,
    .compile = cpu_compile_one,
    .compile_many = cpu_compile_many,
    .unload = cpu_unload,
    .launch = cpu_launch,
    .launch_many = cpu_launch_many,
    .work = cpu_work,
    .assembly = cpu_assembly,
    .share = cpu_share,
    .alloc = dev_host_alloc,
    .free = dev_host_free,
    .copy_in = dev_host_copy_in,
    .copy_out = dev_host_copy_out,
};
