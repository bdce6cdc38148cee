/* oracle_graph.h - a program of random_graph.h computed by oracle.h, step by step: dense arrays,
 * broadcasting spelled out, no sharing with any device. */
#ifndef QN_ORACLE_GRAPH_H
#define QN_ORACLE_GRAPH_H

#include "oracle.h"
#include "random_graph.h"

/* One step as a node whose sources are dense arrays of the shapes the row itself needs; `memory`
 * keeps what was allocated for it. */
typedef struct oracle_step {
    dev_node node;
    void *memory[3];
} oracle_step;

static inline dev_array oracle_array(const step *s, void *data) {
    dev_array a = {.dtype = s->dtype, .rank = s->rank, .data = data};
    memcpy(a.dim, s->dim, sizeof a.dim);
    dev_dense(&a);
    return a;
}

static inline void *oracle_alloc(const step *s) {
    void *p = calloc((size_t)step_count(s) + 1, qn_dtype_size(s->dtype));
    if (!p) abort();
    return p;
}

/* x with NumPy's broadcasting to the shape of s. */
static inline dev_array oracle_broadcast(const step *s, const step *x, const void *data,
                                         void **memory) {
    step wide = *s;
    wide.dtype = x->dtype;
    *memory = oracle_alloc(&wide);
    size_t size = qn_dtype_size(x->dtype);
    int64_t n = step_count(s), at[QN_MAX_RANK], from[QN_MAX_RANK];
    for (int64_t i = 0; i < n; i++) {
        oracle_index(s->rank, s->dim, i, at);
        for (int d = 0; d < x->rank; d++) from[d] = x->dim[d] == 1 ? 0 : at[d + s->rank - x->rank];
        memcpy((char *)*memory + (size_t)i * size,
               (const char *)data + (size_t)oracle_flat(x->rank, x->dim, from) * size, size);
    }
    return oracle_array(&wide, *memory);
}

static inline void oracle_step_open(const program *p, int i, void *const *value, oracle_step *o) {
    const step *s = &p->step[i];
    bool elem = op_rows[s->op].class_ == CLASS_ELEM;
    memset(o, 0, sizeof *o);
    o->node = (dev_node){.op = s->op, .dtype = s->dtype, .attr = s->attr, .bits = s->bits};
    o->node.attrs = s->attrs, o->node.sources = s->sources;
    o->node.out = oracle_array(s, NULL);
    for (int k = 0; k < s->sources; k++) {
        const step *x = &p->step[s->src[k]];
        o->node.src[k] = elem ? oracle_broadcast(s, x, value[s->src[k]], &o->memory[k])
                              : oracle_array(x, value[s->src[k]]);
    }
}

static inline void oracle_step_close(oracle_step *o) {
    for (int k = 0; k < 3; k++) free(o->memory[k]);
}

static inline void oracle_put(qn_dtype d, void *p, int64_t i, oracle_value v) {
    if (dtype_is_float(d))
        dtype_set_f(d, p, i, (double)oracle_round(d, v.f));
    else
        dtype_set_i(d, p, i, (int64_t)v.i);
}

/* Values of the steps before `end`, each to be freed. */
static inline void oracle_run(const program *p, int end, void **value) {
    for (int i = 0; i < end; i++) {
        const step *s = &p->step[i];
        int64_t n = step_count(s);
        value[i] = oracle_alloc(s);
        if (s->op == OP_BUFFER) {
            input_data(s, value[i]);
        } else if (s->op == OP_ASSIGN) {
            memcpy(value[i], value[s->src[1]], (size_t)n * qn_dtype_size(s->dtype));
        } else {
            oracle_step o;
            double ulps;
            long double bulk;
            oracle_step_open(p, i, value, &o);
            for (int64_t e = 0; e < n; e++)
                oracle_put(s->dtype, value[i], e, oracle_node(&o.node, e, &ulps, &bulk));
            oracle_step_close(&o);
        }
    }
}

#endif
