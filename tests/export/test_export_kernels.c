/* test_export_kernels.c - single kernels as functions of the exported file: shapes of trees that
 * the schedules of today do not give, but may. Each is compiled in both kinds of C, called with
 * memory of the very size that it asks for, under the sanitizers of addresses and undefined
 * behaviour, and says itself whether what it computed is right. */
#include "export/export.h"
#include "export_run.h"

/* Tiles of an unrolled loop: each copy has its own. */
static const char tiles[] = "kernel \"tiles\" {\n"
                            "  arg a0 f32[64] read\n"
                            "  arg a1 f32[64] write\n"
                            "  local t0 f32[16]\n"
                            "  unroll i < 4 {\n"
                            "    def t0 = f32(0)\n"
                            "    vec v < 16 {\n"
                            "      t0[v] += a0[16*i + v]\n"
                            "    }\n"
                            "    vec w < 16 {\n"
                            "      a1[16*i + w] = mul(t0[w], f32(2))\n"
                            "    }\n"
                            "  }\n"
                            "}\n";
static const char tiles_main[] =
    "    float *a = make(64 * 4), *b = make(64 * 4);\n    void *scratch = make(SCRATCH);\n"
    "    for (int i = 0; i < 64; i++) a[i] = (float)i;\n"
    "    kernel_0(a, b, scratch);\n"
    "    for (int i = 0; i < 64; i++) if (b[i] != 2 * a[i]) return 9;\n";

/* A guard that lies in memory, which is not there where valid is false. */
static const char guarded_store[] =
    "kernel \"guarded\" {\n"
    "  arg a0 i32[3] read\n"
    "  arg a1 f32[96] read\n"
    "  arg a2 f32[96] read write\n"
    "  for i < 6 {\n"
    "    vec v < 16 {\n"
    "      a2[16*i + v; valid=(2 >= i); guard=lt(a0[i], i32(5))] = a1[16*i + v]\n"
    "    }\n"
    "  }\n"
    "}\n";
static const char guarded_main[] =
    "    int32_t *a = make(3 * 4);\n    float *b = make(96 * 4), *c = make(96 * 4);\n"
    "    for (int i = 0; i < 96; i++) b[i] = (float)i, c[i] = -1;\n"
    "    a[0] = 4, a[1] = 5, a[2] = 0;\n"
    "    kernel_0(a, b, c);\n"
    "    for (int i = 0; i < 96; i++)\n"
    "        if (c[i] != (i / 16 == 0 || i / 16 == 2 ? b[i] : -1)) return 9;\n";

/* The same where lanes are off one by one: in the last two trips all of them are. */
static const char masked_store[] =
    "kernel \"masked\" {\n"
    "  arg a0 i32[3] read\n"
    "  arg a1 f32[40] read\n"
    "  arg a2 f32[40] read write\n"
    "  for i < 5 {\n"
    "    vec v < 16 {\n"
    "      a2[16*i + v; valid=(39 >= 16*i + v); guard=lt(a0[i], i32(5))] = a1[16*i + v]\n"
    "    }\n"
    "  }\n"
    "}\n";
static const char masked_main[] =
    "    int32_t *a = make(3 * 4);\n    float *b = make(40 * 4), *c = make(40 * 4);\n"
    "    for (int i = 0; i < 40; i++) b[i] = (float)i, c[i] = -1;\n"
    "    a[0] = 4, a[1] = 5, a[2] = 0;\n"
    "    kernel_0(a, b, c);\n"
    "    for (int i = 0; i < 40; i++) if (c[i] != (i / 16 == 1 ? -1 : b[i])) return 9;\n";

/* A number that all lanes share, where all of them are off. */
static const char shared_load[] =
    "kernel \"shared\" {\n"
    "  arg a0 f32[3] read\n"
    "  arg a1 f32[40] read\n"
    "  arg a2 f32[40] write\n"
    "  for i < 5 {\n"
    "    vec v < 16 {\n"
    "      a2[16*i + v; valid=(39 >= 16*i + v)] = mul(a0[i], a1[16*i + v])\n"
    "    }\n"
    "  }\n"
    "}\n";
