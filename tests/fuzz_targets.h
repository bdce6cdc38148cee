/* fuzz_targets.h - what is done with bytes from anywhere, one function for each kind of input, for
 * fuzz_parse (mutation by seed) and cover_parse (libFuzzer): of what the compiler and the command
 * read; other rooms' kinds stand in their folders (fuzz_kinds.h has the list).
 *
 * A target takes any bytes. What it must not do is crash, hang or leak, which the sanitizers, the
 * caller's clock and the heap's count see; and what it accepts must be what it says:
 *
 *   json         a tree whose texts are UTF-8 and whose members are found by their names
 *   safetensors  a file through qn_file_open; every tensor of it can be read, or says why not
 *   wisdom       what was read prints, and reads, as the same
 *   kernel       text that is sound prints, and reads, as the same
 *   schedule     the first byte chooses a kernel, the rest are lines; what is accepted leaves it
 *                sound, what is refused as it was
 *   options      arguments one a line, the first naming a command or a knob
 *   grammar      a grammar, or a JSON schema where it begins with a bracket; a place from which a
 *                text may go on has a byte that does, and one text leads to the same place twice
 *   recording    calls of a program, made on device ref, some on null, with little memory
 *   interp       kernel text, a line "%", schedule lines: what is sound never leaves its memories
 *                when the interpreter runs it, also with loops run as their kinds allow, and what
 *                holds no floating sums gives the same under the schedule to the bit
 *   llvm         the same text compiled and run, against the interpreter */
#ifndef QN_FUZZ_TARGETS_H
#define QN_FUZZ_TARGETS_H

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/options.c" /* the command is no part of the library */
#include "cli/replay.h"
#include "dev/cpu/cpu.h"
#include "io/io.h"
#include "llm/grammar/match.h"
#include "records.h"
#include "run/run.h"
#include "schedule/schedule.h"
#include "schedule/search/script.h"
#include "schedule/wisdom/wisdom.h"
#include "transform/transform.h"

#include "fuzz.h"
#include "ir_interp.h"

enum {
    FUZZ_ARGS = 16,
    FUZZ_DIMS = 8,
    FUZZ_PARAMS = 64,
    FUZZ_ELEMENTS = 20000,
    FUZZ_STEPS = 200000
};

/* ---- json ----------------------------------------------------------------------------------- */

static inline void fuzz_walk(const json *v, int depth) {
    int64_t number;
    json_int(v, &number);
    if (depth > 70) FOUND("json nests deeper than it may");
    if (v->kind == JSON_STRING && !json_utf8(v->text, v->text_size)) FOUND("a text is not UTF-8");
    for (const json *m = v->first; m; m = m->next) {
        if (v->kind == JSON_OBJECT && strlen(m->key) == m->key_size && json_member(v, m->key) != m)
            FOUND("a member is not found by its name");
        fuzz_walk(m, depth + 1);
    }
}

static inline void fuzz_json(const uint8_t *data, size_t size) {
    json_fault fault;
    arena a;
    arena_open(&a, &fuzz_plain()->heap);
    const json *v = json_parse(&a, (const char *)data, size, &fault);
    if (v) fuzz_walk(v, 0);
    if (!v && fault.at > size) FOUND("a fault behind the end");
    fuzz_seen.accepted += v != NULL;
    arena_free(&a);
}

/* ---- safetensors ---------------------------------------------------------------------------- */

static inline void fuzz_safetensors(const uint8_t *data, size_t size) {
    static qn_ctx *qn;
    static fuzz_file file;
    if (!qn) qn = qn_open(&QN_OPTIONS(.device = "ref", .threads = 1));
    uint64_t before = qn->heap.bytes;
    qn_scope s = qn_scope_begin(qn);
    qn_file *f = qn_file_open(qn, fuzz_file_set(&file, data, size));
    if (!f && qn_error_code(qn) != QN_EFORMAT) FOUND("refused by code %d", qn_error_code(qn));
    for (int i = 0; i < qn_file_count(f) && i < 8; i++) {
        qn_clear_error(qn);
        qn_tensor *t = qn_file_tensor(f, qn_file_name(f, i));
        if (!t && qn_error_code(qn) != QN_EFORMAT) FOUND("no tensor: %s", qn_error(qn));
        if (t && qn_numel(t) < 0) FOUND("a tensor of no size");
    }
    qn_file_text(f, "format");
    fuzz_seen.accepted += f != NULL;
    qn_file_close(f);
    qn_scope_end(qn, s);
    qn_clear_error(qn);
    if (fuzz_seen.inputs > 4096 && qn->heap.bytes > before + (1 << 20)) FOUND("memory is kept");
}

