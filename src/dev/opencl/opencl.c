/* opencl.c - a device with work groups, through OpenCL 1.2: GPUs, and processors through PoCL.
 *
 * Nothing of OpenCL is linked: its library is loaded when a context asks for the device, and stays
 * loaded, for runtimes have threads of their own that would not survive it. No library, no platform
 * or no device of use is a missing device.
 *
 * An item of a launch is a work group, its THREAD loops the group's members
 * (emit/clike/workgroup.c). What a kernel may need of the device, members, shared memory, doubles,
 * is asked when it is compiled; the model has kept to the limits, so a refusal there is of kernels
 * that a person scheduled, and of doubles.
 *
 * Memory is the runtime's buffers; arguments are a buffer and an offset, see
 * emit/clike/workgroup.c. There is one queue, which runs in order: launches return at once, copies
 * wait. An error that the runtime finds late shows in the next copy. */
#include "dev/dev.h"

#include "dev/opencl/api.h"
#include "emit/emit.h"
#include "trace/trace.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    MOST_DEVICES = 16, /* platforms, and devices of each, that are looked at */
    MEMBERS = 256,     /* of a group: enough to hide waiting, few enough to have registers */
    QUEUE_LENGTH = 512 /* launches after which the queue is waited for, so that it stays short */
};

typedef struct opencl {
    qn_ctx *ctx;
    opencl_api cl;
    cl_device device;
    uint32_t at[2];  /* its platform's number, and its own, as knob opencl counts */
    char about[384]; /* both, the names, and how large it is */
    cl_context context;
    cl_queue queue;
    size_t members; /* of a group, at most */
    uint64_t local; /* bytes that it shares */
    uint32_t units;
    bool doubles, rounds; /* has them; divides and takes roots as IEEE says */
    bool fma;             /* multiplies and adds in one rounding */
    uint32_t queued;      /* launches since the queue was empty */
    pid_t owner;          /* the process that opened it */
} opencl;

typedef struct opencl_program {
    dev_program program;
    emit_facts *facts;
    cl_program built;
    cl_kernel kernel;
    size_t members, *element; /* bytes of an element of each argument */
    size_t size;              /* of this block, all the above included */
} opencl_program;

/* ---- errors --------------------------------------------------------------------------------- */

static const struct {
    int32_t code;
    const char *name;
} results[] = {
    {CL_NO_OBJECT_MEMORY, "no memory for an object"},
    {CL_OUT_OF_RESOURCES, "out of resources"},
    {CL_OUT_OF_HOST_MEMORY, "out of host memory"},
    {CL_BUILD_FAILURE, "the program does not compile"},
    {CL_INVALID_BUFFER_SIZE, "no such buffer size"},
};

static const char *result_name(int32_t code) {
    for (size_t i = 0; i < COUNT_OF(results); i++)
        if (results[i].code == code) return results[i].name;
    return "OpenCL error";
}

static qn_code failed(opencl *o, const char *what, const char *name, int32_t code) {
    bool memory = code == CL_NO_OBJECT_MEMORY || code == CL_OUT_OF_HOST_MEMORY;
    return fail(o->ctx, memory ? QN_ENOMEM : QN_EDEVICE, "opencl: %s%s: %s (%d)", what, name,
                result_name(code), (int)code);
}

/* ---- opening -------------------------------------------------------------------------------- */

