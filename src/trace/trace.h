/* trace.h - what a context does, as a trace for Perfetto or chrome://tracing: QN_TRACE.
 *
 * The trace hangs off the context; while there is none, what might be traced costs a load and a
 * branch. An event is begun, given arguments, and ended:
 *
 *     if (trace_on(qn)) {
 *         trace_span(qn, "run", "run", start);
 *         trace_number(qn, "launches", n);
 *         trace_done(qn);
 *     }
 *
 * Nothing here raises or takes memory, but opening. docs/view.md has the events. */
#ifndef QN_TRACE_H
#define QN_TRACE_H

#include "base/base.h"

static inline bool trace_on(const qn_ctx *qn) {
    return __builtin_expect(qn->trace != NULL, 0);
}
/* Where knob trace names a file that can be written; else there is none, and the log says why. */
void trace_open(qn_ctx *qn);
void trace_close(qn_ctx *qn); /* ends spans that are open */
/* A span that is over now, and began when clock_seconds said `start`. */
void trace_span(qn_ctx *qn, const char *category, const char *name, double start);
void trace_counters(qn_ctx *qn, const char *name); /* its arguments are numbers, of now */
void trace_number(qn_ctx *qn, const char *key, int64_t value);
void trace_real(qn_ctx *qn, const char *key, double value);
void trace_text(qn_ctx *qn, const char *key, const char *text);
void trace_textf(qn_ctx *qn, const char *key, const char *fmt, ...) QN_PRINTF(3, 4);
void trace_done(qn_ctx *qn);
/* A request is over: if the last writing was some time ago, write. */
void trace_settle(qn_ctx *qn);

#endif
