/* opened.h - a language model as the options of all commands with one say it (opened.c). */
#ifndef QN_CLI_OPENED_H
#define QN_CLI_OPENED_H

#include <stdbool.h>
#include <stddef.h>

#include "quern_llm.h"

typedef struct llm_choice {
    const char *cache; /* the type of its numbers */
    const char *lora;  /* adapters: FILE[:SCALE],.. */
    int64_t context;
    bool half;
} llm_choice;
/* Rows of a struct of options that has `llm`. */
#define LLM_ROWS(type)                                                                             \
    {"context",                                                                                    \
     OPTION_WHOLE,                                                                                 \
     offsetof(type, llm.context),                                                                  \
     0,                                                                                            \
     1 << 24,                                                                                      \
     "N",                                                                                          \
     "tokens that fit a cache; 0: the model's, 4096 at most (0)"},                                 \
        {"cache",                                                                                  \
         OPTION_TEXT,                                                                              \
         offsetof(type, llm.cache),                                                                \
         0,                                                                                        \
         0,                                                                                        \
         "TYPE",                                                                                   \
         "of its numbers: f32, f16, q8_0, q4_0 (f32)"},                                            \
        {"lora",                                                                                   \
         OPTION_TEXT,                                                                              \
         offsetof(type, llm.lora),                                                                 \
         0,                                                                                        \
         0,                                                                                        \
         "FILE[:SCALE],..",                                                                        \
         "adapters: GGUF files, or folders with adapter_config.json"},                             \
    {                                                                                              \
        "half", OPTION_FLAG, offsetof(type, llm.half), 0, 0, NULL, "the same as --cache f16"       \
    }
/* With what is chosen added to the options; reports on failure. */
qn_llm *llm_opened(const char *command, qn_ctx *qn, const char *path, const llm_choice *c,
                   const qn_llm_options *more);

#endif
