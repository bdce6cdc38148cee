/* test_compile.c - compile_kernel, the way of every tree from its text to what is emitted: which
 * schedule it takes, that the steps which were chosen make the tree that their text makes, and that
 * what is refused is told. */
#include "run/run.h"
#include "schedule/wisdom/wisdom.h"
#include "test.h"

static const char product[] =
    "kernel \"product\" {\n  arg a0 f32[3072] write\n  reg t0 f32[1]\n  arg a1 f32[1920] read\n"
    "  arg a2 f32[2560] read\n  for i0 < 48 {\n    for i1 < 64 {\n      def t0 = f32(0)\n"
    "      for r0 < 40 {\n        t0[0] += mul(a1[40*i0 + r0], a2[i1 + 64*r0])\n      }\n"
    "      a0[64*i0 + i1] = t0[0]\n    }\n  }\n}\n";

static const char chain[] =
    "kernel \"chain\" {\n  arg a0 f32[6000] write\n  arg a1 f32[6000] read\n  for i0 < 60 {\n"
    "    for i1 < 100 {\n      a0[100*i0 + i1] = exp(a1[100*i0 + i1])\n    }\n  }\n}\n";

static kernel *parse(qn_ctx *qn, const char *text) {
    kernel *k = ir_parse(qn, text);
    if (!k) FAIL("%s", qn_error(qn));
    return k;
}

static str printed(qn_ctx *qn, const kernel *k) {
    str text;
    str_open(&text, &qn->heap);
    ir_print(k, &text);
    return text;
}

/* The tree that a schedule of these lines makes of the text, read again line by line. */
static str made_by(qn_ctx *qn, const char *text, const char *lines) {
    kernel *k = parse(qn, text);
    if (transform_replay(k, lines, NULL) < 0) FAIL("refused:\n%s", lines);
    str tree = printed(qn, k);
    ir_close(k);
    return tree;
}

static void the_steps_taken_are_those_that_are_printed(void) {
    static const char *const text[] = {product, chain};
    for (int i = 0; i < 2; i++) {
        qn_ctx *qn = qn_open(NULL);
        kernel *k = parse(qn, text[i]);
        str lines, tree;
        str_open(&lines, &qn->heap);
        str_open(&tree, &qn->heap);
        compile_kernel(qn, k, &(compile_how){.lines = &lines, .tree = &tree});
        CHECK(lines.len > 0);
        str other = made_by(qn, text[i], lines.s);
        CHECK_STR(tree.s, other.s);
        str_free(&other);
        str_free(&tree);
        str_free(&lines);
        ir_close(k);
        qn_close(qn);
    }
}

static void a_given_schedule_is_taken_and_no_other(void) {
    qn_ctx *qn = qn_open(NULL);
    static const char given[] = "split 0.0 4 -> it mr\nswap 1.1 0.1\nunroll 1.1\n";
    for (int none = 0; none < 2; none++) {
        kernel *k = parse(qn, product);
        str tree, lines;
        str_open(&tree, &qn->heap);
        str_open(&lines, &qn->heap);
        compile_kernel(
            qn, k, &(compile_how){.schedule = none ? "" : given, .lines = &lines, .tree = &tree});
        CHECK_STR(lines.s, none ? "" : given);
        CHECK((strstr(tree.s, "unroll mr") == NULL) == none);
        str_free(&tree);
        str_free(&lines);
        ir_close(k);
    }
    qn_close(qn);
}

/* The whole of it is undone, and it is counted: none is dropped silently. */
static void a_refused_schedule_is_counted_and_leaves_the_kernel(void) {
    qn_ctx *qn = qn_open(NULL);
    qn_stats before, after;
    kernel *k = parse(qn, product);
    str tree, plain = made_by(qn, product, "");
    str_open(&tree, &qn->heap);
    qn_get_stats(qn, &before, sizeof before);
    compile_kernel(qn, k, &(compile_how){.schedule = "split 0.0 4\nswap 0.2 0.1\n", .tree = &tree});
    qn_get_stats(qn, &after, sizeof after);
    CHECK_INT(after.schedules_dropped - before.schedules_dropped, 1);
    CHECK_STR(tree.s, plain.s);
    str_free(&tree);
    str_free(&plain);
    ir_close(k);
    qn_close(qn);
}

/* A machine without vectors of its own gets other schedules, from the same call. */
static void the_machine_is_the_callers(void) {
    qn_ctx *qn = qn_open(NULL);
    str lines[2];
    for (int i = 0; i < 2; i++) {
        machine m = qn->run->limits;
        m.vector_bytes = i ? 16 : 64;
        kernel *k = parse(qn, chain);
        str_open(&lines[i], &qn->heap);
        compile_kernel(qn, k, &(compile_how){.limits = &m, .lines = &lines[i]});
        ir_close(k);
    }
    CHECK(strcmp(lines[0].s, lines[1].s) != 0);
    for (int i = 0; i < 2; i++) str_free(&lines[i]);
    qn_close(qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(the_steps_taken_are_those_that_are_printed);
    RUN(a_given_schedule_is_taken_and_no_other);
    RUN(a_refused_schedule_is_counted_and_leaves_the_kernel);
    RUN(the_machine_is_the_callers);
    return test_end();
}
