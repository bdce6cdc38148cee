/* test_steps.c - schedules as typed steps: handles that are out of date are found out, what a step
 * made is known without names, the printed text is the schedule, and going back leaves no trace. */
#include "ir_cases.h"
#include "run/run.h"
#include "schedule/schedule.h"

static const char uneven[] = "kernel \"product\" {\n"
                             "  arg a0 f32[1435] write\n"
                             "  reg t0 f32[1]\n"
                             "  arg a1 f32[1271] read\n"
                             "  arg a2 f32[1085] read\n"
                             "  for i0 < 41 {\n"
                             "    for i1 < 35 {\n"
                             "      def t0 = f32(0)\n"
                             "      for r0 < 31 {\n"
                             "        t0[0] += mul(a1[31*i0 + r0], a2[i1 + 35*r0])\n"
                             "      }\n"
                             "      a0[35*i0 + i1] = t0[0]\n"
                             "    }\n"
                             "  }\n"
                             "}\n";

typedef struct shop {
    scheduler m;
    kernel *plain; /* as it was */
    loop_h i, j, r;
    mem_id tile;
} shop;

static shop open_shop(void) {
    shop x = {.m = {.k = parse(uneven)}, .plain = parse(uneven)};
    x.m.lanes = 8;
    steps_open(&x.m);
    kernel *k = x.m.k;
    x.i = loop_of(&x.m, ir_find_loop(k, "i0"));
    x.j = loop_of(&x.m, ir_find_loop(k, "i1"));
    x.r = loop_of(&x.m, ir_find_loop(k, "r0"));
    x.tile = ir_find_mem(k, "t0");
    return x;
}

static void close_shop(shop *x) {
    ir_close(x->m.k);
    ir_close(x->plain);
}

/* The text, applied to the kernel as it was, gives the same tree; and the same results. */
static void check_text_is_the_schedule(shop *x) {
    str text, one, two, why;
    str_open(&text, &ctx.heap);
    str_open(&one, &ctx.heap);
    str_open(&two, &ctx.heap);
    str_open(&why, &ctx.heap);
    const int64_t none[4] = {1, 1, 1, 1};
    steps_print(&x->m, &text);
    kernel *again = parse(uneven);
    if (transform_lines(again, text.s, &why) != (int)x->m.steps) FAIL("%s%s", text.s, why.s);
    ir_print(x->m.k, &one);
    ir_print(again, &two);
    CHECK_STR(one.s, two.s);
    check_same(__LINE__, x->plain, x->m.k, none);
    ir_close(again);
    str_free(&text);
    str_free(&one);
    str_free(&two);
    str_free(&why);
}

static void a_consumed_handle_is_refused(void) {
    shop x = open_shop();
    loop2 t = step_split(&x.m, x.j, 5, "jo", "ji");
    CHECK(t.outer.id && t.inner.id && !same_loop(t.outer, t.inner));
    CHECK(!step_split(&x.m, x.j, 2, "x", "y").outer.id);
    CHECK_INT(x.m.refused, 1);
    CHECK_INT(x.m.loop[x.j.id].gone, 1); /* the first step did it */
    CHECK(!stmt_of(&x.m, x.j));
    loop_h both = step_merge(&x.m, t.outer, t.inner, "j");
    CHECK(both.id != 0);
    CHECK_INT(x.m.loop[t.inner.id].gone, 2);
    CHECK_INT(x.m.steps, 2);
    check_text_is_the_schedule(&x);
    close_shop(&x);
}

static void nothing_comes_of_the_null_handle(void) {
    shop x = open_shop();
    CHECK(!step_split(&x.m, NO_LOOP, 4, "a", "b").inner.id);
    CHECK(!step_swap(&x.m, x.i, NO_LOOP));
    CHECK(!step_accumulate(&x.m, 0, x.i).done);
    made_stage copy = step_stage(maybe(&x.m), ir_find_mem(x.m.k, "a1"), x.i, &(stage_axes){0}, -1);
    CHECK(!copy.tile && !copy.copy.n);
    CHECK(!x.m.maybe);
    CHECK_INT(x.m.refused, 0);
    CHECK_INT(x.m.steps, 0);
    close_shop(&x);
}

static void a_refusal_is_counted_unless_it_was_foreseen(void) {
    shop x = open_shop();
    CHECK(!step_swap(maybe(&x.m), x.j, x.i));
    CHECK_INT(x.m.refused, 0);
    CHECK(!step_swap(&x.m, x.j, x.i)); /* "maybe" is for one step */
    CHECK_INT(x.m.refused, 1);
    close_shop(&x);
}

