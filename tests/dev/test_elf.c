/* test_elf.c - the object loader: what it loads runs, what is corrupt is refused or loads, and
 * nothing makes it read or write outside of what it was given. */
#include "emit_harness.h"

#include <elf.h>

static harness h;

static const char *const kernel_text =
    "kernel \"sums\" {\n dim n 1 4096\n arg a0 f32[n] read\n arg a1 f32[n] write\n local t0 "
    "f32[64]\n"
    " par i < (n + 15)/16 {\n def t0 = f32(1)\n vec v < min(16, n - 16*i) {\n"
    "  t0[v] += a0[16*i + v]\n a1[16*i + v] = mod(t0[v], f32(3))\n }\n }\n}\n";

/* Objects made by LLVM and by the C compiler. */
static bool make_object(const char *compiler, str *object) {
    str_open(object, NULL);
    if (!harness_open(&h, compiler, 1)) return false;
    str_open(object, &h.qn->heap);
    kernel *k = ir_parse(h.qn, kernel_text);
    guard g;
    guard_open(&h.qn->heap, &g);
    if (setjmp(g.at)) {
        guard_close(&h.qn->heap, &g);
        FAIL("%s", qn_error(h.qn));
        return false;
    }
    cpu_unit unit = {.k = k, .object = *object};
    str_open(&unit.key, &h.qn->heap);
    str_open(&unit.text, &h.qn->heap);
    cpu_compile(h.cpu, 1, &unit);
    *object = unit.object;
    str_free(&unit.key);
    str_free(&unit.text);
    guard_close(&h.qn->heap, &g);
    ir_close(k);
    return true;
}

static void drop_object(str *object) {
    if (object->h) str_free(object);
    harness_close(&h);
}

static const char *const names[] = {EMIT_KERNEL};

static code_store *pages(void) {
    return &((cpu *)h.cpu)->code;
}

/* The copy ends where its memory ends, so that a sanitizer sees reads past it. */
static const char *load_copy(const void *data, size_t size) {
    void *function[1], *copy = malloc(size ? size : 1);
    memcpy(copy, data, size);
    code_room room;
    const char *why = elf_load(pages(), &(elf_object){copy, size, 1, names}, function, &room);
    CHECK(why ? !room.slab : function[0] && room.slab);
    code_give(pages(), &room);
    free(copy);
    return why;
}

static void check_runs(const str *object) {
    void *function[1];
    code_room room;
    const char *why =
        elf_load(pages(), &(elf_object){object->s, object->len, 1, names}, function, &room);
    if (why) {
        FAIL("%s", why);
        return;
    }
    emit_kernel run;
    memcpy(&run, &function[0], sizeof run);
    float in[20], out[20];
    for (int i = 0; i < 20; i++) in[i] = (float)i;
    int64_t n = 20;
    _Alignas(64) uint8_t scratch[4096];
    void *args[2] = {in, out};
    run(args, &n, scratch, 1, 2);
    run(args, &n, scratch, 0, 1);
    for (int i = 0; i < 20; i++) CHECK(out[i] == fmodf((float)i + 1, 3));
    code_give(pages(), &room);
}

static void truncations_are_refused(const str *object) {
    for (size_t n = 0; n < object->len; n++)
        if (!load_copy(object->s, n)) FAIL("%zu of %u bytes load", n, object->len);
}

static void flipped_bits_load_or_are_refused(const str *object) {
    uint64_t seed = 7;
    int refused = 0;
    uint8_t *copy = malloc(object->len);
    for (int i = 0; i < 20000; i++) {
        memcpy(copy, object->s, object->len);
        for (int64_t flips = 1 + test_below(&seed, 4); flips; flips--)
            copy[test_below(&seed, object->len)] ^= (uint8_t)(1 << test_below(&seed, 8));
        refused += load_copy(copy, object->len) != NULL;
    }
    CHECK(refused > 1000);
    free(copy);
}

