/* test_record.c - a program's calls as QN_RECORD writes them, and as `quern replay` makes and
 * compares them. Each is made in a child, which has an environment of its own. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/replay.h"
#include "quern_custom.h"
#include "test.h"

static char path[] = "/tmp/quern-record-XXXXXX";

/* ---- recordings of small programs ------------------------------------------------------------ */

static bool in_child(const void *program) {
    setenv("QN_RECORD", path, 1);
    (*(void (*const *)(void))program)();
    return true;
}

/* The text of the recording of a program's i-th context without the lines that say where it was
 * made, NULL where there is none; freed by the caller. */
static char *recording(int i) {
    char name[64];
    snprintf(name, sizeof name, i > 1 ? "%s.%d" : "%s", path, i);
    FILE *f = fopen(name, "r");
    if (!f) return NULL;
    size_t room = 1 << 24, size = 0;
    char *text = calloc(1, room), line[1 << 16];
    while (text && fgets(line, sizeof line, f)) {
        if (!strncmp(line, "environment", 11) || !strncmp(line, "process", 7)) continue;
        size_t n = strlen(line);
        if (size + n >= room) break;
        memcpy(text + size, line, n);
        size += n;
    }
    fclose(f);
    return text;
}

/* That of the only context of a program. */
static char *recorded(void (*program)(void)) {
    CHECK(test_apart(in_child, &program));
    char *text = recording(1);
    CHECK(text != NULL);
    return text;
}

static qn_ctx *opened(void) {
    return qn_open(&QN_OPTIONS(.device = "ref", .threads = 1));
}

static void small_program(void) {
    static const float data[4] = {1, -2, 3, 0.5F};
    float out[2];
    qn_ctx *qn = opened();
    qn_tensor *x = qn_from(qn, QN_F32, 2, (int64_t[]){2, 2}, data);
    qn_tensor *y = qn_sum_axes(x, 1, (int[]){-1}, false);
    qn_read(y, out, sizeof out);
    qn_conv(x, x, NULL, &QN_CONV_OPTIONS(.stride = {2, 1}, .same = true));
    qn_set_name(x, "a \"b\"\n");
    qn_release(x);
    qn_close(qn);
}

/* A recording in lines, as docs/record.md has them; the hash of the device's facts may be any. */
static void a_recording_has_the_calls_their_results_and_codes(void) {
    static const char *const lines[] = {
        "quern recording 1, library 0.1.0",
        "1 open { device = \"ref\" threads =1 }",
        "1 = c1 \"ref\" ",
        "2 from c1 11 2 [ 2 2 ] =AACAPwAAAMAAAEBAAAAAPw==",
        "2 = t2",
        "3 sum_axes t2 1 [ -1 ] 0",
        "3 = t3",
        "4 read t3 * 8",
        "4 = 0 f32 =AACAvwAAYEA=", /* -1 and 3.5 */
        "5 conv t2 t2 - { stride =2 =1 =0 same =1 }",
        "5 = - !-3",
        "6 set_name t2 \"a \\x22b\\x22\\x0a\"",
        "6 = 0 !-3",
        "7 release t2",
        "7 = !-3",
        "8 close c1",
        "8 =",
    };
    char *text = recorded(small_program), *at = text;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        size_t n = strcspn(at, "\n"), wanted = strlen(lines[i]);
        if (i == 2) n = wanted;
        if (n != wanted || memcmp(at, lines[i], n) != 0)
            FAIL("line %zu is %.*s, not %s", i + 1, (int)strcspn(at, "\n"), at, lines[i]);
        at += strcspn(at, "\n") + (strchr(at, '\n') != NULL);
    }
    CHECK_STR(at, "");
    free(text);
}

/* ---- replays --------------------------------------------------------------------------------- */

static replay *run(char *text, const char *device) {
    static replay r;
    static replay_options options;
    options = (replay_options){device, -1, NULL};
    if (!replay_text(&r, text, strlen(text), &options) && !*r.why) FAIL("no reason");
    replay_close(&r);
    return &r;
}

static void replays(void (*program)(void), const char *device, uint64_t values) {
    char *text = recorded(program);
    const replay *r = run(text, device);
    CHECK_STR(r->why, "");
    CHECK_STR(r->first, "");
    CHECK_INT(r->values, values);
    CHECK_INT(r->left_out, 0);
    free(text);
}

