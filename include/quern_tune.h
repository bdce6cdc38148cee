/* quern_tune.h - how fast kernels are on this machine: tuning, the wisdom that it finds, and the
 * record of the machine that schedules are made for. */
#ifndef QUERN_TUNE_H
#define QUERN_TUNE_H

#include <quern.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- tuning ----------------------------------------------------------------------------- */

/* Tuning looks for schedules of kernels that are faster on this machine than the default ones. A
 * candidate only wins when its results are those of the default schedule, on random inputs and such
 * with NaNs, infinities, zeros of both signs and denormal numbers, and when it was measured to be
 * faster beyond what repetition varies. So tuning changes no bit of a result, unless it is asked to
 * regroup: then a schedule may group a sum in another way, which changes its last bits as another
 * machine would, and its wisdom says so; never does the number of threads decide that. What is
 * found counts from then on, here, for graphs that ran before, too, and, by knob wisdom, in later
 * processes; it goes on where it ended. Knob tune does the same in any program: a number of seconds
 * for the kernels it compiles, before they run; or, with "online", as they run, at a cost of at
 * most a tenth of the time that they take. */
typedef struct qn_tune_state {
    size_t size;             /* what the library knows of it */
    const char *name;        /* of the kernel, with its shape */
    int kernel, kernels;     /* its number, from 0; how many there are */
    double seconds, budget;  /* spent on this kernel now, and to be spent */
    uint64_t tried, refused; /* candidates measured; whose results were wrong */
    double ratio;            /* the best one's time / the default schedule's */
} qn_tune_state;
typedef struct qn_tune_options {
    size_t size; /* QN_TUNE_OPTIONS() */
    /* For all kernels together; each has its share by the time it takes. No candidate is begun that
     * would not fit into it, by what compiling those before took; so of each kernel only compiling
     * and measuring the default schedule, and one candidate that takes longer than others, may come
     * on top. A kernel one run of which is estimated to take longer than all of it is left as it
     * is. */
    double seconds;
    bool same_bits; /* keep every sum grouped as it is by default: as without regroup */
    bool again;     /* also kernels that have had their share, or of which nothing is left to try */
    bool (*going)(void *user, const qn_tune_state *state); /* NULL, or called now and then; false:
                                                              come to an end, and keep what is */
    void *user;
    bool regroup; /* sums may be grouped in another way than by default */
} qn_tune_options;
#define QN_TUNE_OPTIONS(...) QN_STRUCT(qn_tune_options, __VA_ARGS__)
/* Tune the kernels that computing these tensors would launch; nothing is computed. */
QN_API qn_code qn_tune(qn_ctx *qn, int n, qn_tensor *const *tensors,
                       const qn_tune_options *options);
/* Tune the kernels that running this static graph launches, those that lay out its weights among
 * them. Runs from then on use what was found. */
QN_API qn_code qn_tune_plan(qn_plan *plan, const qn_tune_options *options);
/* Tune kernels given as text, as QN_DEBUG=k prints them when they are lowered: one after the other.
 * QN_EFORMAT names the line; QN_ERANGE where one run of a kernel is estimated to take longer than
 * the seconds given, and names both. */
QN_API qn_code qn_tune_text(qn_ctx *qn, const char *text, const qn_tune_options *options);

/* What tuning found about one kernel. */
typedef struct qn_wisdom {
    const char *kernel, *place,
        *schedule;  /* its name; machine and library; its lines, "": default */
    bool here;      /* is `place` this one? */
    int64_t tried;  /* candidates measured */
    double seconds; /* spent on it */
    double ratio;   /* time / the default schedule's; 1: nothing is faster */
    bool done;      /* nothing is left to try */
} qn_wisdom;
/* Record number `i` of all that are known into out, of `size` bytes; false past the last. The texts
 * are valid until there is more wisdom. */
QN_API bool qn_wisdom_at(qn_ctx *qn, int i, qn_wisdom *out, size_t size);
/* What tuning found, as a text file: of each kernel the schedule that was measured to be the
 * fastest on this machine. Knob wisdom says where it is kept from one process to the next; these
 * carry it elsewhere. Exported is all that this context knows. An import is all or nothing: a file
 * that is cut short or was changed adds no record, and the error names the line. Records of another
 * processor, another version or another kernel do no harm; kernels compiled before keep their
 * schedules. QN_EIO, QN_EFORMAT, QN_ENOMEM. */
QN_API qn_code qn_wisdom_export(qn_ctx *qn, const char *path);
QN_API qn_code qn_wisdom_import(qn_ctx *qn, const char *path);

/* ---- the machine ------------------------------------------------------------------------ */

/* The record of the machine that schedules are made for, as knob machine takes it from a file: a
 * line for each field, with what it means. Valid until the next call of this, of qn_device_facts()
 * or of qn_format(). NULL only with an error. */
QN_API const char *qn_machine(qn_ctx *qn);
/* Measure the rates of the machine here, about two seconds, and keep what is sure enough in the
 * cache's folder: contexts that are opened later take it in place of the family's row, unless knob
 * machine says otherwise. Bits of results do not depend on it. The text says what was found, in the
 * form of qn_machine(); valid as long. NULL with an error: this device is not measured. Where it
 * could not be kept there is a text and an error. */
QN_API const char *qn_machine_measure(qn_ctx *qn);
/* Name and description of family `i` of machines, which knob machine takes; false past the last. */
QN_API bool qn_machine_family_at(int i, const char **name, const char **description);

#ifdef __cplusplus
}
#endif
#endif
