/* folder.h - the paths of a test program's own folder. */
#ifndef QN_TEST_FOLDER_H
#define QN_TEST_FOLDER_H

#include <stdio.h>

static char folder[64];

/* Of that name in it; good for three more calls. */
static inline const char *in_folder(const char *name) {
    static char path[4][160];
    static int turn;
    char *p = path[turn++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

#endif
