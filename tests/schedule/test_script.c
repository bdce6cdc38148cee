/* test_script.c - schedules whose loops are handles: the form with names and the form with handles
 * say the same, a step that is gone takes with it only what worked on what it made, what new loops
 * are called does not matter, and text from elsewhere is refused where it names nothing. */
#include "ir_cases.h"
#include "schedule/search/script.h"

static const char wide_product[] = "kernel \"product\" {\n"
                                   "  arg a0 f32[3072] write\n  reg t0 f32[1]\n"
                                   "  arg a1 f32[1920] read\n  arg a2 f32[2560] read\n"
                                   "  for i0 < 48 {\n    for i1 < 64 {\n      def t0 = f32(0)\n"
                                   "      for r0 < 40 {\n"
                                   "        t0[0] += mul(a1[40*i0 + r0], a2[i1 + 64*r0])\n"
                                   "      }\n"
                                   "      a0[64*i0 + i1] = t0[0]\n    }\n  }\n}\n";
static const char rows[] = "kernel \"rows\" {\n"
                           "  arg a0 f32[3380] write\n  arg a1 f32[3380] read\n  reg t0 f32[1]\n"
                           "  for i0 < 13 {\n    def t0 = f32(0)\n"
                           "    for r0 < 260 {\n      t0[0] += a1[260*i0 + r0]\n    }\n"
                           "    for i1 < 260 {\n"
                           "      a0[260*i0 + i1] = sub(a1[260*i0 + i1], t0[0])\n    }\n"
                           "  }\n}\n";
static const char turned[] = "kernel \"turned\" {\n"
                             "  arg a0 f32[8192] write\n  arg a1 f32[8192] read\n"
                             "  for i0 < 128 {\n    for i1 < 64 {\n"
                             "      a0[64*i0 + i1] = a1[128*i1 + i0]\n    }\n  }\n}\n";
static const char *const kernels[] = {wide_product, rows, turned};

/* The text of the kernel after that schedule; what was legal goes to `legal`. */
static void after(const char *text, const char *lines, str *tree, str *legal) {
    kernel *k = parse(text);
    str_open(tree, &ctx.heap);
    str_open(legal, &ctx.heap);
    search_repair(k, lines, legal);
    ir_print(k, tree);
    ir_close(k);
}

static bool same_both_ways(void *user, const char *lines) {
    const char *text = user;
    str tree[2], handles[2], names, why;
    after(text, lines, &tree[0], &handles[0]);
    after(text, handles[0].s, &tree[1], &handles[1]);
    CHECK_STR(tree[0].s, tree[1].s);
    CHECK_STR(handles[0].s, handles[1].s);
    str_open(&names, &ctx.heap);
    str_open(&why, &ctx.heap);
    kernel *k = parse(text);
    if (!script_names(k, handles[0].s, &names, &why)) FAIL("%s", why.s);
    CHECK_STR(names.s, lines);
    if (script_apply(k, handles[0].s, &why) < 0) FAIL("%s", why.s);
    ir_close(k);
    for (int i = 0; i < 2; i++) str_free(&tree[i]), str_free(&handles[i]);
    str_free(&names);
    str_free(&why);
    return true;
}

/* All that is proposed, under the record of every family. */
static void handles_and_names_say_the_same(void) {
    for (size_t i = 0; i < COUNT_OF(kernels); i++)
        for (int f = 0; machine_family(f, NULL, NULL); f++) {
            machine m = machine_of_family(f);
            m.l1 = 1024, m.l2 = 4096, m.l3 = 16384, m.page = 1024, m.threads = 2;
            kernel *k = parse(kernels[i]);
            schedule_proposals(k, &m, same_both_ways, (void *)kernels[i]);
            ir_close(k);
        }
}

static void check_legal(int line, const char *lines, const char *expected) {
    str tree, legal;
    after(wide_product, lines, &tree, &legal);
    if (strcmp(legal.s, expected) != 0)
        FAIL("line %d: of\n%sexpected\n%snot\n%s", line, lines, expected, legal.s);
    str_free(&tree);
    str_free(&legal);
}

/* A refused line keeps its number: later handles count it, and what is printed does not. */
static void a_step_that_is_gone_takes_only_what_worked_on_what_it_made(void) {
    check_legal(__LINE__,
                "split 0.0 9999999999999999999999 -> a b\nsplit 0.1 32 -> jt nr\nsplit 2.1 8\n"
                "unroll 1.1\nunroll 3.1\n",
                "split 0.1 32 -> jt nr\nsplit 1.1 8\nunroll 2.1\n");
    check_legal(__LINE__, "accumulate 0:2 0.1\nunroll 1.0\nsplit 0.0 4 -> p q\npar 3.0\n",
                "accumulate 0:2 0.1\nunroll 1.0\nsplit 0.0 4 -> p q\npar 3.0\n");
    check_legal(__LINE__, "\n# a comment\nsplit 0.0 4 # here, too\npar 1.0\n",
                "split 0.0 4\npar 1.0\n");
}

/* What new loops are called is never looked up; a name that is taken is another one's. */
static void names_of_new_loops_do_not_matter(void) {
    static const char *const text[] = {
        "split 0.0 4 -> p q\nsplit 0.1 16 -> s v\npar 1.0\nunroll 2.1\n",
        "split 0.0 4 -> s v\nsplit 0.1 16 -> x y\npar 1.0\nunroll 2.1\n",
        "split 0.0 4\nsplit 0.1 16\npar 1.0\nunroll 2.1\n"};
    int64_t stores[3];
    for (int i = 0; i < 3; i++) {
        kernel *k = parse(wide_product);
        CHECK_INT(script_apply(k, text[i], NULL), 4);
        stores[i] = 0;
        for (stmt_id s = k->root; (s = ir_next(k, s, k->root));)
            if (ir_s(k, s)->kind == STMT_LOOP)
                stores[i] = stores[i] * 64 + ir_most_trips(k, s) + 7 * (int64_t)ir_s(k, s)->loop;
        CHECK_INT(stores[i], stores[0]);
        ir_close(k);
    }
}

static void what_names_nothing_is_refused(void) {
    static const char *const text[] = {
        "split 0.9 4\n",          "split 1.0 4\n",       "split 0.0 4\nsplit 1.7 2\n",
        "split 0.0 4\npar 0.0\n", "split 0:1 4\n",       "split 99999.0 4\n",
        "split 0.99999 4\n",      "split 0. 4\n",        "split .0 4\n",
        "split -1.0 4\n",         "split 0.0.0 4\n",     "accumulate 0:1 0.1\n",
        "accumulate 0:9 0.1\n",   "accumulate a0 0.1\n", "split 00000000000000000000.0 4\n"};
    for (size_t i = 0; i < COUNT_OF(text); i++) {
        kernel *k = parse(wide_product);
        str before, now;
        str_open(&before, &ctx.heap);
        str_open(&now, &ctx.heap);
        ir_print(k, &before);
        if (script_apply(k, text[i], NULL) >= 0) FAIL("accepted: %s", text[i]);
        ir_print(k, &now);
        CHECK_STR(before.s, now.s);
        str_free(&before);
        str_free(&now);
        ir_close(k);
    }
}

static void all(void) {
    RUN(handles_and_names_say_the_same);
    RUN(a_step_that_is_gone_takes_only_what_worked_on_what_it_made);
    RUN(names_of_new_loops_do_not_matter);
    RUN(what_names_nothing_is_refused);
}

int main(int argc, char **argv) {
    return run_raising(argc, argv, all);
}