/* Every 4-byte word of headers, symbols and relocations replaced by numbers that hurt. */
static void hurtful_words_load_or_are_refused(const str *object) {
    static const uint32_t words[] = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 0xfffffff8, 0x1000};
    uint8_t *copy = malloc(object->len);
    for (size_t at = 0; at + 4 <= object->len; at += 4)
        for (size_t w = 0; w < COUNT_OF(words); w++) {
            memcpy(copy, object->s, object->len);
            memcpy(copy + at, &words[w], 4);
            load_copy(copy, object->len);
        }
    free(copy);
}

static void all_of(const char *compiler) {
    str object;
    if (!make_object(compiler, &object)) {
        SKIP("no such compiler");
    } else {
        check_runs(&object);
        truncations_are_refused(&object);
        flipped_bits_load_or_are_refused(&object);
        hurtful_words_load_or_are_refused(&object);
    }
    drop_object(&object);
}

static void objects_of_llvm_load(void) {
    all_of("llvm");
}

static void objects_of_cc_load(void) {
    all_of("cc");
}

/* ---- what a kernel may not contain ----------------------------------------------------------- */

static void refuses(const char *source, const char *reason) {
    str text, object;
    if (!harness_open(&h, "cc", 1)) {
        SKIP("no C compiler");
        return;
    }
    str_open(&text, &h.qn->heap);
    str_open(&object, &h.qn->heap);
    str_add(&text, source);
    guard g;
    guard_open(&h.qn->heap, &g);
    if (!setjmp(g.at)) {
        cpu_cc_job job = {.text = &text, .object = &object};
        cpu_cc_compile(h.qn, &(emit_isa){.cpu = NULL}, 1, &job, 1);
        CHECK_STR(job.code ? job.why : "", "");
        const char *why = load_copy(object.s, object.len);
        CHECK_STR(why ? why : "loads", reason);
    } else {
        FAIL("%s", qn_error(h.qn));
    }
    guard_close(&h.qn->heap, &g);
    str_free(&text);
    str_free(&object);
    harness_close(&h);
}

static void writable_data_is_refused(void) {
    refuses("static int calls; int kernel(void) { return ++calls; }",
            "the object has writable data");
}

static void thread_local_data_is_refused(void) {
    refuses("__thread int calls; int kernel(void) { return ++calls; }",
            "the object has thread-local data");
}

static void foreign_functions_are_refused(void) {
    refuses("int system(const char *); int kernel(void) { return system(\"true\"); }",
            "the object needs a function that kernels may not call");
}

static void missing_functions_are_refused(void) {
    refuses("int other(void) { return 0; }", "the object lacks the kernel's function");
    refuses("const int kernel = 1;", "the object lacks the kernel's function");
}

static void tables_of_addresses_are_relocated(void) {
    str text, object;
    if (!harness_open(&h, "cc", 1)) {
        SKIP("no C compiler");
        return;
    }
    str_open(&text, &h.qn->heap);
    str_open(&object, &h.qn->heap);
    str_add(&text, "static const char a[] = \"one\", b[] = \"two\";"
                   "static const char *const table[] = {a, b};"
                   "const char *kernel(int i) { return table[i]; }");
    cpu_cc_job job = {.text = &text, .object = &object};
    cpu_cc_compile(h.qn, &(emit_isa){.cpu = NULL}, 1, &job, 1);
    CHECK_STR(job.code ? job.why : "", "");
    void *function[1];
    code_room room;
    const char *why =
        elf_load(pages(), &(elf_object){object.s, object.len, 1, names}, function, &room);
    if (why) {
        FAIL("%s", why);
    } else {
        const char *(*pick)(int);
        memcpy(&pick, &function[0], sizeof pick);
        CHECK_STR(pick(0), "one");
        CHECK_STR(pick(1), "two");
    }
    code_give(pages(), &room);
    str_free(&text);
    str_free(&object);
    harness_close(&h);
}

