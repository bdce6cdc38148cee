/* test_quant.c - blocks of few bits: what they stand for, and which blocks floats become. What is
 * expected was computed by the gguf package for Python, 0.19 (gguf.quants), from the bytes and the
 * numbers that test_rand gives; kept is a hash (FNV-1a) of all bytes, with one NaN for all. */
#include "quant/quant.h"
#include "test.h"

enum { BLOCKS = 6, BYTES_MOST = BLOCKS * 256, ELEMENTS_MOST = BLOCKS * 256 };

static const struct {
    qn_quant type;
    uint64_t values, blocks; /* of qn_dequantize; of qn_quantize, 0: it is only read */
} known[] = {
    {QN_Q4_0, 0x96d280a0d2cd8393u, 0x4f6d8d2a8b0057d5u},
    {QN_Q4_1, 0xe5c7890d2992cd67u, 0x56ce0ff472774516u},
    {QN_Q5_0, 0xbca1911f2f50c74fu, 0xb1ec9f8bb8bba02cu},
    {QN_Q5_1, 0x292232d21d33b740u, 0xc5187e3363666604u},
    {QN_Q8_0, 0xd52805710ed82e4fu, 0x407a7d44e6991eb6u},
    {QN_Q2_K, 0x1695f66a7c71e777u, 0},
    {QN_Q3_K, 0xaa06fd36aa43a9a3u, 0},
    {QN_Q4_K, 0xd6e2f40528ab6ffcu, 0},
    {QN_Q5_K, 0xc7d1bc5d6e89e64eu, 0},
    {QN_Q6_K, 0xccbc219df607a591u, 0},
    {QN_IQ2_XXS, 0x5fdc0917ec2f5806u, 0},
    {QN_IQ2_XS, 0x7d2bf831bb7d4e5cu, 0},
    {QN_IQ3_XXS, 0x2bdf3aac85de3005u, 0},
    {QN_IQ1_S, 0xf885c63fe3458a18u, 0},
    {QN_IQ4_NL, 0x2d237e7e51afaaf9u, 0},
    {QN_IQ3_S, 0xb05ec477ae57092bu, 0},
    {QN_IQ2_S, 0x8e757b37c2ded60du, 0},
    {QN_IQ4_XS, 0xeb9758d1617428d2u, 0},
    {QN_IQ1_M, 0xda17276d2119530au, 0},
    {QN_TQ1_0, 0x65be636c122a9ba8u, 0xa73a031d4cbd3bf2u},
    {QN_TQ2_0, 0x72d80e23ca5b62e0u, 0x69cd1ff6fe8dcd3cu},
    {QN_MXFP4, 0x383e22e115948e68u, 0x91e449018b8ee588u},
    {QN_NVFP4, 0xb16c829c4d33515fu, 0},
};
enum { KNOWN = sizeof known / sizeof *known };

static uint64_t fnv(const void *data, size_t size) {
    const uint8_t *p = data;
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < size; i++) h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

typedef struct row {
    const char *name;
    int elements, bytes;
    bool made;
} row;

static bool find(qn_quant type, row *r) {
    for (int i = 0;; i++) {
        qn_quant t = qn_quant_at(i, &r->name, &r->elements, &r->bytes, &r->made);
        if (t == type || t == QN_QUANT_NONE) return t != QN_QUANT_NONE;
    }
}

static qn_tensor *random_blocks(qn_ctx *qn, qn_quant type, const row *r) {
    uint8_t bytes[BYTES_MOST];
    uint64_t seed = (uint64_t)type;
    for (int i = 0; i < BLOCKS * r->bytes; i++) bytes[i] = (uint8_t)test_rand(&seed);
    return qn_from(qn, QN_U8, 2, (int64_t[]){2, BLOCKS / 2 * r->bytes}, bytes);
}

