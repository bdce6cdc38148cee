/* guarded.c - a guard around work that raises, in a frame of its own.
 *
 * setjmp leaves locals of its own function undefined when they changed after it. This frame has
 * none that change, so its callers may use ordinary variables behind `arg`. */
#include "io/io.h"

int io_guarded(qn_ctx *qn, void (*work)(void *arg), void *arg) {
    guard g;
    guard_open(&qn->heap, &g);
    if (setjmp(g.at)) {
        guard_close(&qn->heap, &g);
        return qn_error_code(qn);
    }
    work(arg);
    guard_close(&qn->heap, &g);
    return QN_OK;
}
