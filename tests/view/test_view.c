/* test_view.c - qn_view_html and qn_plot: pages are well-formed and stand alone whatever names
 * there are, show the graph, kernels and values, leave what they show as it was, and are of
 * moderate size for large graphs. */
#include "test.h"
#include "view/view.h"

static char folder[64], path[128], *page;

static bool read_page(void) {
    FILE *f = fopen(path, "rb");
    free(page);
    page = calloc(1, 1 << 24);
    size_t n = f ? fread(page, 1, (1 << 24) - 1, f) : 0;
    if (f) fclose(f);
    unlink(path);
    return n > 0;
}

/* Elements end where they should, those that HTML does not end aside. */
static void check_well_formed(void) {
    static const char *const alone[] = {"meta", "link", "br"};
    char open[200][16];
    int depth = 0;
    for (const char *at = page; (at = strchr(at, '<')); at++) {
        bool ends = at[1] == '/';
        char name[16] = "";
        sscanf(at + 1 + ends, "%15[a-z0-9]", name);
        const char *close = strchr(at, '>');
        bool none = !*name || (close && close[-1] == '/');
        for (int i = 0; i < 3; i++) none |= !strcmp(name, alone[i]);
        if (at[1] == '!' || none) {
            CHECK(at[1] == '!' || *name); /* no bare < */
            continue;
        }
        if (ends && (!depth || strcmp(open[depth - 1], name) != 0)) {
            FAIL("</%s> ends <%s>", name, depth ? open[depth - 1] : "nothing");
            return;
        }
        if (ends)
            depth--;
        else if (depth < 200)
            strcpy(open[depth++], name);
    }
    CHECK_INT(depth, 0);
    for (const char *at = page; (at = strchr(at, '&')); at++)
        CHECK(!strncmp(at, "&amp;", 5) || !strncmp(at, "&lt;", 4) || !strncmp(at, "&gt;", 4) ||
              !strncmp(at, "&quot;", 6) || !strncmp(at, "&micro;", 7));
    CHECK(!strstr(page, "<script") && !strstr(page, "src=") && !strstr(page, "url("));
    const char *http = strstr(page, "http"); /* the name of SVG alone */
    CHECK(!http || !strncmp(http, "http://www.w3.org/2000/svg", 26));
    CHECK(!strstr(page, "nan") && !strstr(page, "inf\""));
}

static qn_tensor *ramp(qn_ctx *qn, int64_t n, int64_t m) {
    float *x = malloc((size_t)(n * m) * sizeof *x);
    for (int64_t i = 0; i < n * m; i++) x[i] = (float)(i % 5) - 2;
    qn_tensor *t = qn_from(qn, QN_F32, 2, (int64_t[]){n, m}, x);
    free(x);
    return t;
}

static void a_page_has_graph_plan_kernels_and_values(void) {
    qn_ctx *qn = qn_open(NULL);
    qn_tensor *a = ramp(qn, 64, 48), *b = ramp(qn, 48, 32);
    qn_tensor *y = qn_softmax(qn_relu(qn_matmul(a, b)), 1);
    CHECK_INT(qn_view_html(y, path), QN_OK);
    CHECK(read_page());
    check_well_formed();
    CHECK(strstr(page, "sum_product") && strstr(page, "f32[64, 32]"));
    CHECK(strstr(page, "-2, -1, 0, 1, ...")); /* of a */
    CHECK(strstr(page, "The value begins with"));
    CHECK(strstr(page, "Loops as lowered") && strstr(page, "kernel &quot;"));
    CHECK(strstr(page, "Loops as scheduled") && strstr(page, "Schedule"));
    CHECK(strstr(page, "Roofline") && strstr(page, "class=\"point\""));
    CHECK(strstr(page, "prefers-color-scheme"));
#ifdef __x86_64__
    if (qn_device_facts(qn) && strstr(qn_device_facts(qn), "LLVM")) CHECK(strstr(page, "vmov"));
#endif
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
}

