/* curve.h - curves of a training for the lessons: in the terminal, and as SVG for a browser, which
 * is light or dark as the reader's screen is. */
#ifndef CURVE_H
#define CURVE_H

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

typedef struct curve {
    const char *name, *color;
    const float *value;
    int n;
} curve;

static void curve_range(const curve *c, double *lo, double *hi) {
    *lo = INFINITY;
    *hi = -INFINITY;
    for (int i = 0; i < c->n; i++) {
        *lo = fmin(*lo, (double)c->value[i]);
        *hi = fmax(*hi, (double)c->value[i]);
    }
    if (!(*hi > *lo)) *hi = *lo + 1;
}

/* The mean of the values that column `c` of `columns` stands for. */
static double curve_at(const curve *c, int column, int columns) {
    int from = (int)((long long)c->n * column / columns);
    int to = (int)((long long)c->n * (column + 1) / columns);
    double sum = 0;
    for (int i = from; i < to; i++) sum += (double)c->value[i];
    return sum / (to - from);
}

static void curve_print(FILE *out, const curve *c) {
    enum { ROWS = 12, COLUMNS = 64 };
    int columns = c->n < COLUMNS ? c->n : COLUMNS;
    double lo, hi;
    curve_range(c, &lo, &hi);
    fprintf(out, "%s\n", c->name);
    for (int r = 0; r < ROWS; r++) {
        fprintf(out, "%8.3f |", hi - (hi - lo) * r / (ROWS - 1));
        for (int k = 0; k < columns; k++)
            fputc(lround((hi - curve_at(c, k, columns)) / (hi - lo) * (ROWS - 1)) == r ? '*' : ' ',
                  out);
        fputc('\n', out);
    }
    fprintf(out, "         +");
    for (int k = 0; k < columns; k++) fputc('-', out);
    fprintf(out, "\n          1%*d\n", columns - 1, c->n);
}

/* Each in its own range, which its legend says; false: the file cannot be written. */
static bool curve_svg(const char *path, int n, const curve *c) {
    enum { WIDTH = 640, HEIGHT = 320, LEFT = 20, TOP = 20 };
    FILE *f = fopen(path, "w");
    if (!f) return false;
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
            "font-family=\"sans-serif\" font-size=\"14\">\n<style>\nsvg { background: #fff; color: "
            "#222 }\n@media (prefers-color-scheme: dark) { svg { background: #181818; color: #ddd "
            "} }\n</style>\n<path d=\"M%d %dV%dH%d\" fill=\"none\" stroke=\"currentColor\"/>\n",
            WIDTH + 2 * LEFT, HEIGHT + 2 * TOP + 24 * n, LEFT, TOP, TOP + HEIGHT, LEFT + WIDTH);
    for (int k = 0; k < n; k++) {
        double lo, hi;
        curve_range(&c[k], &lo, &hi);
        fprintf(f, "<polyline fill=\"none\" stroke-width=\"2\" stroke=\"%s\" points=\"",
                c[k].color);
        for (int i = 0; i < c[k].n; i++)
            fprintf(f, "%.1f,%.1f ", LEFT + (double)WIDTH * (i + 1) / c[k].n,
                    TOP + HEIGHT * (hi - (double)c[k].value[i]) / (hi - lo));
        fprintf(f, "\"/>\n<text x=\"%d\" y=\"%d\" fill=\"%s\">%s, %.4g to %.4g</text>\n", LEFT,
                TOP + HEIGHT + 24 * (k + 1), c[k].color, c[k].name, lo, hi);
    }
    fprintf(f, "</svg>\n");
    return fclose(f) == 0;
}

#endif
