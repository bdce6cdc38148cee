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

/* Of a tile of five registers copies of eight trips store; three of them never do. */
static const char never[] =
    "kernel \"never\" {\n"
    "  arg a0 f32[80] read\n"
    "  arg a1 f32[80] write\n"
    "  reg t0 f32[80]\n"
    "  def t0 = f32(0)\n"
    "  unroll i < 8 {\n"
    "    vec v < 16 {\n"
    "      t0[16*i + v; valid=(4 >= i)] = mul(a0[16*i + v; valid=(4 >= i)], f32(2))\n"
    "    }\n"
    "  }\n"
    "  unroll j < 5 {\n"
    "    vec w < 16 {\n"
    "      a1[16*j + w] = t0[16*j + w]\n"
    "    }\n"
    "  }\n"
    "}\n";
static const char never_main[] =
    "    float *a = make(80 * 4), *b = make(80 * 4);\n"
    "    for (int i = 0; i < 80; i++) a[i] = (float)i;\n"
    "    kernel_0(a, b);\n"
    "    for (int i = 0; i < 80; i++) if (b[i] != 2 * a[i]) return 9;\n";

/* The same where only a run shows that they do not: 8 and 0 or 1 are no 10. */
static const char unclear[] = "kernel \"unclear\" {\n"
                              "  arg a0 f32[96] read\n"
                              "  arg a1 f32[80] write\n"
                              "  reg t0 f32[80]\n"
                              "  for j < 2 {\n"
                              "    for k < 2 {\n"
                              "      def t0 = f32(0)\n"
                              "      unroll i < 6 {\n"
                              "        vec v < 16 {\n"
                              "          t0[16*i + v; valid=(8 + j + k - 2*j*k >= 2*i)] = "
                              "mul(a0[16*i + v], f32(2))\n"
                              "        }\n"
                              "      }\n"
                              "      unroll u < 5 {\n"
                              "        vec w < 16 {\n"
                              "          a1[16*u + w] = t0[16*u + w]\n"
                              "        }\n"
                              "      }\n"
                              "    }\n"
                              "  }\n"
                              "}\n";

/* Elements two to four apart, to the memory's last one, and backward. */
static const char apart[] = "kernel \"apart\" {\n"
                            "  arg a0 f32[32] read\n"
                            "  arg a1 i32[46] read\n"
                            "  arg a2 f64[32] read\n"
                            "  arg a3 f32[16] read\n"
                            "  arg a4 i16[31] read\n"
                            "  arg a5 f32[16] write\n"
                            "  arg a6 i32[16] write\n"
                            "  arg a7 f64[8] write\n"
                            "  arg a8 f32[16] write\n"
                            "  arg a9 i16[16] write\n"
                            "  vec u < 16 { a5[u] = a0[1 + 2*u] }\n"
                            "  vec v < 16 { a6[v] = a1[3*v] }\n"
                            "  vec w < 8 { a7[w] = a2[2 + 4*w; valid=(6 >= w)] }\n"
                            "  vec x < 16 { a8[x] = a3[15 - x] }\n"
                            "  vec y < 16 { a9[y] = a4[2*y] }\n"
                            "}\n";
static const char apart_main[] =
    "    float *a = make(32 * 4), *d = make(16 * 4), *f = make(16 * 4), *i = make(16 * 4);\n"
    "    int32_t *b = make(46 * 4), *g = make(16 * 4);\n"
    "    double *c = make(32 * 8), *h = make(8 * 8);\n"
    "    int16_t *e = make(31 * 2), *j = make(16 * 2);\n"
    "    for (int n = 0; n < 32; n++) a[n] = (float)n, c[n] = n;\n"
    "    for (int n = 0; n < 46; n++) b[n] = n;\n"
    "    for (int n = 0; n < 16; n++) d[n] = (float)n;\n"
    "    for (int n = 0; n < 31; n++) e[n] = (int16_t)n;\n"
    "    kernel_0(a, b, c, d, e, f, g, h, i, j);\n"
    "    for (int n = 0; n < 16; n++)\n"
    "        if (f[n] != 1 + 2 * (float)n || g[n] != 3 * n || i[n] != 15 - (float)n || j[n] != 2 * "
    "n) return 9;\n"
    "    for (int n = 0; n < 8; n++) if (h[n] != (n < 7 ? 2 + 4 * n : 0)) return 10;\n";

