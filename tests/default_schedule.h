/* default_schedule.h - what tests of default schedules ask: does a step stand in it? */
#ifndef QN_TEST_DEFAULT_SCHEDULE_H
#define QN_TEST_DEFAULT_SCHEDULE_H

#include "ir_cases.h"
#include "records.h"
#include "schedule/schedule.h"

/* The steps for the kernel of that text hold the one, and not the other. */
static inline void check_default_of(const machine *limits, const char *text, const char *has,
                                    const char *has_not) {
    kernel *k = parse(text);
    str s;
    str_open(&s, &ctx.heap);
    str_add(&s, "");
    schedule_default(k, limits, &s);
    if (!strstr(s.s, has) || strstr(s.s, has_not))
        FAIL("%s and not %s: the schedule of %s is\n%s", has, has_not, k->name, s.s);
    str_free(&s);
    ir_close(k);
}

#endif
