/* count_rows.h - of which rows of ops.h, in which dtypes, are the graphs made that a fuzzer makes?
 * Counted are nodes below what is asked for, as rules and gradients have left them. */
#ifndef QN_COUNT_ROWS_H
#define QN_COUNT_ROWS_H

#include <stdio.h>

#include "graph/graph.h"

typedef struct row_tally {
    int64_t nodes[OP_COUNT][DTYPE_COUNT], routine[ROUTINE_COUNT];
} row_tally;

static inline void count_nodes(row_tally *c, graph *g, uint32_t n, const node_id *list);

/* What is made of loops is below a RESULT's source; their bodies are beside. */
static inline void count_rows(row_tally *c, qn_ctx *qn, int n, qn_tensor *const *t) {
    graph *g = qn->graph;
    arena a;
    node_id root, *order, body[64];
    arena_open(&a, &qn->heap);
    for (int i = 0; i < n; i++) {
        int bodies = 0;
        root = tensor_at(t[i])->node;
        uint32_t count = graph_order(g, &a, 1, &root, &order);
        count_nodes(c, g, count, order);
        for (uint32_t k = 0; k < count && bodies < 64; k++)
            if (node_body(node_at(g, order[k]))) body[bodies++] = node_body(node_at(g, order[k]));
        count = bodies ? graph_order(g, &a, bodies, body, &order) : 0;
        count_nodes(c, g, count, order);
    }
    arena_free(&a);
}

static inline void count_nodes(row_tally *c, graph *g, uint32_t n, const node_id *list) {
    for (uint32_t i = 0; i < n; i++) {
        const graph_node *x = node_at(g, list[i]);
        c->nodes[x->op][x->dtype]++;
        for (int k = x->sources; k < node_links(x); k++) { /* by which gradients alone go */
            const graph_node *way = node_at(g, x->src[k]);
            c->nodes[way->op][way->dtype] += way->op == OP_CUSTOM;
        }
        if (x->op == OP_CALL) c->routine[node_call(g, x).routine]++;
    }
}

/* A line a row: its nodes, then of each dtype. Rows that have none come last, in one line. */
static inline void print_rows(const row_tally *c) {
    int64_t sum[OP_COUNT] = {0};
    printf("%-16s %8s", "", "nodes");
    for (int d = 0; d < DTYPE_COUNT; d++) printf(" %7s", qn_dtype_name((qn_dtype)d));
    for (int op = 1; op < OP_COUNT; op++) {
        for (int d = 0; d < DTYPE_COUNT; d++) sum[op] += c->nodes[op][d];
        if (sum[op]) printf("\n%-16s %8lld", op_rows[op].name, (long long)sum[op]);
        for (int d = 0; sum[op] && d < DTYPE_COUNT; d++)
            printf(" %7lld", (long long)c->nodes[op][d]);
    }
    printf("\nroutines:");
    for (int r = 0; r < ROUTINE_COUNT; r++)
        if (c->routine[r]) printf(" %s %lld", routine_rows[r].name, (long long)c->routine[r]);
    printf("\nnever:");
    for (int op = 1; op < OP_COUNT; op++)
        if (!sum[op]) printf(" %s", op_rows[op].name);
    puts("");
}

#endif
