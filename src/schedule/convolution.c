/* convolution.c - the default schedule of a convolution: a contraction whose loops do not merge
 * into rows, columns and one reduction, because an operand's index is a sum of several loops
 * (windows).
 *
 * The nest is that of a matrix product. One loop gives the lanes, one the rows of the register
 * tile; all others of the output go around them, all reduction loops inside:
 *
 *   lanes   a loop of one operand (b): as a rule the output's channels, whatever the layout, since
 *           they have no window and fill vectors; where the image itself is read contiguously
 *           (1x1), its positions. b is packed in the order of the reduction, unless it is so
 *           already
 *   rows    a loop of the other operand (a): positions along a row of the image. Each element is
 *           broadcast, so any stride and any index does, and no windows are copied (no im2col)
 *   edges   where a has padding, the part of it that a block of positions sees is copied once with
 *           its zeros (stage with joined loops): a few elements more than the image, not the
 *           windows. So the sum runs without masks
 *   windows loops of windows that are no rows, a weight's places, go inside the loop of rows: the
 *           piece of the image is copied once for all of them, and what they store lies together
 *   carry   where the sum goes over whole images (a weight's gradient), blocks of it are the
 *           outermost loop, so that what a block reads stays in the second-level cache */
#include <stdio.h>
#include <stdlib.h>

#include "schedule/schedule.h"

enum {
    LOOPS = 24,
    FEW_ROWS = 6,     /* extent that is enough for the loop of rows */
    SCATTER = 24,     /* cycles to store a vector's lanes one by one, about */
    COLLIDE = 2048,   /* bytes: rows this far apart lie in different pages */
    PANEL_BYTES = 15, /* a cycle, from the second-level cache */
    MOST_ROWS = 30
};

typedef enum side { SIDE_BOTH, SIDE_A, SIDE_B, SIDE_NONE } side;

typedef struct conv_loop {
    char name[40];
    int64_t trips, step[2]; /* of each factor's load, 0: it does not depend on the loop */
    bool in[2], sum;
    int window[2]; /* loops of one window of that load have one number, 0: none */
} conv_loop;

typedef struct conv {
    scheduler *m;
    mem_id tile, mem[2];
    ir_access load[2];
    int n, kept; /* loops: those of the output first */
    conv_loop loop[LOOPS];
    int a, b;        /* the factor of the rows, the factor of the lanes */
    int rows, lanes; /* loops */
    int mr, nv;
    int64_t depth, size;
    int64_t store_step[LOOPS];
} conv;

/* ---- facts ----------------------------------------------------------------------------------- */

/* The one load of a factor, which may be converted. */
static bool read_factor(conv *c, stmt_id store, expr_id factor, int f) {
    ir_access *t;
    uint32_t n = ir_accesses(c->m->k, store, &t), found = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!t[i].load || !ir_expr_takes(c->m->k, factor, t[i].load)) continue;
        c->load[f] = t[i];
        found++;
    }
    while (ir_e(c->m->k, factor)->kind == EXPR_OP && ir_e(c->m->k, factor)->op == OP_CAST)
        factor = ir_e(c->m->k, factor)->arg[0];
    c->mem[f] = c->load[f].mem;
    return found == 1 && factor == c->load[f].load && schedule_is_arg(c->m, &c->load[f]) &&
           !c->load[f].dyn && !c->load[f].guard;
}

static bool read_loop(conv *c, const char *name, bool sum) {
    if (c->n == LOOPS) return false;
    conv_loop *l = &c->loop[c->n++];
    *l = (conv_loop){.sum = sum};
    snprintf(l->name, sizeof l->name, "%s", name);
    stmt_id s = schedule_find(c->m, name);
    sym var = schedule_at(c->m, s)->l.var;
    l->trips = schedule_trips(c->m, s);
    for (int f = 0; f < 2; f++) {
        l->in[f] = sym_uses(c->m->k->syms, c->load[f].index, var) ||
                   sym_uses(c->m->k->syms, c->load[f].valid, var);
        if (!schedule_step(c->m, &c->load[f], var, &l->step[f])) return false;
    }
    return sym_is_const(c->m->k->syms, schedule_at(c->m, s)->l.extent, NULL) && l->trips >= 1;
}

