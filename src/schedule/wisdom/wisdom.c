/* wisdom.c - the records of tuning: in memory, and in a file that processes share.
 *
 * A record says that on this machine, for this kernel, a schedule was measured to take `ratio` of
 * the default schedule's time. The default schedule is part of the record's key: where the
 * scheduler has changed since, or another number of threads gives another default, the record does
 * not apply. Kernels are known by 128 bits of hash; should two ever share them, the one gets lines
 * made for the other, which are legal for it or refused: slow perhaps, wrong never.
 *
 * Bits. A schedule that groups sums in another way than the default gives other last bits, so
 * whether it is used must not depend on the number of threads: records of kernels whose default
 * schedule is the same for every number of threads hold for all of them (`threads` 0), and others
 * are only ever made of schedules that keep each bit.
 *
 * Merging chooses among records of one key: the later round, then the better ratio, then an
 * arbitrary order. The result does not depend on the order in which, or how often, wisdom is
 * merged, so processes need not agree on anything: each reads the file, merges, and replaces it,
 * one at a time by a lock that ends with its holder. A file that says it is wisdom of this version
 * but is broken is replaced; one that says anything else is never written over.
 *
 * Wisdom is text that chooses among legal schedules, not code; so a file from anybody can make the
 * program slow, but not wrong. */
#include "schedule/wisdom/wisdom.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static const size_t most_bytes = (size_t)64 << 20;
static const double patience = 5; /* seconds to wait for a lock */

void wisdom_open(wisdom *w, heap *h) {
    *w = (wisdom){.count = 0};
    arena_open(&w->text, h);
    idset_open(&w->set, h);
}

void wisdom_free(wisdom *w) {
    heap_free(w->text.h, w->at, (size_t)w->cap * sizeof *w->at);
    idset_free(&w->set);
    arena_free(&w->text);
}

/* ---- records --------------------------------------------------------------------------------- */

static uint64_t key_hash(const wisdom_key *k) {
    return hash_mix(hash_mix(k->kernel[0], k->kernel[1]),
                    hash_mix(k->place ^ (uint64_t)k->threads, k->standard));
}

static bool key_same(const void *key, uint32_t id, const void *user) {
    const wisdom_key *a = key, *b = &((const wisdom *)user)->at[id - 1].key;
    return a->kernel[0] == b->kernel[0] && a->kernel[1] == b->kernel[1] && a->place == b->place &&
           a->standard == b->standard && a->threads == b->threads;
}

const wisdom_record *wisdom_at(const wisdom *w, const wisdom_key *key) {
    uint32_t id = idset_find(&w->set, key_hash(key), key_same, key, w);
    return id ? &w->at[id - 1] : NULL;
}

static bool better(const wisdom_record *a, const wisdom_record *b) {
    if (a->round != b->round) return a->round > b->round;
    if (a->ratio < b->ratio || a->ratio > b->ratio) return a->ratio < b->ratio;
    if (a->spent < b->spent || a->spent > b->spent) return a->spent > b->spent;
    if (a->tried != b->tried) return a->tried > b->tried;
    if (a->done != b->done) return a->done;
    int order = strcmp(a->schedule, b->schedule);
    if (order || a->seens != b->seens) return order ? order < 0 : a->seens > b->seens;
    return a->seens && memcmp(a->seen, b->seen, a->seens * sizeof *a->seen) < 0;
}

void wisdom_add(qn_ctx *qn, wisdom *w, const wisdom_record *r) {
    uint64_t hash = key_hash(&r->key);
    uint32_t id = idset_find(&w->set, hash, key_same, &r->key, w);
    if (id && !better(r, &w->at[id - 1])) return;
    wisdom_record kept = *r;
    kept.name = arena_printf(&w->text, "%s", r->name);
    kept.place = arena_printf(&w->text, "%s", r->place);
    kept.schedule = arena_printf(&w->text, "%s", r->schedule);
    kept.seen = memcpy(arena_alloc(&w->text, (r->seens + 1) * sizeof *r->seen),
                       r->seens ? r->seen : (const uint32_t[]){0}, r->seens * sizeof *r->seen);
    if (!id) {
        w->at = heap_grow(&qn->heap, w->at, &w->cap, w->count + 1, sizeof *w->at);
        idset_add(&w->set, hash, w->count + 1);
        id = ++w->count;
    }
    w->at[id - 1] = kept;
}

static void free_wisdom(void *w) {
    wisdom_free(w);
}

