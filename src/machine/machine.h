/* machine.h - what is known of the processor or device that kernels run on: one record, read by the
 * planner, the schedulers and the cost model.
 *
 * A quantity stands here once, named, with its reason in fields.h or families.h. It comes from the
 * row of the processor's family, from what the system says, or from a file (knob machine), by which
 * the schedules of any machine can be made and tested on any other. The same record gives the same
 * schedules. A number in a scheduler that is no field is a property of the algorithm or of the code
 * that is emitted, and its comment says so. */
#ifndef QN_MACHINE_H
#define QN_MACHINE_H

#include "base/base.h"

typedef enum machine_kind { MACHINE_FACT, MACHINE_RATE } machine_kind; /* see fields.h */

typedef struct machine {
    const char *name;   /* of the family, or "generic" */
    const char *source; /* where the rates are from, beside the family: "measured", "given"; NULL */
#define X(name, ...) int64_t name;
#include "machine/fields.h"
#undef X
    /* of the device at hand */
    int threads;
    int members;         /* most of a work group; 0: items have no groups (the above counts) */
    int64_t group_bytes; /* of memory that a group shares */
    int dots;            /* ir_dot bits: instructions worth using */
    bool no_fma;         /* no multiply-add in one instruction: a product in a sum is rounded */
} machine;

/* Fields that are 0 and may not be take the usual value. */
void machine_complete(machine *m);
/* A careful machine of which nothing is known. */
machine machine_generic(void);
/* This processor's family, else the generic one: rates and habits, not caches or registers. */
machine machine_here(void);
/* The same of one that its vendor's text, its family and model, and whether it has matrix tiles
 * describe. */
typedef struct processor_id {
    char vendor[13];
    int family;
    long model;
    bool tiles;
} processor_id;
machine machine_of_processor(const processor_id *p);
/* The fields as text, a line each; it is read back by machine_read. */
void machine_print(const machine *m, str *out);
/* Field number i: what it is, and its place in a record; false past the last. */
typedef struct machine_field {
    const char *name, *doc;
    size_t at;
    int64_t least, most, usual;
    machine_kind kind;
} machine_field;
bool machine_field_at(int i, machine_field *out);
const machine_field *machine_field_named(const char *name, size_t n); /* NULL: there is none */
int64_t *machine_value(machine *m, const machine_field *f);
/* Give the field of that name a value; false: it may not have it, and stays. */
bool machine_set(machine *m, const char *name, int64_t value);
/* One number for all fields: wisdom is of a record. */
uint64_t machine_hash(const machine *m);
/* What knob machine says takes the place of fields: a family's name, or a file of lines as
 * machine_print writes them, some or all. Raises QN_EARG with the line. */
void machine_choose(qn_ctx *qn, machine *m);
/* Name and description of family i; false past the last. Its record. */
bool machine_family(int i, const char **name, const char **doc);
machine machine_of_family(int i);

/* ---- measured.c ------------------------------------------------------------------------------ */

/* Take the rates, and nothing else, of lines as machine_print writes them; were there any? */
bool machine_take_rates(const char *text, machine *m);
/* The rates that were measured for this processor, which its description says; none: the record
 * stays. Raises where memory ends. */
void machine_recall(qn_ctx *qn, const char *processor, size_t size, machine *m);
/* Keep them. QN_EIO where there is no place. */
qn_code machine_keep(qn_ctx *qn, const char *processor, size_t size, const str *text);

/* ---- thresholds that follow from fields ------------------------------------------------------ */

enum {
#define X(name, kind, least, most, usual, doc) MACHINE_USUAL_##name = usual,
#include "machine/fields.h"
#undef X
};
/* Bytes of the first and of the second cache of a core; of an unknown one the usual. */
static inline int64_t machine_l1(const machine *m) {
    return m->l1 ? m->l1 : MACHINE_USUAL_l1;
}
static inline int64_t machine_l2(const machine *m) {
    return m->l2 ? m->l2 : MACHINE_USUAL_l2;
}
/* Rows so far apart lie in different pages: half of one. */
static inline int64_t machine_far(const machine *m) {
    return m->page / 2;
}
/* Rows so far apart, or a multiple, share few sets of the first cache: a quarter of the distance at
 * which lines collide. */
static inline int64_t machine_clash(const machine *m) {
    int64_t apart = machine_l1(m) / m->l1_ways / 4;
    return apart > m->line ? apart : m->line;
}
/* Rows so far apart share no lines, nor the pairs of lines that are fetched together. */
static inline int64_t machine_apart(const machine *m) {
    return 4 * m->line;
}
/* Bytes of the first cache for an operand that is to stay there; of an unknown one none. */
static inline int64_t machine_first(const machine *m) {
    return m->l1 * m->l1_usable / 100;
}
/* The same of the second cache; of an unknown one those of the usual. */
static inline int64_t machine_second(const machine *m) {
    return machine_l2(m) * m->l2_usable / 100;
}
/* Bytes of the second cache for what is to stay while other data pass. */
static inline int64_t machine_shared(const machine *m) {
    return m->l2 * m->l2_shared / 100;
}
/* Bytes of a table that is looked up while other data pass: half of the first cache. The grouping
 * of sums follows from it, so no rate may. */
/* Rows for which an operand of a product that is made of others is made once, in registers, beside
 * an accumulator for each row. */
static inline int64_t machine_made_rows(const machine *m) {
    int64_t most = m->registers > 5 ? m->registers - 4 : 1;
    return most < m->dot_rows ? most : m->dot_rows;
}

static inline int64_t machine_table(const machine *m) {
    return machine_l1(m) / 2;
}
/* Percent: time in order over that of pages side by side; `alone`: of one stream that is only
 * read. Several streams are at several pages even in order. */
static inline int64_t machine_page_gain(const machine *m, bool alone) {
    return alone ? m->page_parallel_read_gain : m->page_parallel_gain;
}
/* Pages of one stream that are at work at once, as the machine likes it. */
enum { MACHINE_PAGES = 4 /* side by side: of the algorithm, as many as a sum has parts */ };
static inline int machine_pages(const machine *m, bool alone) {
    return machine_page_gain(m, alone) > 100 ? MACHINE_PAGES : 1;
}
/* Rows of a sum, pages apart, are better read side by side than one after the other. */
static inline bool machine_rows_beside(const machine *m) {
    return m->row_parallel_gain > 100;
}
/* A tensor of so many bytes streams from memory. */
static inline int64_t machine_streaming(const machine *m) {
    return m->memory_from * m->l2; /* 0 where no cache is known: then everything does */
}
/* What is so large would only evict what is needed sooner: half of the last cache, or of the part
 * of it that a program has. */
static inline int64_t machine_evicting(const machine *m) {
    int64_t half = m->l3 ? m->l3 / 2 : 16 << 20;
    return half < m->l3_part ? half : m->l3_part;
}
/* Scalar operations of f32 in that many nanoseconds, roughly. */
static inline int64_t machine_work(const machine *m, int64_t ns) {
    return ns * m->ops_ns * m->vector_bytes / 4;
}

#endif