static side side_of(const conv *c, int i) {
    const conv_loop *l = &c->loop[i];
    return l->in[c->a] && l->in[c->b] ? SIDE_BOTH
           : l->in[c->a]              ? SIDE_A
           : l->in[c->b]              ? SIDE_B
                                      : SIDE_NONE;
}

/* Find the loops of one window: a position of the output and one of the reduction that appear
 * together in the load's mask, or whose steps are so small that they see the same elements. */
static void find_windows(conv *c, int f) {
    sym_store *s = c->m->k->syms;
    sym fact[IR_FACTS];
    int facts = ir_facts(c->m->k, c->load[f].valid, fact), next = 0;
    for (int i = 0; i < c->n; i++)
        for (int j = i + 1; j < c->n; j++) {
            conv_loop *x = &c->loop[i], *y = &c->loop[j];
            if (!x->in[f] || !y->in[f] || x->sum == y->sum || !x->step[f] || !y->step[f]) continue;
            sym u = schedule_at(c->m, schedule_find(c->m, x->name))->l.var;
            sym v = schedule_at(c->m, schedule_find(c->m, y->name))->l.var;
            bool together = false;
            for (int k = 0; k < facts; k++)
                together |= sym_uses(s, fact[k], u) && sym_uses(s, fact[k], v);
            int64_t p = llabs(x->step[f]), q = llabs(y->step[f]);
            together |= (p <= q && (x->trips - 1) * p >= q) || (q <= p && (y->trips - 1) * q >= p);
            if (!together) continue;
            int number = x->window[f] ? x->window[f] : y->window[f] ? y->window[f] : ++next;
            x->window[f] = y->window[f] = number;
        }
}

/* def t; for .. for { t += a*b }; stores   directly in the innermost loop of the output; false
 * where schedule_contraction can take it. */
static bool read_conv(conv *c, stmt_id loop) {
    scheduler *m = c->m;
    loop_chain kept = loop_chain_of(m, loop);
    stmt_id def = schedule_at(m, kept.body)->first, red = def ? schedule_at(m, def)->next : 0;
    if (!red || schedule_at(m, def)->kind != STMT_DEF || schedule_at(m, red)->kind != STMT_LOOP)
        return false;
    for (stmt_id s = schedule_at(m, red)->next; s; s = schedule_at(m, s)->next)
        if (schedule_at(m, s)->kind != STMT_STORE) return false;
    loop_chain sum = loop_chain_of(m, red);
    stmt_id store = schedule_at(m, sum.body)->first;
    if (!store || store != schedule_at(m, sum.body)->last ||
        schedule_at(m, store)->kind != STMT_STORE)
        return false;
    const ir_expr *e = ir_e(m->k, schedule_at(m, store)->store.value[0]);
    c->tile = schedule_at(m, def)->def.mem;
    if (schedule_at(m, store)->monoid != MONOID_SUM ||
        schedule_at(m, store)->store.mem[0] != c->tile || e->kind != EXPR_OP || e->op != OP_MUL)
        return false;
    expr_id f[2] = {e->arg[0], e->arg[1]};
    if (!read_factor(c, store, f[0], 0) || !read_factor(c, store, f[1], 1)) return false;
    int joints =
        0; /* loops that do not merge, not counting those between rows, columns and batch */
    for (int i = 0; i + 1 < sum.n; i++)
        joints +=
            !schedule_in_step(m, schedule_find(m, sum.name[i]), schedule_find(m, sum.name[i + 1]));
    bool plain = !joints;
    for (int i = 0; i < kept.n; i++)
        if (!read_loop(c, kept.name[i], false)) return false;
    c->kept = c->n;
    for (int k = 1; k <= 2; k++) {
        int runs = 0;
        c->a = k - 1, c->b = 2 - k;
        for (int i = 0, last = -2; i < c->n; i++) {
            if (side_of(c, i) != SIDE_A) continue;
            bool goes_on = last >= 0 && schedule_in_step(m, schedule_find(m, c->loop[last].name),
                                                         schedule_find(m, c->loop[i].name));
            runs += !goes_on;
            last = i;
        }
        if (!runs) return false;
        plain &= runs == 1;
    }
    if (plain) return false;
    schedule_merge_in_step(m, &sum);
    loop_chain whole = loop_chain_of(m, loop);
    whole.n = kept.n;
    schedule_merge_in_step(m, &whole);
    c->n = 0;
    store = schedule_at(m, sum.body)->first; /* loads have new indices */
    e = ir_e(m->k, schedule_at(m, store)->store.value[0]);
    f[0] = e->arg[0], f[1] = e->arg[1];
    if (!read_factor(c, store, f[0], 0) || !read_factor(c, store, f[1], 1)) return false;
    for (int i = 0; i < whole.n; i++)
        if (!read_loop(c, whole.name[i], false)) return false;
    c->kept = c->n;
    c->depth = 1;
    for (int i = 0; i < sum.n; i++) {
        if (!read_loop(c, sum.name[i], true)) return false;
        c->depth *= c->loop[c->n - 1].trips;
    }
    red = schedule_find(m, sum.name[0]);
    sym index = schedule_at(m, schedule_at(m, red)->next)->store.index, rest;
    for (int i = 0; i < c->kept; i++) {
        sym var = schedule_at(m, schedule_find(m, c->loop[i].name))->l.var;
        if (!sym_split(m->k->syms, index, var, &c->store_step[i], &rest)) c->store_step[i] = 2;
    }
    return true;
}

