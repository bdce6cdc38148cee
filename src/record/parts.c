/* parts.c - calls with complex arguments, made of calls with real ones.
 *
 * A complex tensor is a handle that keeps a real tensor of pairs, real and imaginary part along one
 * more, last axis. No function inside the library takes such a handle, so what has no meaning for
 * complex numbers refuses them by the check that it makes anyway. What has one is a row of
 * complex/meanings.h. Movements, sums and choices are linear, z = x + iy going to f(x) + i f(y),
 * and products linear in each factor: such a call is made again by choice of parts, in turns, with
 * real tensors in the places of complex ones, and no code of its own. A factor that is real stays
 * as it is, so that 2 * (inf + 0i) has no NaN, as C99's annex G has it.
 *
 * The parts are views of the pairs and results are joined of parts; the graph's rules see through
 * both, so in a chain of complex operations only what is stored is put together as pairs. */
#include "complex/complex.h"
#include "record/record.h"

#include "graph/graph.h"

enum {
    WAY_NONE,
    WAY_OWN,
    WAY_JOINT,
    WAY_APART,
    WAY_PRODUCT,
    WAY_MOVE,
    WAY_PAIRS,
    WAY_REAL,
    WAY_EACH
};
typedef struct meaning {
    uint8_t way, values, added;
} meaning;
static const meaning meanings[CALLS] = {
#define X(name, WAY, values, added) [CALL_##name] = {WAY_##WAY, values, added},
#include "complex/meanings.h"
#undef X
};

/* The functions of WAY_OWN. */
typedef struct own {
    int id;
    call_function function;
} own;
static const own owns[] = {
#define OWN(name) {CALL_##name, (call_function)complex_##name},
#include "complex/own.h"
#undef OWN
};
#define OWN(name) _Static_assert(_Generic(&complex_##name, __typeof__(&inner_##name) : 1), #name);
#include "complex/own.h"
#undef OWN

static bool is_complex(const void *name) {
    return handle_is(name, HANDLE_COMPLEX);
}

/* How many tensors argument k is, a tensor or a list of them; 0 for others. */
static int64_t tensors_in(const record_call *c, int k, char list) {
    const call_row *row = &call_rows[c->id];
    call_counts none = {-1, -1};
    if (row->arg[k].letter == 'T') return list == 'L';
    if (row->arg[k].letter != list || !c->v[k].p) return 0;
    int64_t n = call_length(row, c->v, k, none);
    return n < 0 ? 0 : n;
}

static qn_tensor **tensors_at(record_call *c, int k) {
    return call_rows[c->id].arg[k].letter == 'T' ? (qn_tensor **)&c->v[k].p : c->v[k].p;
}

/* The context of a complex argument; NULL: there is none. */
static qn_ctx *context_of_complex(record_call *c) {
    for (int k = 0; k < CALL_ARGS && call_rows[c->id].arg[k].letter; k++) {
        int64_t n = tensors_in(c, k, 'L');
        qn_tensor *const *t = tensors_at(c, k);
        for (int64_t i = 0; i < n; i++)
            if (is_complex(t[i])) return handle_at(t[i])->ctx;
    }
    return NULL;
}

/* Are all tensors of it complex, and of one dtype? */
static bool all_are_complex(record_call *c) {
    const handle *first = handle_at(c->v[0].p);
    for (int k = 0; k < CALL_ARGS && call_rows[c->id].arg[k].letter; k++) {
        int64_t n = tensors_in(c, k, 'L');
        qn_tensor *const *t = tensors_at(c, k);
        for (int64_t i = 0; i < n; i++)
            if (!is_complex(t[i]) || handle_at(t[i])->dtype != first->dtype) return false;
    }
    return true;
}

static bool names_complex_dtype(const record_call *c) {
    for (int k = 0; k < CALL_ARGS && call_rows[c->id].arg[k].letter; k++)
        if (call_rows[c->id].arg[k].letter == 'I' && dtype_is_complex((int)c->v[k].i)) return true;
    return false;
}

/* ---- before the first turn ------------------------------------------------------------------- */

/* Room for parts and copies of all that is given, and for parts of results. */
static bool make_room(record_call *c) {
    complex_call *z = &c->complex;
    const call_arg *arg = call_rows[c->id].arg;
    z->values = 0, z->results = call_rows[c->id].result == 'T';
    for (int k = 0; k < CALL_ARGS && arg[k].letter; k++) {
        z->values += (int)tensors_in(c, k, 'L');
        if (arg[k].letter == 'R') z->results += (int)tensors_in(c, k, 'R');
    }
    z->room = (3 * (size_t)z->values + 2 * (size_t)z->results) * sizeof(qn_tensor *);
    z->value = heap_try(&z->ctx->heap, z->room);
    if (!z->value) {
        fail(z->ctx, QN_ENOMEM, "%s: out of memory", call_name(c->id));
        return false;
    }
    memset(z->value, 0, z->room);
    z->list = z->value + 2 * z->values;
    z->made = z->list + z->values;
    return true;
}

