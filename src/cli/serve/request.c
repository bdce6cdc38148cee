/* request.c - what the body of a request asks for.
 *
 * A body comes from anywhere: the io room's strict JSON reader takes it, and each field of rows[]
 * is checked for its type and range. A field that is not known is left alone, as OpenAI's clients
 * expect; one that is known and would change the answer, but cannot be had here, is an error unless
 * its value asks for nothing. null is as good as no field. What is wrong is said with the field and
 * its value. */
#include "cli/serve/serve.h"
#include "io/io.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef enum field_kind { FIELD_REAL, FIELD_WHOLE, FIELD_FLAG, FIELD_NOTHING } field_kind;

typedef struct field {
    const char *name;
    field_kind kind;
    size_t at; /* in serve_request */
    double lo, hi;
} field;

#define AT(member) offsetof(serve_request, member)
static const field rows[] = {
    {"temperature", FIELD_REAL, AT(sample.temperature), 0, 100},
    {"top_p", FIELD_REAL, AT(sample.top_p), 0, 1},
    {"min_p", FIELD_REAL, AT(sample.min_p), 0, 1},
    {"top_k", FIELD_WHOLE, AT(sample.top_k), 0, 1e9},
    {"repetition_penalty", FIELD_REAL, AT(sample.repetition), 0, 100},
    {"presence_penalty", FIELD_REAL, AT(sample.presence), -2, 2},
    {"frequency_penalty", FIELD_REAL, AT(sample.frequency), -2, 2},
    {"max_tokens", FIELD_WHOLE, AT(most), 1, 1e9},
    {"max_completion_tokens", FIELD_WHOLE, AT(most), 1, 1e9},
    {"seed", FIELD_WHOLE, AT(sample.seed), -0x1p63, 0x1p63},
    {"stream", FIELD_FLAG, AT(stream), 0, 0},
    {"ignore_eos", FIELD_FLAG, AT(unending), 0, 0},
    {"n", FIELD_WHOLE, 0, 1, 1},
    {"best_of", FIELD_WHOLE, 0, 1, 1},
    {"echo", FIELD_NOTHING, 0, 0, 0},
    {"suffix", FIELD_NOTHING, 0, 0, 0},
    {"logprobs", FIELD_NOTHING, 0, 0, 0},
    {"logit_bias", FIELD_NOTHING, 0, 0, 0},
    {"tools", FIELD_NOTHING, 0, 0, 0},
    {"functions", FIELD_NOTHING, 0, 0, 0},
};

typedef struct reading {
    qn_ctx *qn;
    arena a;
    const char *body;
    size_t size;
    serve_request *r;
    serve_error *e;
} reading;

/* ---- what is wrong --------------------------------------------------------------------------- */

void error_set(serve_error *e, int status, const char *param, const char *fmt, ...) {
    va_list args;
    *e = (serve_error){.status = status};
    snprintf(e->param, sizeof e->param, "%s", param);
    va_start(args, fmt);
    vsnprintf(e->message, sizeof e->message, fmt, args);
    va_end(args);
}

/* At most so many bytes of a text, in whole characters. */
static int whole_part(const char *text, size_t size, size_t most) {
    if (size <= most) return (int)size;
    while (most && ((unsigned char)text[most] & 0xc0) == 0x80) most--;
    return (int)most;
}

/* A value as a message has it. */
static const char *shown(const json *v, char out[80]) {
    static const char *const words[] = {"null", "false", "true"};
    if (v->kind <= JSON_TRUE)
        snprintf(out, 80, "%s", words[v->kind]);
    else if (v->kind == JSON_NUMBER)
        snprintf(out, 80, "%.40s", v->text);
    else if (v->kind == JSON_STRING)
        snprintf(out, 80, "\"%.*s\"%s", whole_part(v->text, v->text_size, 40), v->text,
                 v->text_size > 40 ? ".." : "");
    else
        snprintf(out, 80, "%s of %u", v->kind == JSON_ARRAY ? "a list" : "an object", v->count);
    return out;
}

