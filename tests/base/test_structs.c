/* test_structs.c - structs of options and of results whose length differs between the program and
 * the library: what an older program lacks has its default, what a newer one asks for is an error,
 * and nothing is read or written beyond what the caller says is there. */
#include "base/base.h"
#include "quern_nn.h"
#include "quern_tune.h"
#include "test.h"

#include <stddef.h>

static qn_ctx *qn;

/* What conv says of an image [1, 1, 4] and a kernel [1, 1, 2] with these options: the places along
 * the last axis, or 0 and the error. */
static int64_t places(const qn_conv_options *o) {
    static const float image[4] = {1, 2, 3, 4}, kernel[2] = {1, 1};
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *x = qn_from(qn, QN_F32, 3, (int64_t[]){1, 1, 4}, image);
    qn_tensor *w = qn_from(qn, QN_F32, 3, (int64_t[]){1, 1, 2}, kernel);
    qn_tensor *y = qn_conv(x, w, NULL, o);
    int64_t n = y ? qn_dim(y, 2) : 0;
    qn_scope_end(qn, s);
    return n;
}

static void refused(const qn_conv_options *o, const char *words) {
    CHECK(places(o) == 0);
    CHECK(qn_error_code(qn) == QN_EARG);
    if (!strstr(qn_error(qn), words)) FAIL("\"%s\" does not say %s", qn_error(qn), words);
    qn_clear_error(qn);
}

/* A program compiled when there was only the stride: what lies behind is not the struct's. */
static void a_shorter_struct_has_the_defaults(void) {
    qn_conv_options o = QN_CONV_OPTIONS(.stride = {1}, .dilation = {3}, .before = {5});
    CHECK(places(&o) == 6);
    o.size = offsetof(qn_conv_options, before);
    CHECK(places(&o) == 1);
    o.size = offsetof(qn_conv_options, dilation);
    CHECK(places(&o) == 3);
}

typedef struct longer {
    qn_conv_options known;
    int64_t more[3];
} longer;

static void a_longer_struct_may_ask_for_nothing_more(void) {
    longer o = {.known = {.stride = {2}}};
    o.known.size = sizeof o;
    CHECK(places(&o.known) == 2);
    o.more[2] = 1;
    refused(&o.known, "asks for what this version");
}

static void a_struct_without_its_size_is_an_error(void) {
    char why[200] = "";
    refused(&(qn_conv_options){.stride = {2}}, "qn_conv_options.size is 0");
    refused(&(qn_conv_options){.size = 12}, "size is 12");
    refused(&(qn_conv_options){.size = (size_t)1 << 60}, "begin it by its macro");
    CHECK(!qn_open(&(qn_options){.device = "ref"}));
    /* where the reason goes is not known then */
    CHECK(!qn_open(&(qn_options){.error = why, .error_size = sizeof why}) && !why[0]);
    CHECK(qn_tune(qn, 0, NULL, &(qn_tune_options){.seconds = 1}) == QN_EARG);
    qn_clear_error(qn);
    CHECK(!qn_gpt_new(qn, 0, &(qn_gpt_config){.width = 8}) && qn_error_code(qn) == QN_EARG);
    qn_clear_error(qn);
    float v = 1;
    qn_tensor *p = qn_from(qn, QN_F32, 0, NULL, &v);
    CHECK(!qn_optimizer_new(qn, 1, &p, &(qn_optimizer_options){.rate = 1}));
    CHECK(qn_error_code(qn) == QN_EARG && strstr(qn_error(qn), "qn_optimizer_options.size is 0"));
    qn_clear_error(qn);
    qn_release(p);
}

static void results_fill_the_room_there_is_and_no_more(void) {
    union {
        qn_stats stats;
        unsigned char bytes[sizeof(qn_stats) + 64];
    } out;
    qn_tensor *x = qn_zeros(qn, QN_F32, 0, NULL);
    CHECK(!qn_realize(1, &x));
    memset(&out, 0xaa, sizeof out);
    qn_get_stats(qn, &out.stats, offsetof(qn_stats, plans));
    CHECK(out.stats.kernels > 0 && out.stats.kernels < 1000);
    CHECK(out.bytes[offsetof(qn_stats, plans)] == 0xaa);
    qn_get_stats(qn, &out.stats, sizeof out);
    for (size_t i = sizeof(qn_stats); i < sizeof out; i++) CHECK(out.bytes[i] == 0);
    memset(&out, 0xaa, sizeof out);
    qn_get_stats(qn, &out.stats, 0);
    CHECK(out.bytes[0] == 0xaa);
    qn_get_stats(qn, NULL, 0);
    qn_release(x);
}

static void defaults_hold_the_size_that_was_asked_for(void) {
    qn_optimizer_options o = qn_optimizer_defaults(QN_ADAM), part;
    CHECK(o.size == sizeof o && o.method == QN_ADAM && o.beta1 == 0.9);
    memset(&part, 0xaa, sizeof part);
    qn_optimizer_get_defaults(QN_ADAM, &part, offsetof(qn_optimizer_options, momentum));
    CHECK(part.size == offsetof(qn_optimizer_options, momentum) && part.rate == 1e-3);
    CHECK(((unsigned char *)&part.momentum)[0] == 0xaa);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    qn = qn_open(NULL);
    if (!qn) return 1;
    RUN(a_shorter_struct_has_the_defaults);
    RUN(a_longer_struct_may_ask_for_nothing_more);
    RUN(a_struct_without_its_size_is_an_error);
    RUN(results_fill_the_room_there_is_and_no_more);
    RUN(defaults_hold_the_size_that_was_asked_for);
    qn_close(qn);
    return test_end();
}
