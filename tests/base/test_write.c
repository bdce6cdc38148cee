/* test_write.c - what writing a file does to what is there already: models, exported wisdom and the
 * wisdom's own file all go through one writer, so each of them is held to the same. */
#include "base/base.h"
#include "quern_tune.h"
#include "run/run.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64];
static qn_ctx *qn;

static const char *in_folder(const char *name) {
    static char path[8][512];
    static int turn;
    char *p = path[turn++ % 8];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

static void put_file(const char *path, const char *text, mode_t mode) {
    int f = open(path, O_WRONLY | O_CREAT | O_TRUNC, mode);
    CHECK(f >= 0 && write(f, text, strlen(text)) == (ssize_t)strlen(text));
    CHECK(!fchmod(f, mode) && !close(f));
}

/* ---- the writers ---------------------------------------------------------------------------- */

static int save_model(const char *path) {
    qn_tensor *t = qn_full(qn, QN_F32, 1, (int64_t[]){4}, 2);
    return qn_save(qn, path, 1, (const char *const[]){"t"}, &t, NULL);
}

static int export_wisdom(const char *path) {
    return qn_wisdom_export(qn, path);
}

typedef int (*writer)(const char *path);
static const writer writers[] = {save_model, export_wisdom};

/* The error's text; it is taken back. */
static const char *refused(writer write_to, const char *path) {
    static char text[1024];
    CHECK_INT(write_to(path), QN_EIO);
    snprintf(text, sizeof text, "%s", qn_error(qn));
    qn_clear_error(qn);
    return text;
}

static bool is_whole(const char *path) {
    char first[64] = "";
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(first, 1, sizeof first - 1, f) : 0;
    if (f) fclose(f);
    return n > 8 && strncmp(first, "old", 3) != 0;
}

static bool nothing_is_left(void) {
    char command[128];
    snprintf(command, sizeof command, "test -z \"$(ls -a %s | grep part)\"", folder);
    return system(command) == 0;
}

#define EACH_WRITER for (size_t w = 0; w < COUNT_OF(writers); w++)

/* ---- what is no file ------------------------------------------------------------------------- */

static void what_is_no_regular_file_is_refused_and_stays(void) {
    struct stat s;
    CHECK(!mkdir(in_folder("dir"), 0700) && !mkfifo(in_folder("pipe"), 0600));
    CHECK(!symlink("/dev/full", in_folder("to-full")) && !symlink("dir", in_folder("to-dir")));
    EACH_WRITER {
        CHECK(strstr(refused(writers[w], "/dev/full"), "it is a device") != NULL);
        CHECK(strstr(refused(writers[w], in_folder("to-full")), "it is a device") != NULL);
        CHECK(strstr(refused(writers[w], in_folder("dir")), "it is a folder") != NULL);
        CHECK(strstr(refused(writers[w], in_folder("to-dir")), "it is a folder") != NULL);
        CHECK(strstr(refused(writers[w], in_folder("pipe")), "it is a pipe") != NULL);
        refused(writers[w], in_folder("dir/"));
        refused(writers[w], in_folder("no/such/folder"));
        CHECK(writers[w]("") != QN_OK && strlen(qn_error(qn)) > 0);
        qn_clear_error(qn);
    }
    CHECK(!stat("/dev/full", &s) && S_ISCHR(s.st_mode));
    CHECK(!lstat(in_folder("pipe"), &s) && S_ISFIFO(s.st_mode));
    CHECK(!lstat(in_folder("to-full"), &s) && S_ISLNK(s.st_mode));
    CHECK(nothing_is_left());
}

/* ---- links ----------------------------------------------------------------------------------- */

static void links_are_followed_and_stay(void) {
    struct stat s;
    EACH_WRITER {
        put_file(in_folder("real"), "old", 0644);
        CHECK(!mkdir(in_folder("below"), 0700) || errno == EEXIST);
        unlink(in_folder("one")), unlink(in_folder("two"));
        CHECK(!symlink("real", in_folder("one")) && !symlink("below/../one", in_folder("two")));
        CHECK_INT(writers[w](in_folder("two")), QN_OK);
        CHECK(!lstat(in_folder("one"), &s) && S_ISLNK(s.st_mode));
        CHECK(!lstat(in_folder("two"), &s) && S_ISLNK(s.st_mode));
        CHECK(!lstat(in_folder("real"), &s) && S_ISREG(s.st_mode) && is_whole(in_folder("real")));
        unlink(in_folder("dangling")), unlink(in_folder("target"));
        CHECK(!symlink("target", in_folder("dangling")));
        CHECK_INT(writers[w](in_folder("dangling")), QN_OK);
        CHECK(!lstat(in_folder("dangling"), &s) && S_ISLNK(s.st_mode));
        CHECK(is_whole(in_folder("target")));
        unlink(in_folder("round")), unlink(in_folder("again"));
        CHECK(!symlink("round", in_folder("again")) && !symlink("again", in_folder("round")));
        refused(writers[w], in_folder("round"));
    }
    CHECK(nothing_is_left());
}

/* ---- modes and owners ------------------------------------------------------------------------ */

static void the_mode_that_was_is_kept(void) {
    static const mode_t modes[] = {0640, 0600, 0664, 0755, 0200};
    struct stat s;
    mode_t before = umask(022);
    EACH_WRITER {
        for (size_t i = 0; i < COUNT_OF(modes); i++) {
            put_file(in_folder("kept"), "old", modes[i]);
            CHECK_INT(writers[w](in_folder("kept")), QN_OK);
            CHECK(!stat(in_folder("kept"), &s));
            CHECK_INT(s.st_mode & 07777, modes[i]);
        }
        unlink(in_folder("fresh"));
        umask(027);
        CHECK_INT(writers[w](in_folder("fresh")), QN_OK);
        CHECK(!stat(in_folder("fresh"), &s));
        CHECK_INT(s.st_mode & 07777, 0640);
        umask(022);
    }
    umask(before);
}

static void the_owner_that_was_is_kept_where_that_is_allowed(void) {
    struct stat s;
    if (geteuid() != 0) {
        SKIP("only root can give files away");
        return;
    }
    EACH_WRITER {
        put_file(in_folder("theirs"), "old", 0640);
        CHECK(!chown(in_folder("theirs"), 12345, 23456));
        CHECK_INT(writers[w](in_folder("theirs")), QN_OK);
        CHECK(!stat(in_folder("theirs"), &s));
        CHECK_INT(s.st_uid, 12345);
        CHECK_INT(s.st_gid, 23456);
        CHECK_INT(s.st_mode & 07777, 0640);
    }
}

/* As somebody else, in a folder that all may write to: the group cannot be kept, so what it could
 * do nobody does; and a file that they may not write to is not replaced. */
static void others_files_are_not_opened_up_nor_replaced(void) {
    struct stat s;
    const char *why;
    if (geteuid() != 0) {
        SKIP("only root can be somebody else");
        return;
    }
    CHECK(!mkdir(in_folder("common"), 0777) && !chmod(in_folder("common"), 0777));
    put_file(in_folder("common/mixed"), "old", 0666);
    put_file(in_folder("common/group"), "old", 0662);
    put_file(in_folder("common/locked"), "old", 0644);
    CHECK(!chmod(folder, 0755));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int f = open(in_folder("common"), O_RDONLY | O_DIRECTORY);
        if (setgid(4242) || setuid(4242)) _exit(9);
        if (!folder_replace(f, "mixed", FILE_OVER_FILE, 0666, (file_content){"new", 3}, &why))
            _exit(1);
        if (!folder_replace(f, "group", FILE_OVER_FILE, 0666, (file_content){"new", 3}, &why))
            _exit(2);
        _exit(folder_replace(f, "locked", FILE_OVER_FILE, 0666, (file_content){"new", 3}, &why) ||
                      errno != EACCES
                  ? 3
                  : 0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_INT(WEXITSTATUS(status), 0);
    CHECK(!stat(in_folder("common/mixed"), &s));
    CHECK_INT(s.st_mode & 07777, 0666);
    CHECK(!stat(in_folder("common/group"), &s));
    CHECK_INT(s.st_mode & 07777, 0622);
    CHECK(!chmod(folder, 0700));
}

/* ---- names ----------------------------------------------------------------------------------- */

static void names_as_long_as_names_may_be_are_written(void) {
    char name[300];
    memset(name, 'n', sizeof name);
    name[255] = 0;
    EACH_WRITER {
        const char *path = in_folder(name);
        int code = writers[w](path);
        if (w == 0) CHECK_INT(code, QN_OK);
        qn_clear_error(qn); /* the lock of wisdom has a longer name */
    }
    name[255] = 'n';
    name[299] = 0;
    EACH_WRITER refused(writers[w], in_folder(name));
    CHECK(nothing_is_left());
}

/* ---- wisdom's own file ----------------------------------------------------------------------- */

/* A file named by QN_WISDOM that is a link to a device is read as none, and was replaced. */
static void the_file_of_the_wisdom_knob_is_written_alike(void) {
    struct stat s;
    CHECK_INT(qn_wisdom_export(qn, in_folder("known")), QN_OK);
    put_file(in_folder("own"), "", 0640);
    CHECK(!unlink(in_folder("own")) && !symlink("own-real", in_folder("own")));
    CHECK_INT(qn_set(qn, "wisdom", in_folder("own")), QN_OK);
    CHECK_INT(qn_wisdom_import(qn, in_folder("known")), QN_OK);
    CHECK(!lstat(in_folder("own"), &s) && S_ISLNK(s.st_mode) && is_whole(in_folder("own-real")));
    CHECK(!chmod(in_folder("own-real"), 0640));
    CHECK_INT(qn_wisdom_import(qn, in_folder("known")), QN_OK);
    CHECK(!stat(in_folder("own-real"), &s));
    CHECK_INT(s.st_mode & 07777, 0640);
    CHECK_INT(qn_set(qn, "wisdom", in_folder("to-full")), QN_OK);
    CHECK_INT(qn_wisdom_import(qn, in_folder("known")), QN_EIO);
    CHECK(strstr(qn_error(qn), "device") != NULL);
    qn_clear_error(qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    snprintf(folder, sizeof folder, "/tmp/qn_write_%d", getpid());
    if (mkdir(folder, 0700)) return 1;
    setenv("QN_WISDOM", in_folder("wisdom"), 1);
    qn = qn_open(&QN_OPTIONS(.threads = 1));
    RUN(what_is_no_regular_file_is_refused_and_stays);
    RUN(links_are_followed_and_stay);
    RUN(the_mode_that_was_is_kept);
    RUN(the_owner_that_was_is_kept_where_that_is_allowed);
    RUN(others_files_are_not_opened_up_nor_replaced);
    RUN(names_as_long_as_names_may_be_are_written);
    RUN(the_file_of_the_wisdom_knob_is_written_alike);
    qn_close(qn);
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command)) printf("%s is left\n", folder);
    return test_end();
}
