/* script.h - a schedule as a list of steps, apart from a kernel: to be changed, kept and applied
 * again. */
#ifndef QN_SCHEDULE_SCRIPT_H
#define QN_SCHEDULE_SCRIPT_H

#include "schedule/schedule.h"

/* A kernel that steps are applied to, and what each of them made. */
typedef struct script_run {
    kernel *k;
    step_ref *loop, *mem; /* by their ids */
    uint32_t loops, loop_cap, mems, mem_cap;
} script_run;
void script_open(script_run *r, kernel *k); /* of a kernel as it was lowered */
script_run script_run_copy(const script_run *r);
/* Apply a step; false: refused, or a loop of it is not there. `made`: what it has made; it may be
 * NULL. */
bool script_step_run(script_run *r, const script_step *s, transform_made *made, str *why);
stmt_id script_loop(const script_run *r, step_ref ref); /* 0: it is not there */
step_ref script_ref(const script_run *r, stmt_id loop);

/* A step of that row, its loops and memories taken from the statements of `a`. */
script_step script_step_of(const script_run *r, script *s, transform_kind kind,
                           const transform_args *a);
void script_add(script *s, arena *a, const script_step *step);
/* Read lines, with loops by handles or by names, apply them, and add those that were legal.
 * `names`, unless it is NULL, gets the lines with loops by names. The number of those refused; the
 * reason of the first one goes to `why`. */
int script_read(script_run *r, const char *lines, script *s, str *names, str *why);
/* Write lines with loops by names, for a kernel that stays as it is; false: one is refused. */
bool script_names(const kernel *k, const char *lines, str *out, str *why);
/* Lines, with loops by handles or by names, applied as transform_lines does; the number of steps,
 * -1: refused, and k is as it was. */
int script_apply(kernel *k, const char *lines, str *why);
/* The steps applied to the kernel that they were made for. `prove`: where the result cannot be
 * proved sound it is refused; else only where it breaks a rule. false: refused, and k is as it
 * was. */
bool script_take(kernel *k, const script *s, bool prove, str *why);
/* Lines with loops by handles. `k`: the kernel, scheduled or not. */
void script_print(const script *s, const kernel *k, str *out);

#endif
