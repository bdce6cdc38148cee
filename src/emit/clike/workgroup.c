/* workgroup.c - a kernel's tree as OpenCL C 1.2, run by work groups.
 *
 * An item of the launch is a group: `item` is its number, `member` that of the member at work. A
 * nest of THREAD loops is no loop but a condition: member's own trip. What stands outside the nests
 * is run by every member alike; only stores to what the group shares are the first one's. Shared
 * tiles are declared at the top of the kernel, others (ir/workgroup.c tells which) where they
 * begin, as small arrays that the device's compiler keeps in registers.
 *
 * An argument is a buffer and the element in it where the slice begins: plans put many values into
 * one allocation, at offsets of 64 bytes, where sub-buffers want more. The dialect's header gives
 * C99's names for types, limits and functions, so that all else is the text that C compilers get.
 *
 * Every member's floats are IEEE's: contraction is off, and what the device rounds otherwise
 * (division and roots without cl_khr's promise, denormals) is for the device's file to ask. */
#include "emit/clike/clike.h"

static const char opencl_header[] =
    "#pragma OPENCL FP_CONTRACT OFF\n"
    "#ifdef cl_khr_fp64\n"
    "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
    "#endif\n"
    "typedef char int8_t;\ntypedef short int16_t;\ntypedef int int32_t;\ntypedef long int64_t;\n"
    "typedef uchar uint8_t;\ntypedef ushort uint16_t;\ntypedef uint uint32_t;\n"
    "typedef ulong uint64_t;\n"
    "#define UINT64_C(x) x##UL\n"
    "#define INT8_MIN CHAR_MIN\n#define INT8_MAX CHAR_MAX\n#define UINT8_MAX UCHAR_MAX\n"
    "#define INT16_MIN SHRT_MIN\n#define INT16_MAX SHRT_MAX\n#define UINT16_MAX USHRT_MAX\n"
    "#define INT32_MIN INT_MIN\n#define INT32_MAX INT_MAX\n#define UINT32_MAX UINT_MAX\n"
    "#define INT64_MIN LONG_MIN\n#define INT64_MAX LONG_MAX\n#define UINT64_MAX ULONG_MAX\n"
    "#define fabsf fabs\n#define sqrtf sqrt\n#define floorf floor\n#define ceilf ceil\n"
    "#define rintf rint\n#define truncf trunc\n#define fmodf fmod\n#define copysignf copysign\n"
    "#define fmaf fma\n\n";

static const clike_dialect opencl = {
    .header = opencl_header,
    .global = "__global ",
    .shared = "__local ",
    .table = "__constant ",
    .unroll = "#pragma unroll\n",
    .barrier = "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);",
    .groups = true,
};

/* ---- nests ---------------------------------------------------------------------------------- */

static bool is_thread(const clike *c, stmt_id s) {
    return s && ir_s(c->k, s)->kind == STMT_LOOP && ir_s(c->k, s)->loop == LOOP_THREAD;
}

/* const int64_t i_ = member / 16, j_ = member % 16;  returns the innermost loop. */
static stmt_id declare_trips(clike *c, stmt_id nest) {
    stmt_id inner = nest;
    clike_line(c);
    str_add(c->out, "const int64_t ");
    for (stmt_id l = nest; is_thread(c, l); l = ir_s(c->k, l)->first) {
        const ir_stmt *t = ir_s(c->k, l);
        long long step = ir_nest_step(c->k, l), most = ir_most_trips(c->k, l);
        str_addf(c->out, "%s%s_ = ", l == nest ? "" : ", ", sym_name(c->syms, t->l.var));
        if (most <= 1)
            str_add(c->out, "0");
        else if (l == nest)
            str_addf(c->out, "member / %lld", step);
        else
            str_addf(c->out, "member / %lld %% %lld", step, most);
        if (c->nest_vars < CLIKE_NEST) c->nest_var[c->nest_vars++] = t->l.var;
        inner = l;
    }
    str_add(c->out, ";\n");
    return inner;
}

