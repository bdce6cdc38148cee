/* clike.c - a kernel's tree as C99, to be compiled by any C compiler or kept as a file, or as
 * another language of C's kind (workgroup.c).
 *
 * The text says what the tree says: loops are loops (unrolled ones, too: compilers judge better how
 * far), arguments are restricted pointers, LOCAL tiles lie in the scratch that the caller gives,
 * REG tiles are local arrays. A VEC loop is a loop over
 * lanes, which a C compiler turns into vectors by itself; where it holds other loops, each
 * statement in it runs its own lanes, so that the lanes stay innermost. What several uses of a
 * statement share is computed once, in a variable x1, x2, ...; the rest nests.
 *
 * Text is written twice over: the kernel's body, and in front of it the small functions that the
 * body turned out to need (ops.c). */
#include "emit/clike/clike.h"

enum { DEEPEST = 6 }; /* nesting of one expression */

void clike_line(clike *c) {
    for (int i = 0; i < c->indent; i++) str_add(c->out, "    ");
}

/* ---- expressions ---------------------------------------------------------------------------- */

static void begin_statement(clike *c) {
    uint32_t n = c->k->exprs;
    if (n > c->cap) {
        c->cap = 2 * n;
        c->uses = arena_alloc(&c->arena, c->cap * sizeof *c->uses);
        c->name = arena_alloc(&c->arena, c->cap * sizeof *c->name);
        c->height = arena_alloc(&c->arena, c->cap);
        c->wanted = arena_alloc(&c->arena, c->cap);
    }
    memset(c->uses, 0, n * sizeof *c->uses);
    memset(c->name, 0, n * sizeof *c->name);
    c->names = 0;
}

static void print_memory(clike *c, mem_id m) {
    const ir_memory *mem = ir_m(c->k, m);
    if (mem->scope == MEM_ARG)
        str_addf(c->out, "a%d", mem->arg);
    else
        str_addf(c->out, "t%d", ir_tile_number(c->k, m));
}

static void print_expr(clike *c, expr_id e);

static void print_place(clike *c, mem_id m, sym index, expr_id dyn) {
    print_memory(c, m);
    str_add(c->out, "[");
    clike_sym(c, c->home ? clike_place(c, m, index) : index);
    if (dyn) {
        str_add(c->out, " + ");
        print_expr(c, dyn);
    }
    str_add(c->out, "]");
}

static void print_condition(clike *c, sym valid, expr_id when) {
    if (valid != SYM_TRUE) clike_truth(c, valid);
    if (valid != SYM_TRUE && when) str_add(c->out, " && ");
    if (when) print_expr(c, when);
}

static void print_load(clike *c, const ir_expr *e) {
    if (!e->load.mem) { /* combine's old value */
        str_addf(c->out, "o%d", (int)e->load.index);
        return;
    }
    bool whole = e->load.valid == SYM_TRUE && !e->load.guard;
    if (!whole) {
        str_add(c->out, "(");
        print_condition(c, e->load.valid, e->load.guard);
        str_add(c->out, " ? ");
    }
    bool reg = ir_m(c->k, e->load.mem)->scope == MEM_REG;
    bool convert = !reg && dtype_is_narrow(e->dtype);
    if (convert) clike_load(c, e->dtype);
    print_place(c, e->load.mem, e->load.index, e->load.dyn);
    if (convert) str_add(c->out, ")");
    if (!whole) str_add(c->out, " : 0)");
}

static void print_op(clike *c, const ir_expr *e) {
    int in = ir_e(c->k, e->arg[e->n - 1])->dtype;
    const char *sign;
    if (clike_infix(e->op, in, &sign)) {
        str_add(c->out, "(");
        print_expr(c, e->arg[0]);
        str_addf(c->out, " %s ", sign);
        print_expr(c, e->arg[1]);
    } else {
        clike_call(c, e->op, e->dtype, in);
        for (int i = 0; i < e->n; i++) {
            if (i) str_add(c->out, ", ");
            print_expr(c, e->arg[i]);
        }
    }
    str_add(c->out, ")");
}

