/* index.c - expressions of the index algebra as C. Variables carry a trailing "_", so that no
 * name is a word of C's or of ours. Division is C's where the dividend is proven not negative. */
#include "emit/clike/clike.h"

static void print_variable(clike *c, sym var) {
    str_addf(c->out, "%s_", sym_name(c->syms, var));
}

static void print_number(clike *c, int64_t v) {
    if (v == INT64_MIN)
        str_add(c->out, "INT64_MIN");
    else
        str_addf(c->out, "%lld", (long long)v);
}

static void print_list(clike *c, const char *function, int n, const sym *x) {
    for (int i = 0; i + 1 < n; i++) str_addf(c->out, "%s(", function);
    for (int i = 0; i < n; i++) {
        if (i) str_add(c->out, ", ");
        clike_sym(c, x[i]);
        if (i) str_add(c->out, ")");
    }
}

static void print_division(clike *c, sym e, sym d) {
    bool natural = sym_lo(c->syms, e) >= 0;
    str_add(c->out, natural ? "(" : "floor_quotient(");
    clike_sym(c, e);
    str_add(c->out, natural ? ") / (" : ", ");
    clike_sym(c, d);
    str_add(c->out, ")");
}

static void print_monomial(clike *c, sym m) {
    const sym *x;
    int n = sym_operands(c->syms, m, &x);
    switch (sym_kind_of(c->syms, m)) {
    case SYM_VAR:
        print_variable(c, m);
        return;
    case SYM_DIV:
        print_division(c, x[0], x[1]);
        return;
    case SYM_MIN:
        print_list(c, "least", n, x);
        return;
    case SYM_MAX:
        print_list(c, "most", n, x);
        return;
    case SYM_GE0:
    case SYM_AND:
        clike_truth(c, m);
        return;
    default:
        break;
    }
    for (int i = 0; i < n; i++) {
        str_add(c->out, i ? "*(" : "(");
        clike_sym(c, x[i]);
        str_add(c->out, ")");
    }
}

void clike_sym(clike *c, sym a) {
    sym_linear t = sym_terms(c->syms, a);
    for (int i = 0; i < t.n; i++) {
        int64_t k = t.coef[i];
        bool minus = k < 0 && k != INT64_MIN;
        if (i) str_add(c->out, minus ? " - " : " + ");
        if (!i && minus) str_add(c->out, "-");
        if (minus) k = -k;
        if (k != 1) {
            print_number(c, k);
            str_add(c->out, "*");
        }
        bool quotient = sym_kind_of(c->syms, t.term[i]) == SYM_DIV;
        if (quotient) str_add(c->out, "(");
        print_monomial(c, t.term[i]);
        if (quotient) str_add(c->out, ")");
    }
    if (t.n && !t.constant) return;
    if (t.n) str_add(c->out, t.constant < 0 && t.constant != INT64_MIN ? " - " : " + ");
    print_number(c, t.n && t.constant < 0 && t.constant != INT64_MIN ? -t.constant : t.constant);
}

void clike_truth(clike *c, sym a) {
    const sym *x;
    sym_kind kind = sym_kind_of(c->syms, a);
    int n = sym_operands(c->syms, a, &x);
    str_add(c->out, "(");
    if (kind == SYM_AND) {
        for (int i = 0; i < n; i++) {
            if (i) str_add(c->out, " && ");
            clike_truth(c, x[i]);
        }
    } else {
        clike_sym(c, kind == SYM_GE0 ? x[0] : a);
        str_add(c->out, kind == SYM_GE0 ? " >= 0" : " != 0");
    }
    str_add(c->out, ")");
}