static qn_tensor *by_scales(qn_tensor *blocks, int type) {
    qn_tensor *scales = quant_scales(blocks, type);
    CHECK_INT(qn_realize(1, &scales), 0);
    return quant_by_scales(blocks, scales, type);
}

/* apart: by scales that are beside the blocks, where the type has such. */
static void check_values(qn_ctx *qn, bool apart) {
    for (int i = 0; i < KNOWN; i++) {
        if (apart && !quant_whole((int)known[i].type)) continue;
        row r;
        float y[ELEMENTS_MOST];
        if (!find(known[i].type, &r)) {
            FAIL("type %d is not listed", (int)known[i].type);
            continue;
        }
        qn_scope s = qn_scope_begin(qn);
        size_t size = (size_t)(BLOCKS * r.elements) * sizeof(float);
        qn_tensor *x = random_blocks(qn, known[i].type, &r);
        x = apart ? by_scales(x, (int)known[i].type) : qn_dequantize(x, known[i].type);
        CHECK_INT(qn_dim(x, 1), BLOCKS / 2 * r.elements);
        CHECK_INT(qn_read(x, y, size), 0);
        for (int k = 0; k < BLOCKS * r.elements; k++)
            if (isnan(y[k])) memcpy(&y[k], &(uint32_t){0x7fc00000}, 4);
        if (fnv(y, size) != known[i].values) FAIL("%s is read otherwise", r.name);
        qn_scope_end(qn, s);
    }
    CHECK_STR(qn_error(qn), "");
}

static void blocks_are_read_as_the_reference_reads_them(void) {
    qn_ctx *qn = qn_open(NULL);
    check_values(qn, false);
    qn_close(qn);
}

static void scales_may_lie_beside_the_blocks(void) {
    qn_ctx *qn = qn_open(NULL);
    CHECK(quant_whole(QN_Q4_0) && quant_whole(QN_Q5_0) && quant_whole(QN_Q8_0));
    check_values(qn, true);
    qn_close(qn);
}

static void and_so_by_plain_loops(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    check_values(qn, false);
    qn_close(qn);
}

static void floats_become_the_blocks_of_the_reference(void) {
    qn_ctx *qn = qn_open(NULL);
    for (int i = 0; i < KNOWN; i++) {
        row r;
        float x[ELEMENTS_MOST];
        uint8_t y[BYTES_MOST];
        find(known[i].type, &r);
        CHECK_INT(r.made, known[i].blocks != 0);
        if (!known[i].blocks) continue;
        uint64_t seed = 100 + (uint64_t)known[i].type;
        for (int k = 0; k < BLOCKS * r.elements; k++)
            x[k] = ((float)test_below(&seed, 2000001) - 1e6f) / 65536;
        memset(x, 0, (size_t)r.elements * sizeof *x); /* one that has no scale */
        qn_scope s = qn_scope_begin(qn);
        qn_tensor *t = qn_from(qn, QN_F32, 2, (int64_t[]){2, BLOCKS / 2 * r.elements}, x);
        CHECK_INT(qn_read(qn_quantize(t, known[i].type), y, (size_t)(BLOCKS * r.bytes)), 0);
        if (fnv(y, (size_t)(BLOCKS * r.bytes)) != known[i].blocks)
            FAIL("%s is made otherwise", r.name);
        qn_scope_end(qn, s);
    }
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
}

/* 1, by hand: d = 1 / 127 as f16 is 0x2008, and 127 of it. */
static void one_block_by_hand(void) {
    qn_ctx *qn = qn_open(NULL);
    float x[32] = {1, -0.5f}, back[32];
    uint8_t y[34];
    qn_tensor *blocks = qn_quantize(qn_from(qn, QN_F32, 1, (int64_t[]){32}, x), QN_Q8_0);
    CHECK_INT(qn_read(blocks, y, sizeof y), 0);
    CHECK(y[0] == 0x08 && y[1] == 0x20 && y[2] == 127 && y[3] == (uint8_t)-64 && y[4] == 0);
    CHECK_INT(qn_read(qn_dequantize(blocks, QN_Q8_0), back, sizeof back), 0);
    CHECK(back[0] == 127 * 0x1.02p-7f && back[1] == -64 * 0x1.02p-7f && back[2] == 0);
    qn_close(qn);
}

