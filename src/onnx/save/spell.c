/* spell.c - values of the file: spellings read and written as nodes, constants, sizes.
 *
 * A spelling is an expression of ONNX operators. It is read by descent, and each operator becomes a
 * node as soon as its operands are values. Equal constants are one initializer. A size that varies
 * is computed in the model, from the shape of the input that has its variable as a size, and is a
 * list of one number, so that sizes side by side are a Concat of such lists. */
#include "onnx/save/save.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

void save_refuse(const saving *s, qn_code code, const char *fmt, ...) {
    char why[240];
    str *text = &s->g->text;
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    text->len = 0;
    const graph_node *x = node_at(s->g, s->current);
    call_attr call = x->op == OP_CALL ? node_call(s->g, x) : (call_attr){0};
    str_addf(text, "%s %s", x->op == OP_CALL ? routine_name(s->g, &call) : op_rows[x->op].name,
             qn_dtype_name((qn_dtype)x->dtype));
    shape_text(s->g, x->shape, text);
    raise_error(s->qn, code, "onnx_save: %s: %s", text->s, why);
}

/* ---- values ---------------------------------------------------------------------------------- */

val val_new(saving *s, const char *name) {
    if (s->values + 1 >= s->values_cap)
        s->value = arena_grow(&s->a, s->value, &s->values_cap, s->values + 2, sizeof *s->value);
    s->value[++s->values] = (save_value){.name = name};
    return s->values;
}

const char *val_name(saving *s, val v) {
    const char *name = s->value[v].name;
    return name ? name : arena_printf(&s->a, "%s%u", s->prefix, v);
}

void val_shape(saving *s, val v, tuple_id shape) {
    if (s->marking) return;
    s->value[v].shape = shape;
    s->value[v].known = true;
}

/* ---- spellings ------------------------------------------------------------------------------- */

enum { OPERANDS = 8, LETTERS = 26 };
typedef struct reading {
    saving *s;
    qn_dtype dtype;
    const char *at;
    val letter[LETTERS];
} reading;

static val read_value(reading *r);

static val read_operator(reading *r) {
    char spec[400];
    val in[OPERANDS];
    int n = 0;
    size_t size = 0;
    bool inside = false;
    for (; *r->at != '(' || inside; r->at++) {
        inside = *r->at == '[' || (inside && *r->at != ']');
        if (size + 1 < sizeof spec) spec[size++] = *r->at;
    }
    spec[size] = 0;
    r->at++;
    while (*r->at != ')') {
        if (n < OPERANDS) in[n++] = *r->at == ',' ? 0 : read_value(r);
        r->at += *r->at == ',';
    }
    r->at++;
    const char *results = strchr(spec, ':');
    int outs = results && results < spec + strcspn(spec, "[") ? results[1] - '0' : 1;
    val first = val_new(r->s, NULL);
    for (int i = 1; i < outs; i++) (void)val_new(r->s, NULL);
    wire_node(r->s, spec, n, in, outs, first);
    return first;
}

static val read_value(reading *r) {
    if (isupper((unsigned char)*r->at)) return read_operator(r);
    if (islower((unsigned char)*r->at)) return r->letter[*r->at++ - 'a'];
    char *end;
    double v = text_f64(r->at, &end);
    r->at = end;
    scalar number = scalar_number(r->dtype, v);
    return save_scalar(r->s, r->dtype, scalar_bits(r->dtype, number));
}

val spell(saving *s, qn_dtype dtype, int n, const val *x, const char *fmt, ...) {
    static const char letters[] = "xyzuv";
    char text[SAVE_SPELLED];
    if (s->marking) return 1;
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    reading r = {.s = s, .dtype = dtype, .at = text};
    for (int i = 0; i < n; i++) r.letter[letters[i] - 'a'] = x[i];
    for (;;) {
        char name = r.at[1] == '=' ? *r.at : 0;
        if (name) r.at += 2;
        val v = read_value(&r);
        if (!name) return v;
        r.letter[name - 'a'] = v;
        r.at += *r.at == ';';
    }
}

/* ---- constants ------------------------------------------------------------------------------- */

static bool same_init(const void *key, uint32_t id, const void *user) {
    const save_init *a = key;
    const saving *s = user;
    const save_init *b = &s->init[id - 1];
    return b->data && a->dtype == b->dtype && a->rank == b->rank && a->bytes == b->bytes &&
           (!a->rank || !memcmp(a->dim, b->dim, (size_t)a->rank * sizeof *a->dim)) &&
           (!a->bytes || !memcmp(a->data, b->data, (size_t)a->bytes));
}

