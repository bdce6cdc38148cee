/* system.c - what the system says of the processor's caches: their sizes, ways and lines, and how
 * many hardware threads have one in common.
 *
 * Linux describes each cache of the first processor in a folder of small files; sysconf has the
 * first two caches on other systems and in containers that hide these. Of the last cache sysconf
 * has the sum of all such caches, where there are several: so the files have the last word. What
 * nobody says, or what cannot be, stays as the family's row has it. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "dev/cpu/cpu.h"

enum { LEVELS = 3, MOST_CACHES = 16, LINE_SIZE = 256 };

/* The fields of a level; NULL: there is none. */
static const struct level_fields {
    const char *size, *ways, *sharers;
} level_fields[LEVELS] = {{"l1", "l1_ways", "l1_sharers"},
                          {"l2", "l2_ways", "l2_sharers"},
                          {"l3", "l3_ways", "l3_sharers"}};

/* One line of a file about cache number i of the first processor. */
static bool cache_line(int i, const char *what, char line[LINE_SIZE]) {
    char path[96];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", i, what);
    FILE *f = fopen(path, "re");
    bool found = f && fgets(line, LINE_SIZE, f);
    if (f) fclose(f);
    return found;
}

/* A number and its unit; 0: none. */
static int64_t amount(const char *text) {
    char *unit;
    int64_t n = strtoll(text, &unit, 10);
    return n > 0 && n < 1 << 30 ? n << (*unit == 'K' ? 10 : *unit == 'M' ? 20 : 0) : 0;
}

/* How many processors a list names, as "0-3,8-11" does eight; 0: it is none. */
static int64_t listed(const char *text) {
    int64_t n = 0;
    while (*text >= '0' && *text <= '9') {
        char *end;
        long first = strtol(text, &end, 10), last = first;
        if (*end == '-') last = strtol(end + 1, &end, 10);
        if (last < first || last - first > 1 << 20) return 0;
        n += last - first + 1;
        text = end + (*end == ',');
    }
    return n;
}

/* 0 and less: it is not known. */
static void take(machine *m, const char *field, int64_t n) {
    if (n > 0) machine_set(m, field, n);
}

static void ask_files(machine *m) {
    char line[LINE_SIZE];
    for (int i = 0; i < MOST_CACHES && cache_line(i, "level", line); i++) {
        int level = atoi(line);
        bool code = cache_line(i, "type", line) && line[0] == 'I';
        if (level < 1 || level > LEVELS || code) continue;
        const struct level_fields *x = &level_fields[level - 1];
        if (cache_line(i, "size", line)) take(m, x->size, amount(line));
        if (cache_line(i, "ways_of_associativity", line)) take(m, x->ways, amount(line));
        if (cache_line(i, "shared_cpu_list", line)) take(m, x->sharers, listed(line));
        if (level == 1 && cache_line(i, "coherency_line_size", line)) take(m, "line", amount(line));
    }
}

static void ask_number(machine *m, const char *field, int name) {
    take(m, field, sysconf(name));
}

void cpu_ask_system(machine *m) {
    ask_number(m, "page", _SC_PAGESIZE);
#ifdef _SC_LEVEL1_DCACHE_SIZE
    ask_number(m, "l1", _SC_LEVEL1_DCACHE_SIZE);
    ask_number(m, "l1_ways", _SC_LEVEL1_DCACHE_ASSOC);
    ask_number(m, "line", _SC_LEVEL1_DCACHE_LINESIZE);
    ask_number(m, "l2", _SC_LEVEL2_CACHE_SIZE);
    ask_number(m, "l2_ways", _SC_LEVEL2_CACHE_ASSOC);
    ask_number(m, "l3", _SC_LEVEL3_CACHE_SIZE);
#endif
    ask_files(m);
}
