/* turns.c - rotations of neighbouring rows, as iterations on two or three diagonals make them.
 *
 * Each sweep of such an iteration turns row by row all rows of the matrix of vectors, which does
 * few operations on each number. The iteration itself never looks at the vectors: so its rotations
 * are noted, and done for many sweeps at once, on a strip of some columns that stays in the cache
 * (Van Zee, van de Geijn and Quintana-Orti 2014). Each number sees the same operations in the same
 * order. */
#include "routine/matrix.h"

#include <math.h>

size_t turn_space(int64_t n) {
    return (size_t)((2 * TURN_SWEEPS + TURN_STRIP) * n);
}

void turn_start(turn_list *t, double *rows, int64_t n, int64_t length, double *space) {
    t->rows = rows;
    t->n = n;
    t->length = length;
    t->turn = space;
    t->strip = space + 2 * TURN_SWEEPS * n;
    t->used = 0;
    t->waves = 0;
}

double *turn_begin(turn_list *t, int64_t first, int64_t step) {
    if (t->waves == TURN_WAVES || t->used + t->n > TURN_SWEEPS * t->n) turn_all(t);
    double *turn = t->turn + 2 * t->used;
    t->wave[t->waves] = (turn_wave){first, step, 0, turn};
    return turn;
}

void turn_end(turn_list *t, int64_t count) {
    if (!t->rows || !count) return;
    t->wave[t->waves++].count = count;
    t->used += count;
}

void turn_all(turn_list *t) {
    int64_t lo = t->n, hi = 0;
    for (int w = 0; w < t->waves; w++) {
        int64_t one = t->wave[w].first, other = one + t->wave[w].step * t->wave[w].count;
        if (one < lo) lo = one;
        if (other < lo) lo = other;
        if (one > hi) hi = one;
        if (other > hi) hi = other;
    }
    for (int64_t k = 0; k < t->length && t->waves; k += TURN_STRIP) {
        int64_t width = t->length - k < TURN_STRIP ? t->length - k : TURN_STRIP;
        size_t bytes = (size_t)width * sizeof(double);
        if (width < TURN_STRIP) memset(t->strip, 0, (size_t)(TURN_STRIP * t->n) * sizeof(double));
        for (int64_t i = lo; i <= hi; i++)
            memcpy(t->strip + i * TURN_STRIP, t->rows + i * t->length + k, bytes);
        matrix_turn(t->strip, t->wave, t->waves);
        for (int64_t i = lo; i <= hi; i++)
            memcpy(t->rows + i * t->length + k, t->strip + i * TURN_STRIP, bytes);
    }
    t->waves = 0;
    t->used = 0;
}

double turn_of(double x, double y, double *c, double *s) {
    double square = x * x + y * y;
    double length = square > 0x1p-900 && square < 0x1p900 ? sqrt(square) : hypot(x, y);
    if (length == 0) {
        *c = 1;
        *s = 0;
        return 0;
    }
    *c = x / length;
    *s = y / length;
    return length;
}