static void print_node(clike *c, expr_id id) {
    ir_expr e = *ir_e(c->k, id);
    if (e.kind == EXPR_CONST) {
        clike_constant(c, e.dtype, e.bits);
    } else if (e.kind == EXPR_PARAM) {
        str_addf(c->out, "p%u", e.param);
    } else if (e.kind == EXPR_INDEX) {
        str_add(c->out, "(");
        clike_sym(c, e.index);
        str_add(c->out, ")");
    } else if (e.kind == EXPR_LOAD) {
        print_load(c, &e);
    } else if (e.kind == EXPR_TABLE) {
        clike_table(c, e.table.number);
        str_add(c->out, "[(int)(");
        print_expr(c, e.table.index);
        str_addf(c->out, " & %d)]", c->k->table[e.table.number].n - 1);
    } else {
        print_op(c, &e);
    }
}

static void print_expr(clike *c, expr_id e) {
    if (c->name[e])
        str_addf(c->out, "x%u", c->name[e]);
    else
        print_node(c, e);
}

/* Lines for what the roots share or would nest too deeply. Arguments have smaller numbers than
 * their users, so counting goes down and printing up. */
static void print_shared(clike *c, int n, const expr_id *root) {
    expr_id top = 0, *slot[3];
    for (int i = 0; i < n; i++)
        if (root[i] > top) top = root[i];
    if (!top) return;
    memset(c->wanted, 0, top + 1);
    for (int i = 0; i < n; i++)
        if (root[i]) c->wanted[root[i]] = 1, c->uses[root[i]]++;
    for (expr_id e = top; e; e--) {
        if (!c->wanted[e] || c->name[e]) continue;
        int args = ir_expr_args(ir_e(c->k, e), slot);
        for (int i = 0; i < args; i++) c->wanted[*slot[i]] = 1, c->uses[*slot[i]]++;
    }
    for (expr_id e = 1; e <= top; e++) {
        if (!c->wanted[e] || c->name[e]) continue;
        int args = ir_expr_args(ir_e(c->k, e), slot), height = 0;
        for (int i = 0; i < args; i++)
            if (!c->name[*slot[i]] && c->height[*slot[i]] >= height)
                height = c->height[*slot[i]] + 1;
        c->height[e] = (uint8_t)height;
        ir_expr x = *ir_e(c->k, e);
        bool plain =
            x.kind == EXPR_CONST || x.kind == EXPR_PARAM || (x.kind == EXPR_LOAD && !x.load.mem);
        if (plain || (c->uses[e] < 2 && height < DEEPEST)) continue;
        clike_line(c);
        str_addf(c->out, "const %s x%u = ", clike_type(x.dtype), c->names + 1);
        print_node(c, e);
        str_add(c->out, ";\n");
        c->name[e] = ++c->names;
    }
}

/* ---- stores --------------------------------------------------------------------------------- */

/* gcc 12 makes wrong code of lanes that it unrolls before it makes vectors of the loop around them:
 * masked loads under the mask of the first of them, sums that lose trips. As a loop, they become
 * vectors themselves, which is what they are for. */
static void open_lanes(clike *c) {
    const char *name = sym_name(c->syms, c->lane_var);
    str_add(c->out, CLIKE_LANES);
    clike_line(c);
    str_addf(c->out, "for (int64_t %s_ = 0; %s_ < ", name, name);
    clike_sym(c, c->lane_extent);
    str_addf(c->out, "; %s_++) {\n", name);
    c->indent++;
}

void clike_close_block(clike *c) {
    c->indent--;
    clike_line(c);
    str_add(c->out, "}\n");
}