static const char shared_main[] =
    "    float *a = make(3 * 4), *b = make(40 * 4), *c = make(40 * 4);\n"
    "    for (int i = 0; i < 40; i++) b[i] = (float)i;\n"
    "    a[0] = 4, a[1] = 5, a[2] = 0;\n"
    "    kernel_0(a, b, c);\n"
    "    for (int i = 0; i < 40; i++) if (c[i] != a[i / 16] * b[i]) return 9;\n";

/* Where the first and the last lane are off and others are not. */
static const char inner_load[] =
    "kernel \"inner\" {\n"
    "  arg a0 f32[3] read\n"
    "  arg a1 f32[40] read\n"
    "  arg a2 f32[48] read write\n"
    "  for i < 5 {\n"
    "    vec v < 16 {\n"
    "      a2[16*i + v; valid=(39 >= 16*i + v and v >= 5)] = mul(a0[i], a1[16*i + v])\n"
    "    }\n"
    "  }\n"
    "}\n";
static const char inner_main[] =
    "    float *a = make(3 * 4), *b = make(40 * 4), *c = make(48 * 4);\n"
    "    for (int i = 0; i < 48; i++) c[i] = -1;\n"
    "    for (int i = 0; i < 40; i++) b[i] = (float)i;\n"
    "    a[0] = 4, a[1] = 5, a[2] = 0;\n"
    "    kernel_0(a, b, c);\n"
    "    for (int i = 0; i < 48; i++)\n"
    "        if (c[i] != (i < 40 && i % 16 >= 5 ? a[i / 16] * b[i] : -1)) return 9;\n";

/* Loads under masks that differ from lane to lane, in loops that compilers unroll. */
static const char masked_load[] =
    "kernel \"masked\" {\n"
    "  arg a0 i64[32] read\n"
    "  arg a1 f64[32] read\n"
    "  arg a2 f64[32] write\n"
    "  for i < 2 {\n"
    "    unroll u < 2 {\n"
    "      vec v < 8 {\n"
    "        a2[16*i + 8*u + v] = a1[16*i + 8*u + v; guard=eq(a0[16*i + 8*u + v], i64(0))]\n"
    "      }\n"
    "    }\n"
    "  }\n"
    "}\n";
static const char masked_load_main[] =
    "    int64_t *a = make(32 * 8);\n    double *b = make(32 * 8), *c = make(32 * 8);\n"
    "    for (int n = 0; n < 50; n++) {\n"
    "        for (int i = 0; i < 32; i++) b[i] = i + 1, a[i] = (i * 7 + n * 13 + i * i * n) % 3;\n"
    "        kernel_0(a, b, c);\n"
    "        for (int i = 0; i < 32; i++) if (c[i] != (a[i] ? 0 : b[i])) return 9;\n"
    "    }\n";

/* Sums of narrow integers, a chain a lane, in loops that compilers unroll. */
static const char narrow_sum[] = "kernel \"narrow\" {\n"
                                 "  arg a0 i8[512] read\n"
                                 "  arg a1 i64[8] write\n"
                                 "  reg t0 i64[1]\n"
                                 "  reg t1 i64[16]\n"
                                 "  for r < 8 {\n"
                                 "    def t0 = i64(0)\n"
                                 "    def t1 = i64(0)\n"
                                 "    for o < 4 {\n"
                                 "      for u < 1 {\n"
                                 "        vec v < 16 {\n"
                                 "          t1[v] += cast:i64(a0[64*r + 16*o + v])\n"
                                 "        }\n"
                                 "      }\n"
                                 "    }\n"
                                 "    vec w < 16 {\n"
                                 "      t0[0] += t1[w]\n"
                                 "    }\n"
                                 "    a1[r] = t0[0]\n"
                                 "  }\n"
                                 "}\n";
