/* near.c - names that may have been meant: mistyped ones, for error texts. */
#include "base/base.h"

#include <stdio.h>

enum { NEAR_MOST = 64 };

/* Row by row over the letters of `a`: the least number of changes that make a[0..i) of b[0..j).
 * Three rows are enough, since exchanged neighbours look two rows back. What is more than `most` is
 * said to be most + 1, which is known early: lengths apart take as many changes, and a row leads to
 * nothing less than the least of it or, by exchanged neighbours, 1 more than that of the one
 * before. */
static int distance_within(const char *a, const char *b, int most) {
    int row[3][NEAR_MOST + 1];
    int n = (int)strnlen(a, NEAR_MOST), m = (int)strnlen(b, NEAR_MOST), least_before = 0;
    if (n - m > most || m - n > most) return most + 1;
    for (int j = 0; j <= m; j++) row[0][j] = j;
    for (int i = 1; i <= n; i++) {
        int *now = row[i % 3], *last = row[(i + 2) % 3], *before = row[(i + 1) % 3], least = i;
        now[0] = i;
        for (int j = 1; j <= m; j++) {
            int best = last[j - 1] + (a[i - 1] != b[j - 1]);
            if (last[j] + 1 < best) best = last[j] + 1;
            if (now[j - 1] + 1 < best) best = now[j - 1] + 1;
            bool turned = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (turned && before[j - 2] + 1 < best) best = before[j - 2] + 1;
            now[j] = best;
            if (best < least) least = best;
        }
        if (least > most && least_before >= most) return most + 1;
        least_before = least;
    }
    return row[n % 3][m] > most ? most + 1 : row[n % 3][m];
}

int text_distance(const char *a, const char *b) {
    return distance_within(a, b, NEAR_MOST);
}

bool text_is_near(const char *a, const char *b) {
    size_t length = strlen(a) < strlen(b) ? strlen(a) : strlen(b);
    int most = 1 + (int)(length < NEAR_MOST ? length : NEAR_MOST) / 4;
    return distance_within(a, b, most) <= most;
}

void nearest_offer(nearest *x, const char *name) {
    int i = x->n, most = i == NEAREST ? x->distance[i - 1] - 1 : NEAR_MOST;
    int distance = distance_within(x->wanted, name, most);
    if (distance > most) return;
    if (i == NEAREST)
        i--;
    else
        x->n++;
    for (; i > 0 && x->distance[i - 1] > distance; i--) {
        x->distance[i] = x->distance[i - 1];
        x->name[i] = x->name[i - 1];
    }
    x->distance[i] = distance;
    x->name[i] = name;
}

const char *nearest_text(const nearest *x, char *text, size_t size) {
    size_t used = 0;
    snprintf(text, size, "nothing");
    for (int i = 0; i < x->n && used < size; i++) {
        int n = snprintf(text + used, size - used, "%s\"%.80s\"", i ? ", " : "", x->name[i]);
        used += n > 0 ? (size_t)n : 0;
    }
    return text;
}
