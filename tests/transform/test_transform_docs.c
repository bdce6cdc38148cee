/* test_transform_docs.c - the transform reference, docs/transforms.md: each row of transforms.h
 * with its pattern and documentation, and a kernel before and after, made by running the transform.
 *
 * The kernels stand in examples.txt, whose first lines explain it. Every row must have an example,
 * the example must change its kernel, and the interpreter must find the same results. The page is
 * written by `make docs`, that is by this program with the argument --print; the last test fails
 * where the page is not what would be printed. */
#include "ir_cases.h"

static const char *const examples_at = "tests/transform/examples.txt";
static const char *const page_at = "docs/transforms.md";

/* Words of a pattern, by the letter (transforms.h). */
static const struct letter {
    char letter;
    const char *means;
} letters[] = {
    {'l', "LOOP"},
    {'L', "LOOP..."},
    {'m', "MEMORY"},
    {'n', "NUMBER"},
    {'2', "[-> OUTER INNER]"},
    {'1', "[-> NAME]"},
    {'d', "[DTYPE]"},
    {'s', "[reg]"},
};

/* An example as it stands in the file, cut into strings. */
typedef struct example {
    char *legal, *kernel, *prepare, *line;
} example;

static char *whole_file(const char *path) {
    FILE *f = fopen(path, "r");
    if (!f) return NULL;
    size_t most = 1 << 20;
    char *text = calloc(1, most);
    size_t n = fread(text, 1, most - 1, f);
    fclose(f);
    text[n] = 0;
    return text;
}

/* The section of `text` for a row, cut in place: "# name", prose, kernel, schedule, empty line. */
static bool find_example(char *text, const char *name, example *e) {
    char head[80];
    snprintf(head, sizeof head, "\n\n# %s\n", name);
    char *at = strstr(text, head);
    if (!at) return false;
    e->legal = at + strlen(head);
    char *end = strstr(e->legal, "\n\n");
    if (end) *end = 0;
    char *kernel_at = strstr(e->legal, "\nkernel "), *close = strstr(e->legal, "\n}\n");
    if (!kernel_at || !close) return false;
    *kernel_at = 0;
    e->kernel = kernel_at + 1;
    e->prepare = close + 3;
    close[2] = 0; /* the kernel's last newline goes; the parser does not miss it */
    size_t n = strlen(e->prepare);
    while (n && e->prepare[n - 1] == '\n') e->prepare[--n] = 0;
    char *last = strrchr(e->prepare, '\n');
    e->line = last ? last + 1 : e->prepare;
    if (last)
        *last = 0;
    else
        e->prepare = e->line + strlen(e->line);
    return *e->line;
}

static bool example_of(const char *name, example *e, char **file) {
    *file = whole_file(examples_at);
    if (*file && find_example(*file, name, e)) return true;
    free(*file);
    *file = NULL;
    return false;
}

/* ---- the page -------------------------------------------------------------------------------- */

static void add_pattern(str *page, const transform_row *row) {
    str_addf(page, "    %s", row->name);
    for (const char *c = row->pattern; *c; c++)
        for (size_t i = 0; i < sizeof letters / sizeof *letters; i++)
            if (letters[i].letter == *c) str_addf(page, " %s", letters[i].means);
    str_add(page, "\n\n");
}

/* What the row makes: its words, as code, with commas between. */
static void add_made(str *page, const transform_row *row) {
    str_add(page, "Makes `");
    for (const char *c = row->makes; *c; c++) {
        if (*c == ' ')
            str_add(page, "`, `");
        else
            str_addn(page, c, 1);
    }
    str_add(page, "`.\n");
}

/* A text indented, as Markdown has code. */
static void add_code(str *page, const char *text) {
    for (size_t n; *text; text += n) {
        n = strcspn(text, "\n") + 1;
        str_add(page, "    ");
        str_addn(page, text, n - !text[n - 1]);
        if (!text[n - 1]) break;
    }
    str_add(page, "\n");
}

/* The kernel with all lines of the schedule but the last, or with that, too. */
static kernel *example_kernel(const example *e, bool applied) {
    str why;
    str_open(&why, &ctx.heap);
    kernel *k = parse(e->kernel);
    if (k && (transform_lines(k, e->prepare, &why) < 0 ||
              (applied && !transform_line(k, e->line, &why))))
        FAIL("%s: %s", e->line, why.s);
    str_free(&why);
    return k;
}

static void add_example(str *page, const example *e) {
    for (int applied = 0; applied < 2; applied++) {
        kernel *k = example_kernel(e, applied);
        str text;
        str_open(&text, &ctx.heap);
        if (k) ir_print(k, &text);
        if (applied) str_addf(page, "after `%s`\n\n", e->line);
        add_code(page, text.s ? text.s : "");
        str_free(&text);
        ir_close(k);
    }
}

