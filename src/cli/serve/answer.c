/* answer.c - what the server writes: OpenAI's objects, whole or as events of a stream, and errors
 * in their shape. */
#include "base/base.h"
#include "cli/serve/serve.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- texts ----------------------------------------------------------------------------------- */

void text_add(serve_text *t, const char *s, size_t n) {
    if (t->broken) return;
    if (t->size + n + 1 > t->room) {
        size_t room = 2 * (t->size + n + 1) + 256;
        char *grown = realloc(t->s, room);
        t->broken = !grown;
        if (!grown) return;
        t->s = grown;
        t->room = room;
    }
    if (n) memcpy(t->s + t->size, s, n);
    t->size += n;
    t->s[t->size] = 0;
}

void text_addf(serve_text *t, const char *fmt, ...) {
    char s[512];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(s, sizeof s, fmt, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof s)
        t->broken = true;
    else
        text_add(t, s, (size_t)n);
}

static bool is_plain(const char *s) {
    return (unsigned char)*s >= 32 && (unsigned char)*s < 0x80 && *s != '"' && *s != '\\';
}

/* That at s[*i], which ends up at its last byte; U+FFFD for a byte that is no part of one. */
static void add_character(serve_text *t, const char *s, size_t *i) {
    int n = text_character(s + *i);
    text_add(t, n ? s + *i : "\xef\xbf\xbd", n ? (size_t)n : 3);
    *i += n ? (size_t)n - 1 : 0;
}

void text_quote(serve_text *t, const char *s, size_t n) {
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    text_add(t, "\"", 1);
    for (size_t i = 0; i < n; i++) {
        size_t plain = i;
        while (i < n && is_plain(s + i)) i++;
        text_add(t, s + plain, i - plain);
        if (i == n) break;
        const char *found = s[i] ? strchr(from, s[i]) : NULL;
        if (found)
            text_addf(t, "\\%c", to[found - from]);
        else if ((unsigned char)s[i] >= 0x80) /* a path may hold what is no character */
            add_character(t, s, &i);
        else
            text_addf(t, "\\u%04x", (unsigned char)s[i]);
    }
    text_add(t, "\"", 1);
}

static void add_string(serve_text *t, const char *s) {
    text_quote(t, s, strlen(s));
}

static void add(serve_text *t, const char *s) {
    text_add(t, s, strlen(s));
}

/* ---- objects --------------------------------------------------------------------------------- */

void answer_error(serve_text *t, const serve_error *e) {
    add(t, "{\"error\":{\"message\":");
    add_string(t, e->message);
    text_addf(t, ",\"type\":\"%s\",\"param\":",
              e->status >= 500 ? "server_error" : "invalid_request_error");
    if (*e->param)
        add_string(t, e->param);
    else
        add(t, "null");
    add(t, ",\"code\":");
    if (e->code)
        add_string(t, e->code);
    else
        add(t, "null");
    add(t, "}}");
}

static void add_head(serve_text *t, const serve_about *a, const char *object) {
    text_addf(t, "{\"id\":\"%s-%016llx\",\"object\":\"%s\",\"created\":%lld,\"model\":",
              a->chat ? "chatcmpl" : "cmpl", (unsigned long long)a->id, object,
              (long long)a->created);
    add_string(t, a->model);
}

static void add_usage(serve_text *t, const serve_about *a) {
    text_addf(t,
              ",\"usage\":{\"prompt_tokens\":%lld,\"completion_tokens\":%lld,\"total_tokens\":%lld,"
              "\"prompt_tokens_details\":{\"cached_tokens\":%lld}}",
              (long long)a->read, (long long)a->made, (long long)(a->read + a->made),
              (long long)a->kept);
}

static void add_finish(serve_text *t, const char *finish) {
    if (finish)
        text_addf(t, ",\"logprobs\":null,\"finish_reason\":\"%s\"}]", finish);
    else
        add(t, ",\"logprobs\":null,\"finish_reason\":null}]");
}

void answer_whole(serve_text *t, const serve_about *a, const char *text, size_t size) {
    add_head(t, a, a->chat ? "chat.completion" : "text_completion");
    add(t, ",\"choices\":[{\"index\":0,");
    add(t, a->chat ? "\"message\":{\"role\":\"assistant\",\"content\":" : "\"text\":");
    text_quote(t, text, size);
    if (a->chat) add(t, ",\"refusal\":null}");
    add_finish(t, a->finish);
    add_usage(t, a);
    add(t, "}\n");
}

void answer_models(serve_text *t, const serve_about *a, const qn_llm_info *info) {
    add(t, "{\"object\":\"list\",\"data\":[{\"id\":");
    add_string(t, a->model);
    text_addf(t, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"quern\"",
              (long long)a->created);
    add(t, ",\"architecture\":");
    add_string(t, info->architecture);
    text_addf(t, ",\"context\":%lld,\"parameters\":%llu,\"chat\":%s}]}\n", (long long)info->context,
              (unsigned long long)info->parameters, info->chat ? "true" : "false");
}

/* ---- events ---------------------------------------------------------------------------------- */

static void add_event_head(serve_text *t, const serve_about *a) {
    add(t, "data: ");
    add_head(t, a, a->chat ? "chat.completion.chunk" : "text_completion");
}

/* All events but the last say that the usage is to come. */
static void add_event_end(serve_text *t, const serve_about *a) {
    add(t, a->usage ? ",\"usage\":null}\n\n" : "}\n\n");
}

void answer_first(serve_text *t, const serve_about *a) {
    if (!a->chat) return;
    add_event_head(t, a);
    add(t, ",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}");
    add_finish(t, NULL);
    add_event_end(t, a);
}

void answer_piece(serve_text *t, const serve_about *a, const char *text, size_t size) {
    add_event_head(t, a);
    add(t, ",\"choices\":[{\"index\":0,");
    add(t, a->chat ? "\"delta\":{\"content\":" : "\"text\":");
    text_quote(t, text, size);
    if (a->chat) add(t, "}");
    add_finish(t, NULL);
    add_event_end(t, a);
}

void answer_last(serve_text *t, const serve_about *a) {
    add_event_head(t, a);
    add(t, ",\"choices\":[{\"index\":0,");
    add(t, a->chat ? "\"delta\":{}" : "\"text\":\"\"");
    add_finish(t, a->finish);
    add_event_end(t, a);
    if (a->usage) {
        add_event_head(t, a);
        add(t, ",\"choices\":[]");
        add_usage(t, a);
        add(t, "}\n\n");
    }
    add(t, "data: [DONE]\n\n");
}

void answer_broken(serve_text *t, const serve_error *e) {
    add(t, "data: ");
    answer_error(t, e);
    add(t, "\n\n");
}
