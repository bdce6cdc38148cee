/* pickle.c - PyTorch's pt files: a zip with a pickle, which says what there is, and the storages.
 *
 * A pickle is a program for a machine with a stack. This one knows the instructions by which
 * containers, numbers, texts and tensors are made, and no others; a global is one of a short list
 * of names, never looked up anywhere, and a call is one of three: _rebuild_tensor_v2,
 * _rebuild_parameter, OrderedDict. So nothing can be executed: what is not understood is an error.
 * Tensors are found by walking through dicts, lists and tuples from the object at the end; their
 * names are the keys on the way.
 *
 * The walk follows each reference, and one container may be referred to often: it ends with an
 * error after as many steps as the pickle has bytes. */
#include "archive/archive.h"

#include <stdio.h>

typedef enum object_kind {
    O_NONE,
    O_INT,
    O_TEXT,
    O_LIST,
    O_DICT,
    O_GLOBAL,
    O_STORAGE,
    O_TENSOR
} object_kind;

typedef struct object object;
typedef struct item {
    object *key, *value; /* key: of dicts */
    struct item *next;
} item;
struct object {
    uint8_t kind, dtype; /* of storages and tensors */
    uint8_t flipped;     /* of a tensor: an archive_flip */
    uint32_t count;      /* of lists, tuples and dicts: items; of a tensor: axes */
    union {
        int64_t whole;    /* also bools */
        const char *text; /* a global's is "module name" */
        item *first;
        uint64_t elements; /* of a storage */
    };
    union {
        item *last;
        object *storage; /* of a tensor */
        const char *key; /* of a storage: its member's name */
    };
    int64_t offset;         /* of a tensor, in elements */
    int64_t *shape, *steps; /* as the lists are when it is made: they may change behind it */
};

typedef struct machine {
    archive *f;
    source s;
    const char *folder; /* of the members */
    object **stack, **memo;
    uint32_t depth, depth_cap, memo_cap, memos;
    uint32_t *mark;
    uint32_t marks, mark_cap;
    uint64_t steps, steps_most;
    object none;
    bool done;
} machine;

/* ---- the stack ------------------------------------------------------------------------------- */

QN_NORETURN static void bad(machine *m, const char *what) {
    archive_bad(m->f, m->s.at, "in the pickle: %s", what);
}

/* A list of `width`-byte things with room for one more, twice as large where it was full. */
static void *room_for(machine *m, void *list, uint32_t used, uint32_t *cap, size_t width) {
    if (used < *cap) return list;
    if (*cap > UINT32_MAX / 2) bad(m, "a list of more than 2^32 entries");
    uint32_t more = *cap ? 2 * *cap : 64;
    void *grown = archive_alloc(m->f, more, width);
    if (used) memcpy(grown, list, used * width);
    *cap = more;
    return grown;
}

static void push(machine *m, object *o) {
    m->stack = room_for(m, m->stack, m->depth, &m->depth_cap, sizeof *m->stack);
    m->stack[m->depth++] = o;
}

/* The mark is the floor: nothing below it is popped. */
static uint32_t floor_of(const machine *m) {
    return m->marks ? m->mark[m->marks - 1] : 0;
}

static object *pop(machine *m) {
    if (m->depth <= floor_of(m)) bad(m, "the stack is empty");
    return m->stack[--m->depth];
}

static object *top(machine *m) {
    if (m->depth <= floor_of(m)) bad(m, "the stack is empty");
    return m->stack[m->depth - 1];
}

static void set_mark(machine *m) {
    m->mark = room_for(m, m->mark, m->marks, &m->mark_cap, sizeof *m->mark);
    m->mark[m->marks++] = m->depth;
}

/* What lies above the last mark, which goes: at m->stack[m->depth], so many. */
static uint32_t pop_mark(machine *m) {
    if (!m->marks) bad(m, "no mark");
    uint32_t from = m->mark[--m->marks], n = m->depth - from;
    m->depth = from;
    return n;
}

