/* table.c - the rows of calls.h and structs.h as data, without a pointer in it. */
#include "record/record.h"

#include "base/base.h"

#define PLAIN(letter)                                                                              \
    { letter, 0, 0 }
#define C(k) PLAIN('C')
#define T(k) PLAIN('T')
#define O(k) PLAIN('O')
#define I(k) PLAIN('I')
#define Z(k) PLAIN('Z')
#define U(k) PLAIN('U')
#define S(k) PLAIN('S')
#define B(k) PLAIN('B')
#define F(k) PLAIN('F')
#define W(k) PLAIN('W')
#define Q(k) PLAIN('Q')
#define G(k) PLAIN('G')
#define N(k) PLAIN('N')
#define H(k) PLAIN('H')
#define D(k, length)                                                                               \
    { 'D', length, 0 }
#define P(k, length)                                                                               \
    { 'P', length, 0 }
#define A(k, length)                                                                               \
    { 'A', length, 0 }
#define E(k, length)                                                                               \
    { 'E', length, 0 }
#define Y(k, length)                                                                               \
    { 'Y', length, 0 }
#define L(k, length)                                                                               \
    { 'L', length, 0 }
#define M(k, length)                                                                               \
    { 'M', length, 0 }
#define R(k, length)                                                                               \
    { 'R', length, 0 }
#define J(k, length)                                                                               \
    { 'J', length, 0 }
#define K(k, name)                                                                                 \
    { 'K', 0, STRUCT_##name }
#define V(k, length, name)                                                                         \
    { 'V', length, STRUCT_##name }
#define LIST(...) __VA_ARGS__

/* The names of all calls as one text. */
typedef struct name_text {
#define X(type, RESULT, name, ...) char name[sizeof #name];
#define VOID(name, ...)            char name[sizeof #name];
#define HAND                       X
#include "record/calls.h"
#undef X
#undef VOID
#undef HAND
} name_text;
static const name_text names = {
#define X(type, RESULT, name, ...) #name,
#define VOID(name, ...)            #name,
#define HAND                       X
#include "record/calls.h"
#undef X
#undef VOID
#undef HAND
};
_Static_assert(sizeof names <= UINT16_MAX, "call_row.name");

const char *call_name(call_id id) {
    return (const char *)&names + call_rows[id].name;
}

#define X(type, RESULT, name, params, args, letters)                                               \
    {offsetof(name_text, name), #RESULT[0], {LIST letters}},
#define VOID(name, params, args, letters) {offsetof(name_text, name), 0, {LIST letters}},
#define HAND                              X
const call_row call_rows[CALLS] = {
#include "record/calls.h"
};
#undef X
#undef VOID
#undef S

const struct_field struct_fields[] = {
#define S(name, type)
#define X(of, field, KIND, count)                                                                  \
    {#field, STRUCT_##of, FIELD_##KIND, count, (uint16_t)offsetof(qn_##of, field)},
#include "record/structs.h"
#undef S
#undef X
};
const int struct_field_count = COUNT_OF(struct_fields);

const uint16_t struct_sizes[STRUCTS] = {
#define S(name, type) sizeof(type),
#define X(...)
#include "record/structs.h"
#undef S
#undef X
};

bool struct_is_sized(int which) {
    for (int i = 0; i < struct_field_count; i++)
        if (struct_fields[i].of == which && !struct_fields[i].at) return false;
    return true;
}

size_t field_size(const struct_field *f) {
    static const uint8_t size[] = {[FIELD_INT] = sizeof(int),     [FIELD_I64] = sizeof(int64_t),
                                   [FIELD_F64] = sizeof(double),  [FIELD_BOOL] = sizeof(bool),
                                   [FIELD_TEXT] = sizeof(char *), [FIELD_TENSOR] = sizeof(void *),
                                   [FIELD_CONV] = sizeof(void *)};
    return size[f->kind];
}
