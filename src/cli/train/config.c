/* config.c - the config of a model: from a JSON file and the command line, and as JSON.
 *
 *     {"hidden": 128, "dropout": 0.1}
 *
 * What a file does not say stays at its usual value. Every mistake names the file, the field, the
 * value and what it may be. */
#include "base/base.h"
#include "cli/train/named.h"
#include "io/io.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

typedef struct reading {
    qn_ctx *qn;
    arena a;
    const model_row *row;
    const char *path;
    void *config;
    const char *text;
    size_t size;
    const char *why; /* of fields_blame, */
    int line;        /* and what it finds; 0: nothing */
} reading;

static int line_of(const char *text, size_t at) {
    int line = 1;
    for (size_t i = 0; i < at; i++) line += text[i] == '\n';
    return line;
}

/* A field's value as it is spelled, which is a number or none; true and false are 1 and 0. */
static const char *spelled(reading *r, const json *v) {
    if (v->kind == JSON_TRUE || v->kind == JSON_FALSE) return v->kind == JSON_TRUE ? "1" : "0";
    if (v->kind == JSON_STRING) return arena_printf(&r->a, "\"%.40s\"", v->text);
    return v->kind == JSON_NUMBER  ? v->text
           : v->kind == JSON_ARRAY ? "[..]"
           : v->kind == JSON_NULL  ? "null"
                                   : "{..}";
}

static void read_text(void *arg) {
    reading *r = arg;
    json_fault fault = {0};
    model_why why;
    const json *v = json_parse(&r->a, r->text, r->size, &fault);
    if (!v)
        raise_error(r->qn, QN_EFORMAT, "%s: line %d: %s", r->path, line_of(r->text, fault.at),
                    fault.what);
    if (v->kind != JSON_OBJECT)
        raise_error(r->qn, QN_EFORMAT, "%s: not an object of fields", r->path);
    for (const json *f = v->first; f; f = f->next)
        if (!model_set(r->row, r->config, f->key, spelled(r, f), &why))
            raise_error(r->qn, QN_EARG, "%s: line %d: %s", r->path, line_of(r->text, f->at),
                        why.text);
}

int fields_of_text(qn_ctx *qn, const model_row *row, const char *path, const char *text,
                   size_t size, void *config) {
    reading r = {.qn = qn, .row = row, .path = path, .config = config, .text = text, .size = size};
    arena_open(&r.a, &qn->heap);
    int code = guarded(qn, read_text, &r);
    arena_free(&r.a);
    return code;
}

static bool from_file(qn_ctx *qn, const model_row *row, const char *path, void *config) {
    size_t size;
    char *text = cli_read_file(path, &size);
    if (!text) return cli_failed("train", "%s: %s", path, strerror(errno)), false;
    int code = fields_of_text(qn, row, path, text, size, config);
    free(text);
    if (code) cli_failed("train", "%s", qn_error(qn));
    return !code;
}

static bool has_word(const char *text, const char *word) {
    size_t length = strlen(word);
    const char *at = text;
    for (; length && (at = strstr(at, word)) != NULL; at += length)
        if ((at == text || !isalnum((uint8_t)at[-1])) && !isalnum((uint8_t)at[length])) return true;
    return false;
}

static void find_fields(void *arg) {
    reading *r = arg;
    json_fault fault;
    const json *v = json_parse(&r->a, r->text, r->size, &fault);
    for (const json *f = v ? v->first : NULL; f && !r->line; f = f->next)
        if (has_word(r->why, f->key)) r->line = line_of(r->text, f->at);
}

void fields_blame(qn_ctx *qn, const named_options *o, const char *why) {
    reading r = {.qn = qn, .why = why};
    char *text = o->config ? cli_read_file(o->config, &r.size) : NULL;
    r.text = text;
    arena_open(&r.a, &qn->heap);
    if (text) guarded(qn, find_fields, &r);
    arena_free(&r.a);
    free(text);
    if (r.line)
        cli_failed("train", "%s: line %d: %s", o->config, r.line, why);
    else
        cli_failed("train", "%s", why);
}

/* One "field=value". */
static bool from_text(const model_row *row, const char *text, void *config) {
    model_why why;
    char name[64];
    size_t length = strcspn(text, "=");
    if (!text[length] || length >= sizeof name)
        return cli_failed("train", "--set %s: not field=value", text), false;
    memcpy(name, text, length);
    name[length] = 0;
    if (model_set(row, config, name, text + length + 1, &why)) return true;
    return cli_failed("train", "--set: %s", why.text), false;
}

/* The options were parsed, so a --set has its value. */
static bool from_arguments(const model_row *row, int argc, char **argv, void *config) {
    for (int i = 0; i < argc; i++) {
        bool apart = !strcmp(argv[i], "--set") && i + 1 < argc;
        bool together = !strncmp(argv[i], "--set=", 6);
        if (!apart && !together) continue;
        if (!from_text(row, apart ? argv[++i] : argv[i] + 6, config)) return false;
    }
    return true;
}

void *fields_read(qn_ctx *qn, const model_row *row, const named_options *o, int argc, char **argv) {
    void *config = malloc(row->config);
    if (!config) return cli_failed("train", "out of memory"), NULL;
    model_usual(row, config);
    if ((!o->config || from_file(qn, row, o->config, config)) &&
        from_arguments(row, argc, argv, config))
        return config;
    free(config);
    return NULL;
}

void fields_write(str *out, const model_row *row, const void *config) {
    for (int i = 0; i < row->fields; i++)
        str_addf(out, "%s\"%s\":%.17g", i ? "," : "{", row->field[i].name,
                 model_get(row, config, i));
    str_add(out, row->fields ? "}" : "{}");
}
