/* file.c - whole files in and out.
 *
 * Writing is base/write.c's, brought to the disk before it gets its name, so that after a crash,
 * too, there is the old file or the new one. Reading uses positioned reads rather than a mapping: a
 * mapped file that another process cuts short would end ours by a signal, a read merely fails. */
#include "io/io.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- writing ------------------------------------------------------------------------------- */

static int file_failed(file_writer *w, const char *why) {
    return fail(w->ctx, QN_EIO, "%s: %s: %s", w->path, why, strerror(errno));
}

int file_create(file_writer *w, qn_ctx *qn, const char *path) {
    char end[FOLDER_PATH], folder[FOLDER_PATH];
    const char *name, *why = "its folder cannot be opened";
    *w = (file_writer){.ctx = qn, .path = path, .to = {.folder = -1, .file = -1}};
    if (!file_resolve(path, end)) return file_failed(w, "its links lead nowhere");
    int at = file_folder(end, folder, &name);
    if (at < 0) return file_failed(w, why);
    if (file_begin(&w->to, at, name, FILE_OVER_FILE, 0666, &why)) return QN_OK;
    int code = file_failed(w, why);
    file_abandon(w);
    return code;
}

int file_write(file_writer *w, const void *data, size_t size) {
    return folder_append(w->to.file, data, size) ? QN_OK : file_failed(w, "cannot write");
}

int file_commit(file_writer *w) {
    const char *why;
    int code = file_finish(&w->to, true, &why) ? QN_OK : file_failed(w, why);
    file_abandon(w);
    return code;
}

void file_abandon(file_writer *w) {
    file_drop(&w->to);
    if (w->to.folder >= 0) close(w->to.folder);
    w->to.folder = -1;
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
