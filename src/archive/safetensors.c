/* safetensors.c - safetensors files, and indices of their shards, as archives.
 *
 * A file is qn_file's, which checks it; its header is parsed once more for what qn_file does not
 * tell. An index is JSON, {"metadata": {..}, "weight_map": {"name": "file", ..}}: the shards lie in
 * its folder, and a name that leads out of it is refused. */
#include "archive/archive.h"

static const char metadata_key[] = "__metadata__";

/* The whole of a JSON file or header, parsed into the archive's arena; raises. */
static const json *parse_at(archive *f, uint64_t at, uint64_t size, arena *a) {
    json_fault fault = {"not an object", 0};
    char *text = arena_alloc(a, (size_t)size + 1);
    archive_read_at(f, at, text, (size_t)size);
    text[size] = 0;
    const json *v = json_parse(a, text, (size_t)size, &fault);
    if (!v || v->kind != JSON_OBJECT) archive_bad(f, at + fault.at, "%s", fault.what);
    return v;
}

static const char *kept(archive *f, const char *text) {
    size_t n = strlen(text) + 1;
    return memcpy(archive_alloc(f, n, 1), text, n);
}

static void keep_texts(archive *f, const json *object) {
    if (!object || object->kind != JSON_OBJECT) return;
    f->meta = archive_alloc(f, object->count, sizeof *f->meta);
    for (const json *v = object->first; v; v = v->next) {
        if (v->kind != JSON_STRING && v->kind != JSON_NUMBER) continue;
        archive_meta *m = &f->meta[f->metas++];
        char *text = archive_alloc(f, (uint64_t)v->text_size + 1, 1);
        uint64_t *start = archive_alloc(f, 2, sizeof *start);
        memcpy(text, v->text, v->text_size);
        start[1] = (uint64_t)v->text_size + 1;
        *m = (archive_meta){kept(f, v->key), text, start, 1, GGUF_TEXT, false};
    }
}

/* ---- one file -------------------------------------------------------------------------------- */

/* qn_file has looked at all of it; but the file may be another by now. */
static void list_entry(archive *f, const json *v, uint64_t data) {
    archive_entry *e = &f->entry[f->count];
    const json *dtype = json_member(v, "dtype"), *shape = json_member(v, "shape");
    const json *offsets = json_member(v, "data_offsets");
    int64_t begin = 0;
    int row = 0;
    while (row < DTYPE_COUNT && dtype && dtype->kind == JSON_STRING &&
           strcmp(dtype->text, dtype_rows[row].file) != 0)
        row++;
    if (!dtype || row == DTYPE_COUNT || !shape || shape->count > QN_MAX_RANK)
        archive_bad(f, v->at, "the file changes while it is read");
    e->name = kept(f, v->key);
    e->dtype = (uint8_t)row;
    e->rank = (uint8_t)shape->count;
    e->shape = archive_alloc(f, shape->count, sizeof *e->shape);
    int i = 0;
    for (const json *dim = shape->first; dim; dim = dim->next, i++)
        if (!json_int(dim, &e->shape[i])) archive_bad(f, dim->at, "a size that is no whole number");
    e->bytes = archive_bytes(f, v->at, e);
    if (!offsets || offsets->kind != JSON_ARRAY || !json_int(offsets->first, &begin) || begin < 0 ||
        (uint64_t)begin > f->size - data || e->bytes > f->size - data - (uint64_t)begin)
        archive_bad(f, v->at, "the file changes while it is read");
    e->at = data + (uint64_t)begin;
    f->count++;
}

static void list_file(archive *f, arena *a) {
    uint64_t size;
    archive_read_at(f, 0, &size, sizeof size);
    if (size > f->size - sizeof size) archive_bad(f, 0, "the file changes while it is read");
    const json *header = parse_at(f, sizeof size, size, a);
    const json *metadata = json_member(header, metadata_key);
    f->entry = archive_alloc(f, header->count, sizeof *f->entry);
    for (const json *v = header->first; v; v = v->next)
        if (v != metadata) list_entry(f, v, sizeof size + size);
    keep_texts(f, metadata);
}

/* By a temporary arena. */
static void with_arena(archive *f, void (*work)(archive *, arena *)) {
    arena a;
    cleanup c;
    arena_open(&a, &f->ctx->heap);
    cleanup_push(&f->ctx->heap, &c, arena_cleanup, &a);
    work(f, &a);
    cleanup_run(&f->ctx->heap, &c);
}

