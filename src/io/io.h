/* io.h - tensors in files.
 *
 * Files come from anywhere, so nothing in them is believed: every number is checked against the
 * file's size and for overflow before it is used, and what is wrong is said with the file's name
 * and the byte. Writing is all or nothing: a file appears under its name only when every byte of it
 * is on the disk. The public calls (qn_save, qn_file_*) are in quern.h; here is what they are made
 * of. */
#ifndef QN_IO_H
#define QN_IO_H

#include "base/base.h"

/* ---- json.c ---------------------------------------------------------------------------------- */

typedef enum json_kind {
    JSON_NULL,
    JSON_FALSE,
    JSON_TRUE,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT
} json_kind;

/* One value. Texts are NUL-terminated UTF-8 with their escapes resolved; one that holds a NUL
 * itself is longer than strlen says. */
typedef struct json {
    json_kind kind;
    uint32_t count, index;  /* of its members; its place among its siblings */
    const char *key, *text; /* its name in an object; a string's text, a number's spelling */
    uint32_t key_size, text_size;
    size_t at; /* where it begins in the text that was read */
    struct json *first, *next;
    struct json **table; /* an object's members by hash, for json_member */
    uint32_t mask;
} json;

/* What was wrong with a text, and where. */
typedef struct json_fault {
    const char *what;
    size_t at;
} json_fault;

/* Read one JSON text (RFC 8259, UTF-8, strictly: no duplicate names, none chosen to collide in a
 * hash table, nothing after it but white space) into an arena. NULL when it is not one, with the
 * fault. Raises only for memory. */
const json *json_parse(arena *a, const char *text, size_t size, json_fault *fault);
/* The member of that name, or NULL: none, or not an object. */
const json *json_member(const json *object, const char *key);
/* A number written as an integer that fits in 64 bits (no fraction, no exponent). */
bool json_int(const json *v, int64_t *out);
/* Add `text` as a JSON string with its quotes. `text` must be UTF-8. Raises. */
void json_quote(str *out, const char *text);
bool json_utf8(const char *text, size_t size); /* well-formed? */

/* ---- file.c ---------------------------------------------------------------------------------- */

/* A file that replaces `path` when it is complete: open, write, then commit or abandon. Each
 * returns a code after recording an error. */
typedef struct file_writer {
    qn_ctx *ctx;
    const char *path;
    file_write_to to; /* its folder is owned */
} file_writer;
int file_create(file_writer *w, qn_ctx *qn, const char *path);
int file_write(file_writer *w, const void *data, size_t size);
int file_commit(file_writer *w);
void file_abandon(file_writer *w); /* also after commit or a failed create: does nothing then */

/* Open a regular file for reading; its size in *size. The descriptor, or a negative code. */
int file_open(qn_ctx *qn, const char *path, uint64_t *size);
/* Read exactly `size` bytes at `at`, else a code. */
int file_read(qn_ctx *qn, const char *path, int fd, uint64_t at, void *out, size_t size);

#endif
