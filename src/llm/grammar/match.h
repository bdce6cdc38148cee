/* match.h - texts and automata, for who needs no more than whether a text matches: a grammar or a
 * schema is made an automaton (compile.c), which is run over the bytes of a text (match.c). */
#ifndef QN_LLM_MATCH_H
#define QN_LLM_MATCH_H

#include "text/text.h"

typedef struct automaton automaton;
/* Of one owner, to be dropped; the text is copied. Raises, with *out to be dropped in any case. */
void automaton_make(automaton **out, qn_ctx *ctx, bool is_schema, span text);
void automaton_drop(automaton *m); /* one owner less; or NULL */

/* Where a text is, by number; numbers hold until match_forget. */
typedef uint32_t text_place;
enum { PLACE_NOWHERE = 0, PLACE_BEGIN = 1 };
void match_ready(automaton *m); /* before a token; may forget; raises */
void match_forget(automaton *m);
text_place match_byte(automaton *m, text_place p,
                      uint8_t byte); /* raises where a bound is passed */
text_place match_bytes(automaton *m, text_place p, const char *bytes, size_t n);
bool match_may_end(const automaton *m, text_place p);
bool match_may_go_on(const automaton *m, text_place p);

#endif