/* ---- decisions ------------------------------------------------------------------------------- */

static int64_t tiles_of(int64_t n, int64_t each) {
    return (n + each - 1) / each;
}

/* The fraction of the machine's peak that vectors along loop i could reach. */
static double lane_rate(const conv *c, int i, int f) {
    const conv_loop *l = &c->loop[i];
    int64_t lanes = c->m->lanes;
    double rate = (double)l->trips / (double)(tiles_of(l->trips, lanes) * lanes);
    bool windows = false;
    for (int k = 0; k < c->n; k++) windows |= c->loop[k].window[f] && !c->loop[k].sum;
    if (llabs(l->step[f]) != 1) rate *= windows ? 0.7 : 0.97; /* packed, window by window */
    if (l->window[f] && l->step[f] != 1) rate *= 0.7;
    if (windows && l->step[f] == 1 && c->load[f].valid != SYM_TRUE) rate *= 0.9; /* unaligned */
    double time = (double)c->depth / 2;
    if (c->store_step[i] != 1) rate *= time / (time + SCATTER);
    return rate;
}

static bool choose_lanes(conv *c) {
    double best = 0;
    for (int i = 0; i < c->kept; i++) {
        const conv_loop *l = &c->loop[i];
        if (l->in[0] == l->in[1]) continue;
        double rate = lane_rate(c, i, l->in[0] ? 0 : 1);
        if (rate <= best * 1.001) continue;
        best = rate;
        c->lanes = i;
        c->b = l->in[0] ? 0 : 1;
        c->a = 1 - c->b;
    }
    int most = -1;
    for (int i = c->kept; i-- > 0;) {
        if (side_of(c, i) != SIDE_A) continue;
        if (most < 0 || c->loop[i].trips > c->loop[most].trips) most = i;
        if (c->loop[i].trips >= FEW_ROWS) {
            most = i;
            break;
        }
    }
    c->rows = most;
    return best > 0 && most >= 0;
}

/* As schedule_contraction's: least time for the whole. Rows that look over an edge are not padded,
 * for then what they see would depend on more than their position. */
static void choose_tile(conv *c) {
    const scheduler *m = c->m;
    const conv_loop *rows = &c->loop[c->rows], *lanes = &c->loop[c->lanes];
    double best = 1e300;
    c->mr = c->nv = 1;
    for (int v = 1; v <= 6; v++)
        for (int r = 1; r <= MOST_ROWS && r <= rows->trips; r++) {
            if (r * v + v + 1 > m->limits->registers) continue;
            if (v > 1 && (int64_t)(v - 1) * m->lanes >= lanes->trips) continue;
            if (rows->window[c->a] && rows->trips % r) continue;
            double fma = r * v / 2.0, load = (r + v) / 2.0, cycles = fma > load ? fma : load;
            if (cycles < 4) cycles = 4;
            int64_t step = (int64_t)v * m->limits->vector_bytes;
            double stream = c->depth * step > m->limits->l1 ? (double)step / PANEL_BYTES : 0;
            if (cycles < stream) cycles = stream;
            double tiles =
                (double)tiles_of(rows->trips, r) * (double)tiles_of(lanes->trips, v * m->lanes);
            double time = tiles * (cycles + 0.5 + 0.06 * (r + v));
            if (time < best * 0.999) best = time, c->mr = r, c->nv = v;
        }
}

