/* intrinsic.c - calls of intrinsics, and how they differ from one LLVM to the next.
 *
 * An intrinsic's name stays, its operands need not. What changed between the versions that
 * api.h allows is read off the intrinsic's own signature rather than off the version:
 *   - The dot instructions took words of 32 bits and take their parts, of bf16 since 16, of
 *     integers since 22. Both have the same bits, so an operand of another type is cast.
 *   - The masked loads and stores had the alignment as an operand behind the pointer; since 22 it
 *     is an attribute of the pointer. There is then one operand less. */
#include "emit/llvm/llvm.h"

enum { MOST_OPERANDS = 8 };

typedef struct intrinsic {
    const char *name;
    ll_value function;
    ll_type type;
    unsigned operands;
} intrinsic;

static intrinsic find(llvm *s, llvm_name name) {
    size_t types = (size_t)name.types;
    unsigned which = s->L->LookupIntrinsicID(name.text, strlen(name.text));
    if (!which)
        raise_error(s->ctx, QN_EINTERNAL, "kernel %s: this LLVM knows no %s", s->k->name,
                    name.text);
    intrinsic f = {name.text, s->L->GetIntrinsicDeclaration(s->module, which, name.type, types),
                   s->L->IntrinsicGetType(s->context, which, name.type, types), 0};
    f.operands = s->L->CountParamTypes(f.type);
    return f;
}

static val call(llvm *s, const intrinsic *f, int n, ll_value *arg, int level, bool vec) {
    ll_type wanted[MOST_OPERANDS];
    if (f->operands != (unsigned)n || n > MOST_OPERANDS)
        raise_error(s->ctx, QN_EINTERNAL, "kernel %s: %s takes %u operands, not %d", s->k->name,
                    f->name, f->operands, n);
    llvm_at(s, level);
    s->L->GetParamTypes(f->type, wanted);
    for (int i = 0; i < n; i++)
        if (s->L->TypeOf(arg[i]) != wanted[i])
            arg[i] = s->L->BuildCast(s->b, LL_BITCAST, arg[i], wanted[i], "");
    return (val){s->L->BuildCall2(s->b, f->type, f->function, arg, (unsigned)n, ""), level, vec};
}

val llvm_call(llvm *s, llvm_name name, int n, ll_value *arg, int level, bool vec) {
    intrinsic f = find(s, name);
    return call(s, &f, n, arg, level, vec);
}

static void align_operand(llvm *s, ll_value made, int operand, int64_t align) {
    static const char name[] = "align";
    unsigned kind = s->L->GetEnumAttributeKindForName(name, sizeof name - 1);
    ll_attribute a = s->L->CreateEnumAttribute(s->context, kind, (uint64_t)align);
    s->L->AddCallSiteAttribute(made, (unsigned)operand + 1, a);
}

val llvm_call_masked(llvm *s, llvm_name name, const ll_value arg[3], int pointer, int64_t align,
                     int level) {
    intrinsic f = find(s, name);
    ll_value all[4];
    bool operand = f.operands == 4;
    for (int i = 0, to = 0; i < 3; i++) {
        all[to++] = arg[i];
        if (operand && i == pointer)
            all[to++] = s->L->ConstInt(s->t_i32, (unsigned long long)align, 0);
    }
    val made = call(s, &f, 3 + operand, all, level, true);
    if (!operand) align_operand(s, made.v, pointer, align);
    return made;
}
