/* script.c - a schedule as steps that name loops by where they come from.
 *
 * A loop of a step is a handle: "3.1" is the second of the loops that the third step made, in the
 * order of the tree, "0.2" the third loop of the kernel as it was lowered; "3:0" is a tile
 * likewise, and arguments are what they are in the kernel, a0, a1. So a step can be changed, left
 * out or put in without any other one naming another loop by it: those that worked on what a step
 * made fall with that step, all others stay as they are. Names, as "-> it mr", are what new loops
 * are called in dumps where that is free, and nothing else.
 *
 *     pad 0.0 14
 *     split 0.0 14 -> it mr
 *     split 0.1 32 -> jt nr
 *     swap 2.1 3.0
 *
 * This is the form in which wisdom keeps schedules: their handles are exact, since wisdom's key is
 * the lowered kernel's text. The form with names, which people read in dumps, is read, too. */
#include "schedule/search/script.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_STEPS = 4096 };
static const step_ref nowhere = {UINT16_MAX, UINT16_MAX};

static bool same_ref(step_ref a, step_ref b) {
    return a.step == b.step && a.nth == b.nth;
}

static void close_clone(void *k) {
    ir_close(k);
}

/* ---- what each step made --------------------------------------------------------------------- */

/* Loops and memories that were not there before are what this step made. */
static void learn(script_run *r, uint16_t step) {
    kernel *k = r->k;
    uint32_t before = r->loops;
    uint16_t n = 0;
    r->loop = arena_grow(&k->arena, r->loop, &r->loop_cap, k->loops + 1, sizeof *r->loop);
    for (; r->loops <= k->loops; r->loops++) r->loop[r->loops] = nowhere;
    for (stmt_id s = k->root; (s = ir_next(k, s, k->root));)
        if (ir_s(k, s)->kind == STMT_LOOP && ir_s(k, s)->l.id >= before)
            r->loop[ir_s(k, s)->l.id] = (step_ref){step, n++};
    r->mem = arena_grow(&k->arena, r->mem, &r->mem_cap, k->mems + 1, sizeof *r->mem);
    uint32_t mems = r->mems;
    for (; r->mems < k->mems; r->mems++)
        r->mem[r->mems] = (step_ref){step, (uint16_t)(r->mems - mems)};
}

void script_open(script_run *r, kernel *k) {
    *r = (script_run){.k = k};
    learn(r, 0);
}

script_run script_run_copy(const script_run *r) {
    arena *a = &r->k->arena;
    script_run c = *r;
    c.loop_cap = r->loops, c.mem_cap = r->mems;
    c.loop =
        memcpy(arena_alloc(a, r->loops * sizeof *r->loop), r->loop, r->loops * sizeof *r->loop);
    c.mem = memcpy(arena_alloc(a, r->mems * sizeof *r->mem), r->mem, r->mems * sizeof *r->mem);
    return c;
}

stmt_id script_loop(const script_run *r, step_ref ref) {
    for (uint32_t i = 1; i < r->loops; i++)
        if (same_ref(r->loop[i], ref)) return ir_loop_of(r->k, i);
    return 0;
}

step_ref script_ref(const script_run *r, stmt_id loop) {
    uint32_t id = ir_s(r->k, loop)->l.id;
    return id < r->loops ? r->loop[id] : nowhere;
}

static mem_id script_mem(const script_run *r, step_ref ref) {
    for (mem_id i = 1; i < r->mems; i++)
        if (same_ref(r->mem[i], ref)) return i;
    return 0;
}

