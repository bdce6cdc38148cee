/* vector_types.c - the vector types of a file, and what GNU C has no operator for.
 *
 *     f32x16, f32x16_u            the type, and the one that lies anywhere
 *     FMA_f32x16(r, x, y, z)      const f32x16 r = x*y + z, rounded once
 *     COMPARE_f32x16(r, x, <, y)  const i32x16 r = x < y
 *     LOAD_f32x16(r, p, i, m)     const f32x16 r = p[i + l] in the lanes l of the mask m, else 0
 *     STORE_f32x16(p, i, m, x)    p[i + l] = x[l] in the lanes of m
 *     BLEND_f32x16(r, m, x)       r[l] = x[l] in the lanes of m
 *     SHUFFLE_f32x16(x, y, ..)    lanes of x, then of y, by their numbers
 *     LOOKUP_f32x16(r, t, i)      const f32x16 r = t[i[l] & 15]
 *     SQRT_f32x16(r, x)           const f32x16 r = sqrt(x[l])
 *
 * A mask has a bit for each lane, and what is no lane's bit says nothing. Where the machine has
 * masks the macros are one instruction of it; elsewhere lanes are asked one by one unless all are
 * on. What a mask leaves out is never touched, and in plain C not even pointed at. Arguments are
 * names, or expressions that may be computed twice. */
#include "export/export.h"

#include <stdio.h>

const char *vector_lane_name(int dtype) {
    if (dtype == QN_BOOL) return "i32";
    return dtype_rows[dtype_is_narrow(dtype) ? dtype_rows[dtype].acc : dtype].name;
}

const char *vector_lane_type(int dtype) {
    return dtype == QN_BOOL ? "int32_t" : clike_type(dtype);
}

/* ---- what the machine calls it --------------------------------------------------------------- */

/* Of intrinsics: _mm512 + _fmadd_ + ps, for __m512. */
typedef struct machine_type {
    const char *prefix, *suffix, *type;
    int bytes;
    const char *feature; /* a macro that says that there are masks of lanes */
    int mask;            /* bits of the type of a mask, at least */
} machine_type;

static bool machine_type_of(int dtype, int lanes, char name[16], machine_type *m) {
    int size = (int)qn_dtype_size((qn_dtype)dtype), bytes = size * lanes;
    bool real = dtype == QN_F32 || dtype == QN_F64;
    if (size < 4 || (bytes != 16 && bytes != 32 && bytes != 64)) return false;
    m->prefix = bytes == 64 ? "_mm512" : bytes == 32 ? "_mm256" : "_mm";
    m->suffix = real ? size == 4 ? "ps" : "pd" : size == 4 ? "epi32" : "epi64";
    m->feature = bytes == 64 ? "__AVX512F__" : "__AVX512VL__";
    m->mask = lanes > 8 ? 16 : 8;
    snprintf(name, 16, "__m%d%s", 8 * bytes, real ? size == 4 ? "" : "d" : "i");
    m->type = name;
    m->bytes = bytes;
    return true;
}

/* ---- multiply-add and comparisons ------------------------------------------------------------ */

/* What is wider than registers is two halves: gcc would take it apart lane by lane. */
static bool has_halves(int dtype, int lanes) {
    return lanes * (int)qn_dtype_size((qn_dtype)dtype) > 32;
}

void vector_need_of(export_types *t, int dtype, int lanes, vector_need need) {
    int log = 0;
    bool words = qn_dtype_size((qn_dtype)dtype) == 4;
    while (1 << log < lanes) log++;
    t->needs[VECTOR_TYPE][dtype] |= 1u << log;
    t->needs[need][dtype] |= 1u << log;
    if (need == VECTOR_COMPARED) vector_need_of(t, words ? QN_I32 : QN_I64, lanes, VECTOR_TYPE);
    if ((need == VECTOR_COMPARED || need == VECTOR_FUSED) && has_halves(dtype, lanes))
        vector_need_of(t, dtype, lanes / 2, need);
}