static void make_page(str *page) {
    str_add(
        page,
        "# Transforms\n\n"
        "A schedule is a list of lines, each of which changes the loop tree of a kernel and keeps\n"
        "what it computes; sums of floats may be regrouped where it says so. A line that would not "
        "is\n"
        "refused, with the reason, and the kernel stays as it was. This page is written by\n"
        "`make docs` from `src/transform/transforms.h` and `tests/transform/examples.txt`; each\n"
        "example is the kernel printed before and after the transform ran. LOOP and MEMORY are "
        "names\n"
        "in the kernel; what is in brackets may be left out. A step gives what it makes to the\n"
        "scheduler: a tile, and loops by their roles, of which one with `?` may be missing and\n"
        "those with `..` are any number.\n\n");
    for (int i = 0; i < TRANSFORMS; i++) {
        const transform_row *row = &transform_rows[i];
        example e;
        char *file;
        str_addf(page, "## %s\n\n", row->name);
        add_pattern(page, row);
        str_addf(page, "`%.*s`%s.\n", (int)strcspn(row->doc, ":"), row->doc,
                 row->doc + strcspn(row->doc, ":"));
        if (*row->makes) add_made(page, row);
        if (!example_of(row->name, &e, &file)) continue;
        str_addf(page, "%s\n\n", e.legal);
        add_example(page, &e);
        free(file);
    }
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void every_row_has_an_example(void) {
    for (int i = 0; i < TRANSFORMS; i++) {
        const char *name = transform_rows[i].name;
        example e;
        char *file;
        if (!example_of(name, &e, &file)) {
            FAIL("no example of %s in %s", name, examples_at);
            continue;
        }
        if (strncmp(e.line, name, strlen(name)) != 0) FAIL("%s: ends with \"%s\"", name, e.line);
        free(file);
    }
}

static void a_row_without_an_example_is_noticed(void) {
    example e;
    char *file;
    CHECK(!example_of("no_such_transform", &e, &file));
}

static void every_example_changes_its_kernel_and_keeps_its_results(void) {
    for (int i = 0; i < TRANSFORMS; i++) {
        example e;
        char *file;
        if (!example_of(transform_rows[i].name, &e, &file)) continue;
        kernel *before = example_kernel(&e, false), *after = example_kernel(&e, true);
        str a, b;
        str_open(&a, &ctx.heap);
        str_open(&b, &ctx.heap);
        if (before && after) {
            ir_print(before, &a);
            ir_print(after, &b);
            if (!strcmp(a.s, b.s)) FAIL("%s changes nothing", e.line);
            check_same(__LINE__, before, after, (int64_t[4]){0});
        }
        str_free(&a);
        str_free(&b);
        ir_close(before);
        ir_close(after);
        free(file);
    }
}

/* Is what was reported what the row says: a tile, and a new loop that is there for each role? */
static void check_report(const transform_row *row, const kernel *k, const transform_made *made,
                         uint32_t loops) {
    uint32_t role = 0;
    bool tile = false;
    for (const char *w = row->makes; *w;) {
        size_t n = strcspn(w, " ");
        bool any = n > 2 && w[n - 1] == '.', maybe = w[n - 1] == '?';
        if (n == 4 && !strncmp(w, "tile", 4))
            tile = true;
        else if (!any && role >= made->loops)
            FAIL("%s: no word of %.*s", row->name, (int)n, w);
        else if (!any && !maybe && !made->loop[role])
            FAIL("%s: no %.*s", row->name, (int)n, w);
        else
            role = any ? made->loops : role + 1;
        w += n + (w[n] == ' ');
    }
    CHECK_INT(made->loops, role);
    CHECK(tile == (made->tile != 0));
    for (uint32_t i = 0; i < made->loops; i++)
        CHECK(!made->loop[i] || (made->loop[i] > loops && ir_loop_of(k, made->loop[i])));
}

static void every_row_makes_what_it_says(void) {
    for (int i = 0; i < TRANSFORMS; i++) {
        example e;
        char *file;
        if (!example_of(transform_rows[i].name, &e, &file)) continue;
        kernel *k = example_kernel(&e, false);
        transform_kind kind;
        transform_args a;
        transform_made made;
        const uint32_t loops = k->loops;
        if (transform_parse(k, e.line, NULL, &kind, &a, NULL) &&
            transform_run(k, kind, &a, &made, NULL))
            check_report(&transform_rows[i], k, &made, loops);
        else
            FAIL("%s is refused", e.line);
        ir_close(k);
        free(file);
    }
}

static void the_page_is_what_the_table_and_the_examples_say(void) {
    char *now = whole_file(page_at);
    str page;
    str_open(&page, &ctx.heap);
    make_page(&page);
    if (!now || strcmp(now, page.s) != 0) FAIL("%s is not up to date: make docs", page_at);
    str_free(&page);
    free(now);
}

static bool printing;

static void all(void) {
    if (printing) {
        str page;
        str_open(&page, &ctx.heap);
        make_page(&page);
        fputs(page.s, stdout);
        str_free(&page);
        exit(test_state.bad);
    }
    RUN(every_row_has_an_example);
    RUN(a_row_without_an_example_is_noticed);
    RUN(every_example_changes_its_kernel_and_keeps_its_results);
    RUN(every_row_makes_what_it_says);
    RUN(the_page_is_what_the_table_and_the_examples_say);
}

int main(int argc, char **argv) {
    printing = argc == 2 && !strcmp(argv[1], "--print");
    return run_raising(argc, argv, all);
}