static const char narrow_sum_main[] = "    int8_t *a = make(512);\n    int64_t *b = make(8 * 8);\n"
                                      "    for (int i = 0; i < 512; i++) a[i] = i % 4 != 0;\n"
                                      "    kernel_0(a, b);\n"
                                      "    for (int i = 0; i < 8; i++) if (b[i] != 48) return 9;\n";

typedef struct one {
    export e;
    qn_ctx *qn;
    const char *text;
    str out;
} one;

static void write_one(void *arg) {
    one *o = arg;
    export *e = &o->e;
    kernel *k = ir_parse(o->qn, o->text);
    if (!k) heap_unwind(&o->qn->heap);
    e->qn = o->qn;
    e->program = arena_zeroed(&e->arena, sizeof *e->program);
    e->program[e->programs++].k = k;
    export_prepare(e, &e->program[0]);
    e->function = arena_zeroed(&e->arena, sizeof *e->function);
    e->function[0].over = arena_zeroed(&e->arena, ((size_t)k->args + 1) * sizeof(int));
    e->functions = 1;
    export_functions(e, &o->out);
}

static void play_one(const char *text, const char *body) {
    one o = {.qn = qn_open(&QN_OPTIONS(.device = "cpu", .threads = 1)), .text = text};
    if (!o.qn) exit(1);
    arena_open(&o.e.arena, &o.qn->heap);
    str_open(&o.out, &o.qn->heap);
    if (guarded(o.qn, write_one, &o)) FAIL("%s", qn_error(o.qn));
    FILE *f = fopen(export_file("one.c"), "w");
    fprintf(f,
            "#include <math.h>\n#include <stdint.h>\n#include <stdlib.h>\n#include <string.h>\n%s\n"
            "#define SCRATCH %zu\nstatic void *make(size_t n) {\n    void *p = NULL;\n"
            "    return posix_memalign(&p, 64, n) ? NULL : p;\n}\n"
            "int main(void) {\n%s    return 0;\n}\n",
            o.out.s ? o.out.s : "", o.e.programs ? o.e.program[0].scratch : 0, body);
    fclose(f);
    for (int i = 0; i < 8; i++) {
        char command[1000];
        size_t size;
        if (!export_has(i % 2 ? "clang" : "gcc")) continue;
        snprintf(command, sizeof command,
                 "cd %s && %s -D_GNU_SOURCE " EXPORT_STRICT " %s %s one.c -o one -lm"
                 " >log 2>&1 && ASAN_OPTIONS=detect_leaks=0 ./one >>log 2>&1",
                 export_folder, i % 2 ? "clang" : "gcc", i % 4 < 2 ? "" : "-DQN_EXPORT_PLAIN",
                 i < 4 ? "-O1 -fsanitize=address,undefined -fno-sanitize-recover=all"
                       : "-O3 -march=native -mprefer-vector-width=512 -ffp-contract=off");
        int status = system(command);
        if (!status) continue;
        char *log = export_read("log", &size);
        FAIL("%s: status %d\n%.2000s", command, status, log ? log : "");
        free(log);
    }
    if (o.e.programs) ir_close(o.e.program[0].vectors), ir_close(o.e.program[0].k);
    str_free(&o.out);
    arena_free(&o.e.arena);
    qn_close(o.qn);
}

static void tiles_of_copies_have_room(void) {
    play_one(tiles, tiles_main);
}

static void guards_are_read_where_valid(void) {
    play_one(guarded_store, guarded_main);
    play_one(masked_store, masked_main);
}

static void loads_keep_their_masks(void) {
    play_one(masked_load, masked_load_main);
}

static void sums_of_narrow_integers_are_whole(void) {
    play_one(narrow_sum, narrow_sum_main);
}

static void shared_numbers_are_read_where_a_lane_is_on(void) {
    play_one(shared_load, shared_main);
    play_one(inner_load, inner_main);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    export_begin();
    RUN(tiles_of_copies_have_room);
    RUN(guards_are_read_where_valid);
    RUN(loads_keep_their_masks);
    RUN(sums_of_narrow_integers_are_whole);
    RUN(shared_numbers_are_read_where_a_lane_is_on);
    export_end();
    return test_end();
}
