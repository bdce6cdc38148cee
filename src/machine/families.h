/* families.h - what is known of families of processors, one row each.
 *
 * X(name, vendor, family, models, doc, fields..)   Models are ranges "00-0f,30-ff" of the extended
 * model in hexadecimal; "amx" at their end is any other model with matrix tiles, for virtual
 * machines may show a model of their own. The first row that knows a processor is its row. A field
 * that a row does not name is the generic one's. Of the processor here the system's word on caches
 * and vectors goes first.
 *
 * page_parallel_gain: where the prefetcher of the second cache follows one stream per page and
 * starts anew at each, as on Intel's server cores since Skylake, four pages side by side keep more
 * reads under way: the sum of 64 M floats, four rows at a time, takes 15 ms for 23 (Sapphire
 * Rapids, one thread). AMD's Zen follows a stream across pages, and loses by it: by turns on a
 * Zen 4, one thread, 2026-11-22, in order / side by side: sum 12.6 / 16.6 ms, negation 14.5 / 18.7,
 * a*b + c 30.9 / 41.9, exp 13.9 / 20.8 of 64 M, softmax and layer norm of 4096 rows 0.95. Zen 2
 * and Zen 5 were not measured and have Zen 4's.
 *
 * page_parallel_read_gain: of 16 rows, one at a time, four pages side by side are four streams, as
 * many as four rows in order: a sum of them takes half the time on Zen 3, where a negation takes
 * twice as long, and 0.94 to 0.98 on Zen 4 (rows of 2^20 and 2^22, three times 21 rounds by turns,
 * 2026-11-23). On Intel's it is taken to gain as much as sums of four rows.
 *
 * row_parallel_gain: the rows of a matrix, a page or more apart, are summed four at a time where
 * the prefetcher starts anew at each page. Zen 4's goes on through a row, and follows no two
 * streams that are near: a matrix times a vector takes 0.54 (1000 x 1280), 0.75 (768 x 3072) and
 * 0.85 of the time (4096 x 4096), from pages of 4 KiB and large ones, one row after the other; from
 * the caches 0.85 (one thread, by turns, 2026-11-30); of what comes from memory four rows, a
 * quarter of the matrix apart, 0.9 of that (a matrix of 16 MB). Zen 5 was not measured and has Zen
 * 4's. Others have what rows of whole matrices gained on Sapphire Rapids, as above.
 *
 * nontemporal_gain, memory_rate: of Zen 3 measured by quern machine --measure on 2 cores of an EPYC
 * 7003 at 3.2 GHz, shared with others (load 8), 2026-11-22, in four of four runs: stores past the
 * caches 1.81 to 1.90 times as fast as through them in order, but 0.41 of that from four pages side
 * by side; 8 to 9 bytes a cycle from memory on one thread.
 *
 * Granite Rapids' rates are what quern machine --measure said in six of six runs on 2 cores of one
 * (its model shown as another, 4.05 GHz, 480 MiB of last cache), 2026-11-28: of page_parallel_gain
 * 134 to 143, page_parallel_read_gain 111 to 114, nontemporal_gain 161 to 175, memory_threads 51
 * to 56.
 *
 * l2_fill: a line that comes from the second cache takes the first one's port, whatever was asked
 * for ahead. On Zen 3 a product of 128 x 768 x 768 by tiles of 4 x 24 took 8.9 cycles for each of
 * its 768 steps where the panel, 96 bytes a step, came from there, and 7.4 where blocks of the sum
 * kept it in the first, partial sums waiting in the third (by turns, least of 700, 2026-11-27).
 *
 * column_rows: of Zen 3, whose prefetcher follows fewer streams than Intel's: by 16 / 8 / 4 rows at
 * a time sums down 4096 x 4096 take 2.88 / 2.59 / 2.65 ms, 1 x 4096 x 4096 2.90 / 2.47 / 2.60, sums
 * down 20000 x 1000 4.45 / 4.62 / 5.49 (by turns, the least of some 250, 2026-11-27).
 *
 * transpose_lines: of Apple's not measured, as many more as its pages are larger.
 *
 * latencies of operations and of the first cache, div_cycles, sqrt_cycles: of Zen 3 by vectors of
 * 32 bytes and of Skylake-X by those of 64, from LLVM's X86ScheduleZnver3.td, which has them from
 * AMD's Software Optimization Guide 56665 and llvm-exegesis, and X86SchedSkylakeServer.td. Those of
 * Granite Rapids' caches were measured in the runs above; others were not looked up, and are
 * unknown.
 *
 * open_lines: the buffers in which a core gathers such stores. Intel's have 10 (Skylake) to 16 of
 * them, which loads take as well; other makers do not say. 8 leave some to loads. */
