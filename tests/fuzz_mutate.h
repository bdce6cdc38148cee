/* fuzz_mutate.h - inputs for fuzz_targets.h, each from its kind and seed: documents of a corpus,
 * and kernels of random_kernel.h, with a few of their bytes, lines and words changed.
 *
 * Changes know what the text is made of: a word gives way to another word of the kind's dictionary,
 * a number to one at an edge, lines are dropped, doubled and exchanged, parts come from other
 * documents. What no change would get past by chance, a wisdom's hashes and a file's lengths, is
 * set right again most of the time. */
#ifndef QN_FUZZ_MUTATE_H
#define QN_FUZZ_MUTATE_H

#include "fuzz_targets.h"
#include "random_kernel.h"
#include "recordings.h"
#include "transform/transform.h"

#include <ctype.h>
#include <inttypes.h>

/* ---- the corpus ----------------------------------------------------------------------------- */

static const char *const json_texts[] = {
    "{\"a\":[1,2.5,-3e7,true,false,null],\"b\":{\"c\":\"x\\n\\u00e9\\ud83d\\ude00\"},\"\":0}",
    "[[[[[[[[]]]]]]]]",
    "{\"__metadata__\":{\"format\":\"pt\"},\"w\":{\"dtype\":\"F32\",\"data_offsets\":[0,24]}}",
    "\"\xc3\xa9\xf0\x9f\x98\x80 \\\"\\\\\\/\\b\\f\\n\\r\\t\"",
    "-0.125e+10",
};
static const char *const file_texts[] = {
    "{\"__metadata__\":{\"format\":\"pt\",\"k\":\"v\"},\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],"
    "\"data_offsets\":[0,24]},\"b\":{\"dtype\":\"I8\",\"shape\":[4],\"data_offsets\":[24,28]}}",
    "{\"x\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[0,2]},\"y\":{\"dtype\":\"BOOL\","
    "\"shape\":[2,0,5],\"data_offsets\":[2,2]},\"z\":{\"dtype\":\"I64\",\"shape\":[1,1,1,1],"
    "\"data_offsets\":[2,10]}}",
    "{}",
    "{\"a\":{\"dtype\":\"F64\",\"shape\":[3],\"data_offsets\":[0,24]},\"b\":{\"dtype\":\"U8\","
    "\"shape\":[2,2],\"data_offsets\":[24,28]},\"c\":{\"dtype\":\"F16\",\"shape\":[1,2],"
    "\"data_offsets\":[28,32]}}  ",
};
static const char *const kernel_texts[] = {
    "kernel \"row_sum\" {\n  arg a0 f32[4] write\n  arg a1 f32[24] read\n  local t0 f32[1]\n"
    "  for i < 4 {\n    def t0 = f32(0)\n    for k < 6 {\n      t0[0] += a1[6*i + k]\n    }\n"
    "    a0[i] = t0[0]\n  }\n}\n",
    "kernel \"product\" {\n  arg a0 f32[35] read\n  arg a1 f32[56] read\n  arg a2 f32[40] write\n"
    "  local t0 f32[1]\n  for i < 5 {\n    for j < 8 {\n      def t0 = f32(0)\n      for k < 7 {\n"
    "        t0[0] += mul(a0[7*i + k], a1[j + 8*k])\n      }\n      a2[8*i + j] = abs(t0[0])\n"
    "    }\n  }\n}\n",
    "kernel \"argmax\" {\n  arg a0 f32[3] write\n  arg a1 i64[3] write\n  arg a2 f32[24] read\n"
    "  local t0 f32[1]\n  local t1 i64[1]\n  for i < 3 {\n    def t0 = f32(-inf)\n"
    "    def t1 = i64(9223372036854775807)\n    for k < 8 {\n"
    "      (t0, t1)[0] argmax= a2[8*i + k], idx(k)\n    }\n    a0[i] = t0[0]\n    a1[i] = t1[0]\n"
    "  }\n}\n",
    "kernel \"scatter\" {\n  arg a0 i32[20] read write\n  arg a1 i64[6] read\n  arg a2 i32[24] "
    "read\n"
    "  for i < 6 {\n    for j < 4 {\n      a0[j; dyn=mul(a1[i], i64(4)); guard=and(le(i64(0), "
    "a1[i]),"
    " lt(a1[i], i64(5)))] += a2[4*i + j]\n    }\n  }\n}\n",
    "kernel \"vectors\" {\n  dim n 1 40\n  arg a0 i32[16*n] write\n  arg a1 i32[16*n] read\n"
    "  par i < n {\n    vec v < 16 {\n      a0[16*i + v] = add(a1[16*i + v], i32(3))\n    }\n  "
    "}\n}\n",
    "kernel \"registers\" {\n  arg a0 f32[32] write\n  arg a1 f32[32] read\n  reg t0 f32[8]\n"
    "  par i < 4 {\n    def t0 = f32(0)\n    unroll u < 2 {\n      vec v < 4 {\n"
    "        t0[4*u + v] max= a1[8*i + 4*u + v]\n      }\n    }\n    unroll u_1 < 2 {\n"
    "      vec v_1 < 4 {\n        a0[8*i + 4*u_1 + v_1] = t0[4*u_1 + v_1]\n      }\n    }\n  "
    "}\n}\n",
    "kernel \"threads\" {\n  arg a0 i32[64] write\n  arg a1 i32[64] read\n  local t0 i32[16]\n"
    "  par i < 4 {\n    def t0\n    thread m < 16 {\n      t0[m] = a1[16*i + m]\n    }\n    "
    "barrier\n"
    "    thread m_1 < 16 {\n      a0[16*i + m_1] = t0[15 - m_1]\n    }\n  }\n}\n",
    "kernel \"padded\" {\n  dim n 0 30\n  arg a0 u8[n + 4] write\n  arg a1 u8[n] read\n"
    "  for i < n + 4 {\n    a0[i] = a1[i - 2; valid=(i - 2 >= 0 and n + 1 - i >= 0)]\n  }\n}\n",
    "kernel \"tables\" {\n  arg a0 f32[32] write\n  arg a1 f32[32] read\n  arg a2 i32[32] read\n"
    "  table c0 f32 {1, 2, 4, 8}\n  vec i < 32 {\n    let x0 = where(lt(a1[i], f32(0)), neg(a1[i]),"
    " a1[i])\n    a0[i] = mul(x0, lookup(c0, cast:u32(a2[i])))\n  }\n}\n",
    "kernel \"steps\" {\n  arg a0 i32[40] read write\n  arg a1 bool[40] read\n  for i < 20 {\n"
    "    for j < min(2, 39 - 2*i) {\n      a0[2*i + j; guard=a1[(2*i + j)/2]] = shl(a0[2*i + j],"
    " i32(1))\n    }\n  }\n}\n",
    "kernel \"words\" {\n  arg a0 i32[16] read write\n  arg a1 i8[64] read\n  arg a2 u8[64] read\n"
    "  vec i < 16 {\n    word w < 4 {\n      a0[i] += mul(cast:i32(a2[4*i + w]), cast:i32(a1[4*i + "
    "w]))\n"
    "    }\n  }\n}\n",
    "kernel \"halves\" {\n  arg a0 f16[24] write\n  arg a1 bf16[24] read\n  arg a2 f64[24] read\n"
    "  for i < 3 {\n    vec v < 8 {\n      a0[8*i + v] = fma(cast:f16(a1[8*i + v]), f16(0.5),"
    " cast:f16(a2[8*i + v]))\n    }\n  }\n}\n",
};
static const char *const line_texts[] = {
    "split i 4 -> io ii\nvec ii\npar io\n",
    "split k 2\naccumulate t0 j\nswap j k\nunroll k\n",
    "stage a1 i k j\npad j 4\npeel i\n",
    "merge i j -> m\nsplit m 8\npar m\n",
    "rfactor t0 k\ntree_reduce k\n",
    "thread j\nnontemporal a0\nprefetch_distance a1 4096\n",
    "block_reduction t0 k i\nfold_storage t0 i\ntransform_layout t0 2\n",
    "fission i\nonline t0 i j\nfuse i j\nshift i j\nprivatize i\nhoist i\ntrim i\n",
    "# nothing\n\nserial i\n",
    "offset t0 t1 i\nspill t0 i\nprefetch_next i j\nprefetch_nest a0 i j\n",
    "prefetch_trip t0 i 8\ntranspose i j\nword j\n",
    "split 0.0 4 -> io ii\nvec 1.1\npar 1.0\n",
    "split 0.2 2\naccumulate 0:2 0.1\nswap 0.1 1.0\nunroll 1.1\n",
};
static const char *const option_texts[] = {
    "train\n--text\nfile\n--steps=20\n--lr\n0.5\n--json\n",
    "train\n--seed\n9000000000000000\n--help\n",
    "Qdebug\nkmf\n",
    "Qthreads\n3\n",
    "Qfuse\n0\n",
    "Qwisdom\noff\n",
    "Qtune\n10\n",
};
static const char *const grammar_texts[] = {
    "root ::= item+ # lines\nitem ::= \"- \" [^\\n\\u00e9]{1,80} \"\\n\"\n",
    "root ::= e\ne ::= t (\"+\" t)*\nt ::= f (\"*\" f)*\nf ::= \"(\" e \")\" | [0-9]+\n",
    "root ::= s \".\"\ns ::= \"a\" s \"b\" | \"a\" s \"c\" | (\"d\"? | .)? x{0,3}\nx ::= y "
    "|\n\"x\"\ny ::= "
    "\"\\U0001F600\" | \"\"\n",
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\",\"minimum\":-12,\"maximum\":"
    "120},"
    "\"b\":{\"enum\":[\"x\",1.5,null,{\"k\":[]}]},\"c\":{\"$ref\":\"#\"}},\"required\":[\"b\"],"
    "\"additionalProperties\":{\"type\":[\"string\",\"null\"],\"maxLength\":4}}",
    "{\"$defs\":{\"n\":{\"anyOf\":[{\"type\":\"null\"},{\"type\":\"array\",\"items\":{\"$ref\":"
    "\"#/$defs/n\"},\"maxItems\":3}]}},\"type\":\"array\",\"prefixItems\":[{\"$ref\":\"#/$defs/"
    "n\"},"
    "{\"type\":\"number\",\"exclusiveMinimum\":-0.25,\"maximum\":10.5}],\"items\":false,"
    "\"minItems\":1}",
    "{\"oneOf\":[{\"type\":\"string\",\"pattern\":\"^[A-Z]{2}-\\\\d+(?:a|\\\\.)?$\"},{\"allOf\":[{"
    "\"type\":"
    "\"object\",\"properties\":{\"k\":{\"const\":1}},\"required\":[\"k\"]},{\"title\":\"t\"}]},{"
    "\"type\":"
    "\"boolean\",\"nullable\":true}]}",
};
static const char *const words[] = {
    "f32",
    "f64",
    "i32",
    "i64",
    "u8",
    "bool",
    "bf16",
    "f16",
    "read",
    "write",
    "inplace",
    "nontemporal",
    "prefetch_distance",
    "prefetch",
    "arg",
    "local",
    "reg",
    "dim",
    "table",
    "kernel",
    "for",
    "par",
    "vec",
    "unroll",
    "thread",
    "word",
    "def",
    "let",
    "x0",
    "x1",
    "barrier",
    "prefetch_next",
    "valid",
    "dyn",
    "guard",
    "min",
    "max",
    "and",
    "add",
    "sub",
    "mul",
    "div",
    "mod",
    "floor_div",
    "shl",
    "shr",
    "where",
    "fma",
    "lt",
    "le",
    "eq",
    "ne",
    "or",
    "xor",
    "not",
    "cast:i32",
    "cast:f32",
    "bitcast:f32",
    "exp",
    "log",
    "sqrt",
    "tanh",
    "erf",
    "pow",
    "maximum",
    "lookup",
    "idx",
    "c0",
    "a0",
    "a1",
    "a2",
    "t0",
    "t1",
    "i",
    "j",
    "k",
    "n",
    "io",
    "ii",
    "+=",
    "*=",
    "max=",
    "&=",
    "argmax=",
    "=",
    "inf",
    "-inf",
    "nan",
    "0.1",
    "1.0",
    "2.1",
    "0:2",
    "split",
    "merge",
    "swap",
    "pad",
    "peel",
    "align",
    "trim",
    "serial",
    "accumulate",
    "accumulate_through",
    "rfactor",
    "tree_reduce",
    "block_reduction",
    "privatize",
    "spill",
    "hoist",
    "prefetch_trip",
    "transpose",
    "fission",
    "fuse",
    "online",
    "shift",
    "fold_storage",
    "transform_layout",
    "stage",
    "->",
    "+",
    "schedule",
    "seen",
    "ratio",
    "end",
    "sum",
    "same",
    "done",
    "open",
    "dtype",
    "shape",
    "data_offsets",
    "F32",
    "I8",
    "__metadata__",
    "true",
    "null",
    "--steps",
    "--lr",
    "--json",
    "--help",
    "cpu",
    "on",
    "off",
};
/* ---- kinds ---------------------------------------------------------------------------------- */

