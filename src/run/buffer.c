/* buffer.c - buffers: numbered, reference-counted memory on the context's device.
 *
 * Sizes are rounded up to classes, eight per octave (at most 12.5 % lost), and a freed block waits
 * in its class's list for the next of its size. Idle blocks are given back when they outgrow what
 * is in use, so a phase with large tensors does not tie memory up for good. */
#include "run/run.h"

static buffers *all(const qn_ctx *qn) {
    return &qn->run->buffers;
}

buffer *buffer_at(const qn_ctx *qn, uint32_t b) {
    return &all(qn)->at[b];
}

/* Class number of a size, and the size the class holds. */
static uint32_t size_class(size_t size, size_t *held) {
    size_t n = (size + 63) / 64;
    if (n < 16) {
        *held = (n ? n : 1) * 64;
        return (uint32_t)(n ? n : 1);
    }
    uint32_t top = 63 - (uint32_t)__builtin_clzll(n), shift = top - 3;
    size_t m = (n + ((size_t)1 << shift) - 1) >> shift; /* 8..16 */
    *held = (m << shift) * 64;
    return 16 + (top - 4) * 8 + (uint32_t)(m - 8);
}

static void *block_take(qn_ctx *qn, uint32_t class_, size_t held) {
    buffers *bs = all(qn);
    uint32_t i = bs->of_class[class_];
    if (!i) return qn->run->dev->alloc(qn->run->dev_state, held);
    free_block *f = &bs->block[i - 1];
    bs->of_class[class_] = f->next;
    f->next = bs->unused_block;
    bs->unused_block = i;
    bs->idle -= held;
    return f->memory;
}

/* Keep a block for later; where there is no room to note it, give it back. */
static void block_return(qn_ctx *qn, void *memory, size_t size, size_t held) {
    buffers *bs = all(qn);
    uint32_t class_ = size_class(size, &held), i = bs->unused_block;
    if (!i || bs->idle > bs->bytes + ((size_t)64 << 20)) {
        qn->run->dev->free(qn->run->dev_state, memory, held);
        return;
    }
    free_block *f = &bs->block[i - 1];
    bs->unused_block = f->next;
    *f = (free_block){memory, bs->of_class[class_]};
    bs->of_class[class_] = i;
    bs->idle += held;
}

/* Room for one more buffer and for noting its return later, so that freeing never needs memory. */
static void make_room(qn_ctx *qn) {
    buffers *bs = all(qn);
    heap *h = &qn->heap;
    if (!bs->free) bs->at = heap_grow(h, bs->at, &bs->cap, bs->count + 2, sizeof *bs->at);
    lru_reserve(&qn->run->kept, bs->count + 1);
    if (bs->blocks >= bs->count + 1) return;
    bs->block = heap_grow(h, bs->block, &bs->block_cap, bs->blocks + 1, sizeof *bs->block);
    bs->block[bs->blocks++] = (free_block){NULL, bs->unused_block};
    bs->unused_block = bs->blocks;
}

static uint32_t buffer_number(qn_ctx *qn, buffer like) {
    buffers *bs = all(qn);
    uint32_t b = bs->free;
    if (b)
        bs->free = bs->at[b].next_free;
    else
        b = ++bs->count;
    like.refs = 1;
    like.content = ++bs->contents;
    like.born = qn->graph->born;
    bs->at[b] = like;
    bs->live++;
    bs->bytes += like.held;
    if (bs->bytes > bs->peak) bs->peak = bs->bytes;
    return b;
}

uint32_t buffer_cleared(qn_ctx *qn, size_t size) {
    uint32_t b = buffer_new(qn, size);
    heap_clear(&qn->heap, buffer_at(qn, b)->memory, size);
    return b;
}

uint32_t buffer_borrow(qn_ctx *qn, const void *memory, size_t size, const qn_lender *lender) {
    make_room(qn);
    return buffer_number(qn, (buffer){.memory = (void *)memory,
                                      .size = size,
                                      .give_back = lender->give_back,
                                      .owner = lender->owner});
}

