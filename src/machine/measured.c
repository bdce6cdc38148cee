/* measured.c - the rates that were measured on this machine, kept like wisdom: a file in the folder
 * of the cache, one for each processor that uses it, of the form that knob machine takes.
 *
 * Only rates are taken from it, whatever else it says: so that having measured changes no bit of
 * any result. A file that is broken or foreign is no error; the family's row stands then. */
#include "machine/machine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOST_BYTES = 1 << 16, NAME_SIZE = 32 };

static void file_name(const char *processor, size_t size, char name[NAME_SIZE]) {
    snprintf(name, NAME_SIZE, "machine-%016llx",
             (unsigned long long)hash_bytes(processor, size, 6));
}

/* The cache's folder, as its knob says; -1: there is to be none, or why not. */
static int open_folder(qn_ctx *qn, const char **why) {
    const char *cache = qn->knob[KNOB_CACHE].text;
    char usual[FOLDER_PATH];
    *why = "the cache is off (knob cache)";
    if (!strcmp(cache, "off")) return -1;
    bool own = strcmp(cache, "on") != 0;
    *why = "there is no folder for caches";
    return own || folder_usual(usual) ? folder_open_private(own ? cache : usual, why) : -1;
}

/* A line "name value"; what is no rate, or no value for it, is left out. */
static bool take_line(const char *line, machine *m) {
    size_t n = 0;
    char *end;
    while ((line[n] >= 'a' && line[n] <= 'z') || (line[n] >= '0' && line[n] <= '9') ||
           line[n] == '_')
        n++;
    const machine_field *f = machine_field_named(line, n);
    if (!f || f->kind != MACHINE_RATE) return false;
    long long v = strtoll(line + n, &end, 10);
    if (end == line + n || v < f->least || v > f->most) return false;
    *machine_value(m, f) = v;
    return true;
}

bool machine_take_rates(const char *text, machine *m) {
    bool any = false;
    for (const char *line = text; *line; line += *line == '\n') {
        any |= take_line(line, m);
        line += strcspn(line, "\n");
    }
    return any;
}

void machine_recall(qn_ctx *qn, const char *processor, size_t size, machine *m) {
    const char *why;
    char name[NAME_SIZE];
    folder_file about;
    int folder = *qn->knob[KNOB_MACHINE].text ? -1 : open_folder(qn, &why);
    if (folder < 0) return;
    file_name(processor, size, name);
    uint8_t *data = folder_read(&qn->heap, folder, name, MOST_BYTES - 1, &about);
    close(folder);
    if (!data) return;
    char text[MOST_BYTES];
    memcpy(text, data, about.size);
    text[about.size] = 0;
    heap_free(&qn->heap, data, about.size);
    if (about.ours && machine_take_rates(text, m)) m->source = "measured";
}

qn_code machine_keep(qn_ctx *qn, const char *processor, size_t size, const str *text) {
    const char *why;
    char name[NAME_SIZE];
    int folder = open_folder(qn, &why);
    if (folder < 0) return fail(qn, QN_EIO, "machine: what was measured is not kept: %s", why);
    file_name(processor, size, name);
    bool ok = folder_replace(folder, name, FILE_OVER_ANYTHING, 0600,
                             (file_content){text->s, text->len}, &why);
    int error = errno;
    close(folder);
    if (ok) return QN_OK;
    return fail(qn, QN_EIO, "machine %s: cannot be written: %s: %s", name, why, strerror(error));
}