static bool load_library(opencl *o, str *why) {
    const char *name = o->ctx->knob[KNOB_OPENCL_LIBRARY].text;
    void *library = library_open(name, RTLD_NOW | RTLD_LOCAL, why), *f;
    if (!library) return false;
    const char *missing = NULL;
#define X(function, returns, parameters)                                                           \
    f = dlsym(library, "cl" #function);                                                            \
    memcpy(&o->cl.function, &f, sizeof f);                                                         \
    if (!f) missing = #function;
    OPENCL_API(X)
#undef X
    if (!missing) return true;
    str_addf(why, "\"%s\" has no cl%s", name, missing);
    dlclose(library);
    return false;
}

static uint64_t device_number(const opencl *o, cl_device d, uint32_t what) {
    uint64_t wide = 0;
    size_t size = 0;
    if (o->cl.GetDeviceInfo(d, what, sizeof wide, &wide, &size)) return 0;
    return size == 4 ? (uint32_t)wide : wide; /* numbers are of 4 or 8 bytes, little end first */
}

static bool usable(const opencl *o, cl_device d) {
    return device_number(o, d, CL_AVAILABLE) && device_number(o, d, CL_COMPILER_AVAILABLE) &&
           device_number(o, d, CL_LITTLE_ENDIAN);
}

/* A GPU before an accelerator before a processor. */
static int rank_of(const opencl *o, cl_device d) {
    uint64_t type = device_number(o, d, CL_DEVICE_TYPE);
    return type & CL_GPU ? 3 : type & CL_ACCELERATOR ? 2 : 1;
}

/* The device that knob opencl says, "platform:device" by number; without it the best. */
static cl_device choose(opencl *o, str *why) {
    cl_platform platform[MOST_DEVICES];
    cl_device device[MOST_DEVICES], best = NULL;
    uint32_t platforms = 0, devices = 0;
    const char *wanted = o->ctx->knob[KNOB_OPENCL].text;
    char *end;
    long p = strtol(wanted, &end, 10), d = *end == ':' ? strtol(end + 1, NULL, 10) : 0;
    if (o->cl.GetPlatformIDs(MOST_DEVICES, platform, &platforms)) platforms = 0;
    for (uint32_t i = 0; i < platforms && i < MOST_DEVICES; i++) {
        if (o->cl.GetDeviceIDs(platform[i], CL_ALL, MOST_DEVICES, device, &devices)) devices = 0;
        for (uint32_t j = 0; j < devices && j < MOST_DEVICES; j++) {
            bool asked = !*wanted || ((long)i == p && (long)j == d);
            if (!asked || !usable(o, device[j])) continue;
            if (best && rank_of(o, device[j]) <= rank_of(o, best)) continue;
            best = device[j];
            o->at[0] = i;
            o->at[1] = j;
        }
    }
    if (!best && !platforms) str_add(why, "no OpenCL platform");
    if (!best && platforms)
        str_addf(why, "no usable device%s%s among %u OpenCL platforms", *wanted ? " " : "", wanted,
                 platforms);
    return best;
}

static void read_limits(opencl *o) {
    cl_device d = o->device;
    cl_platform platform = NULL;
    char name[128] = "", of[128] = "";
    o->members = (size_t)device_number(o, d, CL_GROUP_MEMBERS);
    o->local = device_number(o, d, CL_LOCAL_BYTES);
    o->units = (uint32_t)device_number(o, d, CL_COMPUTE_UNITS);
    o->doubles = device_number(o, d, CL_DOUBLE_CONFIG) != 0;
    o->rounds = device_number(o, d, CL_FLOAT_CONFIG) & CL_ROUNDED_DIVISION;
    o->fma = device_number(o, d, CL_FLOAT_CONFIG) & CL_FUSED_MULTIPLY_ADD;
    o->cl.GetDeviceInfo(d, CL_DEVICE_NAME, sizeof name - 1, name, NULL);
    o->cl.GetDeviceInfo(d, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL);
    o->cl.GetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof of - 1, of, NULL);
    snprintf(o->about, sizeof o->about,
             "%u:%u, %s of %s: %u units, groups of %zu sharing %llu bytes%s", o->at[0], o->at[1],
             name, of, o->units, o->members, (unsigned long long)o->local,
             o->doubles ? "" : ", no doubles");
    if (debug_on(o->ctx, 'e')) log_line(o->ctx, "e opencl: %s", o->about);
}

/* In a forked child the runtime's threads are missing, and waiting for them would not end. */
static bool is_ours(const opencl *o) {
    return o->owner == getpid();
}

