/* entry.c - the functions that a program calls. Each asks one of its arguments, or all that are
 * handles, whether calls of that context are recorded, and goes on to the function's name inside
 * the library.
 *
 * Where a call is recorded it is made by the one function that there is for what its arguments and
 * result are, a signature: which call it is, and the function, come behind the arguments, which so
 * stay where they are. */
#include "record/record.h"

/* Without a context nobody records. */
static inline bool recorded(const void *qn) {
    return __builtin_expect(qn && ((const struct recorded *)qn)->recorder, 0);
}

/* Any of handles' names. */
static inline bool marked(uintptr_t handles) {
    return __builtin_expect(handles & RECORD_MARK, 0);
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
#define OF_LIST(n, list)               ((n) > 0 && (list) && marked(AT((list)[0])))

#define LIST(...)  __VA_ARGS__
#define APART      static __attribute__((noinline, cold))
#define P(k)       call.v[k].p = (void *)(uintptr_t)a##k
#define I(k)       call.v[k].i = (int64_t)a##k
#define F(k)       call.v[k].f = a##k
#define GIVEN_P(r) .p = (void *)(uintptr_t)(r)
#define GIVEN_I(r) .i = (int64_t)(r)
#define GIVEN_F(r) .f = (r)

#define S(type, MEMBER, name, params, args, values)                                                \
    APART type record_##name(LIST params, call_id id, type(*inner) params) {                       \
        record_call call;                                                                          \
        (void)(values);                                                                            \
        record_begin(&call, id);                                                                   \
        type given = inner args;                                                                   \
        record_end(&call, (call_value){GIVEN_##MEMBER(given)});                                    \
        return given;                                                                              \
    }
#define SV(name, params, args, values)                                                             \
    APART void record_##name(LIST params, call_id id, void(*inner) params) {                       \
        record_call call;                                                                          \
        (void)(values);                                                                            \
        record_begin(&call, id);                                                                   \
        inner args;                                                                                \
        record_end(&call, (call_value){.i = 0});                                                   \
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
