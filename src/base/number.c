/* number.c - texts as numbers, rounded once, with a point whatever the program's locale has. */
#include "base/base.h"

#include <locale.h>
#include <stdlib.h>

double text_f64(const char *text, char **end) {
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    double v = c ? strtod_l(text, end, c) : strtod(text, end);
    if (c) freelocale(c);
    return v;
}

float text_f32(const char *text, char **end) {
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    float v = c ? strtof_l(text, end, c) : strtof(text, end);
    if (c) freelocale(c);
    return v;
}
