/* tree.c - a kernel's tree as LLVM IR: one walk, and nothing behind it that would clean up.
 *
 * There is no optimisation pipeline: LLVM selects instructions, schedules them and allocates
 * registers, and what it is given must already be what one wants to run. So the walk decides
 * everything as it goes. A loop is a loop, a VEC loop binds its variable to lanes, an UNROLL loop
 * repeats its body with the variable a number. A register of a REG tile is an SSA value that the
 * walk keeps track of, with phis where loops carry it. Each operation goes to the outermost level
 * its operands allow and is found again there by later uses (llvm.h), so that unrolling by 14 and 2
 * loads 14 + 2 values for 28 fused multiplications, and addresses are computed where their
 * variables change.
 *
 * What LLVM still does well by itself: folding addresses and loads into instructions, turning
 * multiplied loop variables into increments, constants into immediates. */
#include "emit/llvm/llvm.h"

#include <stdio.h>

enum { STORE_PARTS = 3 }; /* by which some lanes are stored, at most */

static void write_block(llvm *s, stmt_id parent);

/* ---- registers ------------------------------------------------------------------------------ */

static int padded(int64_t width) {
    int lanes = 1;
    while (lanes < width) lanes *= 2;
    return lanes;
}

/* The expressions that statements use; the table keeps those of older shapes of the tree, too. */
static uint8_t *used_expressions(llvm *s) {
    uint8_t *used = arena_zeroed(&s->arena, s->k->exprs);
    expr_id *slot[4];
    for (stmt_id i = s->k->root; i; i = ir_next(s->k, i, s->k->root))
        for (int n = ir_stmt_exprs(ir_s(s->k, i), slot); n-- > 0;) used[*slot[n]] = 1;
    for (expr_id e = s->k->exprs; --e;) {
        if (!used[e]) continue;
        for (int n = ir_expr_args(ir_e(s->k, e), slot); n-- > 0;) used[*slot[n]] = 1;
    }
    return used;
}

/* Registers hold the lanes of a VEC loop where an index of the tile uses its variable. */
static void note_lanes(llvm *s, mem_id m, sym index, sym var, int64_t width) {
    int64_t step;
    sym rest;
    if (ir_m(s->k, m)->scope == MEM_REG && sym_split(s->syms, index, var, &step, &rest) &&
        step == 1)
        s->tile[m].lanes = width;
}

static void find_widths(llvm *s) {
    const uint8_t *used = used_expressions(s);
    for (mem_id m = 1; m < s->k->mems; m++) s->tile[m].lanes = 1;
    for (stmt_id l = ir_next(s->k, s->k->root, s->k->root); l; l = ir_next(s->k, l, s->k->root)) {
        const ir_stmt *t = ir_s(s->k, l);
        if (t->kind != STMT_LOOP || t->loop != LOOP_VEC) continue;
        int64_t width = sym_hi(s->syms, t->l.extent);
        for (expr_id e = 1; e < s->k->exprs && width > 1; e++) {
            const ir_expr *x = ir_e(s->k, e);
            if (used[e] && x->kind == EXPR_LOAD)
                note_lanes(s, x->load.mem, x->load.index, t->l.var, width);
        }
        for (stmt_id i = ir_next(s->k, l, l); i && width > 1; i = ir_next(s->k, i, l)) {
            const ir_stmt *x = ir_s(s->k, i);
            for (int c = 0; x->kind == STMT_STORE && c < x->n; c++)
                note_lanes(s, x->store.mem[c], x->store.index, t->l.var, width);
        }
    }
}

static void open_tile(llvm *s, mem_id m) {
    llvm_tile *t = &s->tile[m];
    if (ir_m(s->k, m)->scope != MEM_REG) return;
    int64_t size;
    if (!sym_is_const(s->syms, ir_m(s->k, m)->size, &size) || size > INT32_MAX)
        raise_error(s->ctx, QN_EINTERNAL, "kernel %s: a register tile of no constant size",
                    s->k->name);
    t->vec = t->lanes > 1;
    t->padded = padded(t->lanes);
    t->groups = (size + t->lanes - 1) / t->lanes;
    t->group = arena_zeroed(&s->arena, (t->groups + 1) * sizeof *t->group);
}

/* ---- loops ---------------------------------------------------------------------------------- */

/* A loop's body stores to these: registers of tiles from outside are carried, and memory is from
 * now on not what it was before the loop. */
