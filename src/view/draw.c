/* draw.c - a graph as a drawing: layers by the longest path, from values at the top to the result
 * at the bottom; the order within layers by what nodes hang on, so that few lines cross; a line
 * over several layers goes by a place of its own in each.
 *
 * A graph that is large is made smaller before: of a part that repeats, as a model's layers do,
 * the first and the last one stay, and a box between them says how often it comes again; and of
 * what is still too much, what lies nearest to the result stays. */
#include "view/view.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    FOLD_FROM = 100,    /* nodes */
    FOLD_LEAST = 3,     /* that a repetition has */
    FOLD_SEARCH = 6000, /* nodes in which one is looked for */
    MOST_NODES = 220,
    MOST_PLACES = 6000, /* of lines, in layers that they pass */
    SWEEPS = 10,
    FIT = 2000 /* wide, which is made smaller to fit the page */
};
static const double letter = 6.65, row = 14, gap = 18, between = 34;

/* ---- folding --------------------------------------------------------------------------------- */

/* Names of given values do not tell two parts apart. */
static uint64_t token_of(const view_node *x) {
    const char *what = x->kind == VIEW_GIVEN ? "" : x->line[0];
    uint64_t h = hash_bytes(what, strlen(what), x->ins);
    return x->line[1] && x->kind != VIEW_KERNEL ? hash_bytes(x->line[1], strlen(x->line[1]), h) : h;
}

/* Nodes [from, from + times * period) are `times` times the same. */
typedef struct repeat {
    uint32_t from, period, times;
} repeat;

static repeat find_repeat(const view_graph *g, arena *a) {
    repeat best = {0, 0, 0};
    uint32_t n = g->nodes, saved = 0;
    if (n < FOLD_FROM || n > FOLD_SEARCH) return best;
    uint64_t *token = arena_alloc(a, n * sizeof *token);
    for (uint32_t i = 0; i < n; i++) token[i] = token_of(&g->node[i]);
    for (uint32_t p = FOLD_LEAST; p <= n / 3; p++)
        for (uint32_t i = 0, run = 0; i + p < n; i++) {
            run = token[i] == token[i + p] ? run + 1 : 0;
            uint32_t times = run / p + 1;
            if (times < 3 || (times - 2) * p <= saved) continue;
            saved = (times - 2) * p;
            best = (repeat){i + 1 - run, p, times};
        }
    return best;
}

static void add_in(view_graph *g, view_node *x, uint32_t from) {
    for (uint32_t i = 0; i < x->ins; i++)
        if (x->in[i] == from) return;
    x->in = arena_grow(g->a, x->in, &x->in_cap, x->ins + 1, sizeof *x->in);
    x->in[x->ins++] = from;
}

/* Nodes [from, to) become one, called that. */
static void join(view_graph *g, uint32_t from, uint32_t to, const char *line, const char *more) {
    uint32_t *now = arena_alloc(g->a, (g->nodes + 1) * sizeof *now);
    view_node *node = arena_zeroed(g->a, (g->nodes + 1) * sizeof *node);
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->nodes; i++) {
        bool in = i >= from && i < to;
        now[i] = in && i > from ? now[from] : n++;
        view_node *x = &node[now[i]];
        if (!in) *x = g->node[i];
        if (in) x->line[0] = line, x->line[1] = more, x->kind = VIEW_FOLD;
        uint32_t ins = g->node[i].ins;
        const uint32_t *source = g->node[i].in;
        if (!in) x->in = NULL, x->ins = x->in_cap = 0;
        for (uint32_t k = 0; k < ins; k++)
            if (now[source[k]] != now[i]) add_in(g, x, now[source[k]]);
    }
    g->node = node;
    g->nodes = n;
}

static void make_small(view_graph *g) {
    for (int i = 0; i < 4; i++) {
        repeat r = find_repeat(g, g->a);
        if (!r.times) break;
        uint32_t from = r.from + r.period, to = r.from + (r.times - 1) * r.period;
        join(g, from, to, arena_printf(g->a, "%u more times the same", r.times - 2),
             arena_printf(g->a, "%u nodes each", r.period));
    }
    if (g->nodes <= MOST_NODES) return;
    uint32_t cut = g->nodes - MOST_NODES;
    join(g, 0, cut, arena_printf(g->a, "%u nodes before", cut), "are not shown");
}