/* Layers, an optimizer, a static graph of a size that varies, lists that are given back. */
static void large_program(void) {
    float v[24], out[64];
    for (int i = 0; i < 24; i++) v[i] = 0.1F * (float)(i % 7) - 0.2F;
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "cpu", .threads = 1));
    qn_scope s = qn_scope_begin(qn);
    qn_module *m = qn_module_new(qn, 3);
    qn_layer *l = qn_linear_new(m, "in", 4, 3, NULL);
    int64_t t = qn_var(qn, "t", 1, 9), twice = qn_dim_mul(qn, 2, t), lo, hi;
    qn_dim_range(qn, twice, &lo, &hi);
    qn_tensor *x = qn_from(qn, QN_F32, 2, (int64_t[]){6, 4}, v), *parts[2], *made = NULL;
    qn_tensor *fed = qn_layer_forward(l, x), *loss = qn_sum(qn_square(fed), QN_ALL, false);
    qn_optimizer_options o = qn_optimizer_defaults(QN_ADAM);
    qn_optimizer *opt = qn_optimizer_new(qn, qn_module_count(m), qn_module_parameters(m), &o);
    qn_optimizer_step(opt, loss);
    qn_read(qn_module_parameters(m)[0], out, sizeof out);
    qn_split(x, 0, 2, (int64_t[]){2, 4}, parts);
    qn_read(parts[1], out, sizeof out);
    qn_bind(qn, t, 3);
    qn_tensor *sized = qn_zeros(qn, QN_F32, 2, (int64_t[]){twice, 4});
    qn_read(sized, out, sizeof out);
    qn_tensor *y = qn_exp(x);
    qn_plan *plan = qn_plan_new(qn, 1, &x, 1, &y);
    qn_plan_run(plan, &x, &made);
    qn_read(made, out, sizeof out);
    qn_plan_free(plan);
    qn_text *text = qn_text_new(qn, "to be or not to be", 18, 0);
    int32_t ids[6], targets[6];
    qn_text_batch(text, ids, targets, &QN_BATCH_OPTIONS(.rows = 2, .context = 3, .seed = 5));
    qn_text_free(text);
    qn_optimizer_free(opt);
    qn_module_free(m);
    qn_scope_end(qn, s);
    qn_close(qn);
}

static void a_program_gives_the_same_again_on_every_device(void) {
    replays(small_program, NULL, 1);
    replays(large_program, NULL, 6); /* four reads and a batch of two */
    replays(small_program, "cpu", 1);
}

/* Tensors in options and in items of an index; results of a number that no argument says. */
static void program_of_structs(void) {
    static const float v[6] = {1, -2, 3, 0.5F, 0.25F, 6};
    float out[8];
    qn_ctx *qn = opened();
    qn_tensor *x = qn_from(qn, QN_F32, 2, (int64_t[]){2, 3}, v), *parts[2], *ends[2];
    qn_tensor *at = qn_from(qn, QN_I32, 1, (int64_t[]){2}, (const int32_t[]){1, 0});
    const qn_index_item items[] = {QN_AT_PLACES(at), QN_SLICE(-1, 0, -2), QN_NEW_AXIS};
    qn_read(qn_index(x, 3, items), out, 2 * sizeof *out);
    qn_read(qn_index_put(x, 2, items, qn_scalar(qn, QN_F32, 7), QN_COMBINE_SUM), out, sizeof v);
    qn_tensor *seen = qn_from(qn, QN_BOOL, 2, (int64_t[]){2, 2}, (const uint8_t[]){1, 0, 0, 1});
    qn_read(qn_attention(x, x, x, &QN_ATTENTION_OPTIONS(.scale = 0.5, .mask = seen)), out,
            sizeof v);
    qn_tensor *weight = qn_from(qn, QN_F32, 1, (int64_t[]){3}, v + 3);
    qn_read(qn_cross_entropy_with(x, at, &QN_CROSS_ENTROPY_OPTIONS(.weight = weight)), out,
            sizeof *out);
    qn_frexp(x, parts);
    qn_read(parts[0], out, sizeof v);
    qn_aminmax(x, 1, false, ends);
    qn_read(ends[1], out, 2 * sizeof *out);
    qn_attention(NULL, x, x, &QN_ATTENTION_OPTIONS(.mask = seen));
    qn_close(qn);
}

