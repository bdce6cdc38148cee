/* text.c - index expressions as text, both ways.
 *
 *     conjunction = comparison { "and" comparison }
 *     comparison  = sum [ ">=" sum ]
 *     sum         = [ "-" ] product { ( "+" | "-" ) product }
 *     product     = primary { ( "*" | "/" ) primary }
 *     primary     = number | name | ( "min" | "max" ) "(" sum { "," sum } ")" | "(" conjunction ")"
 *
 * "/" is floor division and binds like "*", from the left. A truth value is always written in
 * parentheses, so a text on its own is a sum. Names are letters, digits, "_" and ".", not beginning
 * with a digit. What is printed parses back to the same value, and but for rare cases of min and
 * max to the same id in the same store.
 *
 * Ids depend on the order in which expressions were made, and so does the order of terms, factors
 * and operands. Text must not: they are printed sorted, variables by name first, then the rest by
 * kind and text, so that equal expressions of different stores have equal texts. (Sorting prints
 * what it compares, level by level, so what is nested deeply stays in the order of ids.) */
#include <ctype.h>
#include <inttypes.h>

#include "sym/internal.h"

/* ---- printing ------------------------------------------------------------------------------- */

static void print_sum(const sym_store *s, sym a, str *out);

static void print_monomial(const sym_store *s, sym a, str *out);

enum { SORTED_MOST = 256, SORTED_DEPTH = 8 }; /* longer, deeper: in the order of ids */

static int print_rank(const sym_store *s, sym a) {
    int kind = sym_at(s, a)->kind;
    return kind == SYM_VAR ? -1 : kind;
}

/* Is a printed before b? Both texts are written behind `out` for a moment. */
static bool printed_before(const sym_store *s, sym a, sym b, str *out) {
    if (print_rank(s, a) != print_rank(s, b)) return print_rank(s, a) < print_rank(s, b);
    if (sym_at(s, a)->depth > SORTED_DEPTH || sym_at(s, b)->depth > SORTED_DEPTH) return a < b;
    uint32_t start = out->len;
    print_sum(s, a, out);
    str_addn(out, "", 1);
    uint32_t other = out->len;
    print_sum(s, b, out);
    bool before = strcmp(out->s + start, out->s + other) < 0;
    out->len = start;
    out->s[start] = 0;
    return before;
}

/* The order in which these are printed. */
static void print_order(const sym_store *s, int n, const sym *list, uint16_t order[SORTED_MOST],
                        str *out) {
    for (int i = 0; i < n && n <= SORTED_MOST; i++) {
        int at = i;
        for (; at > 0 && printed_before(s, list[i], list[order[at - 1]], out); at--)
            order[at] = order[at - 1];
        order[at] = (uint16_t)i;
    }
}

static int in_order(int n, const uint16_t *order, int i) {
    return n <= SORTED_MOST ? order[i] : i;
}

static void print_list(const sym_store *s, const sym_node *x, const char *between, str *out) {
    uint16_t order[SORTED_MOST];
    print_order(s, x->operands, x->operand, order, out);
    for (int i = 0; i < x->operands; i++) {
        if (i) str_add(out, between);
        print_sum(s, x->operand[in_order(x->operands, order, i)], out);
    }
}

/* As an operand of "*" and "/". */
static void print_primary(const sym_store *s, sym a, str *out) {
    const sym_node *x = sym_at(s, a);
    bool plain = x->kind == SYM_VAR || x->kind == SYM_MIN || x->kind == SYM_MAX ||
                 x->kind == SYM_GE0 || x->kind == SYM_AND ||
                 (x->kind == SYM_CONST && x->constant >= 0);
    if (!plain) str_add(out, "(");
    print_sum(s, a, out);
    if (!plain) str_add(out, ")");
}

static void print_truth(const sym_store *s, const sym_node *x, str *out) {
    if (x->kind == SYM_GE0) {
        print_sum(s, x->operand[0], out);
        str_add(out, " >= 0");
        return;
    }
    uint16_t order[SORTED_MOST];
    print_order(s, x->operands, x->operand, order, out);
    for (int i = 0; i < x->operands; i++) {
        if (i) str_add(out, " and ");
        print_truth(s, sym_at(s, x->operand[in_order(x->operands, order, i)]), out);
    }
}

