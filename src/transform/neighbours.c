/* neighbours.c - every way in which a row of transforms.h might be applied to a kernel, for search
 * and fuzzers: whoever adds a row has it searched and fuzzed at once.
 *
 * Arguments are made by the row's pattern alone. Loops of one row stand in some relation, so the
 * second is one that the first is around, behind or inside of; further ones (a staged operand's
 * axes) are the loops on a path below the first. Numbers are small powers of two, those around a
 * loop's extent, and a page. What is legal the row itself says. */
#include "transform/transform.h"

enum { MOST_LOOPS = 64 };

typedef struct neighbours {
    kernel *k;
    transform_taker take;
    void *user;
    transform_args args;
    bool enough;
} neighbours;

static void next_letter(neighbours *v, const char *pattern);

static void go_on(neighbours *v, const char *pattern) {
    if (!v->enough) next_letter(v, pattern);
}

static bool related(const kernel *k, stmt_id a, stmt_id b) {
    return a != b &&
           (ir_inside(k, a, b) || ir_inside(k, b, a) || ir_s(k, a)->parent == ir_s(k, b)->parent);
}

static void each_loop(neighbours *v, const char *rest) {
    kernel *k = v->k;
    transform_args *a = &v->args;
    for (stmt_id s = k->root; (s = ir_next(k, s, k->root)) && !v->enough;) {
        if (ir_s(k, s)->kind != STMT_LOOP) continue;
        if (a->loops && !related(k, a->loop[0], s)) continue;
        a->loop[a->loops++] = s;
        go_on(v, rest);
        a->loops--;
    }
}

/* The loops on the path from the first loop's body to `s` that the memory's load there depends
 * on. */
static void path_axes(neighbours *v, stmt_id s, const ir_access *t) {
    kernel *k = v->k;
    transform_args *a = &v->args;
    stmt_id path[MOST_LOOPS];
    int n = 0;
    for (; s && s != a->loop[0] && n < MOST_LOOPS; s = ir_s(k, s)->parent) {
        if (ir_s(k, s)->kind != STMT_LOOP) continue;
        sym var = ir_s(k, s)->l.var;
        if (sym_uses(k->syms, t->index, var) || sym_uses(k->syms, t->valid, var)) path[n++] = s;
    }
    while (n-- > 0 && a->loops < (int)COUNT_OF(a->loop)) a->loop[a->loops++] = path[n];
}

/* As many loops as a load of the memory below the first loop depends on. */
static void each_axes(neighbours *v, const char *rest) {
    kernel *k = v->k;
    transform_args *a = &v->args;
    if (!a->loops || !a->mem) {
        each_loop(v, rest);
        return;
    }
    ir_access *t;
    uint32_t n = ir_accesses(k, a->loop[0], &t);
    int loops = a->loops;
    for (uint32_t i = 0; i < n && !v->enough; i++) {
        if (!t[i].load || t[i].mem != a->mem) continue;
        path_axes(v, t[i].at, &t[i]);
        if (a->loops > loops) go_on(v, rest);
        a->loops = loops;
    }
}

static void each_memory(neighbours *v, const char *rest) {
    mem_id *slot = v->args.mem ? &v->args.mem2 : &v->args.mem;
    for (mem_id m = 1; m < v->k->mems && !v->enough; m++) {
        *slot = m;
        go_on(v, rest);
        *slot = 0;
    }
}

static void each_number(neighbours *v, const char *rest) {
    const transform_args *a = &v->args;
    const int64_t extent = a->loops ? ir_most_trips(v->k, a->loop[0]) : 0;
    const int64_t number[] = {2, 4, 8, 16, 32, 64, 256, 4096, extent / 2, extent - 1, extent + 1};
    for (size_t i = 0; i < COUNT_OF(number) && !v->enough; i++) {
        if (number[i] < 1 || (a->loops && number[i] > extent + 1)) continue;
        v->args.number = number[i];
        go_on(v, rest);
    }
}

static void next_letter(neighbours *v, const char *pattern) {
    switch (*pattern) {
    case 0:
        v->enough = !v->take(v->user, &v->args);
        break;
    case 'l':
        each_loop(v, pattern + 1);
        break;
    case 'L':
        each_axes(v, pattern + 1);
        break;
    case 'm':
        each_memory(v, pattern + 1);
        break;
    case 'n':
        each_number(v, pattern + 1);
        break;
    default: /* names are made up; dtype and scope stay as they are */
        go_on(v, pattern + 1);
        break;
    }
}

void transform_neighbours(kernel *k, transform_kind kind, transform_taker take, void *user) {
    neighbours v = {.k = k, .take = take, .user = user};
    v.args.dtype = -1;
    v.args.scope = MEM_LOCAL;
    next_letter(&v, transform_rows[kind].pattern);
}