static object *make(machine *m, object_kind kind) {
    object *o = archive_alloc(m->f, 1, sizeof *o);
    o->kind = (uint8_t)kind;
    return o;
}

static void push_int(machine *m, int64_t v) {
    object *o = make(m, O_INT);
    o->whole = v;
    push(m, o);
}

static void add_item(machine *m, object *to, object *key, object *value) {
    item *i = archive_alloc(m->f, 1, sizeof *i);
    *i = (item){key, value, NULL};
    if (to->last)
        to->last->next = i;
    else
        to->first = i;
    to->last = i;
    to->count++;
}

/* A tuple is a list that nothing is added to. */
static void push_tuple(machine *m, uint32_t n) {
    object *o = make(m, O_LIST);
    for (uint32_t i = 0; i < n; i++) add_item(m, o, NULL, m->stack[m->depth + i]);
    push(m, o);
}

static void append(machine *m, uint32_t n) {
    object *to = top(m);
    if (to->kind != O_LIST) bad(m, "something is appended to what is no list");
    for (uint32_t i = 0; i < n; i++) add_item(m, to, NULL, m->stack[m->depth + i]);
}

static void set_items(machine *m, uint32_t n) {
    object *to = top(m);
    if (to->kind != O_DICT || n % 2) bad(m, "items are set of what is no dict");
    for (uint32_t i = 0; i < n; i += 2)
        add_item(m, to, m->stack[m->depth + i], m->stack[m->depth + i + 1]);
}

static void remember(machine *m, uint32_t at) {
    if (at > m->s.end) bad(m, "a place that is too high"); /* each takes a byte at least */
    while (at >= m->memo_cap)
        m->memo = room_for(m, m->memo, m->memo_cap, &m->memo_cap, sizeof *m->memo);
    m->memo[at] = top(m);
}

static void recall(machine *m, uint32_t at) {
    if (at >= m->memo_cap || !m->memo[at]) bad(m, "a place that nothing was put to");
    push(m, m->memo[at]);
}

/* ---- globals and calls ----------------------------------------------------------------------- */

static const struct {
    const char *name;
    uint8_t dtype;
} storages[] = {{"Bool", QN_BOOL},  {"Byte", QN_U8},          {"Char", QN_I8},
                {"Short", QN_I16},  {"Int", QN_I32},          {"Long", QN_I64},
                {"Half", QN_F16},   {"BFloat16", QN_BF16},    {"Float", QN_F32},
                {"Double", QN_F64}, {"ComplexFloat", QN_C64}, {"ComplexDouble", QN_C128}};
static const char *const globals[] = {"collections OrderedDict", "torch._utils _rebuild_tensor_v2",
                                      "torch._utils _rebuild_parameter", "torch Size"};
enum { ORDERED_DICT, REBUILD_TENSOR, REBUILD_PARAMETER, SIZE };

static void push_global(machine *m, const char *module, const char *name) {
    char text[128];
    object *o = make(m, O_GLOBAL);
    snprintf(text, sizeof text, "%s %s", module, name);
    push(m, o);
    for (size_t i = 0; i < COUNT_OF(globals); i++)
        if (strcmp(text, globals[i]) == 0) {
            o->text = globals[i];
            return;
        }
    for (size_t i = 0; i < COUNT_OF(storages); i++) {
        char wanted[64];
        snprintf(wanted, sizeof wanted, "torch %sStorage", storages[i].name);
        if (strcmp(text, wanted) != 0) continue;
        o->text = storages[i].name;
        o->dtype = storages[i].dtype;
        o->count = 1; /* it is a storage's */
        return;
    }
    archive_bad(m->f, m->s.at,
                "the pickle wants %.100s, and only tensors, containers, numbers and texts are read",
                text);
}

static object *nth(object *list, uint32_t n) {
    if (!list || list->kind != O_LIST || n >= list->count) return NULL;
    item *i = list->first;
    while (n--) i = i->next;
    return i->value;
}

static bool is_kind(const object *o, object_kind kind) {
    return o && o->kind == kind;
}

