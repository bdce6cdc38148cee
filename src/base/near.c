/* near.c - names that may have been meant: mistyped ones, for error texts. */
#include "base/base.h"

#include <stdio.h>

enum { NEAR_MOST = 64 };

/* Row by row over the letters of `a`: the least number of changes that make a[0..i) of b[0..j).
 * Three rows are enough, since exchanged neighbours look two rows back. */
int text_distance(const char *a, const char *b) {
    int row[3][NEAR_MOST + 1];
    int n = (int)strnlen(a, NEAR_MOST), m = (int)strnlen(b, NEAR_MOST);
    for (int j = 0; j <= m; j++) row[0][j] = j;
    for (int i = 1; i <= n; i++) {
        int *now = row[i % 3], *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];
        now[0] = i;
        for (int j = 1; j <= m; j++) {
            int best = last[j - 1] + (a[i - 1] != b[j - 1]);
            if (last[j] + 1 < best) best = last[j] + 1;
            if (now[j - 1] + 1 < best) best = now[j - 1] + 1;
            bool turned = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (turned && before[j - 2] + 1 < best) best = before[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[n % 3][m];
}

bool text_is_near(const char *a, const char *b) {
    size_t length = strlen(a) < strlen(b) ? strlen(a) : strlen(b);
    return text_distance(a, b) <= 1 + (int)(length < NEAR_MOST ? length : NEAR_MOST) / 4;
}

void nearest_offer(nearest *x, const char *name) {
    int distance = text_distance(x->wanted, name), i = x->n;
    if (i == NEAREST && distance >= x->distance[i - 1]) return;
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
