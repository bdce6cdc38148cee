/* test_onnx_limits.c - small models that ask for much: tables, lists, loops, shapes of no elements.
 * What is made of them is an error that names the number, or a result, soon and in its memory. */
#include "onnx_write.h"

#include <math.h>

/* A graph that makes y, called on x = -4 -3: its error, or QN_OK with a result that is there. */
static void expect_graph(const message *nodes, qn_code code, const char *text) {
    device = "ref";
    qn_ctx *qn = begin();
    message g = *nodes, m;
    put_in(&g, "x", ONNX_FLOAT, 1, (int64_t[]){2});
    put_out(&g, "y", 0);
    m = whole(&g, 20);
    qn_onnx *model = parsed(qn, &m);
    qn_tensor *x = numbers(qn, 1, (int64_t[]){2}), *y = NULL;
    CHECK_INT(qn_onnx_call(model, 1, &x, 1, &y), code);
    if (code == QN_OK) {
        CHECK_INT(qn_realize(1, &y), QN_OK);
    } else {
        CHECK(!y);
        expect(qn, code, text);
    }
    qn_onnx_close(model);
    end(qn);
    device = "cpu";
}

static void put_scalar(message *g, const char *name, int64_t v) {
    put_init(g, name, ONNX_INT64, 0, NULL, sizeof v, &v);
}

static void put_float(message *g, const char *name, float v) {
    put_init(g, name, ONNX_FLOAT, 0, NULL, sizeof v, &v);
}

static void many_regions_are_refused(void) {
    message g = {.size = 0}, none = g, n;
    int64_t zero = 0, size[3] = {1 << 22, 4, 1 << 22};
    put_init(&g, "bs", ONNX_INT64, 1, (int64_t[]){2}, 16, size);
    put_init(&g, "is", ONNX_INT64, 1, (int64_t[]){1}, 8, size + 2);
    put_init(&g, "image", ONNX_FLOAT, 4, (int64_t[]){1, 1, 1, 2}, 8, (float[]){1, 2});
    n = node("ConstantOfShape", "bs", "b");
    put_node(&g, &n);
    n = node("ConstantOfShape", "is", "f");
    put_node(&g, &n);
    n = node("Cast", "f", "i");
    add_int(&n, "to", ONNX_INT64);
    put_node(&g, &n);
    n = node("RoiAlign", "image b i", "y");
    add_int(&n, "output_height", 4096);
    add_int(&n, "output_width", 4096);
    add_int(&n, "sampling_ratio", 256);
    put_node(&g, &n);
    expect_graph(&g, QN_ERANGE, "places, more than 100000000");
    g = none;
    put_init(&g, "image", ONNX_FLOAT, 4, (int64_t[]){1, 1, 1, 2}, 8, (float[]){1, 2});
    put_init(&g, "b", ONNX_FLOAT, 2, (int64_t[]){1, 4}, 16, (float[]){0, NAN, INFINITY, 1});
    put_init(&g, "i", ONNX_INT64, 1, (int64_t[]){1}, 8, &zero);
    n = node("RoiAlign", "image b i", "y");
    put_node(&g, &n);
    expect_graph(&g, QN_OK, "");
    g = none;
    put_init(&g, "image", ONNX_FLOAT, 4, (int64_t[]){1, 1, 0, 2}, 0, "");
    put_init(&g, "b", ONNX_FLOAT, 2, (int64_t[]){1, 4}, 16, (float[]){0, 0, 1, 1});
    put_init(&g, "i", ONNX_INT64, 1, (int64_t[]){1}, 8, &zero);
    put_node(&g, &n);
    expect_graph(&g, QN_ESHAPE, "regions of an empty image");
}

static message tfidf(int gram, int skips, int index, int n_counts, int n_pool) {
    static const int64_t zeros[40000], sevens[40000] = {0};
    message n = node("TfIdfVectorizer", "t", "y");
    add_text(&n, "mode", "IDF");
    add_int(&n, "min_gram_length", gram);
    add_int(&n, "max_gram_length", gram);
    add_int(&n, "max_skip_count", skips);
    add_ints(&n, "ngram_counts", n_counts, zeros);
    add_ints(&n, "ngram_indexes", 1, (int64_t[]){index});
    add_ints(&n, "pool_int64s", n_pool, sevens);
    return n;
}

