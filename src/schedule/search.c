/* search.c - the neighbourhood of a schedule: the candidates that tuning compiles and measures
 * (tune/tune.c). Nothing is run here.
 *
 * A state is a schedule: lines on the unscheduled kernel. Two things give new ones:
 *
 *   seeds   All that is proposed for the kernel (proposals.c), the default first, and, for other
 *           blockings, the defaults for other machines: with fewer registers, narrower vectors,
 *           caches and thread counts that are halves and doubles of the real ones. Each is a
 *           schedule with consistent decisions.
 *   moves   One change of the lines, by the table of transforms: another number (a padding in front
 *           of a split changes, too), any line left out, a line of any row put in where the loops
 *           are final and only how they run is still to come (`transform_neighbours` says which).
 *           And what only pays together: a split to vectorize, unroll or share, a staging whose
 *           copy is vectorized. No row that others gain or lose by: a kernel measured alone does
 *           not show it.
 *
 * A change can make later lines illegal, since they name loops that are no more. So a candidate is
 * repaired: what cannot be applied is left out, and the rest is the schedule. Two candidates with
 * the same tree are the same. The order of moves is fixed, so that a search can be resumed on
 * another day. */
#include "schedule/schedule.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    WORDS = 18,
    WORD = IR_NAME,
    MOST_LINES = 256,
    MOST_LOOPS = 64,
    MOST_WAYS = 1 << 14, /* of applying a row that are counted, */
    MOST_TRIED = 64,     /* are tried, */
    MOST_GIVEN = 4       /* are legal and become candidates */
};

/* ---- lines ----------------------------------------------------------------------------------- */

typedef struct line {
    int n;
    char word[WORDS][WORD];
} line;

typedef struct script {
    line at[MOST_LINES];
    int n;
} script;

static void read_line(const char *p, size_t size, line *l) {
    l->n = 0;
    for (size_t i = 0; i < size && p[i] != '#';) {
        if (isspace((unsigned char)p[i])) {
            i++;
            continue;
        }
        size_t n = 0;
        while (i + n < size && !isspace((unsigned char)p[i + n])) n++;
        if (l->n < WORDS) snprintf(l->word[l->n++], WORD, "%.*s", (int)n, p + i);
        i += n;
    }
}

static void read_script(const char *text, script *s) {
    s->n = 0;
    while (*text && s->n < MOST_LINES) {
        size_t n = strcspn(text, "\n");
        read_line(text, n, &s->at[s->n]);
        s->n += s->at[s->n].n > 0;
        text += n + (text[n] == '\n');
    }
}

static bool is(const line *l, const char *name) {
    return !strcmp(l->word[0], name);
}

/* The row of a line; NULL: there is none. */
static const transform_row *row_of(const line *l) {
    for (int i = 0; i < TRANSFORMS; i++)
        if (is(l, transform_rows[i].name)) return &transform_rows[i];
    return NULL;
}

/* Lines that leave the nest and its tiles as they are. */
static bool is_kind(const line *l) {
    const transform_row *row = row_of(l);
    return row && row->effect >= EFFECT_RUN;
}

/* Which word of the line is its number; 0: it has none. */
static int number_at(const line *l) {
    const transform_row *row = row_of(l);
    const char *n = row ? strchr(row->pattern, 'n') : NULL;
    int at = n ? (int)(n - row->pattern) + 1 : 0;
    return at < l->n ? at : 0;
}

static void print_line(const line *l, str *out) {
    for (int i = 0; i < l->n; i++) str_addf(out, i ? " %s" : "%s", l->word[i]);
    str_add(out, "\n");
}

/* ---- repair ---------------------------------------------------------------------------------- */

