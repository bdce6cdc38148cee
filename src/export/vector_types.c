/* vector_types.c - the vector types of a file, and what GNU C has no operator for.
 *
 *     f32x16, f32x16_u            the type, and the one that lies anywhere
 *     FMA_f32x16(r, x, y, z)      const f32x16 r = x*y + z, rounded once
 *     LOAD_f32x16(r, p, i, m)     const f32x16 r = p[i + l] in the lanes l of the mask m, else 0
 *     STORE_f32x16(p, i, m, x)    p[i + l] = x[l] in the lanes of m
 *     BLEND_f32x16(r, m, x)       r[l] = x[l] in the lanes of m
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

/* ---- multiply-add ---------------------------------------------------------------------------- */

static void define_fused(int dtype, int lanes, const char *name, str *out) {
    machine_type m;
    char type[16];
    bool has = machine_type_of(dtype, lanes, type, &m);
    if (has)
        str_addf(out,
                 "#ifdef %s\n#define FMA_%s(r, x, y, z) \\\n    const %s r = (%s)%s_fmadd_%s((%s)"
                 "(x), (%s)(y), (%s)(z))\n#else\n",
                 m.bytes == 64 ? "__AVX512F__" : "__FMA__", name, name, name, m.prefix, m.suffix,
                 type, type, type);
    str_addf(out,
             "#define FMA_%s(r, x, y, z) \\\n    %s r = (x), r##p = (y), r##q = (z); \\\n"
             "    for (int l = 0; l < %d; l++) r[l] = fma%s(r[l], r##p[l], r##q[l])\n",
             name, name, lanes, dtype == QN_F64 ? "" : "f");
    if (has) str_add(out, "#endif\n");
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

/* ---- all ------------------------------------------------------------------------------------- */

void export_define_types(const export_types *t, str *out) {
    bool masked = false;
    for (int d = 0; d < DTYPE_COUNT; d++) masked |= t->masked[d] != 0;
    if (masked) /* gcc takes the whole vector to be read */
        str_add(out, "#pragma GCC diagnostic ignored \"-Warray-bounds\"\n");
    str_add(out, "#ifdef __AVX__\n#include <immintrin.h>\n#endif\n");
    if (t->rolled)
        str_add(out, "#ifdef __clang__\n#define ROLLED _Pragma(\"clang loop unroll(disable)\")\n"
                     "#else\n#define ROLLED _Pragma(\"GCC unroll 1\")\n#endif\n");
    for (int d = 0; d < DTYPE_COUNT; d++)
        if (t->zero >> d & 1)
            str_addf(out, "static const %s zero_%s = 0;\n", clike_memory_type(d),
                     dtype_rows[d].name);
    for (int d = 0; d < DTYPE_COUNT; d++)
        for (int log = 0; log < 7; log++) {
            if (!(t->used[d] >> log & 1)) continue;
            int lanes = 1 << log, bytes = lanes * (int)qn_dtype_size((qn_dtype)d);
            char name[20];
            snprintf(name, sizeof name, "%sx%d", vector_lane_name(d), lanes);
            str_addf(out, "__extension__ typedef %s %s __attribute__((vector_size(%d)));\n",
                     vector_lane_type(d), name, bytes);
            str_addf(out,
                     "__extension__ typedef %s %s_u\n    __attribute__((vector_size(%d), "
                     "aligned(%d), may_alias));\n",
                     vector_lane_type(d), name, bytes, (int)qn_dtype_size((qn_dtype)d));
            if (d == QN_F32 || d == QN_F64) define_fused(d, lanes, name, out);
            if (t->masked[d] >> log & 1) define_masked(d, lanes, name, out);
        }
}