/* All, or none where memory runs out: what is there already is not lost. */
void wisdom_add_all(qn_ctx *qn, wisdom *w, uint32_t n, const wisdom_record *r) {
    wisdom fresh;
    wisdom_open(&fresh, &qn->heap);
    cleanup c;
    cleanup_push(&qn->heap, &c, free_wisdom, &fresh);
    for (uint32_t i = 0; i < w->count; i++) wisdom_add(qn, &fresh, &w->at[i]);
    for (uint32_t i = 0; i < n; i++) wisdom_add(qn, &fresh, &r[i]);
    cleanup_drop(&qn->heap, &c);
    wisdom old = *w;
    w->text = fresh.text;
    w->count = fresh.count;
    w->cap = fresh.cap;
    w->at = fresh.at;
    w->set = fresh.set;
    wisdom_free(&old);
}

/* ---- kernels --------------------------------------------------------------------------------- */

wisdom_key wisdom_key_of(const wisdom *w, const char *text, size_t size, const char *standard,
                         int64_t threads) {
    return (wisdom_key){.kernel = {hash_bytes(text, size, 1), hash_bytes(text, size, 2)},
                        .place = w->place,
                        .standard = hash_bytes(standard, strlen(standard), 3),
                        .threads = threads};
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c);
}

/* Numbers that are not part of a name are left out. */
uint64_t wisdom_family(const char *text, size_t size) {
    uint64_t hash = 0;
    char part[64];
    size_t n = 0;
    for (size_t i = 0; i < size; i++) {
        bool number = is_digit(text[i]) && (!i || !is_word(text[i - 1]));
        while (number && i + 1 < size && is_digit(text[i + 1])) i++;
        part[n++] = number ? '#' : text[i];
        if (n < sizeof part && i + 1 < size) continue;
        hash = hash_mix(hash, hash_bytes(part, n, 4));
        n = 0;
    }
    return hash;
}

const wisdom_record *wisdom_find(qn_ctx *qn, const char *text, size_t size, const char *standard,
                                 int threads) {
    wisdom *w = wisdom_of(qn);
    if (!w || !w->count) return NULL;
    wisdom_key key = wisdom_key_of(w, text, size, standard, 0);
    const wisdom_record *r = wisdom_at(w, &key);
    key.threads = threads;
    return r ? r : wisdom_at(w, &key);
}

/* ---- the file -------------------------------------------------------------------------------- */

typedef struct place {
    int folder;
    bool named; /* by the user: failures are reported */
    char name[256];
} place;

/* The folder and the name of a path, with links resolved; false where it has none. */
static bool open_path(const char *path, place *p) {
    char end[FOLDER_PATH], folder[FOLDER_PATH];
    const char *name;
    p->folder = -1;
    if (!file_resolve(path, end)) return false;
    int at = file_folder(end, folder, &name);
    if (at >= 0 && strlen(name) + 8 <= sizeof p->name) {
        memcpy(p->name, name, strlen(name) + 1);
        p->folder = at;
    } else if (at >= 0) {
        close(at);
        errno = ENAMETOOLONG;
    }
    return p->folder >= 0;
}

/* As knobs wisdom and cache say; false: no file, or none that can be opened. */
static bool open_place(qn_ctx *qn, place *p) {
    const char *wanted = qn->knob[KNOB_WISDOM].text, *cache = qn->knob[KNOB_CACHE].text, *why;
    char usual[FOLDER_PATH];
    *p = (place){.folder = -1, .named = strcmp(wanted, "on") != 0, .name = "wisdom-2"};
    if (!strcmp(wanted, "off")) return false;
    if (p->named) return open_path(wanted, p);
    if (!strcmp(cache, "off")) return false;
    bool own = strcmp(cache, "on") != 0;
    if (own || folder_usual(usual)) p->folder = folder_open_private(own ? cache : usual, &why);
    return p->folder >= 0;
}

typedef enum state { NONE, SOUND, BROKEN, FOREIGN, UNREAD } state;

