/* entry.c - the functions that a program calls. Each makes its call by the name that it has inside
 * the library, and where calls are recorded has it written before and after. */
#include "record/record.h"

#define LIST(...) __VA_ARGS__

/* A result as a value, by its letter. */
#define AS_C(r)                                                                                    \
    (call_value) {                                                                                 \
        .p = r                                                                                     \
    }
#define AS_T(r) AS_C(r)
#define AS_O(r) AS_C(r)
#define AS_L(r) AS_C((void *)(uintptr_t)(r))
#define AS_W(r) AS_L(r)
#define AS_I(r)                                                                                    \
    (call_value) {                                                                                 \
        .i = (int64_t)(r)                                                                          \
    }
#define AS_E(r) AS_I(r)
#define AS_Z(r) AS_I(r)
#define AS_U(r) AS_I(r)
#define AS_S(r) AS_I(r)
#define AS_H(r) AS_I(r)
#define AS_B(r) AS_I(r)
#define AS_F(r)                                                                                    \
    (call_value) {                                                                                 \
        .f = r                                                                                     \
    }

static inline bool recording(void) {
    return __builtin_expect(atomic_load_explicit(&record_is_on, memory_order_relaxed), false);
}

/* Apart, so that a call that is not recorded is a test and a jump. */
#define COLD static __attribute__((noinline, cold))

#define X(type, RESULT, name, params, args, letters)                                               \
    COLD type record_##name params {                                                               \
        record_call call = record_begin(CALL_##name, LIST args);                                   \
        type made_here = inner_##name args;                                                        \
        record_end(&call, AS_##RESULT(made_here));                                                 \
        return made_here;                                                                          \
    }                                                                                              \
    type qn_##name params {                                                                        \
        return recording() ? record_##name args : inner_##name args;                               \
    }
#define VOID(name, params, args, letters)                                                          \
    COLD void record_##name params {                                                               \
        record_call call = record_begin(CALL_##name, LIST args);                                   \
        inner_##name args;                                                                         \
        record_end(&call, (call_value){.i = 0});                                                   \
    }                                                                                              \
    void qn_##name params {                                                                        \
        if (recording())                                                                           \
            record_##name args;                                                                    \
        else                                                                                       \
            inner_##name args;                                                                     \
    }
#define HAND(...)
#include "record/calls.h"

/* The knob that asks for a recording is the context's. */
qn_ctx *qn_open(const qn_options *options) {
    qn_ctx *qn = inner_open(options);
    if (qn) record_opened(qn, options);
    return qn;
}
