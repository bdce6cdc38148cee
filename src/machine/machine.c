/* machine.c - the machine record: the table of families, its text form, the processor here. */
#include "machine/machine.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

/* ---- fields ---------------------------------------------------------------------------------- */

static const machine_field fields[] = {
#define X(name, kind, least, most, usual, doc)                                                     \
    {#name, doc, offsetof(machine, name), least, most, usual, MACHINE_##kind},
#include "machine/fields.h"
#undef X
};

static const uint8_t lengths[] = {
#define X(name, ...) sizeof #name - 1,
#include "machine/fields.h"
#undef X
};

bool machine_field_at(int i, machine_field *out) {
    if (i < 0 || i >= (int)COUNT_OF(fields)) return false;
    *out = fields[i];
    return true;
}

int64_t *machine_value(machine *m, const machine_field *f) {
    return (int64_t *)(void *)((char *)m + f->at);
}

const machine_field *machine_field_named(const char *name, size_t n) {
    for (size_t i = 0; i < COUNT_OF(fields); i++)
        if (lengths[i] == n && !memcmp(fields[i].name, name, n)) return &fields[i];
    return NULL;
}

bool machine_set(machine *m, const char *name, int64_t value) {
    const machine_field *f = machine_field_named(name, strlen(name));
    bool may = f && value >= f->least && value <= f->most;
    if (may) *machine_value(m, f) = value;
    return may;
}

void machine_complete(machine *m) {
    for (size_t i = 0; i < COUNT_OF(fields); i++)
        if (!*machine_value(m, &fields[i]) && fields[i].least > 0)
            *machine_value(m, &fields[i]) = fields[i].usual;
}

machine machine_generic(void) {
    machine m = {.name = "generic"};
    for (size_t i = 0; i < COUNT_OF(fields); i++) *machine_value(&m, &fields[i]) = fields[i].usual;
    return m;
}

uint64_t machine_hash(const machine *m) {
    machine copy = *m;
    uint64_t h = COUNT_OF(fields);
    for (size_t i = 0; i < COUNT_OF(fields); i++)
        h = hash_mix(h, (uint64_t)*machine_value(&copy, &fields[i]));
    return h;
}

/* ---- families -------------------------------------------------------------------------------- */

typedef struct family {
    const char *name, *vendor;
    int family;
    const char *models, *doc;
    machine known; /* 0: nothing */
} family;

static const family families[] = {
#define X(name, vendor, family, models, doc, ...)                                                  \
    {name, vendor, family, models, doc, {__VA_ARGS__}},
#include "machine/families.h"
#undef X
};

static void take_known(machine *m, const family *f) {
    machine known = f->known;
    m->name = f->name;
    for (size_t i = 0; i < COUNT_OF(fields); i++)
        if (*machine_value(&known, &fields[i]))
            *machine_value(m, &fields[i]) = *machine_value(&known, &fields[i]);
}

static bool in_models(const char *ranges, const processor_id *p) {
    while (*ranges) {
        char *end;
        if (!strcmp(ranges, "amx")) return p->tiles;
        long from = strtol(ranges, &end, 16), to = strtol(end + 1, &end, 16);
        if (p->model >= from && p->model <= to) return true;
        ranges = end + (*end == ',');
    }
    return false;
}

/* What cpuid tells; false: there is no cpuid. */
static bool processor_here(processor_id *p) {
#if defined(__x86_64__) || defined(__i386__)
    unsigned a, b, c, d;
    if (!__get_cpuid(0, &a, &b, &c, &d)) return false;
    memcpy(p->vendor, &b, 4);
    memcpy(p->vendor + 4, &d, 4);
    memcpy(p->vendor + 8, &c, 4);
    p->vendor[12] = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return false;
    p->family = (int)(a >> 8 & 15);
    p->model = a >> 4 & 15;
    if (p->family == 15) p->family += (int)(a >> 20 & 255);
    if (p->family >= 6) p->model += (long)(a >> 16 & 15) << 4;
    p->tiles = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 24 & 1); /* AMX-TILE */
    return true;
#else
    (void)p;
    return false;
#endif
}