/* Members beyond the nest's, and trips that are not made. */
static bool print_limits(clike *c, stmt_id nest) {
    bool any = false;
    if (ir_nest_size(c->k, nest) < c->members) {
        str_addf(c->out, "if (member < %lld", (long long)ir_nest_size(c->k, nest));
        any = true;
    }
    for (stmt_id l = nest; is_thread(c, l); l = ir_s(c->k, l)->first) {
        const ir_stmt *t = ir_s(c->k, l);
        int64_t trips;
        if (sym_is_const(c->syms, t->l.extent, &trips) && trips >= 1) continue;
        str_addf(c->out, "%s%s_ < ", any ? " && " : "if (", sym_name(c->syms, t->l.var));
        clike_sym(c, t->l.extent);
        any = true;
    }
    return any;
}

void clike_nest(clike *c, stmt_id nest) {
    clike_line(c);
    str_add(c->out, "{\n");
    c->indent++;
    stmt_id inner = declare_trips(c, nest);
    clike_line(c);
    str_add(c->out, print_limits(c, nest) ? ") {\n" : "{\n");
    c->indent++;
    clike_block(c, inner);
    clike_close_block(c);
    clike_close_block(c);
    c->nest_vars = 0;
}

bool clike_first_only(const clike *c, const ir_stmt *store) {
    mem_id m = store->store.mem[0];
    if (!c->home || c->nest_vars || c->members == 1) return false;
    return ir_m(c->k, m)->scope == MEM_ARG || c->home[m].place == PLACE_SHARED;
}

/* ---- tiles ---------------------------------------------------------------------------------- */

static void declare_tile(clike *c, mem_id m, const char *where) {
    const ir_memory *mem = ir_m(c->k, m);
    bool reg = mem->scope == MEM_REG;
    int64_t each = c->home[m].each;
    clike_line(c);
    str_addf(c->out, "%s%s t%d[%lld];\n", where,
             reg ? clike_type(mem->dtype) : clike_memory_type(mem->dtype), ir_tile_number(c->k, m),
             (long long)(each < 1 ? 1 : each));
}

void clike_define_home(clike *c, mem_id m) {
    if (c->home[m].place != PLACE_SHARED) declare_tile(c, m, "");
}

sym clike_place(clike *c, mem_id m, sym index) {
    if (ir_m(c->k, m)->scope == MEM_ARG || c->home[m].place != PLACE_DISTRIBUTED) return index;
    return sym_subst(c->syms, index, c->nest_vars, c->nest_var, c->zero);
}

/* ---- the kernel ----------------------------------------------------------------------------- */

static void declare_arguments(clike *c) {
    const char *comma = "";
    for (int a = 0; a < c->k->args; a++)
        for (mem_id m = 1; m < c->k->mems; m++) {
            const ir_memory *mem = ir_m(c->k, m);
            if (mem->scope != MEM_ARG || mem->arg != a) continue;
            str_addf(c->out, "%s\n    %s%s%s *restrict b%d, const int64_t o%d", comma,
                     c->dialect->global, mem->access & ACCESS_WRITE ? "" : "const ",
                     clike_memory_type(mem->dtype), a, a);
            comma = ",";
        }
    for (int i = 0; i < c->k->dim_vars; i++) {
        str_addf(c->out, "%s\n    const int64_t %s_", comma, sym_name(c->syms, c->k->dim_var[i]));
        comma = ",";
    }
    for (uint32_t i = 0; i < c->k->params; i++)
        str_addf(c->out, "%s\n    const int64_t v%u", i || comma[0] ? "," : "", i);
}

