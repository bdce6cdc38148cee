/* record.h - the calls of a program written to a file, by which `quern replay` makes them again:
 * docs/record.md has the form. The tables follow from the headers; here is what their letters say.
 *
 *   as an argument                             as a result
 *   C  a context                               C
 *   T  a tensor, O another object              T, O
 *   I  int or an enum, Z int64_t, U uint64_t   I, Z, U
 *   S  size_t, H qn_scope, B bool, F double    S, H, B, F
 *   W  text                                    W
 *                                              E  a code
 *   D  data that is read, so many bytes
 *   P  a shape, A ints, Y int64_t, E doubles
 *   L  tensors, M texts                        L  tensors
 *   K  a struct that says its size, of structs.h
 *   V  structs that do not, a list
 *   R  tensors that are given back
 *   Q  memory that a value is read into, J int32_t, G one int64_t
 *   N  what is given back and not recorded
 *
 * A recording is a context's, of all calls that are given it or what is of it, in their order; the
 * recorder hangs off the context, and a bit of every handle says that there is one (base/handle.c).
 * So a call costs a look at its arguments while there is none. */
#ifndef QN_RECORD_H
#define QN_RECORD_H

#include "quern_archive.h"
#include "quern_nn.h"
#include "quern_tune.h"

enum { CALL_ARGS = 8, RECORD_FORMAT = 1, RECORD_LIST = 1 << 16 };

/* What says how long a list is, where it is no argument's number. */
enum {
    LENGTH_RANK = -1,       /* the first argument's axes */
    LENGTH_PADS = -2,       /* twice as many */
    LENGTH_SPACE = -3,      /* two less */
    LENGTH_INPUTS = -4,     /* those of the plan */
    LENGTH_OUTPUTS = -5,    /* likewise */
    LENGTH_PARAMETERS = -6, /* those of the optimizer */
    LENGTH_SHAPE = -7,      /* the bytes of a tensor of this dtype and shape */
    LENGTH_BATCH = -8,      /* rows by context */
    LENGTH_NONE = -16       /* and below: so many */
};
#define LENGTH_IS(n) (LENGTH_NONE - (n))

typedef union call_value {
    void *p;
    int64_t i;
    double f;
} call_value;

typedef struct call_arg {
    char letter;
    int8_t about; /* of a list: its length */
    uint8_t of;   /* of structs: which */
} call_arg;
typedef struct call_row {
    uint16_t name;           /* where it begins among the names */
    char result;             /* a letter; 0: none */
    call_arg arg[CALL_ARGS]; /* up to a letter of 0 */
} call_row;
typedef enum call_id {
#define X(type, RESULT, name, ...) CALL_##name,
#define VOID(name, ...)            CALL_##name,
#define HAND                       X
#include "record/calls.h"
#undef X
#undef VOID
#undef HAND
    CALLS
} call_id;
extern const call_row call_rows[CALLS];
const char *call_name(call_id id); /* without qn_ */

typedef enum struct_id {
#define S(name, type) STRUCT_##name,
#define X(...)
#include "record/structs.h"
#undef S
#undef X
    STRUCTS
} struct_id;
typedef enum field_kind {
    FIELD_INT,
    FIELD_I64,
    FIELD_F64,
    FIELD_BOOL,
    FIELD_TEXT,
    FIELD_TENSOR,
    FIELD_CONV
} field_kind;
typedef struct struct_field {
    char name[18];
    uint8_t of, kind, count;
    uint16_t at; /* offset */
} struct_field;
extern const struct_field struct_fields[];
extern const uint16_t struct_sizes[STRUCTS];
extern const int struct_field_count;
bool struct_is_sized(int which);          /* does it begin with its size? */
size_t field_size(const struct_field *f); /* of one of its elements */

/* The functions that do what the public ones promise. */
#define X(type, RESULT, name, params, ...) type inner_##name params;
#define VOID(name, params, ...)            void inner_##name params;
#define HAND                               X
#include "record/calls.h"
#undef X
#undef VOID
#undef HAND

/* ---- length.c -------------------------------------------------------------------------------- */

/* Inputs and outputs of a plan; parameters of an optimizer, as inputs. Below 0: unknown. */
typedef struct call_counts {
    int in, out;
} call_counts;
/* How many elements the list that is argument k has; of data bytes. NO: the call fails before it
 * reads one. LONG: more than any that is of use, and than are written down. */
enum { CALL_NO_LIST = -1, CALL_LONG_LIST = -2 };
int64_t call_length(const call_row *row, const call_value *v, int k, call_counts of);

/* ---- write.c --------------------------------------------------------------------------------- */

typedef void (*call_function)(void);
enum { COMPLEX_FACTORS = 4 }; /* at most, of a product */
/* A call that has complex arguments, while it is made (parts.c). */
typedef struct complex_call {
    uint8_t way; /* 0: it is not such a call */
    bool failed, again;
    bool alone;                   /* what is added to a product is all that is complex */
    int turn, turns;              /* made; of all */
    int values, factors, results; /* tensors that are given, complex ones of a product, made ones */
    qn_scope scope;
    qn_ctx *ctx;
    call_value given[CALL_ARGS]; /* by the program */
    qn_tensor **value;           /* their real parts, then their imaginary ones */
    qn_tensor **list, **made;    /* room for lists; results' parts, likewise */
    size_t room;
} complex_call;

typedef struct record_call {
    call_id id;
    call_function inner;
    int turn;
    struct recorder *recorder; /* NULL: is not recorded */
    uint64_t number;
    qn_ctx *ctx; /* whose errors it may make; NULL: closed by it */
    call_value v[CALL_ARGS];
    complex_call complex;
} record_call;
/* What entry.c must know of base.h, whose names arguments would hide: the bit of a handle, and that
 * a context begins with its recorder, NULL for none. */
enum { RECORD_MARK = 1 };
struct recorded {
    struct recorder *recorder;
};
/* A context was opened: its knob record says whether and where its calls are recorded. */
void record_opened(qn_ctx *qn, const qn_options *options);
/* Before a call, whose arguments are in c->v, and after it; in between it is made in turns, by
 * c->inner with the arguments in c->v, `given` what the last turn gave, at the end the result. */
void record_begin(record_call *c, call_id id, call_function inner);
bool record_turn(record_call *c, call_value *given);
void record_end(record_call *c, call_value result);

/* ---- parts.c --------------------------------------------------------------------------------- */

void complex_begin(record_call *c);
bool complex_turn(record_call *c, call_value *given); /* of a call that is complex */

#endif
