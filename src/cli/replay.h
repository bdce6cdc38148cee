/* replay.h - a recording (record/record.h, docs/record.md) read back, run and compared. A
 * recording is a text from anywhere: no line of it may make a call that a program could not make,
 * so a name is of what it says and still there, and a list as long as the call will read it. */
#ifndef QN_CLI_REPLAY_H
#define QN_CLI_REPLAY_H

#include "cli/cli.h"
#include "record/record.h"

enum { REPLAY_LARGEST = 1 << 30, REPLAY_WHY = 400, REPLAY_THREADS = 64, REPLAY_CODES = 4096 };

/* What a number of the recording names. */
typedef struct replay_name {
    void *p;
    uint32_t ctx; /* number of the context that it is of */
    char letter;  /* c, t or o; 0: not made yet */
    bool lost;    /* is not there: its call was left out or gave nothing */
    bool errors;  /* a context whose pending error differs since a call was left out */
    call_counts counts;
} replay_name;

/* A call between its two lines. */
typedef struct replay_piece {
    struct replay_piece *next;
} replay_piece;
typedef struct replay_call {
    uint64_t number; /* 0: none */
    call_id id;
    uint32_t ctx;     /* of its first argument that has one; 0: none */
    const char *text; /* its line, up to the end */
    call_value v[CALL_ARGS], result;
    int64_t listed[CALL_ARGS];     /* elements given; -1: no list */
    bool unread[CALL_ARGS], named; /* '?': not in the recording; an argument is lost */
    bool made;                     /* the call was made */
    qn_code code;                  /* what is pending after it */
    size_t room[CALL_ARGS];        /* of memory that is written to */
    replay_piece *pieces;
} replay_call;

typedef struct replay_options {
    const char *device;
    double tolerance;          /* of f32, relative; below 0: the usual */
    const qn_options *context; /* NULL, or its allocator and log are the contexts' */
} replay_options;

typedef struct replay {
    const replay_options *options;
    const char *at; /* the line under way */
    uint64_t line;
    replay_name *name;
    uint32_t names, cap;
    struct {
        int64_t was, is;
    } code[REPLAY_CODES]; /* of sizes that vary */
    int codes;
    replay_call open[REPLAY_THREADS];
    bool bits, hashed; /* must values be equal to the bit; are data missing */
    char folder[64];   /* of files that calls write */
    char *saved[64];
    int saves;
    const char *environment[64];
    int settings;
    uint64_t calls, left_out, values, same, uncompared, differences;
    char first[2 * REPLAY_WHY]; /* the first difference */
    char why[REPLAY_WHY];       /* the recording is none */
} replay;

/* ---- replay_calls.c: the call itself --------------------------------------------------------- */
call_value replay_run(call_id id, const call_value *v);
const char *replay_arguments_of(call_id id); /* their names: "(x, axis)" */

/* ---- replay_parse.c -------------------------------------------------------------------------- */

/* false: replay.why says what is wrong. */
bool replay_bad(replay *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void replay_skip_spaces(const char **at);
bool replay_token(replay *r, const char **at, const char *what); /* is the next one this? */
bool replay_whole(replay *r, const char **at, int64_t lo, int64_t hi, int64_t *out);
bool replay_word(replay *r, replay_call *c, const char **at, const char **out); /* text, or - */
void *replay_take(replay_call *c, size_t size); /* cleared, the call's; NULL without memory */
void replay_drop(replay_call *c);
/* '=' and base64, '#' and a hash: bytes, or NULL and the hash. */
typedef struct replay_data {
    uint8_t *bytes;
    size_t size;
    uint64_t hash;
} replay_data;
bool replay_bytes(replay *r, replay_call *c, const char **at, replay_data *out);
/* A name that a result gives: its number, 0 for none. */
bool replay_new_name(replay *r, const char **at, char letter, uint32_t *number);
bool replay_arguments(replay *r, replay_call *c, const char **at);

/* ---- replay.c -------------------------------------------------------------------------------- */

/* Run a recording, which is changed on the way; false: it is none, see why. */
bool replay_text(replay *r, char *text, size_t size, const replay_options *options);
void replay_close(replay *r);

#endif