bool script_step_run(script_run *r, const script_step *s, transform_made *made, str *why) {
    transform_args a = s->args;
    mem_id *mem[2] = {&a.mem, &a.mem2};
    for (int i = 0; i < a.loops; i++) {
        a.loop[i] = script_loop(r, s->loop[i]);
        if (!a.loop[i]) return ir_refuse(why, "loop %d of the step is not there", i + 1);
    }
    for (int i = 0; i < 2; i++) {
        if (!s->mem[i].step && !s->mem[i].nth) continue;
        *mem[i] = script_mem(r, s->mem[i]);
        if (!*mem[i]) return ir_refuse(why, "memory %d of the step is not there", i + 1);
    }
    for (int i = 0; i < 2; i++)
        if (a.name[i]) a.name[i] = ir_fresh_name(r->k, a.name[i]);
    if (!transform_run(r->k, (transform_kind)s->kind, &a, made, why)) return false;
    learn(r, s->id);
    return true;
}

/* ---- scripts --------------------------------------------------------------------------------- */

script_step script_step_of(const script_run *r, script *s, transform_kind kind,
                           const transform_args *a) {
    script_step step = {.id = ++s->ids, .kind = (uint8_t)kind, .args = *a};
    for (int i = 0; i < a->loops; i++) step.loop[i] = script_ref(r, a->loop[i]);
    step.mem[0] = a->mem < r->mems ? r->mem[a->mem] : nowhere;
    step.mem[1] = a->mem2 < r->mems ? r->mem[a->mem2] : nowhere;
    if (!a->mem) step.mem[0] = (step_ref){0, 0};
    if (!a->mem2) step.mem[1] = (step_ref){0, 0};
    return step;
}

