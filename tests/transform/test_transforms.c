/* test_transforms.c - every transform on its own: the expected kernel is written out by hand from
 * its definition; the interpreter checks that the result stays. */
#include "ir_cases.h"
#include "transform/transform.h"

/* ---- split and merge ------------------------------------------------------------------------ */

static void split_by_a_divisor_gives_constant_extents(void) {
    BECOMES(copy_10, "split i 5 -> o n",
            "kernel \"copy\" {\n"
            "  arg a0 f32[10] write\n"
            "  arg a1 f32[10] read\n"
            "  for o < 2 {\n"
            "    for n < 5 {\n"
            "      a0[n + 5*o] = a1[n + 5*o]\n"
            "    }\n"
            "  }\n"
            "}\n");
}

static void split_elsewhere_cuts_the_last_trip_short(void) {
    BECOMES(copy_10, "split i 4 # names are made up",
            "kernel \"copy\" {\n"
            "  arg a0 f32[10] write\n"
            "  arg a1 f32[10] read\n"
            "  for io < 3 {\n"
            "    for ii < 2*min(-3, -2*io) + 10 {\n"
            "      a0[ii + 4*io] = a1[ii + 4*io]\n"
            "    }\n"
            "  }\n"
            "}\n");
}

static void split_is_refused_for_bound_loops_and_taken_names(void) {
    REFUSES(grid, "", "split i 2 -> j n", "taken");
    REFUSES(grid, "", "split i 2 -> n n", "one name");
    REFUSES(grid, "", "split i 0", "number from 1");
    REFUSES(grid, "unroll j", "split j 2", "serial or parallel");
    REFUSES(grid, "", "split q 2", "no loop");
    REFUSES(grid, "", "splat i 2", "no transform");
    REFUSES(grid, "", "split i 2 3", "takes no \"3\"");
}

static void merge_undoes_split(void) {
    BECOMES(copy_10, "split i 5 -> o n\nmerge o n -> i", copy_10);
}

static void merge_divides_where_memory_is_not_walked_in_step(void) {
    BECOMES(grid, "merge i j -> m",
            "kernel \"grid\" {\n"
            "  arg a0 f32[12] write\n"
            "  arg a1 f32[12] read\n"
            "  for m < 12 {\n"
            "    a0[m] = neg(a1[4*m - 11*(m/3)])\n"
            "  }\n"
            "}\n");
}

/* Each row has n(n - 2) + t numbers: positive for all n and t, but not by its terms' ranges. */
static void merge_is_refused_where_the_inner_extent_may_be_no_divisor(void) {
    REFUSES("kernel \"rows\" {\n"
            "  dim n 3 100\n"
            "  dim t 1 9\n"
            "  arg a0 f32[4*n*n - 8*n + 4*t] write\n"
            "  arg a1 f32[4*n*n - 8*n + 4*t] read\n"
            "  for i < 4 {\n"
            "    for j < n*n - 2*n + t {\n"
            "      a0[i*n*n - 2*i*n + i*t + j] = a1[i*n*n - 2*i*n + i*t + j]\n"
            "    }\n"
            "  }\n"
            "}\n",
            "", "merge i j", "range does not say that it is positive");
}

static void merge_divides_by_a_product_of_positive_factors(void) {
    KEEPS("kernel \"rows\" {\n"
          "  dim n 3 100\n"
          "  arg a0 f32[4*n*n - 8*n] write\n"
          "  arg a1 f32[4*n*n - 8*n] read\n"
          "  for i < 4 {\n"
          "    for j < n*n - 2*n {\n"
          "      a0[i*n*n - 2*i*n + j] = a1[i*n*n - 2*i*n + j]\n"
          "    }\n"
          "  }\n"
          "}\n",
          "merge i j");
}

static void merge_is_refused_for_imperfect_and_dependent_nests(void) {
    REFUSES(row_sum, "", "merge i k", "not all that the outer");
    REFUSES(copy_10, "split i 4 -> o n", "merge o n", "depends on the outer");
    REFUSES(grid, "unroll j", "merge i j", "serial");
}

/* ---- swap ----------------------------------------------------------------------------------- */

