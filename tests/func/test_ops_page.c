/* test_ops_page.c - what docs/ops.md says of every function, from docs/ops.tally: the dtypes it
 * takes and gives, shapes for example, and whether it has a gradient, are those that its call in
 * function_cases.h has. OPS_TALLY=FILE writes the tally there; tools/gen.py makes the table. */
#include "function_run.h"

enum { DTYPES = QN_F64 + 1 };

static const char *const texts[] = {
#define TEXT_OF(name, lo, hi, call) #call,
#define NO_TEXT(name, ...)          "",
#define TEXT_UNARY                  NO_TEXT
#define TEXT_BINARY                 NO_TEXT
#define TEXT_TENSOR(name, lo, hi)
#define TEXT_STATUS(name, lo, hi)
    UNARY_ROWS(NO_TEXT) BINARY_ROWS(NO_TEXT) FUNCTION_CASES(TEXT_OF)
#define X(KIND, name, params, ORACLE, lo, hi, doc) TEXT_##KIND(name, lo, hi)
#include "func/funcs.h"
#undef X
};

/* Is the case the function's result itself, not several put together? */
static bool is_plain(size_t row) {
    char begin[80];
    if (!texts[row][0]) return true;
    snprintf(begin, sizeof begin, "qn_%s(", cases[row].name);
    return !strncmp(texts[row], begin, strlen(begin));
}

static bool is_zero(const outcome *o) {
    for (int i = 0; i < o->gradients; i++)
        for (int64_t k = 0; k < o->gradient[i].n; k++)
            if (number(&o->gradient[i], k) != 0) return false;
    return true;
}

/* name|bool i8 ..=dtype ..|shapes|yes, 0 or nothing */
static void describe(qn_ctx *qn, size_t row, char *line, size_t size) {
    char shapes[200] = "";
    const char *gradient = "";
    size_t at = (size_t)snprintf(line, size, "%s|", cases[row].name);
    for (int d = 0; d < DTYPES; d++) {
        args a = {.qn = qn, .d = (qn_dtype)d, .nudged = -1};
        outcome o;
        run(&cases[row], &a, d == QN_F64, &o);
        if (!o.y.code) {
            const char *out = is_plain(row) ? qn_dtype_name(o.y.dtype) : "";
            at += (size_t)snprintf(line + at, size - at, "%s=%s ", qn_dtype_name((qn_dtype)d), out);
            if (is_plain(row)) snprintf(shapes, sizeof shapes, "%s", o.shapes);
            if (o.gradients) gradient = is_zero(&o) ? "0" : "yes";
        }
        free_outcome(&o);
    }
    snprintf(line + at, size - at, "|%s|%s\n", shapes, gradient);
}

static void the_page_says_what_functions_take_and_give(void) {
    const char *to = getenv("OPS_TALLY");
    FILE *f = fopen(to ? to : "docs/ops.tally", to ? "w" : "r");
    if (!f) {
        SKIP("docs/ops.tally is not here");
        return;
    }
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref", .threads = 1));
    for (size_t row = 0; row < COUNT_OF(cases); row++) {
        char line[600], known[600] = "";
        describe(qn, row, line, sizeof line);
        if (to)
            fputs(line, f);
        else if (!fgets(known, sizeof known, f) || strcmp(known, line) != 0)
            FAIL("docs/ops.tally has %snot %s(OPS_TALLY=docs/ops.tally writes it)",
                 known[0] ? known : "nothing, ", line);
        if (test_state.bad) break;
    }
    fclose(f);
    qn_close(qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(the_page_says_what_functions_take_and_give);
    return test_end();
}