/* ---- building the nest ----------------------------------------------------------------------- */

/* Bytes of the second-level cache that copies may take. */
static int64_t copy_bytes(const conv *c) {
    return (c->m->limits->l2 ? c->m->limits->l2 : 256 << 10) / 2;
}

/* Do rows go around loops of a's windows, as those of a weight's gradient over channels do? Then
 * what a trip of rows sees of a is copied once for them, and what it stores lies together. */
static bool rows_around(const conv *c, bool deep) {
    bool windows = false;
    if (c->loop[c->rows].window[c->a]) return false;
    for (int i = 0; i < c->kept; i++) windows |= c->loop[i].window[c->a] && side_of(c, i) == SIDE_A;
    return deep || windows;
}

/* Where a loop of the output stands: from outside in. `deep`: blocks of the sum are outside. */
static int rank_of(const conv *c, int i, bool panels, bool deep) {
    side s = side_of(c, i);
    if (i == c->lanes) return panels ? 2 : 6;
    if (i == c->rows) return rows_around(c, deep) ? 3 : 5;
    return s == SIDE_BOTH ? 0 : s == SIDE_B ? 1 : 4;
}

/* Sort the loops of the output by rank; loop numbers follow. */
static bool order_loops(conv *c, bool panels, bool deep) {
    scheduler *m = c->m;
    for (int pass = 0; pass < c->kept; pass++)
        for (int i = 0; i + 1 < c->kept; i++) {
            if (rank_of(c, i, panels, deep) <= rank_of(c, i + 1, panels, deep)) continue;
            if (!schedule_apply(m, "swap %s %s", c->loop[i].name, c->loop[i + 1].name))
                return false;
            conv_loop t = c->loop[i];
            c->loop[i] = c->loop[i + 1], c->loop[i + 1] = t;
            int *of[2] = {&c->rows, &c->lanes};
            for (int k = 0; k < 2; k++) *of[k] = *of[k] == i ? i + 1 : *of[k] == i + 1 ? i : *of[k];
        }
    return true;
}

/* The axes of the staged part from outside in: by decreasing stride, then the channels, the
 * contiguous axis last. */
static int64_t axis_rank(const conv *c, int i) {
    const conv_loop *l = &c->loop[i];
    int w = l->window[c->a];
    int64_t step = llabs(l->step[c->a]);
    if (w) /* the smallest step of the window */
        for (int k = 0; k < c->n; k++)
            if (c->loop[k].window[c->a] == w && llabs(c->loop[k].step[c->a]) < step)
                step = llabs(c->loop[k].step[c->a]);
    bool rows = w && w == c->loop[c->rows].window[c->a];
    int64_t far = ((int64_t)1 << 40) - step;
    return step == 1 ? INT64_MAX : w && !rows ? far : ((int64_t)(rows ? 2 : 1) << 42) + far;
}

/* Order the reduction along the windows as the staged part is laid out. */
static void order_sum(conv *c) {
    for (int pass = c->kept; pass < c->n; pass++)
        for (int i = c->kept; i + 1 < c->n; i++) {
            if (axis_rank(c, i) <= axis_rank(c, i + 1)) continue;
            if (!schedule_apply(c->m, "swap %s %s", c->loop[i].name, c->loop[i + 1].name)) return;
            conv_loop t = c->loop[i];
            c->loop[i] = c->loop[i + 1], c->loop[i + 1] = t;
        }
}

/* Blocks of the reduction of at most `most` bytes of both operands: the first loop, and with it a
 * part of the second. */
static void cut_sum(conv *c, double most) {
    scheduler *m = c->m;
    conv_loop *first = &c->loop[c->kept], *second = first + 1;
    if (c->n < c->kept + 3 || second->trips < 2) return;
    double each = 1, both;
    for (int i = c->kept + 2; i < c->n; i++) each *= (double)c->loop[i].trips;
    both = each * (double)(c->nv * m->lanes + c->mr) * (double)c->size;
    int64_t part = second->trips;
    while (part > 1 && (second->trips % part || (double)part * both > most)) part--;
    if (part == second->trips) return;
    if (!schedule_apply(m, "split %s %lld -> kb900 ki900", second->name, (long long)part)) return;
    if (!schedule_apply(m, "merge %s kb900 -> ko900", first->name)) return;
    first->trips *= second->trips / part;
    second->trips = part;
    snprintf(first->name, sizeof first->name, "ko900");
    snprintf(second->name, sizeof second->name, "ki900");
}

