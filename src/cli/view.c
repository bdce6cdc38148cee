/* view.c - `quern view`: the page of qn_view_html about what a file computes: a recording's value
 * that was read, an ONNX model's output, a trained model's logits.
 *
 * A recording is run as far as the line that reads the value, so that it is there as an expression;
 * the calls that it is made of are drawn, too, from the recording's lines: what the program asked
 * for, beside what became of it. */
#include "view/view.h"
#include "cli/replay.h"
#include "quern_onnx.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct view_options {
    const char *out, *device;
    int64_t read, output, threads;
} view_options;

static const option rows[] = {
    {"out", OPTION_TEXT, offsetof(view_options, out), 0, 0, "FILE", "the page (view.html)"},
    {"read", OPTION_WHOLE, offsetof(view_options, read), 0, 1e9, "N",
     "of a recording the value that is read as the Nth (0: that of most calls)"},
    {"output", OPTION_WHOLE, offsetof(view_options, output), 1, 1e6, "N",
     "of a model the Nth output (1)"},
    {"device", OPTION_TEXT, offsetof(view_options, device), 0, 0, "NAME",
     "cpu, or another of quern devices"},
    {"threads", OPTION_WHOLE, offsetof(view_options, threads), 0, 4096, "N", "0: all (0)"},
};

static int written(qn_ctx *qn, qn_tensor *t, const view_options *o) {
    if (qn_view_html(t, o->out)) return cli_failed("view", "%s", qn_error(qn));
    printf("%s\n", o->out);
    return EXIT_DONE;
}

/* ---- recordings ------------------------------------------------------------------------------ */

/* Calls, and which tensors each gave, as the recording's lines say it. */
typedef struct call_line {
    const char *text; /* behind the call's number, to the line's end */
    uint32_t number, result;
} call_line;
typedef struct given {
    uint32_t number; /* of the tensor */
    size_t call;
} given;

typedef struct calls {
    call_line *at;
    given *given; /* in the order of calls, nearly */
    size_t n, cap, gives, give_cap;
} calls;

static size_t line_length(const char *line) {
    return strcspn(line, "\n");
}

static void *grown(void *list, size_t n, size_t *cap, size_t each) {
    if (n < *cap) return list;
    size_t wanted = *cap ? 2 * *cap : 256;
    void *more = realloc(list, wanted * each);
    if (more) *cap = wanted;
    return more;
}

/* The next tensor that a line names, from `at` on; 0: there is none. */
static uint32_t next_tensor(const char **at, const char *end) {
    for (const char *s = *at; s < end && (s = memchr(s, ' ', (size_t)(end - s)));) {
        *at = ++s;
        if (s + 1 < end && *s == 't' && s[1] >= '0' && s[1] <= '9')
            return (uint32_t)strtoul(s + 1, NULL, 10);
    }
    return 0;
}

static bool add_given(calls *c, uint32_t number, size_t call) {
    given *more = grown(c->given, c->gives, &c->give_cap, sizeof *more);
    if (!more) return false;
    c->given = more;
    c->given[c->gives++] = (given){number, call};
    c->at[call].result = number;
    return true;
}

/* An assignment gives the tensor that it assigns to. */
static bool add_call(calls *c, const char *text, uint32_t number) {
    call_line *more = grown(c->at, c->n, &c->cap, sizeof *more);
    if (!more) return false;
    c->at = more;
    c->at[c->n++] = (call_line){text, number, 0};
    if (strncmp(text, "assign t", 8) != 0) return true;
    return add_given(c, (uint32_t)strtoul(text + 8, NULL, 10), c->n - 1);
}

/* Lines before `end`. */
static bool find_calls(const char *text, const char *end, calls *c) {
    for (const char *line = text; line < end; line += line_length(line) + 1) {
        char *behind;
        unsigned long number = strtoul(line, &behind, 10);
        if (behind == line || !number || *behind != ' ') continue;
        if (behind[1] != '=') {
            if (!add_call(c, behind + 1, (uint32_t)number)) return false;
            continue;
        }
        size_t i = c->n;
        while (i > 0 && c->at[i - 1].number != number) i--;
        const char *at = behind + 1, *stop = line + line_length(line);
        for (uint32_t t; i && (t = next_tensor(&at, stop));)
            if (!add_given(c, t, i - 1)) return false;
    }
    return true;
}

static void calls_free(calls *c) {
    free(c->at);
    free(c->given);
}

/* The call before number `before` that gave tensor t last, 1 + its place; 0: none. */
static size_t maker_of(const calls *c, uint32_t t, size_t before) {
    for (size_t i = c->gives; t && i-- > 0;)
        if (c->given[i].number == t && c->given[i].call < before) return c->given[i].call + 1;
    return 0;
}