/* ---- wisdom --------------------------------------------------------------------------------- */

static inline void fuzz_wisdom(const uint8_t *data, size_t size) {
    qn_ctx *qn = fuzz_plain();
    wisdom w, again;
    str one, two;
    wisdom_open(&w, &qn->heap);
    wisdom_open(&again, &qn->heap);
    str_open(&one, &qn->heap);
    str_open(&two, &qn->heap);
    if (wisdom_parse(qn, "text", (const char *)data, size, &w)) {
        fuzz_seen.accepted++;
        wisdom_print(&w, &one);
        if (!wisdom_parse(qn, "text", one.s, one.len, &again)) FOUND("%s", qn->error);
        wisdom_print(&again, &two);
        if (strcmp(one.s, two.s) != 0) FOUND("wisdom does not come back");
    } else if (qn->code != QN_EFORMAT) {
        FOUND("refused by code %d", qn->code);
    }
    fuzz_forget(qn);
    str_free(&one);
    str_free(&two);
    wisdom_free(&w);
    wisdom_free(&again);
}

/* ---- kernels -------------------------------------------------------------------------------- */

static inline void fuzz_same_text(kernel *k) {
    qn_ctx *qn = k->ctx;
    str one, two;
    str_open(&one, &qn->heap);
    str_open(&two, &qn->heap);
    ir_print(k, &one);
    kernel *again = ir_parse(qn, one.s);
    if (!again) FOUND("does not parse again: %s in\n%s", qn->error, one.s);
    ir_print(again, &two);
    if (strcmp(one.s, two.s) != 0) FOUND("prints\n%s and then\n%s", one.s, two.s);
    ir_close(again);
    str_free(&one);
    str_free(&two);
}

/* NULL: it is refused, as it should be with an error. */
static inline kernel *fuzz_read(qn_ctx *qn, const uint8_t *data, size_t size) {
    kernel *k = ir_read(qn, (const char *)data, size, 1);
    if (!k && qn->code != QN_EFORMAT) FOUND("refused by code %d: %s", qn->code, qn->error);
    if (!k && !strstr(qn->error, "kernel text, ")) FOUND("an error of no text: %s", qn->error);
    fuzz_forget(qn);
    fuzz_seen.accepted += k != NULL;
    return k;
}

static inline void fuzz_kernel(const uint8_t *data, size_t size) {
    kernel *k = fuzz_read(fuzz_plain(), data, size);
    if (k) fuzz_same_text(k);
    ir_close(k);
}

/* ---- schedules ------------------------------------------------------------------------------ */

/* The kernels that lines are applied to; fuzz_parse gives them. */
static const char *const *fuzz_kernels;
static int fuzz_kernel_count;

/* A clone; its original is made anew now and then, since both share symbols, which only grow. */
static inline kernel *fuzz_clone(int i) {
    static kernel *kept[64];
    static int uses[64];
    if (kept[i] && uses[i]++ > 100) {
        ir_close(kept[i]);
        kept[i] = NULL;
        uses[i] = 0;
    }
    if (!kept[i]) kept[i] = ir_read(fuzz_plain(), fuzz_kernels[i], strlen(fuzz_kernels[i]), 1);
    if (!kept[i]) FOUND("the corpus' kernel %d: %s", i, fuzz_plain()->error);
    return ir_clone(kept[i]);
}

static inline char *fuzz_lines(const uint8_t *data, size_t size) {
    char *lines = malloc(size + 1);
    memcpy(lines, data, size);
    lines[size] = 0;
    return lines;
}

