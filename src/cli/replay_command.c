/* replay_command.c - `quern replay FILE`: a recording run again, and what came of it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/replay.h"

typedef struct settings {
    const char *device;
    double tolerance;
} settings;

static const option rows[] = {
    {"device", OPTION_TEXT, offsetof(settings, device), 0, 0, "NAME",
     "cpu, opencl, ref or null (default: the recording's)"},
    {"tolerance", OPTION_NUMBER, offsetof(settings, tolerance), 0, 1e30, "X",
     "how far an f32 may be off, relative (default: bits, elsewhere 1e-4)"},
};

static int report(const replay *r, const char *path, double seconds) {
    for (int i = 0; i < REPLAY_THREADS; i++)
        if (r->open[i].number)
            printf("call %llu: qn_%s did not return in the recording, which ends there\n",
                   (unsigned long long)r->open[i].number, call_name(r->open[i].id));
    printf("%s: %llu calls in %.2f s, %llu left out; %llu values read, %llu the same to the bit, "
           "%llu not compared; %llu differences\n",
           path, (unsigned long long)r->calls, seconds, (unsigned long long)r->left_out,
           (unsigned long long)r->values, (unsigned long long)r->same,
           (unsigned long long)r->uncompared, (unsigned long long)r->differences);
    if (r->differences) printf("the first: %s\n", r->first);
    return r->differences ? EXIT_FAILED : EXIT_DONE;
}

int command_replay(int argc, char **argv) {
    settings s = {.tolerance = -1};
    const char *file = NULL;
    const option_set set = {"replay", "Run a recording again, which QN_RECORD=FILE made.", rows, 2};
    int status = options_parse_with(&set, (option_files){"FILE", &file}, argc, argv, &s);
    if (status >= 0) return status;
    size_t size;
    char *text = cli_read_file(file, &size);
    if (!text) return cli_failed("replay", "%s: %s", file, strerror(errno));
    replay *r = malloc(sizeof *r);
    if (!r) return free(text), cli_failed("replay", "no memory");
    double begun = cli_seconds();
    replay_options options = {s.device, s.tolerance, NULL};
    bool whole = replay_text(r, text, size, &options);
    status = whole ? report(r, file, cli_seconds() - begun)
                   : cli_failed("replay", "%s:%llu: %s", file, (unsigned long long)r->line, r->why);
    replay_close(r);
    free(r);
    free(text);
    return status;
}
