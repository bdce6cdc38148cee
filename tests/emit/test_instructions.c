/* test_instructions.c - which instructions kernels given as text become, as far as LLVM's text
 * shows them, and tables that are looked up in registers; values against the interpreter, as in
 * test_emit.c. */
#include "emit_text.h"
#include "math/math.h"

static harness h;
static bool is_cc; /* this compiler is slower: fewer of the same */

static void run(harness_case c) {
    harness_run(&h, &c);
}

/* Two looks at the same places, the one in a loop found first, the other made before the loop. */
static void what_was_made_in_a_loop_is_not_there_before_it(void) {
    static const char *const order[] = {"a1[3*v; valid=(n - 1 >= 0)], a1[3*v; valid=(i - 2 >= 0)]",
                                        "a1[3*v; valid=(i - 2 >= 0)], a1[3*v; valid=(n - 1 >= 0)]"};
    for (int k = 0; k < 2; k++) {
        char text[512];
        snprintf(text, sizeof text,
                 "kernel \"two looks\" {\n dim n 0 2\n arg a0 f32[96] write\n"
                 " arg a1 f32[48] read\n arg a2 f32[6] read\n for i < 6 {\n vec v < 16 {\n"
                 "  a0[16*i + v] = where(lt(a2[i], f32(0)), %s)\n }\n }\n}\n",
                 order[k]);
        run((harness_case){.text = text, .dim = {1}});
        run((harness_case){.text = text, .dim = {0}});
    }
}

/* The formulas' two factors of a power of two are one instruction where there is one, and the bits
 * stay: results from 0 over the smallest to infinity. */
