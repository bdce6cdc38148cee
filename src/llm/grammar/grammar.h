/* grammar.h - texts that must match a grammar: which bytes, and so which tokens, may come next.
 *
 * A reader makes a draft: gbnf.c of rules in GBNF, schema.c, members.c, numbers.c and pattern.c of
 * a JSON schema. A draft has rules, whose bodies are trees of nodes: texts, sets of characters,
 * sequences, choices, repetitions, references to rules (draft.c). compile.c checks them and makes
 * an automaton, whose states are about one byte each, so that tokens may end within characters.
 * match.c runs it, tokens.c knows the bytes of a model's tokens, and guide.c holds a text that a
 * model makes to it. */
#ifndef QN_LLM_GRAMMAR_H
#define QN_LLM_GRAMMAR_H

#include "llm/grammar/match.h"
#include "llm/llm.h"

/* Bounds, all of them errors: who sends a grammar may mean no good. */
enum {
    GRAMMAR_BYTES_MOST = 1 << 20, /* of a grammar's text, or a schema's */
    GRAMMAR_RULES_MOST = 1 << 14,
    GRAMMAR_NODES_MOST = 1 << 20,
    GRAMMAR_STATES_MOST = 1 << 18,
    GRAMMAR_NESTED_MOST = 64,      /* groups */
    GRAMMAR_TIMES_MOST = 100000,   /* of a repetition */
    GRAMMAR_PLACES_MOST = 1 << 16, /* at which a text may be at the same time */
    GRAMMAR_STEPS_MOST = 1 << 24,  /* places that are looked at for a token */
    GRAMMAR_MEMORY_MOST = 1 << 26, /* bytes of what a text has been seen to be at */
    CHARACTER_MOST = 0x10ffff,
    ENDLESS = -1 /* a repetition's `most` */
};

/* ---- draft.c --------------------------------------------------------------------------------- */

typedef uint32_t node; /* 0: of no text */
typedef struct char_range {
    uint32_t lo, hi;
} char_range;
typedef struct char_list { /* a set, once it is tidy: ascending, apart */
    char_range *at;
    uint32_t n, cap;
} char_list;

typedef enum node_kind {
    NODE_NOTHING,
    NODE_TEXT,
    NODE_SET,
    NODE_SEQUENCE,
    NODE_CHOICE,
    NODE_REPEAT,
    NODE_RULE
} node_kind;
typedef struct draft_node {
    uint8_t kind;
    uint32_t count;
    union {
        const char *text;
        const char_range *set;
        const node *part;
        node repeated;
        uint32_t rule;
    };
    int32_t least, most;
} draft_node;

typedef struct draft_rule {
    const void *key;
    size_t size;
    const char *name; /* for messages */
    node body;
    bool made;
    size_t at; /* where it is first spoken of */
} draft_rule;

typedef struct draft {
    qn_ctx *ctx;
    arena *a;
    const char *kind; /* "grammar" or "schema" */
    const char *text;
    size_t size;
    draft_node *node;
    uint32_t nodes, nodes_cap;
    draft_rule *rule;
    uint32_t rules, rules_cap;
    uint32_t *slot, mask; /* rules by key: 1 + number */
    uint32_t root;
} draft;
void draft_open(draft *d, qn_ctx *ctx, arena *a);
/* With the line and the column of byte `at`. */
QN_COLD QN_NORETURN void draft_bad(const draft *d, size_t at, const char *fmt, ...) QN_PRINTF(3, 4);
/* The rule of a key, made where there is none; `name` is kept. */
uint32_t draft_rule_of(draft *d, span key, const char *name, size_t at);

node draft_bytes(draft *d, const char *text, size_t n); /* copied */
static inline node draft_text(draft *d, const char *text) {
    return draft_bytes(d, text, strlen(text));
}
node draft_set(draft *d, char_list *set); /* made tidy; must hold something */
node draft_list(draft *d, node_kind kind, uint32_t n, const node *part);
node draft_repeat(draft *d, node of, int64_t least, int64_t most);
node draft_call(draft *d, uint32_t rule);
#define SEQUENCE(d, ...)                                                                           \
    draft_list((d), NODE_SEQUENCE, COUNT_OF(((node[]){__VA_ARGS__})), (node[]){__VA_ARGS__})
#define CHOICE(d, ...)                                                                             \
    draft_list((d), NODE_CHOICE, COUNT_OF(((node[]){__VA_ARGS__})), (node[]){__VA_ARGS__})
node draft_chars(draft *d, const char *ranges); /* pairs of ASCII: "azAZ" */

typedef struct node_list {
    node *at;
    uint32_t n, cap;
} node_list;
void node_add(node_list *list, arena *a, node x);

void set_add(char_list *set, arena *a, uint32_t lo, uint32_t hi);
void set_tidy(char_list *set);
void set_invert(char_list *set, arena *a); /* to all other characters but U+0000 */
void set_without(char_list *set, arena *a, const char *ascii);

