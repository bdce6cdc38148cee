/* view.c - the page about a tensor: its graph, the plan that is made of it, and what the plan
 * took.
 *
 * The value is computed as a request for it would be, by a plan of its own that goes afterwards:
 * the tensor and all else stay as they are. A tensor that was computed already looks like an
 * expression again meanwhile, as far as its history is there. Each launch runs alone, a few times,
 * and its least time counts. */
#include "view/view.h"

#include "schedule/wisdom/wisdom.h"

#include <math.h>
#include <stdio.h>

enum { RUNS = 7, ELEMENTS = 4, MOST_GROUPS = 60, MOST_LABEL = 34 };
static const double most_seconds = 0.5;

/* Launches of one program; or of a routine or loop of one name. */
typedef struct group {
    const launch *first;
    uint32_t launches, sets;
    double seconds, bytes, flops;
} group;

typedef struct viewing {
    qn_ctx *qn;
    graph *g;
    arena a;
    node_id root;
    const char *path;
    uint32_t nodes;
    node_id *order; /* NULL: the value is all there is */
    plan_request request;
    run_plan *plan; /* NULL: none was made */
    checks checks;  /* of indices, while they are looked at */
    double *best;   /* by launch; seconds */
    double whole;   /* of a run */
    group *group;
    uint32_t groups;
    view_more *more; /* a part of somebody else's; NULL: none */
    void *user;
    str value; /* some elements of the result */
    str out;
} viewing;

/* ---- values ---------------------------------------------------------------------------------- */

static void print_scalar(str *out, qn_dtype dtype, const void *data, int64_t i) {
    if (dtype_is_float(dtype))
        str_addf(out, "%.4g", dtype_get_f(dtype, data, i));
    else if (dtype == QN_U64)
        str_addf(out, "%llu", (unsigned long long)dtype_get_i(dtype, data, i));
    else
        str_addf(out, "%lld", (long long)dtype_get_i(dtype, data, i));
}

/* The first elements of a buffer; nothing where they cannot be had. */
static void print_buffer(viewing *v, uint32_t b, int dtype, int64_t most, str *out) {
    const run_state *r = v->qn->run;
    uint64_t data[32];
    const buffer *from = buffer_at(v->qn, b);
    size_t width = qn_dtype_size((qn_dtype)dtype);
    int64_t n = (int64_t)(from->size / width), some = n < most ? n : most;
    if (!some || (size_t)some * width > sizeof data || !r->dev->executes) return;
    if (r->dev->copy_out(r->dev_state, from->memory, 0, data, (size_t)some * width)) return;
    for (int64_t i = 0; i < some; i++) {
        if (i) str_add(out, ", ");
        print_scalar(out, (qn_dtype)dtype, data, i);
    }
    if (some < n) str_add(out, ", ...");
}

/* ---- the graph ------------------------------------------------------------------------------- */

static const char *shortened(arena *a, const char *text) {
    size_t n = strlen(text);
    if (n <= MOST_LABEL) return text;
    n = MOST_LABEL - 3;
    while (n && ((unsigned char)text[n] & 0xc0) == 0x80) n--;
    return arena_printf(a, "%.*s...", (int)n, text);
}

static const char *taken(viewing *v, str *s) {
    return s->len ? shortened(&v->a, s->s) : NULL;
}

static void describe_node(viewing *v, node_id n, view_node *out) {
    const graph_node *x = node_at(v->g, n);
    bool memory = node_is_memory(x);
    str shape, value, whole;
    str_open_in(&shape, &v->a);
    str_open_in(&value, &v->a);
    str_open_in(&whole, &v->a);
    str_add(&shape, qn_dtype_name((qn_dtype)x->dtype));
    shape_text(v->g, x->shape, &shape);
    tensor_describe(v->g, n, &whole);
    const char *quoted = whole.s ? strchr(whole.s, '"') : NULL; /* what the program calls it */
    if (memory && x->op != OP_ARGUMENT && x->buffer)
        print_buffer(v, x->buffer, x->dtype, ELEMENTS, &value);
    if (x->op == OP_CONST) {
        int64_t word = (int64_t)x->bits;
        print_scalar(&value, (qn_dtype)x->dtype, &word, 0);
    }
    out->kind = n == v->root ? VIEW_RESULT : memory ? VIEW_GIVEN : VIEW_OP;
    out->line[0] = quoted ? shortened(&v->a, quoted) : memory ? "value" : op_rows[x->op].name;
    if (x->op == OP_CALL) out->line[0] = routine_rows[node_call(v->g, x).routine].name;
    out->line[1] = taken(v, &shape);
    out->line[2] = taken(v, &value);
    out->title = arena_printf(&v->a, "%s %s", memory ? "value" : op_rows[x->op].name,
                              whole.s ? whole.s : "");
}

