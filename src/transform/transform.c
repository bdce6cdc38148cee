/* transform.c - schedules: lines of text, each applied by the row of transforms.h that it names.
 *
 * A line is parsed by its row's pattern into transform_args, so a transform is one function over
 * statements and names, and adding one takes a file and a row. C callers use the typed functions of
 * transform.h; the rows' functions only unpack arguments.
 *
 * A line may come from a file or a user. It can be legal and yet lead to indices about which
 * nothing can be proved (splits of splits by primes, peeled); so the result is verified, and undone
 * where the proof fails. Expressions are only ever added, so the undo state is the tables of
 * statements and memories. */
#include "transform/transform.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

const transform_row transform_rows[TRANSFORMS] = {
#define X(name, pattern, function, effect, makes, doc)                                             \
    {#name, pattern, function, EFFECT_##effect, makes, doc},
#include "transform/transforms.h"
#undef X
};

typedef struct token {
    char s[IR_NAME];
} token;

/* The next word of the line, "" at its end. What follows '#' is a comment. A word longer than any
 * name gives "?", for a prefix of it might be another's name. */
static token next_token(const char **p) {
    token t = {""};
    size_t n = 0;
    while (**p == ' ' || **p == '\t' || **p == '\r') (*p)++;
    if (**p == '#') *p += strcspn(*p, "\n");
    bool fits = true;
    for (; **p && !isspace((unsigned char)**p); (*p)++) {
        fits &= n + 1 < sizeof t.s;
        if (fits) t.s[n++] = **p;
    }
    t.s[n] = 0;
    return fits ? t : (token){"?"};
}

static bool is_name(const char *s) {
    if (!isalpha((unsigned char)*s)) return false;
    while (isalnum((unsigned char)*s) || *s == '_') s++;
    return *s == 0;
}

static stmt_id loop_named(const kernel *k, const transform_names *names, const char *word) {
    stmt_id loop = names ? names->loop(names->user, word) : 0;
    return loop ? loop : is_name(word) ? ir_find_loop(k, word) : 0;
}

static mem_id mem_named(const kernel *k, const transform_names *names, const char *word) {
    mem_id mem = names ? names->mem(names->user, word) : 0;
    return mem ? mem : ir_find_mem(k, word);
}

static bool read_loop(kernel *k, const transform_names *names, const char *word, transform_args *a,
                      str *why) {
    stmt_id loop = loop_named(k, names, word);
    if (!loop) return ir_refuse(why, "there is no loop \"%s\"", word);
    if (a->loops == COUNT_OF(a->loop)) return ir_refuse(why, "too many loops");
    a->loop[a->loops++] = loop;
    return true;
}

static bool read_new_names(kernel *k, const char **p, int n, transform_args *a, str *why) {
    const char *at = *p;
    if (strcmp(next_token(&at).s, "->") != 0) return true;
    *p = at;
    for (int i = 0; i < n; i++) {
        token t = next_token(p);
        if (!is_name(t.s) || ir_name_reserved(t.s))
            return ir_refuse(why, "expected a name, not \"%s\"", t.s);
        if (ir_name_taken(k, t.s)) return ir_refuse(why, "the name %s is taken", t.s);
        a->name[i] = arena_printf(&k->arena, "%s", t.s);
        if (i && !strcmp(a->name[0], a->name[1])) return ir_refuse(why, "two loops of one name");
    }
    return true;
}

/* One letter of a pattern. */
static bool read_arg(kernel *k, const transform_names *names, char letter, const char **p,
                     transform_args *a, str *why) {
    const char *at = *p;
    token t = next_token(&at);
    char *end;
    switch (letter) {
    case '1':
    case '2':
        return read_new_names(k, p, letter - '0', a, why);
    case 's':
        if (strcmp(t.s, "reg") != 0 && strcmp(t.s, "local") != 0) return true;
        a->scope = t.s[0] == 'r' ? MEM_REG : MEM_LOCAL;
        break;
    case 'd':
        a->dtype = ir_find_dtype(t.s);
        if (a->dtype < 0) return true;
        break;
    case 'm':
        *(a->mem ? &a->mem2 : &a->mem) = mem_named(k, names, t.s);
        if (!mem_named(k, names, t.s)) return ir_refuse(why, "there is no memory \"%s\"", t.s);
        break;
    case 'n':
        a->number = strtoll(t.s, &end, 10);
        if (!*t.s || *end || a->number < 1)
            return ir_refuse(why, "expected a number from 1 up, not \"%s\"", t.s);
        break;
    default:
        if (!read_loop(k, names, t.s, a, why)) return false;
        break;
    }
    *p = at;
    while (letter == 'L') { /* as many more as follow */
        t = next_token(&at);
        if (!*t.s || !strcmp(t.s, "reg") || !strcmp(t.s, "local")) break;
        if (ir_find_dtype(t.s) >= 0 && !ir_find_loop(k, t.s)) break;
        if (!strcmp(t.s, "+") && a->loops > 1 && a->loops < (int)COUNT_OF(a->loop)) {
            a->joined |= 1u << a->loops;
            t = next_token(&at);
        }
        if (!read_loop(k, names, t.s, a, why)) return false;
        *p = at;
    }
    return true;
}

void transform_prune(kernel *k) {
    for (stmt_id s = ir_s(k, k->root)->first, next; s; s = next) {
        next = ir_next(k, s, k->root);
        const ir_stmt *t = ir_s(k, s);
        bool idle =
            t->kind == STMT_STORE ? t->store.valid == SYM_FALSE : t->kind == STMT_LOOP && !t->first;
        if (!idle) continue;
        stmt_id parent = t->parent, after = s;
        while (after != k->root && !ir_s(k, after)->next) after = ir_s(k, after)->parent;
        next = after == k->root ? 0 : ir_s(k, after)->next;
        ir_unlink(k, s);
        if (parent != k->root && !ir_s(k, parent)->first) next = parent;
    }
}

void transform_report(kernel *k, transform_made *made, stmt_id loop) {
    made->loop = arena_grow(&k->arena, made->loop, &made->cap, made->loops + 1, sizeof *made->loop);
    made->loop[made->loops++] = loop ? ir_s(k, loop)->l.id : 0;
}

bool transform_run(kernel *k, transform_kind kind, const transform_args *a, transform_made *made,
                   str *why) {
    transform_made own, *told = made ? made : &own;
    *told = (transform_made){0};
    if (!transform_rows[kind].apply(k, a, told, why)) {
        *told = (transform_made){0};
        return false;
    }
    transform_prune(k);
    for (uint32_t i = 0; i < told->loops; i++)
        if (!ir_loop_of(k, told->loop[i])) told->loop[i] = 0; /* it did nothing */
    return true;
}

bool transform_parse(kernel *k, const char *line, const transform_names *names,
                     transform_kind *kind, transform_args *a, str *why) {
    const char *p = line;
    token name = next_token(&p);
    *kind = TRANSFORMS;
    *a = (transform_args){.scope = MEM_LOCAL, .dtype = -1};
    if (!*name.s) return true;
    for (int i = 0; i < TRANSFORMS; i++) {
        const transform_row *row = &transform_rows[i];
        if (strcmp(row->name, name.s) != 0) continue;
        for (const char *c = row->pattern; *c; c++)
            if (!read_arg(k, names, *c, &p, a, why)) return false;
        token rest = next_token(&p);
        if (*rest.s) return ir_refuse(why, "%s takes no \"%s\"", name.s, rest.s);
        *kind = (transform_kind)i;
        return true;
    }
    return ir_refuse(why, "there is no transform \"%s\"", name.s);
}

static void print_mem(const kernel *k, mem_id m, str *out) {
    if (ir_m(k, m)->scope == MEM_ARG)
        str_addf(out, " a%d", ir_m(k, m)->arg);
    else
        str_addf(out, " t%d", ir_tile_number(k, m));
}

void transform_print_rest(char letter, const transform_args *a, str *out) {
    switch (letter) {
    case 'n':
        str_addf(out, " %lld", (long long)a->number);
        break;
    case 'd':
        if (a->dtype >= 0) str_addf(out, " %s", qn_dtype_name((qn_dtype)a->dtype));
        break;
    case 's':
        if (a->scope == MEM_REG) str_add(out, " reg");
        break;
    default:
        if (a->name[0]) str_addf(out, " -> %s", a->name[0]);
        if (a->name[1]) str_addf(out, " %s", a->name[1]);
        break;
    }
}

void transform_print(const kernel *k, transform_kind kind, const transform_args *a,
                     const char *const *loop, str *out) {
    int loops = 0, mems = 0;
    str_add(out, transform_rows[kind].name);
    for (const char *c = transform_rows[kind].pattern; *c; c++) switch (*c) {
        case 'l':
        case 'L':
            do {
                str_addf(out, a->joined >> loops & 1 ? " + %s" : " %s", loop[loops]);
            } while (++loops < a->loops && *c == 'L');
            break;
        case 'm':
            print_mem(k, mems++ ? a->mem2 : a->mem, out);
            break;
        default:
            transform_print_rest(*c, a, out);
            break;
        }
}

bool transform_apply(kernel *k, const char *line, str *why) {
    transform_kind kind;
    transform_args a;
    if (!transform_parse(k, line, NULL, &kind, &a, why)) return false;
    return kind == TRANSFORMS || transform_run(k, kind, &a, NULL, why);
}

/* Exchange the current tables with the saved ones. */
static void swap_tables(kernel *k, ir_saved *s) {
    ir_saved now = ir_save(k);
    ir_restore(k, s);
    *s = now;
}

bool transform_verified(kernel *k, ir_saved *before, str *why) {
    str doubt;
    str_open_in(&doubt, &k->arena);
    static const char *const because[] = {[VERDICT_UNPROVEN] = "not to be proved",
                                          [VERDICT_TOO_MUCH] = "too much",
                                          [VERDICT_BROKEN] = "this breaks a rule"};
    ir_verdict verdict = ir_verify(k, why ? &doubt : NULL);
    if (verdict == VERDICT_SOUND) return true;
    swap_tables(k, before);
    bool fine = verdict != VERDICT_BROKEN && ir_verify(k, NULL) == verdict;
    if (fine)
        swap_tables(k, before);
    else
        ir_refuse(why, "%s: %s", because[verdict], doubt.s ? doubt.s : "");
    return fine;
}

bool transform_line(kernel *k, const char *line, str *why) {
    ir_saved before = ir_save(k);
    return transform_apply(k, line, why) && transform_verified(k, &before, why);
}

/* Line by line with `apply`. */
static int each_line(kernel *k, const char *text, bool (*apply)(kernel *, const char *, str *),
                     str *why) {
    int number = 0, applied = 0;
    while (*text) {
        size_t n = strcspn(text, "\n");
        const char *line = arena_printf(&k->arena, "%.*s", (int)n, text), *word = line;
        bool empty = !*next_token(&word).s;
        if (!apply(k, line, why)) return -1 - number;
        applied += !empty;
        number++;
        text += n + (text[n] == '\n');
    }
    return applied;
}

int transform_lines(kernel *k, const char *text, str *why) {
    ir_saved before = ir_save(k);
    int applied = each_line(k, text, transform_apply, why);
    if (applied >= 0 && !transform_verified(k, &before, NULL)) { /* which line is the culprit? */
        before = ir_save(k);                                     /* the tables had been exchanged */
        applied = each_line(k, text, transform_line, why);
    }
    if (applied < 0) ir_restore(k, &before);
    return applied;
}

int transform_replay(kernel *k, const char *text, str *why) {
    return each_line(k, text, transform_apply, why);
}
