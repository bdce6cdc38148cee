/* cache.c - compiled objects on disk.
 *
 * One file per key, named by the key's hash. It holds the whole key, so that two keys of one hash
 * are never confused, and a checksum over key and object. Kernels that were compiled together are
 * in one object, and each has its file with all of it: they are a few, of some KiB, and no file
 * needs another. Files are written under another name and
 * renamed, so that a reader sees a whole file or none; whoever comes second wins, and both are
 * right. A writer that is killed leaves its unfinished file; tidy.c takes such away.
 *
 * Objects are code that will run as the user, so the folder is trusted only if it is ours and
 * nobody else may enter it, and a file in it only if it is ours, too. The folder is held open: what
 * was looked at is what is used, whatever happens to its name afterwards. A file that is not what
 * it should be is treated as if it were not there, and replaced.
 *
 * Nothing here is an error: a folder that cannot be had, written or trusted costs time and no more.
 * Something to say there is only where the user named the folder. */
#include "dev/cpu/cpu.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { NAME_SIZE = 64, DAY = 86400 };
static const size_t most_bytes = (size_t)1 << 28;

typedef struct header {
    char magic[8];
    uint64_t key_size, object_size, function, checksum;
} header;
static const char magic[8] = {'Q', 'N', 'O', 'B', 'J', '0', '3', '\n'};

/* ---- the folder ----------------------------------------------------------------------------- */

void cpu_cache_open(qn_ctx *qn, cpu_cache *c) {
    const char *wanted = qn->knob[KNOB_CACHE].text, *why = "has no place";
    char usual[FOLDER_PATH] = "";
    *c = (cpu_cache){.folder = -1, .knob = hash_bytes(wanted, strlen(wanted), 0)};
    if (!strcmp(wanted, "off")) return;
    bool named = strcmp(wanted, "on") != 0;
    if (named || folder_usual(usual)) c->folder = folder_open_private(named ? wanted : usual, &why);
    c->on = c->folder >= 0;
    if (!c->on && (named || debug_on(qn, 'e')))
        log_line(qn, "e cpu: the cache %s %s; not used", named ? wanted : usual, why);
}

bool cpu_cache_is(qn_ctx *qn, const cpu_cache *c) {
    const char *wanted = qn->knob[KNOB_CACHE].text;
    return c->knob == hash_bytes(wanted, strlen(wanted), 0);
}

void cpu_cache_close(cpu_cache *c) {
    if (c->on) close(c->folder);
    *c = (cpu_cache){.folder = -1};
}

static void file_name(const str *key, char name[NAME_SIZE]) {
    unsigned long long a = hash_bytes(key->s, key->len, 1), b = hash_bytes(key->s, key->len, 2);
    snprintf(name, NAME_SIZE, "%016llx%016llx.o", a, b);
}

static uint64_t checksum(const str *key, const void *object, size_t size, uint64_t function) {
    return hash_mix(hash_bytes(key->s, key->len, 3), hash_bytes(object, size, function + 4));
}

/* ---- reading -------------------------------------------------------------------------------- */

static const uint8_t *object_in(const uint8_t *data, size_t size, const str *key, header *h) {
    if (size < sizeof *h) return NULL;
    memcpy(h, data, sizeof *h);
    size_t rest = size - sizeof *h;
    bool fits = !memcmp(h->magic, magic, sizeof magic) && h->key_size == key->len &&
                h->key_size <= rest && h->object_size == rest - h->key_size;
    if (!fits || memcmp(data + sizeof *h, key->s, key->len)) return NULL;
    const uint8_t *object = data + sizeof *h + key->len;
    return checksum(key, object, h->object_size, h->function) == h->checksum ? object : NULL;
}

/* The whole file; NULL where it is not ours. What is used stays young, to the day: the oldest go
 * first where there is too much. */
static uint8_t *read_file(heap *h, const cpu_cache *c, const char *name, size_t *size) {
    folder_file about;
    uint8_t *data = folder_read(h, c->folder, name, most_bytes, &about);
    *size = about.size;
    if (data && !about.ours) {
        heap_free(h, data, about.size);
        data = NULL;
    }
    if (data && about.changed < time(NULL) - DAY)
        utimensat(c->folder, name, NULL, AT_SYMLINK_NOFOLLOW);
    return data;
}

bool cpu_cache_get(qn_ctx *qn, const cpu_cache *c, const str *key, str *object, int *function) {
    char name[NAME_SIZE];
    size_t size = 0;
    file_name(key, name);
    uint8_t *data = c->on ? read_file(&qn->heap, c, name, &size) : NULL;
    if (!data) return false;
    cleanup undo;
    heap_piece own = {&qn->heap, data, size};
    cleanup_push(&qn->heap, &undo, heap_piece_cleanup, &own);
    header h;
    const uint8_t *found = object_in(data, size, key, &h);
    if (found) str_addn(object, (const char *)found, h.object_size);
    if (found) *function = (int)h.function;
    cleanup_run(&qn->heap, &undo);
    return found != NULL;
}

/* ---- writing -------------------------------------------------------------------------------- */

void cpu_cache_put(qn_ctx *qn, cpu_cache *c, const str *key, const str *object, int function) {
    char name[NAME_SIZE];
    const char *why;
    file_write_to w;
    header h = {.key_size = key->len,
                .object_size = object->len,
                .function = (uint64_t)function,
                .checksum = checksum(key, object->s, object->len, (uint64_t)function)};
    uint64_t size = (uint64_t)sizeof h + key->len + object->len;
    if (!c->on || size > most_bytes || !folder_allows(size)) return;
    memcpy(h.magic, magic, sizeof magic);
    if (!c->tidied) cpu_cache_tidy(qn, c);
    file_name(key, name);
    if (!file_begin(&w, c->folder, name, FILE_OVER_ANYTHING, 0600, &why)) return;
    if (folder_append(w.file, &h, sizeof h) && folder_append(w.file, key->s, key->len) &&
        folder_append(w.file, object->s, object->len))
        file_finish(&w, false, &why);
    file_drop(&w);
}
