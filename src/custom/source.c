/* source.c - a kernel given as C: compiled into a library of its own and loaded.
 *
 * The text is the user's program and no data: what it does it does in this process. It gets the
 * struct that it is called with declared before it, and its lines are counted from its own first
 * one under the kernel's name, so that the compiler's errors say where. */
#include "custom/custom.h"
#include "dev/cpu/cpu.h"

#include <dlfcn.h>

static const char prelude[] = "#include <stdint.h>\n"
                              "typedef struct qn_custom_array {\n"
                              "    void *data;\n"
                              "    int dtype, rank;\n"
                              "    const int64_t *shape;\n"
                              "} qn_custom_array;\n";
_Static_assert(sizeof(qn_dtype) == sizeof(int), "the text's struct is the header's");
_Static_assert(offsetof(qn_custom_array, rank) == sizeof(void *) + sizeof(int), "likewise");

static bool take_function(qn_ctx *qn, qn_custom_options *o, void *library) {
    void *at = dlsym(library, o->name);
    if (!at) {
        fail(qn, QN_EARG, "custom_new: the text defines no function \"%s\"", o->name);
        return false;
    }
    memcpy(&o->function, &at, sizeof at); /* POSIX's way from an object's pointer to a function's */
    return true;
}

static void close_library(void *of) {
    dlclose(of);
}

bool custom_compile(qn_ctx *qn, qn_custom_options *o, custom_code *code) {
    char file[CPU_PATH];
    str text, why;
    emit_isa isa;
    if (!cpu_cc_find(qn, file)) {
        fail(qn, QN_EDEVICE, "custom_new: %s is C, and there is no compiler \"%s\" (QN_CC)",
             o->name, qn->knob[KNOB_CC].text);
        return false;
    }
    str_open(&text, &qn->heap);
    str_open(&why, &qn->heap);
    cleanup c, d;
    cleanup_push(&qn->heap, &c, str_cleanup, &text);
    cleanup_push(&qn->heap, &d, str_cleanup, &why);
    str_addf(&text, "%s#line 1 \"%s\"\n%s\n", prelude, o->name, o->c_source);
    cpu_cc_job job = {.text = &text, .library = true};
    bool known = emit_isa_of(qn->knob[KNOB_ISA].text, &isa, &why);
    if (!known)
        fail(qn, QN_EARG, "custom_new: %s", why.s);
    else
        cpu_cc_compile(qn, &isa, 1, &job, 1);
    if (job.code) fail(qn, job.code, "custom_new: %s: %s", o->name, job.why);
    cleanup_run(&qn->heap, &d);
    cleanup_run(&qn->heap, &c);
    *code = (custom_code){job.loaded, close_library};
    if (!job.loaded) return false;
    if (take_function(qn, o, job.loaded)) return true;
    dlclose(job.loaded);
    code->of = NULL;
    return false;
}
