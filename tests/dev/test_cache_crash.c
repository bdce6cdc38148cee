/* test_cache_crash.c - the disk cache when things go wrong around it: many processes at once,
 * writers killed in the middle, disks that are full or may not be written. A kernel that is loaded
 * must be right, one that cannot be is compiled, and no process ends. */
#include "cache_harness.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

/* ---- many processes ------------------------------------------------------------------------- */

enum { PROCESSES = 32, KERNELS = 24, EACH = 10 };

typedef struct worker {
    const char *folder;
    int number;
    bool warm; /* everything must be there */
} worker;

/* Kernels in an order of its own, some of them twice; 0: all were right. */
static int work(void *arg) {
    worker *w = arg;
    uint64_t seed = (uint64_t)w->number + 1;
    qn_ctx *qn = open_with(w->folder);
    void *state = qn ? open_cpu(qn) : NULL;
    if (!state) return 2;
    int wrong = 0;
    for (int i = 0; i < EACH; i++)
        wrong += use_kernel(qn, state, 2 + (int)test_below(&seed, KERNELS)) < (w->warm ? 1 : 0);
    dev_cpu.close(state);
    qn_close(qn);
    return wrong != 0;
}

static void processes_share_a_folder(void) {
    char folder[FILE_PATH];
    if (!make_folder(folder)) return;
    worker w[PROCESSES];
    pid_t pid[PROCESSES];
    int codes[PROCESSES], missing = 0;
    for (int i = 0; i < PROCESSES; i++) {
        w[i] = (worker){folder, i, false};
        pid[i] = start_child(work, &w[i]);
    }
    for (int i = 0; i < PROCESSES; i++) codes[i] = end_child(pid[i]);
    if (codes[0] == 2) {
        SKIP("no compiler");
    } else {
        for (int i = 0; i < PROCESSES; i++) CHECK_INT(codes[i], 0);
        CHECK_INT(count_files(folder).unfinished, 0);
        for (int k = 2; k < 2 + KERNELS; k++) {
            char name[20];
            snprintf(name, sizeof name, "\"times%d\"", k);
            missing += !*find_entry(folder, name).path;
        }
        CHECK_INT(missing, 0);
        for (int i = 0; i < 4; i++) {
            w[i].warm = true;
            CHECK_INT(in_child(work, &w[i]), 0);
        }
    }
    remove_folder(folder);
}

/* ---- killed writers ------------------------------------------------------------------------- */

enum { TRIALS = 1000, KEYS = 6 };

static int write_for_ever(void *arg) {
    qn_ctx *qn = open_with(arg);
    cpu_cache c;
    cpu_cache_open(qn, &c);
    str key[KEYS], object[KEYS];
    for (int i = 0; i < KEYS; i++) {
        str_open(&key[i], &qn->heap);
        str_open(&object[i], &qn->heap);
        made_up(i, &key[i], &object[i]);
    }
    if (!c.on) return 1;
    for (int i = getpid() % KEYS;; i = (i + 1) % KEYS)
        cpu_cache_put(qn, &c, &key[i], &object[i], i % 5);
}

static void wait_a_while(int64_t nanoseconds) {
    struct timespec t = {0, nanoseconds};
    nanosleep(&t, NULL);
}

static void age_unfinished(const char *folder, const char *name, void *user) {
    long seconds = *(const long *)user;
    char path[2 * FILE_PATH];
    snprintf(path, sizeof path, "%.590s/%.255s", folder, name);
    if (strlen(name) != HASH_NAME) file_age(path, seconds);
}