static void swapped_loops_keep_their_handles(void) {
    shop x = open_shop();
    CHECK(step_swap(&x.m, x.i, x.j));
    CHECK(schedule_at(&x.m, stmt_of(&x.m, x.i))->parent == stmt_of(&x.m, x.j));
    CHECK_INT(trips_of(&x.m, x.i), 41);
    check_text_is_the_schedule(&x);
    close_shop(&x);
}

/* A register tile: what is wanted of a loop is wanted of its copies. */
static void copies_inherit_what_is_wanted(void) {
    shop x = open_shop();
    loop2 j = step_split(&x.m, x.j, 8, "jr", "v");
    step_want(&x.m, j.inner, WANT_VEC);
    made_loops others = step_accumulate(&x.m, x.tile, j.inner);
    CHECK_INT(others.n, 1); /* that of the stores; j.inner is the first, inside the sum */
    CHECK(schedule_at(&x.m, stmt_of(&x.m, j.inner))->parent == stmt_of(&x.m, x.r));
    CHECK(want_of(&x.m, others.loop[0]) == WANT_VEC && want_of(&x.m, j.outer) == WANT_NOTHING);
    loop2 i = step_split(&x.m, x.i, 16, "ic", "ir"); /* its last iteration is cut short */
    loop_h rest = step_peel(&x.m, i.outer);
    CHECK_INT(loop_chain_from(&x.m, rest).n, 3); /* ic_1, ir_1, jr_1 { .. } */
    int vectors = 0;
    for (stmt_id s = x.m.k->root; (s = ir_next(x.m.k, s, x.m.k->root));)
        vectors += want_of(&x.m, loop_of(&x.m, s)) == WANT_VEC;
    CHECK_INT(vectors, 4);
    check_text_is_the_schedule(&x);
    close_shop(&x);
}

static void axes_of_a_copy_come_in_the_order_of_the_tree(void) {
    shop x = open_shop();
    stage_axes axes = {0};
    stage_axis(&axes, x.r, false);
    stage_axis(&axes, x.j, false);
    made_stage staged = step_stage(&x.m, ir_find_mem(x.m.k, "a2"), x.i, &axes, -1);
    const loop_chain copy = staged.copy;
    CHECK_INT(copy.n, 2);
    CHECK_INT(trips_of(&x.m, copy.loop[0]), 31);
    CHECK_INT(trips_of(&x.m, copy.loop[1]), 35);
    CHECK(copy.body == stmt_of(&x.m, copy.loop[1]));
    CHECK(schedule_at(&x.m, schedule_at(&x.m, copy.body)->first)->store.mem[0] == staged.tile);
    made_transpose back = step_transpose(&x.m, copy.loop[0], copy.loop[1]);
    CHECK(schedule_at(&x.m, schedule_at(&x.m, copy.body)->first)->store.mem[0] == back.tile);
    CHECK_INT(trips_of(&x.m, back.outer), 35);
    CHECK_INT(trips_of(&x.m, back.inner), 31);
    check_text_is_the_schedule(&x);
    close_shop(&x);
}

/* Of a tile of one element there is no loop over its elements; that is no other loop's place. */
static void what_a_step_made_is_known_by_its_role(void) {
    shop x = open_shop();
    loop2 r = step_split(&x.m, x.r, 4, "o", "n");
    made_rfactor four = step_rfactor(&x.m, x.tile, r.inner);
    CHECK(four.tile && four.tile != x.tile && four.part.id && !four.element.id);
    CHECK_INT(trips_of(&x.m, four.part), 4);
    loop2 o = step_split(&x.m, r.outer, 2, "oo", "on");
    made_rfactor eight = step_rfactor(&x.m, four.tile, o.inner);
    CHECK_INT(trips_of(&x.m, eight.part), 2);
    CHECK_INT(trips_of(&x.m, eight.element), 4);
    made_loops halves = step_tree_reduce(&x.m, four.part); /* of four lanes: two, and one */
    CHECK(halves.done);
    CHECK_INT(halves.n, 2);
    CHECK_INT(trips_of(&x.m, halves.loop[0]), 2);
    CHECK_INT(trips_of(&x.m, halves.loop[1]), 1);
    CHECK(!step_tree_reduce(maybe(&x.m), eight.part).done);
    check_text_is_the_schedule(&x);
    close_shop(&x);
}

