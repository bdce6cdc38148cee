/* test_complex_every.c - every public function, called with complex tensors, has a meaning for them
 * or refuses them, and what is linear does the same to both parts. */
#include "complex_numbers.h"

static bool is_meant(const char *name) {
    static const char *const meant[] = {
#define X(name, ...) #name,
#include "complex/meanings.h"
#undef X
        /* what takes any tensor by itself */
        "keep", "set_name", "name", "context", "scope_return", "result_type", "format",
    };
    for (size_t i = 0; i < sizeof meant / sizeof *meant; i++)
        if (!strcmp(meant[i], name)) return true;
    return false;
}

static bool is_tried(const api_row *r) {
    static const char *const objects[] = {"a->plan",     "a->file", "a->module", "a->optimizer",
                                          "a->settings", "a->gpt",  "a->layer",  "a->loop"};
    for (size_t i = 0; i < sizeof objects / sizeof *objects; i++)
        if (api_takes(r, objects[i])) return false;
    return (api_takes(r, "a->t[") || api_takes(r, "a->list")) && strcmp(r->name, "release") != 0;
}

/* Arguments for a call of each function: tensor t everywhere but in place `only`, where it is z. */
static api_args tensors_with(qn_tensor *t, int only, qn_tensor *z) {
    static char data[API_DATA];
    api_args a = {.qn = qn, .n = 2, .n2 = 2, .rank = 2, .axis2 = 1, .few = 1};
    for (int i = 0; i < API_TENSORS; i++) a.t[i] = i == only ? z : t;
    for (int i = 0; i < API_LIST; i++) a.list[i] = a.list2[i] = i == only ? z : t;
    for (int i = 0; i < API_ARRAY; i++) a.shape[0][i] = a.shape[1][i] = 3, a.axes[0][i] = i % 2;
    a.dtype = QN_F32, a.name = a.spec = "ij,jk->ik";
    a.data = data, a.bytes = a.room = sizeof data;
    return a;
}

/* With a complex tensor in each place of one what has no meaning says so, and what has one does not
 * say so of x: counts, indices and keys are never complex. */
static void every_function_has_a_meaning_or_refuses(void) {
    int refused = 0, taken = 0;
    for (const api_row *r = api_rows; r < api_rows + API_ROWS; r++) {
        if (!is_tried(r)) continue;
        qn_scope s = qn_scope_begin(qn);
        qn_tensor *z = qn_ones(qn, QN_C64, 2, (int64_t[]){3, 3});
        api_args a = tensors_with(z, 0, z);
        a.scope = s;
        r->call(&a);
        const char *error = qn_error_code(qn) == QN_EDTYPE ? qn_error(qn) : "";
        bool none = strstr(error, "no meaning for complex");
        const char *value = strcmp(r->name, "where") ? ": x is" : ": y is";
        if (is_meant(r->name) ? none && strstr(error, value) : !none)
            FAIL("%s: %s", r->name, qn_error_code(qn) ? qn_error(qn) : "it takes complex numbers");
        refused += none, taken += !none;
        qn_clear_error(qn);
        qn_scope_end(qn, s);
    }
    CHECK(taken > 100 && refused > 100);
}

/* One complex tensor among real ones or none at all, in each place: the call ends, and what it
 * has no meaning for it says. */
static void one_complex_argument_is_taken_or_refused(void) {
    int refused = 0;
    for (const api_row *r = api_rows; r < api_rows + API_ROWS; r++)
        for (int k = 0; is_tried(r) && k < 2 * API_TENSORS; k++) {
            qn_scope s = qn_scope_begin(qn);
            qn_tensor *x = k % 2 ? qn_ones(qn, QN_F32, 2, (int64_t[]){3, 3}) : NULL;
            api_args a = tensors_with(x, k / 2, qn_ones(qn, QN_C64, 0, NULL));
            a.scope = s;
            r->call(&a);
            refused += qn_error_code(qn) != QN_OK;
            qn_clear_error(qn);
            qn_scope_end(qn, s);
        }
    qn_tensor *x = qn_ones(qn, QN_F32, 1, (int64_t[]){3}), *z = qn_ones(qn, QN_C64, 0, NULL);
    CHECK(!qn_head(x, 0, z) && strstr(qn_error(qn), "count"));
    qn_clear_error(qn);
    CHECK(refused > 100);
}