bool search_repair(kernel *k, const char *lines, str *legal) {
    arena *a = &k->arena;
    ir_verdict before = ir_verify(k, NULL);
    while (*lines) {
        size_t n = strcspn(lines, "\n");
        const char *one = arena_printf(a, "%.*s", (int)n, lines);
        if (n && transform_apply(k, one, NULL)) str_addf(legal, "%s\n", one);
        lines += n + (lines[n] == '\n');
    }
    ir_verdict verdict = ir_verify(k, NULL);
    return verdict == VERDICT_SOUND || (verdict != VERDICT_BROKEN && verdict == before);
}

/* ---- seeds ----------------------------------------------------------------------------------- */

typedef struct seeds {
    search_taker take;
    void *user;
    bool enough;
} seeds;

static bool take_proposal(void *user, const char *lines) {
    seeds *x = user;
    if (!x->enough) x->enough = !x->take(x->user, lines);
    return !x->enough;
}

/* The default schedule for a machine. */
static void give_default(const kernel *k, const machine *limits, str *lines, seeds *x) {
    lines->len = 0;
    str_add(lines, "");
    schedule_default(k, limits, lines);
    take_proposal(x, lines->s);
}

void search_seeds(const kernel *k, const machine *limits, search_taker take, void *user) {
    static const struct {
        int registers, vector, l1, l2, threads; /* of 4 */
    } other[] = {{3, 4, 4, 4, 4},  {2, 4, 4, 4, 4}, {4, 2, 4, 4, 4},  {2, 2, 4, 4, 4},
                 {4, 4, 2, 4, 4},  {4, 4, 8, 4, 4}, {4, 4, 16, 4, 4}, {4, 4, 4, 2, 4},
                 {4, 4, 4, 1, 4},  {4, 4, 4, 8, 4}, {4, 4, 4, 16, 4}, {4, 4, 4, 4, 8},
                 {4, 4, 4, 4, 16}, {4, 4, 4, 4, 2}, {4, 4, 1, 1, 4},  {3, 4, 8, 8, 4}};
    seeds x = {.take = take, .user = user};
    str lines;
    str_open(&lines, &k->ctx->heap);
    cleanup c;
    cleanup_push(&k->ctx->heap, &c, str_cleanup, &lines);
    give_default(k, limits, &lines, &x);
    if (!x.enough) schedule_proposals(k, limits, take_proposal, &x);
    for (size_t i = 0; i < COUNT_OF(other) && !x.enough; i++) {
        machine l = *limits;
        l.registers = l.registers * other[i].registers / 4;
        l.vector_bytes = l.vector_bytes * other[i].vector / 4;
        l.l1 = l.l1 * other[i].l1 / 4;
        l.l2 = l.l2 * other[i].l2 / 4;
        l.threads = l.threads * other[i].threads / 4;
        if (l.threads < 1) l.threads = 1;
        give_default(k, &l, &lines, &x);
    }
    cleanup_run(&k->ctx->heap, &c);
}

/* ---- moves ----------------------------------------------------------------------------------- */

static const char *name_of(const scheduler *m, stmt_id loop) {
    return sym_name(m->k->syms, schedule_at(m, loop)->l.var);
}

typedef struct mover {
    scheduler m; /* the kernel with the lines in front of `tail` applied */
    script s;
    int tail; /* the first of the last lines that only set kinds */
    str out;
    search_taker take;
    void *user;
    bool enough;
} mover;

static void give(mover *v) {
    if (!v->enough) v->enough = !v->take(v->user, v->out.s ? v->out.s : "");
}

/* Pass on the script with line `skip` left out (-1: none), and lines `put` in front of the tail. */
static void give_script(mover *v, int skip, const char *put) {
    v->out.len = 0;
    str_add(&v->out, "");
    for (int i = 0; i <= v->s.n; i++) {
        if (i == v->tail && put) str_add(&v->out, put);
        if (i < v->s.n && i != skip) print_line(&v->s.at[i], &v->out);
    }
    give(v);
}

/* The padding in front of split number i that was made for it; -1: none. */
static int padding_of(const script *s, int i) {
    for (int j = i - 1; j >= 0; j--)
        if (is(&s->at[j], "pad") && !strcmp(s->at[j].word[1], s->at[i].word[1])) return j;
    return -1;
}