/* Read the file. A broken one is a user's error only where they named it. */
static state read_place(qn_ctx *qn, const place *p, wisdom *w) {
    folder_file about;
    uint8_t *data = folder_read(&qn->heap, p->folder, p->name, most_bytes, &about);
    if (!data) return about.size ? UNREAD : NONE;
    state found = wisdom_is(data, about.size) ? BROKEN : FOREIGN;
    bool clean = qn->code == QN_OK;
    cleanup c;
    heap_piece own = {&qn->heap, data, about.size};
    cleanup_push(&qn->heap, &c, heap_piece_cleanup, &own);
    if (wisdom_parse(qn, p->name, (const char *)data, about.size, w)) found = SOUND;
    cleanup_run(&qn->heap, &c);
    if (found == SOUND) return SOUND;
    if (debug_on(qn, 's') || p->named) log_line(qn, "s %s; not used", qn_error(qn));
    if (clean) qn_clear_error(qn);
    return found;
}

static uint64_t knobs_of(const qn_ctx *qn) {
    const char *a = qn->knob[KNOB_WISDOM].text, *b = qn->knob[KNOB_CACHE].text;
    return hash_mix(hash_bytes(a, strlen(a), 0), hash_bytes(b, strlen(b), 1));
}

/* The device and library, for the key and for people. */
static void find_place(qn_ctx *qn, wisdom *w) {
    str s;
    str_open_in(&s, &w->text);
    str_addf(&s, "%s ", w->device);
    uint32_t head = s.len;
    w->describe(qn, &s);
    size_t name = strcspn(s.s + head, "\n");
    str_addf(&s, "quern %s", qn_version());
    w->place = hash_bytes(s.s, s.len, 5);
    snprintf(w->place_name, sizeof w->place_name, "%.*s, quern %s", (int)(head + name), s.s,
             qn_version());
}

static void close_place(void *of) {
    const place *p = of;
    if (p->folder >= 0) close(p->folder);
}

static void read_own(qn_ctx *qn, wisdom *w) {
    place p;
    if (!open_place(qn, &p)) return;
    cleanup c;
    cleanup_push(&qn->heap, &c, close_place, &p);
    read_place(qn, &p, w);
    cleanup_run(&qn->heap, &c);
}

void wisdom_attach(qn_ctx *qn, const char *device, wisdom_describe *describe) {
    wisdom *w = heap_zeroed(&qn->heap, sizeof *w);
    wisdom_open(w, &qn->heap);
    w->device = device;
    w->describe = describe;
    qn->wisdom = w;
}

wisdom *wisdom_of(qn_ctx *qn) {
    wisdom *w = qn->wisdom;
    if (!w || !strcmp(qn->knob[KNOB_WISDOM].text, "off")) return NULL;
    uint64_t knobs = knobs_of(qn);
    if (!*w->place_name) find_place(qn, w);
    if (w->read && w->knobs == knobs) return w;
    w->knobs = knobs;
    w->read = true;
    read_own(qn, w);
    return w;
}

void wisdom_close(qn_ctx *qn) {
    wisdom *w = qn->wisdom;
    if (!w) return;
    wisdom_free(w);
    heap_free(&qn->heap, w, sizeof *w);
    qn->wisdom = NULL;
}

/* Under the lock. */
static qn_code merge(qn_ctx *qn, const place *p, wisdom *w, str *text) {
    const char *why;
    state found = read_place(qn, p, w);
    if (found == FOREIGN)
        return fail(qn, QN_EFORMAT, "%s is there, and is not wisdom of this version", p->name);
    if (found == UNREAD) return fail(qn, QN_EIO, "wisdom %s: cannot be read", p->name);
    wisdom_print(w, text);
    int mode = p->named ? 0666 : 0600;
    if (folder_replace(p->folder, p->name, FILE_OVER_LOCKED, mode,
                       (file_content){text->s, text->len}, &why))
        return QN_OK;
    return fail(qn, QN_EIO, "wisdom %s: cannot be written: %s: %s", p->name, why, strerror(errno));
}

static void unlock(void *lock) {
    folder_unlock(*(const int *)lock);
}

qn_code wisdom_save(qn_ctx *qn) {
    wisdom *w = wisdom_of(qn);
    place p;
    if (!w) return QN_OK;
    if (!open_place(qn, &p))
        return p.named
                   ? fail(qn, QN_EIO, "wisdom %s: %s", qn->knob[KNOB_WISDOM].text, strerror(errno))
                   : QN_OK;
    char lock_name[300];
    snprintf(lock_name, sizeof lock_name, "%s.lock", p.name);
    int lock = folder_lock(p.folder, lock_name, patience);
    str text;
    str_open(&text, &qn->heap);
    cleanup folder, locked, merged;
    cleanup_push(&qn->heap, &folder, close_place, &p);
    cleanup_push(&qn->heap, &locked, unlock, &lock);
    cleanup_push(&qn->heap, &merged, str_cleanup, &text);
    qn_code code = lock >= 0
                       ? merge(qn, &p, w, &text)
                       : fail(qn, QN_EIO, "wisdom %s: the lock of its file cannot be had", p.name);
    cleanup_run(&qn->heap, &merged);
    cleanup_run(&qn->heap, &locked);
    cleanup_run(&qn->heap, &folder);
    return code;
}

