/* weights.c - a model's tensors: found by the names of slots.h, held against the shapes that the
 * sizes ask for, and taken as the file has them, in the file where they can lie there. Blocks stay
 * blocks and f16 stays f16; vectors, which are small, become f32 here. Scales of blocks are looked
 * at as f16: a product that finds them so takes 0.7 of the time. Where the blocks do not lie in the
 * file they are put beside these. */
#include "archive/archive.h"
#include "llm/llm.h"

#include <stdio.h>
#include <stdlib.h>

enum { AHEAD_LEAST = 1 << 20 }; /* bytes of weights for which a thread reads ahead */

typedef struct slot_row {
    const char *name[4]; /* by llm_scheme; NULL: not there */
    uint8_t rows, columns;
    uint32_t with, without;
} slot_row;

static const slot_row slots[] = {
#define X(NAME, gguf, llama, gemma, gpt2, ROWS, COLUMNS, with, without)                            \
    {{gguf, llama, gemma, gpt2}, DIM_##ROWS, DIM_##COLUMNS, with, without},
#include "llm/slots.h"
#undef X
};

typedef struct named {
    const char *name;
    int i;
    bool taken;
} named;

typedef struct reader {
    llm *m;
    const llm_source *s;
    named *tensor; /* by name */
    size_t count;
    llm_scheme scheme;
    const char *prefix;
} reader;

static int by_name(const void *a, const void *b) {
    return strcmp(((const named *)a)->name, ((const named *)b)->name);
}

static named *find(const reader *r, const char *name) {
    const named key = {.name = name};
    return bsearch(&key, r->tensor, r->count, sizeof key, by_name);
}

/* ---- names ----------------------------------------------------------------------------------- */

/* What may stand before a safetensors file's names. */
static const char *const prefixes[] = {"model.", "", "transformer.", "language_model.model.",
                                       "model.language_model."};

/* The first that the embeddings are there with. */
static const char *prefix_of(const reader *r) {
    const char *name = slots[SLOT_EMBED].name[r->scheme];
    if (r->scheme == SCHEME_GGUF) return "";
    for (size_t i = 0; i < COUNT_OF(prefixes); i++)
        if (find(r, arena_printf(r->s->a, "%s%s", prefixes[i], name))) return prefixes[i];
    return prefixes[0];
}

static const char *layers_of(llm_scheme scheme) {
    return scheme == SCHEME_GGUF ? "blk" : scheme == SCHEME_GPT2 ? "h" : "layers";
}

/* Where the number of an expert is a part of the name; of those without it the name. */
static const char *numbered(const reader *r, const char *name, int64_t i) {
    const char *hash = strchr(name, '#');
    if (!hash) return name;
    return arena_printf(r->s->a, "%.*s%lld%s", (int)(hash - name), name, (long long)i, hash + 1);
}

static const char *name_of(const reader *r, int slot, int layer) {
    const char *name = slots[slot].name[r->scheme], *next;
    if (!name) return NULL;
    if (name[0] == '/') { /* beside what the prefix names */
        const char *own = arena_printf(r->s->a, "language_model.%s", name + 1);
        return find(r, own) ? own : name + 1;
    }
    if (layer < 0) return arena_printf(r->s->a, "%s%s", r->prefix, name);
    for (;; name = next + 1) { /* the last one is called missing */
        next = strchr(name, '|');
        int n = next ? (int)(next - name) : (int)strlen(name);
        const char *own =
            arena_printf(r->s->a, "%s%s.%d.%.*s", r->prefix, layers_of(r->scheme), layer, n, name);
        if (!next || find(r, numbered(r, own, 0))) return own;
    }
}

/* ---- one tensor ------------------------------------------------------------------------------ */

static const char *text_of_shape(const reader *r, int rank, const int64_t *shape) {
    str text;
    str_open_in(&text, r->s->a);
    str_add(&text, "[");
    for (int i = 0; i < rank; i++) str_addf(&text, "%s%lld", i ? ", " : "", (long long)shape[i]);
    str_add(&text, "]");
    return text.s;
}

/* Is it of the kind and shape that the model's sizes ask for? */
static void check(const reader *r, int slot, const char *name, const qn_archive_info *info) {
    const slot_row *row = &slots[slot];
    const int64_t *size = r->m->config.size;
    bool matrix = row->columns != DIM_ONE;
    bool turned = matrix && r->m->turned && slot >= SLOT_FIRST;
    int lead = row->with & STACKED && r->m->gguf, rank = lead + 1 + matrix;
    int64_t want[3] = {size[DIM_EXPERTS]};
    want[lead] = size[turned ? row->columns : row->rows];
    want[lead + 1] = size[turned ? row->rows : row->columns];
    bool same = info->rank == rank;
    for (int i = 0; same && i < rank; i++) same = info->shape[i] == want[i];
    if (!same)
        llm_bad(r->s, "tensor \"%.100s\" is %s, where the model's sizes ask for %s", name,
                text_of_shape(r, info->rank, info->shape), text_of_shape(r, rank, want));
    if (!info->quant && !dtype_is_float((int)info->dtype))
        llm_bad(r->s, "tensor \"%.100s\" is %s, not a float", name, qn_dtype_name(info->dtype));
    if (!info->quant && qn_dtype_size(info->dtype) < 2) /* their scales are apart */
        llm_bad(r->s, "tensor \"%.100s\" is %s; floats of 16 bits or more are read", name,
                qn_dtype_name(info->dtype));
}

/* What is known of a tensor that is there, which is counted. */
static void look_at(reader *r, int slot, named *found, qn_archive_info *info) {
    llm *m = r->m;
    found->taken = true;
    *info = (qn_archive_info){0};
    if (qn_archive_get_info(r->s->archive, found->i, info, sizeof *info))
        heap_unwind(&m->ctx->heap);
    if (slot == SLOT_EMBED && !m->config.size[DIM_VOCABULARY] && info->rank == 2)
        m->config.size[DIM_VOCABULARY] = info->shape[0];
    check(r, slot, found->name, info);
    uint64_t n = 1;
    for (int d = 0; d < info->rank; d++) n *= (uint64_t)info->shape[d];
    m->parameters += n;
    m->bytes += info->bytes;
}

/* Matrices that lie apart in the file, as one: a copy of them. */
static qn_tensor *gathered(reader *r, int slot, const char *name, qn_archive_info *info) {
    int64_t n = r->m->config.size[DIM_EXPERTS];
    qn_tensor **part = arena_alloc(r->s->a, (size_t)n * sizeof(qn_tensor *)), *t;
    for (int64_t i = 0; i < n; i++) {
        const char *own = numbered(r, name, i);
        named *found = find(r, own);
        if (!found) llm_bad(r->s, "tensor \"%.100s\" is missing", own);
        look_at(r, slot, found, info);
        part[i] = qn_archive_tensor(r->s->archive, own);
    }
    t = qn_stack((int)n, part, 0);
    return t && qn_realize(1, &t) == QN_OK ? t : NULL;
}

static qn_tensor *as_vector(const reader *r, int slot, qn_tensor *t) {
    bool norm = slot == SLOT_NORM || slot == SLOT_ATTN_NORM || slot == SLOT_FFN_NORM ||
                slot == SLOT_Q_NORM || slot == SLOT_K_NORM || slot == SLOT_POST_ATTN ||
                slot == SLOT_POST_FFN;
    t = qn_cast(t, QN_F32);
    if (norm && r->s->json && r->m->config.arch->flags & ARCH_PLUS) t = qn_add(t, qn_like(t, 1));
    return t && qn_realize(1, &t) == QN_OK ? t : NULL;
}

/* Of blocks that lie in the file the same memory as f16, else a tensor of its own. */
static bool scales_read(const reader *r, const char *name, llm_weight *w) {
    qn_tensor *t = archive_halves(r->s->archive, name);
    if (!t && qn_error_code(r->m->ctx)) return false;
    w->halves = t != NULL;
    if (!t && (t = quant_scales(w->t, w->quant)) && qn_realize(1, &t)) t = NULL;
    if (t) w->scales = qn_keep(t);
    return t != NULL;
}

static void read_slot(reader *r, int slot, int layer) {
    llm *m = r->m;
    const slot_row *row = &slots[slot];
    uint32_t flags = m->config.arch->flags;
    const char *name = name_of(r, slot, layer);
    uint32_t with = row->with & ~(uint32_t)STACKED;
    bool wanted = with != OPTIONAL && (flags & with) == with && !(flags & row->without);
    named *found = name && (wanted || with == OPTIONAL) ? find(r, numbered(r, name, 0)) : NULL;
    if (wanted && !found)
        llm_bad(r->s, "tensor \"%.100s\" is missing",
                name ? numbered(r, name, 0) : slots[slot].name[0]);
    if (slot == SLOT_OUTPUT && !found && m->config.untied)
        llm_bad(r->s, "tensor \"%.100s\" is missing, and the embeddings are not tied to it", name);
    if (!found) return;
    qn_archive_info info;
    llm_weight *w = layer < 0 ? &m->whole[slot] : &m->layer[layer][slot - SLOT_FIRST];
    bool vector = row->columns == DIM_ONE, apart = strchr(name, '#') != NULL;
    qn_scope scope = qn_scope_begin(m->ctx);
    if (!apart) look_at(r, slot, found, &info);
    qn_tensor *t = apart                   ? gathered(r, slot, name, &info)
                   : info.quant && !vector ? qn_archive_blocks(r->s->archive, name)
                                           : qn_archive_tensor(r->s->archive, name);
    if (vector && t) t = as_vector(r, slot, t);
    if (t) {
        qn_set_name(t, name);
        w->t = qn_keep(t);
    }
    w->quant = (uint8_t)(vector ? 0 : info.quant);
    if (t && quant_whole(w->quant) && !scales_read(r, name, w)) t = NULL;
    qn_scope_end(m->ctx, scope);
    if (!t) heap_unwind(&m->ctx->heap);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static bool begins(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

static bool ends(const char *text, const char *with) {
    size_t n = strlen(text), k = strlen(with);
    return n >= k && strcmp(text + n - k, with) == 0;
}

/* A tensor that no slot names is a part of the model that would be left out, unless it is a table
 * of what is computed here. */
static void check_taken(const reader *r) {
    static const char *const tables[] = {".attn.bias", ".attn.masked_bias", "rotary_emb.inv_freq",
                                         ".attn_rot_embd.weight"};
    const char *layers = arena_printf(r->s->a, "%s%s.", r->prefix, layers_of(r->scheme));
    for (size_t i = 0; i < r->count; i++) {
        const char *name = r->tensor[i].name;
        bool table = false, part = begins(name, layers) || begins(name, "rope_");
        for (size_t k = 0; k < COUNT_OF(tables); k++) table |= ends(name, tables[k]);
        if (part && !table && !r->tensor[i].taken)
            llm_bad(r->s, "tensor \"%.100s\" has no place in the architecture %s", name,
                    r->s->json ? r->m->config.arch->hf : r->m->config.arch->gguf);
    }
}

void weights_read(llm *m, const llm_source *s) {
    reader r = {.m = m, .s = s, .count = (size_t)qn_archive_count(s->archive)};
    const llm_config *c = &m->config;
    r.scheme = s->json ? (llm_scheme)c->arch->scheme : SCHEME_GGUF;
    m->gguf = !s->json;
    m->turned = r.scheme == SCHEME_GPT2;
    m->pairs = r.scheme == SCHEME_GGUF && c->arch->flags & ARCH_PAIRS;
    r.tensor = arena_alloc(s->a, (r.count + 1) * sizeof *r.tensor);
    for (size_t i = 0; i < r.count; i++)
        r.tensor[i] = (named){.name = qn_archive_name(s->archive, (int)i), .i = (int)i};
    if (r.count) qsort(r.tensor, r.count, sizeof *r.tensor, by_name);
    r.prefix = prefix_of(&r);
    m->layer = arena_zeroed(&m->a, (size_t)c->layers * sizeof *m->layer);
    for (int i = 0; i < SLOT_FIRST; i++) read_slot(&r, i, -1);
    for (int layer = 0; layer < c->layers; layer++)
        for (int i = SLOT_FIRST; i < SLOTS; i++) read_slot(&r, i, layer);
    check_taken(&r);
    /* The first token needs all of it, of a mixture a part; a little comes sooner than a thread. */
    if (!(c->arch->flags & ARCH_EXPERTS) && m->bytes >= AHEAD_LEAST) archive_ahead(s->archive);
}

/* What a name is behind "layers.3.", whose number goes to *layer, else NULL. */
static const char *behind_layer(llm_scheme scheme, const char *name, int64_t *layer) {
    const size_t n = strlen(layers_of(scheme));
    char *end;
    if (!begins(name, layers_of(scheme)) || name[n] != '.') return NULL;
    if (name[n + 1] < '0' || name[n + 1] > '9') return NULL;
    *layer = strtol(name + n + 1, &end, 10);
    return *end == '.' ? end + 1 : NULL;
}

/* Is it one of the names of a slot that rows are multiplied with as they come? */
static bool names_slot(const slot_row *row, llm_scheme scheme, const char *name) {
    const char *own = row->name[scheme], *end;
    if (!own || row->columns == DIM_ONE || row->with & STACKED) return false;
    if (*own == '/') own++;
    for (; own; own = *end ? end + 1 : NULL) {
        end = own + strcspn(own, "|");
        if (strlen(name) == (size_t)(end - own) && begins(own, name)) return true;
    }
    return false;
}

llm_weight *weight_named(llm *m, llm_scheme scheme, const char *name, int *slot) {
    for (size_t k = 0; k < COUNT_OF(prefixes); k++) {
        const char *lead = scheme == SCHEME_GGUF ? "" : prefixes[k];
        if (!begins(name, lead)) continue;
        int64_t layer = 0;
        const char *own = name + strlen(lead), *rest = behind_layer(scheme, own, &layer);
        *slot = SLOT_OUTPUT;
        if (!rest && names_slot(&slots[*slot], scheme, own)) return &m->whole[*slot];
        if (!rest || layer >= m->config.layers) continue;
        for (*slot = SLOT_FIRST; *slot < SLOTS; ++*slot) {
            llm_weight *w = &m->layer[layer][*slot - SLOT_FIRST];
            if (w->t && names_slot(&slots[*slot], scheme, rest)) return w;
        }
    }
    return NULL;
}

void weight_shape(const llm *m, int slot, int64_t shape[2]) {
    shape[0] = m->config.size[slots[slot].rows];
    shape[1] = m->config.size[slots[slot].columns];
}

static void release(llm_weight *w, int n) {
    for (int i = 0; i < n; i++) {
        qn_tensor *const all[] = {w[i].t, w[i].scales, w[i].down, w[i].up};
        for (size_t k = 0; k < COUNT_OF(all); k++)
            if (all[k]) qn_release(all[k]);
    }
}

void weights_free(llm *m) {
    release(m->whole, SLOT_FIRST);
    for (int64_t i = 0; m->layer && i < m->config.layers; i++)
        release(m->layer[i], SLOTS - SLOT_FIRST);
}
