/* entry.c - the functions that a program calls. Each asks its arguments whether calls of that
 * context are recorded or one of them is complex, and goes on to the function's name inside the
 * library.
 *
 * Where there is something to do about a call it is made by the one function that there is for what
 * its arguments and result are, a signature: which call it is, and the function, come behind the
 * arguments, which so stay where they are. A complex call is made of several calls of that function
 * with real arguments in the places of complex ones, or of another function (parts.c). */
#include "record/record.h"

/* Without a context nobody records. */
static inline bool recorded(const void *qn) {
    return __builtin_expect(qn && ((const struct recorded *)qn)->recorder, 0);
}

/* Any of handles' names. */
static inline bool marked(uintptr_t handles) {
    return __builtin_expect(handles & RECORD_MARK, 0);
}

static bool any_marked(int n, qn_tensor *const *list) {
    uintptr_t names = 0;
    for (int i = 0; i < n && list && i < RECORD_LIST; i++) names |= (uintptr_t)list[i];
    return marked(names);
}

/* Arguments say it: a context, handles, the first of a list. */
#define OF_CONTEXT(qn)                 recorded(qn)
#define AT(name)                       ((uintptr_t)(name))
#define OF_HANDLES_1(a)                marked(AT(a))
#define OF_HANDLES_2(a, b)             marked(AT(a) | AT(b))
#define OF_HANDLES_3(a, b, c)          marked(AT(a) | AT(b) | AT(c))
#define OF_HANDLES_4(a, b, c, d)       marked(AT(a) | AT(b) | AT(c) | AT(d))
#define OF_HANDLES_5(a, b, c, d, e)    marked(AT(a) | AT(b) | AT(c) | AT(d) | AT(e))
#define OF_HANDLES_6(a, b, c, d, e, f) marked(AT(a) | AT(b) | AT(c) | AT(d) | AT(e) | AT(f))
#define OF_LIST(n, list)               any_marked(n, list)
#define OF_DTYPE(dtype)                __builtin_expect(dtype == QN_C64 || dtype == QN_C128, 0)

#define LIST(...) __VA_ARGS__
#define APART     static __attribute__((noinline, cold))
#define P(k)                                                                                       \
    (back ? (void)(a##k = (__typeof__(a##k))(uintptr_t)call.v[k].p)                                \
          : (void)(call.v[k].p = (void *)(uintptr_t)a##k))
#define I(k)       (back ? (void)0 : (void)(call.v[k].i = (int64_t)a##k))
#define F(k)       (back ? (void)0 : (void)(call.v[k].f = a##k))
#define GIVEN_P(r) .p = (void *)(uintptr_t)(r)
#define GIVEN_I(r) .i = (int64_t)(r)
#define GIVEN_F(r) .f = (r)
#define TAKEN_P(v) (uintptr_t)(v).p
#define TAKEN_I(v) (v).i
#define TAKEN_F(v) (v).f

#define S(type, MEMBER, name, params, args, values)                                                \
    APART type record_##name(LIST params, call_id id, type(*inner) params) {                       \
        record_call call;                                                                          \
        call_value given = {.i = 0};                                                               \
        bool back = false;                                                                         \
        (void)(values);                                                                            \
        back = true;                                                                               \
        record_begin(&call, id, (call_function)inner);                                             \
        while (record_turn(&call, &given)) {                                                       \
            (void)(values);                                                                        \
            given = (call_value){GIVEN_##MEMBER(((type(*) params)call.inner)args)};                \
        }                                                                                          \
        record_end(&call, given);                                                                  \
        return (type)TAKEN_##MEMBER(given);                                                        \
    }
#define SV(name, params, args, values)                                                             \
    APART void record_##name(LIST params, call_id id, void(*inner) params) {                       \
        record_call call;                                                                          \
        call_value given = {.i = 0};                                                               \
        bool back = false;                                                                         \
        (void)(values);                                                                            \
        back = true;                                                                               \
        record_begin(&call, id, (call_function)inner);                                             \
        while (record_turn(&call, &given)) {                                                       \
            (void)(values);                                                                        \
            ((void(*) params)call.inner) args;                                                     \
        }                                                                                          \
        record_end(&call, given);                                                                  \
    }
#define X(type, name, signature, recorded, params, args)                                           \
    type qn_##name params {                                                                        \
        return recorded ? record_##signature(LIST args, CALL_##name, inner_##name)                 \
                        : inner_##name args;                                                       \
    }
#define VOID(name, signature, recorded, params, args)                                              \
    void qn_##name params {                                                                        \
        if (recorded)                                                                              \
            record_##signature(LIST args, CALL_##name, inner_##name);                              \
        else                                                                                       \
            inner_##name args;                                                                     \
    }
#include "record/signatures.h"
#include "record/stubs.h"

/* The knob that asks for a recording is the context's. */
qn_ctx *qn_open(const qn_options *options) {
    qn_ctx *qn = inner_open(options);
    if (qn) record_opened(qn, options);
    return qn;
}