static void with_number(mover *v, int i, int word, int64_t now, int64_t next) {
    line *l = &v->s.at[i], kept = *l;
    int at = is(l, "split") ? padding_of(&v->s, i) : -1;
    line *pad = at >= 0 ? &v->s.at[at] : NULL, kept_pad = {.n = 0};
    if (next < 1 || next == now) return;
    if (pad) {
        kept_pad = *pad;
        int64_t multiple = strtoll(pad->word[2], NULL, 10) / now;
        snprintf(pad->word[2], WORD, "%lld", (long long)(next * (multiple < 1 ? 1 : multiple)));
    }
    snprintf(l->word[word], WORD, "%lld", (long long)next);
    give_script(v, -1, NULL);
    *l = kept;
    if (pad) *pad = kept_pad;
}

/* Is the loop that a split makes inside bound by a later line? Then its extent is one of
 * vectors. */
static bool vector_split(const mover *v, int i) {
    const line *l = &v->s.at[i];
    for (int j = i + 1; l->n >= 6 && j < v->s.n; j++)
        if (is(&v->s.at[j], "vec") && !strcmp(v->s.at[j].word[1], l->word[5])) return true;
    return false;
}

/* Doubles, halves and neighbours; extents of whole vectors stay so. */
static void move_numbers(mover *v) {
    int lanes = v->m.lanes;
    for (int i = 0; i < v->s.n && !v->enough; i++) {
        int word = number_at(&v->s.at[i]);
        int64_t n = word ? strtoll(v->s.at[i].word[word], NULL, 10) : 0;
        if (n < 1) continue;
        int64_t apart = n > lanes && n % lanes == 0 ? lanes : 1;
        const int64_t next[] = {n * 2,         n / 2, n + apart, n - apart, n + 2 * apart,
                                n - 2 * apart, n * 4, n / 4,     n * 3 / 2, n * 3 / 4};
        size_t most = vector_split(v, i) ? 2 : COUNT_OF(next);
        for (size_t j = 0; j < most; j++) {
            bool fits = apart == 1 || (next[j] > 0 && next[j] % lanes == 0);
            bool first = true;
            for (size_t l = 0; l < j; l++) first &= next[l] != next[j];
            if (fits && first) with_number(v, i, word, n, next[j]);
        }
    }
}

static void move_out(mover *v) {
    for (int i = 0; i < v->s.n && !v->enough; i++) give_script(v, i, NULL);
}

/* ---- a line of any row put in ---------------------------------------------------------------- */

typedef struct insertion {
    mover *v;
    transform_kind kind;
    int seen, each, tried, given; /* each: of so many ways one is tried */
} insertion;

static bool count_way(void *user, const transform_args *a) {
    insertion *x = user;
    (void)a;
    return ++x->seen < MOST_WAYS;
}

static bool try_way(void *user, const transform_args *a) {
    insertion *x = user;
    mover *v = x->v;
    kernel *k = v->m.k;
    if (x->tried++ % x->each) return true;
    const char *name[COUNT_OF(a->loop)];
    for (int i = 0; i < a->loops; i++) name[i] = name_of(&v->m, a->loop[i]);
    str text;
    str_open_in(&text, &k->arena);
    transform_print(k, x->kind, a, name, &text);
    str_add(&text, "\n");
    ir_saved was = ir_save(k);
    bool legal = transform_run(k, x->kind, a, NULL);
    ir_restore(k, &was);
    if (!legal) return true;
    give_script(v, -1, text.s);
    return !v->enough && ++x->given < MOST_GIVEN;
}

/* A few legal ways for each row, spread over the kernel. */
static void move_in(mover *v) {
    for (int i = 0; i < TRANSFORMS && !v->enough; i++) {
        insertion x = {.v = v, .kind = (transform_kind)i};
        if (transform_rows[i].effect == EFFECT_FAR) continue;
        transform_neighbours(v->m.k, x.kind, count_way, &x);
        x.each = x.seen / MOST_TRIED + 1;
        x.tried = v->s.n; /* other parents, other ways */
        transform_neighbours(v->m.k, x.kind, try_way, &x);
    }
}

