/* api.h - the functions of LLVM's C API that we call, with our own prototypes.
 *
 * X(name, returns, parameters): LLVM<name> is looked up in the shared library when it is loaded. No
 * header or import library of LLVM is needed to build. Enumerators have the C API's stable
 * values.
 *
 * The functions are those that every version from LLVM_OLDEST to LLVM_NEWEST has, with these
 * prototypes: 15 is the first whose pointers have no element type by default. Where versions
 * differ is said in two places: GetVersion is missing in 15 (load.c), and some intrinsics
 * changed their operands (intrinsic.c). */
#ifndef QN_LLVM_API_H
#define QN_LLVM_API_H

#include <stddef.h>
#include <stdint.h>

enum { LLVM_OLDEST = 15, LLVM_NEWEST = 22 };

typedef struct ll_context *ll_context;
typedef struct ll_module *ll_module;
typedef struct ll_type *ll_type;
typedef struct ll_value *ll_value;
typedef struct ll_block *ll_block;
typedef struct ll_builder *ll_builder;
typedef struct ll_target *ll_target;
typedef struct ll_machine *ll_machine;
typedef struct ll_buffer *ll_buffer;
typedef struct ll_layout *ll_layout;
typedef struct ll_attribute *ll_attribute;
typedef struct ll_metadata *ll_metadata;

enum ll_opcode {
    LL_ADD = 8,
    LL_FADD,
    LL_SUB,
    LL_FSUB,
    LL_MUL,
    LL_FMUL,
    LL_UDIV,
    LL_SDIV,
    LL_FDIV,
    LL_UREM,
    LL_SREM,
    LL_FREM,
    LL_SHL,
    LL_LSHR,
    LL_ASHR,
    LL_AND,
    LL_OR,
    LL_XOR,
    LL_TRUNC = 30,
    LL_ZEXT,
    LL_SEXT,
    LL_FPTOUI,
    LL_FPTOSI,
    LL_UITOFP,
    LL_SITOFP,
    LL_FPTRUNC,
    LL_FPEXT,
    LL_BITCAST = 41
};
enum ll_int_predicate {
    LL_EQ = 32,
    LL_NE,
    LL_UGT,
    LL_UGE,
    LL_ULT,
    LL_ULE,
    LL_SGT,
    LL_SGE,
    LL_SLT,
    LL_SLE
};
enum ll_real_predicate { LL_OEQ = 1, LL_OGT, LL_OGE, LL_OLT, LL_OLE, LL_UNO = 8, LL_UNE = 14 };
enum {
    LL_OPTIMIZE_NONE = 0,
    LL_OPTIMIZE_DEFAULT = 2,
    LL_RELOC_PIC = 2,
    LL_CODE_SMALL = 3,
    LL_OBJECT_FILE = 1
};
enum { LL_RETURN_STATUS = 2, LL_FUNCTION_INDEX = -1, LL_PRIVATE = 9 };