static bool wrong(reading *p, const char *param, const json *v, const char *wanted) {
    char value[80];
    if (!v)
        error_set(p->e, 400, param, "%s is missing; it is %s", param, wanted);
    else
        error_set(p->e, 400, param, "%s is %s; it is %s", param, shown(v, value), wanted);
    return false;
}

/* NULL: none, or null. */
static const json *given(const json *object, const char *name) {
    const json *v = json_member(object, name);
    return v && v->kind != JSON_NULL ? v : NULL;
}

/* ---- rows[] ---------------------------------------------------------------------------------- */

/* A value that asks for nothing that is not there anyway. */
static bool asks_nothing(const json *v) {
    const json *type = json_member(v, "type");
    if (type && type->kind == JSON_STRING && !strcmp(type->text, "text")) return true;
    if (v->kind == JSON_STRING) return v->text_size == 0;
    return v->kind == JSON_FALSE || (v->kind >= JSON_ARRAY && v->count == 0);
}

static bool read_number(reading *p, const field *row, const json *v) {
    char wanted[80];
    bool whole = row->kind == FIELD_WHOLE;
    double real = v->kind == JSON_NUMBER ? text_f64(v->text, NULL) : NAN;
    int64_t number = 0;
    bool fits = real >= row->lo && real <= row->hi && (!whole || json_int(v, &number));
    if (!fits && row->lo == row->hi) {
        snprintf(wanted, sizeof wanted, "%g here, no other number is had", row->lo);
        return wrong(p, row->name, v, wanted);
    }
    if (!fits && row->hi >= 0x1p62) return wrong(p, row->name, v, "a whole number of 64 bits");
    if (!fits) {
        snprintf(wanted, sizeof wanted, "a %snumber from %.10g to %.10g", whole ? "whole " : "",
                 row->lo, row->hi);
        return wrong(p, row->name, v, wanted);
    }
    if (!row->at) return true;
    memcpy((char *)p->r + row->at, whole ? (void *)&number : (void *)&real, sizeof number);
    return true;
}

