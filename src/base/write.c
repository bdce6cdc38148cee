/* write.c - the one way in which a file is written.
 *
 * A file is written beside its final place under a name of its own and then renamed: whoever opens
 * the name finds the old file or the new one, never a part, also where the writer is killed. What
 * is there already stays what it is but for its contents: a symbolic link is followed, so that the
 * link stays and the file it names is the one that is new; mode and owner are kept, and where the
 * group cannot be kept nobody else gets what it could do. Only regular files are replaced: a name
 * that is a device, a pipe or a folder is no place for a file. One that the user may not write to
 * is not replaced, either, though its folder would allow it.
 *
 * Nothing here records an error or raises; `why` says what went wrong, errno why. */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MOST_LINKS = 40, CREATE_TRIES = 100 };

/* ---- where ---------------------------------------------------------------------------------- */

/* Of a link in a path: where it leads, taken from where the link is. false: too long. */
static bool follow(char path[FOLDER_PATH], const char *to) {
    char *slash = strrchr(path, '/');
    size_t folder = *to == '/' || !slash ? 0 : (size_t)(slash - path) + 1;
    if (folder + strlen(to) >= FOLDER_PATH) return false;
    memcpy(path + folder, to, strlen(to) + 1);
    return true;
}

bool file_resolve(const char *path, char out[FOLDER_PATH]) {
    char to[FOLDER_PATH];
    errno = ENAMETOOLONG;
    if (strlen(path) >= FOLDER_PATH) return false;
    memcpy(out, path, strlen(path) + 1);
    for (int i = 0; i < MOST_LINKS; i++) {
        ssize_t n = readlink(out, to, sizeof to - 1);
        if (n < 0) return true; /* no link, or not there */
        to[n] = 0;
        if (!follow(out, to)) return errno = ENAMETOOLONG, false;
    }
    errno = ELOOP;
    return false;
}

int file_folder(const char *path, char folder[FOLDER_PATH], const char **name) {
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) + 1 : 0;
    *name = path + n;
    if (n >= FOLDER_PATH || !**name || !strcmp(*name, ".") || !strcmp(*name, "..")) {
        errno = **name ? ENAMETOOLONG : EISDIR;
        return -1;
    }
    memcpy(folder, n ? path : "./", n ? n : 2);
    folder[n ? n : 2] = 0;
    return open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* ---- what is there -------------------------------------------------------------------------- */

static const char *kind_of(mode_t mode) {
    return S_ISDIR(mode)    ? "it is a folder"
           : S_ISLNK(mode)  ? "it is a symbolic link"
           : S_ISCHR(mode)  ? "it is a device"
           : S_ISBLK(mode)  ? "it is a device"
           : S_ISFIFO(mode) ? "it is a pipe"
                            : "it is not a regular file";
}

static bool may_replace(file_write_to *w, const char **why) {
    struct stat s;
    if (fstatat(w->folder, w->name, &s, AT_SYMLINK_NOFOLLOW)) return errno == ENOENT;
    *why = kind_of(s.st_mode);
    if (!S_ISREG(s.st_mode)) return errno = EINVAL, false;
    *why = "it may not be written to";
    if (faccessat(w->folder, w->name, W_OK, AT_EACCESS)) return false;
    *why = "a file cannot be made beside it";
    w->there = true;
    w->mode = s.st_mode & 0777;
    w->user = s.st_uid;
    w->group = s.st_gid;
    return true;
}

/* The new file gets the mode and owner of the old one, as far as that is allowed. */
static bool adopt(file_write_to *w) {
    struct stat s;
    if (!w->there) return true;
    if (fstat(w->file, &s)) return false;
    mode_t mode = w->mode;
    bool same = s.st_uid == w->user && s.st_gid == w->group;
    if (!same && fchown(w->file, w->user, w->group) && fchown(w->file, (uid_t)-1, w->group))
        mode = (mode & 0707u) | (mode & mode << 3 & 070u);
    return !fchmod(w->file, mode);
}

/* ---- writing -------------------------------------------------------------------------------- */

static void make_name(file_write_to *w, uint64_t salt) {
    snprintf(w->fresh, sizeof w->fresh, "%.200s.%016llx.part", w->name, (unsigned long long)salt);
}

/* Whoever holds the lock is the only writer: what has this name is a killed one's. */
static void leave_no_other(file_write_to *w) {
    snprintf(w->fresh, sizeof w->fresh, "%.250s.part", w->name);
    unlinkat(w->folder, w->fresh, 0);
}

bool file_begin(file_write_to *w, int folder, const char *name, file_over over, int mode,
                const char **why) {
    *w = (file_write_to){.folder = folder, .file = -1};
    *why = "its name is too long";
    errno = ENAMETOOLONG;
    if (strlen(name) >= sizeof w->name) return false;
    memcpy(w->name, name, strlen(name) + 1);
    *why = "a file cannot be made beside it";
    if (over != FILE_OVER_ANYTHING && !may_replace(w, why)) return false;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t salt = hash_mix((uint64_t)now.tv_sec, (uint64_t)now.tv_nsec ^ (uint64_t)getpid());
    for (int i = 0; i < CREATE_TRIES && w->file < 0; i++) {
        if (over == FILE_OVER_LOCKED)
            leave_no_other(w);
        else
            make_name(w, salt = hash_mix(salt, (uint64_t)i));
        w->file = openat(folder, w->fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                         w->there ? 0600 : (mode_t)mode);
        if (w->file < 0 && errno != EEXIST && errno != EINTR) return false;
    }
    if (w->file < 0) return false;
    *why = "its mode cannot be kept";
    if (adopt(w)) return true;
    file_drop(w);
    return false;
}

bool file_finish(file_write_to *w, bool sync, const char **why) {
    *why = "cannot bring it to the disk";
    bool good = !sync || !fsync(w->file) || errno == EINVAL || errno == EROFS;
    if (close(w->file) && errno != EINTR) good = false;
    w->file = -1;
    if (good) {
        *why = "cannot put it in place";
        good = !renameat(w->folder, w->fresh, w->folder, w->name);
    }
    int because = errno;
    if (!good) unlinkat(w->folder, w->fresh, 0);
    if (good && sync) fsync(w->folder); /* some file systems cannot; the rename stands anyway */
    errno = because;
    return good;
}

void file_drop(file_write_to *w) {
    int because = errno;
    if (w->file >= 0) {
        close(w->file);
        unlinkat(w->folder, w->fresh, 0);
    }
    w->file = -1;
    errno = because;
}

bool folder_replace(int folder, const char *name, file_over over, int mode, file_content content,
                    const char **why) {
    file_write_to w;
    *why = "it would be larger than files of this process may be";
    errno = EFBIG;
    if (!folder_allows(content.size) || !file_begin(&w, folder, name, over, mode, why))
        return false;
    *why = "cannot write";
    if (folder_append(w.file, content.data, content.size)) return file_finish(&w, false, why);
    file_drop(&w);
    return false;
}