static bool pad_to(scheduler *m, const conv_loop *l, int64_t multiple) {
    return l->trips % multiple == 0 ||
           schedule_apply(m, "pad %s %lld", l->name, (long long)multiple);
}

/* rows -> ro900 u901, lanes -> co900 u900 v900, and the register tile; other loops keep their
 * order, the tile's own are innermost. */
static bool build_tile(conv *c) {
    scheduler *m = c->m;
    const char *rows = c->loop[c->rows].name, *lanes = c->loop[c->lanes].name;
    int nr = c->nv * m->lanes, number = ir_tile_number(m->k, c->tile);
    if (!pad_to(m, &c->loop[c->rows], c->mr) || !pad_to(m, &c->loop[c->lanes], nr)) return false;
    if (!schedule_apply(m, "split %s %d -> ro900 u901", rows, c->mr)) return false;
    if (!schedule_apply(m, "split %s %d -> co900 w900", lanes, nr)) return false;
    for (int k = 0; k < 2; k++) { /* inward, past the loops that are inside */
        int from = k ? c->lanes : c->rows;
        const char *name = k ? "w900" : "u901";
        for (int i = from + 1; i < c->kept; i++) {
            const char *past = i == c->lanes ? "co900" : i == c->rows ? "ro900" : c->loop[i].name;
            if (!schedule_apply(m, "swap %s %s", name, past)) return false;
        }
        if (k && c->lanes < c->rows && !schedule_apply(m, "swap w900 u901")) return false;
    }
    if (!schedule_apply(m, "split w900 %d -> u900 v900", m->lanes)) return false;
    return schedule_apply(m, "accumulate t%d v900", number) &&
           schedule_apply(m, "accumulate t%d u900", number) &&
           schedule_apply(m, "accumulate t%d u901", number);
}

/* List a loop's parts that are inside `at`: rows and lanes were split. */
static void list_loop(const conv *c, int i, stmt_id at, char *out, size_t cap,
                      const char *between) {
    const char *piece[3] = {c->loop[i].name, NULL, NULL};
    if (i == c->rows) piece[0] = "ro900", piece[1] = "u901";
    if (i == c->lanes) piece[0] = "co900", piece[1] = "u900", piece[2] = "v900";
    for (int k = 0; k < 3; k++) {
        stmt_id s = piece[k] ? schedule_find(c->m, piece[k]) : 0;
        if (!s || s == at || !ir_inside(c->m->k, s, at) || schedule_trips(c->m, s) <= 1) continue;
        size_t n = strlen(out);
        snprintf(out + n, cap - n, "%s %s", n ? between : "", piece[k]);
        between = i == c->lanes ? "" : " +";
    }
}

/* Stage what the blocks inside `at` see of the image, edges included; vectors along memory. */
static void stage_image(conv *c, const char *where) {
    scheduler *m = c->m;
    char loops[300] = "", axis[200];
    stmt_id at = schedule_find(m, where);
    bool done[LOOPS] = {false};
    for (int i = 0; i < c->n; i++) {
        int next = -1;
        for (int k = 0; k < c->n; k++)
            if (!done[k] && c->loop[k].in[c->a] &&
                (next < 0 || axis_rank(c, k) < axis_rank(c, next)))
                next = k;
        if (next < 0) break;
        axis[0] = 0;
        for (int k = 0; k < c->n; k++) {
            bool same = k == next || (c->loop[next].window[c->a] &&
                                      c->loop[k].window[c->a] == c->loop[next].window[c->a]);
            if (!same || !c->loop[k].in[c->a]) continue;
            done[k] = true;
            list_loop(c, k, at, axis, sizeof axis, " +");
        }
        snprintf(loops + strlen(loops), sizeof loops - strlen(loops), "%s", axis);
    }
    if (!loops[0] ||
        !schedule_apply(m, "stage a%d %s%s", ir_m(m->k, c->mem[c->a])->arg, where, loops))
        return;
    loop_chain copy;
    if (!schedule_staged(m, where, &copy)) return;
    int id = m->next++;
    if (schedule_apply(m, "split %s %d -> x%d v%d", copy.name[copy.n - 1], m->lanes, id, id))
        schedule_apply(m, "peel x%d", id);
}