/* ---- gbnf.c, schema.c: readers --------------------------------------------------------------- */

void gbnf_read(draft *d);
void schema_read(draft *d);

/* ---- values.c: what JSON is made of ---------------------------------------------------------- */

/* Values by type, as bits. */
enum {
    TYPE_NULL = 1,
    TYPE_BOOLEAN = 2,
    TYPE_INTEGER = 4,
    TYPE_NUMBER = 8,
    TYPE_STRING = 16,
    TYPE_ARRAY = 32,
    TYPE_OBJECT = 64,
    TYPE_ANY = 127
};
typedef struct schema {
    draft *d;
    const json *root;
    int depth;
} schema;
node json_space(schema *s);     /* between what makes a value: none, a blank, or a line's begin */
node json_character(schema *s); /* of a string */
node json_any(schema *s, unsigned types);
/* As many of `item` as that, between brackets, with commas. */
node json_list(schema *s, node item, int64_t least, int64_t most);
node json_literal(schema *s, const json *v);
node json_string_text(schema *s, const char *text, size_t size); /* with its quotes */
/* One character of a set, as a string has it; 0: none that can be written. */
node json_spelled(schema *s, const char_list *set);

/* ---- schema.c -------------------------------------------------------------------------------- */

/* A JSON pointer to what is wrong comes first. */
QN_COLD QN_NORETURN void schema_bad(const schema *s, const json *at, const char *fmt, ...)
    QN_PRINTF(3, 4);
node schema_node(schema *s, const json *v, unsigned types);
const json *schema_refers(const schema *s, const json *v); /* behind a $ref */
unsigned schema_types(const schema *s, const json *v);     /* as `type` says */
unsigned schema_type_of(const json *value);
int64_t schema_count(const schema *s, const json *v, const char *name, int64_t usual);

/* ---- members.c ------------------------------------------------------------------------------- */

node schema_object(schema *s, const json *const *part, int parts);
/* Can no value be of both? */
bool schema_apart(schema *s, const json *x, const json *y, int depth);

/* ---- numbers.c, pattern.c -------------------------------------------------------------------- */

node schema_number(schema *s, const json *v, bool whole);
/* A string that a regular expression is found in. */
node pattern_read(schema *s, const json *pattern);

/* ---- compile.c ------------------------------------------------------------------------------- */

typedef enum state_kind { STATE_BYTE, STATE_EITHER, STATE_CALL, STATE_END } state_kind;
typedef struct state {
    uint8_t kind, lo, hi; /* a byte from lo to hi */
    uint32_t next, other; /* other: the second of EITHER, the rule of CALL */
} state;
typedef struct machine_rule {
    uint32_t start;
    uint32_t rank; /* above those of rules that may begin with it */
    bool empty;    /* it matches no text, too */
} machine_rule;

typedef struct frame_link {
    uint32_t back, frame; /* a state, in a frame */
} frame_link;

struct automaton {
    qn_ctx *ctx;
    int owners;
    arena a, cache;
    const char *text; /* what it was made of */
    size_t size;
    bool is_schema;
    state *state;
    uint32_t states, states_cap;
    machine_rule *rule;
    uint32_t rules, root;
    uint32_t *by_rank;  /* rules */
    uint8_t class[256]; /* bytes that no state tells apart */
    uint32_t classes;
    struct match_cache *seen; /* match.c; NULL: not yet, or forgotten */
    uint64_t epoch;           /* of what is numbered there */
    uint64_t steps;           /* places that were looked at for this token */
};
void compile(automaton *m, const draft *d);

/* ---- tokens.c -------------------------------------------------------------------------------- */

/* The bytes of tokens within a text, and all of them as a tree in the order of a walk. */
typedef struct token_tree {
    uint32_t n;            /* tokens */
    const char *bytes;     /* of all */
    const uint32_t *begin; /* [n + 1] */
    struct tree_node {
        uint32_t after; /* the first node that is not below it */
        uint32_t token; /* its tokens in `order`, up to the next node's */
        uint16_t depth;
        uint8_t byte;
    } * node;
    uint32_t nodes, depth;
    const int32_t *order;
    /* A text's first token loses blanks that these begin with. */
    bool all_blanks; /* each one of the token, not one at its begin */
    span blank;      /* of none: tokens are the same everywhere */
} token_tree;
const token_tree *token_tree_of(llm *m); /* made when it is first wanted; raises */
span token_bytes(const token_tree *t, int32_t id);
/* The same where it is a text's first; into out, as large as the token. */
span token_first(const token_tree *t, int32_t id, char *out);
/* allowed[id]: may it come at p? How many may. */
int64_t tokens_allow(const token_tree *t, automaton *m, text_place p, bool first, bool *allowed);

#endif