static void draw_graph(viewing *v) {
    view_graph g = {.a = &v->a, .nodes = v->nodes};
    g.node = arena_zeroed(&v->a, (v->nodes + 1) * sizeof *g.node);
    for (uint32_t i = 0; i < v->nodes; i++) {
        view_node *to = &g.node[i];
        const graph_node *x = node_at(v->g, v->order[i]);
        describe_node(v, v->order[i], to);
        if (node_is_memory(x)) continue;
        to->in = arena_alloc(&v->a, 4 * sizeof *to->in);
        for (int k = 0; k < x->sources; k++)
            to->in[to->ins++] = node_at(v->g, x->src[k])->mark - v->g->mark_base;
    }
    str_addf(&v->out,
             "<h2>The graph</h2>\n<p>%u nodes, as they are recorded: with the rules that "
             "apply when a node is made.</p>\n",
             v->nodes);
    view_draw(&g, &v->out);
}

/* ---- the plan -------------------------------------------------------------------------------- */

static void drop_plan(void *of) {
    viewing *v = of;
    if (v->plan) plan_close(v->qn, v->plan);
    v->plan = NULL;
    checks_let_go(&v->checks, v->qn);
    v->checks = (checks){0};
    v->qn->run->timing = false;
}

/* One run; the launches' times in `seconds` grow by it. */
static void run_once(viewing *v, const plan_key *key, const uint32_t *leaf, bool last) {
    uint32_t out = 0;
    double start = clock_seconds();
    plan_run(v->qn, v->plan, key->value, leaf, NULL, &out);
    double took = clock_seconds() - start;
    if (took < v->whole) v->whole = took;
    if (last) print_buffer(v, out, node_at(v->g, v->root)->dtype, 8, &v->value);
    buffer_unref(v->qn, out);
}

static void measure(viewing *v, const plan_key *key, const uint32_t *leaf) {
    run_plan *p = v->plan;
    double *before = arena_zeroed(&v->a, (p->launches + 1) * sizeof *before);
    double start = clock_seconds();
    v->best = arena_alloc(&v->a, (p->launches + 1) * sizeof *v->best);
    v->qn->run->timing = true;
    for (int i = 0; i < RUNS; i++) {
        if (i == 1)
            for (uint32_t k = 0; k < p->launches; k++) v->best[k] = INFINITY; /* the first warmed */
        if (i < 2) v->whole = INFINITY;
        bool last = i + 1 == RUNS || clock_seconds() - start > most_seconds;
        run_once(v, key, leaf, last);
        for (uint32_t k = 0; k < p->launches; k++) {
            double took = p->launch[k].seconds - before[k];
            before[k] = p->launch[k].seconds;
            if (!i || took < v->best[k]) v->best[k] = took;
        }
        if (last) break;
    }
    v->qn->run->timing = false;
}

static bool can_plan(const viewing *v) {
    for (uint32_t i = 0; i < v->nodes; i++) {
        const graph_node *x = node_at(v->g, v->order[i]);
        if ((x->flags & NODE_GONE) || x->op == OP_ARGUMENT) return false;
    }
    return !node_is_memory(node_at(v->g, v->root)) && !v->qn->run->dev->unfused;
}

/* The plan of a request; its key, and the leaves' buffers. */
static uint32_t *plan_of(viewing *v, const plan_request *r, plan_key *key) {
    uint32_t leaves = 0, *leaf = arena_alloc(&v->a, (r->nodes + 1) * sizeof *leaf);
    for (uint32_t i = 0; i < r->nodes; i++) check_fits(v->qn, r->order[i]);
    *key = key_build(v->g, &v->a, r);
    for (uint32_t i = 0; i < r->nodes; i++) {
        const graph_node *x = node_at(v->g, r->order[i]);
        if (node_is_memory(x)) leaf[leaves++] = x->buffer;
    }
    v->plan = plan_build(v->qn, r, key);
    return leaf;
}

/* Indices that a read would refuse are an error here, too: by a plan of their own, before that
 * which is shown. */