/* ---- what pays together ---------------------------------------------------------------------- */

static stmt_id *loops_of(mover *v, int *n) {
    kernel *k = v->m.k;
    stmt_id *loop = arena_alloc(&k->arena, MOST_LOOPS * sizeof *loop);
    *n = 0;
    for (stmt_id s = k->root; (s = ir_next(k, s, k->root)) && *n < MOST_LOOPS;)
        if (ir_s(k, s)->kind == STMT_LOOP) loop[(*n)++] = s;
    return loop;
}

/* Is the loop one that the tail binds? */
static bool bound_later(const mover *v, const char *name) {
    for (int i = v->tail; i < v->s.n; i++)
        if (v->s.at[i].n > 1 && !strcmp(v->s.at[i].word[1], name)) return true;
    return false;
}

static bool innermost(const scheduler *m, stmt_id loop) {
    for (stmt_id s = loop; (s = ir_next(m->k, s, loop));)
        if (schedule_at(m, s)->kind == STMT_LOOP) return false;
    return true;
}

/* Are all inner loops bound? Then the loop runs serially around straight-line code. */
static bool around_straight(const mover *v, stmt_id loop) {
    for (stmt_id s = loop; (s = ir_next(v->m.k, s, loop));)
        if (schedule_at(&v->m, s)->kind == STMT_LOOP && !bound_later(v, name_of(&v->m, s)))
            return false;
    return true;
}

static void put(mover *v, const char *fmt, ...) QN_PRINTF(2, 3);
static void put(mover *v, const char *fmt, ...) {
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    give_script(v, -1, text);
}

static void move_loops(mover *v) {
    int n, id = 700 + v->s.n;
    stmt_id *loop = loops_of(v, &n);
    for (int i = 0; i < n && !v->enough; i++) {
        const scheduler *m = &v->m;
        const char *name = name_of(m, loop[i]);
        const ir_stmt *x = schedule_at(m, loop[i]);
        int64_t trips = schedule_trips(m, loop[i]);
        if (x->loop != LOOP_SERIAL || bound_later(v, name)) continue;
        if (around_straight(v, loop[i])) {
            if (trips <= 16) put(v, "unroll %s\n", name);
            for (int f = 2; f <= 8 && f < trips; f *= 2)
                put(v, "split %s %d -> x%d u%d\nunroll u%d\n", name, f, id, id, id);
        }
        if (innermost(m, loop[i]) && trips > 1)
            put(v, "split %s %d -> x%d v%d\nvec v%d\n", name, m->lanes, id, id, id);
        if (x->parent == m->k->root && trips > 1) {
            put(v, "par %s\n", name);
            for (int c = 2; c <= 16 && c < trips; c *= 2)
                put(v, "split %s %d -> p%d q%d\npar p%d\n", name, c, id, id, id);
        }
        stmt_id child = x->first;
        if (child && child == x->last && schedule_at(m, child)->kind == STMT_LOOP)
            put(v, "swap %s %s\n", name, name_of(m, child));
    }
}

/* Vectorize the innermost loop of the copy into a tile that was just staged. */
static void add_copy_kind(mover *v, kernel *staged, const char *where, str *lines) {
    stmt_id at = ir_find_loop(staged, where), def = at ? ir_s(staged, at)->first : 0;
    while (def &&
           !(ir_s(staged, def)->kind == STMT_DEF && ir_s(staged, def)->def.mem == staged->mems - 1))
        def = ir_s(staged, def)->next;
    stmt_id loop = def ? ir_s(staged, def)->next : 0;
    if (!loop || ir_s(staged, loop)->kind != STMT_LOOP) return;
    for (stmt_id c = ir_s(staged, loop)->first; c && ir_s(staged, c)->kind == STMT_LOOP;
         c = ir_s(staged, c)->first)
        loop = c;
    const char *name = sym_name(staged->syms, ir_s(staged, loop)->l.var);
    int64_t trips = ir_most_trips(staged, loop);
    int id = 800 + v->s.n;
    if (trips == v->m.lanes)
        str_addf(lines, "vec %s\n", name);
    else
        str_addf(lines, "split %s %d -> x%d v%d\nvec v%d\n", name, v->m.lanes, id, id, id);
}