static void loops_of_partial_sums_are_known_by_their_roles(void) {
    for (int wide = 0; wide < 2; wide++) {
        shop x = open_shop();
        loop2 j = step_split(&x.m, x.j, 5, "jr", "v");
        if (wide) CHECK(step_accumulate(&x.m, x.tile, j.inner).done);
        loop2 r = step_split(&x.m, x.r, 8, "pc", "kr");
        made_blocks sums = step_block_reduction(&x.m, x.tile, r.outer, x.i);
        CHECK(sums.tile && sums.tile != x.tile);
        CHECK(!sums.load.id == !wide && !sums.store.id == !wide);
        CHECK_INT(trips_of(&x.m, sums.last), 1); /* or none */
        if (wide) CHECK_INT(trips_of(&x.m, sums.load), 5);
        stmt_id rest = schedule_at(&x.m, stmt_of(&x.m, sums.last))->first;
        while (schedule_at(&x.m, rest)->kind == STMT_LOOP) rest = schedule_at(&x.m, rest)->first;
        CHECK_INT(ir_m(x.m.k, schedule_at(&x.m, rest)->store.mem[0])->scope, MEM_ARG);
        check_text_is_the_schedule(&x);
        close_shop(&x);
    }
}

/* Each component of a state gets a wider tile: a step on one of them gives that one's. */
static void the_wider_tile_is_that_of_the_component(void) {
    scheduler m = {.k = parse("kernel \"place\" {\n"
                              "  arg a0 i64[1] write\n"
                              "  arg a1 f32[64] read\n"
                              "  local t0 i64[1]\n"
                              "  local t1 f32[1]\n"
                              "  def t0 = i64(9223372036854775807)\n"
                              "  def t1 = f32(-inf)\n"
                              "  for r < 64 {\n"
                              "    (t1, t0)[0] argmax= a1[r], idx(r)\n"
                              "  }\n"
                              "  a0[0] = t0[0]\n"
                              "}\n")};
    m.lanes = 8;
    steps_open(&m);
    mem_id place = ir_find_mem(m.k, "t0"), value = ir_find_mem(m.k, "t1");
    loop2 r = step_split(&m, loop_of(&m, ir_find_loop(m.k, "r")), 8, "o", "v");
    step_mark mark = steps_mark(&m);
    mem_id wide[2] = {step_rfactor(&m, value, r.inner).tile};
    CHECK_INT(ir_m(m.k, wide[0])->dtype, QN_F32);
    steps_back(&m, &mark);
    wide[1] = step_rfactor(&m, place, r.inner).tile;
    CHECK_INT(ir_m(m.k, wide[1])->dtype, QN_I64);
    CHECK(wide[1] != wide[0]);
    ir_close(m.k);
}

static void a_tile_whose_step_was_taken_back_is_refused(void) {
    shop x = open_shop();
    loop2 r = step_split(&x.m, x.r, 8, "o", "v");
    step_mark mark = steps_mark(&x.m);
    mem_id wide = step_rfactor(&x.m, x.tile, r.inner).tile;
    CHECK(wide && step_transform_layout(&x.m, wide, 1));
    steps_back(&x.m, &mark);
    CHECK(!step_transform_layout(&x.m, wide, 1));
    CHECK_INT(x.m.refused, 1);
    check_text_is_the_schedule(&x);
    close_shop(&x);
}

static void labels_that_are_taken_get_numbers(void) {
    shop x = open_shop();
    step_split(&x.m, x.i, 4, "o", "n");
    step_split(&x.m, x.j, 4, "o", "n");
    CHECK_STR(x.m.step[1].name[0], "o_1");
    CHECK_STR(x.m.step[1].name[1], "n_1");
    check_text_is_the_schedule(&x);
    close_shop(&x);
}

static void going_back_leaves_no_trace(void) {
    shop x = open_shop();
    loop2 t = step_split(&x.m, x.j, 7, "jo", "ji");
    step_mark mark = steps_mark(&x.m);
    loop2 u = step_split(&x.m, t.inner, 1, "a", "b");
    CHECK(step_swap(&x.m, u.outer, u.inner));
    steps_back(&x.m, &mark);
    CHECK_INT(x.m.steps, 1);
    CHECK(stmt_of(&x.m, t.inner) && !x.m.loop[t.inner.id].gone);
    CHECK(!stmt_of(&x.m, u.outer) && x.m.loop[u.outer.id].gone);
    CHECK(x.m.loop[x.j.id].gone);
    CHECK(step_split(&x.m, t.inner, 2, "a", "b").inner.id != 0);
    check_text_is_the_schedule(&x);
    close_shop(&x);
}

/* Every row that search and fuzzers may draw is tried on some kernel, and what is legal keeps the
 * results. */
typedef struct drawing {
    int seen, legal;
    transform_kind kind;
} drawing;

static bool try_it(void *user, const transform_args *a) {
    drawing *d = user;
    kernel *before = parse(uneven), *after = parse(uneven);
    const int64_t none[4] = {1, 1, 1, 1};
    const uint32_t loops = after->loops;
    const mem_id mems = after->mems;
    transform_made made;
    if (d->seen++ % 7 == 0 && transform_run(after, d->kind, a, &made, NULL) &&
        ir_verify(after, NULL) == VERDICT_SOUND) {
        d->legal++;
        CHECK(!made.tile || (made.tile >= mems && made.tile < after->mems));
        for (uint32_t i = 0; i < made.loops; i++)
            CHECK(!made.loop[i] || (made.loop[i] > loops && ir_loop_of(after, made.loop[i])));
        check_same(__LINE__, before, after, none);
    }
    ir_close(before);
    ir_close(after);
    return d->seen < 400;
}