static void check_indices(viewing *v) {
    plan_request r = {.nodes = v->nodes, .order = v->order, .root = &v->root};
    plan_key key;
    if (!checks_add(&v->checks, v->qn, &v->a, &r)) return;
    r.nodes = graph_order(v->g, &v->a, (int)r.roots, r.root, &r.order);
    uint32_t *leaf = plan_of(v, &r, &key), *out = arena_zeroed(&v->a, r.roots * sizeof *out);
    plan_run(v->qn, v->plan, key.value, leaf, NULL, out);
    checks_judge(&v->checks, v->qn, r.roots, out);
    for (uint32_t i = 0; i < r.roots; i++) buffer_unref(v->qn, out[i]);
    drop_plan(v);
    v->nodes = graph_order(v->g, &v->a, 1, &v->root, &v->order);
}

static void make_plan(viewing *v) {
    plan_key key;
    check_indices(v);
    v->request = (plan_request){.nodes = v->nodes, .roots = 1, .order = v->order, .root = &v->root};
    uint32_t *leaf = plan_of(v, &v->request, &key);
    measure(v, &key, leaf);
}

static double bytes_of(const launch *l) {
    double bytes = 0;
    for (uint32_t i = 0; i < l->sets * (uint32_t)l->program->args; i++)
        bytes += (double)l->slice[i].size;
    return bytes;
}

static bool is_alike(const launch *a, const launch *b) {
    if (launch_is_kernel(a) && launch_is_kernel(b)) return a->id == b->id;
    return launch_is_kernel(a) == launch_is_kernel(b) &&
           !strcmp(a->program->name, b->program->name);
}

static void find_groups(viewing *v) {
    run_plan *p = v->plan;
    v->group = arena_zeroed(&v->a, (p->launches + 1) * sizeof *v->group);
    for (uint32_t i = 0; i < p->launches; i++) {
        const launch *l = &p->launch[i];
        uint32_t at = 0;
        while (at < v->groups && !is_alike(v->group[at].first, l)) at++;
        group *x = &v->group[at];
        if (at == v->groups) x->first = l, v->groups++;
        x->launches++;
        x->sets += l->sets;
        x->seconds += v->best[i];
        x->bytes += bytes_of(l);
    }
}

/* ---- kernels --------------------------------------------------------------------------------- */

static kernel *parsed(viewing *v, const char *text, cleanup *c) {
    kernel *k = ir_parse(v->qn, text);
    if (!k) heap_unwind(&v->qn->heap);
    cleanup_push(&v->qn->heap, c, ir_cleanup, k);
    return k;
}

/* The schedule that the kernel has, and the tree that it makes. */
static void show_schedule(viewing *v, const char *text) {
    cleanup c;
    kernel *k = parsed(v, text, &c);
    str lines, tree;
    bool tuned;
    str_open_in(&lines, &v->a);
    str_open_in(&tree, &v->a);
    compile_kernel(
        v->qn, k,
        &(compile_how){
            .text = text, .size = strlen(text), .lines = &lines, .tree = &tree, .tuned = &tuned});
    cleanup_run(&v->qn->heap, &c);
    view_fold(&v->out, tuned ? "Schedule, found by tuning" : "Schedule",
              lines.len ? lines.s : "(none)");
    view_fold(&v->out, "Loops as scheduled", tree.s);
}

static void show_code(viewing *v, const launch *l) {
    const dev_table *dev = v->qn->run->dev;
    str code;
    str_open_in(&code, &v->a);
    if (dev->assembly) dev->assembly(v->qn->run->dev_state, l->program, &code);
    if (code.len) view_fold(&v->out, "Assembly", code.s);
}

static void show_kernel(viewing *v, uint32_t number, const group *x) {
    const launch *l = x->first;
    str_addf(&v->out, "<details><summary>%u: <code>", number);
    view_text(&v->out, l->program->name);
    str_addf(&v->out, "</code>%s</summary>\n", l->call ? ", a routine" : l->loop ? ", a loop" : "");
    for (int a = 0; a < l->program->args; a++) {
        const slot *s = &v->plan->slot[l->set[0].slot[a]];
        char shape[200] = "";
        if (s->dtype < DTYPE_COUNT) traced_shape(v->qn, s->dtype, s->shape, shape, sizeof shape);
        str_addf(&v->out, "<p>%s argument %d: <code>%s</code> %zu bytes</p>\n",
                 l->set[0].writes[a] ? "written" : "read", a, shape, s->size);
    }
    if (launch_is_kernel(l)) {
        const char *text = arena_printf(&v->a, "%s", program_text(v->qn, l->id));
        view_fold(&v->out, "Loops as lowered", text);
        if (v->qn->knob[KNOB_SCHEDULE].number) show_schedule(v, text);
        show_code(v, l);
    }
    str_add(&v->out, "</details>\n");
}

static double flops_of(viewing *v, const launch *l) {
    if (!launch_is_kernel(l)) return -1;
    cleanup c;
    kernel *k = parsed(v, program_text(v->qn, l->id), &c);
    double flops = traced_flops(k);
    cleanup_run(&v->qn->heap, &c);
    return flops;
}