/* ("storage", its class, key, device, elements) */
static void push_storage(machine *m) {
    object *id = pop(m), *what = nth(id, 0), *class = nth(id, 1), *key = nth(id, 2),
           *n = nth(id, 4);
    if (!is_kind(what, O_TEXT) || strcmp(what->text, "storage") || !is_kind(class, O_GLOBAL) ||
        !class->count || !is_kind(key, O_TEXT) || !is_kind(n, O_INT) || n->whole < 0)
        bad(m, "a persistent id that is no storage's");
    object *o = make(m, O_STORAGE);
    o->dtype = class->dtype;
    o->key = key->text;
    o->elements = (uint64_t)n->whole;
    push(m, o);
}

/* The numbers of a list of whole numbers from 0 on. */
static int64_t *numbers(machine *m, const object *list) {
    int64_t *out = archive_alloc(m->f, list->count, sizeof *out);
    int k = 0;
    for (item *i = list->first; i; i = i->next) {
        if (i->value->kind != O_INT || i->value->whole < 0) bad(m, "a size or stride that is none");
        out[k++] = i->value->whole;
    }
    return out;
}

/* {"conj": True, "neg": True}: the values are those of the storage with some signs changed. */
static uint8_t flips(machine *m, const object *metadata, qn_dtype dtype) {
    uint8_t flipped = 0;
    if (!metadata || metadata->kind == O_NONE) return 0;
    if (metadata->kind != O_DICT) bad(m, "a tensor whose metadata is no dict");
    for (const item *i = metadata->first; i; i = i->next) {
        if (!is_kind(i->key, O_TEXT) || !is_kind(i->value, O_INT))
            bad(m, "metadata of a tensor that is no name and bool");
        bool conj = !strcmp(i->key->text, "conj"), neg = !strcmp(i->key->text, "neg");
        if ((!conj && !neg) || (conj && !dtype_is_complex(dtype)) ||
            !dtype_is_float(dtype_part(dtype)))
            archive_bad(m->f, m->s.at,
                        "in the pickle: a tensor of %s that is \"%.80s\" is not read",
                        qn_dtype_name(dtype), i->key->text);
        uint8_t flip = conj ? FLIP_IMAGINARY : FLIP_ALL;
        flipped = (uint8_t)(i->value->whole ? flipped | flip : flipped & ~flip);
    }
    return flipped;
}

/* (storage, offset, shape, strides, requires_grad, hooks, metadata); the last may be lacking */
static void push_tensor(machine *m, object *args) {
    object *o = make(m, O_TENSOR), *offset = nth(args, 1), *size = nth(args, 2),
           *step = nth(args, 3);
    o->storage = nth(args, 0);
    if (!is_kind(o->storage, O_STORAGE) || !is_kind(offset, O_INT) || !is_kind(size, O_LIST) ||
        !is_kind(step, O_LIST) || size->count != step->count)
        bad(m, "a tensor that is not made as one");
    if (size->count > QN_MAX_RANK) bad(m, "a tensor of more than 12 axes");
    o->dtype = o->storage->dtype;
    o->offset = offset->whole;
    o->count = size->count;
    o->shape = numbers(m, size);
    o->steps = numbers(m, step);
    o->flipped = flips(m, nth(args, 6), (qn_dtype)o->dtype);
    push(m, o);
}

static void reduce(machine *m) {
    object *args = pop(m), *of = pop(m);
    if (!is_kind(of, O_GLOBAL) || of->count || !is_kind(args, O_LIST))
        bad(m, "a call of no function");
    if (of->text == globals[ORDERED_DICT]) {
        push(m, make(m, O_DICT));
    } else if (of->text == globals[REBUILD_TENSOR]) {
        push_tensor(m, args);
    } else {
        object *inner = nth(args, 0);
        if (!inner) bad(m, "a call without arguments");
        push(m, inner);
    }
}

/* ---- the instructions ------------------------------------------------------------------------ */

static void push_text(machine *m, uint64_t size) {
    object *o = make(m, O_TEXT);
    uint64_t at = m->s.at;
    char *text = source_text(&m->s, size);
    if (!json_utf8(text, (size_t)size))
        archive_bad(m->f, at, "in the pickle: a text that is no UTF-8");
    o->text = text;
    push(m, o);
}