uint32_t buffer_new(qn_ctx *qn, size_t size) {
    size_t held;
    uint32_t class_ = size_class(size, &held);
    make_room(qn);
    void *memory = block_take(qn, class_, held);
    while (!memory) {
        bool more = kept_give_up(qn);
        buffers_trim(qn);
        memory = qn->run->dev->alloc(qn->run->dev_state, held);
        if (!more) break;
    }
    if (!memory)
        raise_error(qn, QN_ENOMEM, "the device has no memory for a tensor of %zu bytes", size);
    return buffer_number(qn, (buffer){.memory = memory, .size = size, .held = held});
}

void buffer_ref(qn_ctx *qn, uint32_t b) {
    all(qn)->at[b].refs++;
}

void buffer_replace(qn_ctx *qn, uint32_t b) {
    buffers *bs = all(qn);
    bs->at[b].refs++;
    bs->at[b].content = ++bs->contents;
}

void buffer_unref(qn_ctx *qn, uint32_t b) {
    buffers *bs = all(qn);
    if (!b || --bs->at[b].refs) return;
    buffer *x = &bs->at[b];
    kept_forget(qn, b);
    bs->live--;
    bs->bytes -= x->held;
    const buffer was = *x;
    *x = (buffer){.next_free = bs->free};
    bs->free = b;
    if (was.give_back)
        was.give_back(was.owner);
    else
        block_return(qn, was.memory, was.size, was.held);
}

static bool has_sizes(const graph_node *x) {
    return x->varies && x->buffer && node_is_memory(x) && !node_follows(x);
}

void buffer_sized(qn_ctx *qn, node_id n) {
    const graph_node *x = node_at(qn->graph, n);
    if (has_sizes(x)) buffer_at(qn, x->buffer)->sizes = shape_sizes(qn->graph, x->shape);
}

bool buffer_fits(const qn_ctx *qn, node_id n) {
    const graph_node *x = node_at(qn->graph, n);
    return !has_sizes(x) || buffer_at(qn, x->buffer)->sizes == shape_sizes(qn->graph, x->shape);
}

void check_fits(qn_ctx *qn, node_id n) {
    graph *g = qn->graph;
    if (buffer_fits(qn, n)) return;
    g->text.len = 0;
    tensor_describe(g, n, &g->text);
    str_add(&g->text, " has other sizes than ");
    shape_text(g, shape_now(g, node_at(g, n)->shape), &g->text);
    raise_error(qn, QN_ESHAPE, "data of %s, which the dimension variables are bound to now",
                g->text.s);
}

void buffer_list_cleanup(void *list) {
    const buffer_list *l = list;
    for (uint32_t i = 0; i < l->n; i++) buffer_unref(l->qn, l->id[i]);
}

void buffers_trim(qn_ctx *qn) {
    buffers *bs = all(qn);
    for (uint32_t c = 0; c < SIZE_CLASSES; c++) {
        while (bs->of_class[c]) {
            uint32_t i = bs->of_class[c];
            free_block *f = &bs->block[i - 1];
            size_t held =
                c < 16 ? (size_t)c * 64 : ((size_t)(8 + (c - 16) % 8) << ((c - 16) / 8 + 1)) * 64;
            qn->run->dev->free(qn->run->dev_state, f->memory, held);
            bs->of_class[c] = f->next;
            f->next = bs->unused_block;
            bs->unused_block = i;
            bs->idle -= held;
        }
    }
}

void buffers_close(qn_ctx *qn) {
    buffers *bs = all(qn);
    for (uint32_t b = 1; b <= bs->count; b++)
        if (bs->at[b].refs && bs->at[b].give_back)
            bs->at[b].give_back(bs->at[b].owner);
        else if (bs->at[b].refs)
            qn->run->dev->free(qn->run->dev_state, bs->at[b].memory, bs->at[b].held);
    buffers_trim(qn);
    heap_free(&qn->heap, bs->at, (size_t)bs->cap * sizeof *bs->at);
    heap_free(&qn->heap, bs->block, (size_t)bs->block_cap * sizeof *bs->block);
    *bs = (buffers){0};
}
