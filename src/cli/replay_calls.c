/* replay_calls.c - the calls of a recording, one function a row of calls.h: arguments out of an
 * array of values, by their letters. */
#include "cli/replay.h"

#define C(k)         v[k].p
#define T(k)         v[k].p
#define O(k)         v[k].p
#define W(k)         v[k].p
#define Q(k)         v[k].p
#define G(k)         v[k].p
#define N(k)         v[k].p
#define I(k)         (int)v[k].i
#define Z(k)         v[k].i
#define U(k)         (uint64_t) v[k].i
#define S(k)         (size_t) v[k].i
#define H(k)         (qn_scope) v[k].i
#define B(k)         (v[k].i != 0)
#define F(k)         v[k].f
#define D(k, length) v[k].p
#define P(k, length) v[k].p
#define A(k, length) v[k].p
#define E(k, length) v[k].p
#define Y(k, length) v[k].p
#define L(k, length) v[k].p
#define M(k, length) v[k].p
#define R(k, length) v[k].p
#define J(k, length) v[k].p
#define K(k, name)   v[k].p
#define V(k, n, of)  v[k].p

#define GIVE_C(r)                                                                                  \
    (call_value) {                                                                                 \
        .p = r                                                                                     \
    }
#define GIVE_T(r) GIVE_C(r)
#define GIVE_O(r) GIVE_C(r)
#define GIVE_L(r) GIVE_C((void *)(uintptr_t)(r))
#define GIVE_W(r) GIVE_L(r)
#define GIVE_I(r)                                                                                  \
    (call_value) {                                                                                 \
        .i = (int64_t)(r)                                                                          \
    }
#define GIVE_E(r) GIVE_I(r)
#define GIVE_Z(r) GIVE_I(r)
#define GIVE_U(r) GIVE_I(r)
#define GIVE_S(r) GIVE_I(r)
#define GIVE_H(r) GIVE_I(r)
#define GIVE_B(r) GIVE_I(r)
#define GIVE_F(r)                                                                                  \
    (call_value) {                                                                                 \
        .f = r                                                                                     \
    }

#define X(type, RESULT, name, params, args, letters)                                               \
    static call_value run_##name(const call_value *v) {                                            \
        return GIVE_##RESULT(qn_##name letters);                                                   \
    }
#define VOID(name, params, args, letters)                                                          \
    static call_value run_##name(const call_value *v) {                                            \
        qn_##name letters;                                                                         \
        return (call_value){.i = 0};                                                               \
    }
#define HAND X
#include "record/calls.h"
#undef X
#undef VOID

call_value replay_run(call_id id, const call_value *v) {
    static call_value (*const run[CALLS])(const call_value *v) = {
#define X(type, RESULT, name, ...) run_##name,
#define VOID(name, ...)            run_##name,
#include "record/calls.h"
    };
    return run[id](v);
}

const char *replay_arguments_of(call_id id) {
#undef X
#undef VOID
#define X(type, RESULT, name, params, args, ...) #args,
#define VOID(name, params, args, ...)            #args,
    static const char *const names[CALLS] = {
#include "record/calls.h"
    };
    return names[id];
}