static void add_numbers(str *out, int from, int n) {
    for (int i = 0; i < n; i++) str_addf(out, ", %d", from + i);
    str_add(out, ")\n");
}

static void define_halves(int lanes, str *out) {
    const int n = lanes / 2;
    str_addf(out, "#ifdef SHUFFLEVECTOR\n#define LOW_%d(x) __builtin_shufflevector(x, x", lanes);
    add_numbers(out, 0, n);
    str_addf(out, "#define HIGH_%d(x) __builtin_shufflevector(x, x", lanes);
    add_numbers(out, n, n);
    str_addf(out, "#define JOIN_%d(x, y) __builtin_shufflevector(x, y", lanes);
    add_numbers(out, 0, lanes);
    str_add(out, "#endif\n");
}

static void define_fused(int dtype, int lanes, const char *name, str *out) {
    machine_type m;
    char type[16];
    bool has = machine_type_of(dtype, lanes, type, &m), halves = has_halves(dtype, lanes);
    const char *lane = vector_lane_name(dtype);
    if (has)
        str_addf(out,
                 "#ifdef %s\n#define FMA_%s(r, x, y, z) \\\n    const %s r = (%s)%s_fmadd_%s((%s)"
                 "(x), (%s)(y), (%s)(z))\n",
                 m.bytes == 64 ? "__AVX512F__" : "__FMA__", name, name, name, m.prefix, m.suffix,
                 type, type, type);
    if (halves)
        str_addf(out,
                 "#%s defined(SHUFFLEVECTOR) && defined(__FMA__)\n#define FMA_%s(r, x, y, z) \\\n"
                 "    const %s r##X = (x), r##Y = (y), r##Z = (z); \\\n"
                 "    FMA_%sx%d(r##L, LOW_%d(r##X), LOW_%d(r##Y), LOW_%d(r##Z)); \\\n"
                 "    FMA_%sx%d(r##H, HIGH_%d(r##X), HIGH_%d(r##Y), HIGH_%d(r##Z)); \\\n"
                 "    const %s r = JOIN_%d(r##L, r##H)\n",
                 has ? "elif" : "if", name, name, lane, lanes / 2, lanes, lanes, lanes, lane,
                 lanes / 2, lanes, lanes, lanes, name, lanes);
    if (has || halves) str_add(out, "#else\n");
    str_addf(out,
             "#define FMA_%s(r, x, y, z) \\\n    %s r = (x), r##p = (y), r##q = (z); \\\n"
             "    for (int l = 0; l < %d; l++) r[l] = fma%s(r[l], r##p[l], r##q[l])\n",
             name, name, lanes, dtype == QN_F64 ? "" : "f");
    if (has || halves) str_add(out, "#endif\n");
}

static void define_comparison(int dtype, int lanes, const char *name, str *out) {
    const int size = (int)qn_dtype_size((qn_dtype)dtype);
    const char *lane = vector_lane_name(dtype);
    if (has_halves(dtype, lanes))
        str_addf(out,
                 "#if defined(SHUFFLEVECTOR)%s\n#define COMPARE_%s(r, x, sign, y) \\\n"
                 "    const %s r##X = (x), r##Y = (y); \\\n"
                 "    COMPARE_%sx%d(r##L, LOW_%d(r##X), sign, LOW_%d(r##Y)); \\\n"
                 "    COMPARE_%sx%d(r##H, HIGH_%d(r##X), sign, HIGH_%d(r##Y)); \\\n"
                 "    const i%dx%d r = JOIN_%d(r##L, r##H)\n#else\n",
                 size * lanes == 64 ? " && !defined(__AVX512F__)" : "", name, name, lane, lanes / 2,
                 lanes, lanes, lane, lanes / 2, lanes, lanes, 8 * size, lanes, lanes);
    str_addf(out, "#define COMPARE_%s(r, x, sign, y) const i%dx%d r = (x)sign(y)\n", name, 8 * size,
             lanes);
    if (has_halves(dtype, lanes)) str_add(out, "#endif\n");
}