/* ---- layers ---------------------------------------------------------------------------------- */

/* A node, or a place of a line in a layer that it passes. */
typedef struct item {
    uint32_t node; /* VIEW_NONE: a place */
    uint32_t layer, at;
    double x, width, height, key, left, right;
} item;
typedef struct line {
    uint32_t from, to; /* items of neighbouring layers, or far apart where there are too many */
} line;

typedef struct layout {
    const view_graph *g;
    arena *a;
    item *item;
    line *line;
    uint32_t items, item_cap, lines, line_cap, layers;
    uint32_t *first, *order;            /* by layer: its first place in `order`; items */
    uint32_t *first_line[2], *other[2]; /* by item: neighbours above, below */
} layout;

/* As near to the result as the longest path leaves it: so what is given stands where it is used. */
static uint32_t *layers_of(layout *l) {
    const view_graph *g = l->g;
    uint32_t *layer = arena_zeroed(l->a, (g->nodes + 1) * sizeof *layer), last = 0;
    for (uint32_t i = g->nodes; i-- > 0;) { /* layers from the end */
        for (uint32_t k = 0; k < g->node[i].ins; k++)
            if (layer[g->node[i].in[k]] <= layer[i]) layer[g->node[i].in[k]] = layer[i] + 1;
        if (layer[i] > last) last = layer[i];
    }
    for (uint32_t i = 0; i < g->nodes; i++) layer[i] = last - layer[i];
    l->layers = last + 1;
    return layer;
}

static uint32_t add_item(layout *l, item x) {
    l->item = arena_grow(l->a, l->item, &l->item_cap, l->items + 1, sizeof *l->item);
    l->item[l->items] = x;
    return l->items++;
}

static void add_line(layout *l, uint32_t from, uint32_t to) {
    l->line = arena_grow(l->a, l->line, &l->line_cap, l->lines + 1, sizeof *l->line);
    l->line[l->lines++] = (line){from, to};
}

static item item_of(const view_node *x, uint32_t node, uint32_t layer) {
    item it = {.node = node, .layer = layer, .width = 40, .height = 8};
    for (int i = 0; i < VIEW_LINES; i++) {
        if (!x->line[i]) continue;
        double width = letter * (double)view_letters(x->line[i]) + 16;
        if (width > it.width) it.width = width;
        it.height += row;
    }
    return it;
}

static void make_items(layout *l) {
    const view_graph *g = l->g;
    const uint32_t *layer = layers_of(l);
    for (uint32_t i = 0; i < g->nodes; i++) add_item(l, item_of(&g->node[i], i, layer[i]));
    for (uint32_t i = 0; i < g->nodes; i++)
        for (uint32_t k = 0; k < g->node[i].ins; k++) {
            uint32_t from = g->node[i].in[k];
            for (uint32_t at = layer[from] + 1; at < layer[i] && l->items < MOST_PLACES; at++) {
                uint32_t place = add_item(l, (item){.node = VIEW_NONE, .layer = at, .width = 4});
                add_line(l, from, place);
                from = place;
            }
            add_line(l, from, i);
        }
}

/* By item its neighbours: above it (side 0) and below. */
static void find_neighbours(layout *l, int side) {
    uint32_t *first = arena_zeroed(l->a, (l->items + 2) * sizeof *first);
    uint32_t *other = arena_alloc(l->a, (l->lines + 1) * sizeof *other);
    for (uint32_t i = 0; i < l->lines; i++) first[(side ? l->line[i].from : l->line[i].to) + 2]++;
    for (uint32_t i = 2; i <= l->items + 1; i++) first[i] += first[i - 1];
    for (uint32_t i = 0; i < l->lines; i++) {
        uint32_t mine = side ? l->line[i].from : l->line[i].to;
        other[first[mine + 1]++] = side ? l->line[i].to : l->line[i].from;
    }
    l->first_line[side] = first;
    l->other[side] = other;
}

