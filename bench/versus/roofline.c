/* roofline.c - every case as a point: arithmetic intensity across, flop/s up, both logarithmic,
 * under the roof of the machine's memory and multiply-adds. Hollow points are the best peer's. */
#include "versus.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WIDTH = 1100, HEIGHT = 640, LEFT = 70, TOP = 50, PLOT_W = 760, PLOT_H = 520 };
static const double x_lo = -2, x_hi = 4, y_lo = 8, y_hi = 12.2; /* powers of ten */
static const char *const color[] = {"#4363d8", "#e6194b", "#3cb44b", "#f58231", "#911eb4",
                                    "#008080", "#9a6324", "#808000", "#000075", "#f032e6"};
enum { COLORS = sizeof color / sizeof *color };

static double across(double v) {
    return LEFT + (log10(v) - x_lo) / (x_hi - x_lo) * PLOT_W;
}
static double up(double v) {
    return TOP + PLOT_H - (log10(v) - y_lo) / (y_hi - y_lo) * PLOT_H;
}

static void axes(FILE *f) {
    fprintf(f,
            "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' "
            "font-family='sans-serif' font-size='11'>\n<rect width='100%%' height='100%%' "
            "fill='white'/>\n<text x='%d' y='24' font-size='15'>Quern (filled) and the best peer "
            "(hollow) under the machine's roof</text>\n",
            WIDTH, HEIGHT, LEFT);
    for (int e = (int)x_lo; e <= (int)x_hi; e++) {
        double x = across(pow(10, e));
        fprintf(f,
                "<line x1='%.1f' y1='%d' x2='%.1f' y2='%d' stroke='#ddd'/>"
                "<text x='%.1f' y='%d' text-anchor='middle'>%g</text>\n",
                x, TOP, x, TOP + PLOT_H, x, TOP + PLOT_H + 16, pow(10, e));
    }
    for (int e = (int)y_lo; e <= (int)y_hi; e++) {
        double y = up(pow(10, e));
        fprintf(f,
                "<line x1='%d' y1='%.1f' x2='%d' y2='%.1f' stroke='#ddd'/>"
                "<text x='%d' y='%.1f' text-anchor='end'>%g</text>\n",
                LEFT, y, LEFT + PLOT_W, y, LEFT - 6, y + 4, pow(10, e - 9));
    }
    fprintf(f,
            "<text x='%d' y='%d' text-anchor='middle'>flop per byte of memory traffic that must "
            "be</text>\n<text x='18' y='%d' text-anchor='middle' transform='rotate(-90 18 %d)'>"
            "Gflop/s</text>\n",
            LEFT + PLOT_W / 2, TOP + PLOT_H + 36, TOP + PLOT_H / 2, TOP + PLOT_H / 2);
}

/* The roof for one number of threads: the medians of what was measured beside the cases. */
static void roof(FILE *f, int n, const vs_result *r, int threads) {
    double fma = 0, copy = 0;
    for (int i = 0; i < n; i++) {
        if (r[i].threads != threads || r[i].fma <= 0) continue;
        if (r[i].fma > fma) fma = r[i].fma;
        bool streams = !strcmp(r[i].c->family, "stream");
        if (streams && r[i].copy > copy) copy = r[i].copy;
    }
    for (int i = 0; copy <= 0 && i < n; i++)
        if (r[i].threads == threads) copy = r[i].copy;
    if (fma <= 0 || copy <= 0) return;
    double knee = fma / copy, from = fmax(pow(10, x_lo), pow(10, y_lo) / copy);
    fprintf(f,
            "<polyline points='%.1f,%.1f %.1f,%.1f %d,%.1f' fill='none' stroke='black' "
            "stroke-width='1.5'%s/>\n<text x='%d' y='%.1f' text-anchor='end'>%d thread%s: %.0f "
            "Gflop/s, %.1f GB/s</text>\n",
            across(from), up(from * copy), across(knee), up(fma), LEFT + PLOT_W, up(fma),
            threads > 1 ? " stroke-dasharray='6 3'" : "", LEFT + PLOT_W, up(fma) - 5, threads,
            threads > 1 ? "s" : "", fma * 1e-9, copy * 1e-9);
}

static void point(FILE *f, const vs_result *r, double seconds, const char *paint, bool filled) {
    double flops = vs_flops(r->c), bytes = vs_read(r->c) + vs_written(r->c);
    if (seconds <= 0 || flops <= 0 || bytes <= 0) return;
    double x = fmin(fmax(across(flops / bytes), LEFT), LEFT + PLOT_W);
    double y = fmin(fmax(up(flops / seconds), TOP), TOP + PLOT_H);
    fprintf(f,
            "<circle cx='%.1f' cy='%.1f' r='%d' fill='%s' stroke='%s'><title>%s %s, %d threads, "
            "%s: %.1f Gflop/s, %.1f GB/s</title></circle>\n",
            x, y, r->threads + 2, filled ? paint : "none", paint, r->c->family, r->c->name,
            r->threads, filled ? "quern" : r->peer, flops / seconds * 1e-9, bytes / seconds * 1e-9);
}

int vs_roofline(const char *path, int n, const vs_result *r) {
    const char *family[COLORS] = {0};
    FILE *f = fopen(path, "w");
    if (!f) {
        perror(path);
        return 1;
    }
    axes(f);
    roof(f, n, r, 1);
    roof(f, n, r, 2);
    for (int i = 0; i < n; i++) {
        int k = 0;
        while (k < COLORS && family[k] && strcmp(family[k], r[i].c->family)) k++;
        if (k == COLORS) continue;
        if (!family[k]) {
            family[k] = r[i].c->family;
            fprintf(f, "<circle cx='%d' cy='%d' r='5' fill='%s'/><text x='%d' y='%d'>%s</text>\n",
                    LEFT + PLOT_W + 30, TOP + 20 * k, color[k], LEFT + PLOT_W + 42,
                    TOP + 20 * k + 4, family[k]);
        }
        point(f, &r[i], r[i].best, color[k], false);
        point(f, &r[i], r[i].quern, color[k], true);
    }
    fprintf(f, "</svg>\n");
    return fclose(f) != 0;
}