static void grams_stay_in_their_words(void) {
    message g = {.size = 0}, n = tfidf(1, 0, 1 << 26, 1, 1), none = g;
    put_init(&g, "t", ONNX_INT64, 2, (int64_t[]){(int64_t)1 << 38, 0}, 0, "");
    put_node(&g, &n);
    expect_graph(&g, QN_ERANGE, "places, more than 100000000");
    g = none; /* 39999 words, 65536 apart: 2^31 and more */
    n = tfidf(40000, 65535, 0, 40000, 40000);
    put_init(&g, "t", ONNX_INT64, 1, (int64_t[]){3}, 24, (int64_t[]){0, 0, 0});
    put_node(&g, &n);
    expect_graph(&g, QN_OK, "");
}

/* DeformConv of an image, weights and offsets of one place. */
static message deforming(const char *name, int count, const int64_t *list) {
    message g = {.size = 0}, n = node("DeformConv", "image w o", "y");
    int64_t one[4] = {1, 1, 1, 1};
    put_init(&g, "image", ONNX_FLOAT, 4, one, 4, (float[]){1});
    put_init(&g, "w", ONNX_FLOAT, 4, one, 4, (float[]){1});
    put_init(&g, "o", ONNX_FLOAT, 4, (int64_t[]){1, 2, 1, 1}, 8, (float[]){0, 0});
    add_ints(&n, name, count, list);
    put_node(&g, &n);
    return g;
}

static void lists_have_as_many_numbers_as_axes(void) {
    int64_t v[5] = {1, 1, 1, 1, 1}, most = INT64_MAX;
    message g = deforming("strides", 1, v), n;
    expect_graph(&g, QN_ESHAPE, "1 numbers in strides, not 2");
    g = deforming("dilations", 0, v);
    expect_graph(&g, QN_ESHAPE, "0 numbers in dilations, not 2");
    g = deforming("pads", 5, v);
    expect_graph(&g, QN_ESHAPE, "5 numbers in pads, not 4");
    g = deforming("pads", 4, v);
    expect_graph(&g, QN_OK, "");
    g.size = 0; /* 2^31 taps and 2^40 places of tensors without elements */
    put_init(&g, "image", ONNX_FLOAT, 4, (int64_t[]){1, 1, 1, 1}, 4, (float[]){1});
    put_init(&g, "w", ONNX_FLOAT, 4, (int64_t[]){0, 1, 1 << 15, 1 << 16}, 0, "");
    put_init(&g, "o", ONNX_FLOAT, 4, (int64_t[]){0, 2, 1 << 20, 1 << 20}, 0, "");
    n = node("DeformConv", "image w o", "y");
    put_node(&g, &n);
    expect_graph(&g, QN_ERANGE, "places, more than 100000000");
    g.size = 0;
    put_init(&g, "image", ONNX_FLOAT, 3, (int64_t[]){1, 1, 2}, 8, (float[]){1, 2});
    n = node("MaxPool", "image", "y");
    add_ints(&n, "kernel_shape", 1, v);
    add_ints(&n, "strides", 1, &most);
    add_text(&n, "auto_pad", "SAME_UPPER");
    put_node(&g, &n);
    expect_graph(&g, QN_ERANGE, "strides has 9223372036854775807");
}

static void nodes_may_have_no_outputs(void) {
    message g = {.size = 0}, n = node("Relu", "x", "");
    put_node(&g, &n);
    n = node("TopK", "x", "");
    put_node(&g, &n);
    n = node("DequantizeLinear", "x one", "");
    put_float(&g, "one", 1);
    put_node(&g, &n);
    n = node("Relu", "x", "y");
    put_node(&g, &n);
    expect_graph(&g, QN_OK, "");
}

static void numbers_of_any_size_are_places(void) {
    message g = {.size = 0}, none = g, n;
    put_scalar(&g, "bins", 4);
    put_scalar(&g, "size", 8);
    put_scalar(&g, "rate", 1);
    put_float(&g, "low", 0);
    put_float(&g, "high", 1e15f);
    n = node("MelWeightMatrix", "bins size rate low high", "y");
    put_node(&g, &n);
    expect_graph(&g, QN_OK, "");
    g = none;
    put_init(&g, "s", ONNX_FLOAT, 1, (int64_t[]){1}, 4, (float[]){1e-12f});
    n = node("Resize", "x - s", "y");
    add_text(&n, "mode", "linear");
    add_int(&n, "antialias", 1);
    put_node(&g, &n);
    expect_graph(&g, QN_ERANGE, "a scale of 1e-12 takes more than 65536 places");
    g = none;
    put_scalar(&g, "n", INT64_MIN);
    n = node("HannWindow", "n", "y");
    add_int(&n, "periodic", 0);
    put_node(&g, &n);
    expect_graph(&g, QN_ERANGE, "a window of -9223372036854775808");
    g = none; /* parts of 2^63 - 1 */
    put_scalar(&g, "n", INT64_MAX);
    n = node("SplitToSequence", "x n", "l");
    put_node(&g, &n);
    n = node("ConcatFromSequence", "l", "y");
    add_int(&n, "axis", 0);
    put_node(&g, &n);
    expect_graph(&g, QN_OK, "");
}

