/* keyed.h - the public functions that draw numbers, which are those that take a key: what lists
 * them by hand is to have all. */
#ifndef KEYED_H
#define KEYED_H

#include "quern.h"

#include <string.h>

static const struct {
    const char *name, *params;
} recorded[] = {
#define X(KIND, name, params, ORACLE, lo, hi, doc) {#name, #params},
#include "func/funcs.h"
#undef X
};

/* One that takes a key and is not listed; NULL: there is none. */
static inline const char *keyed_unlisted(bool (*is_listed)(const char *name)) {
    for (size_t i = 0; i < sizeof recorded / sizeof *recorded; i++)
        if (strstr(recorded[i].params, "qn_tensor *key") && !is_listed(recorded[i].name))
            return recorded[i].name;
    return NULL;
}

#endif
