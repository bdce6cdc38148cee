/* plot.c - a curve of values as an SVG file, readable on light and dark.
 *
 * Many values are gathered into groups, each drawn as its mean on a band from its least to its
 * most; so a file stays small, and a spike is seen. What is not finite is a gap. */
#include "view/view.h"

#include <math.h>
#include <stdio.h>

enum { GROUPS = 250, TICKS = 6 };
static const double width = 720, height = 360, left = 72, top = 34, right = 20, below = 48;

static const char style[] =
    "svg{background:#fff}text{font:12px system-ui,sans-serif;fill:#333c48}.t{font-size:15px}"
    ".g{stroke:#dde2e8;fill:none}.c{stroke:#1d62c9;fill:none;stroke-width:1.8}"
    ".b{fill:#1d62c9;opacity:.18}"
    "@media(prefers-color-scheme:dark){svg{background:#12161c}text{fill:#c7d0db}.g{stroke:#2b333e}"
    ".c{stroke:#7db4ff}.b{fill:#7db4ff;opacity:.25}}";

typedef struct plot {
    const qn_plot_options *o;
    int64_t n, groups;
    const double *value;
    double lo, hi; /* along y, of what is drawn */
    double tick;   /* how far ticks are apart */
} plot;

/* Of values [from, to): how many are drawn, their mean, least and most, as they are drawn. */
typedef struct gathered {
    int64_t n;
    double mean, least, most;
} gathered;

static double drawn(const plot *p, double v) {
    if (!p->o->log) return v;
    return v > 0 ? log10(v) : NAN;
}

static gathered gather(const plot *p, int64_t i) {
    int64_t from = (int64_t)((double)p->n / (double)p->groups * (double)i);
    int64_t to =
        i + 1 == p->groups ? p->n : (int64_t)((double)p->n / (double)p->groups * (double)(i + 1));
    gathered g = {0, 0, INFINITY, -INFINITY};
    for (int64_t k = from; k < to; k++) {
        double v = drawn(p, p->value[k]);
        if (!isfinite(v)) continue;
        g.n++;
        g.mean += v / (double)g.n - g.mean / (double)g.n; /* without an overflow between */
        g.least = fmin(g.least, v);
        g.most = fmax(g.most, v);
    }
    return g;
}

/* The smallest of 1, 2, 5 times a power of ten that leaves no more than TICKS of them. */
static double tick_of(double range) {
    double unit = pow(10, floor(log10(range / TICKS)));
    if (!(unit > 0) || !isfinite(unit)) return range;
    return range / unit <= TICKS       ? unit
           : range / unit <= 2 * TICKS ? 2 * unit
           : range / unit <= 5 * TICKS ? 5 * unit
                                       : 10 * unit;
}

static void find_range(plot *p) {
    p->lo = INFINITY;
    p->hi = -INFINITY;
    for (int64_t i = 0; i < p->groups; i++) {
        gathered g = gather(p, i);
        if (!g.n) continue;
        p->lo = fmin(p->lo, g.least);
        p->hi = fmax(p->hi, g.most);
    }
    if (!(p->lo <= p->hi)) p->lo = 0, p->hi = 1; /* there is nothing to draw */
    if (!isfinite(p->hi - p->lo)) p->lo /= 4, p->hi /= 4;
    double least = fmax(fabs(p->hi), fabs(p->lo)) * 1e-9;
    if (p->hi - p->lo <= least) p->hi += fmax(least, 0.5), p->lo -= fmax(least, 0.5);
    p->tick = tick_of(p->hi - p->lo);
    p->lo = floor(p->lo / p->tick) * p->tick;
    p->hi = ceil(p->hi / p->tick) * p->tick;
}

static double at_x(const plot *p, double i) {
    return left + (p->groups > 1 ? i / (double)(p->groups - 1) : 0.5) * (width - left - right);
}

/* Where the range itself is beyond a double a part of it is shown, and the rest at its edges. */
static double at_y(const plot *p, double v) {
    v = fmin(fmax(v, p->lo), p->hi);
    return top + (p->hi - v) / (p->hi - p->lo) * (height - top - below);
}

static void text_at(str *out, double x, double y, const char *anchor, const char *text) {
    str_addf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    view_text(out, text);
    str_add(out, "</text>\n");
}