static void pack_lanes(conv *c, const char *where) {
    scheduler *m = c->m;
    char loops[300] = "";
    stmt_id at = schedule_find(m, where);
    if (ir_inside(m->k, schedule_find(m, "co900"), at) && schedule_find(m, "co900") != at &&
        schedule_trips(m, schedule_find(m, "co900")) > 1)
        snprintf(loops, sizeof loops, " co900");
    for (int i = 0; i < c->n; i++)
        if (i != c->lanes && c->loop[i].in[c->b]) list_loop(c, i, at, loops, sizeof loops, "");
    snprintf(loops + strlen(loops), sizeof loops - strlen(loops), "%s v900",
             c->nv > 1 ? " u900" : "");
    schedule_apply(m, "stage a%d %s%s", ir_m(m->k, c->mem[c->b])->arg, where, loops);
}

/* Elements of an operand that one iteration of loop `at` accesses (-1: all), reduction loops but
 * the first `skip` included. Loops of a window add up. */
static double footprint(const conv *c, int f, int at, int skip) {
    double n = 1, window[LOOPS] = {0};
    for (int i = 0; i < c->n; i++) {
        const conv_loop *l = &c->loop[i];
        if (!l->in[f] || (l->sum ? i < c->kept + skip : i < at)) continue;
        double trips = (double)l->trips;
        if (i == at && !l->sum) {
            if (i != c->rows && i != c->lanes) continue;
            trips = i == c->rows ? c->mr : c->nv * c->m->lanes;
        }
        if (l->window[f])
            window[l->window[f]] += trips;
        else
            n *= trips;
    }
    for (int w = 0; w < LOOPS; w++)
        if (window[w] > 0) n *= window[w];
    return n;
}

/* Split the outermost loop into parts, for each of which the weights are packed once: as many as
 * keep the threads busy. */
static bool split_parts(conv *c) {
    conv_loop *l = &c->loop[0];
    int threads = c->m->limits->threads > 1 ? c->m->limits->threads : 1;
    int64_t part = tiles_of(l->trips, 2 * threads);
    while (part > 1 && l->trips % part) part--;
    if (part < 2 || !schedule_apply(c->m, "split %s %lld -> pp900 in900", l->name, (long long)part))
        return false;
    l->trips = part;
    snprintf(l->name, sizeof l->name, "in900");
    return true;
}

static void share(conv *c, int first) {
    scheduler *m = c->m;
    char root[40];
    snprintf(root, sizeof root, "%s", schedule_name(m, schedule_at(m, m->k->root)->first));
    stmt_id s = schedule_find(m, root);
    for (int i = 0; i < first && schedule_trips(m, s) < 2 * m->limits->threads; i++) {
        stmt_id inner = schedule_at(m, s)->first;
        if (inner != schedule_at(m, s)->last || schedule_at(m, inner)->kind != STMT_LOOP) break;
        if (!schedule_apply(m, "merge %s %s -> p90%d", root, schedule_name(m, inner), i)) break;
        snprintf(root, sizeof root, "p90%d", i);
        s = schedule_find(m, root);
    }
    if (schedule_trips(m, s) > 1 && schedule_work(m, s) > 4 * SCHEDULE_ITEM_WORK)
        schedule_apply(m, "par %s", root);
}

/* Where to stage the image: the outermost loop whose iteration sees no more than the cache holds;
 * `first`: the outermost candidate. */
static void stage_image_at(conv *c, int first, const char *const *names, bool deep) {
    int at = first;
    double most = (double)copy_bytes(c);
    while (at + 1 < c->kept && footprint(c, c->a, at, deep) * (double)c->size > most) at++;
    while (at + 1 < c->kept && at != c->rows && !c->loop[at].in[c->a])
        at++; /* no gain further out */
    stage_image(c, names[at]);
}

