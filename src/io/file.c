/* file.c - whole files in and out.
 *
 * A file is written beside its final place under a name of its own, brought to the disk, and then
 * renamed: whoever opens the name finds the old file or the new one, never a part, also after a
 * crash. Reading uses positioned reads rather than a mapping: a mapped file that another process
 * cuts short would end ours by a signal, a read merely fails. */
#include "io/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { CREATE_TRIES = 100 };

/* ---- writing ------------------------------------------------------------------------------- */

static int file_failed(file_writer *w, const char *doing) {
    return fail(w->ctx, QN_EIO, "%s: %s: %s", w->path, doing, strerror(errno));
}

/* The mode is 0666 less the user's mask, as for any other file of theirs; that is why this is not
 * mkstemp, whose files only their owner may read. */
int file_create(file_writer *w, qn_ctx *qn, const char *path) {
    *w = (file_writer){.ctx = qn, .path = path, .fd = -1};
    w->temporary_size = strlen(path) + 32;
    w->temporary = heap_try(&qn->heap, w->temporary_size);
    if (!w->temporary) return fail(qn, QN_ENOMEM, "%s: out of memory", path);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t salt = hash_mix((uint64_t)now.tv_sec, (uint64_t)now.tv_nsec ^ (uint64_t)getpid());
    for (int i = 0; i < CREATE_TRIES && w->fd < 0; i++) {
        salt = hash_mix(salt, (uint64_t)i);
        snprintf(w->temporary, w->temporary_size, "%s.%016llx.part", path,
                 (unsigned long long)salt);
        w->fd = open(w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (w->fd < 0 && errno != EEXIST && errno != EINTR) break;
    }
    if (w->fd >= 0) return QN_OK;
    int code = file_failed(w, "cannot create a file there");
    file_abandon(w);
    return code;
}

int file_write(file_writer *w, const void *data, size_t size) {
    const char *at = data;
    while (size) {
        ssize_t n = write(w->fd, at, size);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return file_failed(w, "cannot write");
        at += n;
        size -= (size_t)n;
    }
    return QN_OK;
}

/* Bring a rename to the disk. Some file systems cannot sync a folder; the rename stands anyway. */
static void sync_folder(file_writer *w) {
    char *folder = w->temporary; /* no longer needed as a name */
    char *slash = strrchr(folder, '/');
    if (slash) slash[slash == folder] = 0;
    int fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    fsync(fd);
    close(fd);
}

int file_commit(file_writer *w) {
    int code = QN_OK;
    if (fsync(w->fd) != 0 && errno != EINVAL && errno != EROFS)
        code = file_failed(w, "cannot bring it to the disk");
    if (close(w->fd) != 0 && code == QN_OK && errno != EINTR)
        code = file_failed(w, "cannot close it");
    w->fd = -1;
    if (code == QN_OK && rename(w->temporary, w->path) != 0)
        code = file_failed(w, "cannot put it in place");
    if (code == QN_OK) {
        sync_folder(w);
    } else {
        unlink(w->temporary);
    }
    heap_free(&w->ctx->heap, w->temporary, w->temporary_size);
    w->temporary = NULL;
    return code;
}

void file_abandon(file_writer *w) {
    if (w->fd >= 0) {
        close(w->fd);
        unlink(w->temporary);
    }
    w->fd = -1;
    if (w->temporary) heap_free(&w->ctx->heap, w->temporary, w->temporary_size);
    w->temporary = NULL;
}

/* ---- reading ------------------------------------------------------------------------------- */

int file_open(qn_ctx *qn, const char *path, uint64_t *size) {
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not block us here */
    if (fd < 0) return fail(qn, QN_EIO, "%s: cannot open it: %s", path, strerror(errno));
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) {
        *size = (uint64_t)info.st_size;
        return fd;
    }
    close(fd);
    return fail(qn, QN_EIO, "%s: not a regular file", path);
}

int file_read(qn_ctx *qn, const char *path, int fd, uint64_t at, void *out, size_t size) {
    char *to = out;
    while (size) {
        ssize_t n = pread(fd, to, size, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0)
            return fail(qn, QN_EIO, "%s: cannot read at byte %llu: %s", path,
                        (unsigned long long)at, strerror(errno));
        if (n == 0)
            return fail(qn, QN_EFORMAT, "%s: ends at byte %llu, %zu bytes early", path,
                        (unsigned long long)at, size);
        to += n;
        at += (uint64_t)n;
        size -= (size_t)n;
    }
    return QN_OK;
}