static void show_row(viewing *v, uint32_t i, double all) {
    char a[32], b[32], c[32];
    const group *x = &v->group[i];
    str_addf(&v->out, "<tr><td>%u</td><td class=\"t\">", i);
    view_text(&v->out, x->first->program->name);
    str_addf(&v->out, "</td><td>%u</td><td>%.2f</td><td>%.1f</td><td>%s</td>", x->launches,
             x->seconds * 1e6, all > 0 ? 100 * x->seconds / all : 0, view_number(x->bytes, a));
    str_addf(&v->out, "<td>%s</td><td>%s</td><td>%s</td></tr>\n",
             x->flops > 0 ? view_number(x->flops, b) : "",
             x->seconds > 0 ? view_number(x->bytes / x->seconds, a) : "",
             x->flops > 0 && x->seconds > 0 ? view_number(x->flops / x->seconds, c) : "");
}

static void show_kernels(viewing *v) {
    view_roof roof = view_roof_of(&v->qn->run->limits);
    view_point *point = arena_zeroed(&v->a, (v->groups + 1) * sizeof *point);
    double all = 0;
    for (uint32_t i = 0; i < v->groups; i++) {
        group *x = &v->group[i];
        double flops = flops_of(v, x->first);
        x->flops = flops > 0 ? flops * x->sets : 0;
        point[i] = (view_point){x->flops, x->bytes, x->seconds};
        all += x->seconds;
    }
    str_add(&v->out, "<h2>Kernels</h2>\n<div class=\"scroll\"><table><tr><th></th><th class=\"t\">"
                     "kernel</th><th>launches</th><th>&micro;s</th><th>%</th><th>bytes</th>"
                     "<th>operations</th><th>bytes/s</th><th>operations/s</th></tr>\n");
    for (uint32_t i = 0; i < v->groups && i < MOST_GROUPS; i++) show_row(v, i, all);
    str_add(&v->out, "</table></div>\n");
    if (v->groups > MOST_GROUPS)
        str_addf(&v->out, "<p>%u kernels more are not shown.</p>\n", v->groups - MOST_GROUPS);
    for (uint32_t i = 0; i < v->groups && i < MOST_GROUPS; i++) show_kernel(v, i, &v->group[i]);
    view_roofline(&v->out, &roof, v->groups < MOST_GROUPS ? v->groups : MOST_GROUPS, point);
}

/* Launches as nodes: what a launch reads comes from the one before it that writes there. */
static void draw_plan(viewing *v) {
    const run_plan *p = v->plan;
    view_graph g = {.a = &v->a};
    g.node = arena_zeroed(&v->a, ((size_t)p->launches + p->slots + 1) * sizeof *g.node);
    uint32_t *from = arena_alloc(&v->a, (p->slots + 1) * sizeof *from), leaf = 0;
    for (uint32_t i = 0; i < p->slots; i++) from[i] = VIEW_NONE;
    for (uint32_t i = 0; i < v->nodes; i++) {
        if (!node_is_memory(node_at(v->g, v->order[i]))) continue;
        from[p->leaf_slot[leaf++]] = g.nodes;
        describe_node(v, v->order[i], &g.node[g.nodes++]);
    }
    for (uint32_t i = 0; i < p->launches; i++) {
        const launch *l = &p->launch[i];
        view_node *x = &g.node[g.nodes];
        *x = (view_node){.kind = VIEW_KERNEL, .title = l->program->name};
        x->line[0] = shortened(&v->a, l->program->name);
        x->line[1] = arena_printf(&v->a, "%.2f \xc2\xb5s", v->best[i] * 1e6);
        if (l->sets > 1) x->line[2] = arena_printf(&v->a, "%u sets", l->sets);
        uint32_t most = l->sets * (uint32_t)l->program->args;
        x->in = arena_alloc(&v->a, (most + 1) * sizeof *x->in);
        for (uint32_t k = 0; k < most; k++) {
            const launch_set *s = &l->set[k / (uint32_t)l->program->args];
            uint32_t a = k % (uint32_t)l->program->args, is = from[s->slot[a]];
            for (uint32_t e = 0; e < x->ins && is != VIEW_NONE; e++)
                if (x->in[e] == is) is = VIEW_NONE;
            if (!s->writes[a] && is != VIEW_NONE) x->in[x->ins++] = is;
        }
        for (uint32_t k = 0; k < most; k++) {
            const launch_set *s = &l->set[k / (uint32_t)l->program->args];
            uint32_t a = k % (uint32_t)l->program->args;
            if (!s->writes[a]) continue;
            from[s->slot[a]] = g.nodes;
            if (p->slot[s->slot[a]].kind == SLOT_OUTPUT) x->kind = VIEW_RESULT;
        }
        g.nodes++;
    }
    str_addf(&v->out,
             "<h2>The plan</h2>\n<p>%u launches in %u levels; a run of it takes %.1f &micro;s, "
             "each launch alone.</p>\n",
             p->launches, p->levels, v->whole * 1e6);
    view_draw(&g, &v->out);
}