static inline void some_json(bytes *b) {
    take(b, json_texts[below(COUNT_OF(json_texts))]);
    mutate(b, &CORPUS(json_texts, words));
}

static inline void some_file(bytes *b) {
    take(b, file_texts[below(COUNT_OF(file_texts))]);
    if (chance(80)) mutate(b, &CORPUS(file_texts, words));
    uint64_t size = b->n;
    static const size_t usual[] = {28, 10, 0, 32};
    size_t data = usual[below(COUNT_OF(usual))];
    uint8_t zeros[64] = {0};
    if (chance(10)) size = (uint64_t)below(200);
    if (chance(3)) size = test_rand(&rng);
    if (chance(20)) data = (size_t)below(64);
    put(b, 0, 0, &size, sizeof size);
    put(b, b->n, 0, zeros, data);
    if (chance(5)) change_bytes(b);
}

/* Two records, whose numbers follow from the seed. */
static inline void wisdom_text(bytes *b) {
    static const char *const lines[] = {"", "split i 4\n", "split i 4 -> a b\nvec b\npar a\n"};
    wisdom w;
    str s;
    wisdom_open(&w, &ctx->heap);
    str_open(&s, &ctx->heap);
    uint32_t seen[20];
    for (int i = 0; i < 20; i++) seen[i] = (uint32_t)test_rand(&rng);
    for (int64_t n = below(3); n >= 0; n--) {
        wisdom_record r = {.key = {{test_rand(&rng), 2}, 3, 4, below(3)},
                           .family = test_rand(&rng),
                           .round = 1,
                           .tried = below(1000),
                           .spent = 1.5,
                           .ratio = 0.5,
                           .done = chance(50),
                           .seens = (uint32_t)below(20),
                           .seen = seen,
                           .name = "mul[512, 512]",
                           .place = "cpu here, quern 0.1.0",
                           .schedule = lines[below(3)]};
        wisdom_add(ctx, &w, &r);
    }
    wisdom_print(&w, &s);
    take(b, s.s);
    str_free(&s);
    wisdom_free(&w);
}