static void swap_exchanges_loops(void) {
    BECOMES(grid, "swap i j",
            "kernel \"grid\" {\n"
            "  arg a0 f32[12] write\n"
            "  arg a1 f32[12] read\n"
            "  for j < 3 {\n"
            "    for i < 4 {\n"
            "      a0[3*i + j] = neg(a1[i + 4*j])\n"
            "    }\n"
            "  }\n"
            "}\n");
}

static void swap_may_reorder_updates_but_not_stores(void) {
    static const char last_wins[] = "kernel \"last\" {\n"
                                    "  arg a0 f32[8] write\n"
                                    "  arg a1 f32[12] read\n"
                                    "  for i < 4 {\n"
                                    "    for j < 3 {\n"
                                    "      a0[i + j] = a1[3*i + j]\n"
                                    "    }\n"
                                    "  }\n"
                                    "}\n";
    REFUSES(last_wins, "", "swap i j", "same element of a0");
    KEEPS("kernel \"all\" {\n"
          "  arg a0 f32[8] read write\n"
          "  arg a1 f32[12] read\n"
          "  for i < 4 {\n"
          "    for j < 3 {\n"
          "      a0[i + j] += a1[3*i + j]\n"
          "    }\n"
          "  }\n"
          "}\n",
          "swap i j");
    /* the last of each row: rows stay apart, the order within them stays */
    KEEPS("kernel \"rows\" {\n"
          "  arg a0 f32[4] write\n"
          "  arg a1 f32[12] read\n"
          "  for i < 4 {\n"
          "    for j < 3 {\n"
          "      a0[i] = a1[3*i + j]\n"
          "    }\n"
          "  }\n"
          "}\n",
          "swap i j");
}

/* Trips j of one i store to different elements, i + 1 apart; those of another i by another
 * number. */
static const char wedge[] = "kernel \"wedge\" {\n"
                            "  arg a0 f32[24] write\n"
                            "  arg a1 f32[24] read\n"
                            "  for i < 3 {\n"
                            "    for j < 8 {\n"
                            "      a0[j*i + j] = a1[8*i + j]\n"
                            "    }\n"
                            "  }\n"
                            "}\n";

static void swap_is_refused_where_a_stride_differs_from_trip_to_trip(void) {
    REFUSES(wedge, "", "swap i j", "a0");
    REFUSES(wedge, "vec j", "swap i j", "a0");
}

static void swap_is_refused_where_trips_depend_on_each_other(void) {
    REFUSES(recurrence, "", "swap i j", "same element");
    REFUSES(row_sum, "", "swap i k", "not all that the outer");
    REFUSES(copy_10, "split i 4 -> o n", "swap o n", "depends on the outer");
    REFUSES(grid, "par i", "swap i j", "root");
    KEEPS(scatter, "swap i j");
}

/* ---- pad ------------------------------------------------------------------------------------ */

static void pad_switches_off_what_outlives_a_trip(void) {
    BECOMES("kernel \"row_max\" {\n"
            "  arg a0 f32[4] write\n"
            "  arg a1 f32[24] read\n"
            "  local t0 f32[1]\n"
            "  for i < 4 {\n"
            "    def t0 = f32(-inf)\n"
            "    for k < 6 {\n"
            "      t0[0] max= a1[6*i + k]\n"
            "    }\n"
            "    a0[i] = t0[0]\n"
            "  }\n"
            "}\n",
            "pad i 3\npad k 4",
            "kernel \"row_max\" {\n"
            "  arg a0 f32[4] write\n"
            "  arg a1 f32[24] read\n"
            "  local t0 f32[1]\n"
            "  for i < 6 {\n"
            "    def t0 = f32(-inf)\n"
            "    for k < 8 {\n"
            "      t0[0; valid=(5 - k >= 0)] max= a1[6*i + k; valid=(3 - i >= 0 and 5 - k >= 0)]\n"
            "    }\n"
            "    a0[i; valid=(3 - i >= 0)] = t0[0]\n"
            "  }\n"
            "}\n");
}

