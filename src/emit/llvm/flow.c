/* flow.c - conditional code and loops, with the registers that change inside.
 *
 * Loops test at the end: whoever opens one has made sure, by a guard if need be, that it has a
 * trip. So the code just before a loop runs exactly when the loop does, and is where everything
 * goes that does not change inside. A register that changes in a loop or under a condition is
 * joined by a phi. */
#include "emit/llvm/llvm.h"

/* What was written by deeper levels is, from outside, written here. */
static void leave_level(llvm *s) {
    llvm_close_level(s);
    for (mem_id m = 1; m < s->k->mems; m++)
        if (s->written[m] > s->depth) s->written[m] = s->depth;
}

static ll_type value_type(llvm *s, mem_id m) {
    ll_type t = llvm_type(s, ir_m(s->k, m)->dtype);
    return s->tile[m].vec ? llvm_vector(s, t, s->tile[m].padded) : t;
}

static ll_value or_poison(llvm *s, mem_id m, val x) {
    return x.v ? x.v : s->L->GetPoison(value_type(s, m));
}

static uint32_t count_registers(const llvm *s) {
    uint32_t n = 0;
    for (mem_id m = 1; m < s->k->mems; m++) n += (uint32_t)s->tile[m].groups;
    return n;
}

void llvm_open_guard(llvm *s, val condition, llvm_guard *g) {
    g->before = s->here;
    ll_block then = llvm_block(s, "then");
    g->skip = llvm_block(s, "skip");
    llvm_at(s, s->depth);
    s->level[s->depth].end = s->L->BuildCondBr(s->b, condition.v, then, g->skip);
    llvm_open_level(s, true);
    s->here = then;
    g->kept = arena_alloc(&s->arena, (count_registers(s) + 1) * sizeof *g->kept);
    val *to = g->kept;
    for (mem_id m = 1; m < s->k->mems; m++)
        for (int64_t i = 0; i < s->tile[m].groups; i++) *to++ = s->tile[m].group[i];
}

void llvm_close_guard(llvm *s, llvm_guard *g) {
    ll_block from[2] = {g->before, s->here};
    llvm_at(s, s->depth);
    s->L->BuildBr(s->b, g->skip);
    leave_level(s);
    s->here = g->skip;
    const val *kept = g->kept;
    for (mem_id m = 1; m < s->k->mems; m++) {
        for (int64_t i = 0; i < s->tile[m].groups; i++, kept++) {
            val *now = &s->tile[m].group[i];
            if (now->v == kept->v) continue;
            ll_value x[2] = {or_poison(s, m, *kept), or_poison(s, m, *now)};
            llvm_at(s, s->depth);
            ll_value phi = s->L->BuildPhi(s->b, value_type(s, m), "");
            s->L->AddIncoming(phi, x, from, 2);
            *now = (val){phi, s->depth, s->tile[m].vec};
        }
    }
}

static void open_registers(llvm *s, llvm_loop *l, ll_block before) {
    l->phi = arena_alloc(&s->arena, (count_registers(s) + 1) * sizeof *l->phi);
    ll_value *phi = l->phi;
    for (mem_id m = 1; m < s->k->mems && l->carried; m++) {
        if (!l->carried[m]) continue;
        for (int64_t i = 0; i < s->tile[m].groups; i++) {
            val *now = &s->tile[m].group[i];
            ll_value start = or_poison(s, m, *now);
            *phi = s->L->BuildPhi(s->b, value_type(s, m), "");
            s->L->AddIncoming(*phi, &start, &before, 1);
            *now = (val){*phi++, s->depth, s->tile[m].vec};
        }
    }
}

void llvm_open_loop(llvm *s, val from, val to, int64_t step, const bool *carried, llvm_loop *l) {
    *l = (llvm_loop){.to = to, .step = step, .carried = carried, .body = llvm_block(s, "loop")};
    ll_block before = s->here;
    llvm_at(s, s->depth);
    s->level[s->depth].end = s->L->BuildBr(s->b, l->body);
    llvm_open_level(s, false);
    s->here = l->body;
    llvm_at(s, s->depth);
    ll_value phi = s->L->BuildPhi(s->b, s->t_i64, "");
    s->L->AddIncoming(phi, &from.v, &before, 1);
    l->var = (val){phi, s->depth, false};
    open_registers(s, l, before);
}

/* The same i64, which LLVM takes for a new one: an empty line of assembly that gives what it takes.
 * A counter that is no recurrence leaves the analyses behind strength reduction nothing to do. */
static ll_value opaque(llvm *s, ll_value x) {
    ll_type t = s->L->FunctionType(s->t_i64, &s->t_i64, 1, 0);
    ll_value same = s->L->GetInlineAsm(t, "", 0, "=r,0", 4, 0, 0, 0, 0);
    return s->L->BuildCall2(s->b, t, same, &x, 1, "");
}

void llvm_close_loop(llvm *s, llvm_loop *l) {
    ll_block latch = s->here, exit = llvm_block(s, "end");
    llvm_at(s, s->depth);
    ll_value step = s->L->ConstInt(s->t_i64, (unsigned long long)l->step, 1);
    ll_value next = opaque(s, s->L->BuildBinOp(s->b, LL_ADD, l->var.v, step, ""));
    ll_value again = s->L->BuildICmp(s->b, LL_SLT, next, l->to.v, "");
    s->L->BuildCondBr(s->b, again, l->body, exit);
    s->L->AddIncoming(l->var.v, &next, &latch, 1);
    ll_value *phi = l->phi;
    leave_level(s);
    s->here = exit;
    for (mem_id m = 1; m < s->k->mems && l->carried; m++) {
        if (!l->carried[m]) continue;
        for (int64_t i = 0; i < s->tile[m].groups; i++) {
            val *now = &s->tile[m].group[i];
            ll_value end = or_poison(s, m, *now);
            s->L->AddIncoming(*phi++, &end, &latch, 1);
            if (now->level > s->depth) now->level = s->depth;
        }
    }
}
