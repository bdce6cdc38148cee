/* quern_view.h - to see what a program does: spans in a trace, a page about how a tensor is
 * computed, a curve of values.
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
/* Write what the trace has gathered, as a program does that ends without qn_close. */
QN_API void qn_trace_flush(qn_ctx *qn);

/* Write a page of HTML about how t is computed, in one file that needs no network: the graph as it
 * was recorded with a few elements of each value that is there, the kernels it becomes, each with
 * its loops, schedule and, where LLVM made it, assembly, what they took beside what this machine
 * could do, and how temporaries share memory. A value that is not there is computed for that, a few
 * times, and is not kept; pending assignments stay pending. Of one that is there, and of which
 * nothing is known any more, only the value is shown.
 * Where t is part of a large graph the page shows as much as can be looked at, and says so. On the
 * device ref there are no kernels. QN_EIO: the file cannot be written. */
QN_API qn_code qn_view_html(qn_tensor *t, const char *path);

typedef struct qn_plot_options {
    size_t size; /* QN_PLOT_OPTIONS() */
    const char *title, *x_label, *y_label;
    double first, step; /* where value 0 is along x, and how far values are apart; step 0: 1 */
    bool log;           /* y by its logarithm; what is not above 0 is left out then */
} qn_plot_options;
#define QN_PLOT_OPTIONS(...) QN_STRUCT(qn_plot_options, __VA_ARGS__)

/* Draw n values as a curve into an SVG file, readable on light and dark. What is not finite is a
 * gap. More than 250 values are drawn as the mean, least and most of as many groups. QN_EARG: no
 * values; QN_EIO: the file cannot be written. */
QN_API qn_code qn_plot(qn_ctx *qn, int64_t n, const double *value, const char *path,
                       const qn_plot_options *options);

#ifdef __cplusplus
}
#endif

#endif
