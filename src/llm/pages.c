/* pages.c - which memory holds the rows of which text: a pool of pages that the caches share.
 *
 * A page has room for what is remembered of PAGE tokens, in all layers. Row i of a text lies in
 * page number i / PAGE of its table, at i % PAGE; where in the pool a page is follows from nothing.
 * So texts grow until the pool is used up and not until some number of rows each, and what kernels
 * read is whole pages, wherever they are (Kwon et al. 2023, "PagedAttention").
 *
 * Texts that begin alike share the pages of their beginning. A shared page is never written:
 *
 *   - Only pages are shared that are full, of rows that a text has read. What it reads next it
 *     writes behind them.
 *   - A text that is rewound into a shared page leaves it to the others: it takes a page of its
 *     own, and reads the tokens of that page again, fewer than PAGE of them (llm_feed). So nothing
 *     has to be copied.
 *
 * Where the pool is used up, texts that are over are forgotten, the one first that has been over
 * for longest. Page 0 is nobody's: in it batches, and prompts of few tokens, write the rows of
 * their empty places, which may be NaN. So no text's table leads there: those that are shorter
 * than others are filled up with a page of their own text.
 *
 * What a page holds of rows that no text has read is what was there before, zeros or another text's
 * rows. They are read, too, and weighed by 0. What is infinite or no number does not become 0 so:
 * pages of a text whose numbers were (pages_spoil) are written anew when it has left them. */
#include "llm/llm.h"

#include "llm/generation.h"

enum { SOUND, SPOILED, FOUL }; /* foul: spoiled, and nobody's */

static int64_t pages_of(int64_t rows) {
    return (rows + PAGE - 1) / PAGE;
}

void pages_open(llm *m) {
    m->users = arena_zeroed(&m->a, (size_t)(m->pages + 1) * sizeof *m->users);
    m->state = arena_zeroed(&m->a, (size_t)(m->pages + 1) * sizeof *m->state);
    m->free_page = arena_alloc(&m->a, (size_t)m->pages * sizeof *m->free_page);
    for (int64_t i = 0; i < m->pages; i++) m->free_page[i] = (int32_t)(m->pages - i);
    m->free_pages = m->pages;
    for (int64_t i = 0; i < m->caches; i++) {
        m->cache[i].whole = INT64_MAX;
        m->cache[i].page =
            arena_zeroed(&m->a, (size_t)pages_of(m->context) * sizeof *m->cache[i].page);
    }
}

static void page_leave(llm *m, int32_t page) {
    if (--m->users[page]) return;
    m->free_page[m->free_pages++] = page;
    if (m->state[page] != SPOILED) return;
    m->state[page] = FOUL;
    m->foul++;
}

void pages_spoil(llm *m, const llm_cache *c) {
    for (int64_t i = 0; i < c->pages; i++) m->state[c->page[i]] = SPOILED;
}

int32_t pages_foul(const llm *m) {
    for (int32_t i = 1; m->foul && i <= m->pages; i++)
        if (m->state[i] == FOUL) return i;
    return 0;
}

void pages_clean(llm *m, int32_t page) {
    m->state[page] = SOUND;
    m->foul--;
}

void pages_trim(llm *m, llm_cache *c) {
    while (c->pages > pages_of(c->held)) page_leave(m, c->page[--c->pages]);
}

/* The text that has been over for longest, of those that hold pages; NULL: there is none. */
static llm_cache *oldest_over(llm *m, const llm_cache *but) {
    llm_cache *oldest = NULL;
    for (int64_t i = 0; i < m->caches; i++) {
        llm_cache *c = &m->cache[i];
        if (c == but || c->fed || !c->pages || !c->going || !c->going->over) continue;
        if (!oldest || c->used < oldest->used) oldest = c;
    }
    return oldest;
}

/* A page of its own; 0: there is none. */
static int32_t page_take(llm *m, const llm_cache *c) {
    while (!m->free_pages) {
        llm_cache *over = oldest_over(m, c);
        if (!over) return 0;
        over->held = 0;
        pages_trim(m, over);
    }
    const int32_t page = m->free_page[--m->free_pages];
    m->users[page] = 1;
    return page;
}

bool pages_take(llm *m, llm_cache *c, int64_t rows) {
    const int64_t before = c->pages;
    int32_t page = 1;
    c->used = ++m->steps;
    while (page && c->pages < pages_of(rows))
        if ((page = page_take(m, c)) != 0) c->page[c->pages++] = page;
    while (!page && c->pages > before) page_leave(m, c->page[--c->pages]);
    return page != 0;
}

QN_COLD QN_NORETURN static void none_left(const llm *m, int64_t rows) {
    raise_error(m->ctx, QN_ERANGE,
                "llm: a text of %lld tokens needs %lld pages of %d, and of the %lld of all caches "
                "%lld are free",
                (long long)rows, (long long)pages_of(rows), PAGE, (long long)m->pages,
                (long long)m->free_pages);
}

void pages_room(llm *m, int64_t rows) {
    if (!pages_take(m, m->now, rows)) none_left(m, rows);
}

int64_t pages_own(llm *m) {
    llm_cache *c = m->now;
    const int64_t last = c->held / PAGE, held = c->held;
    const int32_t page = c->page[last];
    const bool sole = m->users[page] == 1;
    if (sole && m->state[page] != SPOILED) return 0;
    if (sole) page_leave(m, page); /* one is free then, if only that */
    const int32_t own = page_take(m, c);
    if (!own) none_left(m, held + 1);
    if (!sole) page_leave(m, page);
    c->page[last] = own;
    c->held = c->whole = last * PAGE;
    return held - c->held;
}

/* How many of n tokens the cache begins with. */
static int64_t begins_with(const llm_cache *c, int64_t n, const int32_t *ids) {
    int64_t same = 0;
    while (same < c->held && same < n && c->token[same] == ids[same]) same++;
    return same;
}

void pages_begin(llm *m, int64_t n, const int32_t *ids) {
    llm_cache *c = m->now, *from = NULL;
    c->held = begins_with(c, n, ids);
    c->whole = INT64_MAX;
    int64_t most = c->held;
    for (int64_t i = 0; i < m->caches; i++) {
        const int64_t full = begins_with(&m->cache[i], n, ids) / PAGE * PAGE;
        if (&m->cache[i] == c || full <= most) continue;
        from = &m->cache[i];
        most = full;
    }
    if (from) c->held = 0;
    pages_trim(m, c);
    if (!from) return;
    for (; c->held < most; c->held += PAGE) {
        c->page[c->pages] = from->page[c->pages];
        m->users[c->page[c->pages++]]++;
    }
    memcpy(c->token, from->token, (size_t)most * sizeof *c->token);
}

void pages_table(const llm_cache *c, int64_t n, int32_t *table) {
    for (int64_t i = 0; i < n; i++) table[i] = c->page[i < c->pages ? i : 0];
}

int64_t pages_row(const llm_cache *c, int64_t row) {
    return (int64_t)c->page[row / PAGE] * PAGE + row % PAGE;
}
