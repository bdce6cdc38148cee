/* values.c - parameters as C: arrays of constants, or a blob that the program reads or maps.
 *
 * Floats are written as the bits that they are, in a union whose other member has their values: so
 * a NaN keeps its payload, and no compiler's reading of decimals matters. Narrow floats are bits in
 * memory anyhow. In a blob values lie one after the other, each at a multiple of 64 bytes, in the
 * order of bytes of the machine that wrote it. */
#include "export/export.h"

const char *export_type(int dtype) {
    return clike_memory_type(dtype);
}

static bool has_bits(int dtype) {
    return dtype == QN_F32 || dtype == QN_F64;
}

static void add_element(str *out, int dtype, const unsigned char *at) {
    size_t width = qn_dtype_size((qn_dtype)dtype);
    uint64_t u = 0;
    for (size_t i = 0; i < width; i++) u |= (uint64_t)at[i] << 8 * i;
    if (width == 8 && dtype == QN_I64)
        str_addf(out, u >> 63 ? "-0x%llx - 1" : "0x%llx", (unsigned long long)(u >> 63 ? ~u : u));
    else if (width < 8 && (dtype == QN_I8 || dtype == QN_I16 || dtype == QN_I32))
        str_addf(out, "%lld", (long long)(u << (64 - 8 * width)) / (1ll << (64 - 8 * width)));
    else
        str_addf(out, "0x%llx", (unsigned long long)u);
}

/* The value's bytes in this process's memory, in the arena. */
static const unsigned char *bytes_of(export *e, const export_value *v, arena *a) {
    unsigned char *data = arena_zeroed(a, v->size + 8);
    const run_state *r = e->qn->run;
    if (!v->buffer) return data;
    const buffer *b = buffer_at(e->qn, v->buffer);
    qn_code code = r->dev->copy_out(r->dev_state, b->memory, 0, data, v->size);
    if (code) raise_error(e->qn, code, "export: a parameter cannot be read");
    return data;
}

static void add_array(export *e, uint32_t number, arena *a, str *out) {
    enum { A_LINE = 8 };
    const export_value *v = &e->value[number];
    size_t width = qn_dtype_size((qn_dtype)v->dtype), n = v->size / width;
    const unsigned char *data = bytes_of(e, v, a);
    const char *type = export_type(v->dtype);
    size_t room = n ? n : 1;
    if (has_bits(v->dtype))
        str_addf(out,
                 "\nstatic const union {\n    uint%zu_t bits[%zu];\n    %s value[%zu];\n} "
                 "weight_%u = {{",
                 8 * width, room, type, room, number);
    else
        str_addf(out, "\nstatic const %s weight_%u[%zu] = {", type, number, room);
    for (size_t i = 0; i < n; i++) {
        str_add(out, i % A_LINE ? " " : "\n    ");
        add_element(out, v->dtype, data + i * width);
        str_add(out, ",");
    }
    if (!n) str_add(out, "0");
    str_add(out, has_bits(v->dtype) ? "\n}};\n" : "\n};\n");
}

void export_arrays(export *e, str *out) {
    for (uint32_t i = 0; i < e->values; i++) {
        arena a;
        arena_open(&a, &e->qn->heap);
        cleanup undo;
        cleanup_push(&e->qn->heap, &undo, arena_cleanup, &a);
        add_array(e, i, &a, out);
        cleanup_run(&e->qn->heap, &undo);
    }
}

void export_blob(export *e, file_writer *w) {
    static const char zeros[EXPORT_ALIGN];
    for (uint32_t i = 0; i < e->values; i++) {
        arena a;
        arena_open(&a, &e->qn->heap);
        cleanup undo;
        cleanup_push(&e->qn->heap, &undo, arena_cleanup, &a);
        const export_value *v = &e->value[i];
        size_t end = i + 1 < e->values ? e->value[i + 1].offset : e->blob_bytes;
        if (file_write(w, bytes_of(e, v, &a), v->size) ||
            file_write(w, zeros, end - v->offset - v->size))
            heap_unwind(&e->qn->heap);
        cleanup_run(&e->qn->heap, &undo);
    }
}

void export_place(const export *e, export_home h, bool reads, str *out) {
    const char *type = reads ? "const void *" : "void *";
    if (h.kind == HOME_INPUT)
        str_addf(out, "input_%u", h.number);
    else if (h.kind == HOME_OUTPUT)
        str_addf(out, "output_%u", h.number);
    else if (h.kind == HOME_ARENA)
        str_addf(out, "(%s)(temporary + %zu)", type, h.offset);
    else if (h.kind == HOME_LEAF)
        str_addf(out, "leaf_%u", h.number);
    else if (h.kind == HOME_ROOT)
        str_addf(out, "root_%u", h.number);
    else if (h.kind == HOME_PACK)
        str_addf(out, "pack_%u", h.number);
    else if (h.kind == HOME_STATE)
        str_addf(out, "(%s)(kept + %zu)", type, h.offset);
    else if (e->blob)
        str_addf(out, "(const void *)(blob + %zu)", e->value[h.number].offset);
    else
        str_addf(out, "weight_%u%s", h.number, has_bits(e->value[h.number].dtype) ? ".value" : "");
}
