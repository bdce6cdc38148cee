/* conv.h - how windows lie over an image: of convolution, pooling, and images as columns. */
#ifndef QN_FUNC_NN_CONV_H
#define QN_FUNC_NN_CONV_H

#include "func/func.h"

enum { SPACE = 3 };

/* Where things are in a layout, and what the options mean. */
typedef struct conv {
    qn_conv_options o;
    bool ceil;               /* windows that begin inside and reach beyond the end count, too */
    int space;               /* spatial axes */
    int64_t groups, in, out; /* channels of a group */
    int64_t kernel[SPACE];
    int64_t n[SPACE], places[SPACE]; /* of the image, of windows */
    int rank;                        /* of the product */
    int group, from, to;             /* axes of the product: G (-1: none), C, O */
    int place[SPACE];                /* and the axis after each is the place in the window */
} conv;

void *conv_error(const qn_tensor *x, const char *what);
/* Options with all defaults filled in, and the image's sizes; false: reported. */
bool conv_read(conv *c, const qn_tensor *x, int space, const qn_conv_options *o);
bool conv_count(conv *c, const qn_tensor *x); /* how many windows; false: not even one fits */
int64_t conv_reach(const conv *c, int i);     /* of a window: first place to last */

#endif
