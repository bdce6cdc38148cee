/* cpu_cache.c - compiled objects on disk.
 *
 * One file per key, named by the key's hash. It holds the whole key, so that two keys of one hash
 * are never confused, and a checksum over key and object. Files are written under another name and
 * renamed, so that a reader sees a whole file or none; whoever comes second wins, and both are
 * right.
 *
 * Objects are code that will run as the user, so the folder is trusted only if it is ours and
 * nobody else may enter it, and a file in it only if it is ours, too. A file that is not what it
 * should be is treated as if it were not there, and replaced. */
#include "dev/cpu.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_SIZE = 1024 };
static const size_t most_bytes = (size_t)1 << 28;

typedef struct header {
    char magic[8];
    uint64_t key_size, object_size, checksum;
} header;
static const char magic[8] = {'Q', 'N', 'O', 'B', 'J', '0', '1', '\n'};

static bool is_ours(const struct stat *s) {
    return s->st_uid == geteuid() && !(s->st_mode & 077);
}

bool cpu_cache_open(qn_ctx *qn) {
    const char *folder = qn->knob[KNOB_CACHE].text;
    struct stat s;
    if (!*folder) return false;
    if (mkdir(folder, 0700) && errno != EEXIST)
        log_line(qn, "e cpu: cannot make the cache %s", folder);
    else if (lstat(folder, &s) || !S_ISDIR(s.st_mode) || !is_ours(&s))
        log_line(qn, "e cpu: the cache %s is not a folder of ours with mode 0700; not used",
                 folder);
    else
        return true;
    return false;
}

static bool file_path(qn_ctx *qn, const str *key, char path[PATH_SIZE]) {
    unsigned long long a = hash_bytes(key->s, key->len, 1), b = hash_bytes(key->s, key->len, 2);
    int n = snprintf(path, PATH_SIZE, "%s/%016llx%016llx.o", qn->knob[KNOB_CACHE].text, a, b);
    return n > 0 && n < PATH_SIZE - 32;
}

static uint64_t checksum(const str *key, const void *object, size_t size) {
    return hash_mix(hash_bytes(key->s, key->len, 3), hash_bytes(object, size, 4));
}

/* ---- reading -------------------------------------------------------------------------------- */

static bool read_all(int f, uint8_t *to, size_t size) {
    for (size_t done = 0; done < size;) {
        ssize_t n = read(f, to + done, size - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        done += (size_t)n;
    }
    return true;
}

static const uint8_t *object_in(const uint8_t *data, size_t size, const str *key, header *h) {
    if (size < sizeof *h) return NULL;
    memcpy(h, data, sizeof *h);
    size_t rest = size - sizeof *h;
    bool fits = !memcmp(h->magic, magic, sizeof magic) && h->key_size == key->len &&
                h->key_size <= rest && h->object_size == rest - h->key_size;
    if (!fits || memcmp(data + sizeof *h, key->s, key->len)) return NULL;
    const uint8_t *object = data + sizeof *h + key->len;
    return checksum(key, object, h->object_size) == h->checksum ? object : NULL;
}

bool cpu_cache_get(qn_ctx *qn, const str *key, str *object) {
    char path[PATH_SIZE];
    struct stat s;
    if (!file_path(qn, key, path)) return false;
    int f = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (f < 0) return false;
    bool good = !fstat(f, &s) && S_ISREG(s.st_mode) && s.st_uid == geteuid() && s.st_size > 0 &&
                (uint64_t)s.st_size <= most_bytes;
    size_t size = good ? (size_t)s.st_size : 0;
    uint8_t *data = good ? heap_try(&qn->heap, size) : NULL;
    good = data && read_all(f, data, size);
    close(f);
    guard g;
    guard_open(&qn->heap, &g);
    if (setjmp(g.at)) {
        guard_close(&qn->heap, &g);
        heap_free(&qn->heap, data, size);
        heap_unwind(&qn->heap);
    }
    header h;
    const uint8_t *found = good ? object_in(data, size, key, &h) : NULL;
    if (found) str_addn(object, (const char *)found, h.object_size);
    guard_close(&qn->heap, &g);
    heap_free(&qn->heap, data, size);
    return found != NULL;
}

/* ---- writing -------------------------------------------------------------------------------- */

static bool write_all(int f, const void *data, size_t size) {
    const uint8_t *from = data;
    for (size_t done = 0; done < size;) {
        ssize_t n = write(f, from + done, size - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        done += (size_t)n;
    }
    return true;
}

void cpu_cache_put(qn_ctx *qn, const str *key, const str *object) {
    char path[PATH_SIZE], fresh[PATH_SIZE];
    if (!file_path(qn, key, path)) return;
    snprintf(fresh, sizeof fresh, "%.980s.new-XXXXXX", path);
    int f = mkostemp(fresh, O_CLOEXEC); /* mode 0600 */
    if (f < 0) return;
    header h = {.key_size = key->len,
                .object_size = object->len,
                .checksum = checksum(key, object->s, object->len)};
    memcpy(h.magic, magic, sizeof magic);
    bool good = write_all(f, &h, sizeof h) && write_all(f, key->s, key->len) &&
                write_all(f, object->s, object->len);
    good = !close(f) && good;
    if (!good || rename(fresh, path)) unlink(fresh);
}