static void declare_locals(clike *c) {
    for (mem_id m = 1; m < c->k->mems; m++) {
        const ir_memory *mem = ir_m(c->k, m);
        if (mem->scope == MEM_ARG)
            str_addf(c->out, "    %s%s%s *restrict const a%d = b%d + o%d;\n", c->dialect->global,
                     mem->access & ACCESS_WRITE ? "" : "const ", clike_memory_type(mem->dtype),
                     mem->arg, mem->arg, mem->arg);
        else if (c->home[m].place == PLACE_SHARED)
            declare_tile(c, m, c->dialect->shared);
    }
}

/* One root's items are those from `offset` to `past`. There are as many groups as items, so what
 * holds for all that are left is not asked: barriers that stand under no condition are easier for
 * compilers. Under one PoCL 3.1 takes the first member's way apart from the others', and then gave
 * members another one's values. */
static void write_items(clike *c, stmt_id root, sym offset, sym past) {
    const bool first = offset == SYM_ZERO, last = !ir_s(c->k, root)->next;
    clike_line(c);
    if (!first || !last) str_add(c->out, "if (");
    if (!first) {
        str_add(c->out, "item >= ");
        clike_sym(c, offset);
    }
    if (!last) {
        str_add(c->out, first ? "item < " : " && item < ");
        clike_sym(c, past);
    }
    str_add(c->out, first && last ? "{\n" : ") {\n");
    c->indent++;
    if (emit_is_par(c->k, root)) {
        clike_line(c);
        str_addf(c->out, "const int64_t %s_ = item - (",
                 sym_name(c->syms, ir_s(c->k, root)->l.var));
        clike_sym(c, offset);
        str_add(c->out, ");\n");
        clike_block(c, root);
    } else {
        clike_loop(c, root);
    }
    clike_close_block(c);
}

static void write_roots(clike *c) {
    sym offset = SYM_ZERO;
    for (stmt_id i = ir_s(c->k, c->k->root)->first; i; i = ir_s(c->k, i)->next) {
        sym past = sym_add(c->syms, offset, emit_root_items(c->k, &c->launch, i));
        if (c->launch.in_first[i])
            clike_in_first_item(c, i, "item");
        else
            write_items(c, i, offset, past);
        offset = past;
    }
}

/* Of a kernel without THREAD loops a group has one member, whose own is everything. */
static const tile_storage *homes(clike *c) {
    tile_storage *home = ir_tile_storage(c->k);
    if (ir_has_threads(c->k)) return home;
    for (mem_id m = 1; m < c->k->mems; m++)
        home[m] = (tile_storage){PLACE_PRIVATE, sym_hi(c->syms, ir_m(c->k, m)->size)};
    return home;
}

static void write_kernel(clike *c) {
    c->home = homes(c);
    c->members = ir_members(c->k);
    str_addf(c->out,
             "__kernel __attribute__((reqd_work_group_size(%lld, 1, 1))) void " EMIT_GROUP_KERNEL
             "(",
             (long long)c->members);
    declare_arguments(c);
    str_add(c->out, ") {\n    const int64_t item = (int64_t)get_group_id(0);\n"
                    "    const int64_t member = (int64_t)get_local_id(0);\n");
    declare_locals(c);
    clike_declare_params(c);
    c->indent = 1;
    if (c->launch.parallel)
        write_roots(c);
    else
        clike_block(c, c->k->root);
    str_add(c->out, "    (void)item, (void)member;\n}\n");
}

void emit_opencl(kernel *k, str *out) {
    clike_unit(1, &k, &opencl, write_kernel, out);
}

/* Word by word: a variable's name goes on with "_". The first line is the kernel's name. */
bool emit_uses_double(const str *text) {
    static const char word[] = "double";
    for (const char *at = strstr(text->s + strcspn(text->s, "\n"), word); at;
         at = strstr(at + 1, word)) {
        char before = at > text->s ? at[-1] : ' ', after = at[sizeof word - 1];
        bool part =
            after == '_' || (after >= '0' && after <= '9') || (after >= 'a' && after <= 'z');
        part |=
            before == '_' || (before >= '0' && before <= '9') || (before >= 'a' && before <= 'z');
        if (!part) return true;
    }
    return false;
}