/* The hashes of what is there now. */
static inline void wisdom_sums(bytes *b) {
    char line[64];
    size_t record = line_end(b, 0); /* behind the heading */
    unsigned count = 0;
    for (size_t at = 0; at < b->n; at = line_end(b, at)) {
        if (record > at) record = at;
        bool sum = b->n - at > 4 && !memcmp(b->at + at, "sum ", 4);
        bool end = b->n - at > 4 && !memcmp(b->at + at, "end ", 4);
        if (sum)
            snprintf(line, sizeof line, "sum %016" PRIx64 "\n",
                     hash_bytes(b->at + record, at - record, 11));
        if (end)
            snprintf(line, sizeof line, "end %u %016" PRIx64 "\n", count,
                     hash_bytes(b->at, at, 12));
        if (!sum && !end) continue;
        put(b, at, line_end(b, at) - at, line, strlen(line));
        count += sum;
        record = line_end(b, at);
    }
}

static inline void some_wisdom(bytes *b) {
    static const char *const parts[] = {"schedule 3\n", "seen 9\n", "threads 2\n"};
    wisdom_text(b);
    mutate(b, &CORPUS(parts, words));
    if (chance(75)) wisdom_sums(b);
}

/* One of the corpus, or one made at random. */
static inline void kernel_text(bytes *b) {
    if (chance(60)) {
        take(b, kernel_texts[below(COUNT_OF(kernel_texts))]);
        return;
    }
    subject s;
    str text;
    uint64_t kept = test_rand(&rng);
    make(&s, kept);
    rng = kept ^ 0x5bd1e995;
    str_open(&text, &ctx->heap);
    ir_print(s.k, &text);
    if (text.len < MUTATE_ROOM / 2) take(b, text.s);
    str_free(&text);
    ir_close(s.k);
}

