/* quern_view.h - to see what a program does: spans of its own in a trace.
 *
 * QN_TRACE=file.json writes a trace of a context, for Perfetto (ui.perfetto.dev) or
 * chrome://tracing: docs/view.md. */
#ifndef QUERN_VIEW_H
#define QUERN_VIEW_H

#include <quern.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A span of the program's own in the trace: what is done from here to the matching end, on any
 * thread. They nest. Without a trace both cost a load and a branch; NULL is no context, and nothing
 * happens. An end without a beginning is left out, and qn_close ends what is open. */
QN_API void qn_span_begin(qn_ctx *qn, const char *name);
QN_API void qn_span_end(qn_ctx *qn);

#ifdef __cplusplus
}
#endif

#endif
