/* struct.c - structs that the caller's program and the library may know in different lengths.
 *
 * A public struct of options begins with its own size, which the macro of its name fills in, and
 * only ever grows at its end. So a program that was compiled against an earlier library hands in a
 * shorter one: what it lacks keeps its default, 0. One compiled against a later library hands in a
 * longer one: it is fine while what we do not know is 0, that is not asked for. A size of 0 is a
 * struct that was begun without the macro, and most of its fields may never have been written.
 *
 * What the library fills in for the caller is the same the other way: the caller says how much room
 * there is. */
#include "base/base.h"

#include <stdio.h>

enum { STRUCT_MOST = 4096 }; /* bytes of any struct of options, ever: beyond it a size is garbage */

bool struct_read(const char *type, void *mine, size_t size, const void *given,
                 char why[STRUCT_WHY]) {
    size_t theirs, known;
    if (!given) return true;
    memcpy(&theirs, given, sizeof theirs);
    if (theirs < sizeof theirs || theirs > STRUCT_MOST || theirs % sizeof theirs) {
        snprintf(why, STRUCT_WHY, "%s.size is %zu, not that of the struct: begin it by its macro",
                 type, theirs);
        return false;
    }
    known = theirs < size ? theirs : size;
    for (size_t i = known; i < theirs; i++)
        if (((const unsigned char *)given)[i]) {
            snprintf(why, STRUCT_WHY, "%s of %zu bytes asks for what this version, of %zu, lacks",
                     type, theirs, size);
            return false;
        }
    memcpy(mine, given, known);
    memcpy(mine, &size, sizeof size);
    return true;
}

bool struct_take(qn_ctx *qn, const char *call, const char *type, void *mine, size_t size,
                 const void *given) {
    char why[STRUCT_WHY];
    if (struct_read(type, mine, size, given, why)) return true;
    fail(qn, QN_EARG, "%s: %s", call, why);
    return false;
}

void struct_give(void *out, size_t room, const void *mine, size_t size) {
    if (!out) return;
    memcpy(out, mine, room < size ? room : size);
    if (room > size) memset((unsigned char *)out + size, 0, room - size);
}
