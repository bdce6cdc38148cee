/* handle.c - what the user holds: names of things in a context that stay checkable when those are
 * gone.
 *
 * A public pointer to a tensor, a tape, a plan and so on is the address of a handle, 64 bytes that
 * stay until the context is closed, with a generation in five of the six low bits, which the
 * address leaves free. When what it names dies the handle's generation moves on, so a pointer from
 * before is known to be stale by one look at memory that is still there, and says which context is
 * to hear of it. Dead handles are used again first in, first out, and only when HANDLES_LATE of
 * them wait: a stale pointer is taken for a living one only after 32 * HANDLES_LATE more deaths,
 * and then by chance. The lowest bit, HANDLE_MARKED, says that calls of the context are written
 * down, or that the tensor is complex: whether a call is one of those is asked of its arguments,
 * without a look at memory.
 *
 * Entry points turn a public pointer into what it names once, by handle_check() or object_of();
 * behind them code works on that. A pointer that never was one, and any use after qn_close, cannot
 * be told and are undefined. */
#include "base/base.h"

#include <stdio.h>

enum { HANDLES_LATE = 1024, GENERATIONS = 32, GENERATION = 2 * HANDLE_MARKED };
_Static_assert(sizeof(handle_slot) == GENERATION * GENERATIONS, "both lie in an address' low bits");

static const char *const kind_name[] = {[HANDLE_DEAD] = "nothing",
#define X(NAME, name) [HANDLE_##NAME] = name,
                                        HANDLE_KINDS(X)
#undef X
};

/* ---- making and dropping -------------------------------------------------------------------- */

static void handles_more(qn_ctx *qn) {
    handle_block *b = heap_zeroed(&qn->heap, sizeof *b);
    if (qn->handles.last)
        qn->handles.last->next = b;
    else
        qn->handles.block = b;
    qn->handles.last = b;
    qn->handles.fresh = HANDLES_A_BLOCK;
}

handle *handle_make(qn_ctx *qn, int kind, void *object) {
    handle_store *s = &qn->handles;
    handle *h = s->oldest;
    bool late = s->dead >= HANDLES_LATE;
    if (!late && !s->fresh) handles_more(qn);
    if (late) {
        s->oldest = h->next;
        s->dead--;
    } else {
        h = &s->last->slot[HANDLES_A_BLOCK - s->fresh--].handle;
    }
    h->ctx = qn;
    h->object = object;
    h->next = NULL;
    h->kind = (uint8_t)kind;
    h->generation &= (uint8_t)~HANDLE_MARKED;
    if (qn->recorder || kind == HANDLE_COMPLEX) h->generation |= HANDLE_MARKED;
    h->initial = false;
    h->label = 0;
    return h;
}

void handle_drop(handle *h) {
    handle_store *s = &h->ctx->handles;
    h->kind = HANDLE_DEAD;
    h->generation = (uint8_t)((h->generation + GENERATION) % (GENERATION * GENERATIONS));
    h->object = NULL;
    h->next = NULL;
    if (s->dead++)
        s->newest->next = h;
    else
        s->oldest = h;
    s->newest = h;
}

void handles_close(qn_ctx *qn) {
    while (qn->handles.block) {
        handle_block *b = qn->handles.block;
        qn->handles.block = b->next;
        heap_free(&qn->heap, b, sizeof *b);
    }
    qn->handles = (handle_store){0};
}

/* ---- checking ------------------------------------------------------------------------------- */

void handle_refuse(qn_ctx *qn, const void *name, int kind, const char *call, const char *arg) {
    if (!qn && name) qn = handle_at(name)->ctx;
    if (!name)
        fail(qn, QN_ENULL, "%s: %s is NULL", call, arg);
    else if (handle_is(name, HANDLE_COMPLEX) && kind == HANDLE_TENSOR)
        fail(qn, QN_EDTYPE, "%s: %s is %s, and it has no meaning for complex numbers", call, arg,
             qn_dtype_name((qn_dtype)handle_at(name)->dtype));
    else if (handle_is(name, kind))
        fail(qn, QN_EGRAPH, "%s: %s belongs to another context", call, arg);
    else
        fail(qn, QN_EGRAPH, "%s: %s is a %s that was released", call, arg, kind_name[kind]);
}

bool handles_are(qn_ctx *qn, int kind, int n, const void *const *name, const char *call,
                 const char *arg) {
    for (int i = 0; i < n; i++) {
        char text[64];
        if (handle_is(name[i], kind) && handle_at(name[i])->ctx == qn) continue;
        snprintf(text, sizeof text, "%s %d", arg, i);
        return handle_check(qn, name[i], kind, call, text);
    }
    return true;
}

typedef struct naming {
    qn_ctx *qn;
    int kind;
    void *object, *name;
} naming;

static void name_work(void *arg) {
    naming *n = arg;
    n->name = handle_name(handle_make(n->qn, n->kind, n->object));
}

void *object_open(qn_ctx *qn, int kind, void *object) {
    naming n = {qn, kind, object, NULL};
    guarded(qn, name_work, &n);
    return n.name;
}

void *object_of(const void *name, int kind, const char *call) {
    if (!name) return NULL;
    const handle *h = handle_check(NULL, name, kind, call, kind_name[kind]);
    return h ? h->object : NULL;
}

void *object_close(void *name, int kind, const char *call) {
    void *object = object_of(name, kind, call);
    if (object) handle_drop(handle_at(name));
    return object;
}

qn_code handle_code(const void *name) {
    return name ? qn_error_code(handle_at(name)->ctx) : QN_ENULL;
}