/* What a store writes: the values themselves, or the monoid's formula about the old ones. */
static void combined(clike *c, const ir_stmt *t, expr_id *result) {
    expr_id old[IR_STATES] = {0};
    for (int i = 0; i < t->n; i++) result[i] = t->store.value[i];
    if (t->monoid == MONOID_SET) return;
    for (int i = 0; i < t->n; i++) {
        ir_expr e;
        memset(&e, 0, sizeof e);
        e.kind = EXPR_LOAD;
        e.dtype = ir_m(c->k, t->store.mem[i])->dtype;
        e.load.index = (sym)i;
        e.load.valid = SYM_TRUE;
        old[i] = ir_intern(c->k, &e);
    }
    ir_combine(c->k, t->monoid, old, t->store.value, result);
    for (int i = 0; i < t->n; i++) result[i] = math_expand_formula(c->k, result[i]);
}

static void print_old(clike *c, const ir_stmt *t, int i) {
    const ir_memory *mem = ir_m(c->k, t->store.mem[i]);
    clike_line(c);
    str_addf(c->out, "const %s o%d = ", clike_type(mem->dtype), i);
    if (mem->scope == MEM_REG)
        str_add(c->out, "(");
    else
        clike_load(c, mem->dtype);
    print_place(c, t->store.mem[i], t->store.index, t->store.dyn);
    str_add(c->out, ");\n");
}

static void print_update(clike *c, const ir_stmt *t, const expr_id *result) {
    for (int i = 0; i < t->n && t->monoid != MONOID_SET; i++) print_old(c, t, i);
    print_shared(c, t->n, result);
    for (int i = 0; i < t->n; i++) {
        const ir_memory *mem = ir_m(c->k, t->store.mem[i]);
        clike_line(c);
        print_place(c, t->store.mem[i], t->store.index, t->store.dyn);
        str_add(c->out, " = ");
        bool convert = mem->scope != MEM_REG && dtype_is_narrow(mem->dtype);
        if (convert) clike_store(c, mem->dtype);
        print_expr(c, result[i]);
        str_add(c->out, convert ? ");\n" : ";\n");
    }
}

static void write_store(clike *c, const ir_stmt *t) {
    expr_id result[IR_STATES] = {0}, early[2] = {t->store.guard, t->store.dyn};
    combined(c, t, result);
    begin_statement(c);
    if (c->lane_var && c->lanes_inside) {
        open_lanes(c);
    } else {
        clike_line(c);
        str_add(c->out, "{\n");
        c->indent++;
    }
    print_shared(c, 2, early);
    bool always = t->store.valid == SYM_TRUE && !t->store.guard, first = clike_first_only(c, t);
    if (!always || first) {
        clike_line(c);
        str_add(c->out, first ? "if (member == 0" : "if (");
        if (first && !always) str_add(c->out, " && ");
        print_condition(c, t->store.valid, t->store.guard);
        str_add(c->out, ") {\n");
        c->indent++;
    }
    print_update(c, t, result);
    if (!always || first) clike_close_block(c);
    clike_close_block(c);
}

/* ---- tiles ---------------------------------------------------------------------------------- */

static void write_define(clike *c, mem_id m, expr_id value) {
    const ir_memory *mem = ir_m(c->k, m);
    int number = ir_tile_number(c->k, m);
    bool reg = mem->scope == MEM_REG;
    const char *type = reg ? clike_type(mem->dtype) : clike_memory_type(mem->dtype);
    if (c->home) {
        clike_define_home(c, m);
    } else if (reg) {
        clike_line(c);
        str_addf(c->out, "%s t%d[%lld];\n", type, number,
                 (long long)(sym_hi(c->syms, mem->size) > 0 ? sym_hi(c->syms, mem->size) : 1));
    } else {
        clike_line(c);
        str_addf(c->out, "%s *restrict t%d = (%s *)((char *)scratch + %lld);\n", type, number, type,
                 (long long)c->launch.offset[m]);
    }
    if (!value) return;
    begin_statement(c);
    clike_line(c);
    str_add(c->out, "{\n");
    c->indent++;
    print_shared(c, 1, &value);
    clike_line(c);
    str_addf(c->out, "const %s v = ", type);
    if (reg)
        str_add(c->out, "(");
    else
        clike_store(c, mem->dtype);
    print_expr(c, value);
    str_add(c->out, ");\n");
    clike_line(c);
    bool together = c->home && c->home[m].place == PLACE_SHARED;
    str_add(c->out, together ? "for (int64_t e = member; e < " : "for (int64_t e = 0; e < ");
    if (c->home && c->home[m].place == PLACE_DISTRIBUTED)
        str_addf(c->out, "%lld", (long long)c->home[m].each);
    else
        clike_sym(c, mem->size);
    str_addf(c->out, "; e += %lld) t%d[e] = v;\n", (long long)(together ? c->members : 1), number);
    clike_close_block(c);
}