/* A line of text, without its end. */
static const char *line(machine *m) {
    char text[128];
    size_t n = 0;
    for (char c; (c = (char)source_u8(&m->s)) != '\n';) {
        if (n + 1 == sizeof text) bad(m, "a name that is too long");
        text[n++] = c;
    }
    char *kept = archive_alloc(m->f, n + 1, 1);
    return memcpy(kept, text, n);
}

static void push_long(machine *m) {
    uint8_t n = source_u8(&m->s);
    uint64_t v = 0;
    if (n > 8) bad(m, "an integer past 64 bits");
    source_take(&m->s, &v, n);
    int unused = 64 - 8 * n;
    push_int(m, n ? (int64_t)(v << unused) >> unused : 0);
}

static void push_stack_global(machine *m) {
    object *name = pop(m), *module = pop(m);
    if (!is_kind(name, O_TEXT) || !is_kind(module, O_TEXT)) bad(m, "a global without a name");
    push_global(m, module->text, name->text);
}

static void push_few(machine *m, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) pop(m);
    push_tuple(m, n);
}

/* What carries data, or is one of many of a kind; false: another. Long because it is a list. */
static bool run_value(machine *m, uint8_t op) {
    source *s = &m->s;
    switch (op) {
    case 'X':
        push_text(m, source_u32(s));
        return true;
    case 0x8c:
        push_text(m, source_u8(s));
        return true;
    case 0x8d:
        push_text(m, source_u64(s));
        return true;
    case 'B':
        source_skip(s, source_u32(s));
        push(m, &m->none);
        return true;
    case 'C':
        source_skip(s, source_u8(s));
        push(m, &m->none);
        return true;
    case 'G':
        source_skip(s, 8);
        push(m, &m->none);
        return true;
    case 'J':
        push_int(m, (int32_t)source_u32(s));
        return true;
    case 'K':
        push_int(m, source_u8(s));
        return true;
    case 'M':
        push_int(m, source_u16(s));
        return true;
    case 0x8a:
        push_long(m);
        return true;
    case 0x88:
        push_int(m, 1);
        return true;
    case 0x89:
        push_int(m, 0);
        return true;
    case 'N':
        push(m, &m->none);
        return true;
    case '}':
        push(m, make(m, O_DICT));
        return true;
    case ']':
    case ')':
        push(m, make(m, O_LIST));
        return true;
    case 't':
        push_tuple(m, pop_mark(m));
        return true;
    case 0x85:
        push_few(m, 1);
        return true;
    case 0x86:
        push_few(m, 2);
        return true;
    case 0x87:
        push_few(m, 3);
        return true;
    default:
        return false;
    }
}

/* One instruction. Long because it is the list of them. */
static void run(machine *m) {
    source *s = &m->s;
    uint8_t op = source_u8(s);
    if (run_value(m, op)) return;
    switch (op) {
    case 0x80:
        source_skip(s, 1);
        break; /* the protocol; the frame */
    case 0x95:
        source_skip(s, 8);
        break;
    case '(':
        set_mark(m);
        break;
    case '0':
        pop(m);
        break;
    case '1':
        pop_mark(m);
        break;
    case 'q':
        remember(m, source_u8(s));
        break;
    case 'r':
        remember(m, source_u32(s));
        break;
    case 0x94:
        remember(m, m->memos++);
        break;
    case 'h':
        recall(m, source_u8(s));
        break;
    case 'j':
        recall(m, source_u32(s));
        break;
    case 'a':
        pop(m);
        append(m, 1);
        break;
    case 'e':
        append(m, pop_mark(m));
        break;
    case 's':
        pop(m), pop(m);
        set_items(m, 2);
        break;
    case 'u':
        set_items(m, pop_mark(m));
        break;
    case 'c': {
        const char *module = line(m);
        push_global(m, module, line(m));
        break;
    }
    case 0x93:
        push_stack_global(m);
        break;
    case 'Q':
        push_storage(m);
        break;
    case 'R':
        reduce(m);
        break;
    case 'b':
        pop(m);
        top(m);
        break; /* attributes of a dict: its _metadata */
    case '.':
        m->done = true;
        break;
    default:
        archive_bad(m->f, s->at - 1, "in the pickle: instruction 0x%02x is not read", op);
    }
}