static bool *enter_body(llvm *s, stmt_id loop, int level) {
    bool *carried = arena_zeroed(&s->arena, s->k->mems * sizeof *carried);
    for (stmt_id i = ir_next(s->k, loop, loop); i; i = ir_next(s->k, i, loop)) {
        const ir_stmt *t = ir_s(s->k, i);
        for (int c = 0; c < IR_STATES; c++) {
            mem_id m = t->kind == STMT_STORE && c < t->n ? t->store.mem[c]
                       : t->kind == STMT_DEF && !c       ? t->def.mem
                                                         : 0;
            if (!m) continue;
            s->version[m]++;
            s->written[m] = level;
            bool inside = s->launch.def[m] && ir_inside(s->k, s->launch.def[m], loop);
            carried[m] |= ir_m(s->k, m)->scope == MEM_REG && !inside;
        }
    }
    return carried;
}

static void write_trips(llvm *s, stmt_id loop, val from, val to, val offset) {
    llvm_loop l;
    llvm_open_loop(s, from, to, 1, enter_body(s, loop, s->depth + 1), &l);
    val var = offset.v ? llvm_binary(s, LL_SUB, l.var, offset) : l.var;
    llvm_bind(s, ir_s(s->k, loop)->l.var, var);
    write_block(s, loop);
    llvm_unbind(s);
    llvm_close_loop(s, &l);
}

static void write_once(llvm *s, stmt_id loop, int64_t number) {
    llvm_bind_constant(s, ir_s(s->k, loop)->l.var, number);
    write_block(s, loop);
    llvm_unbind(s);
}

static void write_lanes(llvm *s, stmt_id loop, int64_t width) {
    ir_stmt t = *ir_s(s->k, loop);
    if (s->lane_var || width > IR_LANES)
        raise_error(s->ctx, QN_EINTERNAL, "kernel %s: a VEC loop that is none", s->k->name);
    s->lane_var = t.l.var;
    s->width = width;
    s->lanes = padded(width);
    s->mask = llvm_lane_mask(s, t.l.extent);
    s->some = s->mask.v && sym_is_const(s->syms, t.l.extent, NULL) &&
              __builtin_popcountll((unsigned long long)width) <= STORE_PARTS;
    write_block(s, loop);
    s->lane_var = SYM_ZERO;
    s->mask = (val){0};
    s->some = false;
}

static void write_loop(llvm *s, stmt_id loop) {
    ir_stmt t = *ir_s(s->k, loop);
    sym extent = llvm_reduced(s, t.l.extent);
    int64_t most = sym_hi(s->syms, extent);
    if (most < 1) return;
    /* A copy made by unrolling may have fewer trips; its registers are as wide as the others. */
    int64_t width = t.loop == LOOP_VEC ? sym_hi(s->syms, t.l.extent) : 1;
    bool maybe = sym_ge0(s->syms, sym_sub(s->syms, extent, SYM_ONE)) != SYM_TRUE;
    bool copies = t.loop == LOOP_UNROLL || t.loop == LOOP_WORD;
    if (copies && sym_is_const(s->syms, extent, NULL)) {
        if (t.loop == LOOP_WORD && llvm_word(s, loop, (int)most)) return;
        for (int64_t i = 0; i < most; i++) write_once(s, loop, i);
        return;
    }
    val n = llvm_sym(s, extent), zero = llvm_int(s, s->t_i64, 0);
    llvm_guard g;
    if (maybe) llvm_open_guard(s, llvm_compare(s, LL_SGT, n, zero), &g);
    if (width > 1)
        write_lanes(s, loop, width);
    else if (most == 1)
        write_once(s, loop, 0);
    else
        write_trips(s, loop, zero, n, (val){0});
    if (maybe) llvm_close_guard(s, &g);
}

/* Stores that follow each other, from i on; the last one that was written. */
static stmt_id write_stores(llvm *s, stmt_id i) {
    ir_stmt copy[LLVM_STORES];
    const ir_stmt *t[LLVM_STORES];
    stmt_id at[LLVM_STORES];
    int n = 0;
    for (; i && n < LLVM_STORES && ir_s(s->k, i)->kind == STMT_STORE; i = ir_s(s->k, i)->next) {
        copy[n] = *ir_s(s->k, i);
        t[n] = &copy[n];
        at[n++] = i;
    }
    return at[llvm_stores(s, t, n) - 1];
}

static void write_block(llvm *s, stmt_id parent) {
    for (stmt_id i = ir_s(s->k, parent)->first; i; i = ir_s(s->k, i)->next) {
        ir_stmt t = *ir_s(s->k, i);
        s->at = i;
        if (t.kind == STMT_LOOP) {
            write_loop(s, i);
        } else if (t.kind == STMT_DEF) {
            llvm_define(s, t.def.mem, t.def.value);
        } else if (t.kind == STMT_STORE) {
            i = write_stores(s, i);
        } else if (t.kind == STMT_PREFETCH) {
            llvm_prefetch(s, t.prefetch.mem, t.prefetch.index);
        }
    }
}