/* ---- loops ---------------------------------------------------------------------------------- */

static bool holds_loop(const clike *c, stmt_id loop) {
    for (stmt_id i = ir_s(c->k, loop)->first; i; i = ir_s(c->k, i)->next)
        if (ir_s(c->k, i)->kind == STMT_LOOP) return true;
    return false;
}

static void write_lanes(clike *c, stmt_id loop) {
    const ir_stmt *t = ir_s(c->k, loop);
    c->lane_var = t->l.var;
    c->lane_extent = t->l.extent;
    c->lanes_inside = holds_loop(c, loop);
    if (!c->lanes_inside) open_lanes(c);
    clike_block(c, loop);
    if (!c->lanes_inside) clike_close_block(c);
    c->lane_var = SYM_ZERO;
}

void clike_loop(clike *c, stmt_id loop) {
    ir_stmt t = *ir_s(c->k, loop);
    if (t.loop == LOOP_VEC && !c->dialect->groups) {
        write_lanes(c, loop);
        return;
    }
    if (t.loop == LOOP_THREAD && c->dialect->groups) {
        clike_nest(c, loop);
        return;
    }
    if (t.loop == LOOP_UNROLL) str_add(c->out, c->dialect->unroll);
    const char *name = sym_name(c->syms, t.l.var);
    clike_line(c);
    str_addf(c->out, "for (int64_t %s_ = 0; %s_ < ", name, name);
    clike_sym(c, t.l.extent);
    str_addf(c->out, "; %s_++) {\n", name);
    c->indent++;
    clike_block(c, loop);
    clike_close_block(c);
}

/* What the first member alone stores behind a loop stands apart from the loop's end. PoCL 3.1 looks
 * at what is between barriers once LLVM has threaded jumps past equal tests, and aborts the process
 * where two ways lead into it. */
static void part_from_loop(clike *c, const ir_stmt *t) {
    if (t->kind != STMT_STORE || !clike_first_only(c, t)) return;
    clike_line(c);
    str_addf(c->out, "%s\n", c->dialect->barrier);
}

void clike_block(clike *c, stmt_id parent) {
    bool behind = false; /* a loop */
    for (stmt_id i = ir_s(c->k, parent)->first; i; i = ir_s(c->k, i)->next) {
        ir_stmt t = *ir_s(c->k, i);
        if (behind) part_from_loop(c, &t);
        behind = t.kind == STMT_LOOP;
        if (behind)
            clike_loop(c, i);
        else if (t.kind == STMT_DEF)
            write_define(c, t.def.mem, t.def.value);
        else if (t.kind == STMT_STORE)
            write_store(c, &t);
        else if (t.kind == STMT_BARRIER && c->dialect->groups)
            clike_line(c), str_addf(c->out, "%s\n", c->dialect->barrier);
    }
}

/* ---- the functions -------------------------------------------------------------------------- */

