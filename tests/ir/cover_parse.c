/* cover_parse.c - the fuzz targets for libFuzzer, which looks for inputs by what code they reach.
 *
 *     make cover                       builds it with clang and runs it for COVER_SECONDS
 *     build-cover/tests/cover_parse [-runs=N | -max_total_time=S] [FOLDER..]
 *
 * The first byte of an input chooses the kind (fuzz_kinds.h), the rest are its bytes. Inputs to
 * begin with come from fuzz_parse --corpus. A finding is left as a file crash-..., which
 * cover_parse FILE repeats. */
#include "fuzz_kinds.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Compiling takes milliseconds and reaches LLVM's code, not ours: it is left to fuzz_parse. */
enum { COVERED = FUZZ_KINDS - 1 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    qn_ctx *qn = fuzz_plain();
    if (!size) return 0;
    setenv("QN_CACHE", "off", 1);
    fuzz_begin();
    guard g;
    guard_open(&qn->heap, &g);
    if (setjmp(g.at)) FOUND("raised: %s", qn->error);
    fuzz_seen.inputs++;
    fuzz_kinds[data[0] % COVERED].run(data + 1, size - 1);
    guard_close(&qn->heap, &g);
    return 0;
}