#define CORE(vector, registers_, l1_, l2_, l3_)                                                    \
    .vector_bytes = vector, .registers = registers_, .l1 = l1_ << 10, .l2 = l2_ << 10,             \
    .l3 = l3_ << 20
X("skylake-x", "GenuineIntel", 6, "55-55", "Skylake-X, Cascade Lake, Cooper Lake",
  CORE(64, 32, 32, 1024, 22), .page_parallel_gain = 150, .page_parallel_read_gain = 150,
  .l1_latency = 5, .add_latency = 4, .mul_latency = 4, .div_latency = 18, .div_cycles = 10,
  .sqrt_latency = 20, .sqrt_cycles = 12)
X("icelake-x", "GenuineIntel", 6, "6a-6a,6c-6c", "Ice Lake servers", CORE(64, 32, 48, 1280, 36),
  .l1_ways = 12, .page_parallel_gain = 150, .page_parallel_read_gain = 150)
X("sapphire-rapids", "GenuineIntel", 6, "8f-8f,cf-cf", "Sapphire Rapids, Emerald Rapids",
  CORE(64, 32, 48, 2048, 60), .l1_ways = 12, .page_parallel_gain = 150,
  .page_parallel_read_gain = 150)
X("granite-rapids", "GenuineIntel", 6, "ad-ae,amx", "Granite Rapids, and others of Intel's with AMX",
  CORE(64, 32, 48, 2048, 432), .l1_ways = 12, .page_parallel_gain = 135,
  .page_parallel_read_gain = 113, .nontemporal_gain = 163, .memory_threads = 54, .l1_latency = 5,
  .l2_latency = 20)
X("zen2", "AuthenticAMD", 23, "30-ff", "Zen 2", CORE(32, 16, 32, 512, 16), .page_parallel_gain = 76)
X("zen3", "AuthenticAMD", 25, "00-0f,20-5f", "Zen 3", CORE(32, 16, 32, 512, 32),
  .page_parallel_gain = 50, .page_parallel_read_gain = 200, .memory_rate = 8,
  .nontemporal_gain = 180, .l2_fill = 1, .column_rows = 8, .l1_latency = 4, .add_latency = 3,
  .mul_latency = 3, .div_latency = 11, .div_cycles = 3, .sqrt_latency = 15, .sqrt_cycles = 5)
X("zen4", "AuthenticAMD", 25, "10-1f,60-af", "Zen 4", CORE(64, 32, 32, 1024, 32),
  .page_parallel_gain = 76, .page_parallel_read_gain = 104, .row_parallel_gain = 70)
X("zen5", "AuthenticAMD", 26, "00-ff", "Zen 5", CORE(64, 32, 48, 1024, 32), .l1_ways = 12,
  .page_parallel_gain = 76, .page_parallel_read_gain = 104, .row_parallel_gain = 70)
X("generic-avx2", "", 0, "", "any processor with vectors of 32 bytes", CORE(32, 16, 32, 256, 8))
X("generic-avx512", "", 0, "", "any processor with vectors of 64 bytes", CORE(64, 32, 32, 1024, 16))
X("neoverse", "", 0, "", "Neoverse N1, N2, V1 by NEON", CORE(16, 32, 64, 1024, 32), .l1_ways = 4)
X("apple-m", "", 0, "", "Apple M1 and later by NEON", CORE(16, 32, 128, 12288, 0), .line = 128,
  .page = 16384, .transpose_lines = 1024)
#undef CORE