static void mark(const calls *c, bool *wanted, size_t from) {
    wanted[from] = true;
    for (size_t i = from + 1; i-- > 0;) {
        if (!wanted[i]) continue;
        const char *at = c->at[i].text, *end = at + line_length(at);
        for (uint32_t t; (t = next_tensor(&at, end));) {
            size_t maker = maker_of(c, t, i);
            if (maker) wanted[maker - 1] = true;
        }
    }
}

/* `add t3 t4 =1.5`: the name, and the arguments but for long data. */
static void describe_call(arena *a, const call_line *c, view_node *out) {
    size_t n = strcspn(c->text, " \n"), more = line_length(c->text) - n;
    out->line[0] = arena_printf(a, "%.*s", (int)(n < 40 ? n : 40), c->text);
    if (more > 1)
        out->line[1] = arena_printf(a, "%.*s%s", (int)(more < 40 ? more - 1 : 36), c->text + n + 1,
                                    more < 40 ? "" : "...");
    out->line[2] = arena_printf(a, "t%u", c->result);
    out->title = arena_printf(a, "%.*s", (int)(n + more < 300 ? n + more : 300), c->text);
}

enum { MOST_IN = 64 };
typedef struct drawing {
    const calls *c;
    size_t last;
    arena a;
    str *out;
} drawing;

static void draw_calls(void *of, str *out) {
    drawing *d = of;
    view_graph g = {.a = &d->a};
    bool *wanted = arena_zeroed(&d->a, d->c->n + 1);
    uint32_t *place = arena_zeroed(&d->a, (d->c->n + 1) * sizeof *place);
    mark(d->c, wanted, d->last);
    g.node = arena_zeroed(&d->a, (d->last + 2) * sizeof *g.node);
    for (size_t i = 0; i <= d->last; i++) {
        if (!wanted[i]) continue;
        const call_line *c = &d->c->at[i];
        view_node *x = &g.node[g.nodes];
        describe_call(&d->a, c, x);
        x->in = arena_alloc(&d->a, MOST_IN * sizeof *x->in);
        const char *at = c->text, *end = at + line_length(at);
        for (uint32_t t; x->ins < MOST_IN && (t = next_tensor(&at, end));) {
            size_t maker = maker_of(d->c, t, i);
            if (maker) x->in[x->ins++] = place[maker - 1];
        }
        x->kind = i == d->last ? VIEW_RESULT : x->ins ? VIEW_OP : VIEW_GIVEN;
        place[i] = g.nodes++;
    }
    str_addf(out, "<h2>The program's calls</h2>\n<p>%u calls, as they were recorded.</p>\n",
             g.nodes);
    view_draw(&g, out);
}

/* A line that reads a value. */
typedef struct reading {
    char *line; /* NULL: none */
    uint32_t number;
} reading;
enum { READINGS = 100 };

/* The last ones, the newest at (all - 1) % READINGS; how many there are in all, or up to the one
 * that is wanted. */
static int64_t find_readings(char *text, int64_t wanted, reading last[READINGS]) {
    int64_t all = 0;
    for (char *line = text; *line; line += line_length(line) + (line[line_length(line)] != 0)) {
        char *behind;
        if (!strtoul(line, &behind, 10) || strncmp(behind, " read t", 7) != 0) continue;
        last[all++ % READINGS] = (reading){line, (uint32_t)strtoul(behind + 7, NULL, 10)};
        if (all == wanted) break;
    }
    return all;
}

/* Of how many calls the value is made; 0 for one that was assigned, which is memory. */
static size_t calls_of(const calls *c, const char *text, const reading *r) {
    size_t before = c->n, sum = 0;
    while (before > 0 && c->at[before - 1].text - text > r->line - text) before--;
    size_t maker = maker_of(c, r->number, before);
    if (maker && !strncmp(c->at[maker - 1].text, "assign ", 7)) return 0;
    bool *wanted = calloc(c->n + 1, sizeof *wanted);
    if (wanted && maker) mark(c, wanted, maker - 1);
    for (size_t i = 0; wanted && i < maker; i++) sum += wanted[i];
    free(wanted);
    return sum;
}

static int view_tensor(const replay *r, uint32_t number, const calls *c, const view_options *o) {
    qn_tensor *t = NULL;
    for (uint32_t i = 0; i <= r->names && r->name; i++)
        if (i == number && r->name[i].letter == 't' && !r->name[i].lost) t = r->name[i].p;
    if (!t) return cli_failed("view", "the value that is read there was not made again");
    qn_ctx *qn = qn_context(t);
    size_t maker = maker_of(c, number, c->n);
    drawing d = {.c = c, .last = maker - 1};
    arena_open(&d.a, &qn->heap);
    qn_code code = view_html_with(t, o->out, maker ? draw_calls : NULL, &d);
    arena_free(&d.a);
    if (code) return cli_failed("view", "%s", qn_error(qn));
    printf("%s\n", o->out);
    return EXIT_DONE;
}

