/* chart.c - kernels beside what the machine could do at most, and how temporaries share memory.
 *
 * The roof is the machine record's: multiply-adds of f32 vectors, and bytes from memory, a cycle of
 * a core, times threads, at the clock that the system names. It is a model, no measurement: several
 * threads share memory, clocks change, and values that lie in a cache come sooner than from memory,
 * so points can stand above the slope. */
#include "view/view.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const double width = 640, height = 300, left = 70, top = 12, right = 20, below = 42;

/* Of the fastest processor there is now; 0: the system does not say. */
static double clock_rate(void) {
    char line[256];
    double most = 0;
    FILE *f = fopen("/proc/cpuinfo", "re");
    while (f && fgets(line, sizeof line, f)) {
        const char *colon = strchr(line, ':');
        double now = colon && !strncmp(line, "cpu MHz", 7) ? strtod(colon + 1, NULL) : 0;
        if (now > most && now < 1e5) most = now;
    }
    if (f) fclose(f);
    return most * 1e6;
}

view_roof view_roof_of(const machine *m) {
    double cycles = clock_rate() * (m->threads > 0 ? m->threads : 1);
    double lanes = (double)m->vector_bytes / 4;
    if (m->members) cycles = 0; /* a device whose clock is not known */
    return (view_roof){cycles * (double)m->fma_rate * lanes * (m->no_fma ? 1 : 2),
                       cycles * (double)m->memory_rate};
}

/* ---- the roofline ---------------------------------------------------------------------------- */

typedef struct scale {
    double x0, x1, y0, y1; /* decimal logarithms */
} scale;

static double at_x(const scale *s, double v) {
    return left + (log10(v) - s->x0) / (s->x1 - s->x0) * (width - left - right);
}

static double at_y(const scale *s, double v) {
    return top + (s->y1 - log10(v)) / (s->y1 - s->y0) * (height - top - below);
}

static void widen(double v, double *lo, double *hi) {
    if (!(v > 0) || !isfinite(v)) return;
    if (floor(log10(v)) < *lo) *lo = floor(log10(v));
    if (ceil(log10(v)) > *hi) *hi = ceil(log10(v));
}

static void draw_axes(str *out, const scale *s) {
    char text[32];
    for (double x = s->x0; x <= s->x1; x++) {
        double at = at_x(s, pow(10, x));
        str_addf(out, "<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/>", at, top, height - below);
        str_addf(out, "<text class=\"axis\" x=\"%.1f\" y=\"%.1f\">%s</text>", at,
                 height - below + 15, view_number(pow(10, x), text));
    }
    for (double y = s->y0; y <= s->y1; y++) {
        double at = at_y(s, pow(10, y));
        str_addf(out, "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/>", left, at, width - right);
        str_addf(out, "<text class=\"axis\" x=\"%.1f\" y=\"%.1f\">%s</text>", left - 32, at + 4,
                 view_number(pow(10, y), text));
    }
    str_addf(out,
             "<text class=\"axis\" x=\"%.1f\" y=\"%.1f\">operations a byte, and a second"
             "</text>\n",
             (left + width) / 2, height - 8);
}