/* ---- masks ----------------------------------------------------------------------------------- */

/* By AVX-512: masks are registers. */
static void define_by_masks(const machine_type *m, const char *name, str *out) {
    const char *p = m->prefix, *s = m->suffix, *t = m->type;
    str_addf(out,
             "#define LOAD_%s(r, p, i, m) \\\n    const %s r = "
             "(%s)%s_maskz_loadu_%s((__mmask%d)(m), (p) + (i))\n",
             name, name, name, p, s, m->mask);
    str_addf(out,
             "#define STORE_%s(p, i, m, x) \\\n    "
             "%s_mask_storeu_%s((p) + (i), (__mmask%d)(m), (%s)(x))\n",
             name, p, s, m->mask, t);
    str_addf(out,
             "#define BLEND_%s(r, m, x) \\\n    "
             "r = (%s)%s_mask_blend_%s((__mmask%d)(m), (%s)r, (%s)(x))\n",
             name, name, p, s, m->mask, t, t);
}

/* By AVX, floats: masks are signs of lanes. */
static void define_by_signs(const machine_type *m, int dtype, int lanes, const char *name,
                            str *out) {
    int bits = 8 * (int)qn_dtype_size((qn_dtype)dtype);
    const char *p = m->prefix, *s = m->suffix, *t = m->type;
    char mask[160], ints[16];
    str_addf(out, "__extension__ typedef int%d_t %s_m __attribute__((vector_size(%d)));\n", bits,
             name, bits / 8 * lanes);
    snprintf(ints, sizeof ints, "__m%di", bits * lanes);
    size_t n = (size_t)snprintf(mask, sizeof mask, "(%s)((((int%d_t)(m) - (%s_m){0}) & (%s_m){",
                                ints, bits, name, name);
    for (int l = 0; l < lanes; l++)
        n += (size_t)snprintf(mask + n, sizeof mask - n, "%s%d", l ? ", " : "", 1 << l);
    snprintf(mask + n, sizeof mask - n, "}) != 0)");
    str_addf(out,
             "#define LOAD_%s(r, p, i, m) \\\n    const %s r = (%s)%s_maskload_%s((p) + (i), \\\n"
             "        %s)\n",
             name, name, name, p, s, mask);
    str_addf(out,
             "#define STORE_%s(p, i, m, x) \\\n    %s_maskstore_%s((p) + (i), \\\n        %s, "
             "(%s)(x))\n",
             name, p, s, mask, t);
    str_addf(out,
             "#define BLEND_%s(r, m, x) \\\n    r = (%s)%s_blendv_%s((%s)r, (%s)(x), \\\n"
             "        (%s)%s)\n",
             name, name, p, s, t, t, t, mask);
}

/* Lane by lane, unless all are on. */
static void define_by_lanes(int lanes, const char *name, str *out) {
    char all[40];
    snprintf(all, sizeof all, "(~(uint64_t)0 >> %d)", 64 - lanes);
    str_addf(out,
             "#define LOAD_%s(r, p, i, m) \\\n    %s r = {0}; \\\n"
             "    if (((m) & %s) == %s) r = *(const %s_u *)((p) + (i)); \\\n"
             "    else for (int l = 0; l < %d; l++) r[l] = (m) >> l & 1 ? (p)[(i) + l] : 0\n",
             name, name, all, all, name, lanes);
    str_addf(out,
             "#define STORE_%s(p, i, m, x) do { \\\n    const %s y = (x); \\\n"
             "    if (((m) & %s) == %s) *(%s_u *)((p) + (i)) = y; \\\n"
             "    else for (int l = 0; l < %d; l++) if ((m) >> l & 1) (p)[(i) + l] = y[l]; \\\n"
             "    } while (0)\n",
             name, name, all, all, name, lanes);
    str_addf(out,
             "#define BLEND_%s(r, m, x) do { \\\n    const %s y = (x); \\\n    %s z = r; \\\n"
             "    for (int l = 0; l < %d; l++) z[l] = (m) >> l & 1 ? y[l] : z[l]; \\\n"
             "    r = z; \\\n    } while (0)\n",
             name, name, name, lanes);
}