/* ---- the public functions -------------------------------------------------------------------- */

typedef struct finding {
    qn_ctx *qn;
    const wisdom *found;
} finding;

static void find_work(void *arg) {
    finding *f = arg;
    f->found = wisdom_of(f->qn);
}

bool qn_wisdom_at(qn_ctx *qn, int i, qn_wisdom *out, size_t size) {
    if (!qn || !out || i < 0) return false;
    finding f = {.qn = qn};
    guarded(qn, find_work, &f);
    const wisdom *w = f.found;
    if (!w || (uint32_t)i >= w->count) return false;
    const wisdom_record *r = &w->at[i];
    qn_wisdom known = {.kernel = r->name,
                       .place = r->place,
                       .schedule = r->schedule,
                       .here = r->key.place == w->place,
                       .tried = r->tried,
                       .seconds = r->spent,
                       .ratio = r->ratio,
                       .done = r->done};
    struct_give(out, size, &known, sizeof known);
    return true;
}

static qn_code export_to(qn_ctx *qn, const char *path, str *text) {
    place p = {.folder = -1};
    const char *why = "its folder cannot be opened";
    wisdom *w = wisdom_of(qn);
    if (!w) return fail(qn, QN_EARG, "wisdom: there is none with QN_WISDOM=off, or on this device");
    wisdom_print(w, text);
    errno = 0;
    bool good = open_path(path, &p);
    good = good && folder_replace(p.folder, p.name, FILE_OVER_FILE, 0666,
                                  (file_content){text->s, text->len}, &why);
    const char *because = strerror(errno);
    if (p.folder >= 0) close(p.folder);
    return good ? QN_OK
                : fail(qn, QN_EIO, "wisdom %s: cannot be written: %s: %s", path, why, because);
}

typedef struct exchange {
    qn_ctx *qn;
    const char *path;
    str text; /* what is exported */
    place p;  /* where an import lies */
    int code;
} exchange;

static void export_work(void *arg) {
    exchange *x = arg;
    x->code = export_to(x->qn, x->path, &x->text);
}

qn_code qn_wisdom_export(qn_ctx *qn, const char *path) {
    if (!qn) return QN_ENULL;
    if (!path) return fail(qn, QN_ENULL, "wisdom_export: no path");
    exchange x = {.qn = qn, .path = path};
    str_open(&x.text, &qn->heap);
    int code = guarded(qn, export_work, &x);
    str_free(&x.text);
    return code ? code : x.code;
}

static qn_code import_from(qn_ctx *qn, const char *path, const place *p) {
    folder_file about;
    wisdom *w = wisdom_of(qn);
    if (!w) return fail(qn, QN_EARG, "wisdom: there is none with QN_WISDOM=off, or on this device");
    uint8_t *data =
        p->folder < 0 ? NULL : folder_read(&qn->heap, p->folder, p->name, most_bytes, &about);
    if (!data) return fail(qn, QN_EIO, "wisdom %s: there is no such file to be read", path);
    cleanup c;
    heap_piece own = {&qn->heap, data, about.size};
    cleanup_push(&qn->heap, &c, heap_piece_cleanup, &own);
    bool sound = wisdom_parse(qn, path, (const char *)data, about.size, w);
    cleanup_run(&qn->heap, &c);
    return sound ? wisdom_save(qn) : qn_error_code(qn);
}

static void import_work(void *arg) {
    exchange *x = arg;
    x->code = import_from(x->qn, x->path, &x->p);
}

qn_code qn_wisdom_import(qn_ctx *qn, const char *path) {
    if (!qn) return QN_ENULL;
    if (!path) return fail(qn, QN_ENULL, "wisdom_import: no path");
    exchange x = {.qn = qn, .path = path, .p = {.folder = -1}};
    if (!open_path(path, &x.p)) x.p.folder = -1;
    int code = guarded(qn, import_work, &x);
    close_place(&x.p);
    return code ? code : x.code;
}
