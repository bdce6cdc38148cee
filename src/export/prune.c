/* prune.c - helpers that nothing calls are left out, for some compilers warn of them.
 *
 * Helpers come as text, each a `static inline` function with the comment before it, or a table of
 * constants, those that are called before those that call them. So one walk from the last to the
 * first decides: what the body or a helper that stays calls, stays. */
#include "export/export.h"

typedef struct helper {
    const char *from;
    size_t size;
    const char *name; /* NULL: a table */
    bool stays;
} helper;

typedef struct helpers {
    arena *a;
    helper *at;
    uint32_t n, cap;
} helpers;

static bool begins(const char *line, const char *with) {
    return !strncmp(line, with, strlen(with));
}

/* The word before the first parenthesis. */
static const char *name_of(arena *a, const char *function) {
    const char *end = strchr(function, '('), *from = end;
    while (from > function && from[-1] != ' ') from--;
    return arena_printf(a, "%.*s", (int)(end - from), from);
}

static const char *next_line(const char *line) {
    const char *end = strchr(line, '\n');
    return end ? end + 1 : line + strlen(line);
}

static void cut(helpers *all, const char *text) {
    bool comment = false; /* is the helper that begins here a comment so far? */
    for (const char *line = text; *line; line = next_line(line)) {
        bool function = begins(line, "static inline "), said = begins(line, "/*");
        if (said || (begins(line, "static ") && !comment)) {
            all->at = arena_grow(all->a, all->at, &all->cap, all->n + 1, sizeof *all->at);
            all->at[all->n++] = (helper){.from = line};
        }
        if (said) comment = true;
        if (begins(line, "static ")) comment = false;
        if (function) all->at[all->n - 1].name = name_of(all->a, line);
        if (all->n) all->at[all->n - 1].size = (size_t)(next_line(line) - all->at[all->n - 1].from);
    }
}

void export_prune(arena *a, const str *text, const str *body, str *out) {
    helpers all = {.a = a};
    cut(&all, text->s ? text->s : "");
    const char **kept = arena_alloc(a, (all.n + 1) * sizeof *kept);
    uint32_t n = 0;
    for (uint32_t i = all.n; i-- > 0;) {
        helper *h = &all.at[i];
        h->stays = !h->name || (body->s && export_uses(body->s, h->name));
        for (uint32_t k = 0; k < n && !h->stays; k++) h->stays = export_uses(kept[k], h->name);
        if (h->stays) kept[n++] = arena_printf(a, "%.*s", (int)h->size, h->from);
    }
    for (uint32_t i = 0; i < all.n; i++)
        if (all.at[i].stays) str_addn(out, all.at[i].from, all.at[i].size);
}
