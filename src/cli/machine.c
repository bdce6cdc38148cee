/* machine.c - `quern machine`: the record that schedules are made by, and the families. */
#include "cli/cli.h"

typedef struct machine_options {
    const char *device;
    bool families, measure;
} machine_options;

static const option machine_rows[] = {
    {"device", OPTION_TEXT, offsetof(machine_options, device), 0, 0, "NAME",
     "whose record; cpu, or another of quern devices"},
    {"families", OPTION_FLAG, offsetof(machine_options, families), 0, 0, NULL,
     "list the families that QN_MACHINE takes"},
    {"measure", OPTION_FLAG, offsetof(machine_options, measure), 0, 0, NULL,
     "measure this machine's rates, some seconds, and keep them"},
};

static int list_families(void) {
    const char *name, *about;
    for (int i = 0; qn_machine_family_at(i, &name, &about); i++) printf("%-16s %s\n", name, about);
    return EXIT_DONE;
}

int command_machine(int argc, char **argv) {
    machine_options o = {.device = NULL};
    const option_set set = {"machine", "Show the machine that schedules are made for.",
                            machine_rows, sizeof machine_rows / sizeof machine_rows[0]};
    int status = options_parse(&set, argc, argv, &o);
    if (status >= 0) return status;
    if (o.families) return list_families();
    qn_ctx *qn = cli_open("machine", o.device);
    if (!qn) return EXIT_FAILED;
    const char *text = o.measure ? qn_machine_measure(qn) : qn_machine(qn);
    if (text) fputs(text, stdout);
    if (!text || qn_error_code(qn)) cli_failed("machine", "%s", qn_error(qn));
    bool done = text && !qn_error_code(qn);
    qn_close(qn);
    return done ? EXIT_DONE : EXIT_FAILED;
}