static void structs_and_what_they_hold_are_recorded_and_read_back(void) {
    static const char *const lines[] = {
        " index t2 3 [ { kind =4 array = t3 } { start =-1 step =-2 } { kind =3 } ]\n",
        " attention t2 t2 t2 { scale =0.5 mask = t",
        " cross_entropy_with t2 t3 { weight = t",
        " frexp t2 *\n",
    };
    char *text = recorded(program_of_structs);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!strstr(text, lines[i])) FAIL("no line with %s", lines[i]);
    free(text);
    replays(program_of_structs, NULL, 6);
    replays(program_of_structs, "cpu", 6);
}

static void *a_thread(void *seed) {
    float out[8];
    qn_ctx *qn = opened();
    for (int i = 0; i < 50; i++) {
        qn_scope s = qn_scope_begin(qn);
        qn_tensor *k = qn_key_fold(qn_key(qn, (uint64_t)(uintptr_t)seed), (uint64_t)i);
        qn_read(qn_randn(k, QN_F32, 1, (int64_t[]){8}), out, sizeof out);
        qn_scope_end(qn, s);
    }
    qn_close(qn);
    return NULL;
}

static void threaded_program(void) {
    pthread_t thread[4];
    for (uintptr_t i = 0; i < 4; i++) pthread_create(&thread[i], NULL, a_thread, (void *)(i + 1));
    for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
}

static int recordings(uint64_t values) {
    int n = 0;
    for (char *text; (text = recording(n + 1)) != NULL; free(text), n++) {
        const replay *r = run(text, NULL);
        CHECK_STR(r->why, "");
        CHECK_STR(r->first, "");
        CHECK_INT(r->values, values);
        char name[64];
        snprintf(name, sizeof name, "%s.%d", path, n + 1);
        if (n) unlink(name);
    }
    return n;
}

static void contexts_of_several_threads_have_a_recording_each(void) {
    void (*program)(void) = threaded_program;
    CHECK(test_apart(in_child, &program));
    CHECK_INT(recordings(50), 4);
}

static void three_contexts(void) {
    for (int i = 0; i < 3; i++) small_program();
}

/* Also where the one is closed before the other is opened; another process writes over them. */
static void a_recording_is_not_written_over_by_its_process(void) {
    void (*program)(void) = three_contexts;
    for (int i = 0; i < 2; i++) {
        CHECK(test_apart(in_child, &program));
        CHECK_INT(recordings(1), 3);
    }
}

/* A context of which nothing is recorded, and the other's tensors in its calls. */
static void program_of_one_context_of_two(void) {
    unsetenv("QN_RECORD");
    qn_ctx *other = opened();
    setenv("QN_RECORD", path, 1);
    qn_ctx *qn = opened();
    qn_tensor *x = qn_scalar(qn, QN_F32, 1), *y = qn_scalar(other, QN_F32, 2);
    qn_neg(y);
    qn_add(NULL, x);
    qn_add(x, y);
    qn_concat(1, (qn_tensor *[]){x}, 0);
    qn_dtype_size(QN_F32);
    qn_close(other);
    qn_close(qn);
}

static void a_call_is_recorded_by_any_of_its_arguments(void) {
    char *text = recorded(program_of_one_context_of_two);
    CHECK(!strstr(text, "neg") && !strstr(text, "dtype_size") && !strstr(text, "t3 "));
    CHECK(strstr(text, "add - t2\n") && strstr(text, "add t2 ?\n"));
    CHECK(strstr(text, "concat 1 [ t2 ] 0\n") && strstr(text, "close c1\n"));
    free(text);
}

/* ---- what must be noticed -------------------------------------------------------------------- */

/* A recording with the first `from` replaced, of the same length. */
static const replay *changed_of(void (*program)(void), const char *from, const char *to) {
    char *text = recorded(program), *at = strstr(text, from);
    CHECK(at && strlen(from) == strlen(to));
    if (at) memcpy(at, to, strlen(to));
    const replay *r = run(text, NULL);
    free(text);
    return r;
}

static const replay *changed(const char *from, const char *to) {
    return changed_of(small_program, from, to);
}