/* Young leftovers may be a writer's who lives; old ones go, once it is time to tidy. */
static void leftovers_go_when_old(const char *folder, int objects) {
    long minutes = 30 * 60, hours = 2 * 3600;
    qn_ctx *qn = open_with(folder);
    cpu_cache c;
    cpu_cache_open(qn, &c);
    int left = count_files(folder).unfinished;
    CHECK(left > 0);
    each_file(folder, age_unfinished, &minutes);
    put_made_up(qn, &c, 0);
    CHECK_INT(count_files(folder).unfinished, left);
    each_file(folder, age_unfinished, &hours);
    put_made_up(qn, &c, 0); /* this process has had its look */
    CHECK_INT(count_files(folder).unfinished, left);
    cpu_cache_close(&c);
    cpu_cache_open(qn, &c);
    put_made_up(qn, &c, 0);
    CHECK_INT(count_files(folder).unfinished, 0);
    CHECK_INT(count_files(folder).objects, objects);
    cpu_cache_close(&c);
    qn_close(qn);
}

/* Killed by chance anywhere: before the first byte, in the middle, behind the last rename. */
static void killed_writers_leave_nothing_wrong(void) {
    char folder[FILE_PATH];
    if (!make_folder(folder)) return;
    qn_ctx *qn = open_with(folder);
    cpu_cache c;
    cpu_cache_open(qn, &c);
    CHECK(c.on);
    uint64_t seed = (uint64_t)time(NULL);
    int64_t first = (int64_t)seed;
    int found = 0, wrong = 0;
    for (int trial = 0; trial < TRIALS && !wrong; trial++) {
        pid_t pid = start_child(write_for_ever, folder);
        wait_a_while(1 + test_below(&seed, 4000000));
        kill(pid, SIGKILL);
        CHECK_INT(end_child(pid), -SIGKILL);
        for (int i = 0; i < KEYS; i++) {
            int right = check_made_up(qn, &c, i);
            found += right == 1;
            wrong += right < 0;
        }
    }
    if (wrong) FAIL("a wrong entry was loaded (seed %lld)", (long long)first);
    CHECK(found > TRIALS);
    for (int i = 0; i < KEYS; i++) put_made_up(qn, &c, i);
    for (int i = 0; i < KEYS; i++) CHECK_INT(check_made_up(qn, &c, i), 1);
    cpu_cache_close(&c);
    qn_close(qn);
    leftovers_go_when_old(folder, KEYS);
    remove_folder(folder);
}

/* The same with the whole device: a process that compiles is killed, the next one is right. */
static void killed_compilers_leave_nothing_wrong(void) {
    char folder[FILE_PATH];
    if (!make_folder(folder)) return;
    uint64_t seed = 11;
    worker w = {folder, 0, false};
    int code = in_child(work, &w);
    if (code == 2) {
        SKIP("no compiler");
    } else {
        CHECK_INT(code, 0);
        for (int trial = 1; trial <= 25; trial++) {
            w.number = trial;
            pid_t pid = start_child(work, &w);
            wait_a_while(test_below(&seed, 100000000));
            kill(pid, SIGKILL);
            end_child(pid);
            CHECK(use_apart(folder, NULL, 2 + trial % KERNELS) >= 0);
        }
    }
    remove_folder(folder);
}

/* ---- disks ---------------------------------------------------------------------------------- */

enum { CANNOT_MOUNT = 77 };

/* A disk of a few pages of our own, in a namespace of our own. */
static bool mount_small(const char *folder) {
    return !unshare(CLONE_NEWNS) && !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
           !mount("tmpfs", folder, "tmpfs", 0, "size=48k,mode=0700");
}

static int fill_a_small_disk(void *arg) {
    const char *folder = arg;
    if (!mount_small(folder)) return CANNOT_MOUNT;
    qn_ctx *qn = open_with(folder);
    cpu_cache c;
    cpu_cache_open(qn, &c);
    if (!c.on) return 1;
    int found = 0;
    for (int i = 0; i < 100; i++) put_made_up(qn, &c, i);
    for (int i = 0; i < 100; i++) {
        int right = check_made_up(qn, &c, i);
        if (right < 0) return 2;
        found += right;
    }
    if (!found || found == 100 || count_files(folder).unfinished) return 3;
    cpu_cache_close(&c);
    void *state = open_cpu(qn);
    for (int k = 2; state && k < 6; k++)
        if (use_kernel(qn, state, k) < 0) return 4;
    if (state) dev_cpu.close(state);
    if (count_files(folder).unfinished) return 5;
    qn_close(qn);
    return 0;
}

