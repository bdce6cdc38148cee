/* options.c - command-line options from a table: parsing, checking, and the help text.
 *
 * A command describes its options as rows; the same rows parse the arguments, check their ranges
 * and print --help, so none of the three can disagree with another. */
#include "cli/cli.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void print_help(const char *command, const char *about, const option *rows, int count) {
    printf("usage: quern %s [options]\n\n%s\n", command, about);
    for (int i = 0; i < count; i++) {
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

int options_parse(const char *command, const char *about, const option *rows, int count, int argc,
                  char **argv, void *values) {
    for (int i = 0; i < argc; i++) {
        const char *argument = argv[i];
        if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0) {
            print_help(command, about, rows, count);
            return EXIT_DONE;
        }
        if (strncmp(argument, "--", 2) != 0)
            return mistaken(command, "not an option, and nothing else is taken", argument);
        size_t length = strcspn(argument + 2, "=");
        const char *text = argument[2 + length] ? argument + 3 + length : NULL;
        const option *row = find_row(rows, count, argument + 2, length);
        if (!row) return mistaken(command, "no such option", argument);
        if (row->kind == OPTION_FLAG) {
            if (text) return mistaken(command, "takes no value", argument);
            memcpy((char *)values + row->at, &(bool){true}, sizeof(bool));
            continue;
        }
        if (!text) {
            if (i + 1 == argc) return mistaken(command, "needs a value", argument);
            text = argv[++i];
        }
        const char *wrong = store(row, text, values);
        if (wrong) return mistaken(command, wrong, argument);
    }
    return -1;
}