static void print_monomial(const sym_store *s, sym a, str *out) {
    const sym_node *x = sym_at(s, a);
    uint16_t order[SORTED_MOST];
    switch ((sym_kind)x->kind) {
    case SYM_VAR:
        str_add(out, x->name);
        break;
    case SYM_MIN:
    case SYM_MAX:
        str_add(out, x->kind == SYM_MIN ? "min(" : "max(");
        print_list(s, x, ", ", out);
        str_add(out, ")");
        break;
    case SYM_DIV:
        print_primary(s, x->operand[0], out);
        str_add(out, "/");
        print_primary(s, x->operand[1], out);
        break;
    case SYM_PRODUCT:
        print_order(s, x->operands, x->operand, order, out);
        for (int i = 0; i < x->operands; i++) {
            if (i) str_add(out, "*");
            print_primary(s, x->operand[in_order(x->operands, order, i)], out);
        }
        break;
    default:
        str_add(out, "(");
        print_truth(s, x, out);
        str_add(out, ")");
    }
}

/* A sign where one is needed, the coefficient's magnitude unless 1, the monomial. */
static void print_term(const sym_store *s, int64_t coef, sym term, bool first, str *out) {
    uint64_t magnitude = coef < 0 ? 0 - (uint64_t)coef : (uint64_t)coef;
    str_add(out, first ? coef < 0 ? "-" : "" : coef < 0 ? " - " : " + ");
    if (term == SYM_ONE) {
        str_addf(out, "%" PRIu64, magnitude);
        return;
    }
    if (magnitude == 1) {
        print_monomial(s, term, out);
        return;
    }
    str_addf(out, "%" PRIu64 "*", magnitude);
    if (sym_at(s, term)->kind == SYM_DIV)
        print_primary(s, term, out);
    else
        print_monomial(s, term, out);
}

static void print_sum(const sym_store *s, sym a, str *out) {
    sym_linear x = sym_terms(s, a);
    uint16_t order[SORTED_MOST];
    if (x.n > 1)
        print_order(s, x.n, x.term, order, out);
    else
        order[0] = 0;
    bool ahead = x.n == 0 || (x.constant > 0 && x.coef[in_order(x.n, order, 0)] < 0);
    if (ahead) print_term(s, x.constant, SYM_ONE, true, out);
    for (int i = 0; i < x.n; i++) {
        int t = in_order(x.n, order, i);
        print_term(s, x.coef[t], x.term[t], i == 0 && !ahead, out);
    }
    if (x.constant && !ahead) print_term(s, x.constant, SYM_ONE, false, out);
}

void sym_print(const sym_store *s, sym a, str *out) {
    print_sum(s, a, out);
}

/* ---- parsing -------------------------------------------------------------------------------- */

enum { PARSE_DEPTH = 256 };

typedef struct parser {
    sym_store *s;
    const char *at;
    int n;
    const sym *var;
    int depth;
} parser;

static bool parse_conjunction(parser *p, sym *out);

