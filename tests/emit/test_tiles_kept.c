/* test_tiles_kept.c - vectors of a tile that are taken from the registers they were stored from
 * (emit/llvm/kept.c): kernels by chance, whose tiles of any dtype are written by vectors, parts of
 * vectors, single elements, loops of no, one or more trips and stores with a condition, and read in
 * between by runs of lanes, in the same loops and inside of others, against the interpreter. And
 * tables of bytes that are looked up (lookup.c), of all lengths around a register. */
#include "emit_harness.h"

enum { STATEMENTS = 7, READS = 24, TILES = 2 };

static harness h;

/* What is made of a number of the tile's dtype: types without operations are only moved. */
static const struct {
    const char *name, *made;
} dtypes[] = {
    {"f32", "add(%s, f32(1))"},
    {"f64", "neg(%s)"},
    {"f16", "cast:f16(add(cast:f32(%s), f32(1)))"},
    {"bf16", "cast:bf16(add(cast:f32(%s), f32(1)))"},
    {"f8_e4m3", "%s"},
    {"f8_e5m2", "%s"},
    {"bool", "not(%s)"},
    {"i8", "add(%s, i8(1))"},
    {"u8", "add(%s, u8(1))"},
    {"u16", "xor(%s, u16(9))"},
    {"i32", "add(%s, i32(1))"},
    {"i64", "sub(i64(3), %s)"},
};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

typedef struct writer {
    str text;
    uint64_t seed;
    const char *dtype, *made;
    int64_t lanes, size; /* of a vector, of a tile */
    int next;            /* names of variables */
    int reads;
} writer;

static int64_t below(writer *w, int64_t n) {
    return (int64_t)test_below(&w->seed, n);
}

/* Of the other tile or of the argument, to be stored to tile t: lanes never meet. */
static void value_for(writer *w, int t, const char *index) {
    char read[80];
    if (below(w, 4) == 0)
        snprintf(read, sizeof read, "t%d[%s]", !t, index);
    else
        snprintf(read, sizeof read, "a1[%d + i + %s]", (int)below(w, 60), index);
    str_addf(&w->text, w->made, read);
}

static void write_vector(writer *w, int64_t lanes, const char *valid) {
    const int t = (int)below(w, TILES), v = w->next++;
    const int64_t first = lanes < w->size ? below(w, w->size - lanes + 1) : 0;
    char index[40];
    snprintf(index, sizeof index, "v%d", v);
    str_addf(&w->text, "vec v%d < %d {\n t%d[%d + v%d%s] = ", v, (int)lanes, t, (int)first, v,
             valid);
    value_for(w, t, index);
    str_add(&w->text, "\n }\n");
}

static void write_element(writer *w, const char *op) {
    const int t = (int)below(w, TILES);
    char index[16];
    snprintf(index, sizeof index, "%d", (int)below(w, w->size));
    str_addf(&w->text, "t%d[%s] %s ", t, index, op);
    value_for(w, t, index);
    str_add(&w->text, "\n");
}

/* Lanes in runs: each element several times, parts repeated, both, or backwards by runs. */
static void read_runs(writer *w) {
    static const char *const place[] = {"v%d/%d", "v%d - %d*(v%d/%d)", "2*(v%d/%d)",
                                        "2*(v%d/%d) + v%d - %d*(v%d/%d)"};
    const int t = (int)below(w, TILES), v = w->next++, how = (int)below(w, 4);
    const int64_t lanes = below(w, 3) ? 2 * w->lanes > 64 ? w->lanes : 2 * w->lanes : w->lanes;
    const int run = 2 << below(w, 3);
    int64_t most = how == 0   ? (lanes - 1) / run
                   : how == 1 ? run - 1
                   : how == 2 ? 2 * ((lanes - 1) / run)
                              : 2 * ((lanes - 1) / run) + run - 1;
    if (most >= w->size || w->reads == READS) return;
    char at[80];
    if (how == 0 || how == 2) snprintf(at, sizeof at, place[how], v, run);
    if (how == 1) snprintf(at, sizeof at, place[how], v, run, v, run);
    if (how == 3) snprintf(at, sizeof at, place[how], v, run, v, run, v, run);
    str_addf(&w->text, "vec v%d < %d {\n a0[%d*i + %d + v%d] = t%d[%d + %s]\n }\n", v, (int)lanes,
             64 * READS, 64 * w->reads++, v, t, (int)below(w, w->size - most), at);
}