/* The same under masks, where what is off, and behind it, is not there. */
static const char apart_masked[] = "kernel \"apart\" {\n"
                                   "  arg a0 f32[100] read\n"
                                   "  arg a1 f32[30] read\n"
                                   "  arg a2 f32[96] write\n"
                                   "  arg a3 f32[48] write\n"
                                   "  for i < 6 {\n"
                                   "    vec v < 16 { a2[16*i + v] = a0[32*i + 2*v - 3; valid=(16*i "
                                   "+ v >= 2 and 51 >= 16*i + v)] }\n"
                                   "  }\n"
                                   "  for j < 3 {\n"
                                   "    vec w < 16 { a3[16*j + w] = a1[32 - 16*j - w; valid=(16*j "
                                   "+ w >= 3 and 32 >= 16*j + w)] }\n"
                                   "  }\n"
                                   "}\n";
static const char apart_masked_main[] =
    "    float *a = make(100 * 4), *b = make(30 * 4), *c = make(96 * 4), *d = make(48 * 4);\n"
    "    for (int i = 0; i < 100; i++) a[i] = (float)i;\n"
    "    for (int i = 0; i < 30; i++) b[i] = (float)i;\n"
    "    kernel_0(a, b, c, d);\n"
    "    for (int i = 0; i < 96; i++) if (c[i] != (i >= 2 && i < 52 ? a[2 * i - 3] : 0)) return "
    "9;\n"
    "    for (int i = 0; i < 48; i++) if (d[i] != (i >= 3 && i <= 32 ? b[32 - i] : 0)) return "
    "10;\n";

/* Lanes that are no power of two: of three rows of eleven, the last one's end is the memory's. */
static const char eleven[] =
    "kernel \"eleven\" {\n"
    "  arg a0 f32[33] read\n"
    "  arg a1 f32[3] read\n"
    "  arg a2 f32[33] read write\n"
    "  reg t0 f32[11]\n"
    "  for i < 3 {\n"
    "    def t0 = f32(1)\n"
    "    vec v < 11 { t0[v] += mul(a0[11*i + v; valid=(v >= 2)], a1[i]) }\n"
    "    vec w < 11 { a2[11*i + w; valid=(9 >= w)] = t0[w] }\n"
    "  }\n"
    "}\n";
static const char eleven_main[] =
    "    float *a = make(33 * 4), *b = make(3 * 4), *c = make(33 * 4);\n"
    "    for (int i = 0; i < 33; i++) a[i] = (float)i, c[i] = -1;\n"
    "    for (int i = 0; i < 3; i++) b[i] = (float)i + 2;\n"
    "    kernel_0(a, b, c);\n"
    "    for (int i = 0; i < 33; i++)\n"
    "        if (c[i] != (i % 11 == 10 ? -1 : i % 11 < 2 ? 1 : 1 + a[i] * b[i / 11])) return 9;\n";

/* Tables of sixteen, by indices whose other bits say nothing. */
static const char tables[] =
    "kernel \"tables\" {\n"
    "  arg a0 i32[48] read\n"
    "  arg a1 f32[16] write\n"
    "  arg a2 f32[8] write\n"
    "  arg a3 i32[16] write\n"
    "  arg a4 f32[4] write\n"
    "  table c0 f32 {0.5, 7.5, 14.5, 5.5, 12.5, 3.5, 10.5, 1.5, 8.5, 15.5, 6.5, 13.5, 4.5, 11.5, "
    "2.5, 9.5}\n"
    "  table c1 i32 {-8, -3, 2, 7, -4, 1, 6, -5, 0, 5, -6, -1, 4, -7, -2, 3}\n"
    "  vec u < 16 { a1[u] = lookup(c0, a0[u]) }\n"
    "  vec v < 8 { a2[v] = lookup(c0, a0[16 + v]) }\n"
    "  vec w < 16 { a3[w] = lookup(c1, a0[32 + w]) }\n"
    "  vec x < 4 { a4[x] = lookup(c0, a0[x]) }\n"
    "}\n";
