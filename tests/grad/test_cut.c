/* test_cut.c - what the gradient of a loop keeps of each trip: the least memory by which the rest
 * can be computed again, against all choices that there are; and that loops ask for it. */
#include "grad/grad.h"
#include "test.h"

enum { NODES = 10 };

typedef struct question {
    uint64_t size[NODES];
    bool given[NODES], wanted[NODES];
    cut_use use[2 * NODES];
    uint32_t uses;
} question;

/* Two sources a node at most, all before it; nodes that nothing given comes to cost nothing. */
static question random_question(uint64_t *rand) {
    question q = {.uses = 0};
    for (uint32_t i = 0; i < NODES; i++) {
        bool follows = q.given[i] = i < 2 || test_below(rand, 5) == 0;
        q.wanted[i] = i > 3 && test_below(rand, 3) == 0;
        for (int s = 0; s < 2 && !q.given[i]; s++) {
            uint32_t from = (uint32_t)test_below(rand, i);
            q.use[q.uses++] = (cut_use){from, i};
            follows |= q.size[from] != 0;
        }
        q.size[i] = follows ? 1 + (uint64_t)test_below(rand, 9) : 0;
    }
    return q;
}

/* Are those that are wanted had of what is kept? */
static bool is_enough(const question *q, const bool *kept) {
    bool need[NODES], fine = true;
    for (uint32_t i = 0; i < NODES; i++) need[i] = q->wanted[i] && q->size[i];
    for (uint32_t i = NODES; i-- > 0;) {
        if (!need[i] || kept[i]) continue;
        if (q->given[i]) fine = false;
        for (uint32_t e = 0; e < q->uses; e++)
            if (q->use[e].to == i && q->size[q->use[e].from]) need[q->use[e].from] = true;
    }
    return fine;
}

static uint64_t total(const question *q, const bool *kept) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < NODES; i++) sum += kept[i] ? q->size[i] : 0;
    return sum;
}

static uint64_t least_of_all(const question *q) {
    uint64_t least = UINT64_MAX;
    for (uint32_t which = 0; which < 1u << NODES; which++) {
        bool kept[NODES];
        for (uint32_t i = 0; i < NODES; i++) kept[i] = which >> i & 1;
        if (is_enough(q, kept) && total(q, kept) < least) least = total(q, kept);
    }
    return least;
}

static void what_is_kept_is_enough_and_the_least(void) {
    uint64_t rand = 1;
    qn_ctx *qn = qn_open(NULL);
    for (int i = 0; i < 500; i++) {
        question q = random_question(&rand);
        bool kept[NODES] = {false};
        arena a;
        arena_open(&a, &qn->heap);
        grad_find_cut(&a, &(grad_cut){NODES, q.uses, q.size, q.given, q.wanted, q.use, kept});
        arena_free(&a);
        CHECK(is_enough(&q, kept));
        CHECK_INT((int64_t)total(&q, kept), (int64_t)least_of_all(&q));
    }
    qn_close(qn);
}

/* tanh(x @ w + h @ u), a gate of that by another, 64 wide: bytes of temporaries of the gradient. */
static uint64_t temporaries(int64_t trips) {
    enum { WIDE = 64 };
    static float data[64 * WIDE * WIDE];
    qn_ctx *qn = qn_open(&QN_OPTIONS(.threads = 1));
    for (int i = 0; i < WIDE * WIDE; i++) data[i] = (float)(i % 13 - 6) * 0.01f;
    const int64_t square[] = {WIDE, WIDE};
    qn_tensor *w = qn_from(qn, QN_F32, 2, square, data), *u = qn_from(qn, QN_F32, 2, square, data);
    qn_tensor *h0 = qn_from(qn, QN_F32, 2, square, data), *g[2];
    qn_loop *l = qn_loop_begin(qn, 1, &h0, 0, NULL, &QN_LOOP_OPTIONS(.trips = trips));
    qn_tensor *h = qn_loop_state(l, 0);
    qn_tensor *sum = qn_add(qn_matmul(qn_sin(h), w), qn_matmul(h, u));
    qn_tensor *next = qn_mul(qn_tanh(sum), qn_sigmoid(sum));
    CHECK_INT(qn_loop_end(l, 1, &next, 0, NULL), QN_OK);
    qn_tensor *loss = qn_sum(qn_loop_final(l, 0), QN_ALL, false);
    CHECK_INT(qn_grad(loss, NULL, 2, (qn_tensor *[]){w, u}, g), QN_OK);
    CHECK_INT(qn_realize(2, g), QN_OK);
    qn_stats s;
    qn_get_stats(qn, &s, sizeof s);
    qn_loop_free(l);
    qn_close(qn);
    return s.planned_peak_bytes / (WIDE * WIDE * sizeof(float));
}

/* A trip more takes the state, the sum and its gradient, not both products. */
static void of_two_products_that_are_added_the_sum_is_kept(void) {
    uint64_t few = temporaries(32), many = temporaries(64);
    CHECK(many - few <= 32 * 3);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(what_is_kept_is_enough_and_the_least);
    RUN(of_two_products_that_are_added_the_sum_is_kept);
    return test_end();
}
