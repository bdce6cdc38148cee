/* options.c - command-line options from a table: reading, checking, and the help text.
 *
 * A command describes its options as rows; the same rows parse the arguments, check their ranges
 * and print --help, so none of the three can disagree with another. So does the word for each
 * argument that has no name, a file or a model. */
#include "cli/cli.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void print_help(const option_set *o, option_files files) {
    const option *rows = o->rows;
    printf("usage: quern %s%s%s [options]\n\n%s\n", o->command, files.words ? " " : "",
           files.words ? files.words : "", o->about);
    for (int i = 0; i < o->count; i++) {
        char left[64];
        snprintf(left, sizeof left, "--%s%s%s", rows[i].name, rows[i].takes ? " " : "",
                 rows[i].takes ? rows[i].takes : "");
        printf("  %-22s %s\n", left, rows[i].help);
    }
    printf("  %-22s %s\n", "--help", "show this and do nothing");
}

static int mistaken(const char *command, const char *what, const char *argument) {
    fprintf(stderr, "quern %s: %s: %s\ntry: quern %s --help\n", command, argument, what, command);
    return EXIT_USAGE;
}

static const option *find_row(const option *rows, int count, const char *name, size_t length) {
    for (int i = 0; i < count; i++)
        if (strlen(rows[i].name) == length && memcmp(rows[i].name, name, length) == 0)
            return &rows[i];
    return NULL;
}

/* Store a value; what is wrong with it, or NULL. */
static const char *store(const option *row, const char *text, char *values) {
    char *end;
    errno = 0;
    if (row->kind == OPTION_TEXT) {
        memcpy(values + row->at, &text, sizeof text);
        return NULL;
    }
    if (row->kind == OPTION_WHOLE) {
        long long number = strtoll(text, &end, 10);
        if (errno || end == text || *end) return "takes a whole number";
        if ((double)number < row->lo || (double)number > row->hi) return "out of range";
        int64_t value = number;
        memcpy(values + row->at, &value, sizeof value);
        return NULL;
    }
    double number = strtod(text, &end);
    if (end == text || *end || !isfinite(number)) return "takes a number";
    if (number < row->lo || number > row->hi) return "out of range";
    memcpy(values + row->at, &number, sizeof number);
    return NULL;
}

/* Notes what is wrong with it, if anything. */
static void read_one(const option *row, const char *text, void *values, option_mistake *m) {
    if (row->kind != OPTION_FLAG) {
        m->what = store(row, text, values);
        return;
    }
    if (text) m->what = "takes no value";
    memcpy((char *)values + row->at, &(bool){true}, sizeof(bool));
}

/* The next word of arguments without names, and how long it is; NULL: there is none. */
static const char *next_word(const char *at, size_t *length) {
    if (!at) return NULL;
    at += strspn(at, " ");
    *length = strcspn(at, " ");
    return *length ? at : NULL;
}

int options_read(const option_set *o, option_files files, int argc, char **argv, void *values,
                 option_mistake *m) {
    int taken = 0;
    size_t length = 0;
    const char *word = next_word(files.words, &length);
    *m = (option_mistake){.what = NULL};
    for (int i = 0; i < argc; i++) {
        m->argument = argv[i];
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) return EXIT_DONE;
        if (argv[i][0] != '-' && word) {
            files.file[taken++] = argv[i];
            word = next_word(word + length, &length);
            continue;
        }
        m->what = taken ? "nothing more is taken" : "not an option, and nothing else is taken";
        if (strncmp(argv[i], "--", 2) != 0) return EXIT_USAGE;
        size_t named = strcspn(argv[i] + 2, "=");
        const char *text = argv[i][2 + named] ? argv[i] + 3 + named : NULL;
        const option *row = find_row(o->rows, o->count, argv[i] + 2, named);
        m->what = row ? NULL : "no such option";
        if (!row) return EXIT_USAGE;
        if (!text && row->kind != OPTION_FLAG) text = i + 1 < argc ? argv[++i] : NULL;
        if (!text && row->kind != OPTION_FLAG)
            m->what = "needs a value";
        else
            read_one(row, text, values, m);
        if (m->what) return EXIT_USAGE;
    }
    if (!word || *word == '[') return -1;
    m->what = "is lacking";
    snprintf(m->lacks, sizeof m->lacks, "%.*s", (int)length, word);
    m->argument = m->lacks;
    return EXIT_USAGE;
}

int options_parse_with(const option_set *o, option_files files, int argc, char **argv,
                       void *values) {
    option_mistake m;
    int status = options_read(o, files, argc, argv, values, &m);
    if (status == EXIT_DONE) print_help(o, files);
    return status == EXIT_USAGE ? mistaken(o->command, m.what, m.argument) : status;
}

int options_parse(const option_set *o, int argc, char **argv, void *values) {
    return options_parse_with(o, (option_files){NULL, NULL}, argc, argv, values);
}