static void a_full_disk_costs_time_only(void) {
    char folder[FILE_PATH];
    if (!make_folder(folder)) return;
    int code = in_child(fill_a_small_disk, folder);
    if (code == CANNOT_MOUNT)
        SKIP("cannot mount a disk here");
    else
        CHECK_INT(code, 0);
    remove_folder(folder);
}

static int use_a_read_only_disk(void *arg) {
    const char *folder = arg;
    if (!mount_small(folder)) return CANNOT_MOUNT;
    int first = use_cached(folder, NULL, 3);
    if (first < 0) return first == -1 ? 0 : 1;
    if (mount("none", folder, NULL, MS_REMOUNT | MS_RDONLY, "size=48k,mode=0700"))
        return CANNOT_MOUNT;
    if (use_cached(folder, NULL, 3) != 1) return 2; /* what is there is used */
    if (use_cached(folder, NULL, 4) != 0) return 3;
    if (use_cached(folder, NULL, 4) != 0) return 4;
    return count_files(folder).unfinished != 0;
}

static void a_read_only_disk_is_read(void) {
    char folder[FILE_PATH];
    if (!make_folder(folder)) return;
    int code = in_child(use_a_read_only_disk, folder);
    if (code == CANNOT_MOUNT)
        SKIP("cannot mount a disk here");
    else
        CHECK_INT(code, 0);
    remove_folder(folder);
}

/* Without its limit in mind a process would be ended by SIGXFSZ. */
static int write_beyond_the_limit(void *arg) {
    qn_ctx *qn = open_with(arg);
    cpu_cache c;
    cpu_cache_open(qn, &c);
    if (!c.on) return 1;
    put_made_up(qn, &c, 1);
    struct rlimit limit = {100, 100};
    if (setrlimit(RLIMIT_FSIZE, &limit)) return 2;
    put_made_up(qn, &c, 2);
    if (check_made_up(qn, &c, 1) != 1 || check_made_up(qn, &c, 2) != 0) return 3;
    cpu_cache_close(&c);
    qn_close(qn);
    return count_files(arg).unfinished != 0;
}

static void limits_of_file_sizes_end_nobody(void) {
    char folder[FILE_PATH];
    if (!make_folder(folder)) return;
    CHECK_INT(in_child(write_beyond_the_limit, folder), 0);
    remove_folder(folder);
}

/* A home that may not be written, seen by who is not root. */
static int use_without_a_home(void *arg) {
    if (!geteuid() && (setgid(65534) || setuid(65534))) return CANNOT_MOUNT;
    setenv("HOME", arg, 1);
    unsetenv("XDG_CACHE_HOME");
    int first = use_cached("on", NULL, 3), second = use_cached("on", NULL, 3);
    if (cache_log[0]) return 3; /* nobody asked for this folder: nothing to say */
    return first == second && (first == 0 || first == -1) ? 0 : 1;
}

static void a_read_only_home_costs_time_only(void) {
    char folder[FILE_PATH];
    if (!make_folder(folder)) return;
    chmod(folder, 0555);
    int code = in_child(use_without_a_home, folder);
    if (code == CANNOT_MOUNT)
        SKIP("cannot become another user");
    else
        CHECK_INT(code, 0);
    chmod(folder, 0700);
    CHECK_INT(each_file(folder, NULL, NULL), 0);
    remove_folder(folder);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(processes_share_a_folder);
    RUN(killed_writers_leave_nothing_wrong);
    RUN(killed_compilers_leave_nothing_wrong);
    RUN(a_full_disk_costs_time_only);
    RUN(a_read_only_disk_is_read);
    RUN(limits_of_file_sizes_end_nobody);
    RUN(a_read_only_home_costs_time_only);
    return test_end();
}