static void pad_lets_sums_go_on_that_add_nothing(void) {
    BECOMES(row_sum, "pad i 3\npad k 4",
            "kernel \"row_sum\" {\n"
            "  arg a0 f32[4] write\n"
            "  arg a1 f32[24] read\n"
            "  local t0 f32[1]\n"
            "  for i < 6 {\n"
            "    def t0 = f32(0)\n"
            "    for k < 8 {\n"
            "      t0[0] += a1[6*i + k; valid=(3 - i >= 0 and 5 - k >= 0)]\n"
            "    }\n"
            "    a0[i; valid=(3 - i >= 0)] = t0[0]\n"
            "  }\n"
            "}\n");
}

static void pad_is_refused_where_inner_trips_depend_on_the_loop(void) {
    REFUSES(copy_10, "split i 4 -> o n", "pad o 2", "depends on the loop");
    REFUSES(grid, "vec j", "pad j 4", "serial or parallel");
}

/* ---- peel ----------------------------------------------------------------------------------- */

static void peel_separates_full_iterations(void) {
    BECOMES(copy_10, "split i 4 -> o n\npeel o",
            "kernel \"copy\" {\n"
            "  arg a0 f32[10] write\n"
            "  arg a1 f32[10] read\n"
            "  for o < 2 {\n"
            "    for n < 4 {\n"
            "      a0[n + 4*o] = a1[n + 4*o]\n"
            "    }\n"
            "  }\n"
            "  for o_1 < 1 {\n"
            "    for n_1 < 2 {\n"
            "      a0[n_1 + 8] = a1[n_1 + 8]\n"
            "    }\n"
            "  }\n"
            "}\n");
}

/* Items of blocks, the rest of each apart: no two of them meet, whatever n is. */
static void peeling_keeps_parallel_iterations_independent(void) {
    KEEPS("kernel \"copy\" {\n"
          "  dim n 3 100\n"
          "  arg a0 f32[n] write\n"
          "  arg a1 f32[n] read\n"
          "  for i < n {\n"
          "    a0[i] = a1[i]\n"
          "  }\n"
          "}\n",
          "pad i 4\nsplit i 4 -> o w\nsplit o 3 -> p q\npar p\npeel q\nvec w\nvec w_1");
    KEEPS(copy_10, "split i 4 -> o w\nsplit o 2 -> p q\npar p\npeel q");
}

static void peel_takes_masks_off_full_iterations(void) {
    BECOMES(copy_10, "pad i 4\nsplit i 4 -> o n\npeel o",
            "kernel \"copy\" {\n"
            "  arg a0 f32[10] write\n"
            "  arg a1 f32[10] read\n"
            "  for o < 2 {\n"
            "    for n < 4 {\n"
            "      a0[n + 4*o] = a1[n + 4*o]\n"
            "    }\n"
            "  }\n"
            "  for o_1 < 1 {\n"
            "    for n_1 < 4 {\n"
            "      a0[n_1 + 8; valid=(1 - n_1 >= 0)] = a1[n_1 + 8; valid=(1 - n_1 >= 0)]\n"
            "    }\n"
            "  }\n"
            "}\n");
}

static void peel_gives_the_rest_tiles_of_its_own(void) {
    BECOMES(row_sum, "pad i 3\nsplit i 3 -> o n\npeel o",
            "kernel \"row_sum\" {\n"
            "  arg a0 f32[4] write\n"
            "  arg a1 f32[24] read\n"
            "  local t0 f32[1]\n"
            "  local t1 f32[1]\n"
            "  for o < 1 {\n"
            "    for n < 3 {\n"
            "      def t0 = f32(0)\n"
            "      for k < 6 {\n"
            "        t0[0] += a1[k + 6*n]\n"
            "      }\n"
            "      a0[n] = t0[0]\n"
            "    }\n"
            "  }\n"
            "  for o_1 < 1 {\n"
            "    for n_1 < 3 {\n"
            "      def t1 = f32(0)\n"
            "      for k_1 < 6 {\n"
            "        t1[0] += a1[k_1 + 6*n_1 + 18; valid=(-n_1 >= 0)]\n"
            "      }\n"
            "      a0[n_1 + 3; valid=(-n_1 >= 0)] = t1[0]\n"
            "    }\n"
            "  }\n"
            "}\n");
}

