/* template.h - chat templates: the part of Jinja that models write their conversations in.
 *
 * A template is lexed and parsed once, into nodes in its arena, and walked with the variables of a
 * JSON object. Nothing it can do reaches outside: there are values, and text comes out. Every node
 * that is walked counts, and so does every element that a filter looks at; text, values and nesting
 * are bounded, too, so that a template from anywhere ends. */
#ifndef QN_TEMPLATE_H
#define QN_TEMPLATE_H

#include "text/text.h"

enum {
    DEPTH_MOST = 100,       /* of nodes in nodes, and of macros in macros */
    STEPS_MOST = 20000000,  /* nodes walked and elements looked at */
    ROOM_MOST = 1 << 28,    /* bytes of values and text */
    TEMPLATE_MOST = 1 << 20 /* bytes of a template */
};

typedef enum value_kind {
    VALUE_UNDEFINED,
    VALUE_NONE,
    VALUE_BOOL,
    VALUE_INT,
    VALUE_FLOAT,
    VALUE_TEXT,
    VALUE_LIST,
    VALUE_DICT,
    VALUE_NAMESPACE, /* a dict whose members can be set */
    VALUE_LOOP,      /* a dict of a loop's variables */
    VALUE_MACRO,
    VALUE_FUNCTION /* one of the template's language */
} value_kind;

typedef struct value {
    value_kind kind;
    union {
        int64_t i; /* and a bool's, and which function */
        double f;
        span s; /* and the name of what is undefined */
        struct value_list *list;
        struct value_dict *dict;
        const struct node *macro;
    };
} value;
typedef struct value_list {
    value *at; /* NULL: those of a range, which nobody has written down */
    uint32_t n, cap;
    bool tuple; /* is printed in parentheses */
    int64_t first, step;
} value_list;
typedef struct value_dict {
    span *key;
    value *at;
    uint32_t n, cap;
} value_dict;

typedef enum node_kind {
    NODE_CONST,
    NODE_NAME,
    NODE_LIST,   /* items: a; flag: a tuple */
    NODE_DICT,   /* pairs: a */
    NODE_PAIR,   /* a: b */
    NODE_MEMBER, /* a.name */
    NODE_INDEX,  /* a[b] */
    NODE_SLICE,  /* a[b:c:d] */
    NODE_CALL,   /* a(b) */
    NODE_ARG,    /* name=a */
    NODE_FILTER, /* a|name(b) */
    NODE_TEST,   /* a is name(b); flag: is not */
    NODE_NOT,
    NODE_MINUS,
    NODE_BINARY, /* a op b */
    NODE_AND,
    NODE_OR,
    NODE_CHOICE, /* b if a else c */
    NODE_TEXT,
    NODE_OUTPUT, /* a */
    NODE_FOR,    /* targets d in a: b, else c; only where e */
    NODE_IF,     /* a: b, else c */
    NODE_SET,    /* targets d = a, or the text of b */
    NODE_MACRO,  /* name(d): b */
    NODE_BREAK,
    NODE_CONTINUE
} node_kind;
typedef struct node {
    node_kind kind;
    int line;
    bool flag;
    char op[3];
    span name;
    value constant;
    struct node *a, *b, *c, *d, *e, *next; /* next: behind it in a list */
} node;

typedef struct scope {
    struct scope *up;
    value_dict here;
} scope;
typedef struct running {
    qn_ctx *qn;
    arena *a;
    scope *scope, *top;
    str *out;
    int line, depth;
    uint64_t steps;
    size_t unwritten; /* bytes that ranges stand for */
    enum { GOES_ON, BREAKS, CONTINUES } flow;
} running;

/* Arguments of a call, those without a name first. */
enum { ARGS_MOST = 8 };
typedef struct arguments {
    int n;
    span name[ARGS_MOST]; /* s NULL: by its place */
    value at[ARGS_MOST];
} arguments;

/* ---- parse.c --------------------------------------------------------------------------------- */

node *template_parse(qn_ctx *qn, arena *a, span text); /* raises */

/* ---- value.c --------------------------------------------------------------------------------- */

QN_NORETURN QN_COLD void run_bad(const running *r, const char *fmt, ...) QN_PRINTF(2, 3);
void run_count(running *r, uint64_t steps); /* raises when that was too much */
value value_text(span s);
value value_int(int64_t i);
value value_bool(bool b);
value value_new_list(running *r);
value value_new_dict(running *r, value_kind kind);
void list_add(running *r, value_list *list, value v);
value list_at(const value_list *list, uint32_t i);
/* The numbers from `first`, before `end`; it counts as if they were written down. */
value value_range(running *r, int64_t first, int64_t end, int64_t step);
void dict_set(running *r, value_dict *dict, span key, value v);
const value *dict_find(running *r, const value_dict *dict, span key);
bool value_true(value v);
bool value_same(running *r, value a, value b);
int value_order(running *r, value a, value b); /* raises where there is none */
int64_t value_length(running *r, value v);
value value_items(running *r, value v); /* as a list */
bool value_has(running *r, value in, value what);
/* As printed, or with quotes as it is written; json: as JSON, with an indent or -1. */
void value_print(running *r, str *out, value v, bool quoted);
void value_json(running *r, str *out, value v, int indent, int depth);
span value_to_text(running *r, value v);
value value_of_json(running *r, const json *v);
const char *value_kind_name(value v);

/* ---- filters.c ------------------------------------------------------------------------------- */

value filter_run(running *r, span name, value on, const arguments *args);
bool run_test(running *r, span name, value on, const arguments *args);

/* ---- methods.c ------------------------------------------------------------------------------- */

value method_run(running *r, value on, span name, const arguments *args);
/* The argument at place i, or of that name; undefined: it is not given. */
value argument(const arguments *args, int i, const char *name);
span text_argument(running *r, const arguments *args, int i, const char *name);
/* letters.s NULL: white space */
span text_strip(running *r, span s, span letters, bool left, bool right);
span text_cased(running *r, span s, char how); /* u l c t: upper, lower, capitalized, title */
value text_replace(running *r, span s, const arguments *args); /* old, new, count */

/* ---- eval.c ---------------------------------------------------------------------------------- */

void template_walk(running *r, const node *n);

#endif