/* Stage an argument at loop[at], by the loops inside that it depends on. */
static void stage_at(mover *v, const ir_access *t, const stmt_id *loop, int at, int n) {
    scheduler *m = &v->m;
    char lines[400];
    double bytes = (double)qn_dtype_size(ir_m(m->k, t->mem)->dtype);
    int moving = 0, idle = 0;
    int used = snprintf(lines, sizeof lines, "stage a%d %s", ir_m(m->k, t->mem)->arg,
                        name_of(m, loop[at]));
    for (int i = at + 1; i < n && used < 300; i++) {
        bool moves = sym_uses(m->k->syms, t->index, schedule_at(m, loop[i])->l.var);
        int64_t trips = schedule_trips(m, loop[i]);
        idle += !moves && trips > 1;
        if (!moves || trips < 2) continue;
        moving++;
        bytes *= (double)trips;
        used += snprintf(lines + used, sizeof lines - (size_t)used, " %s", name_of(m, loop[i]));
    }
    if (!moving || !idle || bytes > 4 * (double)m->limits->l2) return;
    str all;
    str_open_in(&all, &m->k->arena);
    kernel *staged = ir_clone(m->k);
    bool legal = transform_apply(staged, lines, NULL);
    str_addf(&all, "%s\n", lines);
    if (legal) add_copy_kind(v, staged, name_of(m, loop[at]), &all);
    ir_close(staged);
    if (legal) give_script(v, -1, all.s);
}

static void move_staging(mover *v) {
    kernel *k = v->m.k;
    ir_access *t;
    uint32_t n = ir_accesses(k, k->root, &t);
    for (uint32_t i = 0; i < n; i++) {
        stmt_id loop[MOST_LOOPS];
        int depth = 0, first = 0;
        bool again = false;
        if (!t[i].load || !schedule_is_arg(&v->m, &t[i]) || t[i].dyn || t[i].guard) continue;
        for (uint32_t j = 0; j < i; j++) again |= t[j].load && t[j].mem == t[i].mem;
        if (again) continue;
        for (stmt_id s = ir_s(k, t[i].at)->parent; s != k->root && depth < MOST_LOOPS;
             s = ir_s(k, s)->parent)
            loop[depth++] = s;
        for (int j = 0; j < depth / 2; j++) {
            stmt_id s = loop[j];
            loop[j] = loop[depth - 1 - j];
            loop[depth - 1 - j] = s;
        }
        for (int at = first; at + 1 < depth && !v->enough; at++)
            if (!bound_later(v, name_of(&v->m, loop[at]))) stage_at(v, &t[i], loop, at, depth);
    }
}

void search_moves(kernel *k, const char *lines, const machine *limits, search_taker take,
                  void *user) {
    mover *v = arena_zeroed(&k->arena, sizeof *v);
    v->m = (scheduler){.k = k, .limits = limits};
    v->m.lanes = schedule_lanes(&v->m);
    v->take = take;
    v->user = user;
    str_open_in(&v->out, &k->arena);
    read_script(lines, &v->s);
    for (v->tail = v->s.n; v->tail > 0 && is_kind(&v->s.at[v->tail - 1]);) v->tail--;
    str one;
    str_open_in(&one, &k->arena);
    for (int i = 0; i < v->tail; i++) {
        one.len = 0;
        print_line(&v->s.at[i], &one);
        transform_apply(k, one.s, NULL);
    }
    move_numbers(v);
    move_out(v);
    move_loops(v);
    move_staging(v);
    move_in(v);
}