static bool read_field(reading *p, const field *row, const json *v) {
    char value[80];
    if (row->kind == FIELD_NOTHING && !asks_nothing(v)) {
        error_set(p->e, 400, row->name, "%s is %s, and there is no %s here", row->name,
                  shown(v, value), row->name);
        return false;
    }
    if (row->kind == FIELD_NOTHING) return true;
    if (row->kind != FIELD_FLAG) return read_number(p, row, v);
    if (v->kind != JSON_FALSE && v->kind != JSON_TRUE)
        return wrong(p, row->name, v, "true or false");
    memcpy((char *)p->r + row->at, &(bool){v->kind == JSON_TRUE}, sizeof(bool));
    return true;
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* A string without NULs, kept in memory of its own. */
static bool keep_text(reading *p, const char *param, const json *v, char **out) {
    if (v->kind != JSON_STRING || memchr(v->text, 0, v->text_size))
        return wrong(p, param, v, "a string without NULs");
    *out = malloc((size_t)v->text_size + 1);
    if (!*out) return error_set(p->e, 500, param, "out of memory"), false;
    memcpy(*out, v->text, (size_t)v->text_size + 1);
    return true;
}

static bool read_stop(reading *p, const json *v) {
    const json *one = v && v->kind == JSON_ARRAY ? v->first : v;
    for (; one; one = v->kind == JSON_ARRAY ? one->next : NULL) {
        if (p->r->stops == STOPS_MOST) return wrong(p, "stop", v, "a list of 16 strings at most");
        if (one->kind == JSON_STRING && one->text_size == 0)
            return wrong(p, "stop", one, "a string that is not empty, or a list of such");
        if (!keep_text(p, "stop", one, &p->r->stop[p->r->stops])) return false;
        p->r->stops++;
    }
    return true;
}

static bool read_ids(reading *p, const json *list) {
    p->r->ids = malloc((size_t)list->count * sizeof *p->r->ids);
    if (!p->r->ids) return error_set(p->e, 500, "prompt", "out of memory"), false;
    for (const json *v = list->first; v; v = v->next) {
        int64_t id;
        if (!json_int(v, &id) || id < 0 || id > INT32_MAX) {
            char param[32];
            snprintf(param, sizeof param, "prompt[%u]", v->index);
            return wrong(p, param, v, "a token");
        }
        p->r->ids[p->r->count++] = (int32_t)id;
    }
    return true;
}

/* A string, tokens, or a list of one such. */
static bool read_prompt(reading *p, const json *v) {
    static const char wanted[] = "a string, or a list of tokens; one prompt";
    if (v && v->kind == JSON_ARRAY && v->count == 1 && v->first->kind != JSON_NUMBER) v = v->first;
    if (v && v->kind == JSON_ARRAY && v->count > 0 && v->first->kind == JSON_NUMBER)
        return read_ids(p, v);
    if (!v || v->kind != JSON_STRING) return wrong(p, "prompt", v, wanted);
    p->r->size = v->text_size;
    return keep_text(p, "prompt", v, &p->r->text);
}

/* ---- what an answer is to match -------------------------------------------------------------- */

/* A schema as the body has it: the library reads it, and says what is wrong there. */
static bool keep_schema(reading *p, const char *param, const json *v) {
    size_t end = v->at, depth = 0;
    bool inside = false;
    if (v->kind != JSON_OBJECT) return wrong(p, param, v, "a JSON schema");
    do {
        char c = p->body[end++];
        if (inside && c == '\\')
            end++;
        else if (c == '"')
            inside = !inside;
        else if (!inside && (c == '{' || c == '['))
            depth++;
        else if (!inside && (c == '}' || c == ']'))
            depth--;
    } while (depth);
    p->r->schema = strndup(p->body + v->at, end - v->at);
    if (!p->r->schema) return error_set(p->e, 500, param, "out of memory"), false;
    return true;
}

static bool read_format(reading *p, const json *v) {
    static const char any[] = "{\"type\":\"object\"}";
    const json *type = json_member(v, "type"), *named = given(v, "json_schema");
    const char *kind = type && type->kind == JSON_STRING ? type->text : "";
    if (!v || !strcmp(kind, "text")) return true;
    if (!strcmp(kind, "json_schema")) {
        const json *schema = given(named, "schema");
        if (!schema) return wrong(p, "response_format.json_schema.schema", NULL, "a JSON schema");
        return keep_schema(p, "response_format.json_schema.schema", schema);
    }
    if (strcmp(kind, "json_object") != 0)
        return wrong(p, type ? "response_format.type" : "response_format", type ? type : v,
                     "\"text\", \"json_object\" or \"json_schema\"");
    p->r->schema = strdup(any);
    if (!p->r->schema) return error_set(p->e, 500, "response_format", "out of memory"), false;
    return true;
}

static bool read_rules(reading *p, const json *format, const json *grammar) {
    if (!read_format(p, format)) return false;
    if (!grammar) return true;
    if (p->r->schema) return wrong(p, "grammar", grammar, "not there beside a response_format");
    return keep_text(p, "grammar", grammar, &p->r->grammar);
}

/* ---- messages -------------------------------------------------------------------------------- */

/* A message's content is a string, none, or a list of parts of text, which become one. */
static bool read_content(reading *p, const json *v, uint32_t number, str *out) {
    char param[48];
    str all;
    str_open_in(&all, &p->a);
    str_add(&all, "");
    snprintf(param, sizeof param, "messages[%u].content", number);
    if (v && v->kind == JSON_ARRAY) {
        for (const json *part = v->first; part; part = part->next) {
            const json *type = json_member(part, "type"), *text = json_member(part, "text");
            bool fine = type && type->kind == JSON_STRING && !strcmp(type->text, "text") && text &&
                        text->kind == JSON_STRING && !memchr(text->text, 0, text->text_size);
            if (!fine)
                return wrong(p, param, v,
                             "a string, or a list of {\"type\": \"text\", "
                             "\"text\": ..}");
            str_addn(&all, text->text, text->text_size);
        }
    } else if (v) {
        if (v->kind != JSON_STRING || memchr(v->text, 0, v->text_size))
            return wrong(p, param, v, "a string without NULs, or a list of parts");
        str_addn(&all, v->text, v->text_size);
    }
    json_quote(out, all.s);
    return true;
}

static bool read_messages(reading *p, const json *list) {
    char param[48];
    str out;
    if (!list || list->kind != JSON_ARRAY || !list->count)
        return wrong(p, "messages", list, "a list of {\"role\": .., \"content\": ..}");
    str_open_in(&out, &p->a);
    for (const json *v = list->first; v; v = v->next) {
        const json *role = given(v, "role");
        snprintf(param, sizeof param, "messages[%u].role", v->index);
        if (!role || role->kind != JSON_STRING || !role->text_size || strlen(role->text) > 64)
            return wrong(p, param, role, "a string such as \"user\"");
        str_add(&out, v->index ? ",{\"role\":" : "[{\"role\":");
        json_quote(&out, role->text);
        str_add(&out, ",\"content\":");
        if (!read_content(p, given(v, "content"), v->index, &out)) return false;
        str_add(&out, "}");
    }
    str_add(&out, "]");
    p->r->text = malloc((size_t)out.len + 1);
    if (!p->r->text) return error_set(p->e, 500, "messages", "out of memory"), false;
    memcpy(p->r->text, out.s, (size_t)out.len + 1);
    p->r->size = out.len;
    return true;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static bool read_all(reading *p, const json *v) {
    const json *usage = given(v, "stream_options"), *model = given(v, "model");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const json *member = given(v, rows[i].name);
        if (member && !read_field(p, &rows[i], member)) return false;
    }
    p->r->seeded = given(v, "seed");
    /* 0 is off to qn_sample, and the likeliest alone to OpenAI. */
    if (given(v, "top_p") && p->r->sample.top_p <= 0) p->r->sample.top_p = 0x1p-1000;
    if (model && model->kind != JSON_STRING) return wrong(p, "model", model, "a string");
    if (usage && usage->kind != JSON_OBJECT) return wrong(p, "stream_options", usage, "an object");
    usage = given(usage, "include_usage");
    if (usage && usage->kind > JSON_TRUE)
        return wrong(p, "stream_options.include_usage", usage, "true or false");
    p->r->usage = usage && usage->kind == JSON_TRUE;
    if (!read_stop(p, given(v, "stop"))) return false;
    if (!read_rules(p, given(v, "response_format"), given(v, "grammar"))) return false;
    return p->r->chat ? read_messages(p, given(v, "messages")) : read_prompt(p, given(v, "prompt"));
}

static void read_work(void *arg) {
    reading *p = arg;
    json_fault fault;
    const json *v = json_parse(&p->a, p->body, p->size, &fault);
    if (!v) {
        error_set(p->e, 400, "", "the body is no JSON: at byte %zu there is %s", fault.at,
                  fault.what);
    } else if (v->kind != JSON_OBJECT) {
        char value[80];
        error_set(p->e, 400, "", "the body is %s; it is an object", shown(v, value));
    } else if (read_all(p, v)) {
        p->e->status = 0;
    }
}

bool request_read(qn_ctx *qn, bool chat, const char *body, size_t size, serve_request *r,
                  serve_error *e) {
    reading p = {.qn = qn, .body = body, .size = size, .r = r, .e = e};
    *r = (serve_request){.chat = chat, .most = chat ? 0 : 16};
    r->sample = QN_SAMPLE_OPTIONS(.temperature = 1);
    *e = (serve_error){.status = 500};
    arena_open(&p.a, &qn->heap);
    if (guarded(qn, read_work, &p)) {
        error_set(e, 500, "", "out of memory");
        qn_clear_error(qn);
    }
    arena_free(&p.a);
    return e->status == 0;
}

void request_free(serve_request *r) {
    free(r->text);
    free(r->ids);
    free(r->grammar);
    free(r->schema);
    for (int i = 0; i < r->stops; i++) free(r->stop[i]);
    *r = (serve_request){.chat = false};
}
