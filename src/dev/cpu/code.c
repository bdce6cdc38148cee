/* code.c - where compiled code lies: many programs to a mapping.
 *
 * A process may have some 65,000 mappings, and one each for the code and the constants of a kernel
 * would be all of them before memory is short. So programs share slabs of 2 MiB, whose first half
 * is code and whose second is constants; a program takes whole pages of each.
 *
 * No page is ever writable and executable at once, and a page with code that may be running stays
 * executable: a program's pages, which are nobody else's, become writable when they are taken, are
 * filled, and are sealed before anyone knows of them. Neighbouring pages of one kind and one
 * protection are one mapping to the kernel, so a slab is two of them but while a program is being
 * loaded. For that to be so the pages of a slab must be alike in all else: the slab is made
 * writable as a whole and touched once, which gives it the one owner of anonymous pages that
 * splitting and joining keep.
 *
 * The mapping is private, not two views of one file: a forked child goes on running its code while
 * the parent loads other programs in its place.
 *
 * Pages that are given back are empty at once, and an empty slab goes unless it is the only one.
 * What would take a quarter of a half has a mapping of its own. */
#include "dev/cpu/code.h"

#include <sys/mman.h>

enum { HALF_PAGES = 256, WORDS = HALF_PAGES / 64, LARGE_PAGES = HALF_PAGES / 4, TRIES = 4 };

struct code_slab {
    uint8_t *base;
    size_t size;
    code_slab *next, *before;
    uint32_t rooms;
    bool own;                          /* one program's, and on no list */
    uint64_t text[WORDS], data[WORDS]; /* pages that are taken */
};

static size_t pages_of(size_t bytes) {
    return bytes / CODE_PAGE + (bytes % CODE_PAGE != 0);
}

void code_open(code_store *c, heap *h) {
    *c = (code_store){.h = h};
}

/* ---- slabs ---------------------------------------------------------------------------------- */

static void link_first(code_store *c, code_slab *s) {
    s->before = NULL;
    s->next = c->first;
    *(c->first ? &c->first->before : &c->last) = s;
    c->first = s;
}

static void link_last(code_store *c, code_slab *s) {
    s->next = NULL;
    s->before = c->last;
    *(c->last ? &c->last->next : &c->first) = s;
    c->last = s;
}

static void unlink_slab(code_store *c, code_slab *s) {
    *(s->before ? &s->before->next : &c->first) = s->next;
    *(s->next ? &s->next->before : &c->last) = s->before;
}

static void slab_close(code_store *c, code_slab *s) {
    if (!s->own) {
        unlink_slab(c, s);
        c->slabs--;
    }
    munmap(s->base, s->size);
    heap_free(c->h, s, sizeof *s);
}

/* Readable as a whole, its first `text` bytes executable. */
static bool slab_protect(const code_slab *s, size_t text) {
    *(volatile uint8_t *)s->base = 0;
    return (!text || !mprotect(s->base, text, PROT_READ | PROT_EXEC)) &&
           (text == s->size || !mprotect(s->base + text, s->size - text, PROT_READ));
}

