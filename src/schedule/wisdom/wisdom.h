/* wisdom.h - the results of tuning: a record for each kernel, its text form, and its file. tune.c
 * makes records, program.c looks them up. */
#ifndef QN_WISDOM_H
#define QN_WISDOM_H

#include "base/base.h"
#include "quern_tune.h"

/* Which kernel a record is about, on which machine, and against which default it was measured. */
typedef struct wisdom_key {
    uint64_t kernel[2]; /* hashes of the lowered kernel's text */
    uint64_t place;     /* of the device's description, and of the library's version */
    uint64_t standard;  /* of the default schedule that it was compared with */
    int64_t threads;    /* 0: any number */
} wisdom_key;

typedef struct wisdom_record {
    wisdom_key key;
    uint64_t family; /* of the kernel's text without its numbers: similar shapes */
    int64_t round;   /* how often it was tuned: the latest round wins */
    int64_t tried;   /* candidates measured, in all rounds */
    double spent;    /* seconds of tuning, in all rounds */
    double ratio;    /* measured time / that of the default schedule */
    bool regrouped;  /* sums are in another order than the default schedule's */
    bool regroup;    /* such schedules were tried, too */
    bool done;       /* nothing is left to try */
    uint32_t seens;  /* hashes of measured candidates' trees, as far as a search is to be resumed */
    const uint32_t *seen;
    const char *name, *place, *schedule; /* for people; for people; lines, "" for the default's */
} wisdom_record;

typedef void wisdom_describe(qn_ctx *qn, str *out); /* describes a device; raises */

typedef struct wisdom {
    arena text; /* of the records' strings */
    uint32_t count, cap;
    wisdom_record *at;
    idset set;      /* of keys */
    uint64_t place; /* this device, this library */
    char place_name[128];
    bool read; /* the file was looked at */
    uint64_t knobs;
    const char *device;
    wisdom_describe *describe;
} wisdom;

enum { WISDOM_SEEN = 4096 }; /* most of them */

/* ---- text.c: all raise ----------------------------------------------------------------------- */

void wisdom_print(const wisdom *w, str *out);
bool wisdom_is(const void *text, size_t size); /* does it claim to be of this version? */
/* Every record of the text is added to `w`; or none is, and the error says in which line. */
bool wisdom_parse(qn_ctx *qn, const char *from, const char *text, size_t size, wisdom *w);

/* ---- wisdom.c -------------------------------------------------------------------------------- */

void wisdom_open(wisdom *w, heap *h);
void wisdom_free(wisdom *w);
/* Keep the record unless there is a better one of the same key; the strings are copied. Raises. */
void wisdom_add(qn_ctx *qn, wisdom *w, const wisdom_record *r);
/* All of them, or, where it raises, none. */
void wisdom_add_all(qn_ctx *qn, wisdom *w, uint32_t n, const wisdom_record *r);
const wisdom_record *wisdom_at(const wisdom *w, const wisdom_key *key); /* NULL: none */

/* Give the context wisdom of its own, about kernels on that device; without there is none.
 * Raises. */
void wisdom_attach(qn_ctx *qn, const char *device, wisdom_describe *describe);
/* The context's own, with what the file of knob wisdom holds; NULL where there is to be none.
 * Raises. */
wisdom *wisdom_of(qn_ctx *qn);
/* The record for this kernel under this default schedule, run on so many threads. Raises. */
const wisdom_record *wisdom_find(qn_ctx *qn, const char *text, size_t size, const char *standard,
                                 int threads);
wisdom_key wisdom_key_of(const wisdom *w, const char *text, size_t size, const char *standard,
                         int64_t threads);
uint64_t wisdom_family(const char *text, size_t size);
/* Merge the context's records into the file, and the other way round. QN_EIO, with the error
 * recorded only where the user named the file. Raises. */
qn_code wisdom_save(qn_ctx *qn);
void wisdom_close(qn_ctx *qn);

#endif