/* Parts of what is given, in the order of arguments: [0] real ones, [1] imaginary ones. An argument
 * that is as it is given has itself twice. */
static void take_parts(record_call *c) {
    complex_call *z = &c->complex;
    bool joint = z->way == WAY_JOINT, apart = z->way == WAY_APART;
    const meaning *m = &meanings[c->id];
    const qn_tensor *first = NULL;
    int at = 0;
    for (int k = 0; k < CALL_ARGS && call_rows[c->id].arg[k].letter; k++) {
        int64_t n = tensors_in(c, k, 'L');
        qn_tensor *const *t = tensors_at(c, k);
        bool value = (m->values | m->added) >> k & 1, added = m->added >> k & 1;
        for (int64_t i = 0; i < n; i++, at++) {
            qn_tensor **re = &z->value[at], **im = &z->value[z->values + at];
            *re = *im = t[i];
            if (!value || !t[i]) continue;
            if (first && !apart && !complex_may_meet(call_name(c->id), first, t[i]))
                z->failed = true;
            first = t[i];
            if (is_complex(t[i]))
                complex_split(t[i], re, im);
            else if (handle_is(t[i], HANDLE_TENSOR) && (joint || added))
                *im = joint ? inner_zeros_like(t[i]) : NULL;
            if (!added && *im != *re) z->factors++;
        }
    }
}

/* A product of real factors to which something complex is added: the second turn is one of zeros,
 * all of them, since 0 times infinity is no 0. */
static void make_factors(record_call *c) {
    complex_call *z = &c->complex;
    if (z->factors) return;
    int at = 0;
    for (int k = 0; k < CALL_ARGS && call_rows[c->id].arg[k].letter; k++)
        for (int64_t n = tensors_in(c, k, 'L'); n > 0; n--, at++)
            if (meanings[c->id].values >> k & 1 && z->value[at])
                z->value[z->values + at] = inner_zeros_like(z->value[at]);
    z->factors = 1;
    z->alone = true;
}

static void begin_turns(record_call *c) {
    complex_call *z = &c->complex;
    z->scope = z->way == WAY_REAL ? 0 : inner_scope_begin(z->ctx);
    z->failed = (z->way != WAY_REAL && !z->scope) || !make_room(c);
    if (z->failed) return;
    z->turns = 1;
    if (z->way == WAY_MOVE) {
        z->value[0] = complex_stand_in(c->v[0].p);
        z->failed = !z->value[0];
    } else if (z->way == WAY_JOINT || z->way == WAY_APART) {
        take_parts(c);
        z->turns = 2;
    } else if (z->way == WAY_PRODUCT) {
        take_parts(c);
        make_factors(c);
        if (z->factors <= COMPLEX_FACTORS)
            z->turns = 1 << z->factors;
        else
            z->failed = fail(z->ctx, QN_ERANGE, "%s: %d complex factors, and at most %d",
                             call_name(c->id), z->factors, COMPLEX_FACTORS) != QN_OK;
    }
}

void complex_begin(record_call *c) {
    complex_call *z = &c->complex;
    z->way = WAY_NONE;
    int way = meanings[c->id].way;
    if (way == WAY_NONE) return;
    z->ctx = context_of_complex(c);
    if (!z->ctx && !(way == WAY_OWN && names_complex_dtype(c))) return;
    if (way == WAY_OWN) {
        for (size_t i = 0; i < COUNT_OF(owns); i++)
            if (owns[i].id == (int)c->id) c->inner = owns[i].function;
        return;
    }
    if (way == WAY_MOVE && !is_complex(c->v[0].p)) return; /* the function refuses the count */
    if (way == WAY_MOVE && complex_is_joined(c->v[0].p)) way = WAY_JOINT;
    if (way == WAY_EACH) way = all_are_complex(c) ? WAY_PAIRS : WAY_JOINT;
    *z = (complex_call){.way = (uint8_t)way, .ctx = z->ctx};
    memcpy(z->given, c->v, sizeof z->given);
    begin_turns(c);
}

/* ---- turns ----------------------------------------------------------------------------------- */

static qn_tensor *pairs_of(qn_tensor *t) {
    return is_complex(t) ? handle_name(handle_at(t)->object) : t;
}

static void set_arguments(record_call *c, int turn) {
    complex_call *z = &c->complex;
    const meaning *m = &meanings[c->id];
    int at = 0, factor = 0;
    for (int k = 0; k < CALL_ARGS && call_rows[c->id].arg[k].letter; k++) {
        int64_t n = tensors_in(c, k, 'L');
        if (!n) continue;
        bool is_list = call_rows[c->id].arg[k].letter == 'L', added = m->added >> k & 1;
        qn_tensor *const *given = is_list ? z->given[k].p : (qn_tensor **)&z->given[k].p;
        qn_tensor **to = is_list ? z->list + at : (qn_tensor **)&c->v[k].p;
        for (int64_t i = 0; i < n; i++, at++) {
            qn_tensor *re = z->value[at], *im = z->value[z->values + at];
            if (z->way == WAY_MOVE)
                to[i] = m->values >> k & 1 ? z->value[0] : given[i];
            else if (z->way >= WAY_PAIRS)
                to[i] = m->values >> k & 1 ? pairs_of(given[i]) : given[i];
            else if (z->way == WAY_JOINT || z->way == WAY_APART)
                to[i] = turn ? im : re;
            else if (added)
                to[i] = turn == 0 ? re : turn == 1 ? im : NULL;
            else
                to[i] = re != im && ((z->alone ? turn : turn >> factor++) & 1) ? im : re;
        }
        if (is_list) c->v[k].p = to;
    }
}