static void statement(writer *w, int depth);

static void block(writer *w, int depth, const char *open, const char *extent) {
    str_addf(&w->text, "%s x%d < %s {\n", open, w->next++, extent);
    for (int64_t n = 1 + below(w, 3); n; n--) statement(w, depth + 1);
    str_add(&w->text, "}\n");
}

static void statement(writer *w, int depth) {
    static const char *const trips[] = {"n", "m", "1", "2", "3", "i"};
    switch (below(w, depth > 1 ? 9 : 12)) {
    case 0:
    case 1:
        write_vector(w, w->lanes, "");
        break;
    case 2:
        write_vector(w, w->lanes / 2 > 1 ? w->lanes / 2 : 2, "");
        break;
    case 3:
        write_vector(w, w->lanes, below(w, 2) ? "; valid=(n - 1 >= 0)" : "; valid=(i - 2 >= 0)");
        break;
    case 4:
        write_element(w, "=");
        break;
    case 5:
        write_vector(w, w->lanes - 1, "");
        break;
    case 9:
    case 10:
        block(w, depth, "for", trips[below(w, 6)]);
        break;
    case 11:
        block(w, depth, "unroll", "2");
        break;
    default:
        read_runs(w);
    }
    read_runs(w);
}

static void write_kernel(writer *w) {
    str_addf(&w->text,
             "kernel \"kept\" {\n dim n 0 2\n dim m 0 1\n arg a0 %s[%d] read write\n arg a1 "
             "%s[200] read\n",
             w->dtype, 4 * 64 * READS, w->dtype);
    for (int t = 0; t < TILES; t++)
        str_addf(&w->text, " local t%d %s[%d]\n", t, w->dtype, (int)w->size);
    str_add(&w->text, " for i < 4 {\n");
    for (int t = 0; t < TILES; t++) {
        str_addf(&w->text, "def t%d\n", t);
        if (w->size % w->lanes == 0)
            for (int64_t i = 0; i < w->size; i += w->lanes, w->next++)
                str_addf(&w->text, "vec v%d < %d {\n t%d[%d + v%d] = a1[i + %d + v%d]\n }\n",
                         w->next, (int)w->lanes, t, (int)i, w->next, (int)i, w->next);
        else
            str_addf(&w->text, "for y%d < %d {\n t%d[y%d] = a1[y%d]\n }\n", t, (int)w->size, t, t,
                     t);
    }
    for (int n = 0; n < STATEMENTS; n++) statement(w, 0);
    str_add(&w->text, " }\n}\n");
}

static void tiles_by_chance(int kernels) {
    for (int k = 0; k < kernels; k++) {
        static const int64_t lanes[] = {4, 8, 16, 8, 32};
        writer w = {.seed = 1000 + (uint64_t)k};
        const int64_t d = below(&w, DTYPES);
        str_open(&w.text, &h.qn->heap);
        w.dtype = dtypes[d].name, w.made = dtypes[d].made;
        w.lanes = lanes[below(&w, 5)];
        w.size = w.lanes * (1 + below(&w, 2)) + (below(&w, 4) ? 0 : 3);
        write_kernel(&w);
        const bool bad = test_state.bad;
        test_state.bad = false;
        harness_run(&h, &(harness_case){.text = w.text.s,
                                        .dim = {k % 3, k / 3 % 2},
                                        .seed = (uint64_t)k,
                                        .plain = true});
        if (test_state.bad) printf("seed %d:\n%s", k, w.text.s);
        test_state.bad |= bad;
        str_free(&w.text);
    }
}

/* On the processor as it is and on lesser ones. */
static void on_processors(void (*run)(int kernels), int kernels) {
    static const char *const isa[] = {NULL, "x86-64", "x86-64-v3", "x86-64-v4"};
    for (int i = 0; i < 4; i++) {
        if (isa[i]) setenv("QN_ISA", isa[i], 1);
        if (harness_open(&h, "llvm", 1))
            run(kernels);
        else
            test_state.skip = true;
        harness_close(&h);
    }
    unsetenv("QN_ISA");
}