/* What every read refuses is shown by no page; nothing more stays of a second try. */
static void indices_beyond_an_axis_are_an_error(void) {
    setenv("QN_CHECK", "1", 1);
    qn_ctx *qn = qn_open(NULL);
    unsetenv("QN_CHECK");
    const int64_t inside = 3, beyond = 900;
    qn_tensor *w = ramp(qn, 64, 8);
    qn_tensor *fine = qn_embedding(w, qn_from(qn, QN_I64, 1, (int64_t[]){1}, &inside));
    qn_tensor *bad = qn_embedding(w, qn_from(qn, QN_I64, 1, (int64_t[]){1}, &beyond));
    CHECK_INT(qn_view_html(fine, path), QN_OK);
    CHECK(read_page() && strstr(page, "The value begins with"));
    qn_stats stats[2];
    for (int i = 0; i < 2; i++) {
        CHECK_INT(qn_view_html(bad, path), QN_ERANGE);
        CHECK(strstr(qn_error(qn), "index 900 of an axis of 64") && !read_page());
        qn_clear_error(qn);
        qn_get_stats(qn, &stats[i], sizeof stats[i]);
    }
    CHECK_INT(stats[1].nodes, stats[0].nodes);
    CHECK_INT(stats[1].buffers, stats[0].buffers);
    CHECK_INT(stats[1].host_bytes, stats[0].host_bytes);
    CHECK_INT(qn_view_html(fine, path), QN_OK);
    CHECK(read_page());
    qn_close(qn);
}

static void names_are_escaped(void) {
    qn_ctx *qn = qn_open(NULL);
    qn_tensor *a = ramp(qn, 4, 4);
    qn_set_name(a, "<script>alert(\"&\")</script>\xff\x01 caf\xc3\xa9");
    CHECK_INT(qn_view_html(qn_exp(a), path), QN_OK);
    CHECK(read_page());
    check_well_formed();
    CHECK(strstr(page, "&lt;script&gt;alert"));
    qn_close(qn);
}

/* Neither values, buffers, handles nor pending assignments change; nothing stays behind. */
static void what_is_shown_stays_as_it_was(void) {
    float before[64 * 32], after[64 * 32];
    qn_ctx *qn = qn_open(NULL);
    qn_tensor *a = ramp(qn, 64, 48), *y = qn_tanh(qn_matmul(a, ramp(qn, 48, 32)));
    CHECK_INT(qn_view_html(y, path), QN_OK); /* what is kept of kernels is there now */
    qn_stats was, is;
    qn_get_stats(qn, &was, sizeof was);
    CHECK_INT(qn_view_html(y, path), QN_OK);
    qn_get_stats(qn, &is, sizeof is);
    CHECK_INT(is.buffers, was.buffers);
    CHECK_INT(is.handles, was.handles);
    CHECK_INT(is.nodes, was.nodes);
    CHECK_INT(is.plans_kept, was.plans_kept);
    CHECK_INT(is.host_bytes, was.host_bytes);
    CHECK_INT(qn_read(y, before, sizeof before), QN_OK);
    CHECK_INT(qn_view_html(y, path), QN_OK); /* of a value that is there: how it came */
    CHECK(read_page() && strstr(page, "sum_product") && strstr(page, "Loops as lowered"));
    check_well_formed();
    CHECK_INT(qn_read(y, after, sizeof after), QN_OK);
    CHECK(!memcmp(before, after, sizeof before));
    CHECK_INT(qn_assign(a, qn_add(a, a)), QN_OK);
    CHECK_INT(qn_view_html(y, path), QN_OK);
    CHECK_INT(qn_view_html(a, path), QN_OK);
    CHECK_INT(qn_read(y, after, sizeof after), QN_OK);
    CHECK(!memcmp(before, after, sizeof before));
    float first = 0, all[64 * 48];
    CHECK_INT(qn_read(a, all, sizeof all), QN_OK);
    first = all[0];
    CHECK_NEAR(first, -4, 0, 0);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
}

