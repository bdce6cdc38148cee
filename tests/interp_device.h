/* interp_device.h - a device for tests that runs kernel trees by ir_interp.h: the whole way but
 * the emitter, with every access checked against its memory and parallel trips run in another
 * order. A program is the kernel's text parsed again, so text must say all there is to a kernel. It
 * needs no compiler, so it is the way to run very many small graphs. */
#ifndef QN_INTERP_DEVICE_H
#define QN_INTERP_DEVICE_H

#include "ir_interp.h"
#include "run/run.h"
#include "schedule/schedule.h"

typedef struct interp_program {
    dev_program base;
    kernel *k;
} interp_program;

static inline dev_program *interp_compile(void *state, kernel *k) {
    heap *h = &(*(qn_ctx **)state)->heap;
    str text;
    str_open(&text, h);
    ir_print(k, &text);
    kernel *copy = ir_parse(h->ctx, text.s);
    str_free(&text);
    interp_program *p = copy ? heap_try(h, sizeof *p) : NULL;
    if (!p) {
        ir_close(copy);
        raise_error(h->ctx, copy ? QN_ENOMEM : QN_EINTERNAL, "interp: cannot keep %s", k->name);
    }
    *p = (interp_program){.k = copy};
    p->base = (dev_program){.name = copy->name, .args = copy->args, .vars = ir_vars(copy)};
    return &p->base;
}

static inline void interp_unload(void *state, dev_program *program) {
    heap *h = &(*(qn_ctx **)state)->heap;
    ir_close(((interp_program *)program)->k);
    heap_free(h, program, sizeof(interp_program));
}

static inline qn_code interp_launch(void *state, dev_program *program, int sets,
                                    const dev_set *set) {
    qn_ctx *qn = *(qn_ctx **)state;
    for (int s = 0; s < sets; s++) {
        void *arg[256];
        char error[200];
        if (program->args > 256) return fail(qn, QN_EDEVICE, "interp: %d arguments", program->args);
        for (int i = 0; i < program->args; i++)
            arg[i] = (char *)set[s].arg[i].memory + set[s].arg[i].offset;
        if (!interp_run(((interp_program *)program)->k, true, set[s].var, arg, error))
            return fail(qn, QN_EDEVICE, "interp: kernel %s: %s", program->name, error);
    }
    return QN_OK;
}

/* Any order must do, so the last comes first. */
static inline qn_code interp_launch_many(void *state, int n, const dev_launch *all) {
    qn_code code = QN_OK;
    for (int i = n - 1; i >= 0 && !code; i--)
        code = interp_launch(state, all[i].program, (int)all[i].sets, all[i].set);
    return code;
}

static inline void interp_limits(void *state, machine *out) {
    (void)state;
    *out = machine_generic();
    out->page_parallel_read_gain = 150;
    out->page_parallel_gain = 150;
    out->vector_bytes = 32;
    out->registers = 16;
    out->threads = 2;
    out->l1 = 32 << 10, out->l2 = 1 << 20, out->l3 = 8 << 20;
    machine_complete(out);
}

static const dev_table interp_device = {
    .name = "interp",
    .description = "kernel trees run by an interpreter, for tests",
    .host_memory = true,
    .executes = true,
    .limits = interp_limits,
    .compile = interp_compile,
    .unload = interp_unload,
    .launch = interp_launch,
    .launch_many = interp_launch_many,
    .alloc = dev_host_alloc,
    .free = dev_host_free,
    .copy_in = dev_host_copy_in,
    .copy_out = dev_host_copy_out,
};

/* A context on it: one of `ref`, whose state is its context, too, with another table. With members
 * above 0 kernels are scheduled for work groups of so many. */
static inline qn_ctx *interp_open(const qn_options *options, int members) {
    static dev_table table;
    qn_options o = *options;
    o.device = "ref";
    qn_ctx *qn = qn_open(&o);
    if (!qn) return NULL;
    table = interp_device;
    table.close = dev_ref.close;
    qn->run->dev = &table;
    interp_limits(NULL, &qn->run->limits);
    qn->run->limits.members = members;
    qn->run->limits.group_bytes = 1 << 15;
    return qn;
}

#endif