static void powers_of_two_scale_at_once(void) {
    static const char *const form = "kernel \"%s\" {\n"
                                    "  arg a0 %s[4096] read\n"
                                    "  arg a1 %s[4096] write\n"
                                    "  for i < %d {\n"
                                    "    vec v < %d {\n"
                                    "      a1[%d*i + v] = %s(mul(a0[%d*i + v], %s(%d)))\n"
                                    "    }\n"
                                    "  }\n"
                                    "}\n";
    static const char *const functions[] = {"exp", "exp2", "erfc"};
    for (int i = 0; i < 6; i++) {
        const char *d = i < 3 ? "f32" : "f64", *f = functions[i % 3];
        int lanes = i < 3 ? 16 : 8, by = i % 3 == 2 ? i < 3 ? 3 : 7 : i < 3 ? 40 : 300;
        char text[400];
        snprintf(text, sizeof text, form, f, d, d, 4096 / lanes, lanes, lanes, f, lanes, d, by);
        kernel *k = ir_parse(h.qn, text);
        if (!k) FAIL("%s", qn_error(h.qn));
        if (!k) continue;
        math_expand(k);
        harness_run_kernel(&h, k, &(harness_case){.text = text, .seed = (uint64_t)i});
        if (h.compiler[0] == 'l' && ((cpu *)h.cpu)->isa.avx512)
            CHECK(count_in_ir(&h, k, "scalef") > 0);
        ir_close(k);
    }
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* Tables of 1, 2, 4, .. 32 entries, each looked up by numbers that are too large for it. */
static void add_tables(str *text, int d) {
    for (int t = 0; t < 6; t++) {
        str_addf(text, " table c%d %s {", t, qn_dtype_name((qn_dtype)d));
        for (int i = 0; i < 1 << t; i++) {
            int v = d == QN_BOOL ? i * (i + 1) / 2 % 2 ^ (t == 1) : (37 * i + t) % 120;
            str_addf(text, "%s%d%s", i ? ", " : "", v, dtype_is_float(d) ? ".5" : "");
        }
        str_add(text, "}\n");
    }
}

static void run_tables(int d, int lanes) {
    str text;
    str_open(&text, &h.qn->heap);
    str_add(&text, "kernel \"tables\" {\n dim n 1 4096\n arg a0 u32[n] read\n");
    int tables = d == QN_BOOL ? 2 : 6;
    for (int t = 0; t < tables; t++)
        str_addf(&text, " arg a%d %s[n] write\n", t + 1, qn_dtype_name((qn_dtype)d));
    if (d == QN_BOOL)
        str_add(&text, " table c0 bool {1, 0, 0, 1}\n table c1 bool {1, 0}\n");
    else
        add_tables(&text, d);
    if (lanes)
        str_addf(&text, " par i < (n + %d)/%d {\n vec v < min(%d, n - %d*i) {\n", lanes - 1, lanes,
                 lanes, lanes);
    else
        str_add(&text, " par i < n {\n");
    char at[24];
    snprintf(at, sizeof at, lanes ? "%d*i + v" : "i", lanes);
    for (int t = 0; t < tables; t++)
        str_addf(&text, "  a%d[%s] = lookup(c%d, a0[%s])\n", t + 1, at, t, at);
    str_add(&text, lanes ? " }\n }\n}\n" : " }\n}\n");
    run((harness_case){.text = text.s, .dim = {997}, .seed = (uint64_t)(d + lanes)});
    str_free(&text);
}

/* All lane counts, with registers of 512 bits and, where there are such, of 256. */
static void lookups_agree_on_every_dtype(void) {
    static const int lanes[] = {0, 16, 11, 2, 8, 32, 64};
    emit_llvm *owner = h.compiler[0] == 'l' ? ((cpu *)h.cpu)->llvm : NULL;
    for (int wide = 0; wide < (owner && ((cpu *)h.cpu)->isa.avx512 ? 2 : 1); wide++) {
        for (int d = 0; d < DTYPE_COUNT; d++)
            for (size_t i = 0; i < (is_cc ? 2 : COUNT_OF(lanes)); i++) run_tables(d, lanes[i]);
        if (owner) owner->isa.avx512 = !owner->isa.avx512;
    }
    if (owner) owner->isa.avx512 = ((cpu *)h.cpu)->isa.avx512;
}

/* tanh and erf look their coefficients up in registers: seven tables, nothing gathered, nothing
 * divided. In double precision they do not. */
static void functions_by_pieces_look_up_in_registers(void) {
    static const char *const name[] = {"tanh", "erf"};
    for (int i = 0; i < 4; i++) {
        char text[300];
        snprintf(text, sizeof text,
                 "kernel \"f\" {\n arg a0 %s[64] write\n arg a1 %s[64] read\n for i < 4 {\n"
                 " vec v < 16 {\n a0[16*i + v] = %s(a1[16*i + v])\n }\n }\n}\n",
                 i < 2 ? "f32" : "f64", i < 2 ? "f32" : "f64", name[i % 2]);
        kernel *k = ir_parse(h.qn, text);
        math_expand(k);
        CHECK_INT(k->tables, i < 2 ? 7 : 0);
        harness_run_kernel(&h, k, &(harness_case){.text = text});
        if (h.compiler[0] == 'l' && i < 2 && ((cpu *)h.cpu)->isa.avx2) {
            CHECK(count_in_ir(&h, k,
                              ((cpu *)h.cpu)->isa.avx512 ? "@llvm.x86.avx512.permvar"
                                                         : "@llvm.x86.avx2.perm") >= 7);
            CHECK_INT(count_in_ir(&h, k, "masked.gather"), 0);
            CHECK_INT(count_in_ir(&h, k, "fdiv"), 0);
        }
        ir_close(k);
    }
}

/* ---- dots ------------------------------------------------------------------------------------ */

/* Sums of products of bytes and of halves: the instruction where there is one, else multiply-adds
 * of halves, which give the same whole numbers; no product of words. */
static void dots_are_instructions_or_made_of_halves(void) {
    static const char *const form =
        "kernel \"dots\" {\n arg a0 i32[%d] write\n arg a1 %s[%d] read\n arg a2 %s[%d] read\n"
        " reg t0 i32[%d]\n for i < 5 {\n def t0 = i32(0)\n for k < 3 {\n vec v < %d {\n"
        " word p < %d {\n t0[v] += mul(cast:i32(a1[%d*v + p + %d*k]), cast:i32(a2[%d*v + p + "
        "%d*i]))\n }\n }\n }\n vec w < %d {\n a0[%d*i + w] = t0[w]\n }\n }\n}\n";
    const emit_isa *isa = &((cpu *)h.cpu)->isa;
    struct emit_llvm *owner = h.compiler[0] == 'l' ? ((cpu *)h.cpu)->llvm : NULL;
    for (int i = 0; i < 12; i++) {
        bool bytes = i % 2, none = i >= 6;
        int lanes = 4 << i / 2 % 3, p = bytes ? 4 : 2, n = lanes * p;
        char text[800];
        const char *left = bytes ? "u8" : "i16", *right = bytes ? "i8" : "i16";
        snprintf(text, sizeof text, form, 5 * lanes, left, 3 * n, right, 5 * n, lanes, lanes, p, p,
                 n, p, n, lanes, lanes);
        if (owner && none) owner->isa.vnni = false;
        for (uint64_t seed = 0; seed < (is_cc ? 1 : 20); seed++)
            run((harness_case){.text = text, .seed = seed});
        if (owner && isa->avx2 && (lanes < 16 || isa->avx512)) {
            kernel *k = ir_parse(h.qn, text);
            CHECK_INT(count_in_ir(&h, k, "mul <") + count_in_ir(&h, k, "mul nsw <"), 0);
            CHECK(count_in_ir(&h, k, isa->vnni && !none ? "call <" : ".pmadd") > 0);
            ir_close(k);
        }
        if (owner) owner->isa.vnni = isa->vnni;
    }
}

/* A table of 16 bytes is looked up in a register; places beyond it give 0, as a gather does. */
static void tables_of_bytes_are_looked_up_in_words(void) {
    static const char *const place[] = {"a1[%d*i + 4*v + p]", "and(a1[%d*i + 4*v + p], u8(31))",
                                        "and(shr(a1[%d*i + 4*v + p], u8(3)), u8(15))"};
    static const char *const form =
        "kernel \"codes\" {\n arg a0 i32[%d] write\n arg a1 u8[%d] read\n arg a2 u8[%d] read\n"
        " arg a3 i8[%d] read\n reg t0 i32[%d]\n for i < 3 {\n def t0 = i32(0)\n vec v < %d {\n"
        " word p < 4 {\n let x0 = cast:i64(%s)\n t0[v] += mul(cast:i32(a2[0; dyn=x0; "
        "guard=and(le(i64(0), x0), lt(x0, i64(%d)))]), cast:i32(a3[%d*i + 4*v + p]))\n }\n }\n"
        " vec w < %d {\n a0[%d*i + w] = t0[w]\n }\n }\n}\n";
    const emit_isa *isa = &((cpu *)h.cpu)->isa;
    for (int i = 0; i < 18; i++) {
        int lanes = 4 << i % 3, n = 4 * lanes, entries = i < 9 ? 16 : 15;
        char text[800], at[80];
        snprintf(at, sizeof at, place[i / 3 % 3], n);
        snprintf(text, sizeof text, form, 3 * lanes, 3 * n, entries, 3 * n, lanes, lanes, at,
                 entries, n, lanes, lanes);
        for (uint64_t seed = 0; seed < (is_cc ? 1 : 20); seed++)
            run((harness_case){.text = text, .seed = seed});
        if (h.compiler[0] != 'l' || !isa->avx2 || (lanes == 16 && !isa->avx512)) continue;
        kernel *k = ir_parse(h.qn, text);
        CHECK_INT(count_in_ir(&h, k, "pshuf.b") > 0, entries == 16);
        CHECK_INT(count_in_ir(&h, k, "uadd.sat") > 0, entries == 16 && i / 3 % 3 < 2);
        ir_close(k);
    }
}

/* And in vectors of bytes, of which 16 are a register. */
static void and_in_vectors_of_bytes(void) {
    static const char *const place[] = {"a1[%d*i + v]", "and(shr(a1[%d*i + v], u8(3)), u8(15))"};
    static const char *const form =
        "kernel \"codes\" {\n arg a0 %s[%d] write\n arg a1 u8[%d] read\n arg a2 %s[%d] read\n"
        " for i < 3 {\n vec v < %d {\n let x0 = cast:i64(%s)\n a0[%d*i + v] = %s(a2[0; dyn=x0; "
        "guard=and(le(i64(0), x0), lt(x0, i64(%d)))])\n }\n }\n}\n";
    /* What is no whole number in memory is another thing in a register, and is operated on. */
    static const char *const of[][3] = {{"u8", "u8", "not"},
                                        {"i8", "i8", "neg"},
                                        {"bool", "bool", "not"},
                                        {"f8_e4m3", "f32", "cast:f32"},
                                        {"f8_e5m2", "f32", "cast:f32"}};
    for (int j = 0; j < 16 * (int)COUNT_OF(of); j++) {
        const int i = j % 16, t = j / 16;
        int lanes = 4 << i % 4, entries = i < 8 ? 16 : 15;
        char text[800], at[80];
        snprintf(at, sizeof at, place[i / 4 % 2], lanes);
        snprintf(text, sizeof text, form, of[t][1], 3 * lanes, 3 * lanes, of[t][0], entries, lanes,
                 at, lanes, of[t][2], entries);
        for (uint64_t seed = 0; seed < (is_cc ? 1 : 20); seed++)
            run((harness_case){.text = text, .seed = seed});
        if (h.compiler[0] != 'l' || !((cpu *)h.cpu)->isa.avx2) continue;
        kernel *k = ir_parse(h.qn, text);
        CHECK_INT(count_in_ir(&h, k, "pshuf.b") > 0, entries == 16);
        CHECK_INT(count_in_ir(&h, k, "uadd.sat") > 0, entries == 16 && i / 4 % 2 == 0);
        ir_close(k);
    }
}

/* Two bytes that lie beside each other are one load, each lane its own where they lie apart. */
static void bytes_put_together_are_one_load(void) {
    static const struct {
        int apart, second, shift;
        bool one;
    } of[] = {{18, 1, 8, true}, {17, 1, 8, true},  {2, 1, 8, true},
              {0, 1, 8, true},  {18, 2, 8, false}, {18, 1, 4, false}};
    for (int i = 0; i < (int)COUNT_OF(of); i++)
        for (int lanes = 4; lanes <= 16; lanes *= 2) {
            char text[500];
            snprintf(text, sizeof text,
                     "kernel \"halves\" {\n arg a0 i32[48] write\n arg a1 u8[900] read\n"
                     " for i < %d {\n vec v < %d {\n a0[%d*i + v] = cast:i32(or(cast:u16(a1[%d*v + "
                     "%d*i]), shl(cast:u16(a1[%d*v + %d*i + %d]), u16(%d))))\n }\n }\n}\n",
                     48 / lanes, lanes, lanes, of[i].apart, 18 * lanes, of[i].apart, 18 * lanes,
                     of[i].second, of[i].shift);
            run((harness_case){.text = text});
            if (h.compiler[0] != 'l') continue;
            kernel *k = ir_parse(h.qn, text);
            CHECK_INT(count_in_ir(&h, k, "load i16") + count_in_ir(&h, k, " x i16>, ptr") > 0,
                      of[i].one);
            CHECK_INT(count_in_ir(&h, k, "masked.gather"), 0);
            ir_close(k);
        }
}

/* What was just stored to a tile is taken from the register, where nothing was written since: the
 * rows of a tile of 8, by the lanes, with another store in between or not. */
static void tiles_are_kept_in_registers(void) {
    static const char *const between[] = {"", "t0[i] = f32(3)\n",
                                          "vec x < 8 {\n t0[x] = mul(a1[8*i + x], f32(2))\n }\n"};
    static const bool kept[] = {true, false, true};
    static const char *const form =
        "kernel \"kept\" {\n arg a0 f32[64] write\n arg a1 f32[64] read\n local t0 f32[8]\n"
        " for i < 4 {\n def t0\n vec v < 8 {\n t0[v] = add(a1[8*i + v], f32(1))\n }\n %s"
        " vec w < 16 {\n a0[16*i + w] = t0[%s]\n }\n }\n}\n";
    static const char *const place[] = {"w/8", "6 + w/8", "w - 4*(w/4)", "2*(w/8) + w - 4*(w/4)"};
    for (int i = 0; i < 12; i++) {
        char text[600];
        snprintf(text, sizeof text, form, between[i / 4], place[i % 4]);
        for (uint64_t seed = 0; seed < (is_cc ? 1 : 5); seed++)
            run((harness_case){.text = text, .seed = seed});
        if (h.compiler[0] != 'l' || !((cpu *)h.cpu)->isa.avx512) continue;
        kernel *k = ir_parse(h.qn, text);
        const int loads =
            count_in_ir(&h, k, "load <8 x float>") + count_in_ir(&h, k, "load <16 x float>") +
            count_in_ir(&h, k, "load <2 x float>") + count_in_ir(&h, k, "load <4 x float>");
        CHECK_INT(loads == 1, kept[i / 4]);
        ir_close(k);
    }
}

/* ---- the order of instructions --------------------------------------------------------------- */

/* Loads stand before the stores beside them, but those of what was just stored. */
static void what_is_stored_is_computed_first(void) {
    static const char *const body[] = {
        "kernel \"apart\" {\n arg a0 f32[64] write\n arg a1 f32[64] read\n"
        " arg a2 f32[64] write\n arg a3 f32[64] read\n for i < 4 {\n vec v < 16 {\n"
        "  a0[16*i + v] = add(a1[16*i + v], f32(1))\n"
        "  a2[16*i + v] = add(a3[16*i + v], f32(2))\n }\n }\n}\n",
        "kernel \"read\" {\n arg a0 f32[64] read write\n arg a1 f32[64] read\n"
        " arg a2 f32[64] write\n for i < 4 {\n vec v < 16 {\n"
        "  a0[16*i + v] = add(a1[16*i + v], f32(1))\n"
        "  a2[16*i + v] = add(a0[16*i + v], f32(2))\n }\n }\n}\n"};
    for (int i = 0; i < 2; i++) {
        run((harness_case){.text = body[i]});
        if (h.compiler[0] != 'l') continue;
        kernel *k = ir_parse(h.qn, body[i]);
        str ir = text_in_ir(&h, k);
        const char *store = strstr(ir.s, "store <"), *load = strstr(ir.s, "load <");
        while (load && strstr(load + 1, "load <")) load = strstr(load + 1, "load <");
        CHECK(store && load && (load < store) == (i == 0));
        str_free(&ir);
        ir_close(k);
    }
}

/* Asking for lines changes nothing, wherever they are, and is no less than an instruction each. */
static void fetches_are_written_and_change_nothing(void) {
    static const char body[] =
        "kernel \"ask\" {\n arg a0 f32[64] write\n arg a1 f32[64] read\n local t0 f32[32]\n"
        " par i < 4 {\n"
        " unroll u < 3 {\n prefetch a1[16*i + 1000000*u]\n prefetch a0[16*i - 64*u]\n }\n"
        " def t0\n for j < 16 {\n t0[j] = a1[16*i + j]\n prefetch t0[j + 1000]\n }\n"
        " vec v < 16 {\n a0[16*i + v] = neg(t0[v])\n }\n }\n}\n";
    run((harness_case){.text = body});
    if (h.compiler[0] != 'l') return;
    kernel *k = ir_parse(h.qn, body);
    CHECK_INT(count_in_ir(&h, k, "call void @llvm.prefetch"), 7);
    CHECK(count_in_ir(&h, k, "i32 0, i32 3, i32 1)") > 0); /* a tile comes to the first cache */
    ir_close(k);
}

/* Rows that a guard leaves out or takes whole: a branch each where masks are slow, else masks. */
static void conditions_that_lanes_share_are_branches(void) {
    static const char *const types[] = {"f32", "f64", "i8", "f16"};
    emit_llvm *owner = h.compiler[0] == 'l' ? ((cpu *)h.cpu)->llvm : NULL;
    for (int c = 0; c < 16; c++) {
        const char *type = types[c % 4], *op = c & 4 ? "+=" : "=";
        int lanes = c & 8 ? 7 : 16;
        char text[768];
        snprintf(text, sizeof text,
                 "kernel \"rows\" {\n arg a0 %s[112] read write\n arg a1 i64[24] read\n"
                 " arg a2 %s[384] read\n for i < 24 {\n vec v < %d {\n"
                 " a0[v; dyn=mul(a1[i], i64(16)); guard=and(le(i64(0), a1[i]), lt(a1[i], i64(7)))] "
                 "%s a2[16*i + v]\n"
                 " }\n }\n}\n",
                 type, type, lanes, op);
        for (int wide = 0; wide < (owner && owner->isa.avx512 ? 2 : 1); wide++) {
            if (owner && wide) owner->isa.avx512 = false;
            run((harness_case){.text = text, .index = 10, .plain = true});
            kernel *k = owner ? ir_parse(h.qn, text) : NULL;
            CHECK(!owner || k);
            if (owner && !owner->isa.avx512) {
                if (lanes == 16)
                    CHECK_INT(count_in_ir(&h, k, "maskstore") + count_in_ir(&h, k, "masked.store"),
                              0);
                CHECK(count_in_ir(&h, k, "br i1") >= 2); /* a row's, and the loop's */
            }
            ir_close(k);
        }
        if (owner) owner->isa.avx512 = ((cpu *)h.cpu)->isa.avx512;
    }
}

/* Vectors of 14, 7, 3 lanes and so on: stored by up to three whole parts, else by a mask; backwards
 * and where an access has bounds of its own, too. */
static void odd_widths_are_stored_by_whole_parts(void) {
    static const char *const form = "kernel \"odd\" {\n"
                                    "  arg a0 %s[200] write\n"
                                    "  arg a1 %s[200] read\n"
                                    "  for i < 9 {\n"
                                    "    vec v < %d {\n"
                                    "      a0[%d*i + %s; valid=(%s >= 0)] = neg(a1[20*i + v])\n"
                                    "    }\n"
                                    "  }\n"
                                    "}\n";
    static const char *const dtypes[] = {"f32", "f64", "i8", "f16"};
    for (int width = 2; width <= 16; width++)
        for (int how = 0; how < 12; how++) {
            char text[500], last[40] = "v", valid[40] = "1";
            const char *d = dtypes[how % 4];
            if (how / 4 == 1) snprintf(last, sizeof last, "%d - v", width - 1);
            if (how / 4 == 2) snprintf(valid, sizeof valid, "v + i - 3");
            snprintf(text, sizeof text, form, d, d, width, width, last, valid);
            kernel *k = ir_parse(h.qn, text);
            if (!k) FAIL("%s", qn_error(h.qn));
            if (!is_cc && how == 0 && __builtin_popcount((unsigned)width) <= 3)
                CHECK_INT(count_in_ir(&h, k, "masked.store") + count_in_ir(&h, k, "maskstore"), 0);
            ir_close(k);
            run((harness_case){.text = text});
        }
}

/* What lies two to four elements apart, where edges are masked, comes by whole vectors. */
static void elements_apart_are_loaded_by_vectors_under_a_mask_too(void) {
    static const char *const dtype[] = {"f32", "f64", "i32", "i8"};
    for (int step = 2; step <= 4; step++)
        for (int d = 0; d < 4; d++) {
            int lanes = d == 1 ? 8 : 16;
            char text[600];
            snprintf(text, sizeof text,
                     "kernel \"apart\" {\n arg a0 %s[%d] write\n arg a1 %s[%d] read\n"
                     " for i < 5 {\n for r < 4 {\n vec v < %d {\n"
                     "  a0[%d*i + %d*r + v] = a1[%d*i + %d*v + r - 2; valid=(%d*i + %d*v + r - 2 "
                     ">= 0 and %d - %d*i - %d*v - r >= 0)]\n }\n }\n }\n}\n",
                     dtype[d], 20 * lanes, dtype[d], 5 * lanes * step - 3, lanes, 4 * lanes, lanes,
                     step * lanes, step, step * lanes, step, 5 * lanes * step - 2, step * lanes,
                     step);
            run((harness_case){.text = text, .seed = (uint64_t)(4 * step + d)});
            kernel *k = ir_parse(h.qn, text);
            if (!k) FAIL("%s", qn_error(h.qn));
            if (k && h.compiler[0] == 'l' && ((cpu *)h.cpu)->isa.avx2 && d < 3)
                CHECK_INT(count_in_ir(&h, k, "masked.gather"), 0);
            if (k) ir_close(k);
        }
}

static void every_test(void) {
    RUN(odd_widths_are_stored_by_whole_parts);
    RUN(elements_apart_are_loaded_by_vectors_under_a_mask_too);
    RUN(what_was_made_in_a_loop_is_not_there_before_it);
    RUN(powers_of_two_scale_at_once);
    RUN(lookups_agree_on_every_dtype);
    RUN(functions_by_pieces_look_up_in_registers);
    RUN(dots_are_instructions_or_made_of_halves);
    RUN(tables_of_bytes_are_looked_up_in_words);
    RUN(and_in_vectors_of_bytes);
    RUN(tiles_are_kept_in_registers);
    RUN(bytes_put_together_are_one_load);
    RUN(what_is_stored_is_computed_first);
    RUN(fetches_are_written_and_change_nothing);
    RUN(conditions_that_lanes_share_are_branches);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    static const char *const compilers[] = {"llvm", "cc", "opencl"};
    for (size_t i = 0; i < COUNT_OF(compilers); i++) {
        is_cc = i > 0;
        if (harness_open(&h, compilers[i], 2))
            every_test();
        else
            test_state.skipped++;
        harness_close(&h);
    }
    return test_end();
}
