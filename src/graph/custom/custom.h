/* custom.h - kernels of the user's as the graph knows them: numbers of a table (custom.c). Included
 * by graph.h. */
#ifndef QN_GRAPH_CUSTOM_H
#define QN_GRAPH_CUSTOM_H

#include "graph/graph.h"

/* What a kernel's function is in, and how that is closed; NULL: nothing is to be. */
typedef struct custom_code {
    void *of;
    void (*close)(void *of);
} custom_code;
typedef struct custom_kernel {
    qn_custom_options o; /* its texts are copies; function: also of one that was compiled */
    char *name;
    size_t name_size;
    void *arg; /* of its gradient; o.arg is the function's */
    custom_code code;
    uint32_t number;
} custom_kernel;
/* A copy, that is there until the graph is closed; takes `code` over, also where it raises. */
custom_kernel *custom_add(graph *g, const qn_custom_options *o, custom_code code);
const custom_kernel *custom_of(const graph *g, const call_attr *c);
/* The shape of one item of a result. */
tuple_id custom_item(graph *g, const call_attr *c, int result);
/* Into c: the items of `n` results. */
void custom_set_items(graph *g, call_attr *c, int n, const tuple_id *item);
void customs_close(graph *g);

#endif