/* ---- the tensors ----------------------------------------------------------------------------- */

typedef struct path {
    const struct path *up;
    const char *text; /* NULL: a number */
    int64_t number;
    int depth;
} path;
enum { DEPTH_MOST = 32, NAME_MOST = 1024 };

static const char *full_name(machine *m, const path *p) {
    const char *part[DEPTH_MOST + 1];
    char number[DEPTH_MOST + 1][24];
    uint64_t size = 0;
    int n = 0;
    for (; p && p->depth; p = p->up, n++) {
        if (!p->text) snprintf(number[n], sizeof number[n], "%lld", (long long)p->number);
        part[n] = p->text ? p->text : number[n];
        size += strlen(part[n]) + 1;
    }
    if (n == 0) return "tensor";
    if (size > NAME_MOST) bad(m, "a name that is too long");
    char *name = archive_alloc(m->f, size, 1);
    while (n--) {
        strcat(name, part[n]);
        if (n) strcat(name, ".");
    }
    return name;
}

/* Shape and strides must keep to the storage, and it to its member. */
static void list_tensor(machine *m, const object *o, const path *p) {
    archive *f = m->f;
    char member[256];
    archive_entry *e = &f->entry[f->count];
    e->name = full_name(m, p);
    e->rank = (uint8_t)o->count;
    e->dtype = o->dtype;
    e->shape = o->shape;
    e->strides = o->steps;
    e->flipped = o->flipped;
    e->bytes = archive_bytes(f, m->s.at, e);
    snprintf(member, sizeof member, "%sdata/%s", m->folder, o->storage->key);
    const zip_member *data = zip_find(f, member);
    if (!data) archive_bad(f, m->s.at, "tensor \"%.80s\": there is no member %s", e->name, member);
    zip_data(f, data);
    uint64_t width = qn_dtype_size((qn_dtype)e->dtype), elements = o->storage->elements;
    int64_t last = o->offset;
    for (int i = 0; i < e->rank; i++)
        last = sat_add(last, sat_mul(e->shape[i] ? e->shape[i] - 1 : 0, e->strides[i]));
    if (data->method || elements > data->size / width)
        archive_bad(f, data->at, "storage %s is deflated, or shorter than the pickle says", member);
    if (o->offset < 0 || (e->bytes && ((uint64_t)last >= elements || e->bytes / width > elements)))
        archive_bad(f, m->s.at, "tensor \"%.80s\" reaches past its storage of %llu elements",
                    e->name, (unsigned long long)elements);
    e->member = (uint32_t)(data - f->zip->member);
    e->at = e->bytes ? (uint64_t)o->offset * width : 0;
    f->count++;
}

/* Counts them, and where there is room for entries lists them. */
static void walk(machine *m, const object *o, const path *p, uint32_t *count) {
    if (++m->steps > m->steps_most || p->depth > DEPTH_MOST)
        archive_bad(m->f, m->s.at, "in the pickle: objects hold each other too often or too deep");
    if (o->kind == O_TENSOR) {
        if (m->f->entry) list_tensor(m, o, p);
        ++*count;
    }
    if (o->kind != O_LIST && o->kind != O_DICT) return;
    int64_t number = 0;
    for (const item *i = o->first; i; i = i->next) {
        path next = {p, NULL, number++, p->depth + 1};
        if (i->key && i->key->kind == O_TEXT) next.text = i->key->text;
        if (i->key && i->key->kind == O_INT) next.number = i->key->whole;
        walk(m, i->value, &next, count);
    }
}

/* ---- the kind -------------------------------------------------------------------------------- */

