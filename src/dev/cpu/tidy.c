/* tidy.c - what keeps the disk cache from growing for ever.
 *
 * Whoever writes a first object looks, at most once an hour among all processes, through the
 * folder: the files of writers that were killed go, and where the rest takes more than its limit
 * the objects that were not used for longest go, down to three quarters of it, so that not every
 * hour has something to do. Two processes that tidy at once do the same and do no harm: a file
 * that is gone is a file that will be compiled again, and one that is being read is read to its
 * end. Only names that the cache itself gives are ever touched. */
#include "dev/cpu/cpu.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { HOUR = 3600, NAME_LENGTH = 34, SALT = 16, FRESH_LENGTH = NAME_LENGTH + 1 + SALT + 5 };
static const int64_t most_bytes = (int64_t)256 << 20;
static const char *const stamp = ".tidied";

typedef struct entry {
    char name[NAME_LENGTH + 1];
    int64_t used, size;
} entry;

typedef struct entries {
    entry *at;
    size_t cap, count;
    int64_t bytes;
    bool lost; /* no memory for all of them */
} entries;

/* "0123456789abcdef0123456789abcdef.o", and what writers (base/write.c) put behind that. */
static bool is_hex(const char *s, size_t n) {
    return strspn(s, "0123456789abcdef") >= n;
}

static bool is_object(const char *name) {
    return is_hex(name, NAME_LENGTH - 2) && !strcmp(name + NAME_LENGTH - 2, ".o");
}

static bool is_unfinished(const char *name) {
    return strlen(name) == FRESH_LENGTH && is_hex(name, NAME_LENGTH - 2) &&
           !memcmp(name + NAME_LENGTH - 2, ".o.", 3) && is_hex(name + NAME_LENGTH + 1, SALT) &&
           !strcmp(name + FRESH_LENGTH - 5, ".part");
}

static void add(heap *h, entries *e, const char *name, const struct stat *s) {
    if (e->count == e->cap) {
        size_t cap = e->cap ? 2 * e->cap : 256;
        entry *grown = heap_try(h, cap * sizeof *grown);
        if (!grown) {
            e->lost = true;
            return;
        }
        if (e->count) memcpy(grown, e->at, e->count * sizeof *grown);
        heap_free(h, e->at, e->cap * sizeof *e->at);
        e->at = grown;
        e->cap = cap;
    }
    entry *new = &e->at[e->count++];
    *new = (entry){.used = s->st_mtime, .size = s->st_size};
    memcpy(new->name, name, NAME_LENGTH + 1);
    e->bytes += s->st_size;
}

static int by_use(const void *a, const void *b) {
    const entry *x = a, *y = b;
    if (x->used != y->used) return x->used < y->used ? -1 : 1;
    return strcmp(x->name, y->name);
}

static void look_through(heap *h, DIR *d, int64_t now, entries *e) {
    for (struct dirent *file; !e->lost && (file = readdir(d));) {
        struct stat s;
        bool unfinished = is_unfinished(file->d_name);
        if (!unfinished && !is_object(file->d_name)) continue;
        if (fstatat(dirfd(d), file->d_name, &s, AT_SYMLINK_NOFOLLOW)) continue;
        if (!unfinished)
            add(h, e, file->d_name, &s);
        else if (s.st_mtime < now - HOUR)
            unlinkat(dirfd(d), file->d_name, 0);
    }
}

static void drop_oldest(DIR *d, entries *e) {
    if (e->bytes <= most_bytes || e->lost) return;
    qsort(e->at, e->count, sizeof *e->at, by_use);
    for (size_t i = 0; i < e->count && e->bytes > most_bytes / 4 * 3; i++) {
        unlinkat(dirfd(d), e->at[i].name, 0);
        e->bytes -= e->at[i].size;
    }
}

/* Is it this process's turn? The stamp's time is when the last one had it; a time that is yet to
 * come was set by a clock that was wrong. */
static bool take_turn(const cpu_cache *c, int64_t now) {
    struct stat s;
    if (!fstatat(c->folder, stamp, &s, AT_SYMLINK_NOFOLLOW) && s.st_mtime > now - HOUR &&
        s.st_mtime <= now)
        return false;
    int f =
        openat(c->folder, stamp, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (f < 0) return false;
    bool mine = !futimens(f, NULL);
    close(f);
    return mine;
}

void cpu_cache_tidy(qn_ctx *qn, cpu_cache *c) {
    int64_t now = time(NULL);
    c->tidied = true;
    if (!take_turn(c, now)) return;
    int f = openat(c->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = f < 0 ? NULL : fdopendir(f);
    if (!d) {
        if (f >= 0) close(f);
        return;
    }
    entries e = {0};
    look_through(&qn->heap, d, now, &e);
    drop_oldest(d, &e);
    closedir(d);
    heap_free(&qn->heap, e.at, e.cap * sizeof *e.at);
}
