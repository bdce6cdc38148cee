/* interim.c - weak stand-ins while the kernel compiler's rooms are being delivered, so that the oracle
 * device can serve the rooms above. Removed when they are there. */
#include "run/run.h"
#define WEAK __attribute__((weak))
WEAK void kern_passes(kern *k) {
    (void)k;
}
WEAK void kern_default_schedule(const kern *k, const kern_limits *limits, str *out) {
    (void)k, (void)limits, (void)out;
}
WEAK int kern_schedule(kern *k, const char *text, str *why) {
    (void)k, (void)text, (void)why;
    return 0;
}
WEAK bool kern_check(const kern *k, str *why) {
    (void)k, (void)why;
    return true;
}
static void *no_open(qn_ctx *qn, str *why) {
    (void)qn, (void)why;
    return NULL;
}
WEAK const dev_table dev_cpu = {.name = "cpu", .description = "not there yet", .open = no_open};
WEAK const dev_table dev_null = {.name = "null", .description = "not there yet", .open = no_open};
WEAK const dev_table *dev_at(int i) {
    return i == 0 ? &dev_cpu : i == 1 ? &dev_ref : NULL;
}
WEAK const dev_table *dev_find(const char *name) {
    for (int i = 0; dev_at(i); i++)
        if (!strcmp(dev_at(i)->name, name)) return dev_at(i);
    return NULL;
}