static inline void fuzz_schedule(const uint8_t *data, size_t size) {
    qn_ctx *qn = fuzz_plain();
    if (!size) return;
    kernel *k = fuzz_clone(data[0] % fuzz_kernel_count);
    char *lines = fuzz_lines(data + 1, size - 1);
    str why, before, after;
    str_open(&why, &qn->heap);
    str_open(&before, &qn->heap);
    str_open(&after, &qn->heap);
    ir_print(k, &before);
    bool handles = data[0] >= 128; /* loops may be handles, too, as wisdom's are */
    int applied = handles ? script_apply(k, lines, &why) : transform_lines(k, lines, &why);
    if (applied < 0) {
        ir_print(k, &after);
        if (strcmp(before.s, after.s) != 0) FOUND("a refused schedule changed it to\n%s", after.s);
        if (!why.len) FOUND("refused without a reason");
    } else if (applied > 0) {
        fuzz_seen.accepted++;
        fuzz_seen.lines += (uint64_t)applied;
        if (!ir_check(k, &why)) FOUND("not sound any more: %s", why.s);
        fuzz_same_text(k);
    }
    str_free(&why);
    str_free(&before);
    str_free(&after);
    free(lines);
    ir_close(k);
}

/* ---- options -------------------------------------------------------------------------------- */

typedef struct fuzz_values {
    const char *text;
    int64_t whole;
    double number;
    bool flag;
    uint64_t end;
} fuzz_values;

static const option fuzz_option_rows[] = {
    {"text", OPTION_TEXT, offsetof(fuzz_values, text), 0, 0, "FILE", "a text"},
    {"steps", OPTION_WHOLE, offsetof(fuzz_values, whole), 1, 1e9, "N", "a whole number"},
    {"seed", OPTION_WHOLE, offsetof(fuzz_values, whole), 0, 9e15, "N", "a large one"},
    {"lr", OPTION_NUMBER, offsetof(fuzz_values, number), 0, 10, "X", "a number"},
    {"json", OPTION_FLAG, offsetof(fuzz_values, flag), 0, 0, NULL, "a flag"},
};

static inline void fuzz_knob(qn_ctx *qn, const char *name, const char *value) {
    bool fine = qn_set(qn, name, value) == QN_OK;
    if (!fine && !qn_error(qn)[0]) FOUND("a knob is refused without a reason");
    fuzz_seen.accepted += fine;
    qn_clear_error(qn);
}

static inline void fuzz_options(const uint8_t *data, size_t size) {
    static qn_ctx *qn;
    char *text = fuzz_lines(data, size), *argv[64];
    int argc = 0;
    if (!qn) qn = qn_open(&QN_OPTIONS(.device = "null", .threads = 1));
    for (char *p = text; p <= text + size && argc < 63; p += strlen(p) + 1) {
        p[strcspn(p, "\n")] = 0;
        argv[argc++] = p;
    }
    argv[argc] = NULL;
    fuzz_values v = {.whole = 1, .number = 1, .end = 0x5a5a5a5a};
    option_mistake m;
    if (size && text[0] == 'Q' && argc >= 2) {
        fuzz_knob(qn, argv[0] + 1, argv[1]);
    } else {
        const option_set set = {"fuzz", "", fuzz_option_rows, COUNT_OF(fuzz_option_rows)};
        const char *file[3] = {NULL, NULL, NULL};
        int status =
            options_read(&set, (option_files){"IN [OUT]", file}, argc - 1, argv + 1, &v, &m);
        if (file[2] || (file[1] && !file[0]) || (status == -1 && !file[0]))
            FOUND("a file in a place that is not its own");
        if (status == EXIT_USAGE && (!m.what || !m.argument)) FOUND("a mistake without a name");
        if (v.whole < 0 || v.whole > 9000000000000000 || !(v.number >= 0 && v.number <= 10))
            FOUND("a number out of range");
        fuzz_seen.accepted += status == -1 && argc > 1;
    }
    if (v.end != 0x5a5a5a5a) FOUND("more was written than there is");
    free(text);
}

/* ---- recordings ------------------------------------------------------------------------------ */

enum { FUZZ_MEMORY = 1 << 25 };

/* A recording's memory, at most FUZZ_MEMORY of it. Objects that no line gives back stay when it is
 * closed, as in any program: what is left is freed by fuzz_memory_close. */
typedef struct fuzz_block {
    _Alignas(64) struct fuzz_block *next, *prev;
} fuzz_block;

typedef struct fuzz_heap {
    fuzz_block *first;
    size_t bytes;
} fuzz_heap;

