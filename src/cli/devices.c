/* devices.c - `quern devices`: what there is, and whether it opens here.
 *
 * A driver may end the process that loads it instead of returning an error. So each device is
 * opened in a process of its own, which tells this one by a pipe what it found, and one that does
 * not come back is said to be so. */
#include "cli/cli.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FOUND_MOST = 4096 };

/* "+" and the device's facts, or "-" and why it does not open. */
static void look(const char *name, char found[FOUND_MOST]) {
    char why[512] = "";
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = name, .error = why, .error_size = sizeof why));
    const char *facts = qn_device_facts(qn);
    snprintf(found, FOUND_MOST, "%c%s", qn ? '+' : '-', qn ? (facts ? facts : "") : why);
    qn_close(qn);
}

static void send(int to, const char *text) {
    for (size_t left = strlen(text); left;) {
        ssize_t n = write(to, text, left);
        if (n < 0 && errno != EINTR) return;
        if (n > 0) text += n, left -= (size_t)n;
    }
}

static void receive(int from, char text[FOUND_MOST]) {
    size_t size = 0;
    while (size + 1 < FOUND_MOST) {
        ssize_t n = read(from, text + size, FOUND_MOST - 1 - size);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        size += (size_t)n;
    }
    text[size] = 0;
}

/* `look` in a child; where there can be none, here. The child prints nothing, so that output that
 * fails is seen by who answers for it. Nothing is found where the child did not come back. */
static void look_apart(const char *name, char found[FOUND_MOST]) {
    int ends[2];
    fflush(stdout);
    if (pipe(ends)) {
        look(name, found);
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        look(name, found);
        send(ends[1], found);
        _exit(EXIT_DONE);
    }
    close(ends[1]);
    if (child < 0)
        look(name, found);
    else
        receive(ends[0], found);
    close(ends[0]);
    if (child > 0) waitpid(child, NULL, 0);
}

static void show(const char *name, const char *about) {
    char found[FOUND_MOST] = "";
    look_apart(name, found);
    printf("%-8s %s%s\n", name, about,
           found[0] == '+'   ? " (opens here)"
           : found[0] == '-' ? " (does not open here)"
                             : " (its driver ends the process that opens it)");
    for (const char *line = found + (found[0] != 0); *line;) {
        size_t n = strcspn(line, "\n");
        printf("         %.*s\n", (int)n, line);
        line += n + (line[n] == '\n');
    }
}

int command_devices(int argc, char **argv) {
    const char *name, *about;
    const option_set set = {"devices", "List the devices of this machine.", NULL, 0};
    int status = options_parse(&set, argc, argv, NULL);
    if (status >= 0) return status;
    for (int i = 0; qn_device_at(i, &name, &about); i++) show(name, about);
    return EXIT_DONE;
}