static const char tables_main[] =
    "    int32_t *a = make(48 * 4), *d = make(16 * 4);\n"
    "    float *b = make(16 * 4), *c = make(8 * 4), *e = make(4 * 4);\n"
    "    for (int i = 0; i < 48; i++) a[i] = i * 1000003 - 20000000;\n"
    "    kernel_0(a, b, c, d, e);\n"
    "    for (int i = 0; i < 16; i++)\n"
    "        if (b[i] != (float)((a[i] & 15) * 7 % 16) + 0.5f || d[i] != (a[32 + i] & 15) * 5 % 16 "
    "- 8) return 9;\n"
    "    for (int i = 0; i < 8; i++) if (c[i] != (float)((a[16 + i] & 15) * 7 % 16) + 0.5f) return "
    "10;\n"
    "    for (int i = 0; i < 4; i++) if (e[i] != (float)((a[i] & 15) * 7 % 16) + 0.5f) return "
    "11;\n";

/* Of doubles sixteen lanes are wider than any register. */
static const char wide[] = "kernel \"wide\" {\n"
                           "  arg a0 f64[16] read\n"
                           "  arg a1 f64[16] read\n"
                           "  arg a2 f64[64] write\n"
                           "  arg a3 i32[16] write\n"
                           "  vec u < 16 { a2[u] = fma(a0[u], a1[u], f64(0.5)) }\n"
                           "  vec v < 16 { a2[16 + v] = maximum(a0[v], a1[v]) }\n"
                           "  vec w < 16 { a2[32 + w] = where(le(a0[w], a1[w]), f64(3), a1[w]) }\n"
                           "  vec x < 16 { a2[48 + x] = add(abs(a0[x]), sqrt(a1[x])) }\n"
                           "  vec y < 16 { a3[y] = where(lt(a1[y], a0[y]), i32(7), i32(-7)) }\n"
                           "}\n";
static const char wide_main[] =
    "    double *a = make(16 * 8), *b = make(16 * 8), *c = make(64 * 8);\n"
    "    int32_t *d = make(16 * 4);\n"
    "    for (int i = 0; i < 16; i++) a[i] = 1.1 * i - 5.3, b[i] = 0.9 * (i * 7 % 16);\n"
    "    b[3] = a[3] = NAN, a[5] = NAN, a[7] = b[7], a[9] = -0.0;\n"
    "    kernel_0(a, b, c, d);\n"
    "    for (int i = 0; i < 16; i++) {\n"
    "        double most = a[i] != a[i] || a[i] > b[i] ? a[i] : b[i], root = fabs(a[i]) + "
    "sqrt(b[i]);\n"
    "        double one = fma(a[i], b[i], 0.5), chosen = a[i] <= b[i] ? 3 : b[i];\n"
    "        if (one == one ? c[i] != one : c[i] == c[i]) return 9;\n"
    "        if (most == most ? c[16 + i] != most : c[16 + i] == c[16 + i]) return 10;\n"
    "        if (chosen == chosen ? c[32 + i] != chosen : c[32 + i] == c[32 + i]) return 11;\n"
    "        if (root == root ? c[48 + i] != root : c[48 + i] == c[48 + i]) return 12;\n"
    "        if (d[i] != (b[i] < a[i] ? 7 : -7)) return 13;\n"
    "    }\n";

/* Lines ahead are asked for once for what two vectors load, and behind the memory's end, too. */
static const char ahead[] = "kernel \"ahead\" {\n"
                            "  arg a0 f32[64] read prefetch_distance 4096\n"
                            "  arg a1 f32[64] write\n"
                            "  arg a2 f32[64] write\n"
                            "  for i < 4 {\n"
                            "    vec v < 16 { a1[16*i + v] = a0[16*i + v] }\n"
                            "    vec w < 16 { a2[16*i + w] = mul(a0[16*i + w], f32(2)) }\n"
                            "  }\n"
                            "}\n";
static const char ahead_main[] =
    "    float *a = make(64 * 4), *b = make(64 * 4), *c = make(64 * 4);\n"
    "    for (int i = 0; i < 64; i++) a[i] = (float)i;\n"
    "    kernel_0(a, b, c);\n"
    "    for (int i = 0; i < 64; i++) if (b[i] != a[i] || c[i] != 2 * a[i]) return 9;\n";

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

/* How often does the kernel's code say this? */
static int count_of(const one *o, const char *what) {
    int n = 0;
    for (const char *at = o->out.s; at && (at = strstr(at, what)) != NULL; at++) n++;
    return n;
}