static void peel_is_refused_where_nothing_is_cut_short(void) {
    REFUSES(grid, "", "peel i", "nothing in the loop");
    REFUSES(copy_10, "split i 16 -> o n", "peel o", "cut short");
    REFUSES(copy_10, "split i 4 -> o n\npar o", "peel o", "serial");
}

/* ---- align ---------------------------------------------------------------------------------- */

static const char odd_rows[] = "kernel \"rows\" {\n"
                               "  arg a0 f32[60] write\n"
                               "  arg a1 f32[60] read\n"
                               "  for j < 3 {\n"
                               "    for i < 20 {\n"
                               "      a0[20*j + i] = a1[3*i + j]\n"
                               "    }\n"
                               "  }\n"
                               "}\n";

static void align_separates_what_fills_lines(void) {
    BECOMES(odd_rows, "align i a0 8",
            "kernel \"rows\" {\n"
            "  arg a0 f32[60] write\n"
            "  arg a1 f32[60] read\n"
            "  for j < 3 {\n"
            "    for i_1 < -4*j + 8*((j + 1)/2) {\n"
            "      a0[i_1 + 20*j] = a1[3*i_1 + j]\n"
            "    }\n"
            "    for i < 16 {\n"
            "      a0[i + 16*j + 8*((j + 1)/2)] = a1[3*i - 11*j + 24*((j + 1)/2)]\n"
            "    }\n"
            "    for i_2 < 4*j - 8*((j + 1)/2) + 4 {\n"
            "      a0[i_2 + 16*j + 8*((j + 1)/2) + 16] = a1[3*i_2 - 11*j + 24*((j + 1)/2) + 48]\n"
            "    }\n"
            "  }\n"
            "}\n");
    for (int n = 2; n <= 21; n++) {
        char line[40];
        snprintf(line, sizeof line, "align i a0 %d", n);
        if (20 % n) KEEPS(odd_rows, line);
    }
    KEEPS(odd_rows, "align i a0 8\nsplit i 8 -> o v\nvec v");
    KEEPS("kernel \"tail\" {\n"
          "  dim n 20 100\n"
          "  arg a0 f32[4*n] write\n"
          "  arg a1 f32[4*n] read\n"
          "  for j < 4 {\n"
          "    for i < n {\n"
          "      a0[n*j + i] = neg(a1[n*j + i])\n"
          "    }\n"
          "  }\n"
          "}\n",
          "align i a0 16\nsplit i 16 -> o v\nvec v");
}

static void align_is_refused_where_no_line_is_known(void) {
    REFUSES(odd_rows, "", "align i a0 4", "begins with a whole line");
    REFUSES(odd_rows, "", "align j a0 8", "element by element");
    REFUSES(odd_rows, "", "align i a1 8", "does not store to it");
    REFUSES(odd_rows, "", "align i a0 32", "fewer trips");
    REFUSES(odd_rows, "unroll i", "align i a0 8", "serial");
    REFUSES(
        "kernel \"none\" {\n  arg a0 f32[60] write\n  arg a1 f32[60] read\n"
        "  for j < 0 {\n    for i < 4 {\n      a0[11*j + 28 + i] = a1[2*i + j]\n    }\n  }\n}\n",
        "", "align i a0 6", "fewer trips");
    REFUSES(odd_rows, "swap j i", "align i a0 8", "depends on a loop inside");
}

/* ---- bind ----------------------------------------------------------------------------------- */

static void par_needs_root_loops_that_share_nothing(void) {
    KEEPS(grid, "par i");
    KEEPS(product, "par i");
    KEEPS(row_sum, "par i");
    KEEPS(product, "swap i j\npar j"); /* columns: apart modulo the row's length */
    KEEPS(product, "split j 3 -> jo ji\nswap i jo\npar jo");
    KEEPS(scatter, "swap i j\npar j"); /* the index modulo 4 tells j */
    REFUSES(grid, "", "par j", "root");
    REFUSES(scatter, "", "par i", "same element of a0");
    REFUSES(recurrence, "", "par i", "same element of a0");
    REFUSES("kernel \"sum\" {\n"
            "  arg a0 f32[1] read write\n"
            "  arg a1 f32[9] read\n"
            "  for i < 9 {\n"
            "    a0[0] += a1[i]\n"
            "  }\n"
            "}\n",
            "", "par i", "same element of a0");
}

