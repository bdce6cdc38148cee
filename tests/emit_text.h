/* emit_text.h - what kernels become, as LLVM's text. */
#ifndef EMIT_TEXT_H
#define EMIT_TEXT_H

#include "emit/llvm/llvm.h"
#include "emit_harness.h"

/* The kernel as LLVM's text, to be freed. */
static inline str text_in_ir(harness *h, kernel *k) {
    str ir;
    str_open(&ir, &h->qn->heap);
    emit_unit *u = emit_llvm_begin(((cpu *)h->cpu)->llvm);
    emit_llvm_add(u, k);
    emit_llvm_text(u, &ir);
    emit_llvm_drop(u);
    return ir;
}

/* How often the kernel's IR holds the text. */
static inline int count_in_ir(harness *h, kernel *k, const char *text) {
    int n = 0;
    str ir = text_in_ir(h, k);
    for (const char *c = ir.s; (c = strstr(c, text)); c++) n++;
    str_free(&ir);
    return n;
}

#endif
