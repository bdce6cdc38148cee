/* llvm_object.c - from a kernel to an object file in memory, or to IR as text.
 *
 * Everything of LLVM's that one compilation makes hangs off a context of its own, which is freed
 * whole whatever happens in between; everything of ours is in one arena. That is also why units can
 * run side by side: they share nothing. */
#include "emit/llvm.h"

static void open_module(llvm *s) {
    const llvm_api *L = s->L;
    s->context = L->ContextCreate();
    s->module = L->ModuleCreateWithNameInContext("kernel", s->context);
    s->b = L->CreateBuilderInContext(s->context);
    L->SetTarget(s->module, s->owner->triple);
    ll_layout layout = L->CreateTargetDataLayout(llvm_machine(s->owner, 0));
    L->SetModuleDataLayout(s->module, layout);
    L->DisposeTargetData(layout);
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
    if (s->L->VerifyModule(s->module, LL_RETURN_STATUS, &s->message))
        raise_error(s->ctx, QN_EINTERNAL, "kernel %s: %s", s->k->name, s->message);
#else
    (void)s;
#endif
}

void emit_llvm_drop(emit_unit *s) {
    if (!s) return;
    if (s->message) s->L->DisposeMessage(s->message);
    if (s->buffer) s->L->DisposeMemoryBuffer(s->buffer);
    if (s->b) s->L->DisposeBuilder(s->b);
    if (s->module) s->L->DisposeModule(s->module);
    if (s->context) s->L->ContextDispose(s->context);
    arena_free(&s->arena);
    heap_free(&s->ctx->heap, s, sizeof *s);
}

emit_unit *emit_llvm_begin(emit_llvm *e, kern *k) {
    heap *h = &e->ctx->heap;
    emit_unit *s = heap_zeroed(h, sizeof *s);
    s->ctx = e->ctx;
    s->owner = e;
    s->L = e->L;
    s->k = k;
    s->syms = k->syms;
    arena_open(&s->arena, h);
    guard g;
    guard_open(h, &g);
    if (setjmp(g.at)) {
        guard_close(h, &g);
        emit_llvm_drop(s);
        heap_unwind(h);
    }
    open_module(s);
    llvm_write(s);
    verify(s);
    guard_close(h, &g);
    arena_free(&s->arena);
    return s;
}

void emit_llvm_run(emit_unit *s, int lane) {
    ll_machine m = llvm_machine(s->owner, lane);
    if (m)
        s->L->TargetMachineEmitToMemoryBuffer(m, s->module, LL_OBJECT_FILE, &s->message,
                                              &s->buffer);
}

void emit_llvm_end(emit_unit *s, str *out) {
    if (!s->buffer)
        raise_error(s->ctx, QN_EDEVICE, "kernel %s: LLVM: %s", s->k->name,
                    s->message ? s->message : "no code");
    str_addn(out, s->L->GetBufferStart(s->buffer), s->L->GetBufferSize(s->buffer));
}

void emit_llvm_text(emit_unit *s, str *out) {
    char *text = s->L->PrintModuleToString(s->module);
    guard g;
    guard_open(&s->ctx->heap, &g);
    if (setjmp(g.at)) {
        guard_close(&s->ctx->heap, &g);
        s->L->DisposeMessage(text);
        heap_unwind(&s->ctx->heap);
    }
    str_add(out, text);
    guard_close(&s->ctx->heap, &g);
    s->L->DisposeMessage(text);
}