static code_slab *slab_open(code_store *c, size_t text, size_t data, bool own) {
    code_slab *s = heap_try(c->h, sizeof *s);
    if (!s) return NULL;
    *s = (code_slab){.size = (text + data) * CODE_PAGE, .own = own};
    void *p = mmap(NULL, s->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    s->base = p == MAP_FAILED ? NULL : p;
#ifdef MADV_NOHUGEPAGE
    if (s->base) madvise(s->base, s->size, MADV_NOHUGEPAGE); /* or the touch takes all of it */
#endif
    if (!s->base || !slab_protect(s, text * CODE_PAGE)) {
        if (s->base) munmap(s->base, s->size);
        heap_free(c->h, s, sizeof *s);
        return NULL;
    }
    if (own) return s;
    link_first(c, s);
    c->slabs++;
    return s;
}

/* ---- pages of a slab ------------------------------------------------------------------------ */

static bool taken(const uint64_t *map, size_t page) {
    return map[page / 64] >> page % 64 & 1;
}

/* The first of n free pages in a row; HALF_PAGES: there are none. */
static size_t find_run(const uint64_t *map, size_t n) {
    size_t run = 0;
    for (size_t page = 0; page < HALF_PAGES && run < n; page++) {
        if (page % 64 == 0 && map[page / 64] == UINT64_MAX) {
            page += 63;
            run = 0;
            continue;
        }
        run = taken(map, page) ? 0 : run + 1;
        if (run == n) return page + 1 - n;
    }
    return n ? HALF_PAGES : 0;
}

static void mark(uint64_t *map, size_t first, size_t n) {
    for (size_t page = first; page < first + n; page++) map[page / 64] ^= (uint64_t)1 << page % 64;
}

static bool slab_take(code_slab *s, size_t text, size_t data, code_room *out) {
    size_t t = find_run(s->text, text), d = find_run(s->data, data);
    if (t == HALF_PAGES || d == HALF_PAGES) return false;
    mark(s->text, t, text);
    mark(s->data, d, data);
    *out = (code_room){
        s, s->base, t * CODE_PAGE, text * CODE_PAGE, (HALF_PAGES + d) * CODE_PAGE, data * CODE_PAGE,
        0};
    return true;
}

/* ---- taking and giving back ----------------------------------------------------------------- */

static bool protect(const code_room *r, int text, int data) {
    return (!r->text_size || !mprotect(r->base + r->text, r->text_size, text)) &&
           (!r->data_size || !mprotect(r->base + r->data, r->data_size, data));
}

/* A slab that has no room goes last, so that a few tries find one that has, if there are many. */
static bool find_room(code_store *c, size_t text, size_t data, code_room *out) {
    for (int i = 0; i < TRIES && c->first; i++) {
        code_slab *s = c->first;
        if (slab_take(s, text, data, out)) return true;
        unlink_slab(c, s);
        link_last(c, s);
    }
    code_slab *s = slab_open(c, HALF_PAGES, HALF_PAGES, false);
    return s && slab_take(s, text, data, out);
}

static bool take_own(code_store *c, size_t text, size_t data, code_room *out) {
    code_slab *s = slab_open(c, text, data, true);
    if (!s) return false;
    *out = (code_room){s, s->base, 0, text * CODE_PAGE, text * CODE_PAGE, data * CODE_PAGE, 0};
    return true;
}

bool code_take(code_store *c, size_t text, size_t data, code_room *out) {
    size_t t = pages_of(text), d = pages_of(data);
    bool large = t > LARGE_PAGES || d > LARGE_PAGES;
    *out = (code_room){0};
    if (!(large ? take_own(c, t, d, out) : find_room(c, t, d, out))) return false;
    out->slab->rooms++;
    if (protect(out, PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE)) return true;
    code_give(c, out);
    return false;
}

bool code_seal(const code_room *r) {
    return protect(r, PROT_READ | PROT_EXEC, PROT_READ);
}

void code_give(code_store *c, code_room *r) {
    code_slab *s = r->slab;
    if (!s) return;
    if (--s->rooms == 0 && (s->own || c->slabs > 1)) {
        slab_close(c, s);
    } else {
        code_seal(r); /* where sealing it failed halfway */
        if (r->text_size) madvise(r->base + r->text, r->text_size, MADV_DONTNEED);
        if (r->data_size) madvise(r->base + r->data, r->data_size, MADV_DONTNEED);
        mark(s->text, r->text / CODE_PAGE, r->text_size / CODE_PAGE);
        mark(s->data, r->data / CODE_PAGE - HALF_PAGES, r->data_size / CODE_PAGE);
        unlink_slab(c, s);
        link_first(c, s);
    }
    *r = (code_room){0};
}

void code_close(code_store *c) {
    while (c->first) slab_close(c, c->first);
}