static void make_layers(layout *l) {
    l->first = arena_zeroed(l->a, (l->layers + 2) * sizeof *l->first);
    l->order = arena_alloc(l->a, (l->items + 1) * sizeof *l->order);
    for (uint32_t i = 0; i < l->items; i++) l->first[l->item[i].layer + 2]++;
    for (uint32_t i = 2; i <= l->layers + 1; i++) l->first[i] += l->first[i - 1];
    for (uint32_t i = 0; i < l->items; i++) {
        uint32_t *next = &l->first[l->item[i].layer + 1];
        l->item[i].at = *next;
        l->order[(*next)++] = i;
    }
    find_neighbours(l, 0);
    find_neighbours(l, 1);
}

/* ---- the order in layers, and places --------------------------------------------------------- */

/* What is given stands beside what it is used by, and moves nothing. */
static bool is_light(const layout *l, const item *x) {
    return x->node != VIEW_NONE && l->g->node[x->node].kind == VIEW_GIVEN;
}

static double mean_of(const layout *l, uint32_t i, int side, bool by_place) {
    double sum = 0, all = 0;
    const uint32_t from = l->first_line[side][i], to = l->first_line[side][i + 1];
    for (uint32_t k = from; k < to; k++) {
        const item *x = &l->item[l->other[side][k]];
        double weight = by_place && is_light(l, x) ? 1e-3 : 1;
        all += weight;
        sum += weight * (by_place ? x->x
                                  : (double)(x->at - l->first[x->layer]) /
                                        (l->first[x->layer + 1] - l->first[x->layer]));
    }
    return to > from ? sum / all : NAN;
}

/* Insertion keeps the order of equal ones, and layers are nearly sorted after the first time. */
static void sort_layer(layout *l, uint32_t layer) {
    for (uint32_t i = l->first[layer] + 1; i < l->first[layer + 1]; i++)
        for (uint32_t k = i; k > l->first[layer]; k--) {
            uint32_t a = l->order[k - 1], b = l->order[k];
            if (!(l->item[b].key < l->item[a].key)) break;
            l->order[k - 1] = b;
            l->order[k] = a;
        }
    for (uint32_t i = l->first[layer]; i < l->first[layer + 1]; i++) l->item[l->order[i]].at = i;
}

static void order_layers(layout *l) {
    for (int sweep = 0; sweep < SWEEPS; sweep++)
        for (uint32_t n = 0; n < l->layers; n++) {
            uint32_t layer = sweep % 2 ? l->layers - 1 - n : n;
            uint32_t many = l->first[layer + 1] - l->first[layer];
            for (uint32_t i = l->first[layer]; i < l->first[layer + 1]; i++) {
                item *x = &l->item[l->order[i]];
                x->key = mean_of(l, l->order[i], sweep % 2, false);
                if (isnan(x->key)) x->key = (double)(i - l->first[layer]) / many;
            }
            sort_layer(l, layer);
        }
}

/* How far apart the places i < k of a layer are at least, with what stands between. */
static double apart(const layout *l, uint32_t i, uint32_t k) {
    double room = (l->item[l->order[i]].width + l->item[l->order[k]].width) / 2 + gap;
    for (uint32_t j = i + 1; j < k; j++) room += l->item[l->order[j]].width + gap;
    return room;
}

/* As near to where its neighbours are as the others of the layer leave it: pushed from the left,
 * and from the right, and halfway between. at: n places of the layer. */
static void place_some(layout *l, int side, uint32_t n, const uint32_t *at) {
    for (uint32_t i = 0; i < n; i++) {
        item *x = &l->item[l->order[at[i]]];
        x->key = mean_of(l, l->order[at[i]], side, true);
        if (isnan(x->key)) x->key = x->x;
        x->left = x->key;
        if (i)
            x->left = fmax(x->left, l->item[l->order[at[i - 1]]].left + apart(l, at[i - 1], at[i]));
    }
    for (uint32_t i = n; i-- > 0;) {
        item *x = &l->item[l->order[at[i]]];
        x->right = x->key;
        if (i + 1 < n)
            x->right =
                fmin(x->right, l->item[l->order[at[i + 1]]].right - apart(l, at[i], at[i + 1]));
    }
    for (uint32_t i = 0; i < n; i++) {
        item *x = &l->item[l->order[at[i]]];
        x->x = (x->left + x->right) / 2;
    }
}