static inline void *fuzz_memory(void *user, size_t size, size_t align) {
    fuzz_heap *h = user;
    size_t whole = (sizeof(fuzz_block) + size + align - 1) / align * align;
    if (size > FUZZ_MEMORY || h->bytes + size > FUZZ_MEMORY || align > sizeof(fuzz_block))
        return NULL;
    fuzz_block *b = aligned_alloc(align, whole);
    if (!b) return NULL;
    *b = (fuzz_block){.next = h->first};
    if (b->next) b->next->prev = b;
    h->first = b;
    h->bytes += size;
    return b + 1;
}

static inline void fuzz_memory_free(void *user, void *p, size_t size) {
    fuzz_heap *h = user;
    if (!p) return;
    fuzz_block *b = (fuzz_block *)p - 1;
    if (b->prev) b->prev->next = b->next;
    if (b->next) b->next->prev = b->prev;
    if (h->first == b) h->first = b->next;
    h->bytes -= size < h->bytes ? size : h->bytes;
    free(b);
}

static inline void fuzz_memory_close(fuzz_heap *h) {
    while (h->first) fuzz_memory_free(h, h->first + 1, 0);
}

static inline void fuzz_quiet(void *user, const char *line) {
    (void)user, (void)line;
}

static inline void fuzz_recording(const uint8_t *data, size_t size) {
    fuzz_heap held = {.first = NULL};
    qn_options context = QN_OPTIONS(.alloc = fuzz_memory, .free = fuzz_memory_free,
                                    .alloc_user = &held, .log = fuzz_quiet);
    /* What kernels a plan has is no matter of a recording: most are evaluated node by node. */
    const char *device = hash_bytes(data, size, 2) % 32 ? "ref" : "null";
    replay_options options = {device, -1, &context};
    char *text = fuzz_lines(data, size);
    static replay r;
    bool good = replay_text(&r, text, size, &options);
    if (!good && !*r.why) FOUND("a recording is refused without a reason");
    if (good && r.differences && !*r.first) FOUND("a difference is not named");
    fuzz_seen.accepted += good;
    fuzz_seen.lines += r.calls;
    replay_close(&r);
    fuzz_memory_close(&held);
    free(text);
}

/* ---- grammars -------------------------------------------------------------------------------- */

typedef struct fuzz_grammar_call {
    span text;
    uint64_t seed;
    automaton *m;
} fuzz_grammar_call;

static inline void fuzz_grammar_work(void *arg) {
    fuzz_grammar_call *c = arg;
    char text[48];
    size_t n = 0;
    bool is_schema = c->text.n && strchr("{[ ", c->text.s[0]);
    automaton_make(&c->m, fuzz_plain(), is_schema, c->text);
    fuzz_seen.accepted++;
    match_ready(c->m);
    text_place p = PLACE_BEGIN;
    for (; n < sizeof text && match_may_go_on(c->m, p); n++) {
        uint32_t from = (uint32_t)test_rand(&c->seed), tries = 0;
        text_place to = PLACE_NOWHERE;
        for (; tries < 256 && to == PLACE_NOWHERE; tries++)
            to = match_byte(c->m, p, (uint8_t)(text[n] = (char)(from + tries)));
        if (to == PLACE_NOWHERE) FOUND("a text that goes on by no byte");
        p = to;
    }
    if (!match_may_go_on(c->m, p) && !match_may_end(c->m, p)) FOUND("a text leads nowhere");
    bool end = match_may_end(c->m, p);
    match_forget(c->m);
    match_ready(c->m);
    p = match_bytes(c->m, PLACE_BEGIN, text, n);
    if (p == PLACE_NOWHERE || match_may_end(c->m, p) != end) FOUND("a text is not the same twice");
    fuzz_seen.compared++;
}

static inline void fuzz_grammar(const uint8_t *data, size_t size) {
    qn_ctx *qn = fuzz_plain();
    fuzz_grammar_call c = {{(const char *)data, size}, hash_bytes(data, size, 3), NULL};
    uint64_t before = qn->heap.bytes;
    qn_code code = guarded(qn, fuzz_grammar_work, &c);
    if (code && code != QN_EFORMAT && code != QN_ERANGE) FOUND("refused by code %d", code);
    if (code && !strstr(qn->error, "grammar") && !strstr(qn->error, "schema"))
        FOUND("refused as %s", qn->error);
    automaton_drop(c.m);
    fuzz_forget(qn);
    if (qn->heap.bytes != before) FOUND("memory is kept");
}