static void large_graphs_are_folded_and_cut(void) {
    for (int kind = 0; kind < 2; kind++) {
        qn_ctx *qn = qn_open(NULL);
        qn_tensor *x = ramp(qn, 8, 8);
        uint64_t seed = 5;
        for (int i = 0; i < 150; i++) {
            qn_tensor *w = ramp(qn, 8, 8);
            int turn = kind ? (int)test_below(&seed, 3) : 0;
            x = turn == 0   ? qn_tanh(qn_matmul(x, w))
                : turn == 1 ? qn_add(x, w)
                            : qn_mul(x, qn_exp(w));
        }
        CHECK_INT(qn_view_html(x, path), QN_OK);
        CHECK(read_page());
        check_well_formed();
        if (!kind) CHECK(strstr(page, "more times the same"));
        if (kind) CHECK(strstr(page, "are not shown"));
        CHECK(strlen(page) < 4 << 20);
        qn_close(qn);
    }
}

static void every_kind_of_value_has_a_page(void) {
    for (int device = 0; device < 3; device++) {
        qn_options o = QN_OPTIONS(.device = device == 0 ? "cpu" : device == 1 ? "ref" : "null");
        qn_ctx *qn = qn_open(&o);
        qn_tensor *a = ramp(qn, 6, 6);
        qn_tensor *list[] = {a,
                             qn_zeros(qn, QN_F64, 0, NULL),
                             qn_sort(a, 1, true),
                             qn_cumsum(a, 0),
                             qn_fft(a, 6, 0, 0),
                             qn_eq(a, a),
                             qn_cast(a, QN_BF16),
                             qn_zeros(qn, QN_I32, 1, (int64_t[]){0}),
                             qn_inv(qn_add(a, qn_eye(qn, QN_F32, 6, 6)))};
        for (size_t i = 0; i < COUNT_OF(list); i++) {
            if (!list[i]) {
                qn_clear_error(qn);
                continue;
            }
            CHECK_INT(qn_view_html(list[i], path), QN_OK);
            CHECK(read_page());
            check_well_formed();
        }
        if (qn_error_code(qn)) FAIL("%s", qn_error(qn));
        qn_close(qn);
    }
}

static void mistakes_are_errors(void) {
    qn_ctx *qn = qn_open(NULL);
    qn_tensor *a = ramp(qn, 4, 4);
    double one = 1;
    CHECK_INT(qn_view_html(NULL, path), QN_ENULL);
    CHECK_INT(qn_view_html(a, NULL), QN_ENULL);
    qn_clear_error(qn);
    CHECK_INT(qn_view_html(a, "/nowhere/page.html"), QN_EIO);
    CHECK(strstr(qn_error(qn), "/nowhere/page.html"));
    qn_clear_error(qn);
    CHECK_INT(qn_plot(qn, 0, &one, path, NULL), QN_EARG);
    qn_clear_error(qn);
    CHECK_INT(qn_plot(qn, 1, NULL, path, NULL), QN_ENULL);
    qn_clear_error(qn);
    CHECK_INT(qn_plot(NULL, 1, &one, path, NULL), QN_ENULL);
    CHECK_INT(qn_plot(qn, 1, &one, "/nowhere/x.svg", NULL), QN_EIO);
    qn_clear_error(qn);
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *gone = qn_exp(a);
    qn_scope_end(qn, s);
    CHECK(qn_view_html(gone, path) != QN_OK);
    qn_close(qn);
}

/* Every memory request of a page fails once: an error, and nothing is lost. */
static void a_page_survives_memory_that_ends(void) {
    qn_ctx *qn = qn_open(NULL);
    qn_tensor *y = qn_tanh(qn_sum(ramp(qn, 32, 32), 0, false));
    CHECK_INT(qn_view_html(y, path), QN_OK);
    uint64_t first = qn->heap.requests;
    CHECK_INT(qn_view_html(y, path), QN_OK);
    uint64_t each = qn->heap.requests - first, bytes = qn->heap.bytes, failed = 0;
    for (uint64_t i = 1; i <= each; i += 1 + each / 100) {
        qn->heap.fail_at = qn->heap.requests + i;
        qn_code code = qn_view_html(y, path);
        failed += code == QN_ENOMEM;
        CHECK(code == QN_ENOMEM || code == QN_OK);
        qn->heap.fail_at = 0;
        qn_clear_error(qn);
    }
    CHECK(failed > 0);
    CHECK_INT(qn_view_html(y, path), QN_OK);
    CHECK(qn->heap.bytes <= bytes + 4096);
    qn_close(qn);
}