static void nothing_is_not_gone_through(void) {
    message g = {.size = 0}, none = g, n;
    int64_t far = (int64_t)1 << 40;
    put_init(&g, "boxes", ONNX_FLOAT, 3, (int64_t[]){far, 5, 0}, 0, "");
    put_init(&g, "scores", ONNX_FLOAT, 3, (int64_t[]){far, 1 << 10, 0}, 0, "");
    n = node("NonMaxSuppression", "boxes scores", "y");
    put_node(&g, &n);
    expect_graph(&g, QN_OK, "");
    g = none;
    put_init(&g, "t", ONNX_FLOAT, 2, (int64_t[]){far, 0}, 0, "");
    n = node("Unique", "t", "y");
    add_int(&n, "axis", 0);
    put_node(&g, &n);
    expect_graph(&g, QN_ERANGE, "places, more than");
    g = none;
    put_init(&g, "t", ONNX_FLOAT, 3, (int64_t[]){0, 1 << 30, 1 << 29}, 0, "");
    n = node("Flatten", "t", "y");
    put_node(&g, &n);
    expect_graph(&g, QN_OK, "");
}

/* 2^20 trips of 2^20 trips of a body that does nothing. */
static void loops_in_loops_have_a_bound(void) {
    message none = {.size = 0}, body = none, g = none, n;
    put_in(&body, "i", ONNX_INT64, 0, (int64_t[]){0});
    put_in(&body, "c", ONNX_BOOL, 0, (int64_t[]){0});
    put_out(&body, "c", ONNX_BOOL);
    put_scalar(&g, "trips", 1 << 20);
    for (int i = 0; i < 2; i++) {
        message up = none;
        n = node("Loop", "trips -", "");
        add_graph(&n, "body", &body);
        put_in(&up, "i", ONNX_INT64, 0, (int64_t[]){0});
        put_in(&up, "c", ONNX_BOOL, 0, (int64_t[]){0});
        put_out(&up, "c", ONNX_BOOL);
        put_node(&up, &n);
        body = up;
    }
    put_node(&g, &n);
    n = node("Relu", "x", "y");
    put_node(&g, &n);
    expect_graph(&g, QN_ERANGE, "a call of more than 4194304 steps");
}

/* A bias of one number where two are read: whatever is made of the rest is no output. */
static void what_an_operator_could_not_do_is_an_error(void) {
    const float weights[] = {1, 2};
    for (int known = 0; known < 2; known++) {
        message g = {.size = 0}, n;
        put_init(&g, "axes", ONNX_INT64, 1, (int64_t[]){2}, 16, (int64_t[]){0, 1});
        put_init(&g, "w", ONNX_FLOAT, 3, (int64_t[]){1, 1, 2}, 8, weights);
        put_init(&g, "r", ONNX_FLOAT, 3, (int64_t[]){1, 1, 1}, 4, weights);
        put_init(&g, "b", ONNX_FLOAT, 2, (int64_t[]){1, 1}, 4, weights);
        n = node("Unsqueeze", "x axes", "t");
        put_node(&g, &n);
        n = node("RNN", known ? "w w r b" : "t w r b", "y");
        put_node(&g, &n);
        expect_graph(&g, QN_ERANGE, "narrow");
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(many_regions_are_refused);
    RUN(grams_stay_in_their_words);
    RUN(lists_have_as_many_numbers_as_axes);
    RUN(nodes_may_have_no_outputs);
    RUN(numbers_of_any_size_are_places);
    RUN(nothing_is_not_gone_through);
    RUN(loops_in_loops_have_a_bound);
    RUN(what_an_operator_could_not_do_is_an_error);
    return test_end();
}