static void nontemporal_is_for_arguments_only_written(void) {
    KEEPS(grid, "nontemporal a0");
    REFUSES(grid, "", "nontemporal a1", "written and not read");
    REFUSES(grid, "nontemporal a0", "nontemporal a0", "written and not read");
    REFUSES(row_sum, "", "nontemporal t0", "written and not read");
}

static void par_in_place_needs_the_same_index(void) {
    KEEPS("kernel \"in place\" {\n"
          "  arg a0 f32[9] read write\n"
          "  for i < 9 {\n"
          "    a0[i] = mul(a0[i], f32(2))\n"
          "  }\n"
          "}\n",
          "par i");
    REFUSES("kernel \"reversed\" {\n"
            "  arg a0 f32[9] read write\n"
            "  for i < 9 {\n"
            "    a0[i] = mul(a0[-i + 8], f32(2))\n"
            "  }\n"
            "}\n",
            "", "par i", "same element of a0");
}

static void par_needs_roots_that_do_not_depend_on_each_other(void) {
    static const char two[] = "kernel \"two\" {\n"
                              "  arg a0 f32[9] read write\n"
                              "  arg a1 f32[9] write\n"
                              "  for i < 9 {\n"
                              "    a0[i] = f32(1)\n"
                              "  }\n"
                              "  for j < 9 {\n"
                              "    a1[j] = a0[j]\n"
                              "  }\n"
                              "}\n";
    static const char apart[] = "kernel \"apart\" {\n"
                                "  arg a0 f32[9] write\n"
                                "  arg a1 f32[9] write\n"
                                "  arg a2 f32[9] read\n"
                                "  for i < 9 {\n"
                                "    a0[i] = a2[i]\n"
                                "  }\n"
                                "  for j < 9 {\n"
                                "    a1[j] = a2[-j + 8]\n"
                                "  }\n"
                                "}\n";
    REFUSES(two, "", "par i", "depend on each other");
    KEEPS(apart, "par j\npar i");
}

/* Whichever comes last, the memory holds the same. */
static void par_lets_roots_store_the_same_constant(void) {
    static const char *const last[] = {"f32(0)", "f32(1)", "a1[0]"};
    for (int i = 0; i < 3; i++) {
        char text[400];
        snprintf(text, sizeof text,
                 "kernel \"fill\" {\n"
                 "  arg a0 f32[9] write\n"
                 "  arg a1 f32[9] read\n"
                 "  for i < 9 {\n"
                 "    a0[i] = f32(0)\n"
                 "  }\n"
                 "  for j < 4 {\n"
                 "    a0[2*j + 1] = %s\n"
                 "  }\n"
                 "}\n",
                 last[i]);
        if (i)
            REFUSES(text, "", "par i", "depend on each other");
        else
            KEEPS(text, "par j\npar i");
    }
}

static void vec_needs_lanes_without_dependences(void) {
    KEEPS(grid, "vec j");
    KEEPS(grid, "vec i");
    KEEPS(row_sum, "vec k"); /* a horizontal reduction */
    KEEPS(argmax, "vec k");
    KEEPS(copy_10, "split i 4 -> o n\nvec n"); /* a masked tail */
    KEEPS(scatter, "vec j");
    REFUSES(scatter, "", "vec i", "same element of a0");
    REFUSES(recurrence, "", "vec i", "same element of a0");
    REFUSES(recurrence, "", "vec j", "one element");
    REFUSES(row_sum, "", "vec i", "tile is defined inside");
    REFUSES(grid, "vec i", "vec j", "around it");
    REFUSES(grid, "vec j", "vec i", "inside it");
    REFUSES(copy_10, "split i 4 -> o n", "vec o", "differ in trips");
    REFUSES("kernel \"long\" {\n"
            "  arg a0 f32[65] write\n"
            "  for i < 65 {\n"
            "    a0[i] = f32(1)\n"
            "  }\n"
            "}\n",
            "", "vec i", "lanes");
}