static void curves_have_gaps_bands_and_scales(void) {
    qn_ctx *qn = qn_open(NULL);
    static double v[5000];
    for (int i = 0; i < 5000; i++) v[i] = exp(-i / 900.) + (i % 50 == 0 ? 1 : 0);
    v[10] = NAN, v[2500] = INFINITY;
    CHECK_INT(qn_plot(qn, 5000, v, path,
                      &QN_PLOT_OPTIONS(.title = "loss <of> \"a\" & b", .x_label = "step",
                                       .y_label = "nats")),
              QN_OK);
    CHECK(read_page());
    check_well_formed();
    CHECK(strstr(page, "loss &lt;of&gt; &quot;a&quot; &amp; b") && strstr(page, "class=\"b\""));
    CHECK(strstr(page, ">4999<") && strstr(page, ">step<"));
    for (int i = 0; i < 20; i++) v[i] = i == 10 ? NAN : pow(10, -i);
    CHECK_INT(qn_plot(qn, 20, v, path, &QN_PLOT_OPTIONS(.log = true, .first = 100, .step = 10)),
              QN_OK);
    CHECK(read_page());
    check_well_formed();
    const char *curve = strstr(page, "class=\"c\"");
    CHECK(curve && strchr(strchr(curve, 'M') + 1, 'M')); /* two pieces */
    CHECK(strstr(page, ">100<") && strstr(page, ">290<"));
    CHECK(!strstr(page, "class=\"b\""));
    static const double odd[][3] = {{NAN, NAN, NAN},
                                    {0, 0, 0},
                                    {1.7e308, -1.7e308, 1.7e308},
                                    {5e-324, 0, 0},
                                    {-1, -2, -3},
                                    {1e15, 1e15 + 1, 1e15},
                                    {INFINITY, -INFINITY, 7},
                                    {1e300, 1e300, 1e300}};
    for (size_t i = 0; i < COUNT_OF(odd); i++)
        for (int log = 0; log < 2; log++)
            for (int n = 1; n <= 3; n++) {
                CHECK_INT(qn_plot(qn, n, odd[i], path, &QN_PLOT_OPTIONS(.log = log)), QN_OK);
                CHECK(read_page() && strlen(page) < 20000);
                check_well_formed();
            }
    CHECK_INT(qn_plot(qn, 3, v, path, &QN_PLOT_OPTIONS(.step = INFINITY)), QN_EARG);
    static double far[600]; /* of two values each group's mean: no sum of them is finite */
    for (int i = 0; i < 600; i++) far[i] = i % 5 ? 1.7e308 : -1.7e308;
    CHECK_INT(qn_plot(qn, 600, far, path, NULL), QN_OK);
    CHECK(read_page());
    check_well_formed();
    double y;
    for (const char *at = strstr(page, "class=\"c\""); at && (at = strchr(at, 'L')); at++)
        CHECK(sscanf(at, "L%*f %lf", &y) == 1 && y >= 0 && y <= 360);
    qn_close(qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    strcpy(folder, "/tmp/quern-view-XXXXXX");
    if (!mkdtemp(folder)) return 1;
    snprintf(path, sizeof path, "%s/page.html", folder);
    RUN(a_page_has_graph_plan_kernels_and_values);
    RUN(indices_beyond_an_axis_are_an_error);
    RUN(names_are_escaped);
    RUN(what_is_shown_stays_as_it_was);
    RUN(large_graphs_are_folded_and_cut);
    RUN(every_kind_of_value_has_a_page);
    RUN(mistakes_are_errors);
    RUN(a_page_survives_memory_that_ends);
    RUN(curves_have_gaps_bands_and_scales);
    unlink(path);
    rmdir(folder);
    free(page);
    return test_end();
}