enum { K = 256, N = 48, ROWS = 9 };

static void check_product(qn_quant type, int rows) {
    qn_ctx *qn = qn_open(NULL);
    static uint8_t bytes[N * K * 2];
    static float x[ROWS * K], y[ROWS * N], plain[N * K];
    row r;
    qn_stats after;
    uint64_t seed = 5;
    find(type, &r);
    for (size_t k = 0; k < sizeof bytes; k++) bytes[k] = test_rand(&seed) & 0x3f;
    for (int k = 0; k < rows * K; k++) x[k] = (float)test_uniform(&seed);
    int64_t size = (int64_t)K / r.elements * r.bytes;
    qn_tensor *w = qn_from(qn, QN_U8, 2, (int64_t[]){N, size}, bytes);
    qn_tensor *v = qn_from(qn, QN_F32, 2, (int64_t[]){rows, K}, x);
    qn_tensor *values = qn_dequantize(w, type);
    qn_tensor *product = qn_matmul(v, qn_transpose(values, 0, 1));
    CHECK_INT(qn_read(product, y, sizeof(float) * (size_t)(rows * N)), 0);
    qn_get_stats(qn, &after, sizeof after);
    if (after.planned_peak_bytes > sizeof(float) * N * K / 3)
        FAIL("%s, %d rows: %d bytes of temporaries", r.name, rows, (int)after.planned_peak_bytes);
    CHECK_INT(qn_read(values, plain, sizeof plain), 0);
    for (int i = 0; i < rows * N; i++) {
        long double sum = 0;
        for (int k = 0; k < K; k++)
            sum += (long double)plain[i % N * K + k] * (long double)x[i / N * K + k];
        CHECK_NEAR((double)y[i], (double)sum, 1e-4, 1e-4);
    }
    qn_close(qn);
}

/* The product of few rows reads the blocks, once for all of them: scales may be stored, but no
 * kernel writes the weights. */
static void a_product_reads_blocks_by_itself(void) {
    static const qn_quant types[] = {QN_Q8_0, QN_Q4_0, QN_Q4_K, QN_Q6_K, QN_MXFP4, QN_IQ4_XS};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (int rows = 1; rows <= ROWS; rows += 4) check_product(types[i], rows);
}

/* What the planner leaves in the product is shared among the rows: lanes go along the sum. */
static int lanes_along, stored;
static void look_at_schedules(void *user, const char *line) {
    (void)user;
    lanes_along += strstr(line, "rfactor t0") != NULL;
    stored += strstr(line, "arg a0 f32[12288] write") != NULL;
}

static void blocks_are_made_once_for_all_rows(void) {
    static uint8_t bytes[N * K * 2];
    static float x[ROWS * K];
    for (int i = 0; i < KNOWN; i++) {
        row r;
        find(known[i].type, &r);
        for (int rows = 2; rows <= ROWS; rows += 5) {
            qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "null", .log = look_at_schedules));
            int64_t size = (int64_t)K / r.elements * r.bytes;
            qn_tensor *w = qn_from(qn, QN_U8, 2, (int64_t[]){N, size}, bytes);
            qn_tensor *v = qn_from(qn, QN_F32, 2, (int64_t[]){rows, K}, x);
            qn_tensor *y = qn_matmul(v, qn_transpose(qn_dequantize(w, known[i].type), 0, 1));
            lanes_along = stored = 0;
            qn_set(qn, "debug", "k");
            CHECK_INT(qn_realize(1, &y), 0);
            if (!stored && !lanes_along) FAIL("%s, %d rows", r.name, rows);
            qn_close(qn);
        }
    }
}