static inline void some_kernel(bytes *b) {
    kernel_text(b);
    if (chance(95)) mutate(b, &CORPUS(kernel_texts, words));
}

/* Lines that suit no kernel in particular, changed; loops have the corpus' names. */
static inline void some_lines(bytes *b) {
    take(b, line_texts[below(COUNT_OF(line_texts))]);
    for (int64_t n = below(3); n > 0; n--) {
        const char *more = line_texts[below(COUNT_OF(line_texts))];
        put(b, chance(50) ? b->n : 0, 0, more, strlen(more));
    }
    if (chance(90)) mutate(b, &CORPUS(line_texts, words));
}

static inline void some_schedule_input(bytes *b) {
    uint8_t which = (uint8_t)below(256);
    some_lines(b);
    put(b, 0, 0, &which, 1);
}

static inline void some_options(bytes *b) {
    take(b, option_texts[below(COUNT_OF(option_texts))]);
    mutate(b, &CORPUS(option_texts, words));
}

static inline void some_recording(bytes *b) {
    take(b, recording_texts[below(COUNT_OF(recording_texts))]);
    mutate(b, &CORPUS(recording_texts, words));
}

static inline void some_grammar(bytes *b) {
    take(b, grammar_texts[below(COUNT_OF(grammar_texts))]);
    if (chance(95)) mutate(b, &CORPUS(grammar_texts, words));
}

/* A schedule made for the kernel, line by line. */
static inline void lines_for(bytes *b, str *out) {
    subject s = {.args = 3};
    str why;
    b->at[b->n] = 0;
    s.k = ir_read(ctx, (const char *)b->at, b->n, 1);
    fuzz_forget(ctx);
    if (!s.k) return;
    str_open(&why, &ctx->heap);
    for (int64_t tries = below(30); tries > 0; tries--) {
        char line[256];
        if (!ir_s(s.k, s.k->root)->first) break;
        some_line(&s, s.k, line);
        str_free(&why);
        if (transform_line(s.k, line, &why)) str_addf(out, "%s\n", line);
    }
    str_free(&why);
    ir_close(s.k);
}

static inline void some_run(bytes *b) {
    str lines;
    kernel_text(b);
    if (chance(60)) mutate(b, &CORPUS(kernel_texts, words));
    if (b->n > MUTATE_ROOM / 2) b->n = MUTATE_ROOM / 2;
    str_open(&lines, &ctx->heap);
    lines_for(b, &lines);
    put(b, b->n, 0, "\n%\n", 3);
    if (lines.len) put(b, b->n, 0, lines.s, lines.len);
    str_free(&lines);
}

#endif