static void another_value_code_or_result_is_noticed_at_its_call(void) {
    const replay *r = changed("AACAvwAAYEA=", "AACAvwAAcEA=");
    CHECK_INT(r->differences, 1);
    CHECK(strstr(r->first, "call 4: qn_read(t, out, size) was given t3 * 8: ") != NULL);
    CHECK(strstr(r->first, "element 1 is 3.5, and was 3.75") != NULL);
    r = changed("5 = - !-3", "5 = - !-4");
    CHECK(strstr(r->first, "the code that is pending is -3, and was -4") != NULL);
    CHECK(strstr(changed("5 = - !-3", "5 = t4   ")->first, "nothing came of it") != NULL);
    CHECK(strstr(changed("6 = 0", "6 = 1")->first, "the code is 0, and was 1") != NULL);
}

static void what_is_damaged_is_refused_by_its_line(void) {
    static const struct {
        const char *from, *to, *why;
        uint64_t line;
    } cases[] = {
        {"quern recording 1", "quern recording 9", "a recording of format 9", 1},
        {"sum_axes", "sum_axis", "no call is qn_sum_axis", 6},
        {"[ 2 2 ]", "[ 2   ]", "a list of 1 where qn_from reads 2", 4},
        {"t2 1 [ -1 ]", "t2 9 [ -1 ]", "a list of 1 where qn_sum_axes reads 9", 6},
        {"AAAPw==", "AAAP===", "none of base64", 4},
        {"4 read t3", "4 read t9", "out of range", 8},
        {"4 read t3", "4 read c1", "does not name a t", 8},
        {"4 read t3 * 8", "4 read t3 * x", "a number is missing", 8},
        {"7 release t2", "1 release t2", "1 release", 0},
        {"stride", "strode", "no field is called \"strode", 10},
        {"7 = !-3", "9 = !-3", "call 9 ends, and none began", 15},
        {"8 close c1", "8 cloze c1", "no call is qn_cloze", 16},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const replay *r = changed(cases[i].from, cases[i].to);
        if (!cases[i].line) continue; /* harmless: the number of a call that has ended */
        if (r->line != cases[i].line || !strstr(r->why, cases[i].why))
            FAIL("%s: line %llu: %s", cases[i].to, (unsigned long long)r->line, r->why);
    }
}