static void every_row_has_neighbours(void) {
    int legal = 0;
    for (int i = 0; i < TRANSFORMS; i++) {
        drawing d = {.kind = (transform_kind)i};
        kernel *k = parse(uneven);
        transform_neighbours(k, d.kind, try_it, &d);
        if (!d.seen) FAIL("%s has none", transform_rows[i].name);
        legal += d.legal > 0;
        ir_close(k);
    }
    CHECK(legal >= 8);
}

/* A tile that a schedule prefetches may turn out to fit the registers. */
static void nothing_is_prefetched_into_registers(void) {
    kernel *k = parse("kernel \"sums\" {\n"
                      "  arg a0 f32[4] write\n"
                      "  arg a1 f32[4] read\n"
                      "  local t0 f32[4]\n"
                      "  def t0 = f32(0)\n"
                      "  unroll i < 4 {\n"
                      "    t0[i] += a1[i]\n"
                      "    prefetch t0[i + 1]\n"
                      "    prefetch a1[i + 1]\n"
                      "  }\n"
                      "  unroll j < 4 {\n"
                      "    a0[j] = t0[j]\n"
                      "  }\n"
                      "}\n");
    str text, why;
    str_open(&text, &ctx.heap);
    str_open(&why, &ctx.heap);
    run_passes(k);
    ir_print(k, &text);
    if (!ir_check(k, &why)) FAIL("%s", why.s);
    CHECK(strstr(text.s, "reg t0") && strstr(text.s, "prefetch a1"));
    CHECK(!strstr(text.s, "prefetch t0"));
    str_free(&text);
    str_free(&why);
    ir_close(k);
}

/* However it is indexed. */
static void a_tile_of_many_elements_stays_in_memory(void) {
    for (int rows = 8; rows <= 32; rows *= 4) {
        char source[600];
        snprintf(source, sizeof source,
                 "kernel \"tile\" {\n  arg a0 f32[%d] write\n  arg a1 f32[%d] read\n"
                 "  local t0 f32[%d]\n  def t0 = f32(0)\n  unroll i < %d {\n"
                 "    unroll j < 64 {\n      t0[64*i + j] += a1[64*i + j]\n    }\n  }\n"
                 "  unroll k < %d {\n    unroll l < 64 {\n      a0[64*k + l] = t0[64*k + l]\n"
                 "    }\n  }\n}\n",
                 64 * rows, 64 * rows, 64 * rows, rows, rows);
        kernel *k = parse(source);
        run_passes(k);
        CHECK_INT(ir_m(k, ir_find_mem(k, "t0"))->scope, rows == 8 ? MEM_REG : MEM_LOCAL);
        ir_close(k);
    }
}

/* Substituted into a loop, a value may leave it less than no iterations. */
static void an_extent_below_zero_is_none(void) {
    kernel *k = parse("kernel \"cut\" {\n  arg a0 f32[8] write\n  for i < 8 {\n"
                      "    for j < min(1, 5 - i) {\n      a0[i] = f32(1)\n    }\n  }\n}\n");
    stmt_id i = ir_find_loop(k, "i"), j = ir_find_loop(k, "j");
    sym last = sym_const(k->syms, 7);
    ir_subst(k, j, 1, &ir_s(k, i)->l.var, &last);
    CHECK(ir_s(k, j)->l.extent == SYM_ZERO);
    ir_close(k);
}

static void all(void) {
    RUN(a_consumed_handle_is_refused);
    RUN(nothing_comes_of_the_null_handle);
    RUN(a_refusal_is_counted_unless_it_was_foreseen);
    RUN(swapped_loops_keep_their_handles);
    RUN(copies_inherit_what_is_wanted);
    RUN(axes_of_a_copy_come_in_the_order_of_the_tree);
    RUN(what_a_step_made_is_known_by_its_role);
    RUN(loops_of_partial_sums_are_known_by_their_roles);
    RUN(the_wider_tile_is_that_of_the_component);
    RUN(a_tile_whose_step_was_taken_back_is_refused);
    RUN(labels_that_are_taken_get_numbers);
    RUN(going_back_leaves_no_trace);
    RUN(every_row_has_neighbours);
    RUN(nothing_is_prefetched_into_registers);
    RUN(a_tile_of_many_elements_stays_in_memory);
    RUN(an_extent_below_zero_is_none);
}

int main(int argc, char **argv) {
    return run_raising(argc, argv, all);
}