static void place_layer(layout *l, uint32_t layer, int side, uint32_t *at) {
    uint32_t from = l->first[layer], to = l->first[layer + 1], n = 0;
    for (uint32_t i = from; i < to; i++)
        if (!is_light(l, &l->item[l->order[i]])) at[n++] = i;
    bool all = !n;
    for (uint32_t i = from; all && i < to; i++) at[n++] = i;
    place_some(l, side, n, at);
    for (uint32_t i = at[0]; !all && i-- > from;)
        l->item[l->order[i]].x = l->item[l->order[i + 1]].x - apart(l, i, i + 1);
    for (uint32_t i = at[0] + 1; !all && i < to; i++)
        if (is_light(l, &l->item[l->order[i]]))
            l->item[l->order[i]].x = l->item[l->order[i - 1]].x + apart(l, i - 1, i);
}

static void place_items(layout *l) {
    uint32_t *at = arena_alloc(l->a, (l->items + 1) * sizeof *at);
    for (uint32_t layer = 0; layer < l->layers; layer++) {
        double x = 0;
        for (uint32_t i = l->first[layer]; i < l->first[layer + 1]; i++) {
            item *it = &l->item[l->order[i]];
            it->x = x + it->width / 2;
            x += it->width + gap;
        }
        for (uint32_t i = l->first[layer]; i < l->first[layer + 1]; i++)
            l->item[l->order[i]].x -= x / 2;
    }
    for (int sweep = 0; sweep < SWEEPS; sweep++)
        for (uint32_t n = 0; n < l->layers; n++)
            place_layer(l, sweep % 2 ? l->layers - 1 - n : n, sweep % 2, at);
}

/* ---- drawing --------------------------------------------------------------------------------- */

static void draw_node(const view_node *x, const item *it, double left, double y, str *out) {
    static const char *const kinds[] = {"op", "given", "result", "fold", "kernel"};
    str_addf(out, "<g class=\"%s\">", kinds[x->kind]);
    if (x->title) {
        str_add(out, "<title>");
        view_text(out, x->title);
        str_add(out, "</title>");
    }
    str_addf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.0f\" rx=\"5\"/>",
             it->x - it->width / 2 - left, y, it->width, it->height);
    double at = y + 3;
    for (int i = 0; i < VIEW_LINES; i++) {
        if (!x->line[i]) continue;
        at += row;
        str_addf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"l%d\">", it->x - left, at - 1.5, i);
        view_text(out, x->line[i]);
        str_add(out, "</text>");
    }
    str_add(out, "</g>\n");
}

static void draw(const layout *l, str *out) {
    double left = INFINITY, right = -INFINITY, height = 8;
    double *y = arena_alloc(l->a, (l->layers + 1) * sizeof *y);
    for (uint32_t layer = 0; layer < l->layers; layer++) {
        double most = 0;
        for (uint32_t i = l->first[layer]; i < l->first[layer + 1]; i++) {
            const item *it = &l->item[l->order[i]];
            if (it->height > most) most = it->height;
            if (it->x - it->width / 2 < left) left = it->x - it->width / 2;
            if (it->x + it->width / 2 > right) right = it->x + it->width / 2;
        }
        y[layer] = height;
        height += most + between;
    }
    left -= 8;
    double width = right - left + 8;
    str_addf(
        out,
        "<div class=\"scroll\"><svg%s width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
        "role=\"img\" aria-label=\"graph\">\n",
        width < FIT ? " class=\"fit\"" : "", width, height - between + 8, width,
        height - between + 8);
    for (uint32_t i = 0; i < l->lines; i++) {
        const item *a = &l->item[l->line[i].from], *b = &l->item[l->line[i].to];
        double y0 = y[a->layer] + (a->node == VIEW_NONE ? 0 : a->height), y1 = y[b->layer];
        double bend = (y1 - y0) / 2;
        str_addf(out, "<path class=\"line\" d=\"M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f\"/>\n",
                 a->x - left, y0, a->x - left, y0 + bend, b->x - left, y1 - bend, b->x - left, y1);
    }
    for (uint32_t i = 0; i < l->items; i++)
        if (l->item[i].node != VIEW_NONE)
            draw_node(&l->g->node[l->item[i].node], &l->item[i], left, y[l->item[i].layer], out);
    str_add(out, "</svg></div>\n");
}

void view_draw(view_graph *g, str *out) {
    make_small(g);
    layout l = {.g = g, .a = g->a};
    make_items(&l);
    make_layers(&l);
    order_layers(&l);
    place_items(&l);
    draw(&l, out);
}