/* clang-format off */
#define LLVM_API(X)                                                                                \
    X(InitializeX86TargetInfo, void, (void))                                                       \
    X(InitializeX86Target, void, (void))                                                           \
    X(InitializeX86TargetMC, void, (void))                                                         \
    X(InitializeX86AsmPrinter, void, (void))                                                       \
    X(GetDefaultTargetTriple, char *, (void))                                                      \
    X(GetHostCPUName, char *, (void))                                                              \
    X(GetHostCPUFeatures, char *, (void))                                                          \
    X(DisposeMessage, void, (char *))                                                              \
    X(GetTargetFromTriple, int, (const char *, ll_target *, char **))                              \
    X(CreateTargetMachine, ll_machine, (ll_target, const char *, const char *, const char *, int,  \
                                        int, int))                                                 \
    X(DisposeTargetMachine, void, (ll_machine))                                                    \
    X(CreateTargetDataLayout, ll_layout, (ll_machine))                                             \
    X(DisposeTargetData, void, (ll_layout))                                                        \
    X(SetModuleDataLayout, void, (ll_module, ll_layout))                                           \
    X(SetTarget, void, (ll_module, const char *))                                                  \
    X(TargetMachineEmitToMemoryBuffer, int, (ll_machine, ll_module, int, char **, ll_buffer *))    \
    X(GetBufferStart, const char *, (ll_buffer))                                                   \
    X(GetBufferSize, size_t, (ll_buffer))                                                          \
    X(DisposeMemoryBuffer, void, (ll_buffer))                                                      \
    X(ContextCreate, ll_context, (void))                                                           \
    X(ContextDispose, void, (ll_context))                                                          \
    X(ModuleCreateWithNameInContext, ll_module, (const char *, ll_context))                        \
    X(DisposeModule, void, (ll_module))                                                            \
    X(PrintModuleToString, char *, (ll_module))                                                    \
    X(VerifyModule, int, (ll_module, int, char **))                                                \
    X(IntTypeInContext, ll_type, (ll_context, unsigned))                                           \
    X(HalfTypeInContext, ll_type, (ll_context))                                                    \
    X(FloatTypeInContext, ll_type, (ll_context))                                                   \
    X(DoubleTypeInContext, ll_type, (ll_context))                                                  \
    X(VoidTypeInContext, ll_type, (ll_context))                                                    \
    X(PointerTypeInContext, ll_type, (ll_context, unsigned))                                       \
    X(VectorType, ll_type, (ll_type, unsigned))                                                    \
    X(ArrayType, ll_type, (ll_type, unsigned))                                                     \
    X(FunctionType, ll_type, (ll_type, ll_type *, unsigned, int))                                  \
    X(CountParamTypes, unsigned, (ll_type))                                                        \
    X(GetParamTypes, void, (ll_type, ll_type *))                                                   \
    X(GetVectorSize, unsigned, (ll_type))                                                          \
    X(GetElementType, ll_type, (ll_type))                                                          \
    X(TypeOf, ll_type, (ll_value))                                                                 \
    X(AddFunction, ll_value, (ll_module, const char *, ll_type))                                   \
    X(GetParam, ll_value, (ll_value, unsigned))                                                    \
    X(CreateStringAttribute, ll_attribute, (ll_context, const char *, unsigned, const char *,      \
                                            unsigned))                                             \
    X(GetEnumAttributeKindForName, unsigned, (const char *, size_t))                               \
    X(CreateEnumAttribute, ll_attribute, (ll_context, unsigned, uint64_t))                         \
    X(AddAttributeAtIndex, void, (ll_value, unsigned, ll_attribute))                               \
    X(AddCallSiteAttribute, void, (ll_value, unsigned, ll_attribute))                              \
    X(AddGlobal, ll_value, (ll_module, ll_type, const char *))                                     \
    X(SetInitializer, void, (ll_value, ll_value))                                                  \
    X(SetGlobalConstant, void, (ll_value, int))                                                    \
    X(SetLinkage, void, (ll_value, int))                                                           \
    X(SetSection, void, (ll_value, const char *))                                                  \
    X(SetAlignment, void, (ll_value, unsigned))                                                    \
    X(ConstInt, ll_value, (ll_type, unsigned long long, int))                                      \
    X(ConstReal, ll_value, (ll_type, double))                                                      \
    X(ConstNull, ll_value, (ll_type))                                                              \
    X(ConstBitCast, ll_value, (ll_value, ll_type))                                                 \
    X(ConstVector, ll_value, (ll_value *, unsigned))                                               \
    X(GetPoison, ll_value, (ll_type))                                                              \
    X(IsConstant, int, (ll_value))                                                                 \
    X(GetMDKindIDInContext, unsigned, (ll_context, const char *, unsigned))                        \
    X(ValueAsMetadata, ll_metadata, (ll_value))                                                    \
    X(MDNodeInContext2, ll_metadata, (ll_context, ll_metadata *, size_t))                          \
    X(MetadataAsValue, ll_value, (ll_context, ll_metadata))                                        \
    X(SetMetadata, void, (ll_value, unsigned, ll_value))                                           \
    X(GetInlineAsm, ll_value, (ll_type, const char *, size_t, const char *, size_t, int, int, int, \
                               int))                                                               \
    X(AppendBasicBlockInContext, ll_block, (ll_context, ll_value, const char *))                   \
    X(GetInsertBlock, ll_block, (ll_builder))                                                      \
    X(CreateBuilderInContext, ll_builder, (ll_context))                                            \
    X(DisposeBuilder, void, (ll_builder))                                                          \
    X(PositionBuilderBefore, void, (ll_builder, ll_value))                                         \
    X(PositionBuilderAtEnd, void, (ll_builder, ll_block))                                          \
    X(BuildRetVoid, ll_value, (ll_builder))                                                        \
    X(BuildBr, ll_value, (ll_builder, ll_block))                                                   \
    X(BuildCondBr, ll_value, (ll_builder, ll_value, ll_block, ll_block))                           \
    X(BuildBinOp, ll_value, (ll_builder, int, ll_value, ll_value, const char *))                   \
    X(BuildFNeg, ll_value, (ll_builder, ll_value, const char *))                                   \
    X(BuildFreeze, ll_value, (ll_builder, ll_value, const char *))                                 \
    X(BuildCast, ll_value, (ll_builder, int, ll_value, ll_type, const char *))                     \
    X(BuildICmp, ll_value, (ll_builder, int, ll_value, ll_value, const char *))                    \
    X(BuildFCmp, ll_value, (ll_builder, int, ll_value, ll_value, const char *))                    \
    X(BuildSelect, ll_value, (ll_builder, ll_value, ll_value, ll_value, const char *))             \
    X(BuildPhi, ll_value, (ll_builder, ll_type, const char *))                                     \
    X(AddIncoming, void, (ll_value, ll_value *, ll_block *, unsigned))                             \
    X(BuildGEP2, ll_value, (ll_builder, ll_type, ll_value, ll_value *, unsigned, const char *))    \
    X(BuildLoad2, ll_value, (ll_builder, ll_type, ll_value, const char *))                         \
    X(BuildStore, ll_value, (ll_builder, ll_value, ll_value))                                      \
    X(BuildExtractElement, ll_value, (ll_builder, ll_value, ll_value, const char *))               \
    X(BuildInsertElement, ll_value, (ll_builder, ll_value, ll_value, ll_value, const char *))      \
    X(BuildShuffleVector, ll_value, (ll_builder, ll_value, ll_value, ll_value, const char *))      \
    X(LookupIntrinsicID, unsigned, (const char *, size_t))                                         \
    X(GetIntrinsicDeclaration, ll_value, (ll_module, unsigned, ll_type *, size_t))                 \
    X(IntrinsicGetType, ll_type, (ll_context, unsigned, ll_type *, size_t))                        \
    X(BuildCall2, ll_value, (ll_builder, ll_type, ll_value, ll_value *, unsigned, const char *))
/* clang-format on */

/* A library; GetVersion is looked up by hand. */
typedef struct llvm_api {
    unsigned major, minor, patch; /* 15: the others are not known */
    void (*get_version)(unsigned *, unsigned *, unsigned *);
#define X(name, returns, parameters) returns(*name) parameters;
    LLVM_API(X)
#undef X
} llvm_api;

#endif
