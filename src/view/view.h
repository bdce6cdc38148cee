/* view.h - pages and drawings for people: how a tensor is computed (quern_view.h, docs/view.md).
 *
 * A page is one text of HTML with its style and drawings inside, no script and no reference to
 * anything else. All that comes from elsewhere, names, texts of kernels, goes by view_text. */
#ifndef QN_VIEW_H
#define QN_VIEW_H

#include "quern_view.h"
#include "run/run.h"

/* ---- draw.c: graphs -------------------------------------------------------------------------- */

#define VIEW_NONE UINT32_MAX
enum { VIEW_LINES = 3 };
typedef enum view_kind { VIEW_OP, VIEW_GIVEN, VIEW_RESULT, VIEW_FOLD, VIEW_KERNEL } view_kind;
typedef struct view_node {
    const char *line[VIEW_LINES], *title; /* line[0] is there; of an arena */
    uint32_t *in, ins, in_cap;            /* nodes before it */
    view_kind kind;
} view_node;
typedef struct view_graph {
    arena *a;
    view_node *node;
    uint32_t nodes;
} view_graph;
void view_draw(view_graph *g, str *out); /* makes a large one smaller; raises */

/* ---- view.c -------------------------------------------------------------------------------- */

/* qn_view_html with a part more before the graph; `more` may raise. */
typedef void view_more(void *user, str *out);
qn_code view_html_with(qn_tensor *t, const char *path, view_more *more, void *user);

/* ---- page.c: HTML ---------------------------------------------------------------------------- */

void view_text(str *out, const char *text); /* escaped; what is no UTF-8 as a question mark */
size_t view_letters(const char *text);
void view_head(str *out, const char *title);
void view_foot(str *out);
/* A text that can be opened, at most VIEW_TEXT bytes of it. */
enum { VIEW_TEXT = 24000 };
void view_fold(str *out, const char *title, const char *text);
/* Put it in place; raises QN_EIO with the path and why. */
void view_save(qn_ctx *qn, const char *call, const char *path, const str *text);
/* `1.5 k`, `2 M`: of a quantity. */
const char *view_number(double value, char out[32]);

/* ---- chart.c: measured kernels, memory ------------------------------------------------------- */

typedef struct view_point {
    double flops, bytes, seconds;
} view_point;
typedef struct view_roof {
    double flops, bytes; /* a second, at most; 0: not known */
} view_roof;
view_roof view_roof_of(const machine *m);
void view_roofline(str *out, const view_roof *roof, uint32_t n, const view_point *point);
void view_memory(str *out, const run_plan *p);

#endif
