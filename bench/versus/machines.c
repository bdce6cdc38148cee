/* machines.c - the schedules of every machine that is known, on this one: each family's record is
 * given to a player of its own (QN_MACHINE), which loads every case, and what it computes is held
 * against the definition; where there is none, against the schedules made for this machine. So a
 * default for another machine is proposed, legal and right, if slow here. Nothing is timed. */
#include "versus.h"

#include "quern_tune.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CASES = 256 };

static double expected[CASES][VS_SAMPLES];

/* The values that a case should have: by definition, else this machine's own. */
static void expect(vs_client *here, int i) {
    const vs_case *c = &vs_cases[i];
    int64_t at[VS_SAMPLES];
    double value[VS_SAMPLES];
    int n = vs_sample_points(c, at);
    bool known = !vs_load(here, c) && vs_check(here, n, at, value);
    for (int k = 0; k < n; k++) {
        expected[i][k] = vs_expected(c, at[k]);
        if (isnan(expected[i][k]) && known) expected[i][k] = value[k];
    }
}

static bool wanted(const vs_options *o, const vs_case *c) {
    if (c->kind > VS_GPT) return false;
    return (!o->family || strstr(o->family, c->family)) && (!o->name || strstr(c->name, o->name));
}

/* How many cases went wrong under the client's machine. */
static int check_machine(const vs_options *o, vs_client *client, const char *name) {
    int cases = 0, bad = 0;
    double worst = 0;
    for (int i = 0; i < vs_case_count && i < CASES; i++) {
        const vs_case *c = &vs_cases[i];
        int64_t at[VS_SAMPLES];
        double value[VS_SAMPLES];
        if (!wanted(o, c)) continue;
        int n = vs_sample_points(c, at);
        const char *why = vs_load(client, c);
        if (!why && !vs_check(client, n, at, value)) why = "does not answer";
        double error = why ? INFINITY : vs_error(value, expected[i], n);
        cases++;
        if (error <= vs_tolerance(c, true)) {
            worst = fmax(worst, error / vs_tolerance(c, true));
            continue;
        }
        bad++;
        printf("%s: %s %s: %s, error %.1e\n", name, c->family, c->name, why ? why : "wrong values",
               error);
    }
    printf("%-16s %d cases, %d wrong, greatest error %.2f of what is allowed\n", name, cases, bad,
           worst);
    fflush(stdout);
    return bad;
}

int vs_machines(const vs_options *o) {
    const char *name;
    int bad = 0, threads = o->threads ? o->threads : 2;
    vs_client *here = vs_start("quern", threads);
    for (int i = 0; here && i < vs_case_count && i < CASES; i++)
        if (wanted(o, &vs_cases[i])) expect(here, i);
    vs_stop(here);
    for (int f = 0; here && qn_machine_family_at(f, &name, NULL); f++) {
        setenv("QN_MACHINE", name, 1);
        vs_client *client = vs_start("quern", threads);
        unsetenv("QN_MACHINE");
        bad += client ? check_machine(o, client, name) : 1;
        vs_stop(client);
    }
    return !here || bad;
}