static void draw_axes(const plot *p, str *out) {
    char text[64];
    int lines = (int)lround((p->hi - p->lo) / p->tick);
    for (int i = 0; i <= lines && i <= 4 * TICKS; i++) {
        double v = p->lo + i * p->tick;
        if (fabs(v) < p->tick * 1e-6) v = 0;
        snprintf(text, sizeof text, "%.6g", p->o->log ? pow(10, v) : v);
        str_addf(out, "<path class=\"g\" d=\"M%.1f %.1fH%.1f\"/>", left, at_y(p, v), width - right);
        text_at(out, left - 8, at_y(p, v) + 4, "end", text);
    }
    double last = p->n > 1 ? (double)(p->n - 1) : 0, step = p->o->step != 0 ? p->o->step : 1;
    for (int i = 0; i <= 4; i++) {
        if (p->n == 1 && i != 2) continue;
        snprintf(text, sizeof text, "%.6g", p->o->first + step * floor(last * i / 4));
        double share = last > 0 ? floor(last * i / 4) / last : 0.5;
        text_at(out, left + share * (width - left - right), height - below + 18, "middle", text);
    }
    if (p->o->x_label) text_at(out, (left + width) / 2, height - 8, "middle", p->o->x_label);
    if (p->o->y_label) text_at(out, 6, top - 10, "start", p->o->y_label);
    if (!p->o->title) return;
    str_addf(out, "<text class=\"t\" x=\"%.1f\" y=\"20\" text-anchor=\"middle\">", width / 2);
    view_text(out, p->o->title);
    str_add(out, "</text>\n");
}

/* Bands are one path a run of groups without a gap, there and back. */
static void draw_band(const plot *p, str *out) {
    if (p->groups == p->n) return;
    str_add(out, "<path class=\"b\" d=\"");
    for (int64_t i = 0, begin = -1; i <= p->groups; i++) {
        gathered g = i < p->groups ? gather(p, i) : (gathered){0};
        if (g.n) {
            str_addf(out, "%c%.1f %.1f", begin < 0 ? 'M' : 'L', at_x(p, (double)i),
                     at_y(p, g.most));
            if (begin < 0) begin = i;
            continue;
        }
        for (int64_t k = i - 1; begin >= 0 && k >= begin; k--)
            str_addf(out, "L%.1f %.1f", at_x(p, (double)k), at_y(p, gather(p, k).least));
        if (begin >= 0) str_add(out, "Z");
        begin = -1;
    }
    str_add(out, "\"/>\n");
}

static void draw_curve(const plot *p, str *out) {
    bool on = false;
    draw_band(p, out);
    str_add(out, "<path class=\"c\" stroke-linecap=\"round\" d=\"");
    for (int64_t i = 0; i < p->groups; i++) {
        gathered g = gather(p, i);
        if (g.n) str_addf(out, "%c%.1f %.1f", on ? 'L' : 'M', at_x(p, (double)i), at_y(p, g.mean));
        if (g.n && !on) str_add(out, "h0"); /* so that one alone is seen */
        on = g.n > 0;
    }
    str_add(out, "\"/>\n");
}

typedef struct plotting {
    qn_ctx *qn;
    plot p;
    const char *path;
} plotting;

static void plot_work(void *arg) {
    plotting *w = arg;
    cleanup c;
    str out;
    str_open(&out, &w->qn->heap);
    cleanup_push(&w->qn->heap, &c, str_cleanup, &out);
    find_range(&w->p);
    str_addf(&out,
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" "
             "height=\"%.0f\">\n<style>%s</style>\n",
             width, height, width, height, style);
    draw_axes(&w->p, &out);
    draw_curve(&w->p, &out);
    str_add(&out, "</svg>\n");
    view_save(w->qn, "plot", w->path, &out);
    cleanup_run(&w->qn->heap, &c);
}

qn_code qn_plot(qn_ctx *qn, int64_t n, const double *value, const char *path,
                const qn_plot_options *options) {
    qn_plot_options o = QN_PLOT_OPTIONS(.title = NULL);
    if (!qn) return QN_ENULL;
    if (!value || !path) return fail(qn, QN_ENULL, "plot: no values, or no path");
    if (n < 1) return fail(qn, QN_EARG, "plot: %lld values", (long long)n);
    if (!struct_take(qn, "plot", "qn_plot_options", &o, sizeof o, options))
        return qn_error_code(qn);
    if (!isfinite(o.first) || !isfinite(o.step))
        return fail(qn, QN_EARG, "plot: first %g and step %g", o.first, o.step);
    plotting w = {qn, {.o = &o, .n = n, .groups = n < GROUPS ? n : GROUPS, .value = value}, path};
    return guarded(qn, plot_work, &w);
}