void view_roofline(str *out, const view_roof *roof, uint32_t n, const view_point *point) {
    scale s = {0, 1, 9, 10};
    uint32_t shown = 0;
    char a[32], b[32];
    for (uint32_t i = 0; i < n; i++) {
        const view_point *p = &point[i];
        if (!(p->flops > 0 && p->bytes > 0 && p->seconds > 0)) continue;
        widen(p->flops / p->bytes, &s.x0, &s.x1);
        widen(p->flops / p->seconds, &s.y0, &s.y1);
        shown++;
    }
    if (!shown) return;
    str_add(out, "<h2>Roofline</h2>\n");
    if (roof->flops > 0)
        str_addf(out,
                 "<p>The machine record's bound: %s operations and %sB a second; a model, see "
                 "docs/view.md.</p>\n",
                 view_number(roof->flops, a), view_number(roof->bytes, b));
    bool known = roof->flops > 0 && roof->bytes > 0;
    if (known) {
        widen(roof->flops, &s.y0, &s.y1);
        widen(roof->flops / roof->bytes, &s.x0, &s.x1);
    }
    str_addf(out,
             "<figure class=\"scroll\"><svg width=\"%.0f\" height=\"%.0f\" role=\"img\" "
             "aria-label=\"roofline\">\n",
             width, height);
    draw_axes(out, &s);
    if (known) {
        double x = roof->flops / roof->bytes, begin = pow(10, s.x0), least = pow(10, s.y0);
        if (roof->bytes * begin < least) begin = least / roof->bytes;
        str_addf(out, "<path class=\"roof\" d=\"M%.1f %.1fL%.1f %.1fH%.1f\"/>\n", at_x(&s, begin),
                 at_y(&s, roof->bytes * begin), at_x(&s, x), at_y(&s, roof->flops), width - right);
    }
    for (uint32_t i = 0; i < n; i++) {
        const view_point *p = &point[i];
        if (!(p->flops > 0 && p->bytes > 0 && p->seconds > 0)) continue;
        double x = at_x(&s, p->flops / p->bytes), y = at_y(&s, p->flops / p->seconds);
        str_addf(out,
                 "<circle class=\"point\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/>"
                 "<text x=\"%.1f\" y=\"%.1f\">%u</text>\n",
                 x, y, x + 11, y - 5, i);
    }
    str_add(out, "</svg></figure>\n");
}

/* ---- memory ---------------------------------------------------------------------------------- */

enum { MOST_BLOCKS = 2000 };

void view_memory(str *out, const run_plan *p) {
    char text[32];
    uint32_t blocks = 0;
    for (uint32_t i = 0; i < p->slots; i++)
        blocks += p->slot[i].kind == SLOT_TEMP && p->slot[i].first != UINT32_MAX && p->slot[i].size;
    if (!blocks || p->arena_size <= 0) return;
    double wide = width - left - right, high = height - top - below;
    str_addf(out,
             "<h2>Memory over time</h2>\n<p>%u temporaries share an arena of %sB: across, the "
             "levels of launches between which each lives; upwards, where it lies.</p>\n",
             blocks, view_number((double)p->arena_size, text));
    str_addf(out,
             "<figure class=\"scroll\"><svg width=\"%.0f\" height=\"%.0f\" role=\"img\" "
             "aria-label=\"memory\">\n",
             width, height);
    str_addf(out, "<path class=\"grid\" d=\"M%.1f %.1fV%.1fH%.1f\"/>", left, top, height - below,
             width - right);
    str_addf(out, "<text class=\"axis\" x=\"%.1f\" y=\"%.1f\">%sB</text>", left - 35, top + 8,
             text);
    str_addf(out, "<text class=\"axis\" x=\"%.1f\" y=\"%.1f\">levels 0 to %u</text>\n",
             (left + width) / 2, height - 20, p->levels ? p->levels - 1 : 0);
    for (uint32_t i = 0, drawn = 0; i < p->slots && drawn < MOST_BLOCKS; i++) {
        const slot *s = &p->slot[i];
        if (s->kind != SLOT_TEMP || s->first == UINT32_MAX || !s->size) continue;
        double tall = (double)s->size / (double)p->arena_size * high;
        double y = top + high - (double)s->offset / (double)p->arena_size * high - tall;
        str_addf(out,
                 "<g class=\"kernel\"><title>%zu bytes at %zu, levels %u to %u</title>"
                 "<rect x=\"%.1f\" y=\"%.2f\" width=\"%.1f\" height=\"%.2f\"/></g>\n",
                 s->size, s->offset, s->first, s->last,
                 left + s->first * wide / (p->levels ? p->levels : 1), y,
                 (s->last - s->first + 1) * wide / (p->levels ? p->levels : 1), tall);
        drawn++;
    }
    str_add(out, "</svg></figure>\n");
}