static val constant(saving *s, save_init t) {
    if (s->marking) return 1;
    uint64_t hash = hash_bytes(t.data, (size_t)t.bytes, (uint64_t)t.dtype << 8 | (uint64_t)t.rank);
    uint32_t found = idset_find(&s->constants, hash, same_init, &t, s);
    if (found) return (val)s->init[found - 1].buffer;
    val v = val_new(s, NULL);
    void *data = arena_alloc(&s->a, (size_t)t.bytes + 1);
    int64_t *dim = arena_alloc(&s->a, ((size_t)t.rank + 1) * sizeof *dim);
    if (t.bytes) memcpy(data, t.data, (size_t)t.bytes);
    if (t.rank) memcpy(dim, t.dim, (size_t)t.rank * sizeof *dim);
    t.data = data;
    t.dim = dim;
    t.buffer = v; /* it has none, and this is which value it is */
    t.name = val_name(s, v);
    if (s->inits == s->inits_cap)
        s->init = arena_grow(&s->a, s->init, &s->inits_cap, s->inits + 1, sizeof t);
    s->init[s->inits++] = t;
    idset_add(&s->constants, hash, s->inits);
    return v;
}

val save_scalar(saving *s, qn_dtype dtype, uint64_t bits) {
    return constant(s, (save_init){.dtype = dtype, .data = &bits, .bytes = qn_dtype_size(dtype)});
}

val save_ints(saving *s, int n, const int64_t *v) {
    const int64_t dim = n;
    return constant(
        s,
        (save_init){
            .dtype = QN_I64, .rank = 1, .dim = &dim, .data = v, .bytes = (uint64_t)n * sizeof *v});
}

val save_table(saving *s, int64_t n, int64_t m, int64_t *v) {
    const int64_t dim[2] = {n, m};
    return constant(s, (save_init){.dtype = QN_I64,
                                   .rank = 2,
                                   .dim = dim,
                                   .data = v,
                                   .bytes = (uint64_t)(n * m) * sizeof *v});
}

/* ---- sizes ----------------------------------------------------------------------------------- */

bool save_number(const saving *s, int64_t size, int64_t *out) {
    int64_t n;
    if (sym_is_const(s->g->syms, (sym)size, &n)) return *out = n, true;
    if (!s->o.bound) return false;
    n = shape_bound(s->g, (sym)size);
    if (n < 0) save_refuse(s, QN_ESHAPE, "a size is not bound");
    return *out = n, true;
}

int64_t save_fixed(const saving *s, int64_t size) {
    int64_t n = 0;
    if (!save_number(s, size, &n))
        save_refuse(s, QN_ESHAPE,
                    "it is written step by step, so its size must be a number: set bound");
    return n;
}

/* A variable: the size of an input. */
static val size_of_var(saving *s, sym var) {
    for (int i = 0; i < s->n_in; i++) {
        int rank;
        const int64_t *dim = node_dims(s->g, tensor_at(s->input[i])->node, &rank);
        for (int d = 0; d < rank; d++)
            if ((sym)dim[d] == var)
                return spell(s, QN_I64, 1, (val[]){1 + (val)i}, "Shape[start=%d;end=%d](x)", d,
                             d + 1);
    }
    int64_t n = shape_bound(s->g, var);
    if (n < 0)
        save_refuse(s, QN_ESHAPE, "size \"%.80s\" is that of no input, and is not bound",
                    sym_name(s->g->syms, var));
    return save_ints(s, 1, &n);
}

static val size_value(saving *s, sym size);

static val size_of_sum(saving *s, sym size) {
    sym_linear sum = sym_terms(s->g->syms, size);
    val v = 0;
    for (int i = 0; i < sum.n; i++) {
        val term = size_value(s, sum.term[i]);
        if (sum.coef[i] != 1) {
            val k = save_ints(s, 1, &sum.coef[i]);
            term = spell(s, QN_I64, 2, (val[]){term, k}, "Mul(x,y)");
        }
        v = v ? spell(s, QN_I64, 2, (val[]){v, term}, "Add(x,y)") : term;
    }
    val c = sum.constant ? save_ints(s, 1, &sum.constant) : 0;
    return c ? spell(s, QN_I64, 2, (val[]){v, c}, "Add(x,y)") : v;
}