static void structs_that_are_damaged_are_refused(void) {
    static const char *const cases[][3] = {
        {"{ kind =3 }", "{ size=36 }", "no field is called \"size"},
        {"{ kind =3 }", "[ kind =3 }", "a struct is missing"},
        {"{ kind =3 } ]", "            ]", "a list of 2 where qn_index reads 3"},
        {"array = t3", "array = c1", "does not name a t"},
        {"mask = t", "mask = c", "does not name a t"},
        {"weight = t", "weight = 9", "does not name a t"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const replay *r = changed_of(program_of_structs, cases[i][0], cases[i][1]);
        if (!strstr(r->why, cases[i][2])) FAIL("%s: %s", cases[i][1], r->why);
    }
}

static void what_is_of_a_closed_context_is_refused(void) {
    char text[] = "quern recording 1\n1 open { device = \"ref\" }\n1 = c1 \"ref\" 0\n"
                  "2 key c1 7\n2 = t2\n3 close c1\n3 =\n4 exp t2\n";
    CHECK(strstr(run(text, NULL)->why, "names something else") != NULL);
}

/* ---- bounds ---------------------------------------------------------------------------------- */

static void hashed_program(void) {
    setenv("QN_RECORD_MEMORY", "0", 1);
    small_program();
}

static void values_beyond_the_bound_are_hashes(void) {
    char *text = recorded(hashed_program);
    CHECK(strstr(text, "2 from c1 11 2 [ 2 2 ] #") && strstr(text, "4 = 0 f32 #"));
    const replay *r = run(text, NULL);
    CHECK_STR(r->why, "");
    CHECK_INT(r->differences, 0);
    CHECK_INT(r->uncompared, 1); /* what is computed of made-up data */
    free(text);
}

static void forking_program(void) {
    qn_ctx *qn = opened();
    pid_t child = fork();
    if (child == 0) {
        qn_scalar(qn, QN_F32, 1); /* the child's calls are not the program's */
        qn_close(qn);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    qn_close(qn);
}

static void a_forked_child_writes_nothing(void) {
    char *text = recorded(forking_program);
    CHECK(!strstr(text, "scalar") && strstr(text, "2 close c1\n2 =\n"));
    free(text);
}

static void crashing_program(void) {
    qn_ctx *qn = opened();
    qn_tensor *x = qn_scalar(qn, QN_F32, 1);
    qn_keep(x);
    _exit(3);
}

/* Cut off in a line it is as if the line had never begun; the call without an end is known. */
static void a_recording_that_ends_early_runs_as_far_as_it_goes(void) {
    void (*program)(void) = crashing_program;
    CHECK(!test_apart(in_child, &program));
    char text[4096] = "";
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) fclose(f);
    char *end = n ? strstr(text, "\n3 = ") : NULL;
    CHECK(end != NULL);
    if (!end) return;
    end[4] = 0;
    const replay *r = run(text, NULL);
    CHECK_STR(r->why, "");
    CHECK_INT(r->calls, 3);
}

static void told(void *user, const char *line) {
    snprintf(user, 64, "%s", line);
}

static void nothing_is_recorded_where_it_cannot_be_written(void) {
    char line[64] = "";
    setenv("QN_RECORD", "/nowhere/at/all", 1);
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref", .log = told, .log_user = line));
    CHECK_STR(line, "no recording: /nowhere/at/all cannot be written");
    CHECK(qn && qn_scalar(qn, QN_F32, 1));
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
    unsetenv("QN_RECORD");
}

static void twice(void *arg, const qn_custom_array *in, const qn_custom_array *out) {
    (void)arg;
    *(float *)out->data = 2 * *(const float *)in->data;
}

/* A replay has no such function: it leaves out what follows from it and compares the rest. */
static void a_kernel_of_the_programs_own_is_told_of_and_left_out(void) {
    char line[64] = "";
    float x = 3, y = 0, one = 0;
    setenv("QN_RECORD", path, 1);
    unlink(path);
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref", .log = told, .log_user = line));
    qn_custom *k = qn_custom_new(qn, &QN_CUSTOM_OPTIONS(.name = "twice", .n_in = 1,
                                                        .in_dtypes = {QN_F32}, .n_out = 1,
                                                        .out_dtypes = {QN_F32}, .function = twice));
    CHECK(strstr(line, "no recording has kernel twice") != NULL);
    qn_tensor *t = qn_from(qn, QN_F32, 0, NULL, &x), *out = NULL;
    CHECK_INT(qn_custom_call(k, 1, &t, 1, &(qn_custom_shape){0, NULL}, &out), 0);
    CHECK_INT(qn_read(qn_add(t, out), &y, 4), 0);
    CHECK_INT(qn_read(qn_add(t, t), &one, 4), 0);
    qn_close(qn);
    unsetenv("QN_RECORD");
    char *text = recording(1);
    CHECK(text != NULL);
    if (!text) return;
    const replay *r = run(text, NULL);
    CHECK_STR(r->why, "");
    CHECK(r->left_out > 0 && one == 6);
    free(text);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    unsetenv("QN_RECORD");
    int file = mkstemp(path);
    if (file < 0) return 1;
    close(file);
    RUN(a_recording_has_the_calls_their_results_and_codes);
    RUN(a_program_gives_the_same_again_on_every_device);
    RUN(structs_and_what_they_hold_are_recorded_and_read_back);
    RUN(contexts_of_several_threads_have_a_recording_each);
    RUN(a_recording_is_not_written_over_by_its_process);
    RUN(a_call_is_recorded_by_any_of_its_arguments);
    RUN(another_value_code_or_result_is_noticed_at_its_call);
    RUN(what_is_damaged_is_refused_by_its_line);
    RUN(structs_that_are_damaged_are_refused);
    RUN(what_is_of_a_closed_context_is_refused);
    RUN(values_beyond_the_bound_are_hashes);
    RUN(a_forked_child_writes_nothing);
    RUN(a_recording_that_ends_early_runs_as_far_as_it_goes);
    RUN(nothing_is_recorded_where_it_cannot_be_written);
    RUN(a_kernel_of_the_programs_own_is_told_of_and_left_out);
    unlink(path);
    return test_end();
}