static void safetensors_open(archive *f) {
    f->own = qn_file_open(f->ctx, f->path);
    if (!f->own) heap_unwind(&f->ctx->heap);
    with_arena(f, list_file);
}

static qn_tensor *safetensors_tensor(archive *f, const archive_entry *e) {
    return qn_file_tensor(f->own, e->name);
}

static void safetensors_close(archive *f) {
    qn_file_close(f->own);
}

const archive_kind kind_safetensors = {"safetensors",      safetensors_open,  NULL,
                                       safetensors_tensor, safetensors_close, true};

/* ---- shards ---------------------------------------------------------------------------------- */

enum { SHARDS_MOST = 4096 };
typedef struct shards {
    archive *shard[SHARDS_MOST];
    const char *name[SHARDS_MOST];
    uint32_t count;
} shards;

/* A plain name, in the folder of the index. */
static archive *open_shard(archive *f, const json *v) {
    const char *end = strrchr(f->path, '/');
    char path[FOLDER_PATH];
    size_t folder = end ? (size_t)(end + 1 - f->path) : 0;
    if (v->kind != JSON_STRING || strlen(v->text) != v->text_size || strchr(v->text, '/') ||
        strchr(v->text, '\\') || v->text[0] == '.' || !v->text[0])
        archive_bad(f, v->at, "tensor \"%.80s\" is in no file of the index's folder", v->key);
    if (strlen(v->text) < 12 || strcmp(v->text + strlen(v->text) - 12, ".safetensors") != 0)
        archive_bad(f, v->at, "\"%.80s\" is no safetensors file", v->text);
    if (folder + v->text_size >= sizeof path) archive_bad(f, v->at, "a path that is too long");
    memcpy(path, f->path, folder);
    memcpy(path + folder, v->text, (size_t)v->text_size + 1);
    archive *shard = archive_load(f->ctx, path);
    if (!shard) heap_unwind(&f->ctx->heap);
    if (shard->kind == &kind_safetensors) return shard;
    const char *kind = shard->kind->name;
    archive_free(shard);
    archive_bad(f, v->at, "\"%.80s\" is no safetensors file, but %s", v->text, kind);
}

static uint32_t shard_of(archive *f, const json *v) {
    shards *all = f->own;
    for (uint32_t i = all->count; i-- > 0;)
        if (v->kind == JSON_STRING && strcmp(all->name[i], v->text) == 0) return i;
    if (all->count == SHARDS_MOST) archive_bad(f, v->at, "more than %d shards", SHARDS_MOST);
    all->shard[all->count] = open_shard(f, v);
    all->count++;
    all->name[all->count - 1] = "";
    all->name[all->count - 1] = kept(f, v->text);
    return all->count - 1;
}

static void list_index(archive *f, arena *a) {
    const json *index = parse_at(f, 0, f->size, a);
    const json *map = json_member(index, "weight_map");
    if (!map || map->kind != JSON_OBJECT) archive_bad(f, 0, "no weight_map: an index of nothing");
    f->entry = archive_alloc(f, map->count, sizeof *f->entry);
    for (const json *v = map->first; v; v = v->next) {
        uint32_t i = shard_of(f, v);
        const archive *shard = ((shards *)f->own)->shard[i];
        const archive_entry *e = archive_find(shard, v->key);
        if (!e) archive_bad(f, v->at, "tensor \"%.80s\" is not in %.80s", v->key, v->text);
        f->entry[f->count] = *e;
        f->entry[f->count++].member = i;
    }
    keep_texts(f, json_member(index, "metadata"));
}

static void index_open(archive *f) {
    f->own = archive_alloc(f, 1, sizeof(shards));
    with_arena(f, list_index);
}

static qn_tensor *index_tensor(archive *f, const archive_entry *e) {
    archive *shard = ((shards *)f->own)->shard[e->member];
    shard->mapped = f->mapped;
    return archive_read(shard, archive_find(shard, e->name), false);
}

static void index_close(archive *f) {
    shards *all = f->own;
    for (uint32_t i = 0; all && i < all->count; i++) archive_free(all->shard[i]);
}

const archive_kind kind_index = {"index", index_open, NULL, index_tensor, index_close, false};
