/* fuzz_kinds.h - the kinds of bytes that fuzz_parse and cover_parse read: what is done with an
 * input, how one is made, how many a short run takes. What each holds stands with its functions.
 *
 * An input follows from the name of its kind and its seed. */
#ifndef QN_FUZZ_KINDS_H
#define QN_FUZZ_KINDS_H

#include "archive/fuzz_files.h"
#include "cli/fuzz_requests.h"
#include "data/fuzz_rows.h"
#include "fuzz_mutate.h"
#include "llm/fuzz_configs.h"
#include "onnx/fuzz_models.h"
#include "text/fuzz_texts.h"

static const fuzz_kind fuzz_kinds[] = {
    {"json", fuzz_json, some_json, 40000},
    {"safetensors", fuzz_safetensors, some_file, 15000},
    {"wisdom", fuzz_wisdom, some_wisdom, 10000},
    {"kernel", fuzz_kernel, some_kernel, 6000},
    {"schedule", fuzz_schedule, some_schedule_input, 4000},
    {"options", fuzz_options, some_options, 40000},
    {"interp", fuzz_interp, some_run, 1500},
    {"recording", fuzz_recording, some_recording, 1000},
    {"grammar", fuzz_grammar, some_grammar, 10000},
    {"gguf", fuzz_archive, some_gguf, 5000},
    {"npy", fuzz_archive, some_npy, 5000},
    {"npz", fuzz_archive, some_npz, 5000},
    {"pt", fuzz_archive, some_pt, 5000},
    {"shards", fuzz_shards, some_shards, 3000},
    {"csv", fuzz_csv, some_csv, 5000},
    {"rows", fuzz_arrays, some_rows, 5000},
    {"onnx", fuzz_onnx, some_onnx, 3000},
    {"tokenizer", fuzz_tokenizer, some_tokenizer, 5000},
    {"text", fuzz_text, some_text, 5000},
    {"template", fuzz_template, some_template, 5000},
    {"config", fuzz_config, some_config, 10000},
    {"llm", fuzz_llm, some_llm, 1000},
    {"request", fuzz_request, some_request, 10000},
    {"machine", fuzz_machine, some_machine, 5000},
    {"llvm", fuzz_llvm, some_run, 150}, /* the last, which cover_parse leaves out */
};
enum { FUZZ_KINDS = COUNT_OF(fuzz_kinds) };

static inline void fuzz_begin(void) {
    ctx = fuzz_plain();
    fuzz_kernels = kernel_texts;
    fuzz_kernel_count = COUNT_OF(kernel_texts);
}

/* The input of a kind for a seed. */
static inline void make_input(int kind, uint64_t seed, bytes *b) {
    fuzz_begin();
    rng = hash_mix(seed, hash_bytes(fuzz_kinds[kind].name, strlen(fuzz_kinds[kind].name), 0));
    b->n = 0;
    fuzz_kinds[kind].make(b);
}

#endif