void script_add(script *s, arena *a, const script_step *step) {
    s->at = arena_grow(a, s->at, &s->cap, s->n + 1, sizeof *s->at);
    s->at[s->n++] = *step;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* Where in the script the step stands, from 1; 0: the lowered kernel, -1: nowhere. */
static int place_of(const script *s, uint16_t id) {
    for (uint32_t i = 0; i < s->n && id; i++)
        if (s->at[i].id == id) return (int)i + 1;
    return id ? -1 : 0;
}

static void print_mem(const script *s, const kernel *k, step_ref ref, str *out) {
    if (!ref.step && ref.nth < k->mems && ir_m(k, ref.nth)->scope == MEM_ARG)
        str_addf(out, " a%d", ir_m(k, ref.nth)->arg);
    else
        str_addf(out, " %d:%d", place_of(s, ref.step), ref.nth);
}

static void print_step(const script *s, const script_step *x, const kernel *k, str *out) {
    const transform_row *row = &transform_rows[x->kind];
    const transform_args *a = &x->args;
    int loops = 0, mems = 0;
    str_add(out, row->name);
    for (const char *c = row->pattern; *c; c++) switch (*c) {
        case 'l':
        case 'L':
            do {
                str_addf(out, a->joined >> loops & 1 ? " + %d.%d" : " %d.%d",
                         place_of(s, x->loop[loops].step), x->loop[loops].nth);
            } while (++loops < a->loops && *c == 'L');
            break;
        case 'm':
            print_mem(s, k, x->mem[mems++], out);
            break;
        default:
            transform_print_rest(*c, a, out);
            break;
        }
    str_add(out, "\n");
}

void script_print(const script *s, const kernel *k, str *out) {
    str_add(out, "");
    for (uint32_t i = 0; i < s->n; i++) print_step(s, &s->at[i], k, out);
}

typedef struct reader {
    script_run *r;
    script *s;
    uint16_t *id; /* of the steps of the lines so far; of a refused one nobody's */
    uint32_t n, cap;
    str *names;
} reader;

/* A handle: two numbers with a point or a colon between; the step by its line. */
static bool read_handle(const reader *t, const char *word, char between, step_ref *ref) {
    char *end;
    if (strlen(word) > 15 || !isdigit((unsigned char)*word)) return false;
    unsigned long line = strtoul(word, &end, 10);
    if (*end != between || !isdigit((unsigned char)end[1])) return false;
    unsigned long nth = strtoul(end + 1, &end, 10);
    if (*end || nth >= UINT16_MAX || line > t->n) return false;
    *ref = (step_ref){line ? t->id[line - 1] : 0, (uint16_t)nth};
    return true;
}

static stmt_id loop_of_handle(const void *user, const char *word) {
    const reader *t = user;
    step_ref ref;
    return read_handle(t, word, '.', &ref) ? script_loop(t->r, ref) : 0;
}

static mem_id tile_of_handle(const void *user, const char *word) {
    const reader *t = user;
    step_ref ref;
    mem_id m = read_handle(t, word, ':', &ref) ? script_mem(t->r, ref) : 0;
    return m && ir_m(t->r->k, m)->scope != MEM_ARG ? m : 0;
}

static void print_named(const kernel *k, transform_kind kind, const transform_args *a, str *out) {
    const char *loop[STEP_LOOPS];
    for (int i = 0; i < a->loops; i++) loop[i] = sym_name(k->syms, ir_s(k, a->loop[i])->l.var);
    transform_print(k, kind, a, loop, out);
    str_add(out, "\n");
}

/* Apply what a line says and add it. */
static bool take_line(reader *t, transform_kind kind, const transform_args *a, str *why) {
    kernel *k = t->r->k;
    str named;
    if (t->s->n == MOST_STEPS || t->s->ids == nowhere.step - 1)
        return ir_refuse(why, "a schedule of more than %d steps", MOST_STEPS);
    script_step step = script_step_of(t->r, t->s, kind, a);
    str_open_in(&named, &k->arena);
    if (t->names) print_named(k, kind, a, &named);
    if (!script_step_run(t->r, &step, NULL, why)) return false;
    script_add(t->s, &k->arena, &step);
    t->id[t->n - 1] = step.id;
    if (t->names) str_add(t->names, named.s);
    return true;
}

int script_read(script_run *r, const char *lines, script *s, str *names, str *why) {
    reader t = {.r = r, .s = s, .names = names};
    const transform_names names_of = {loop_of_handle, tile_of_handle, &t};
    arena *a = &r->k->arena;
    int refused = 0;
    for (size_t n; *lines; lines += n + (lines[n] == '\n')) {
        transform_kind kind;
        transform_args args;
        n = strcspn(lines, "\n");
        const char *line = arena_printf(a, "%.*s", (int)n, lines);
        str *told = refused ? NULL : why;
        bool read = transform_parse(r->k, line, &names_of, &kind, &args, told);
        if (read && kind == TRANSFORMS) continue;
        t.id = arena_grow(a, t.id, &t.cap, t.n + 1, sizeof *t.id);
        t.id[t.n++] = nowhere.step;
        refused += !read || !take_line(&t, kind, &args, told);
    }
    return refused;
}

bool script_names(const kernel *k, const char *lines, str *out, str *why) {
    script_run r;
    script s = {.n = 0};
    kernel *copy = ir_clone(k);
    cleanup c;
    cleanup_push(&k->ctx->heap, &c, close_clone, copy);
    script_open(&r, copy);
    str_add(out, "");
    bool legal = !script_read(&r, lines, &s, out, why) && ir_sums_made(copy, why);
    cleanup_run(&k->ctx->heap, &c);
    return legal;
}

int script_apply(kernel *k, const char *lines, str *why) {
    ir_saved before = ir_save(k);
    script_run r;
    script s = {.n = 0};
    script_open(&r, k);
    if (!script_read(&r, lines, &s, NULL, why) && ir_sums_made(k, why))
        return transform_verified(k, &before, why) ? (int)s.n : -1;
    ir_restore(k, &before);
    return -1;
}

bool script_take(kernel *k, const script *s, bool prove, str *why) {
    ir_saved before = ir_save(k);
    script_run r;
    script_open(&r, k);
    for (uint32_t i = 0; i < s->n; i++) {
        if (script_step_run(&r, &s->at[i], NULL, why)) continue;
        ir_restore(k, &before);
        return false;
    }
    if (prove) return transform_verified(k, &before, why);
    if (ir_verify(k, why) != VERDICT_BROKEN) return true;
    ir_restore(k, &before);
    return false;
}