static const char *blanks(const char *at) {
    while (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r') at++;
    return at;
}

/* Blanks are passed over only on the way to something that is taken. */
static bool accept(parser *p, const char *text) {
    const char *at = blanks(p->at);
    size_t n = strlen(text);
    if (strncmp(at, text, n) != 0) return false;
    p->at = at + n;
    return true;
}

static bool name_char(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '.';
}

static size_t name_length(const char *at) {
    size_t n = 0;
    if (!isdigit((unsigned char)*at))
        while (name_char(at[n])) n++;
    return n;
}

static bool accept_word(parser *p, const char *word) {
    const char *at = blanks(p->at);
    size_t n = strlen(word);
    if (name_length(at) != n || strncmp(at, word, n) != 0) return false;
    p->at = at + n;
    return true;
}

/* The magnitude of a number; 2^63 is allowed for the sake of -2^63. */
static bool parse_digits(parser *p, uint64_t *out) {
    *out = 0;
    if (!isdigit((unsigned char)*p->at)) return false;
    for (; isdigit((unsigned char)*p->at); p->at++) {
        uint64_t digit = (uint64_t)(*p->at - '0');
        if (*out > ((uint64_t)INT64_MAX + 1 - digit) / 10) return false;
        *out = *out * 10 + digit;
    }
    return true;
}

static bool parse_branch(parser *p, sym_kind kind, sym *out) {
    if (!accept(p, "(") || !parse_conjunction(p, out)) return false;
    while (accept(p, ",")) {
        sym next;
        if (!parse_conjunction(p, &next)) return false;
        *out = kind == SYM_MIN ? sym_min(p->s, *out, next) : sym_max(p->s, *out, next);
    }
    return accept(p, ")");
}

static bool parse_var(parser *p, sym *out) {
    size_t n = name_length(p->at);
    for (int i = 0; n && i < p->n; i++) {
        const char *name = sym_name(p->s, p->var[i]);
        if (strlen(name) != n || memcmp(name, p->at, n) != 0) continue;
        p->at += n;
        *out = p->var[i];
        return true;
    }
    return false;
}

static bool parse_primary(parser *p, sym *out) {
    p->at = blanks(p->at);
    if (isdigit((unsigned char)*p->at)) {
        uint64_t magnitude;
        if (!parse_digits(p, &magnitude) || magnitude > INT64_MAX) return false;
        *out = sym_const(p->s, (int64_t)magnitude);
        return true;
    }
    if (p->depth++ == PARSE_DEPTH) return false;
    bool good;
    if (accept(p, "("))
        good = parse_conjunction(p, out) && accept(p, ")");
    else if (parse_var(p, out))
        good = true;
    else if (accept_word(p, "min"))
        good = parse_branch(p, SYM_MIN, out);
    else
        good = accept_word(p, "max") && parse_branch(p, SYM_MAX, out);
    p->depth--;
    return good;
}

/* A leading number takes the sign to itself, so that -2^63 can be written. */
static bool parse_signed_number(parser *p, sym *out) {
    const char *start = p->at;
    uint64_t magnitude;
    p->at = blanks(p->at);
    if (!parse_digits(p, &magnitude) || *blanks(p->at) == '/') {
        p->at = start;
        return false;
    }
    *out = sym_const(p->s, (int64_t)(0 - magnitude));
    return true;
}

static bool parse_product(parser *p, bool minus, sym *out) {
    bool signed_number = minus && parse_signed_number(p, out);
    if (!signed_number && !parse_primary(p, out)) return false;
    for (;;) {
        sym next;
        if (accept(p, "*")) {
            if (!parse_primary(p, &next)) return false;
            *out = sym_mul(p->s, *out, next);
        } else if (accept(p, "/")) {
            if (!parse_primary(p, &next) || sym_lo(p->s, next) < 1) return false;
            *out = sym_div(p->s, *out, next);
        } else {
            break;
        }
    }
    if (minus && !signed_number) *out = sym_scale(p->s, *out, -1);
    return true;
}

static bool parse_sum(parser *p, sym *out) {
    if (!parse_product(p, accept(p, "-"), out)) return false;
    for (;;) {
        sym next;
        bool minus = accept(p, "-");
        if (!minus && !accept(p, "+")) return true;
        if (!parse_product(p, minus, &next)) return false;
        *out = sym_add(p->s, *out, next);
    }
}

static bool parse_comparison(parser *p, sym *out) {
    if (!parse_sum(p, out)) return false;
    if (!accept(p, ">=")) return true;
    sym low;
    if (!parse_sum(p, &low)) return false;
    *out = sym_ge0(p->s, sym_sub(p->s, *out, low));
    return true;
}

static bool parse_conjunction(parser *p, sym *out) {
    if (!parse_comparison(p, out)) return false;
    while (accept_word(p, "and")) {
        sym next;
        if (!parse_comparison(p, &next)) return false;
        *out = sym_and(p->s, *out, next);
    }
    return true;
}

bool sym_parse(sym_store *s, const char **text, int n, const sym *var, sym *out) {
    parser p = {.s = s, .at = *text, .n = n, .var = var};
    if (!parse_sum(&p, out)) return false;
    *text = p.at;
    return true;
}