/* The numbers that a launch gives for parameters, in the types that they are computed in. */
void clike_declare_params(clike *c) {
    for (uint32_t i = 0; i < c->k->params; i++) {
        int dtype = c->k->param[i];
        bool wide = dtype == QN_F64, real = dtype_is_float(dtype);
        str_addf(c->out, "    const %s p%u = ", clike_type(dtype), i);
        if (real) clike_call(c, OP_BITCAST, wide ? QN_F64 : QN_F32, wide ? QN_U64 : QN_U32);
        str_addf(c->out, "(%s)", clike_type(real ? wide ? QN_U64 : QN_U32 : dtype));
        if (c->dialect->groups)
            str_addf(c->out, "v%u", i);
        else
            str_addf(c->out, "vars[%d]", c->k->dim_vars + (int)i);
        str_add(c->out, real ? ");\n" : ";\n");
    }
}

static void declare_variables(clike *c) {
    for (int i = 0; i < c->k->dim_vars; i++)
        str_addf(c->out, "    const int64_t %s_ = vars[%d];\n", sym_name(c->syms, c->k->dim_var[i]),
                 i);
    clike_declare_params(c);
}

/* One root's share of the items [begin, end): its own are [offset, offset + trips). */
static void write_root(clike *c, stmt_id root, sym offset, sym trips) {
    ir_stmt t = *ir_s(c->k, root);
    str_add(c->out, "    {\n        const int64_t first = ");
    clike_sym(c, offset);
    str_add(c->out, ", past = ");
    clike_sym(c, sym_add(c->syms, offset, trips));
    str_add(c->out, ";\n");
    c->indent = 2;
    clike_line(c);
    if (t.loop == LOOP_PAR) {
        const char *name = sym_name(c->syms, t.l.var);
        str_addf(c->out,
                 "for (int64_t %s_ = most(begin, first) - first; "
                 "%s_ < least(end, past) - first; %s_++) {\n",
                 name, name, name);
        c->indent++;
        clike_block(c, root);
        clike_close_block(c);
    } else {
        str_add(c->out, "if (begin <= first && past <= end) {\n");
        c->indent++;
        clike_loop(c, root);
        clike_close_block(c);
    }
    c->indent = 1;
    str_add(c->out, "    }\n");
}

void clike_in_first_item(clike *c, stmt_id root, const char *item) {
    clike_line(c);
    str_addf(c->out, "if (%s == 0) {\n", item);
    c->indent++;
    clike_loop(c, root);
    clike_close_block(c);
}

static void write_kernel(clike *c) {
    char name[EMIT_NAME];
    emit_name(c->number, name);
    str_addf(c->out,
             "void %s(void *const *args, const int64_t *vars, void *scratch, "
             "int64_t begin, int64_t end) {\n",
             name);
    declare_variables(c);
    for (mem_id m = 1; m < c->k->mems; m++) {
        const ir_memory *mem = ir_m(c->k, m);
        if (mem->scope == MEM_ARG)
            str_addf(c->out, "    %s%s *restrict const a%d = args[%d];\n",
                     mem->access & ACCESS_WRITE ? "" : "const ", clike_memory_type(mem->dtype),
                     mem->arg, mem->arg);
    }
    c->indent = 1;
    sym offset = SYM_ZERO;
    if (!c->launch.parallel) clike_block(c, c->k->root);
    for (stmt_id i = ir_s(c->k, c->k->root)->first; i && c->launch.parallel;
         i = ir_s(c->k, i)->next) {
        sym items = emit_root_items(c->k, &c->launch, i);
        if (c->launch.in_first[i])
            clike_in_first_item(c, i, "begin");
        else
            write_root(c, i, offset, items);
        offset = sym_add(c->syms, offset, items);
    }
    str_add(c->out, "    (void)args, (void)vars, (void)scratch, (void)begin, (void)end;\n}\n");
}

static void close_clike(void *of) {
    clike *c = of;
    heap *h = c->body.h;
    str_free(&c->helpers);
    str_free(&c->body);
    arena_free(&c->arena);
    heap_free(h, c, sizeof *c);
}

