/* folder.c - files that processes share in a folder: how caches and wisdom lie on the disk.
 *
 * A folder is held open while it is used: what was looked at is what is read and written, whatever
 * happens to its name afterwards. Files are written by write.c. What is read is a plain file of
 * bounded size, or it is not there; who may have written it is for the caller to ask. Nothing here
 * records an error, raises or waits for ever: disks may be full, homes read-only, and other writers
 * stopped. */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Where the user's caches are kept, by the XDG base directory specification; made where missing. A
 * program that runs with more rights than its caller is not told by the caller's environment. */
bool folder_usual(char path[FOLDER_PATH]) {
    const char *base = secure_getenv("XDG_CACHE_HOME"), *below = "";
    if (!base || base[0] != '/') base = secure_getenv("HOME"), below = "/.cache";
    if (!base || base[0] != '/') return false;
    int n = snprintf(path, FOLDER_PATH, "%s%s", base, below);
    if (n <= 0 || n >= FOLDER_PATH - 16) return false;
    mkdir(path, 0700);
    memcpy(path + n, "/quern", 7);
    return true;
}

int folder_open_private(const char *path, const char **why) {
    struct stat s;
    *why = "cannot be made";
    if (mkdir(path, 0700) && errno != EEXIST) return -1;
    *why = "is not a folder of ours with mode 0700";
    int f = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (f < 0) return -1;
    if (!fstat(f, &s) && s.st_uid == geteuid() && !(s.st_mode & 077)) return f;
    close(f);
    return -1;
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

/* Of what else may have the name a pipe would let open() wait. */
uint8_t *folder_read(heap *h, int folder, const char *name, size_t most, folder_file *about) {
    struct stat s;
    *about = (folder_file){.size = 0};
    int f = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (f < 0) return NULL;
    bool good = !fstat(f, &s) && S_ISREG(s.st_mode) && s.st_size > 0 && (uint64_t)s.st_size <= most;
    uint8_t *data = good ? heap_try(h, (size_t)s.st_size) : NULL;
    if (data && !read_all(f, data, (size_t)s.st_size)) {
        heap_free(h, data, (size_t)s.st_size);
        data = NULL;
    }
    close(f);
    if (good)
        *about = (folder_file){.size = (size_t)s.st_size,
                               .changed = s.st_mtime,
                               .ours = s.st_uid == geteuid() && !(s.st_mode & 022)};
    return data;
}

/* ---- writing -------------------------------------------------------------------------------- */

bool folder_append(int file, const void *data, size_t size) {
    const uint8_t *from = data;
    for (size_t done = 0; done < size;) {
        ssize_t n = write(file, from + done, size - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        done += (size_t)n;
    }
    return true;
}

/* Writing past the process's limit of file sizes would not fail, but end the process. */
bool folder_allows(uint64_t size) {
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY ||
           size <= limit.rlim_cur;
}

/* A lock of the open file, which ends with its holder, however that ends. Whoever holds it long was
 * stopped; then it is not had. */
int folder_lock(int folder, const char *name, double seconds) {
    int f = openat(folder, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    double end = clock_seconds() + seconds;
    while (f >= 0 && flock(f, LOCK_EX | LOCK_NB)) {
        if ((errno != EWOULDBLOCK && errno != EINTR) || clock_seconds() > end) {
            close(f);
            return -1;
        }
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    return f;
}

void folder_unlock(int lock) {
    if (lock >= 0) close(lock);
}