/* ---- the page -------------------------------------------------------------------------------- */

static void introduce(viewing *v) {
    const graph_node *x = node_at(v->g, v->root);
    const machine *m = &v->qn->run->limits;
    str what;
    str_open_in(&what, &v->a);
    tensor_describe(v->g, v->root, &what);
    view_head(&v->out, what.s ? what.s : "a tensor");
    str_addf(&v->out, "<p>On device %s, %d threads, schedules for %s.</p>\n", v->qn->run->dev->name,
             m->threads, m->name ? m->name : "a generic machine");
    if (node_is_memory(x) && x->op != OP_ARGUMENT && x->buffer)
        print_buffer(v, x->buffer, x->dtype, 8, &v->value);
}

/* All but the file, so that the tensor looks as it did when that is written. */
static void describe(viewing *v) {
    introduce(v);
    bool planned = can_plan(v);
    if (planned) make_plan(v);
    if (v->value.len) {
        str_add(&v->out, "<p>The value begins with <code>");
        view_text(&v->out, v->value.s);
        str_add(&v->out, "</code>.</p>\n");
    }
    if (v->more) v->more(v->user, &v->out);
    v->nodes = graph_order(v->g, &v->a, 1, &v->root, &v->order);
    draw_graph(v);
    if (planned) {
        find_groups(v);
        draw_plan(v);
        show_kernels(v);
        view_memory(&v->out, v->plan);
    } else if (v->qn->run->dev->unfused) {
        str_add(&v->out, "<p>This device evaluates node by node: there are no kernels.</p>\n");
    } else {
        str_add(&v->out, "<p>Nothing is known any more of what it was computed by.</p>\n");
    }
    view_foot(&v->out);
}

typedef struct shown_again {
    graph *g;
    node_id n;
} shown_again;

static void is_memory_again(void *of) {
    const shown_again *s = of;
    node_at(s->g, s->n)->flags |= NODE_REALIZED;
}

static void view_work(void *arg) {
    viewing *v = arg;
    qn_ctx *qn = v->qn;
    cleanup memory, text, plan, shown;
    shown_again s = {v->g, v->root};
    cleanup_push(&qn->heap, &memory, arena_cleanup, &v->a);
    str_open(&v->out, &qn->heap);
    str_open_in(&v->value, &v->a);
    cleanup_push(&qn->heap, &text, str_cleanup, &v->out);
    const graph_node *x = node_at(v->g, v->root);
    bool computed = (x->flags & NODE_REALIZED) && x->op != OP_BUFFER && !op_is_view_mark(x->op);
    if (computed) cleanup_push(&qn->heap, &shown, is_memory_again, &s);
    if (computed) node_at(v->g, v->root)->flags &= (uint8_t)~NODE_REALIZED;
    v->nodes = graph_order(v->g, &v->a, 1, &v->root, &v->order);
    cleanup_push(&qn->heap, &plan, drop_plan, v);
    describe(v);
    cleanup_run(&qn->heap, &plan);
    if (computed) cleanup_run(&qn->heap, &shown);
    view_save(qn, "view_html", v->path, &v->out);
    cleanup_run(&qn->heap, &text);
    cleanup_run(&qn->heap, &memory);
}

qn_code view_html_with(qn_tensor *t, const char *path, view_more *more, void *user) {
    if (!t) return QN_ENULL;
    const tensor *x = tensor_any(NULL, t, "view_html", "t");
    if (!x) return handle_code(t);
    if (handle_is(t, HANDLE_COMPLEX)) x = tensor_pairs(x);
    qn_ctx *qn = x->h.ctx;
    if (!path) return fail(qn, QN_ENULL, "view_html: no path");
    viewing v = {qn, qn->graph, .root = x->node, .path = path, .more = more, .user = user};
    arena_open(&v.a, &qn->heap);
    qn_code code = guarded(qn, view_work, &v);
    return code ? code : QN_OK;
}

qn_code qn_view_html(qn_tensor *t, const char *path) {
    return view_html_with(t, path, NULL, NULL);
}
