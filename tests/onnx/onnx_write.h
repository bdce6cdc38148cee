/* onnx_write.h - models of the ONNX format, written by hand as protocol buffers, for tests. */
#ifndef QN_ONNX_WRITE_H
#define QN_ONNX_WRITE_H

#include "onnx/onnx.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>

static const char *device = "cpu";

/* ---- writing models -------------------------------------------------------------------------- */

/* A message that is being written. */
typedef struct message {
    uint8_t byte[1 << 17];
    size_t size;
} message;

static inline void put_varint(message *m, uint64_t v) {
    for (; v > 127; v >>= 7) m->byte[m->size++] = (uint8_t)(v | 128);
    m->byte[m->size++] = (uint8_t)v;
}

static inline void put_int(message *m, int field, int64_t v) {
    put_varint(m, (uint64_t)field << 3);
    put_varint(m, (uint64_t)v);
}

static inline void put_bytes(message *m, int field, const void *p, size_t n) {
    put_varint(m, (uint64_t)field << 3 | 2);
    put_varint(m, n);
    if (n > sizeof m->byte - m->size) FAIL("a message of more than %zu bytes", sizeof m->byte);
    if (n) memcpy(m->byte + m->size, p, n);
    m->size += n;
}

static inline void put_text(message *m, int field, const char *text) {
    put_bytes(m, field, text, strlen(text));
}

static inline void put_message(message *m, int field, const message *of) {
    put_bytes(m, field, of->byte, of->size);
}

/* A value of any shape: NULL; else sizes, -1 for one that is called "n". */
static inline message value_info(const char *name, int type, int rank, const int64_t *shape) {
    message v = {.size = 0}, t = v, tensor = v, dims = v;
    for (int i = 0; i < rank; i++) {
        message dim = {.size = 0};
        if (shape[i] < 0)
            put_text(&dim, 2, "n");
        else
            put_int(&dim, 1, shape[i]);
        put_message(&dims, 1, &dim);
    }
    put_int(&tensor, 1, type);
    if (shape) put_message(&tensor, 2, &dims);
    put_message(&t, 1, &tensor);
    put_text(&v, 1, name);
    put_message(&v, 2, &t);
    return v;
}

/* inputs and outputs with spaces between; "-" is one that is left out. */
static inline message node(const char *op, const char *inputs, const char *outputs) {
    message n = {.size = 0};
    const char *lists[2] = {inputs, outputs};
    char copy[256];
    for (int k = 0; k < 2; k++) {
        snprintf(copy, sizeof copy, "%s", lists[k]);
        for (char *at = strtok(copy, " "); at; at = strtok(NULL, " "))
            put_text(&n, k + 1, strcmp(at, "-") ? at : "");
    }
    put_text(&n, 3, "here");
    put_text(&n, 4, op);
    return n;
}

static inline void add_int(message *n, const char *name, int64_t v) {
    message a = {.size = 0};
    put_text(&a, 1, name);
    put_int(&a, 3, v);
    put_int(&a, 20, 2);
    put_message(n, 5, &a);
}

static inline void add_text(message *n, const char *name, const char *v) {
    message a = {.size = 0};
    put_text(&a, 1, name);
    put_text(&a, 4, v);
    put_int(&a, 20, 3);
    put_message(n, 5, &a);
}

static inline void add_ints(message *n, const char *name, int count, const int64_t *v) {
    message a = {.size = 0}, list = a;
    put_text(&a, 1, name);
    for (int i = 0; i < count; i++) put_varint(&list, (uint64_t)v[i]);
    put_message(&a, 8, &list);
    put_int(&a, 20, 7);
    put_message(n, 5, &a);
}

static inline void add_graph(message *n, const char *name, const message *g) {
    message a = {.size = 0};
    put_text(&a, 1, name);
    put_message(&a, 6, g);
    put_message(n, 5, &a);
}

static inline message tensor_of_ints(const char *name, int n, const int64_t *v) {
    message t = {.size = 0};
    if (n >= 0) put_int(&t, 1, n);
    put_int(&t, 2, ONNX_INT64);
    put_text(&t, 8, name);
    put_bytes(&t, 9, v, (size_t)(n < 0 ? 1 : n) * sizeof *v);
    return t;
}

static inline void put_init(message *graph, const char *name, int type, int rank,
                            const int64_t *shape, size_t size, const void *data) {
    message t = {.size = 0};
    for (int i = 0; i < rank; i++) put_int(&t, 1, shape[i]);
    put_int(&t, 2, type);
    put_text(&t, 8, name);
    put_bytes(&t, 9, data, size);
    put_message(graph, 5, &t);
}

static inline message whole(const message *graph, int opset) {
    message m = {.size = 0}, o = m;
    put_int(&o, 2, opset);
    put_int(&m, 1, 8);
    put_message(&m, 7, graph);
    put_message(&m, 8, &o);
    return m;
}

static inline void put_node(message *graph, const message *n) {
    put_message(graph, 1, n);
}

static inline void put_in(message *graph, const char *name, int type, int rank,
                          const int64_t *shape) {
    message v = value_info(name, type, rank, shape);
    put_message(graph, 11, &v);
}

static inline void put_out(message *graph, const char *name, int type) {
    message v = value_info(name, type, 0, NULL);
    put_message(graph, 12, &v);
}

/* ---- helpers --------------------------------------------------------------------------------- */

static inline qn_ctx *begin(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = device, .threads = 1));
    if (!qn || qn_error_code(qn)) FAIL("no device %s", device);
    return qn;
}

static inline void end(qn_ctx *qn) {
    if (qn_error_code(qn)) FAIL("%s: %s", device, qn_error(qn));
    qn_close(qn);
}

static inline qn_onnx *parsed(qn_ctx *qn, const message *m) {
    uint8_t *copy = malloc(m->size ? m->size : 1); /* of exactly its size: reading past it shows */
    memcpy(copy, m->byte, m->size);
    qn_onnx *model = qn_onnx_parse(qn, copy, m->size, NULL);
    free(copy);
    return model;
}

static inline qn_tensor *numbers(qn_ctx *qn, int rank, const int64_t *shape) {
    float v[256];
    int n = 1;
    for (int i = 0; i < rank; i++) n *= (int)shape[i];
    for (int i = 0; i < n; i++) v[i] = (float)(i - 4);
    return qn_from(qn, QN_F32, rank, shape, v);
}

static inline void expect(qn_ctx *qn, qn_code code, const char *text) {
    CHECK_INT(qn_error_code(qn), code);
    if (!strstr(qn_error(qn), text)) FAIL("\"%s\" is not in \"%s\"", text, qn_error(qn));
    qn_clear_error(qn);
}

#endif
