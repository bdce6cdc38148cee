/* devices.c - `quern devices`: what there is, and whether it opens here.
 *
 * A driver may end the process that loads it instead of returning an error. So each device is
 * opened in a process of its own, and one that does not come back is said to be so. */
#include "cli/cli.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void print_facts(const char *facts) {
    for (size_t n; facts && *facts; facts += n + (facts[n] == '\n')) {
        n = strcspn(facts, "\n");
        printf("         %.*s\n", (int)n, facts);
    }
}

static void show(const char *name, const char *about) {
    qn_ctx *qn = qn_open(&(qn_options){.device = name});
    printf("%-8s %s%s\n", name, about, qn ? "" : " (does not open here)");
    print_facts(qn_device_facts(qn));
    qn_close(qn);
}

/* `show` in a child; where there can be none, here. */
static void show_apart(const char *name, const char *about) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        show(name, about);
        fflush(stdout);
        _exit(EXIT_DONE);
    }
    int status = 0;
    if (child < 0)
        show(name, about);
    else if (waitpid(child, &status, 0) == child && status != 0)
        printf("%-8s %s (its driver ends the process that opens it)\n", name, about);
}

int command_devices(int argc, char **argv) {
    const char *name, *about;
    int status =
        options_parse("devices", "List the devices of this machine.", NULL, 0, argc, argv, NULL);
    if (status >= 0) return status;
    for (int i = 0; qn_device(i, &name, &about); i++) show_apart(name, about);
    return EXIT_DONE;
}