static void rows_may_vary(void) {
    qn_ctx *qn = qn_open(NULL);
    int64_t t = qn_var(qn, "t", 1, 8);
    uint8_t bytes[3 * 36];
    float y[3 * 64], fixed[3 * 64];
    uint64_t seed = 1;
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = test_rand(&seed) & 0x3f;
    CHECK_INT(qn_bind(qn, t, 2), 0);
    qn_tensor *x = qn_from(qn, QN_U8, 2, (int64_t[]){t, 36}, bytes);
    qn_tensor *out = qn_dequantize(x, QN_Q4_0);
    qn_plan *plan = qn_plan_new(qn, 1, &x, 1, &out);
    qn_tensor *given = qn_from(qn, QN_U8, 2, (int64_t[]){3, 36}, bytes), *got;
    CHECK_INT(qn_plan_run(plan, &given, &got), 0);
    CHECK_INT(qn_read(got, y, sizeof y), 0);
    CHECK_INT(qn_read(qn_dequantize(given, QN_Q4_0), fixed, sizeof fixed), 0);
    CHECK(memcmp(y, fixed, sizeof y) == 0);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
}

static void check_refused(qn_ctx *qn, const qn_tensor *t, qn_code code, const char *text) {
    CHECK(t == NULL);
    CHECK_INT(qn_error_code(qn), code);
    if (!strstr(qn_error(qn), text)) FAIL("%s lacks \"%s\"", qn_error(qn), text);
    qn_clear_error(qn);
}

static void what_is_no_row_of_blocks_is_refused(void) {
    qn_ctx *qn = qn_open(NULL);
    uint8_t bytes[64] = {0};
    qn_tensor *odd = qn_from(qn, QN_U8, 1, (int64_t[]){35}, bytes);
    qn_tensor *one = qn_from(qn, QN_U8, 0, NULL, bytes);
    qn_tensor *words = qn_from(qn, QN_U16, 1, (int64_t[]){18}, bytes);
    qn_tensor *floats = qn_zeros(qn, QN_F32, 1, (int64_t[]){33});
    check_refused(qn, qn_dequantize(odd, QN_Q4_0), QN_ESHAPE, "35");
    check_refused(qn, qn_dequantize(one, QN_Q4_0), QN_ESHAPE, "no row of 18");
    check_refused(qn, qn_dequantize(words, QN_Q4_0), QN_EDTYPE, "u16");
    check_refused(qn, qn_dequantize(odd, (qn_quant)4), QN_EARG, "4");
    check_refused(qn, qn_dequantize(odd, QN_QUANT_NONE), QN_EARG, "0");
    check_refused(qn, qn_quantize(floats, QN_Q4_0), QN_ESHAPE, "33");
    check_refused(qn, qn_quantize(floats, QN_Q4_K), QN_EARG, "q4_k is only read");
    check_refused(qn, qn_quantize(words, QN_Q4_0), QN_EDTYPE, "u16");
    CHECK(qn_dequantize(NULL, QN_Q4_0) == NULL);
    CHECK(qn_quant_name(QN_Q4_K) && !strcmp(qn_quant_name(QN_Q4_K), "q4_k"));
    CHECK(qn_quant_name((qn_quant)9) == NULL && qn_quant_at(-1, NULL, NULL, NULL, NULL) == 0);
    qn_close(qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(blocks_are_read_as_the_reference_reads_them);
    RUN(and_so_by_plain_loops);
    RUN(scales_may_lie_beside_the_blocks);
    RUN(floats_become_the_blocks_of_the_reference);
    RUN(one_block_by_hand);
    RUN(a_product_reads_blocks_by_itself);
    RUN(blocks_are_made_once_for_all_rows);
    RUN(rows_may_vary);
    RUN(what_is_no_row_of_blocks_is_refused);
    return test_end();
}
