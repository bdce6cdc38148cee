/* guard.c - the one place where what was raised ends, and what is cleaned up on the way.
 *
 * heap_unwind() gives up the work under way: it runs the cleanups that were pushed since the
 * innermost guard was opened, last in first out, and jumps to it. Guards form a chain through the
 * stack frames of guarded(); closing one restores what was innermost before it, also when guards
 * inside it were jumped over and never closed.
 *
 * Cleanups run before the jump, while the frames that pushed them are still there, and reach what
 * they clean up through its address. So a local that is changed after the push is seen as it is,
 * where one that is changed after setjmp and read behind the jump must be volatile: no function but
 * guarded() calls setjmp, and its frame has no local that changes. `make style` holds to that.
 *
 * Unwinding without a guard has nowhere to go. Every public entry point works guarded before it
 * calls anything that may raise, so this is a bug in Quern and never the user's doing. The process
 * is not ours to end, and going on would use memory that is not there: the error is recorded and
 * the calling thread, the only one concerned, ends. */
#include "base/base.h"

#include <pthread.h>

void guard_open(heap *h, guard *g) {
    g->up = h->top;
    g->cleanup = h->cleanup;
    h->top = g;
}

void guard_close(heap *h, guard *g) {
    h->top = g->up;
    h->cleanup = g->cleanup;
}

qn_code guarded(qn_ctx *qn, void (*work)(void *arg), void *arg) {
    guard g;
    guard_open(&qn->heap, &g);
    if (setjmp(g.at)) {
        guard_close(&qn->heap, &g);
        return qn->code ? qn->code : QN_EINTERNAL;
    }
    work(arg);
#ifdef QN_CHECK
    if (qn->heap.cleanup != g.cleanup)
        fail(qn, QN_EINTERNAL, "guarded work left a cleanup that it pushed");
#endif
    guard_close(&qn->heap, &g);
    return QN_OK;
}

void cleanup_push(heap *h, cleanup *c, void (*run)(void *of), void *of) {
    *c = (cleanup){h->cleanup, run, of};
    h->cleanup = c;
}

void cleanup_drop(heap *h, cleanup *c) {
    h->cleanup = c->up;
}

void cleanup_run(heap *h, cleanup *c) {
    cleanup_drop(h, c);
    c->run(c->of);
}

void heap_piece_cleanup(void *piece) {
    heap_piece *p = piece;
    heap_free(p->h, p->p, p->size);
}

void heap_unwind(heap *h) {
    guard *g = h->top;
    if (!g) pthread_exit(NULL);
    while (h->cleanup != g->cleanup) cleanup_run(h, h->cleanup);
    longjmp(g->at, 1);
}