static int view_reading(char *text, const reading *at, const char *path, const view_options *o) {
    calls c = {.at = NULL};
    char *copy = strdup(text); /* a replay changes its text */
    replay *r = malloc(sizeof *r);
    int status = EXIT_FAILED;
    if (!copy || !r || !find_calls(copy, copy + (at->line - text), &c)) {
        cli_failed("view", "no memory");
    } else {
        replay_options options = {o->device, -1, NULL};
        bool whole = replay_text(r, text, (size_t)(at->line - text), &options);
        status = whole
                     ? view_tensor(r, at->number, &c, o)
                     : cli_failed("view", "%s:%llu: %s", path, (unsigned long long)r->line, r->why);
        replay_close(r);
    }
    free(r);
    free(copy);
    calls_free(&c);
    return status;
}

static int view_recording(char *text, const char *path, const view_options *o) {
    reading last[READINGS] = {{NULL, 0}};
    int64_t all = find_readings(text, o->read, last);
    if (strncmp(text, "quern recording ", 16) != 0)
        return cli_failed("view", "%s is no recording, .onnx or .safetensors file", path);
    if (!all || all < o->read)
        return cli_failed("view", "%s: %lld values are read there, and number %lld is wanted", path,
                          (long long)all, (long long)(o->read ? o->read : 1));
    const reading *best = &last[(all - 1) % READINGS];
    calls c = {.at = NULL};
    size_t most = 0;
    if (!o->read && find_calls(text, text + strlen(text), &c))
        for (int64_t i = all - 1; i >= 0 && i >= all - READINGS; i--) {
            size_t n = calls_of(&c, text, &last[i % READINGS]);
            if (n > most) best = &last[i % READINGS], most = n;
        }
    calls_free(&c);
    return view_reading(text, best, path, o);
}

/* ---- models ---------------------------------------------------------------------------------- */

/* Inputs of zeros, what varies being 1. */
static bool make_inputs(qn_ctx *qn, const qn_onnx *onnx, int n, qn_tensor **in) {
    qn_onnx_value v;
    for (int i = 0; i < n; i++) {
        if (!qn_onnx_input_at(onnx, i, &v, sizeof v) || v.optional) continue;
        for (int k = 0; k < v.rank; k++)
            if (v.shape[k] < 0) v.shape[k] = 1;
        in[i] = qn_zeros(qn, v.dtype, v.rank < 0 ? 0 : v.rank, v.shape);
        if (in[i]) qn_realize(1, &in[i]);
        if (!in[i] || qn_set_name(in[i], v.name)) return false;
    }
    return true;
}

static int view_onnx(qn_ctx *qn, const char *path, const view_options *o) {
    qn_tensor *in[VALUES_MOST] = {NULL}, *out[VALUES_MOST] = {NULL};
    qn_onnx *onnx = qn_onnx_open(qn, path);
    if (!onnx) return cli_failed("view", "%s", qn_error(qn));
    int n = qn_onnx_inputs(onnx), m = qn_onnx_outputs(onnx), status = EXIT_FAILED;
    if (n > VALUES_MOST) n = VALUES_MOST;
    if (m > VALUES_MOST) m = VALUES_MOST;
    if (o->output > m)
        cli_failed("view", "%s has %d outputs, not %lld", path, m, (long long)o->output);
    else if (!make_inputs(qn, onnx, n, in) || qn_onnx_call(onnx, n, in, m, out) ||
             !out[o->output - 1])
        cli_failed("view", "%s", qn_error(qn));
    else
        status = written(qn, out[o->output - 1], o);
    qn_onnx_close(onnx);
    return status;
}

static int view_model(qn_ctx *qn, const char *path, const view_options *o) {
    trained t;
    int status = trained_open(&t, qn, "view", path, 1) ? written(qn, t.out, o) : EXIT_FAILED;
    trained_close(&t);
    return status;
}

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

static int view_file(const char *path, const view_options *o) {
    bool onnx = ends_with(path, ".onnx"), tensors = ends_with(path, ".safetensors");
    if (onnx || tensors) {
        qn_ctx *qn = cli_open_threads("view", o->device, (int)o->threads);
        if (!qn) return EXIT_FAILED;
        int status = onnx ? view_onnx(qn, path, o) : view_model(qn, path, o);
        qn_close(qn);
        return status;
    }
    size_t size;
    char *text = cli_read_file(path, &size);
    if (!text) return cli_failed("view", "%s: %s", path, strerror(errno));
    int status = view_recording(text, path, o);
    free(text);
    return status;
}

int command_view(int argc, char **argv) {
    view_options o = {.out = "view.html", .output = 1};
    const char *file = NULL;
    static const option_set set = {
        "view",
        "Show how a value of a recording (QN_RECORD=FILE), of a model in the ONNX format, or of a\n"
        "model from quern train is computed, on a page.",
        rows, sizeof rows / sizeof rows[0]};
    int status = options_parse_with(&set, (option_files){"FILE", &file}, argc, argv, &o);
    if (status >= 0) return status;
    if (!cli_may_write("view", o.out)) return EXIT_FAILED;
    return view_file(file, &o);
}