/* Which arguments of a function are values, a bit each, where it is linear in all of them. */
static int linear_values(const char *name) {
    static const struct {
        const char *name;
        int values;
    } linear[] = {
#define VALUES_JOINT(values)        values
#define VALUES_APART(values)        values
#define VALUES_MOVE(values)         values
#define VALUES_EACH(values)         values
#define VALUES_PRODUCT(values)      0
#define VALUES_PAIRS(values)        0
#define VALUES_REAL(values)         0
#define VALUES_OWN(values)          0
#define X(name, WAY, values, added) {#name, VALUES_##WAY(values)},
#include "complex/meanings.h"
#undef X
    };
    for (size_t i = 0; i < sizeof linear / sizeof *linear; i++)
        if (!strcmp(linear[i].name, name)) return linear[i].values;
    return 0;
}

/* A row with one tensor for its values and another for its indices, conditions and keys. */
static void call_with(const api_row *r, qn_tensor *value, qn_tensor *other, api_args *a) {
    *a = (api_args){.qn = qn, .n = 2, .n2 = 2, .rank = 2, .axis2 = 1, .few = 1};
    int values = linear_values(r->name);
    for (int i = 0; i < API_TENSORS; i++) a->t[i] = values >> i & 1 ? value : other;
    if (values == 2 && !strstr(r->args, "a->t[1]")) a->t[0] = value;
    for (int i = 0; i < API_LIST; i++) a->list[i] = a->list2[i] = value;
    for (int i = 0; i < API_ARRAY; i++) {
        a->shape[0][i] = a->shape[1][i] = i < 2 ? 3 : 1;
        a->axes[0][i] = i % 2, a->axes[1][i] = (i + 1) % 2, a->z[i % 4] = 1;
    }
    r->call(a);
}

/* What is linear does to both parts what it does to real numbers, whatever its arguments say: the
 * calls that succeed with real ones. */
static void linear_functions_are_those_of_both_parts(void) {
    enum { N = 3 };
    const int64_t dims[2] = {N, N}, n = 2;
    const int32_t at[2] = {2, 0};
    const bool bits[N] = {true, false, true};
    int seen = 0;
    number x[N * N], got[MOST], re[MOST], im[MOST];
    fill(x, N * N, 21, 2);
    qn_tensor *z = made(QN_C128, 2, dims, x), *parts[3] = {qn_real(z), qn_imag(z), z};
    const int64_t three = N;
    qn_tensor *others[2] = {qn_from(qn, QN_I32, 1, &n, at), qn_from(qn, QN_BOOL, 1, &three, bits)};
    for (const api_row *r = api_rows; r < api_rows + API_ROWS; r++)
        for (int way = 0; way < 2 && linear_values(r->name) && r->result == API_TENSOR; way++) {
            qn_scope s = qn_scope_begin(qn);
            qn_tensor *out[3];
            api_args a;
            for (int k = 0; k < 3; k++) {
                call_with(r, parts[k], others[way], &a);
                out[k] = qn_error_code(qn) ? NULL : a.made;
                qn_clear_error(qn);
            }
            if (out[0] && out[1] && !out[2]) FAIL("%s: no complex numbers, way %d", r->name, way);
            int64_t count = out[0] && out[1] && out[2] ? qn_numel(out[0]) : 0;
            if (count > 0 && count < MOST) {
                CHECK_INT(qn_rank(out[2]), qn_rank(out[0]));
                values(out[0], re, count, r->name);
                values(out[1], im, count, r->name);
                values(out[2], got, count, r->name);
                for (int64_t i = 0; i < count; i++)
                    if (!(cabs(got[i] - (re[i] + I * im[i])) <= 1e-13))
                        FAIL("%s, way %d: number %lld is %g%+gi, not %g%+gi", r->name, way,
                             (long long)i, creal(got[i]), cimag(got[i]), creal(re[i]),
                             creal(im[i]));
                seen++;
            }
            qn_scope_end(qn, s);
        }
    if (seen < 70) FAIL("%d calls", seen);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    for (int i = 0; i < 2; i++) {
        if (!(qn = qn_open(&QN_OPTIONS(.device = devices[i])))) continue;
        qn_scope_begin(qn);
        RUN(linear_functions_are_those_of_both_parts);
        RUN(every_function_has_a_meaning_or_refuses);
        RUN(one_complex_argument_is_taken_or_refused);
        qn_close(qn);
    }
    return test_end();
}