static void opencl_close(void *state) {
    opencl *o = state;
    if (o->queue && is_ours(o)) {
        o->cl.Finish(o->queue);
        o->cl.ReleaseCommandQueue(o->queue);
    }
    if (o->context && is_ours(o)) o->cl.ReleaseContext(o->context);
    heap_free(&o->ctx->heap, o, sizeof *o);
}

static bool open_queue(opencl *o, str *why) {
    int32_t error = 0;
    if (!load_library(o, why)) return false;
    o->device = choose(o, why);
    if (!o->device) return false;
    read_limits(o);
    o->context = o->cl.CreateContext(NULL, 1, &o->device, NULL, NULL, &error);
    if (o->context) o->queue = o->cl.CreateCommandQueue(o->context, o->device, 0, &error);
    if (o->queue) return true;
    str_addf(why, "no context: %s (%d)", result_name(error), (int)error);
    return false;
}

/* The loader of OpenCL's drivers sets itself up at its first call, without a lock of its own, so
 * contexts that are opened side by side take turns. It is the process's, and so is this. */
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

static void end_turn(void *of) {
    (void)of;
    pthread_mutex_unlock(&opening);
}

static void *opencl_open(qn_ctx *qn, str *why) {
    opencl *o = heap_zeroed(&qn->heap, sizeof *o);
    o->ctx = qn;
    o->owner = getpid();
    cleanup device, turn;
    cleanup_push(&qn->heap, &device, opencl_close, o);
    pthread_mutex_lock(&opening);
    cleanup_push(&qn->heap, &turn, end_turn, NULL);
    bool able = open_queue(o, why);
    cleanup_run(&qn->heap, &turn);
    cleanup_drop(&qn->heap, &device);
    if (able) return o;
    opencl_close(o);
    return NULL;
}

static void opencl_limits(void *state, machine *out) {
    const opencl *o = state;
    *out = machine_generic();
    out->registers = 32;
    out->threads = (int)o->units;
    out->members = 1;
    while (out->members < MEMBERS && 2 * (size_t)out->members <= o->members) out->members *= 2;
    out->group_bytes = (int64_t)o->local;
    out->no_fma = !o->fma;
}

/* ---- programs ------------------------------------------------------------------------------- */

static opencl_program *new_program(opencl *o, const kernel *k) {
    size_t args = (size_t)k->args, name = strlen(k->name) + 1;
    size_t size = sizeof(opencl_program) + args * sizeof(size_t) + name;
    opencl_program *p = heap_zeroed(&o->ctx->heap, size);
    p->size = size;
    p->element = (size_t *)(p + 1);
    char *text = memcpy(p->element + args, k->name, name);
    p->program = (dev_program){.name = text, .args = k->args, .vars = ir_vars(k)};
    for (mem_id m = 1; m < k->mems; m++)
        if (ir_m(k, m)->scope == MEM_ARG)
            p->element[ir_m(k, m)->arg] = qn_dtype_size((qn_dtype)ir_m(k, m)->dtype);
    return p;
}

static void opencl_unload(void *state, dev_program *program) {
    opencl *o = state;
    opencl_program *p = (opencl_program *)program;
    if (p->kernel && is_ours(o)) o->cl.ReleaseKernel(p->kernel);
    if (p->built && is_ours(o)) o->cl.ReleaseProgram(p->built);
    emit_facts_close(p->facts);
    heap_free(&o->ctx->heap, p, p->size);
}

/* Raises what the device cannot do. */
static void check_needs(const opencl *o, kernel *k, const str *text) {
    const char *name = k->name;
    int64_t members = ir_members(k), bytes = ir_shared_bytes(k);
    if (emit_uses_double(text) && !o->doubles)
        raise_error(o->ctx, QN_EDEVICE, "kernel %s: this OpenCL device has no doubles (f64)", name);
    if (members > (int64_t)o->members)
        raise_error(o->ctx, QN_EDEVICE, "kernel %s: groups of %lld members, the device has %zu",
                    name, (long long)members, o->members);
    if (bytes > (int64_t)o->local)
        raise_error(o->ctx, QN_EDEVICE, "kernel %s: a group shares %lld bytes, the device has %llu",
                    name, (long long)bytes, (unsigned long long)o->local);
}

