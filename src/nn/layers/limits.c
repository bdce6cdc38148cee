/* limits.c - what numbers a kind of layer takes: looked at where its options are read, so that a
 * layer that would give nothing of use is not made, as PyTorch's is not. */
#include "nn/layers/layers.h"

/* Is `name` an argument of the row? */
static bool has(const layer_row *row, const char *name) {
    size_t n = strlen(name);
    for (const char *at = row->arguments; (at = strstr(at, name)); at += n)
        if ((at == row->arguments || at[-1] == ' ') && (!at[n] || at[n] == '=' || at[n] == ' '))
            return true;
    return false;
}

typedef struct looking {
    qn_ctx *qn;
    const char *call;
    const layer_row *row;
    const qn_layer_options *o;
} looking;

static bool probability_fine(const looking *x) {
    double p = x->o->p;
    if (!has(x->row, "p") && !has(x->row, "dropout")) return true;
    if (p >= 0 && p <= 1) return true;
    fail(x->qn, QN_ERANGE, "%s: %s with a probability of %g", x->call, x->row->name, p);
    return false;
}

/* Of a convolution padding[0] may be -1, "same", which is of strides of 1 alone; that of pooling is
 * half the kernel at most. */
static bool padding_fine(const looking *x) {
    const qn_layer_options *o = x->o;
    bool pools = !has(x->row, "in_channels"), can_be_same = has(x->row, "padding_mode");
    bool same = can_be_same && o->padding[0] == -1;
    for (int i = 0; i < x->row->space && has(x->row, "padding"); i++) {
        if (same && o->stride[i] != 1) {
            fail(x->qn, QN_EARG, "%s: %s with padding \"same\" and a stride of %lld", x->call,
                 x->row->name, (long long)o->stride[i]);
            return false;
        }
        if (same || (o->padding[i] >= 0 && (!pools || o->padding[i] <= o->kernel[i] / 2))) continue;
        fail(x->qn, QN_EARG, "%s: %s with a kernel of %lld and padding of %lld", x->call,
             x->row->name, (long long)o->kernel[i], (long long)o->padding[i]);
        return false;
    }
    if (o->padding_mode >= 0 && o->padding_mode <= 3) return true;
    fail(x->qn, QN_EARG, "%s: padding_mode is %d, not 0 to 3", x->call, o->padding_mode);
    return false;
}

static bool numbers_fine(const looking *x) {
    const qn_layer_options *o = x->o;
    if (strcmp(x->row->name, "Softshrink") == 0 && !(o->a >= 0)) {
        fail(x->qn, QN_ERANGE, "%s: Softshrink with lambd %g", x->call, o->a);
        return false;
    }
    if (strcmp(x->row->name, "Hardtanh") == 0 && !(o->a < o->b)) {
        fail(x->qn, QN_ERANGE, "%s: Hardtanh within %g and %g", x->call, o->a, o->b);
        return false;
    }
    return true;
}

bool layer_options_fine(qn_ctx *qn, const char *call, const layer_row *row,
                        const qn_layer_options *o) {
    looking x = {qn, call, row, o};
    return probability_fine(&x) && padding_fine(&x) && numbers_fine(&x);
}
