/* api.h - calling any public function by its row of api_calls.h.
 *
 * Arguments of one kind have a place of their own in api_args: the i-th tensor of every function is
 * t[i], its lists are `list` and `list2`, and so on. Arrays are long enough for what any function
 * may read of them, whatever the numbers that say how much. */
#ifndef API_H
#define API_H

#include "quern_nn.h"
#include "quern_tune.h"
#include "test.h"

enum { API_TENSORS = 3, API_LIST = 16, API_ARRAY = 40, API_DATA = 1 << 16, API_MOST_TEXT = 64 };

typedef enum api_result {
    API_TENSOR,
    API_CODE,
    API_TAPE,
    API_PLAN,
    API_FILE,
    API_MODULE,
    API_OPTIMIZER,
    API_GPT,
    API_TEXT,
    API_LAYER,
    API_LOOP,
    API_SCOPE,
    API_VALUE,
    API_OTHER
} api_result;

typedef struct api_args {
    qn_ctx *qn;
    qn_tensor *t[API_TENSORS], *list[API_LIST], *list2[API_LIST], *out[API_LIST];
    qn_tape *tape;
    qn_plan *plan;
    qn_file *file;
    qn_module *module;
    qn_optimizer *optimizer;
    qn_gpt *gpt;
    qn_text *chars;
    qn_loop *loop;
    qn_scope scope;
    int n, n2, rank, axis, axis2, few, from_rank;
    int64_t z[4], shape[2][API_ARRAY], from_shape[API_ARRAY];
    int axes[2][API_ARRAY];
    double f[5];
    bool flag;
    qn_dtype dtype;
    qn_pad_mode mode;
    qn_combine combine;
    const qn_index_item *items; /* API_ARRAY of them */
    const qn_init_options *init;
    qn_method method;
    qn_code code;
    const char *name, *spec;
    const qn_conv_options *options;
    const qn_loop_options *trips;
    const qn_optimizer_options *settings;
    const qn_attention_options *heads;
    const qn_plan_options *statics;
    const qn_pool_options *pools;
    const qn_interpolate_options *resizes;
    const qn_cross_entropy_options *classes;
    const qn_layer_options *layers;
    const qn_batch_options *batch;
    const qn_layer *layer;
    void *data;
    size_t bytes;
    int32_t *ids;
    /* what came out */
    qn_tensor *made;
    void *object;
    int status;
    const uint32_t *letters;
    const char *words[2];
    qn_stats stats;
    qn_wisdom wisdom;
    qn_optimizer_options made_settings;
    qn_gpt_config config;
    size_t room; /* said to be there for each of those; never more than there is */
} api_args;

/* One thunk a row. */
#define API_RUN_TENSOR(name, args)    a->made = qn_##name args
#define API_RUN_CODE(name, args)      a->status = qn_##name args
#define API_RUN_TAPE(name, args)      a->object = qn_##name args
#define API_RUN_PLAN(name, args)      a->object = qn_##name args
#define API_RUN_FILE(name, args)      a->object = qn_##name args
#define API_RUN_MODULE(name, args)    a->object = qn_##name args
#define API_RUN_OPTIMIZER(name, args) a->object = qn_##name args
#define API_RUN_GPT(name, args)       a->object = qn_##name args
#define API_RUN_TEXT(name, args)      a->object = qn_##name args
#define API_RUN_LAYER(name, args)     a->object = qn_##name args
#define API_RUN_LOOP(name, args)      a->object = qn_##name args
#define API_RUN_SCOPE(name, args)     a->scope = qn_##name args
#define API_RUN_VALUE(name, args)     (void)qn_##name args
#define API_RUN_OTHER(name, args)     (void)0

#define X(RESULT, name, args)                                                                      \
    static void api_call_##name(api_args *a) {                                                     \
        (void)a;                                                                                   \
        API_RUN_##RESULT(name, args);                                                              \
    }
#include "api_calls.h"
#undef X

typedef struct api_row {
    const char *name, *args; /* without qn_; as they are written */
    api_result result;
    void (*call)(api_args *a);
} api_row;
static const api_row api_rows[] = {
#define X(RESULT, name, args) {#name, #args, API_##RESULT, api_call_##name},
#include "api_calls.h"
#undef X
};
enum { API_ROWS = sizeof api_rows / sizeof *api_rows };

static inline bool api_takes(const api_row *r, const char *what) {
    return strstr(r->args, what) != NULL;
}

#endif