/* The compiler's words go to the log whole and into the error as far as it has room. */
static void refuse_build(opencl *o, opencl_program *p, int32_t code) {
    size_t size = 0;
    o->cl.GetProgramBuildInfo(p->built, o->device, CL_BUILD_LOG, 0, NULL, &size);
    char *log = heap_try(&o->ctx->heap, size + 1);
    if (log) {
        memset(log, 0, size + 1);
        o->cl.GetProgramBuildInfo(p->built, o->device, CL_BUILD_LOG, size, log, NULL);
        if (debug_on(o->ctx, 'c')) log_line(o->ctx, "c %s", log);
        fail(o->ctx, QN_EDEVICE, "kernel %s: %s: %s", p->program.name, result_name(code), log);
        heap_free(&o->ctx->heap, log, size + 1);
    }
    raise_error(o->ctx, QN_EDEVICE, "kernel %s: %s (%d)", p->program.name, result_name(code),
                (int)code);
}

static void build(opencl *o, opencl_program *p, const str *text) {
    const char *source = text->s;
    size_t length = text->len, most = 0;
    int32_t code = 0;
    p->built = o->cl.CreateProgramWithSource(o->context, 1, &source, &length, &code);
    if (!p->built) raise_error(o->ctx, failed(o, "program ", p->program.name, code), "no program");
    code = o->cl.BuildProgram(p->built, 1, &o->device,
                              o->rounds ? "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt"
                                        : "-cl-std=CL1.2",
                              NULL, NULL);
    if (code) refuse_build(o, p, code);
    p->kernel = o->cl.CreateKernel(p->built, EMIT_GROUP_KERNEL, &code);
    if (!p->kernel) raise_error(o->ctx, failed(o, "kernel ", p->program.name, code), "no kernel");
    o->cl.GetKernelWorkGroupInfo(p->kernel, o->device, CL_KERNEL_MEMBERS, sizeof most, &most, NULL);
    if (most && most < p->members)
        raise_error(o->ctx, QN_EDEVICE, "kernel %s: the device runs it by %zu members, not %zu",
                    p->program.name, most, p->members);
}

static void make_program(opencl *o, kernel *k, opencl_program *p, str *text) {
    double start = clock_seconds();
    p->facts = emit_facts_open(k);
    emit_opencl(k, text);
    if (debug_on(o->ctx, 'c')) log_line(o->ctx, "c %s", text->s);
    check_needs(o, k, text);
    p->members = (size_t)ir_members(k);
    build(o, p, text);
    p->program.seconds = clock_seconds() - start;
}

static dev_program *opencl_compile(void *state, kernel *k) {
    opencl *o = state;
    uint64_t before = o->ctx->heap.bytes;
    opencl_program *p = new_program(o, k);
    str text;
    str_open(&text, &o->ctx->heap);
    dev_made made = {opencl_unload, o, &p->program};
    cleanup program, source;
    cleanup_push(&o->ctx->heap, &program, dev_made_cleanup, &made);
    cleanup_push(&o->ctx->heap, &source, str_cleanup, &text);
    make_program(o, k, p, &text);
    p->program.size = text.len; /* what the driver keeps is not known; it began as this */
    cleanup_run(&o->ctx->heap, &source);
    cleanup_drop(&o->ctx->heap, &program);
    p->program.size += (size_t)(o->ctx->heap.bytes - before);
    return &p->program;
}

/* ---- launching ------------------------------------------------------------------------------ */