/* ---- running -------------------------------------------------------------------------------- */

typedef struct fuzz_run {
    kernel *k;
    int64_t dim[FUZZ_DIMS + FUZZ_PARAMS], count[FUZZ_ARGS];
    uint8_t dtype[FUZZ_ARGS];
    size_t bytes;
} fuzz_run;

static inline void fuzz_fill(int d, void *p, int64_t n, uint64_t *seed) {
    static const int64_t odd[] = {INT64_MAX, INT64_MIN, INT64_MAX - 1, -1, INT32_MAX, 1 << 20};
    static const double strange[] = {NAN, INFINITY, -INFINITY, -0.0, 1e30, 1e-40};
    for (int64_t i = 0; i < n; i++) {
        bool rare = !test_below(seed, 16);
        double f = rare ? strange[test_below(seed, 6)] : (double)(test_below(seed, 33) - 16) / 8;
        int64_t v = rare ? odd[test_below(seed, 6)] : test_below(seed, 24) - 2;
        if (dtype_is_float(d))
            dtype_set_f((qn_dtype)d, p, i, f);
        else
            dtype_set_i((qn_dtype)d, p, i, v);
    }
}

/* Sizes for a run that is not too much; false: there are none. */
static inline bool fuzz_sizes(fuzz_run *r, kernel *k, uint64_t *seed) {
    int64_t elements = 0;
    *r = (fuzz_run){.k = k};
    if (k->args > FUZZ_ARGS || k->dim_vars > FUZZ_DIMS || k->params > FUZZ_PARAMS) return false;
    for (uint32_t i = 0; i < k->params; i++)
        r->dim[k->dim_vars + (int)i] = scalar_to_word((qn_dtype)k->param[i], test_rand(seed) >> 1);
    for (int i = 0; i < k->dim_vars; i++) {
        int64_t lo = sym_lo(k->syms, k->dim_var[i]), hi = sym_hi(k->syms, k->dim_var[i]);
        int64_t room = hi - lo > 9 ? 10 : hi - lo + 1;
        r->dim[i] = lo + test_below(seed, room);
    }
    for (mem_id m = 1; m < k->mems; m++) {
        const ir_memory *x = ir_m(k, m);
        int64_t n;
        if (!sym_eval(k->syms, x->size, k->dim_vars, k->dim_var, r->dim, &n)) return false;
        if (n < 0 || n > FUZZ_ELEMENTS || (elements += n) > FUZZ_ELEMENTS) return false;
        if (x->scope != MEM_ARG) continue;
        r->count[x->arg] = n;
        r->dtype[x->arg] = x->dtype;
    }
    return true;
}

static inline void fuzz_buffers(const fuzz_run *r, uint64_t seed, void *out[FUZZ_ARGS]) {
    for (int a = 0; a < r->k->args; a++) {
        out[a] = malloc((size_t)r->count[a] * 8 + 8);
        fuzz_fill(r->dtype[a], out[a], r->count[a], &seed);
    }
}

/* false: too long. Any other error is a finding: the kernel was said to be sound. */
static inline bool fuzz_interp_once(const fuzz_run *r, kernel *k, bool kinds, uint8_t spoil,
                                    uint64_t seed, void *out[FUZZ_ARGS]) {
    char error[200];
    fuzz_buffers(r, seed, out);
    if (interp_run_most(k, kinds, r->dim, out, FUZZ_STEPS, spoil, error)) return true;
    if (!strstr(error, INTERP_LONG)) FOUND("a sound kernel does this: %s", error);
    return false;
}

static inline void fuzz_release(const fuzz_run *r, void *out[FUZZ_ARGS]) {
    for (int a = 0; a < r->k->args; a++) free(out[a]);
}

