/* terminal.c - progress and pictures in text.
 *
 * On a terminal, progress is one line redrawn in place, at most ten times a second. Elsewhere (a
 * log, a pipe) the same text comes as plain lines, one every few seconds. */
#include "cli/cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { CURVE_ROWS = 12, CURVE_COLUMNS = 72, BAR_MOST = 30 };
static const double redraw_seconds = 0.1, line_seconds = 5;

bool terminal_is(FILE *stream) {
    return isatty(fileno(stream)) == 1;
}

int terminal_columns(void) {
    struct winsize size;
    if (ioctl(fileno(stderr), TIOCGWINSZ, &size) == 0 && size.ws_col >= 20) return size.ws_col;
    return 80;
}

const char *terminal_duration(double seconds, char out[32]) {
    long s = seconds > 0 && seconds < 1e8 ? lround(seconds) : 0;
    if (s >= 3600) {
        snprintf(out, 32, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    } else {
        snprintf(out, 32, "%ld:%02ld", s / 60, s % 60);
    }
    return out;
}

/* Are characters beyond ASCII drawn, as the user's language says? */
static bool draws_blocks(void) {
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (int i = 0; i < 3; i++) {
        const char *says = getenv(names[i]);
        if (says && *says) return strcasestr(says, "utf-8") || strcasestr(says, "utf8");
    }
    return false;
}

static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
enum { EIGHTHS = 8 };

/* ---- progress ----------------------------------------------------------------------------- */

void progress_begin(progress *p) {
    const char *kind = getenv("TERM");
    *p = (progress){.terminal = terminal_is(stderr) && !(kind && strcmp(kind, "dumb") == 0),
                    .begun = cli_seconds()};
    p->shown = p->begun - line_seconds;
}

static void draw_bar(double done, const char *text) {
    int room = terminal_columns() - 1 - (int)strlen(text) - 3;
    int width = room < BAR_MOST ? room : BAR_MOST, filled = (int)(done * width + 0.5);
    fputs("\r", stderr);
    if (width >= 8) {
        fputc('[', stderr);
        bool drawn = draws_blocks();
        for (int i = 0; i < width; i++)
            fputs(i >= filled ? "." : drawn ? blocks[EIGHTHS] : "#", stderr);
        fputs("] ", stderr);
    }
    fprintf(stderr, "%.*s\033[K", terminal_columns() - 1, text);
}

void progress_show(progress *p, double done, bool last, const char *text) {
    double now = cli_seconds();
    if (!last && now - p->shown < (p->terminal ? redraw_seconds : line_seconds)) return;
    p->shown = now;
    if (!p->terminal) {
        fprintf(stderr, "%s\n", text);
    } else {
        draw_bar(done < 0 ? 0 : done > 1 ? 1 : done, text);
        if (last) fputc('\n', stderr);
    }
    fflush(stderr);
}

/* ---- a curve ------------------------------------------------------------------------------ */

/* The mean of the values that fall into column `c` of `columns`. */
static double column_mean(const float *value, int64_t count, int c, int columns) {
    int64_t from = count * c / columns, to = count * (c + 1) / columns;
    double sum = 0;
    if (to <= from) to = from + 1;
    for (int64_t i = from; i < to; i++) sum += (double)value[i];
    return sum / (double)(to - from);
}

/* Row r of the curve: a star where the mean is, or a block up to it. */
static void draw_row(FILE *out, int columns, const double *level, int r) {
    bool drawn = draws_blocks();
    int used = 0;
    for (int c = 0; c < columns; c++)
        if (drawn ? level[c] >= CURVE_ROWS - 1 - r : lround(level[c]) == CURVE_ROWS - 1 - r)
            used = c + 1;
    for (int c = 0; c < used; c++) {
        double above = (level[c] - (CURVE_ROWS - 1 - r)) * EIGHTHS + 1;
        int part = above < 1 ? 0 : above > EIGHTHS ? EIGHTHS : (int)above;
        bool here = level[c] >= 0 && lround(level[c]) == CURVE_ROWS - 1 - r;
        fputs(drawn ? blocks[level[c] < 0 ? 0 : part] : here ? "*" : " ", out);
    }
    fputc('\n', out);
}

void terminal_curve(FILE *out, const float *value, int64_t count, const char *title) {
    int columns = count < CURVE_COLUMNS ? (int)count : CURVE_COLUMNS;
    double mean[CURVE_COLUMNS], lo = INFINITY, hi = -INFINITY;
    if (columns < 2) return;
    for (int c = 0; c < columns; c++) {
        mean[c] = column_mean(value, count, c, columns);
        if (!isfinite(mean[c])) continue;
        lo = fmin(lo, mean[c]);
        hi = fmax(hi, mean[c]);
    }
    if (!(hi >= lo)) return;
    if (hi - lo < 1e-9) hi = lo + 1e-9;
    for (int c = 0; c < columns; c++) /* how many rows high; below 0: not drawn */
        mean[c] = isfinite(mean[c]) ? (mean[c] - lo) / (hi - lo) * (CURVE_ROWS - 1) : -1;
    fprintf(out, "%s\n", title);
    for (int r = 0; r < CURVE_ROWS; r++) {
        fprintf(out, "%7.3f |", hi - (hi - lo) * r / (CURVE_ROWS - 1));
        draw_row(out, columns, mean, r);
    }
    fprintf(out, "        +");
    for (int c = 0; c < columns; c++) fputc('-', out);
    fprintf(out, "\n         step 1%*s%lld\n", columns - 6 > 0 ? columns - 6 : 1, "",
            (long long)count);
}