static qn_code set_arguments(opencl *o, opencl_program *p, const dev_set *set) {
    uint32_t n = 0;
    int32_t code = 0;
    for (int i = 0; i < p->program.args && !code; i++) {
        cl_memory memory = set->arg[i].memory;
        int64_t offset = (int64_t)(set->arg[i].offset / p->element[i]);
        code = o->cl.SetKernelArg(p->kernel, n++, sizeof memory, &memory);
        if (!code) code = o->cl.SetKernelArg(p->kernel, n++, sizeof offset, &offset);
    }
    for (int i = 0; i < p->program.vars && !code; i++)
        code = o->cl.SetKernelArg(p->kernel, n++, sizeof set->var[i], &set->var[i]);
    return code ? failed(o, "an argument of kernel ", p->program.name, code) : QN_OK;
}

static qn_code run_set(opencl *o, opencl_program *p, const dev_set *set) {
    qn_code code = dev_check_set(o->ctx, &p->program, p->facts, set);
    if (!code) code = set_arguments(o, p, set);
    int64_t items = p->facts->number[EMIT_ITEMS];
    if (code || items < 1) return code;
    size_t all = (size_t)items * p->members, group = p->members;
    int32_t result =
        o->cl.EnqueueNDRangeKernel(o->queue, p->kernel, 1, NULL, &all, &group, 0, NULL, NULL);
    return result ? failed(o, "kernel ", p->program.name, result) : QN_OK;
}

static qn_code opencl_launch(void *state, dev_program *program, int sets, const dev_set *set) {
    opencl *o = state;
    opencl_program *p = (opencl_program *)program;
    qn_code code = QN_OK;
    for (int i = 0; i < sets && !code; i++) code = run_set(o, p, &set[i]);
    if (code) return code;
    o->queued += (uint32_t)sets;
    bool timed = trace_on(o->ctx) || debug_on(o->ctx, 'x');
    bool wait = o->queued >= QUEUE_LENGTH || timed;
    int32_t result = wait ? o->cl.Finish(o->queue) : o->cl.Flush(o->queue);
    if (wait) o->queued = 0;
    return result ? failed(o, "kernel ", program->name, result) : QN_OK;
}

/* ---- memory --------------------------------------------------------------------------------- */

static void *opencl_alloc(void *state, size_t size) {
    opencl *o = state;
    int32_t error;
    return o->cl.CreateBuffer(o->context, CL_READ_WRITE, size ? size : 1, NULL, &error);
}

static void opencl_free(void *state, void *memory, size_t size) {
    opencl *o = state;
    (void)size;
    if (memory && is_ours(o)) o->cl.ReleaseMemObject(memory);
}

static qn_code opencl_copy_in(void *state, void *memory, size_t offset, const void *from,
                              size_t size) {
    opencl *o = state;
    if (!size) return QN_OK;
    int32_t code = o->cl.EnqueueWriteBuffer(o->queue, memory, 1, offset, size, from, 0, NULL, NULL);
    o->queued = 0;
    return code ? failed(o, "copying in", "", code) : QN_OK;
}

static qn_code opencl_copy_out(void *state, const void *memory, size_t offset, void *to,
                               size_t size) {
    opencl *o = state;
    if (!size) return QN_OK;
    cl_memory from = (cl_memory)(uintptr_t)memory;
    int32_t code = o->cl.EnqueueReadBuffer(o->queue, from, 1, offset, size, to, 0, NULL, NULL);
    o->queued = 0;
    return code ? failed(o, "copying out", "", code) : QN_OK;
}

static uint32_t opencl_lacks(void *state) {
    return ((opencl *)state)->doubles ? 0 : 1u << QN_F64;
}

static void opencl_tell(void *state, str *out) {
    str_addf(out, "%s\n", ((opencl *)state)->about);
}

const dev_table dev_opencl = {
    .name = "opencl",
    .description = "a GPU, or what else OpenCL finds here",
    .executes = true,
    .open = opencl_open,
    .close = opencl_close,
    .limits = opencl_limits,
    .lacks = opencl_lacks,
    .tell = opencl_tell,
    .compile = opencl_compile,
    .unload = opencl_unload,
    .launch = opencl_launch,
    .alloc = opencl_alloc,
    .free = opencl_free,
    .copy_in = opencl_copy_in,
    .copy_out = opencl_copy_out,
};
