/* report.c - the table, the JSON lines, and the families' geometric means, worst first. The first
 * JSON line says what ran where: of it tools/bench_table.py writes docs/performance.md. */
#include "machine/machine.h"
#include "versus.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void show_time(double t) {
    if (t <= 0)
        printf(" %11s", "-");
    else if (t < 1e-3)
        printf(" %8.2f us", t * 1e6);
    else
        printf(" %8.2f ms", t * 1e3);
}

static void show_ratio(double r) {
    if (r > 0)
        printf(" %7.2f", r);
    else
        printf(" %7s", "-");
}

void vs_report_head(void) {
    printf(
        "ratio: the best peer's time / Quern's, limit: the machine's / Quern's; above 1 Quern is "
        "ahead\n%-15s %-19s T %11s %11s %-12s %7s %7s %6s  %s\n",
        "family", "case", "quern", "best peer", "", "ratio", "limit", "quiet", "");
}

void vs_report(const vs_result *r) {
    printf("%-15s %-19s %d", r->c->family, r->c->name, r->threads);
    show_time(r->quern);
    show_time(r->best);
    printf(" %-12s", r->peer ? r->peer : "");
    show_ratio(r->ratio);
    show_ratio(r->limit_ratio);
    printf(" %3d/%-2d  %s\n", r->quiet, r->samples, r->note);
    fflush(stdout);
}

static void put_text(FILE *f, const char *s) {
    for (; *s; s++)
        if (*s == '"' || *s == '\\')
            fprintf(f, "\\%c", *s);
        else if ((unsigned char)*s >= 32)
            fputc(*s, f);
}

/* What the system calls the processor; "" where it does not say. */
static void processor_name(char *out, size_t size) {
    char line[256], *name;
    FILE *f = fopen("/proc/cpuinfo", "r");
    *out = 0;
    while (f && !*out && fgets(line, sizeof line, f))
        if (!strncmp(line, "model name", 10) && (name = strstr(line, ": ")))
            snprintf(out, size, "%s", name + 2);
    if (f) fclose(f);
}

/* A run of all families on the machine itself may stand for its kind; a part of one may not, nor
 * one under the record of another machine. */
static void put_run(FILE *f, const vs_options *o) {
    const char *family = machine_here().name, *name, *doc, *about = "", *played;
    char processor[256], day[16];
    time_t now = time(NULL);
    struct tm local;
    for (int i = 0; machine_family(i, &name, &doc); i++)
        if (!strcmp(name, family)) about = doc;
    processor_name(processor, sizeof processor);
    strftime(day, sizeof day, "%F", localtime_r(&now, &local));
    played = getenv("QN_MACHINE");
    bool whole = !o->family && !o->name && !(played && *played);
    fprintf(f, "{\"machine\":\"%s\",\"about\":\"%s\",\"processor\":\"", family, about);
    put_text(f, processor);
    fprintf(f, "\",\"cores\":%ld,\"date\":\"%s\",\"whole\":%s,\"quick\":%s,\"rounds\":%d}\n",
            sysconf(_SC_NPROCESSORS_ONLN), day, whole ? "true" : "false",
            o->quick ? "true" : "false", o->rounds);
}

int vs_report_write(const char *path, const vs_options *o, int n, const vs_result *r) {
    FILE *f = fopen(path, "w");
    if (!f) {
        perror(path);
        return 1;
    }
    put_run(f, o);
    for (int i = 0; i < n; i++, r++) {
        fprintf(f,
                "{\"case\":\"%s/%s\",\"threads\":%d,\"quern\":%.6g,\"peer\":\"%s\","
                "\"best_peer\":%.6g,\"ratio\":%.4g,\"limit_ratio\":%.4g,\"limit\":%.6g,"
                "\"bound\":\"%s\",\"fma\":%.4g,\"bandwidth\":%.4g,\"error\":%.2g,\"samples\":%d,"
                "\"quiet\":%d,\"peers\":{%s},\"note\":\"",
                r->c->family, r->c->name, r->threads, r->quern, r->peer ? r->peer : "", r->best,
                r->ratio, r->limit_ratio, r->limit, r->compute ? "arithmetic" : "memory", r->fma,
                r->copy, isfinite(r->error) ? r->error : 9.9, r->samples, r->quiet, r->peers);
        put_text(f, r->note);
        fprintf(f, "\"}\n");
    }
    return fclose(f) != 0;
}

typedef struct family {
    const char *name, *worst;
    int threads, n, missing, limits;
    double ratio, limit, least;
} family;

static int by_ratio(const void *a, const void *b) {
    const family *x = a, *y = b;
    return (x->ratio > y->ratio) - (x->ratio < y->ratio);
}

static void add_result(family *f, const vs_result *r) {
    f->missing += r->quern <= 0;
    if (r->ratio > 0) {
        f->ratio += log(r->ratio);
        if (!f->n++ || r->ratio < f->least) {
            f->least = r->ratio;
            f->worst = r->c->name;
        }
    }
    if (r->limit_ratio > 0) {
        f->limit += log(r->limit_ratio);
        f->limits++;
    }
}

static int by_case(const void *a, const void *b) {
    const vs_result *x = *(const vs_result *const *)a, *y = *(const vs_result *const *)b;
    return (x->ratio > y->ratio) - (x->ratio < y->ratio);
}

static void show_worst(int n, const vs_result *r) {
    enum { ALL = 1024, SHOWN = 12 };
    const vs_result *at[ALL];
    int count = 0;
    for (int i = 0; i < n && count < ALL; i++)
        if (r[i].ratio > 0) at[count++] = &r[i];
    qsort(at, (size_t)count, sizeof *at, by_case);
    if (count) printf("\nworst cases\n");
    for (int i = 0; i < count && i < SHOWN; i++) vs_report(at[i]);
}

void vs_summary(int n, const vs_result *r) {
    family f[64];
    int count = 0;
    for (int i = 0; i < n; i++) {
        int k = 0;
        while (k < count && (strcmp(f[k].name, r[i].c->family) || f[k].threads != r[i].threads))
            k++;
        if (k == 64) break;
        if (k == count) f[count++] = (family){.name = r[i].c->family, .threads = r[i].threads};
        add_result(&f[k], &r[i]);
    }
    for (int k = 0; k < count; k++) {
        f[k].ratio = f[k].n ? exp(f[k].ratio / f[k].n) : 0;
        f[k].limit = f[k].limits ? exp(f[k].limit / f[k].limits) : 0;
    }
    qsort(f, (size_t)count, sizeof *f, by_ratio);
    printf("\ngeometric means, worst first\n%-15s T %5s %7s %7s  %s\n", "family", "cases", "ratio",
           "limit", "worst case");
    for (int k = 0; k < count; k++) {
        printf("%-15s %d %5d", f[k].name, f[k].threads, f[k].n);
        show_ratio(f[k].ratio);
        show_ratio(f[k].limit);
        if (f[k].worst) printf("  %s (%.2f)", f[k].worst, f[k].least);
        if (f[k].missing) printf("  %d not there", f[k].missing);
        printf("\n");
    }
    show_worst(n, r);
}