static void define_masked(int dtype, int lanes, const char *name, str *out) {
    machine_type m;
    char type[16];
    bool has = machine_type_of(dtype, lanes, type, &m);
    bool signs = has && (dtype == QN_F32 || dtype == QN_F64) && m.bytes < 64;
    if (has) str_addf(out, "#ifdef %s\n", m.feature);
    if (has) define_by_masks(&m, name, out);
    if (signs) str_add(out, "#elif defined(__AVX__)\n");
    if (signs) define_by_signs(&m, dtype, lanes, name, out);
    if (has) str_add(out, "#else\n");
    define_by_lanes(lanes, name, out);
    if (has) str_add(out, "#endif\n");
}

/* ---- lanes by their numbers ------------------------------------------------------------------ */

static void define_shuffle(int dtype, int lanes, const char *name, str *out) {
    int size = (int)qn_dtype_size((qn_dtype)dtype);
    str_addf(out,
             "#ifdef SHUFFLEVECTOR\n"
             "#define SHUFFLE_%s(x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)\n#else\n"
             "__extension__ typedef int%d_t %s_p __attribute__((vector_size(%d)));\n"
             "#define SHUFFLE_%s(x, y, ...) __builtin_shuffle(x, y, (%s_p){__VA_ARGS__})\n#endif\n",
             name, 8 * size, name, size * lanes, name, name);
}

/* Sixteen entries: a register of 64 bytes, or two of 32, of which a bit of the index takes one. */
static void define_lookup(int dtype, int lanes, const char *name, str *out) {
    machine_type m;
    char type[16], half[2][40];
    bool has = machine_type_of(dtype, lanes, type, &m) && m.bytes >= 32;
    const char *s = m.suffix, *t = m.type;
    for (int i = 0; i < 2; i++)
        snprintf(half[i], sizeof half[i], "(%s)*(const %s_u *)((t) + %d)", t, name, 8 * i);
    if (has && m.bytes == 64)
        str_addf(out,
                 "#ifdef __AVX512F__\n#define LOOKUP_%s(r, t, i) \\\n    const %s r = "
                 "(%s)_mm512_permutexvar_%s((__m512i)(i), %s)\n#else\n",
                 name, name, name, s, half[0]);
    if (has && m.bytes == 32)
        str_addf(out,
                 "#ifdef __AVX512VL__\n#define LOOKUP_%s(r, t, i) \\\n    const %s r = "
                 "(%s)_mm256_permutex2var_%s(%s, \\\n        (__m256i)(i), %s)\n"
                 "#elif defined(__AVX2__)\n#define LOOKUP_%s(r, t, i) \\\n"
                 "    const __m256i r##i = (__m256i)(i); \\\n    const %s r = "
                 "(%s)_mm256_blendv_ps( \\\n"
                 "        (__m256)_mm256_permutevar8x32_%s(%s, r##i), \\\n"
                 "        (__m256)_mm256_permutevar8x32_%s(%s, r##i), \\\n"
                 "        (__m256)_mm256_slli_epi32(r##i, 28))\n#else\n",
                 name, name, name, s, half[0], half[1], name, name, name, s, half[0], s, half[1]);
    str_addf(out,
             "#define LOOKUP_%s(r, t, i) \\\n    const i32x%d r##i = (i32x%d)(i); \\\n    %s r; "
             "\\\n    for (int l = 0; l < %d; l++) r[l] = (t)[r##i[l] & 15]\n",
             name, lanes, lanes, name, lanes);
    if (has) str_add(out, "#endif\n");
}

/* ---- roots ----------------------------------------------------------------------------------- */