/* Of a stand-in, moved: the pairs. What is no movement after all is made in turns. */
static void move_result(complex_call *z, int i, qn_tensor *t) {
    if (!t)
        z->failed = true;
    else if (!(z->made[i] = complex_moved(z->given[0].p, z->value[0], t)))
        z->again = true;
}

static void add_result(complex_call *z, int turn, int i, qn_tensor *t) {
    if (z->way == WAY_MOVE) {
        move_result(z, i, t);
        return;
    }
    bool product = z->way == WAY_PRODUCT;
    int power = product ? __builtin_popcount((unsigned)turn) & 3 : turn;
    qn_tensor **sum = &z->made[(power & 1) * z->results + i];
    if (t && z->way == WAY_PAIRS)
        *sum = t;
    else if (t)
        *sum = !*sum ? t : power & 2 ? inner_sub(*sum, t) : inner_add(*sum, t);
    z->failed |= !t || !*sum;
}

static void take_results(record_call *c, const call_value *given, int turn) {
    complex_call *z = &c->complex;
    int at = 0;
    char result = call_rows[c->id].result;
    if (result == 'E' && given->i < 0) z->failed = true;
    if (result == 'T') add_result(z, turn, at++, given->p);
    for (int k = 0; k < CALL_ARGS && call_rows[c->id].arg[k].letter; k++) {
        int64_t n = call_rows[c->id].arg[k].letter == 'R' ? tensors_in(c, k, 'R') : 0;
        qn_tensor *const *t = c->v[k].p;
        for (int64_t i = 0; i < n && !z->failed; i++) add_result(z, turn, at++, t[i]);
    }
}

/* ---- behind the last one --------------------------------------------------------------------- */

/* Result number i, in the scope around. */
static qn_tensor *whole(complex_call *z, int i) {
    qn_scope scope = inner_scope_begin(z->ctx);
    qn_tensor *re = z->made[i], *im = z->made[z->results + i], *made = NULL;
    if (scope && z->way == WAY_APART && z->value[i] == z->value[z->values + i])
        made = tensor_new(z->ctx, tensor_at(re)->node);
    else if (scope && z->way <= WAY_PRODUCT)
        made = complex_whole(re, im);
    else if (scope)
        made = tensor_complex(re);
    return made ? scope_pass(z->ctx, scope, made) : (inner_scope_end(z->ctx, scope), NULL);
}

static void finish(record_call *c, call_value *given) {
    complex_call *z = &c->complex;
    char result = call_rows[c->id].result;
    int at = 0, kept = z->failed ? 0 : 2 * z->results;
    for (int i = 0; i < kept; i++)
        if (z->made[i]) inner_keep(z->made[i]);
    if (z->scope) inner_scope_end(z->ctx, z->scope);
    if (result == 'T') given->p = z->failed ? NULL : whole(z, at++);
    for (int k = 0; k < CALL_ARGS && call_rows[c->id].arg[k].letter; k++) {
        int64_t n = call_rows[c->id].arg[k].letter == 'R' ? tensors_in(c, k, 'R') : 0;
        qn_tensor **t = c->v[k].p;
        for (int64_t i = 0; i < n; i++) {
            t[i] = z->failed ? NULL : whole(z, at++);
            if (!t[i]) z->failed = true;
        }
    }
    if (result == 'E' && z->failed && given->i >= 0) given->i = inner_error_code(z->ctx);
    for (int i = 0; i < kept; i++)
        if (z->made[i]) inner_release(z->made[i]);
}

/* From the start, as a function that is linear and no more. */
static void begin_again(record_call *c) {
    complex_call *z = &c->complex;
    memset(z->value, 0, z->room);
    memcpy(c->v, z->given, sizeof z->given);
    z->way = WAY_JOINT, z->again = false;
    z->turn = 0, z->turns = 2;
    take_parts(c);
}

bool complex_turn(record_call *c, call_value *given) {
    complex_call *z = &c->complex;
    if (z->turn && z->way != WAY_REAL) take_results(c, given, z->turn - 1);
    if (z->again && !z->failed && !inner_error_code(z->ctx)) begin_again(c);
    if (z->turn < z->turns && !z->failed) {
        set_arguments(c, z->turn++);
        return true;
    }
    if (z->way != WAY_REAL)
        finish(c, given);
    else if (z->failed && call_rows[c->id].result == 'E')
        given->i = inner_error_code(z->ctx);
    if (z->value) heap_free(&z->ctx->heap, z->value, z->room);
    memcpy(c->v, z->given, sizeof z->given);
    return false;
}