/* ---- the functions -------------------------------------------------------------------------- */

static void attribute(llvm *s, const char *name, const char *value) {
    ll_attribute a = s->L->CreateStringAttribute(s->context, name, (unsigned)strlen(name), value,
                                                 (unsigned)strlen(value));
    s->L->AddAttributeAtIndex(s->function, (unsigned)LL_FUNCTION_INDEX, a);
}

static void begin_function(llvm *s, const char *name, int n, ll_type *parameter) {
    ll_type t = s->L->FunctionType(s->t_void, parameter, (unsigned)n, 0);
    s->function = s->L->AddFunction(s->module, name, t);
    char section[sizeof ".text." + EMIT_NAME];
    snprintf(section, sizeof section, ".text.%s", name); /* of its own: it can be loaded alone */
    s->L->SetSection(s->function, section);
    unsigned nounwind = s->L->GetEnumAttributeKindForName("nounwind", 8);
    s->L->AddAttributeAtIndex(s->function, (unsigned)LL_FUNCTION_INDEX,
                              s->L->CreateEnumAttribute(s->context, nounwind, 0));
    char bits[8];
    snprintf(bits, sizeof bits, "%d", 8 * emit_isa_bytes(&s->owner->isa));
    attribute(s, "prefer-vector-width", bits);
    attribute(s, "min-legal-vector-width", bits);
    s->here = llvm_block(s, "entry");
    s->depth = 0;
    s->level[0] = (llvm_level){.serial = ++s->serial};
    s->bindings = 0;
}

static void end_function(llvm *s) {
    llvm_at(s, s->depth);
    if (s->bypasses) /* such stores are in no order with others; whoever joins must see them */
        llvm_call(s, llvm_plain("llvm.x86.sse.sfence"), 0, NULL, 0, false);
    s->L->BuildRetVoid(s->b);
}

static val parameter_value(llvm *s, unsigned i) {
    return (val){.v = s->L->GetParam(s->function, i)};
}

/* One root's share of the items [begin, end): its own are [offset, offset + trips). */
static void write_root(llvm *s, stmt_id root, sym offset, sym trips, val begin, val end) {
    val first = llvm_sym(s, offset), past = llvm_sym(s, sym_add(s->syms, offset, trips));
    val from = llvm_select(s, llvm_compare(s, LL_SGT, begin, first), begin, first);
    val to = llvm_select(s, llvm_compare(s, LL_SLT, end, past), end, past);
    llvm_guard g;
    llvm_open_guard(s, llvm_compare(s, LL_SLT, from, to), &g);
    if (emit_is_par(s->k, root))
        write_trips(s, root, from, to, first);
    else
        write_loop(s, root);
    llvm_close_guard(s, &g);
}

static void write_in_first_item(llvm *s, stmt_id root, val begin) {
    llvm_guard g;
    llvm_open_guard(s, llvm_compare(s, LL_EQ, begin, llvm_sym(s, SYM_ZERO)), &g);
    write_loop(s, root);
    llvm_close_guard(s, &g);
}

static void write_kernel(llvm *s, const char *name) {
    ll_type parameter[5] = {s->t_ptr, s->t_ptr, s->t_ptr, s->t_i64, s->t_i64};
    begin_function(s, name, 5, parameter);
    s->args = parameter_value(s, 0);
    s->vars = parameter_value(s, 1);
    s->scratch = parameter_value(s, 2);
    val begin = parameter_value(s, 3), end = parameter_value(s, 4);
    stmt_id first = ir_s(s->k, s->k->root)->first;
    if (!s->launch.parallel) {
        write_block(s, s->k->root);
    } else if (!ir_s(s->k, first)->next) {
        write_trips(s, first, begin, end, (val){0});
    } else {
        sym offset = SYM_ZERO;
        for (stmt_id i = first; i; i = ir_s(s->k, i)->next) {
            sym items = emit_root_items(s->k, &s->launch, i);
            if (s->launch.in_first[i])
                write_in_first_item(s, i, begin);
            else
                write_root(s, i, offset, items, begin, end);
            offset = sym_add(s->syms, offset, items);
        }
    }
    end_function(s);
}

void llvm_write(llvm *s, const char *name) {
    kernel *k = s->k;
    emit_launch_of(k, &s->arena, &s->launch);
    s->tile = arena_zeroed(&s->arena, k->mems * sizeof *s->tile);
    s->version = arena_zeroed(&s->arena, k->mems * sizeof *s->version);
    s->kept = arena_zeroed(&s->arena, k->mems * sizeof *s->kept);
    s->written = arena_zeroed(&s->arena, k->mems * sizeof *s->written);
    find_widths(s);
    for (mem_id m = 1; m < k->mems; m++) open_tile(s, m);
    write_kernel(s, name);
}