/* Of two parts at once: products, quotients, the lesser and the larger. */
static val size_of_parts(saving *s, sym size, int kind) {
    const sym *part;
    int n = sym_operands(s->g->syms, size, &part);
    val v = size_value(s, part[0]);
    if (kind == SYM_GE0) return spell(s, QN_I64, 1, &v, "Cast[to=7](GreaterOrEqual(x,0))");
    for (int i = 1; i < n; i++) {
        const val x[2] = {v, size_value(s, part[i])};
        v = kind == SYM_DIV ? spell(s, QN_I64, 2, x, "Div(Sub(x,Mod(x,y)),y)")
                            : spell(s, QN_I64, 2, x,
                                    kind == SYM_MAX   ? "Max(x,y)"
                                    : kind == SYM_MIN ? "Min(x,y)"
                                                      : "Mul(x,y)");
    }
    return v;
}

/* A list of one number. */
static val size_value(saving *s, sym size) {
    int64_t n;
    if (s->marking) return 1;
    if (save_number(s, size, &n)) return save_ints(s, 1, &n);
    for (uint32_t i = 0; i < s->sizes; i++)
        if (s->size[i].size == size) return s->size[i].v;
    sym_kind kind = sym_kind_of(s->g->syms, size);
    val v = kind == SYM_VAR   ? size_of_var(s, size)
            : kind == SYM_SUM ? size_of_sum(s, size)
                              : size_of_parts(s, size, (int)kind);
    if (s->sizes == s->sizes_cap)
        s->size = arena_grow(&s->a, s->size, &s->sizes_cap, s->sizes + 1, sizeof *s->size);
    s->size[s->sizes++] = (save_size){size, v};
    return v;
}

val save_sizes(saving *s, int n, const int64_t *syms) {
    int64_t number[4 * QN_MAX_RANK];
    bool all = true;
    for (int i = 0; i < n; i++) all &= save_number(s, syms[i], &number[i]);
    if (all) return save_ints(s, n, number);
    if (s->marking) return 1;
    val list = 0;
    for (int i = 0; i < n; i++) {
        val one = size_value(s, (sym)syms[i]);
        list = list ? spell(s, QN_I64, 2, (val[]){list, one}, "Concat[axis=0](x,y)") : one;
    }
    return list;
}

/* ---- what is everywhere ---------------------------------------------------------------------- */

val save_cast(saving *s, val x, qn_dtype from, qn_dtype to) {
    if (from == to) return x;
    bool narrow = to == QN_F8_E4M3 || to == QN_F8_E5M2;
    return spell(s, to, 1, &x, "Cast[to=%d%s](x)", onnx_type_like(to), narrow ? ";saturate=0" : "");
}

/* One size that varies is what the others leave. */
void val_written(saving *s, val v) {
    if (!s->value[v].waits) return;
    int64_t number[QN_MAX_RANK], one;
    int n, vary = 0;
    bool empty = false;
    const int64_t *to = graph_tuple_get(s->g, s->value[v].shape, &n);
    for (int i = 0; i < n; i++) {
        bool is = save_number(s, to[i], &one);
        number[i] = is ? one : -1;
        vary += !is;
        empty |= is && one == 0;
    }
    val shape = vary == 1 && !empty ? save_ints(s, n, number) : save_sizes(s, n, to);
    s->value[v].waits = false;
    const val in[2] = {s->value[v].base, shape};
    wire_node(s, empty || vary > 1 ? "Reshape[allowzero=1]" : "Reshape", 2, in, 1, v);
}

val save_reshape(saving *s, val x, int n, const int64_t *to) {
    if (s->marking) return 1;
    tuple_id shape = graph_tuple(s->g, n, to);
    val base = s->value[x].base ? s->value[x].base : x;
    if (s->value[base].known && s->value[base].shape == shape) return base;
    if (s->value[x].known && s->value[x].shape == shape) return x;
    val v = val_new(s, NULL);
    s->value[v] = (save_value){.base = base, .shape = shape, .known = true, .waits = true};
    return v;
}

const char *save_axes(saving *s, int n, const int *axes) {
    str text;
    str_open_in(&text, &s->a);
    str_add(&text, "(");
    for (int i = 0; i < n; i++) str_addf(&text, "%s%d", i ? "," : "", axes[i]);
    str_add(&text, ")");
    return text.s;
}

val save_permute(saving *s, val x, int n, const int *axes) {
    bool same = true;
    for (int i = 0; i < n; i++) same &= axes[i] == i;
    return same ? x : spell(s, QN_I64, 1, &x, "Transpose[perm=%s](x)", save_axes(s, n, axes));
}