static void check_order(machine *m) {
    char name[256], text[8] = "";
    snprintf(name, sizeof name, "%sbyteorder", m->folder);
    const zip_member *z = zip_find(m->f, name);
    if (!z || z->size >= sizeof text) return;
    zip_read(m->f, z, text, z->size);
    if (strcmp(text, "little") != 0) archive_bad(m->f, z->at, "its bytes are %s-endian", text);
}

static void pt_open(archive *f) {
    machine *m = archive_alloc(f, 1, sizeof *m);
    const zip_member *pickle = NULL;
    char *folder = archive_alloc(f, 200, 1);
    for (uint32_t i = 0; i < f->zip->count && !pickle; i++) {
        const zip_member *z = &f->zip->member[i];
        size_t n = strlen(z->name);
        if (n < 9 || strcmp(z->name + n - 9, "/data.pkl") != 0) continue;
        if (n - 8 >= 200 || z->method)
            archive_bad(f, z->at, "data.pkl is packed, or deep in folders");
        memcpy(folder, z->name, n - 8);
        pickle = z;
    }
    m->f = f;
    m->folder = folder;
    check_order(m);
    uint64_t at = zip_data(f, pickle);
    source_open(&m->s, f, at, at + pickle->size);
    while (!m->done) run(m);
    const object *root = pop(m);
    const path top_path = {0};
    uint32_t count = 0;
    m->steps_most = 2 * pickle->size + 64;
    walk(m, root, &top_path, &count);
    f->entry = archive_alloc(f, (uint64_t)count + 1, sizeof *f->entry);
    m->steps = count = 0;
    walk(m, root, &top_path, &count);
}

/* Runs along the last axes without gaps are read at once; `from` is what the tensor spans. */
static void read_strided(archive *f, const archive_entry *e, void *out) {
    const zip_member *m = &f->zip->member[e->member];
    size_t width = qn_dtype_size((qn_dtype)e->dtype);
    uint64_t at = zip_data(f, m) + e->at, run = width, span = width;
    int rank = e->rank;
    if (e->bytes == 0) return;
    for (int k = 0; k < e->rank; k++)
        span += (uint64_t)(e->shape[k] - 1) * (uint64_t)e->strides[k] * width;
    while (rank > 0 && (e->shape[rank - 1] == 1 || (uint64_t)e->strides[rank - 1] * width == run))
        run *= (uint64_t)e->shape[--rank];
    if (rank == 0) {
        archive_read_at(f, at, out, (size_t)e->bytes);
        return;
    }
    heap_piece all = {&f->ctx->heap, heap_alloc(&f->ctx->heap, (size_t)span), (size_t)span};
    cleanup c;
    cleanup_push(&f->ctx->heap, &c, heap_piece_cleanup, &all);
    archive_read_at(f, at, all.p, (size_t)span);
    int64_t index[QN_MAX_RANK] = {0};
    for (uint64_t i = 0; i < e->bytes; i += run) {
        uint64_t from = 0;
        for (int k = 0; k < rank; k++) from += (uint64_t)(index[k] * e->strides[k]) * width;
        memcpy((uint8_t *)out + i, (const uint8_t *)all.p + from, (size_t)run);
        for (int k = rank - 1; k >= 0 && ++index[k] == e->shape[k]; k--) index[k] = 0;
    }
    cleanup_run(&f->ctx->heap, &c);
}

/* PyTorch stores the values that a conjugate or negative view looks at. */
static void pt_read(archive *f, const archive_entry *e, void *out) {
    uint8_t *p = out;
    size_t width = qn_dtype_size(dtype_part((qn_dtype)e->dtype));
    read_strided(f, e, out);
    for (uint64_t i = 0, n = e->flipped ? e->bytes / width : 0; i < n; i++) {
        bool flip = (e->flipped & FLIP_ALL) != 0;
        if (e->flipped & FLIP_IMAGINARY && i % 2) flip = !flip;
        if (flip) p[(i + 1) * width - 1] ^= 0x80;
    }
}

const archive_kind kind_pt = {"pt", pt_open, pt_read, NULL, NULL, false};