bool schedule_convolution(scheduler *m, stmt_id loop) {
    conv *c = arena_zeroed(&m->k->arena, sizeof *c);
    c->m = m;
    if (!read_conv(c, loop)) return false;
    find_windows(c, 0);
    find_windows(c, 1);
    if (!choose_lanes(c)) return false;
    choose_tile(c);
    c->size = m->limits->vector_bytes / m->lanes;
    bool pack = c->loop[c->lanes].step[c->b] != 1 || c->load[c->b].valid != SYM_TRUE;
    int outer = 0; /* loops that a does not depend on, or that both do: around everything */
    for (int i = 0; i < c->kept; i++)
        outer += i != c->lanes && (side_of(c, i) == SIDE_BOTH || side_of(c, i) == SIDE_B);
    double all = 1, most = (double)copy_bytes(c);
    for (int i = 0; i < c->n; i++)
        if (c->loop[i].in[c->b] && (c->loop[i].sum || i == c->lanes))
            all *= (double)c->loop[i].trips;
    all *= (double)c->size;
    double panel = all / (double)tiles_of(c->loop[c->lanes].trips, c->nv * m->lanes);
    bool deep = panel > most && c->loop[c->kept].trips > 1 && c->n > c->kept + 1 &&
                c->loop[c->kept].in[c->a] && c->loop[c->kept].in[c->b];
    bool panels = deep || all > most;
    if (!order_loops(c, panels, deep)) return false;
    if (deep)
        cut_sum(c, most / 4);
    else
        order_sum(c);
    if (!build_tile(c)) return true;
    const char *sum = c->loop[c->kept].name, *names[LOOPS];
    int first = 0; /* the outermost loop that a depends on */
    while (!c->loop[first].in[c->a] || side_of(c, first) == SIDE_BOTH) first++;
    for (int i = 0; i < c->kept; i++)
        names[i] = i == c->rows ? "ro900" : i == c->lanes ? "co900" : c->loop[i].name;
    int number = ir_tile_number(m->k, c->tile);
    deep = deep && schedule_apply(m, "block_reduction t%d %s %s", number, sum, names[first]);
    if (deep) {
        schedule_apply(m, "split more_t %d -> u902 v902", m->lanes);
        schedule_apply(m, "split wait_t %d -> u903 v903", m->lanes);
    }
    bool parts = pack && !deep && !panels && !outer && c->rows && split_parts(c);
    if (pack)
        pack_lanes(c, deep     ? sum
                      : panels ? "co900"
                      : parts  ? "pp900"
                               : names[outer ? outer - 1 : 0]);
    if (c->load[c->a].valid != SYM_TRUE) stage_image_at(c, deep ? first : 0, names, deep);
    share(c, c->kept);
    return true;
}

/* ---- depthwise ------------------------------------------------------------------------------- */

void schedule_gather_once(scheduler *m, const char *root, const char *lanes) {
    stmt_id top = schedule_find(m, root), vec = schedule_find(m, lanes);
    ir_access *t;
    if (!top || !vec || !ir_inside(m->k, vec, top) || vec == top) return;
    sym_store *s = m->k->syms;
    sym var = schedule_at(m, vec)->l.var;
    uint32_t n = ir_accesses(m->k, vec, &t);
    for (uint32_t i = 0; i < n; i++) {
        int64_t step;
        if (!t[i].load || !schedule_is_arg(m, &t[i]) || t[i].dyn || t[i].guard) continue;
        if (!schedule_step(m, &t[i], var, &step) || !step || step == 1) continue;
        if (sym_uses(s, t[i].index, schedule_at(m, top)->l.var)) continue;
        char loops[300] = "";
        const char *name[LOOPS];
        int used = 0;
        int64_t again = 1;
        for (stmt_id p = vec; p != top && used < LOOPS; p = schedule_at(m, p)->parent) {
            sym v = schedule_at(m, p)->l.var;
            if (sym_uses(s, t[i].index, v) || sym_uses(s, t[i].valid, v))
                name[used++] = schedule_name(m, p);
            else if (schedule_trips(m, p) < (int64_t)1 << 30)
                again *= schedule_trips(m, p) > 1 ? schedule_trips(m, p) : 1;
        }
        while (used-- > 0)
            snprintf(loops + strlen(loops), sizeof loops - strlen(loops), " %s", name[used]);
        if (again < 4) continue;
        schedule_apply(m, "stage a%d %s%s", ir_m(m->k, t[i].mem)->arg, root, loops);
        return;
    }
}