static void play_one(const char *text, const char *body, const char *said, int times) {
    one o = {.qn = qn_open(&QN_OPTIONS(.device = "cpu", .threads = 1)), .text = text};
    if (!o.qn) exit(1);
    arena_open(&o.e.arena, &o.qn->heap);
    str_open(&o.out, &o.qn->heap);
    if (guarded(o.qn, write_one, &o)) FAIL("%s", qn_error(o.qn));
    if (said && count_of(&o, said) != times)
        FAIL("\"%s\" is there %d times, not %d", said, count_of(&o, said), times);
    FILE *f = fopen(export_file("one.c"), "w");
    fprintf(f,
            "#include <math.h>\n#include <stdint.h>\n#include <stdlib.h>\n#include <string.h>\n%s\n"
            "#define SCRATCH %zu\nstatic void *make(size_t n) {\n    void *p = NULL;\n"
            "    return posix_memalign(&p, 64, n) ? NULL : p;\n}\n"
            "int main(void) {\n%s    return 0;\n}\n",
            o.out.s ? o.out.s : "", o.e.programs ? o.e.program[0].scratch : 0, body);
    fclose(f);
    for (int i = 0; i < 10; i++) {
        char command[1000];
        size_t size;
        if (!export_has(i % 2 ? "clang" : "gcc")) continue;
        if (i >= 8 && !__builtin_cpu_supports("avx2")) continue;
        snprintf(command, sizeof command,
                 "cd %s && %s -D_GNU_SOURCE " EXPORT_STRICT " %s %s one.c -o one -lm"
                 " >log 2>&1 && ASAN_OPTIONS=detect_leaks=0 ./one >>log 2>&1",
                 export_folder, i % 2 ? "clang" : "gcc", i % 4 < 2 ? "" : "-DQN_EXPORT_PLAIN",
                 i < 4   ? "-O1 -fsanitize=address,undefined -fno-sanitize-recover=all"
                 : i < 8 ? "-O3 -march=native -mprefer-vector-width=512 -ffp-contract=off"
                         : "-O2 -mavx2 -mfma -ffp-contract=off");
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
    play_one(tiles, tiles_main, "no-predictive-commoning", 1);
}

static void guards_are_read_where_valid(void) {
    play_one(guarded_store, guarded_main, NULL, 0);
    play_one(masked_store, masked_main, NULL, 0);
}

static void loads_keep_their_masks(void) {
    play_one(masked_load, masked_load_main, NULL, 0);
}

static void sums_of_narrow_integers_are_whole(void) {
    play_one(narrow_sum, narrow_sum_main, NULL, 0);
}

static void shared_numbers_are_read_where_a_lane_is_on(void) {
    play_one(shared_load, shared_main, NULL, 0);
    play_one(inner_load, inner_main, NULL, 0);
}

static void copies_behind_a_tile_are_dropped(void) {
    play_one(never, never_main, "t0_4 = ", 3); /* its type, the zeros, what is stored */
    play_one(unclear, never_main, NULL, 0);
}

static void lanes_apart_are_whole_vectors(void) {
    play_one(apart, apart_main, " = SHUFFLE_", 8);
    play_one(apart_masked, apart_masked_main, " = SHUFFLE_", 2);
}

static void lanes_become_a_power_of_two(void) {
    play_one(eleven, eleven_main, "STORE_f32x16(a2", 1);
}

static void tables_are_looked_up_in_registers(void) {
    play_one(tables, tables_main, "LOOKUP_f32x16(x", 1);
}

static void what_is_wider_than_registers_is_halves(void) {
    play_one(wide, wide_main, "SQRT_f64x16(x", 1);
}

static void lines_ahead_are_asked_for_once(void) {
    play_one(ahead, ahead_main, "__builtin_prefetch(", 1);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    export_begin();
    RUN(tiles_of_copies_have_room);
    RUN(guards_are_read_where_valid);
    RUN(loads_keep_their_masks);
    RUN(sums_of_narrow_integers_are_whole);
    RUN(shared_numbers_are_read_where_a_lane_is_on);
    RUN(copies_behind_a_tile_are_dropped);
    RUN(lanes_apart_are_whole_vectors);
    RUN(lanes_become_a_power_of_two);
    RUN(tables_are_looked_up_in_registers);
    RUN(what_is_wider_than_registers_is_halves);
    RUN(lines_ahead_are_asked_for_once);
    export_end();
    return test_end();
}