static void unroll_needs_a_constant_extent(void) {
    KEEPS(row_sum, "unroll k");
    REFUSES(copy_10, "split i 4 -> o n", "unroll n", "not constant");
    KEEPS(row_sum, "unroll k\nserial k");
}

/* ---- accumulate ------------------------------------------------------------------------------ */

static void accumulate_moves_a_loop_inside_its_reduction(void) {
    BECOMES(product, "accumulate t0 j",
            "kernel \"product\" {\n"
            "  arg a0 f32[35] read\n"
            "  arg a1 f32[56] read\n"
            "  arg a2 f32[40] write\n"
            "  local t0 f32[8]\n"
            "  for i < 5 {\n"
            "    def t0 = f32(0)\n"
            "    for k < 7 {\n"
            "      for j < 8 {\n"
            "        t0[j] += mul(a0[7*i + k], a1[j + 8*k])\n"
            "      }\n"
            "    }\n"
            "    for j_1 < 8 {\n"
            "      a2[8*i + j_1] = abs(t0[j_1])\n"
            "    }\n"
            "  }\n"
            "}\n");
}

static void accumulate_twice_makes_a_register_tile(void) {
    BECOMES(product, "split i 5 -> io ii\naccumulate t0 j\naccumulate t0 ii",
            "kernel \"product\" {\n"
            "  arg a0 f32[35] read\n"
            "  arg a1 f32[56] read\n"
            "  arg a2 f32[40] write\n"
            "  local t0 f32[40]\n"
            "  for io < 1 {\n"
            "    def t0 = f32(0)\n"
            "    for k < 7 {\n"
            "      for ii < 5 {\n"
            "        for j < 8 {\n"
            "          t0[8*ii + j] += mul(a0[7*ii + k], a1[j + 8*k])\n"
            "        }\n"
            "      }\n"
            "    }\n"
            "    for ii_1 < 5 {\n"
            "      for j_1 < 8 {\n"
            "        a2[8*ii_1 + j_1] = abs(t0[8*ii_1 + j_1])\n"
            "      }\n"
            "    }\n"
            "  }\n"
            "}\n");
}

static void accumulate_takes_all_states_and_initial_values(void) {
    BECOMES(argmax, "accumulate t1 i",
            "kernel \"argmax\" {\n"
            "  arg a0 f32[3] write\n"
            "  arg a1 i64[3] write\n"
            "  arg a2 f32[24] read\n"
            "  local t0 f32[3]\n"
            "  local t1 i64[3]\n"
            "  def t0 = f32(-inf)\n"
            "  def t1 = i64(9223372036854775807)\n"
            "  for k < 8 {\n"
            "    for i < 3 {\n"
            "      (t0, t1)[i] argmax= a2[8*i + k], idx(k)\n"
            "    }\n"
            "  }\n"
            "  for i_1 < 3 {\n"
            "    a0[i_1] = t0[i_1]\n"
            "    a1[i_1] = t1[i_1]\n"
            "  }\n"
            "}\n");
    BECOMES("kernel \"from\" {\n"
            "  arg a0 f32[4] write\n"
            "  arg a1 f32[4] read\n"
            "  local t0 f32[1]\n"
            "  for i < 4 {\n"
            "    def t0 = a1[i]\n"
            "    for k < 3 {\n"
            "      t0[0] *= a1[k]\n"
            "    }\n"
            "    a0[i] = t0[0]\n"
            "  }\n"
            "}\n",
            "accumulate t0 i",
            "kernel \"from\" {\n"
            "  arg a0 f32[4] write\n"
            "  arg a1 f32[4] read\n"
            "  local t0 f32[4]\n"
            "  def t0\n"
            "  for i < 4 {\n"
            "    t0[i] = a1[i]\n"
            "  }\n"
            "  for k < 3 {\n"
            "    for i_1 < 4 {\n"
            "      t0[i_1] *= a1[k]\n"
            "    }\n"
            "  }\n"
            "  for i_2 < 4 {\n"
            "    a0[i_2] = t0[i_2]\n"
            "  }\n"
            "}\n");
}