static void what_is_kept_is_what_was_stored(void) {
    on_processors(tiles_by_chance, 60);
}

/* A loop's stores, which may have been none, are not those of the loop behind it. */
static void loops_behind_each_other(int kernels) {
    static const char *const trips[] = {"n", "m", "1", "2", "i"};
    for (int k = 0; k < kernels; k++) {
        const char *first = trips[k % 5], *second = trips[k / 5 % 5];
        char text[600];
        snprintf(text, sizeof text,
                 "kernel \"levels\" {\n dim n 0 2\n dim m 0 1\n arg a0 f32[64] read write\n"
                 " arg a1 f32[40] read\n local t0 f32[8]\n for i < 4 {\n def t0 = f32(7)\n"
                 " for x < %s {\n vec v < 8 {\n t0[v] = add(a1[8*x + 2*i + v], f32(1))\n }\n }\n"
                 " for y < %s {\n vec w < 16 {\n a0[16*i + w] = t0[w/2]\n }\n }\n }\n}\n",
                 first, second);
        for (int64_t n = 0; n <= 2; n++)
            harness_run(&h, &(harness_case){.text = text, .dim = {n, n % 2}});
    }
}

static void stores_are_those_of_their_loop(void) {
    on_processors(loops_behind_each_other, 25);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static const char *const places[] = {
    "cast:i64(a1[%s])", "cast:i64(a2[%s])", "cast:i64(and(a1[%s], u8(31)))",
    "cast:i64(and(a1[%s], u8(15)))", "cast:i64(shr(a1[%s], u8(4)))"};
enum { PLACES = sizeof places / sizeof *places };

/* Tables of bytes around 16, by places inside of them and outside, negative ones among them, with
 * bounds that are the table's or narrower; vectors that are whole, in part, and of a length that
 * the launch gives. */
static void tables_by_chance(int kernels) {
    static const int64_t entries[] = {1, 15, 16, 17, 32, 16}, lanes[] = {3, 4, 8, 11, 16, 32, 64};
    static const char *const of[][3] = {{"u8", "u8", "not"},
                                        {"i8", "i8", "neg"},
                                        {"bool", "bool", "not"},
                                        {"f8_e4m3", "f32", "cast:f32"},
                                        {"f8_e5m2", "f32", "cast:f32"}};
    for (int k = 0; k < kernels; k++) {
        uint64_t seed = 500 + (uint64_t)k;
        const int t = (int)test_below(&seed, COUNT_OF(of)), how = (int)test_below(&seed, PLACES);
        const int n = (int)entries[test_below(&seed, COUNT_OF(entries))];
        const int width = (int)lanes[test_below(&seed, COUNT_OF(lanes))];
        const int bound = test_below(&seed, 4) ? n : n / 2 + 1, from = test_below(&seed, 5) == 0;
        char text[900], at[40], place[80], inside[80], extent[40];
        snprintf(at, sizeof at, "%d*i + v", width);
        snprintf(place, sizeof place, places[how], at);
        const bool part = test_below(&seed, 2);
        snprintf(extent, sizeof extent, part ? "min(%d, n - %d*i)" : "%d", width, width);
        snprintf(inside, sizeof inside, "; guard=and(le(i64(%d), x0), lt(x0, i64(%d)))", from,
                 bound);
        snprintf(text, sizeof text,
                 "kernel \"table\" {\n dim n 1 192\n arg a0 %s[256] write\n arg a1 u8[256] read\n"
                 " arg a2 i8[256] read\n arg a3 %s[%d] read\n for i < %d {\n vec v < %s {\n"
                 " let x0 = %s\n a0[%s] = %s(a3[0; dyn=x0%s])\n }\n }\n}\n",
                 of[t][1], of[t][0], n, 192 / width, extent, place, at, of[t][2], inside);
        harness_run(&h, &(harness_case){.text = text, .dim = {150}, .seed = seed});
    }
}

static void tables_of_bytes_end_where_they_end(void) {
    on_processors(tables_by_chance, 120);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(what_is_kept_is_what_was_stored);
    RUN(stores_are_those_of_their_loop);
    RUN(tables_of_bytes_end_where_they_end);
    return test_end();
}
