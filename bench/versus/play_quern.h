/* play_quern.h - what the files of Quern's player share: play_quern.c has the player and the cases
 * of one operation, play_lists.c scans, sorting, tables, pooling, linear algebra and pieces,
 * play_nets.c networks that are trained. */
#ifndef QN_BENCH_PLAY_QUERN_H
#define QN_BENCH_PLAY_QUERN_H
#include "quern_nn.h"
#include "versus.h"

enum { OUTPUTS = 4, LOSSES = 10 };

typedef struct played played;
struct played {
    qn_ctx *qn;
    bool ref;
    qn_tensor *in[VS_INPUTS], *out[OUTPUTS]; /* the static graph's */
    int inputs, outputs;                     /* outputs 0: the case is not played */
    qn_plan *plan;
    bool (*again)(played *p); /* in place of a plan: record the case anew and run it */
    qn_tensor **pieces;       /* what `again` reads; freed with the case */
    vs_case pieces_case;
    qn_gpt *gpt;
    qn_optimizer *optimizer;
    bool trains; /* output 0 is the loss of a step */
    float loss[LOSSES];
    int losses;
    float *host; /* the output, once asked for */
    int64_t size;
};

/* Input i of the case as a tensor of that shape and an argument of the graph. */
qn_tensor *play_input(played *p, const vs_case *c, int i, int rank, const int64_t *shape);
/* Make the outputs of a case, if it is theirs. */
bool play_lists(played *p, const vs_case *c);
bool play_nets(played *p, const vs_case *c);
#endif
