/* devices.c - `quern devices`: what there is, and whether it opens here. */
#include "cli/cli.h"

int command_devices(int argc, char **argv) {
    const char *name, *about;
    int status =
        options_parse("devices", "List the devices of this machine.", NULL, 0, argc, argv, NULL);
    if (status >= 0) return status;
    for (int i = 0; qn_device(i, &name, &about); i++) {
        qn_ctx *qn = qn_open(&(qn_options){.device = name});
        printf("%-8s %s%s\n", name, about, qn ? "" : " (does not open here)");
        qn_close(qn);
    }
    return EXIT_DONE;
}