/* Compilers keep calls of the library's function for the sake of errno. */
static void define_root(int dtype, int lanes, const char *name, str *out) {
    machine_type m;
    char type[16];
    bool has = machine_type_of(dtype, lanes, type, &m);
    if (has)
        str_addf(
            out, "#ifdef %s\n#define SQRT_%s(r, x) const %s r = (%s)%s_sqrt_%s((%s)(x))\n#else\n",
            m.bytes == 64 ? "__AVX512F__" : "__AVX__", name, name, name, m.prefix, m.suffix, type);
    str_addf(out,
             "#define SQRT_%s(r, x) \\\n    %s r = (x); \\\n"
             "    for (int l = 0; l < %d; l++) r[l] = sqrt%s(r[l])\n",
             name, name, lanes, dtype == QN_F64 ? "" : "f");
    if (has) str_add(out, "#endif\n");
}

/* ---- all ------------------------------------------------------------------------------------- */

static void (*const define_need[VECTOR_NEEDS])(int, int, const char *, str *) = {
    [VECTOR_FUSED] = define_fused,      [VECTOR_COMPARED] = define_comparison,
    [VECTOR_MASKED] = define_masked,    [VECTOR_SHUFFLED] = define_shuffle,
    [VECTOR_LOOKED_UP] = define_lookup, [VECTOR_ROOT] = define_root,
};

static void define_type(const export_types *t, int dtype, int log, str *out) {
    int lanes = 1 << log, size = (int)qn_dtype_size((qn_dtype)dtype);
    char name[20];
    snprintf(name, sizeof name, "%sx%d", vector_lane_name(dtype), lanes);
    str_addf(out, "__extension__ typedef %s %s __attribute__((vector_size(%d)));\n",
             vector_lane_type(dtype), name, size * lanes);
    str_addf(out,
             "__extension__ typedef %s %s_u\n    __attribute__((vector_size(%d), "
             "aligned(%d), may_alias));\n",
             vector_lane_type(dtype), name, size * lanes, size);
    for (int need = VECTOR_TYPE + 1; need < VECTOR_NEEDS; need++)
        if (t->needs[need][dtype] >> log & 1) define_need[need](dtype, lanes, name, out);
}

/* What all types' macros use. */
static void define_common(const export_types *t, str *out) {
    bool masked = false, shuffled = false;
    uint32_t halves = 0;
    for (int d = 0; d < DTYPE_COUNT; d++) {
        masked |= t->needs[VECTOR_MASKED][d] != 0;
        shuffled |= t->needs[VECTOR_SHUFFLED][d] != 0;
        for (int log = 0; log < VECTOR_LOGS; log++)
            if (has_halves(d, 1 << log))
                halves |= (t->needs[VECTOR_FUSED][d] | t->needs[VECTOR_COMPARED][d]) & 1u << log;
    }
    if (masked) /* gcc takes the whole vector to be read */
        str_add(out, "#pragma GCC diagnostic ignored \"-Warray-bounds\"\n");
    str_add(out, "#ifdef __AVX__\n#include <immintrin.h>\n#endif\n");
    if (t->rolled)
        str_add(out, "#ifdef __clang__\n#define ROLLED _Pragma(\"clang loop unroll(disable)\")\n"
                     "#else\n#define ROLLED _Pragma(\"GCC unroll 1\")\n#endif\n");
    if (shuffled || halves)
        str_add(out, "#if defined(__clang__) || __GNUC__ >= 12\n#define SHUFFLEVECTOR\n#endif\n");
    for (int log = 0; log < VECTOR_LOGS; log++)
        if (halves >> log & 1) define_halves(1 << log, out);
}

void export_define_types(const export_types *t, str *out) {
    define_common(t, out);
    for (int d = 0; d < DTYPE_COUNT; d++)
        if (t->zero >> d & 1)
            str_addf(out, "static const %s zero_%s = 0;\n", clike_memory_type(d),
                     dtype_rows[d].name);
    for (int d = 0; d < DTYPE_COUNT; d++)
        for (int log = 0; log < VECTOR_LOGS; log++)
            if (t->needs[VECTOR_TYPE][d] >> log & 1) define_type(t, d, log, out);
}