machine machine_of_processor(const processor_id *p) {
    machine m = machine_generic();
    for (size_t i = 0; i < COUNT_OF(families); i++) {
        const family *f = &families[i];
        if (f->family != p->family || strcmp(f->vendor, p->vendor) != 0) continue;
        if (!in_models(f->models, p)) continue;
        take_known(&m, f);
        return m;
    }
    return m;
}

machine machine_here(void) {
    processor_id p;
    return processor_here(&p) ? machine_of_processor(&p) : machine_generic();
}

bool machine_family(int i, const char **name, const char **doc) {
    if (i < 0 || i >= (int)COUNT_OF(families)) return false;
    if (name) *name = families[i].name;
    if (doc) *doc = families[i].doc;
    return true;
}

machine machine_of_family(int i) {
    machine m = machine_generic();
    take_known(&m, &families[i]);
    return m;
}

/* ---- text ------------------------------------------------------------------------------------ */

void machine_print(const machine *m, str *out) {
    machine copy = *m;
    str_addf(out, "# %s%s%s\n", m->name, m->source ? ", " : "", m->source ? m->source : "");
    for (size_t i = 0; i < COUNT_OF(fields); i++)
        str_addf(out, "%s %lld  # %s\n", fields[i].name,
                 (long long)*machine_value(&copy, &fields[i]), fields[i].doc);
}

/* One line: a field and its value, or a comment, or nothing. */
static void read_line(qn_ctx *qn, const char *file, int number, const char *line, machine *m) {
    char *end;
    line += strspn(line, " \t\r");
    if (!*line || *line == '#') return;
    size_t n = strcspn(line, " \t\r#");
    const machine_field *f = machine_field_named(line, n);
    if (!f)
        raise_error(qn, QN_EARG, "machine %s, line %d: there is no field \"%.*s\"", file, number,
                    (int)(n < 60 ? n : 60), line);
    long long v = strtoll(line + n, &end, 10);
    const char *rest = end + strspn(end, " \t\r");
    if (end == line + n || (*rest && *rest != '#') || v < f->least || v > f->most)
        raise_error(qn, QN_EARG, "machine %s, line %d: %s is a number from %lld to %lld", file,
                    number, f->name, (long long)f->least, (long long)f->most);
    *machine_value(m, f) = v;
}

static void read_lines(qn_ctx *qn, const char *file, const char *text, arena *a, machine *m) {
    for (int number = 1; *text; number++) {
        size_t n = strcspn(text, "\n");
        char *line = memcpy(arena_alloc(a, n + 1), text, n);
        line[n] = 0;
        read_line(qn, file, number, line, m);
        text += n + (text[n] == '\n');
    }
    m->source = "given";
}

static void read_text(qn_ctx *qn, const char *file, const char *text, machine *m) {
    arena a;
    arena_open(&a, &qn->heap);
    cleanup c;
    cleanup_push(&qn->heap, &c, arena_cleanup, &a);
    read_lines(qn, file, text, &a, m);
    cleanup_run(&qn->heap, &c);
}

static void read_file(qn_ctx *qn, const char *file, machine *m) {
    char text[1 << 14];
    size_t size = 0;
    FILE *in = fopen(file, "rb");
    if (in) {
        size = fread(text, 1, sizeof text - 1, in);
        bool whole = size < sizeof text - 1 && !ferror(in) && !memchr(text, 0, size);
        fclose(in);
        if (!whole) raise_error(qn, QN_EARG, "machine %s: no machine record", file);
    } else {
        raise_error(qn, QN_EIO, "machine %s: cannot be read", file);
    }
    text[size] = 0;
    read_text(qn, file, text, m);
}

void machine_choose(qn_ctx *qn, machine *m) {
    const char *given = qn->knob[KNOB_MACHINE].text;
    if (!*given) return;
    if (strchr(given, '/')) {
        read_file(qn, given, m);
        return;
    }
    for (size_t i = 0; i < COUNT_OF(families); i++) {
        if (strcmp(families[i].name, given) != 0) continue;
        machine family_ = machine_of_family((int)i);
        for (size_t k = 0; k < COUNT_OF(fields); k++)
            *machine_value(m, &fields[k]) = *machine_value(&family_, &fields[k]);
        m->name = family_.name;
        return;
    }
    raise_error(qn, QN_EARG,
                "machine: there is no family \"%s\", and a file is a path with a slash", given);
}