static void join(const clike *c, int n, kernel *const *k, str *out) {
    for (int i = 0; i < n; i++) {
        str_add(out, "/* kernel ");
        for (const char *p = k[i]->name; *p; p++)
            if (*p != '*') str_addn(out, p, 1);
        str_add(out, " */\n");
    }
    str_add(out, c->dialect->header);
    str_addn(out, c->helpers.s, c->helpers.len);
    str_add(out, "\n");
    str_addn(out, c->body.s, c->body.len);
}

static void write_one(clike *c, int number, kernel *k, void (*write)(clike *c)) {
    c->k = k;
    c->number = number;
    c->syms = k->syms;
    for (int i = 0; i < CLIKE_NEST; i++) c->zero[i] = SYM_ZERO;
    emit_launch_of(k, &c->arena, &c->launch);
    clike_need_quotient(c);
    write(c);
    c->tables += k->tables;
}

void clike_unit(int n, kernel *const *k, const clike_dialect *dialect, void (*write)(clike *c),
                str *out) {
    heap *h = &k[0]->ctx->heap;
    clike *c = heap_zeroed(h, sizeof *c);
    c->dialect = dialect;
    arena_open(&c->arena, h);
    str_open(&c->helpers, h);
    str_open(&c->body, h);
    c->out = &c->body;
    cleanup undo;
    cleanup_push(h, &undo, close_clike, c);
    for (int i = 0; i < n; i++) write_one(c, i, k[i], write);
    join(c, n, k, out);
    cleanup_run(h, &undo);
}

/* The system's headers take longer to read than a small kernel to compile, and all that is wanted
 * of them are some names that compilers of GNU's kind have built in. */
static const char c99_header[] =
    "#ifdef __GNUC__\n"
    "typedef __INT8_TYPE__ int8_t;\ntypedef __UINT8_TYPE__ uint8_t;\n"
    "typedef __INT16_TYPE__ int16_t;\ntypedef __UINT16_TYPE__ uint16_t;\n"
    "typedef __INT32_TYPE__ int32_t;\ntypedef __UINT32_TYPE__ uint32_t;\n"
    "typedef __INT64_TYPE__ int64_t;\ntypedef __UINT64_TYPE__ uint64_t;\n"
    "#define INT8_MAX __INT8_MAX__\n#define INT16_MAX __INT16_MAX__\n"
    "#define INT32_MAX __INT32_MAX__\n#define INT64_MAX __INT64_MAX__\n"
    "#define INT8_MIN (-INT8_MAX - 1)\n#define INT16_MIN (-INT16_MAX - 1)\n"
    "#define INT32_MIN (-INT32_MAX - 1)\n#define INT64_MIN (-INT64_MAX - 1)\n"
    "#define UINT8_MAX __UINT8_MAX__\n#define UINT16_MAX __UINT16_MAX__\n"
    "#define UINT32_MAX __UINT32_MAX__\n#define UINT64_MAX __UINT64_MAX__\n"
    "#define UINT64_C(x) x##ULL\n"
    "#define NAN __builtin_nanf(\"\")\n#define INFINITY __builtin_inff()\n"
    "double fabs(double), sqrt(double), floor(double), ceil(double), rint(double), trunc(double);\n"
    "float fabsf(float), sqrtf(float), floorf(float), ceilf(float), rintf(float), truncf(float);\n"
    "double fma(double, double, double), fmod(double, double), copysign(double, double);\n"
    "float fmaf(float, float, float), fmodf(float, float), copysignf(float, float);\n"
    "#else\n#include <math.h>\n#include <stdint.h>\n#endif\n" CLIKE_DEFINE_LANES "\n";

static const clike_dialect c99 = {
    .header = c99_header,
    .global = "",
    .shared = "",
    .table = "static const ",
    .unroll = "",
    .wraps = true,
};

void emit_c99(int n, kernel *const *k, str *out) {
    clike_unit(n, k, &c99, write_kernel, out);
}