static inline bool fuzz_same_number(int d, const void *a, const void *b, int64_t i) {
    if (!dtype_is_float(d)) return dtype_get_i((qn_dtype)d, a, i) == dtype_get_i((qn_dtype)d, b, i);
    double x = dtype_get_f((qn_dtype)d, a, i), y = dtype_get_f((qn_dtype)d, b, i);
    return (isnan(x) && isnan(y)) || (x == y && signbit(x) == signbit(y));
}

static inline bool fuzz_equal(const fuzz_run *r, void *const *x, void *const *y, int *arg,
                              int64_t *at) {
    for (*arg = 0; *arg < r->k->args; ++*arg)
        for (*at = 0; *at < r->count[*arg]; ++*at)
            if (!fuzz_same_number(r->dtype[*arg], x[*arg], y[*arg], *at)) return false;
    return true;
}

/* Floating sums and products depend on their order; so does what a zero's sign or a NaN's order
 * decides: bits are only compared where there is none. */
static inline bool fuzz_ordered(const kernel *k) {
    for (stmt_id s = k->root; s; s = ir_next(k, s, k->root)) {
        const ir_stmt *t = ir_s(k, s);
        if (t->kind == STMT_STORE && t->monoid != MONOID_SET &&
            dtype_is_float(ir_m(k, t->store.mem[0])->dtype))
            return true;
    }
    return false;
}

/* What it leaves does not depend on elements that were never stored. */
static inline bool fuzz_defined(const fuzz_run *r, kernel *k, uint64_t seed) {
    void *x[FUZZ_ARGS], *y[FUZZ_ARGS];
    int arg;
    int64_t at;
    bool ran = fuzz_interp_once(r, k, false, 0xff, seed, x);
    ran &= fuzz_interp_once(r, k, false, 0x02, seed, y);
    bool same = ran && fuzz_equal(r, x, y, &arg, &at);
    fuzz_release(r, x);
    fuzz_release(r, y);
    return same;
}

static inline void fuzz_compare(const fuzz_run *r, kernel *a, kernel *b, bool kinds,
                                uint64_t seed) {
    void *x[FUZZ_ARGS], *y[FUZZ_ARGS];
    int arg;
    int64_t at;
    bool ran = fuzz_interp_once(r, a, false, 0xff, seed, x);
    ran &= fuzz_interp_once(r, b, kinds, 0xff, seed, y);
    if (ran && !fuzz_equal(r, x, y, &arg, &at)) {
        str text;
        str_open(&text, &b->ctx->heap);
        ir_print(b, &text);
        FOUND("a%d[%lld] differs in\n%s", arg, (long long)at, text.s);
    }
    fuzz_release(r, x);
    fuzz_release(r, y);
    fuzz_seen.compared += ran;
}

/* The model's own schedule, and its price. */
static inline int fuzz_default(kernel *k, uint64_t seed) {
    static const machine of[] = {RECORD(64, 32, 32 << 10, 1 << 20, 8 << 20, 2, 0, 0, 7),
                                 RECORD(16, 16, 32 << 10, 0, 0, 1, 0, 0, 7),
                                 RECORD(16, 16, 0, 0, 0, 1, 8, 1 << 12, 0)};
    const machine limits = record(of[seed % COUNT_OF(of)]);
    str lines;
    str_open_in(&lines, &k->arena);
    schedule_default(k, &limits, &lines);
    int n = lines.len ? transform_lines(k, lines.s, NULL) : 0;
    schedule_price_of(k, &limits);
    return n;
}

static inline void fuzz_interp(const uint8_t *data, size_t size) {
    size_t end = fuzz_divide(data, size);
    kernel *k = fuzz_read(fuzz_plain(), data, end);
    uint64_t seed = hash_bytes(data, size, 1);
    fuzz_run r;
    if (k && fuzz_sizes(&r, k, &seed) && fuzz_defined(&r, k, seed)) {
        kernel *after = ir_clone(k);
        char *lines =
            fuzz_lines(data + (end < size ? end + 2 : end), end < size ? size - end - 2 : 0);
        int n = seed % 4 ? transform_lines(after, lines, NULL) : fuzz_default(after, seed >> 8);
        if (n > 0) fuzz_seen.lines += (uint64_t)n;
        ir_place_barriers(after);
        if (fuzz_ordered(k)) {
            void *x[FUZZ_ARGS];
            fuzz_seen.compared += fuzz_interp_once(&r, after, true, 0xff, seed, x);
            fuzz_release(&r, x);
        } else {
            fuzz_compare(&r, k, after, true, seed);
        }
        free(lines);
        ir_close(after);
    }
    ir_close(k);
}