/* ---- several kernels in one object ---------------------------------------------------------- */

enum { TOGETHER = 3, FLOATS = 4096 };

/* More than a page of code: a multiplication for every 16 elements. */
static kernel *long_kernel(int factor) {
    char text[400];
    snprintf(text, sizeof text,
             "kernel \"times%d\" {\n arg a0 f32[4096] read\n arg a1 f32[4096] write\n"
             " unroll u < 256 {\n vec v < 16 {\n"
             "  a1[16*u + v] = mul(a0[16*u + v], f32(%d))\n }\n }\n}\n",
             factor, factor);
    return ir_parse(h.qn, text);
}

static bool compile_units(int n, cpu_unit *unit) {
    guard g;
    guard_open(&h.qn->heap, &g);
    if (setjmp(g.at)) {
        guard_close(&h.qn->heap, &g);
        FAIL("%s", qn_error(h.qn));
        return false;
    }
    for (int i = 0; i < n; i++) {
        str_open(&unit[i].key, &h.qn->heap);
        str_open(&unit[i].text, &h.qn->heap);
        str_open(&unit[i].object, &h.qn->heap);
    }
    cpu_compile(h.cpu, n, unit);
    guard_close(&h.qn->heap, &g);
    return true;
}

static void free_units(int n, cpu_unit *unit) {
    for (int i = 0; i < n; i++) {
        str_free(&unit[i].key);
        str_free(&unit[i].text);
        str_free(&unit[i].object);
    }
}

/* The size of what is loaded, after checking that it multiplies by `factor`. */
static size_t check_times(const cpu_unit *u, float factor) {
    static float in[FLOATS], out[FLOATS];
    char name[EMIT_NAME];
    const char *one = name;
    const str *object = &u->holder->object;
    void *function, *args[] = {in, out};
    code_room room;
    emit_name(u->function, name);
    const char *why =
        elf_load(pages(), &(elf_object){object->s, object->len, 1, &one}, &function, &room);
    if (why) FAIL("%s", why);
    if (why) return 0;
    emit_kernel run;
    memcpy(&run, &function, sizeof run);
    for (int i = 0; i < FLOATS; i++) in[i] = (float)i;
    run(args, NULL, NULL, 0, 1);
    for (int i = 0; i < FLOATS; i++)
        if (out[i] != (float)i * factor) FAIL("%g, not %g", out[i], (float)i * factor);
    size_t size = room.text_size + room.data_size;
    code_give(pages(), &room);
    return size;
}

static void of_kernels_compiled_together_each_is_loaded_alone(void) {
    if (!harness_open(&h, "llvm", 1)) SKIP("no LLVM");
    cpu_unit many[TOGETHER] = {{0}}, one = {.k = long_kernel(3)};
    for (int i = 0; i < TOGETHER; i++) many[i].k = long_kernel(i + 3);
    if (compile_units(TOGETHER, many) && compile_units(1, &one)) {
        size_t alone = check_times(&one, 3);
        CHECK(one.object.len > 4096);
        for (int i = 0; i < TOGETHER; i++) {
            CHECK(many[i].holder == &many[0]);
            CHECK_INT(many[i].function, i);
            CHECK_INT(check_times(&many[i], (float)(i + 3)), alone);
        }
    }
    free_units(TOGETHER, many);
    free_units(1, &one);
    for (int i = 0; i < TOGETHER; i++) ir_close(many[i].k);
    ir_close(one.k);
    harness_close(&h);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(objects_of_llvm_load);
    RUN(objects_of_cc_load);
    RUN(writable_data_is_refused);
    RUN(thread_local_data_is_refused);
    RUN(foreign_functions_are_refused);
    RUN(missing_functions_are_refused);
    RUN(tables_of_addresses_are_relocated);
    RUN(of_kernels_compiled_together_each_is_loaded_alone);
    return test_end();
}
