/* dot.c - dot instructions: the table of them, and which dtypes they take.
 *
 * A dot instruction takes words of 32 bits, multiplies their parts pairwise and adds the products
 * to a sum. In a tree that is a WORD loop around t[i] += a*b whose factors are parts of words.
 * There is no operation for it, so the plain meaning of the tree stays, and a device without the
 * instruction runs the parts one after the other. One of two byte factors is unsigned and one
 * signed, as the instruction has it; transform/offset.c makes it so. */
#include "ir/ir.h"

const ir_dot ir_dots[IR_DOTS] = {
    [IR_DOT_BYTES] = {QN_U8, QN_I8, QN_I32, 4},
    [IR_DOT_SHORTS] = {QN_I16, QN_I16, QN_I32, 2},
    [IR_DOT_BF16] = {QN_BF16, QN_BF16, QN_F32, 2},
};

static bool is_byte(int dtype) {
    return dtype == QN_I8 || dtype == QN_U8;
}

int ir_dot_of(int left, int right, int sum) {
    for (int i = 0; i < IR_DOTS; i++) {
        const ir_dot *d = &ir_dots[i];
        bool bytes = is_byte(d->left) && is_byte(left) && is_byte(right);
        if (d->sum == sum && (bytes || (d->left == left && d->right == right))) return i;
    }
    return -1;
}