static void accumulate_is_refused_for_carried_dependences(void) {
    REFUSES(product, "", "accumulate t0 i", "not defined in that loop");
    REFUSES(row_sum, "par i", "accumulate t0 i", "serial or unrolled");
    REFUSES("kernel \"carried\" {\n"
            "  arg a0 f32[5] read write\n"
            "  local t0 f32[1]\n"
            "  for i < 4 {\n"
            "    def t0 = f32(0)\n"
            "    for k < 3 {\n"
            "      t0[0] += a0[i]\n"
            "    }\n"
            "    a0[i + 1] = t0[0]\n"
            "  }\n"
            "}\n",
            "", "accumulate t0 i", "same element of a0");
}

/* ---- rfactor --------------------------------------------------------------------------------- */

static void rfactor_gives_each_iteration_its_element(void) {
    BECOMES(row_sum, "split k 2 -> ko ki\nrfactor t0 ki",
            "kernel \"row_sum\" {\n"
            "  arg a0 f32[4] write\n"
            "  arg a1 f32[24] read\n"
            "  local t0 f32[1]\n"
            "  local t1 f32[2]\n"
            "  for i < 4 {\n"
            "    def t0 = f32(0)\n"
            "    def t1 = f32(0)\n"
            "    for ko < 3 {\n"
            "      for ki < 2 {\n"
            "        t1[ki] += a1[6*i + ki + 2*ko]\n"
            "      }\n"
            "    }\n"
            "    for ki_1 < 2 {\n"
            "      t0[0] += t1[ki_1]\n"
            "    }\n"
            "    a0[i] = t0[0]\n"
            "  }\n"
            "}\n");
}

static void rfactor_twice_combines_whole_vectors(void) {
    BECOMES(row_sum, "split k 2 -> ko ki\nrfactor t0 ki\nrfactor t1 ko",
            "kernel \"row_sum\" {\n"
            "  arg a0 f32[4] write\n"
            "  arg a1 f32[24] read\n"
            "  local t0 f32[1]\n"
            "  local t1 f32[2]\n"
            "  local t2 f32[6]\n"
            "  for i < 4 {\n"
            "    def t0 = f32(0)\n"
            "    def t1 = f32(0)\n"
            "    def t2 = f32(0)\n"
            "    for ko < 3 {\n"
            "      for ki < 2 {\n"
            "        t2[ki + 2*ko] += a1[6*i + ki + 2*ko]\n"
            "      }\n"
            "    }\n"
            "    for ko_1 < 3 {\n"
            "      for ko_e < 2 {\n"
            "        t1[ko_e] += t2[2*ko_1 + ko_e]\n"
            "      }\n"
            "    }\n"
            "    for ki_1 < 2 {\n"
            "      t0[0] += t1[ki_1]\n"
            "    }\n"
            "    a0[i] = t0[0]\n"
            "  }\n"
            "}\n");
}

static void rfactor_keeps_indices_with_their_values(void) {
    KEEPS(argmax, "pad k 3\nsplit k 3 -> ko ki\nrfactor t0 ki\nvec ki");
}

static void rfactor_is_refused_where_the_tile_does_more(void) {
    REFUSES(row_sum, "", "rfactor t0 i", "does not live through");
    REFUSES("kernel \"running\" {\n"
            "  arg a0 f32[6] write\n"
            "  arg a1 f32[6] read\n"
            "  local t0 f32[1]\n"
            "  def t0 = f32(0)\n"
            "  for k < 6 {\n"
            "    t0[0] += a1[k]\n"
            "    a0[k] = t0[0]\n"
            "  }\n"
            "}\n",
            "", "rfactor t0 k", "not only updated");
}

/* ---- whole schedules ------------------------------------------------------------------------ */

static void matrix_product_gets_its_register_tile(void) {
    KEEPS(product,
          "pad i 2\npad j 4\nsplit i 2 -> io ii\nsplit j 4 -> jo ji\n"
          "split ji 2 -> ju jv\nswap ii jo\nswap io jo\naccumulate t0 jv\naccumulate t0 ju\n"
          "accumulate t0 ii\nstage a1 jo k ju jv\nstage a0 io k ii\nvec jv\nvec jv_1\n"
          "vec jv_2\nunroll ju\nunroll ju_1\nunroll ii\nunroll ii_1\npar jo");
}