/* ---- llvm ----------------------------------------------------------------------------------- */

enum { FUZZ_GUARD = 128 };

static inline void fuzz_launch(const fuzz_run *r, kernel *k, void *device, uint64_t seed,
                               void *const *want) {
    void *got[FUZZ_ARGS], *data[FUZZ_ARGS];
    dev_slice slice[FUZZ_ARGS];
    int arg;
    int64_t at;
    fuzz_buffers(r, seed, data);
    for (int a = 0; a < k->args; a++) {
        size_t used = (size_t)r->count[a] * qn_dtype_size((qn_dtype)r->dtype[a]);
        size_t whole = (used + 63) / 64 * 64 + 2 * FUZZ_GUARD;
        uint8_t *p = aligned_alloc(64, whole);
        memset(p, 0xa5, whole);
        memcpy(p + FUZZ_GUARD, data[a], used);
        slice[a] = (dev_slice){p, FUZZ_GUARD, used};
        got[a] = p + FUZZ_GUARD;
    }
    dev_program *p = dev_cpu.compile(device, k);
    dev_set set = {.arg = slice, .var = r->dim};
    if (dev_cpu.launch(device, p, 1, &set)) FOUND("no launch: %s", qn_error(k->ctx));
    dev_cpu.unload(device, p);
    for (int a = 0; a < k->args; a++) {
        const uint8_t *q = slice[a].memory;
        for (size_t i = 0; i < FUZZ_GUARD; i++)
            if (q[i] != 0xa5 || q[FUZZ_GUARD + slice[a].size + i] != 0xa5)
                FOUND("writes past the ends of a%d", a);
    }
    if (want && !fuzz_equal(r, want, got, &arg, &at))
        FOUND("a%d[%lld] is %g, not %g", arg, (long long)at,
              dtype_get_f(r->dtype[arg], got[arg], at), dtype_get_f(r->dtype[arg], want[arg], at));
    fuzz_seen.compared += want != NULL;
    for (int a = 0; a < k->args; a++) free(slice[a].memory);
    fuzz_release(r, data);
}

static kernel *fuzz_open; /* so that what raises can be closed */

static inline void fuzz_compiled(qn_ctx *qn, void *device, const uint8_t *data, size_t size) {
    size_t end = fuzz_divide(data, size), begin = end < size ? end + 2 : end;
    kernel *k = fuzz_open = fuzz_read(qn, data, end);
    uint64_t seed = hash_bytes(data, size, 1);
    fuzz_run r;
    if (!k || !fuzz_sizes(&r, k, &seed) || !fuzz_defined(&r, k, seed)) return;
    char *lines = fuzz_lines(data + begin, size - begin);
    void *want[FUZZ_ARGS];
    int n = transform_lines(k, lines, NULL);
    if (n > 0) fuzz_seen.lines += (uint64_t)n;
    free(lines);
    run_passes(k);
    if (fuzz_interp_once(&r, k, false, 0xff, seed, want))
        fuzz_launch(&r, k, device, seed, fuzz_ordered(k) ? NULL : want);
    fuzz_release(&r, want);
}

static inline void fuzz_llvm(const uint8_t *data, size_t size) {
    static qn_ctx *qn;
    static void *device;
    if (!qn) {
        str why;
        setenv("QN_CPU", "llvm", 1); /* read when a context is opened */
        qn = qn_open(&QN_OPTIONS(.device = "ref", .threads = 2));
        str_open(&why, &qn->heap);
        device = dev_cpu.open(qn, &why);
        if (!device) printf("no llvm: %s\n", why.s ? why.s : "");
        str_free(&why);
    }
    if (!device) return;
    guard g;
    guard_open(&qn->heap, &g);
    if (!setjmp(g.at)) {
        fuzz_compiled(qn, device, data, size);
    } else {
        if (qn->code == QN_EINTERNAL) FOUND("%s", qn->error);
        fuzz_forget(qn);
    }
    guard_close(&qn->heap, &g);
    ir_close(fuzz_open);
    fuzz_open = NULL;
}

#endif
