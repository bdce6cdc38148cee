/* object.c - from kernels to an object file in memory, or to IR as text.
 *
 * An object may hold several kernels: what LLVM does for each module, whatever is in it, takes a
 * millisecond, which is as long as it takes for a small kernel. Everything of LLVM's that one unit
 * makes hangs off a context of its own, which is freed whole whatever happens in between; what is
 * ours is a kernel's, in one arena. That is also why units can run side by side: they share
 * nothing. */
#include "emit/llvm/llvm.h"

#include <stdio.h>

void emit_name(int i, char name[EMIT_NAME]) {
    if (i)
        snprintf(name, EMIT_NAME, EMIT_KERNEL "%d", i);
    else
        memcpy(name, EMIT_KERNEL, sizeof EMIT_KERNEL);
}

static void open_module(emit_unit *u) {
    const llvm_api *L = u->owner->L;
    u->context = L->ContextCreate();
    u->module = L->ModuleCreateWithNameInContext("kernel", u->context);
    u->b = L->CreateBuilderInContext(u->context);
    L->SetTarget(u->module, u->owner->triple);
    ll_layout layout = L->CreateTargetDataLayout(llvm_machine(u->owner, 0, false));
    L->SetModuleDataLayout(u->module, layout);
    L->DisposeTargetData(layout);
}

static void find_types(llvm *s) {
    const llvm_api *L = s->L;
    s->t_void = L->VoidTypeInContext(s->context);
    s->t_ptr = L->PointerTypeInContext(s->context, 0);
    s->t_i1 = L->IntTypeInContext(s->context, 1);
    s->t_i8 = L->IntTypeInContext(s->context, 8);
    s->t_i16 = L->IntTypeInContext(s->context, 16);
    s->t_i32 = L->IntTypeInContext(s->context, 32);
    s->t_i64 = L->IntTypeInContext(s->context, 64);
    s->t_half = L->HalfTypeInContext(s->context);
    s->t_float = L->FloatTypeInContext(s->context);
    s->t_double = L->DoubleTypeInContext(s->context);
}

static void verify(llvm *s) {
#ifdef QN_CHECK
    if (s->unit->message) s->L->DisposeMessage(s->unit->message); /* of the kernel before */
    s->unit->message = NULL;
    if (s->L->VerifyModule(s->module, LL_RETURN_STATUS, &s->unit->message))
        raise_error(s->ctx, QN_EINTERNAL, "kernel %s: %s", s->k->name, s->unit->message);
#else
    (void)s;
#endif
}

void emit_llvm_drop(emit_unit *u) {
    if (!u) return;
    const llvm_api *L = u->owner->L;
    if (u->message) L->DisposeMessage(u->message);
    if (u->buffer) L->DisposeMemoryBuffer(u->buffer);
    if (u->b) L->DisposeBuilder(u->b);
    if (u->module) L->DisposeModule(u->module);
    if (u->context) L->ContextDispose(u->context);
    heap_free(&u->ctx->heap, u, sizeof *u);
}

emit_unit *emit_llvm_begin(emit_llvm *e) {
    emit_unit *u = heap_zeroed(&e->ctx->heap, sizeof *u);
    u->ctx = e->ctx;
    u->owner = e;
    open_module(u);
    return u;
}

static void close_kernel(void *of) {
    llvm *s = of;
    arena_free(&s->arena);
    heap_free(&s->ctx->heap, s, sizeof *s);
}

int emit_llvm_add(emit_unit *u, kernel *k) {
    heap *h = &u->ctx->heap;
    char name[EMIT_NAME];
    emit_name(u->kernels, name);
    llvm *s = heap_zeroed(h, sizeof *s);
    s->ctx = u->ctx;
    s->unit = u;
    s->owner = u->owner;
    s->L = u->owner->L;
    s->context = u->context;
    s->module = u->module;
    s->b = u->b;
    s->k = k;
    s->syms = k->syms;
    arena_open(&s->arena, h);
    cleanup c;
    cleanup_push(h, &c, close_kernel, s);
    find_types(s);
    llvm_write(s, name);
    verify(s);
    u->large |= s->operations > LLVM_LARGE;
    cleanup_run(h, &c);
    return u->kernels++;
}

void emit_llvm_run(emit_unit *u, int lane) {
    ll_machine m = llvm_machine(u->owner, lane, u->large);
    if (m)
        u->owner->L->TargetMachineEmitToMemoryBuffer(m, u->module, LL_OBJECT_FILE, &u->message,
                                                     &u->buffer);
}

void emit_llvm_end(emit_unit *u, str *out) {
    const llvm_api *L = u->owner->L;
    if (!u->buffer)
        raise_error(u->ctx, QN_EDEVICE, "LLVM: %s", u->message ? u->message : "no code");
    str_addn(out, L->GetBufferStart(u->buffer), L->GetBufferSize(u->buffer));
}

typedef struct message {
    const llvm_api *L;
    char *text;
} message;

static void free_message(void *of) {
    message *m = of;
    m->L->DisposeMessage(m->text);
}

void emit_llvm_text(emit_unit *u, str *out) {
    const llvm_api *L = u->owner->L;
    message m = {L, L->PrintModuleToString(u->module)};
    cleanup c;
    cleanup_push(&u->ctx->heap, &c, free_message, &m);
    str_add(out, m.text);
    cleanup_run(&u->ctx->heap, &c);
}