static void refused_schedule_is_taken_back_whole(void) {
    str why;
    str_open(&why, &ctx.heap);
    kernel *k = parse(grid);
    CHECK_INT(transform_lines(k, "swap i j\n\n# nothing\nvec j\nvec i\n", &why), -5);
    CHECK(why.s && strstr(why.s, "around it"));
    check_text(__LINE__, k, grid);
    CHECK_INT(transform_lines(k, "swap i j\n\n# nothing\nvec i\n", &why), 2);
    ir_close(k);
    str_free(&why);
}

/* Each line is legal by itself, but what it leaves is not to be proved. */
static void unproved_schedule_is_taken_back_whole(void) {
    static const char text[] = "kernel \"laid\" {\n"
                               "  arg a0 i64[8] write\n"
                               "  arg a1 i64[8] read\n"
                               "  local t0 i64[8]\n"
                               "  def t0\n"
                               "  vec i < 8 {\n"
                               "    t0[i] = a1[i]\n"
                               "  }\n"
                               "  for j < 8 {\n"
                               "    a0[j] = t0[j]\n"
                               "  }\n"
                               "}\n";
    kernel *k = parse(text);
    CHECK(transform_apply(k, "transform_layout t0 2", NULL));
    ir_close(k);
    k = parse(text);
    CHECK_INT(transform_lines(k, "transform_layout t0 2\n", NULL), -1);
    check_text(__LINE__, k, text);
    ir_close(k);
}

static void all(void) {
    RUN(split_by_a_divisor_gives_constant_extents);
    RUN(split_elsewhere_cuts_the_last_trip_short);
    RUN(split_is_refused_for_bound_loops_and_taken_names);
    RUN(merge_undoes_split);
    RUN(merge_divides_where_memory_is_not_walked_in_step);
    RUN(merge_is_refused_where_the_inner_extent_may_be_no_divisor);
    RUN(merge_divides_by_a_product_of_positive_factors);
    RUN(merge_is_refused_for_imperfect_and_dependent_nests);
    RUN(swap_exchanges_loops);
    RUN(swap_may_reorder_updates_but_not_stores);
    RUN(swap_is_refused_where_a_stride_differs_from_trip_to_trip);
    RUN(swap_is_refused_where_trips_depend_on_each_other);
    RUN(pad_switches_off_what_outlives_a_trip);
    RUN(pad_lets_sums_go_on_that_add_nothing);
    RUN(pad_is_refused_where_inner_trips_depend_on_the_loop);
    RUN(peel_separates_full_iterations);
    RUN(peeling_keeps_parallel_iterations_independent);
    RUN(peel_takes_masks_off_full_iterations);
    RUN(peel_gives_the_rest_tiles_of_its_own);
    RUN(peel_is_refused_where_nothing_is_cut_short);
    RUN(align_separates_what_fills_lines);
    RUN(align_is_refused_where_no_line_is_known);
    RUN(par_needs_root_loops_that_share_nothing);
    RUN(nontemporal_is_for_arguments_only_written);
    RUN(par_in_place_needs_the_same_index);
    RUN(par_needs_roots_that_do_not_depend_on_each_other);
    RUN(par_lets_roots_store_the_same_constant);
    RUN(vec_needs_lanes_without_dependences);
    RUN(unroll_needs_a_constant_extent);
    RUN(accumulate_moves_a_loop_inside_its_reduction);
    RUN(accumulate_twice_makes_a_register_tile);
    RUN(accumulate_takes_all_states_and_initial_values);
    RUN(accumulate_is_refused_for_carried_dependences);
    RUN(rfactor_gives_each_iteration_its_element);
    RUN(rfactor_twice_combines_whole_vectors);
    RUN(rfactor_keeps_indices_with_their_values);
    RUN(rfactor_is_refused_where_the_tile_does_more);
    RUN(matrix_product_gets_its_register_tile);
    RUN(refused_schedule_is_taken_back_whole);
    RUN(unproved_schedule_is_taken_back_whole);
}

int main(int argc, char **argv) {
    return run_raising(argc, argv, all);
}
