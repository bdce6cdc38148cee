/* isa.c - what instructions kernels may use: the processor's, or fewer where knob isa says so.
 *
 * Code for a processor in general uses all it has. Knob isa names one of the levels of the x86-64
 * psABI, each of which has all of those below, and code is then made for the highest level that is
 * neither above that nor above what the processor has all of. So one machine tests what others run,
 * and several machines can share objects. Levels are x86-64 (SSE2), v2 (SSE4.2), v3 (AVX2, FMA,
 * F16C) and v4 (AVX-512 with its byte, word and short vectors). A processor between two levels is
 * used by what it has where the knob is not set: all decisions look at the fields, never at the
 * level. */
#include "emit/emit.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

enum { LEVELS = 4 };
static const char *const names[LEVELS] = {"x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};

/* The fields of a level, from 0 on. */
static emit_isa level_isa(int level) {
    return (emit_isa){.cpu = names[level],
                      .sse41 = level >= 1,
                      .avx2 = level >= 2,
                      .fma = level >= 2,
                      .f16c = level >= 2,
                      .avx512 = level >= 3};
}

static emit_isa host_isa(void) {
    emit_isa isa = {.cpu = NULL};
#if defined(__x86_64__)
    unsigned a = 0, b = 0, c = 0, d = 0;
    bool avx = __builtin_cpu_supports("avx"); /* and the system saves its registers */
    __get_cpuid(1, &a, &b, &c, &d);
    isa.sse41 = __builtin_cpu_supports("sse4.1");
    isa.avx2 = __builtin_cpu_supports("avx2");
    isa.fma = __builtin_cpu_supports("fma");
    isa.f16c = avx && c >> 29 & 1;
    isa.avx512 = __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512dq");
    isa.vnni = isa.avx512 && __builtin_cpu_supports("avx512vnni");
    isa.bf16 = isa.avx512 && __builtin_cpu_supports("avx512bf16");
    isa.slow_bf16 = __builtin_cpu_is("intel");
    if (avx && !isa.avx2) return level_isa(1); /* masked moves are asked for by AVX2's names */
#endif
    return isa;
}

/* The highest level that the processor has all of. */
static int host_level(const emit_isa *host) {
#if defined(__x86_64__)
    bool v2 = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("ssse3") &&
              __builtin_cpu_supports("popcnt");
    bool v3 = v2 && host->avx2 && host->fma && host->f16c && __builtin_cpu_supports("bmi") &&
              __builtin_cpu_supports("bmi2");
    bool v4 = v3 && host->avx512 && __builtin_cpu_supports("avx512cd");
    return v2 + v3 + v4;
#else
    (void)host;
    return 0;
#endif
}

int emit_isa_bytes(const emit_isa *isa) {
    return isa->avx512 ? 64 : isa->avx2 ? 32 : 16;
}

bool emit_isa_of(const char *limit, emit_isa *out, str *why) {
    *out = host_isa();
    if (!*limit) return true;
    for (int i = 0; i < LEVELS; i++) {
        if (strcmp(limit, names[i])) continue;
        int most = host_level(out);
        *out = level_isa(i < most ? i : most);
        return true;
    }
    str_addf(why, "QN_ISA is \"%.40s\", not %s, %s, %s or %s", limit, names[0], names[1], names[2],
             names[3]);
    return false;
}

void emit_isa_tell(const emit_isa *isa, str *out) {
    str_addf(out, "%s", isa->cpu ? isa->cpu : "all that the processor has");
    str_addf(out, ": vectors of %d bytes", emit_isa_bytes(isa));
    static const char *const what[] = {"fma", "f16c", "vnni", "bf16"};
    const bool has[] = {isa->fma, isa->f16c, isa->vnni, isa->bf16};
    for (size_t i = 0; i < COUNT_OF(what); i++)
        if (has[i]) str_addf(out, ", %s", what[i]);
    if (!isa->fma) str_add(out, "; no fma: sums of products are rounded twice");
}
