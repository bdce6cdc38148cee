/* rows.h - the operations of graph/ops.h in ONNX's operators, one row each.
 *
 * X(NAME, write, TYPES, real, whole, natural, truth)
 *   write    save_<write> writes the node: elem by the spellings of this row, the others by what
 *            their attributes say; none: there is no way, which is QN_EGRAPH
 *   TYPES    the dtypes that a row takes as they are; others go to a wider one of these and back.
 *            They are what the standard has of opset 20, less what the most common runtime has no
 *            kernels for on processors, bf16 above all
 *   real, whole, natural, truth
 *            spellings (spell.c) of floats, of integers, of u64 where it is another, of bools.
 *            NULL: like the one before; bools: as integers
 * An operator's meaning is ONNX's; what is not Quern's at special values stands in docs/onnx.md. */
#define F32 (1u << QN_F32)
#define F64 (1u << QN_F64)
#define F16 (1u << QN_F16)
#define BF16 (1u << QN_BF16)
#define COMPOSED (F32 | F64)
#define FLOATS (F16 | F32 | F64)
#define I32 (1u << QN_I32)
#define I64 (1u << QN_I64)
#define U64 (1u << QN_U64)
#define TRUTH (1u << QN_BOOL)
#define BYTES (1u << QN_I8 | 1u << QN_U8)
#define WORDS (I32 | I64)
#define ORDERED (WORDS | U64)
#define BITS (BYTES | 1u << QN_I16 | 1u << QN_U16 | 1u << QN_U32 | ORDERED | TRUTH)
#define ANY (FLOATS | BF16 | BITS)
#define PADDED (FLOATS | BYTES | 1u << QN_U32 | ORDERED | TRUTH)
#define CHOSEN (FLOATS | 1u << QN_U8 | WORDS)

X(CONST, const, ANY, NULL, NULL, NULL, NULL)
X(IOTA, iota, F32 | F64 | WORDS, NULL, NULL, NULL, NULL)
X(BUFFER, none, ANY, NULL, NULL, NULL, NULL)
X(ARGUMENT, none, ANY, NULL, NULL, NULL, NULL)

X(NEG, elem, FLOATS | WORDS, "Neg(x)", "Neg(x)", NULL, NULL)
X(ABS, elem, FLOATS | ORDERED, "Abs(x)", "Abs(x)", "x", NULL)
X(RECIPROCAL, elem, FLOATS, "Reciprocal(x)", NULL, NULL, NULL)
X(SQRT, elem, FLOATS, "Sqrt(x)", NULL, NULL, NULL)
X(CBRT, elem, COMPOSED, "Mul(Sign(x),Pow(Abs(x),0.33333333333333333))", NULL, NULL, NULL)
X(EXP, elem, FLOATS, "Exp(x)", NULL, NULL, NULL)
X(EXP2, elem, COMPOSED, "Pow(2,x)", NULL, NULL, NULL)
X(EXPM1, elem, COMPOSED,
  "a=Exp(x);b=Sub(a,1);Where(Less(Abs(x),1),Where(Equal(a,1),x,Div(Mul(b,x),Log(a))),b)", NULL,
  NULL, NULL)
X(LOG, elem, FLOATS, "Log(x)", NULL, NULL, NULL)
X(LOG2, elem, COMPOSED, "Div(Log(x),0.69314718055994531)", NULL, NULL, NULL)
X(LOG1P, elem, COMPOSED,
  "a=Add(x,1);b=Log(a);Where(Less(Abs(x),1),Where(Equal(a,1),x,Div(Mul(b,x),Sub(a,1))),b)", NULL,
  NULL, NULL)
X(SIN, elem, FLOATS, "Sin(x)", NULL, NULL, NULL)
X(COS, elem, FLOATS, "Cos(x)", NULL, NULL, NULL)
X(ASIN, elem, FLOATS, "Asin(x)", NULL, NULL, NULL)
X(ACOS, elem, FLOATS, "Acos(x)", NULL, NULL, NULL)
X(ATAN, elem, FLOATS, "Atan(x)", NULL, NULL, NULL)
X(ASINH, elem, FLOATS, "Asinh(x)", NULL, NULL, NULL)
X(ACOSH, elem, FLOATS, "Acosh(x)", NULL, NULL, NULL)
X(ATANH, elem, FLOATS, "Atanh(x)", NULL, NULL, NULL)
X(SINH, elem, FLOATS, "Sinh(x)", NULL, NULL, NULL)
X(COSH, elem, FLOATS, "Cosh(x)", NULL, NULL, NULL)
X(TANH, elem, FLOATS, "Tanh(x)", NULL, NULL, NULL)
X(SIGMOID, elem, FLOATS, "Sigmoid(x)", NULL, NULL, NULL)
X(SOFTPLUS, elem, FLOATS, "Softplus(x)", NULL, NULL, NULL)
X(ERF, elem, COMPOSED, "Erf(x)", NULL, NULL, NULL)
X(ERFC, elem, COMPOSED, "Sub(1,Erf(x))", NULL, NULL, NULL)
/* Stirling's series at x + 8, of which the logarithm of x (x+1) .. (x+7) is taken; left of 0 by
 * reflection. */
X(LGAMMA, elem, COMPOSED,
  "n=Less(x,0);a=Where(n,Sub(1,x),x);t=Add(a,8);"
  "p=Mul(Mul(Mul(a,Add(a,1)),Mul(Add(a,2),Add(a,3))),"
  "Mul(Mul(Add(a,4),Add(a,5)),Mul(Add(a,6),Add(a,7))));"
  "s=Div(1,Mul(t,t));c=Div(Sub(0.083333333333333333,Mul(s,Sub(0.0027777777777777778,"
  "Mul(s,Sub(0.00079365079365079365,Mul(s,0.00059523809523809524)))))),t);"
  "q=Where(Less(a,1000),Log(p),Mul(8,Log(a)));"
  "l=Sub(Add(Sub(Mul(Sub(t,0.5),Log(t)),t),Add(0.91893853320467274,c)),q);"
  "f=Sub(x,Floor(x));Where(Equal(Abs(x),1e999),Abs(x),"
  "Where(n,Sub(Log(Div(3.1415926535897932,Abs(Sin(Mul(3.1415926535897932,f))))),l),l))",
  NULL, NULL, NULL)
X(DIGAMMA, elem, COMPOSED,
  "n=Less(x,0);a=Where(n,Sub(1,x),x);t=Add(a,6);s=Div(1,Mul(t,t));"
  "h=Add(Add(Div(1,a),Add(Div(1,Add(a,1)),Div(1,Add(a,2)))),"
  "Add(Div(1,Add(a,3)),Add(Div(1,Add(a,4)),Div(1,Add(a,5)))));"
  "c=Mul(s,Sub(0.083333333333333333,Mul(s,Sub(0.0083333333333333333,"
  "Mul(s,Sub(0.003968253968253968,Mul(s,Sub(0.0041666666666666667,"
  "Mul(s,0.0075757575757575758)))))))));"
  "d=Sub(Sub(Sub(Log(t),Div(0.5,t)),c),h);f=Mul(3.1415926535897932,Sub(x,Round(x)));"
  "Where(n,Sub(d,Div(3.1415926535897932,Tan(f))),d)",
  NULL, NULL, NULL)
X(TRIGAMMA, elem, COMPOSED,
  "n=Less(x,0);a=Where(n,Sub(1,x),x);t=Add(a,6);s=Div(1,Mul(t,t));"
  "b=Add(a,1);d=Add(a,2);e=Add(a,3);g=Add(a,4);i=Add(a,5);"
  "h=Add(Add(Div(1,Mul(a,a)),Add(Div(1,Mul(b,b)),Div(1,Mul(d,d)))),"
  "Add(Div(1,Mul(e,e)),Add(Div(1,Mul(g,g)),Div(1,Mul(i,i)))));"
  "c=Div(Add(1,Mul(s,Sub(0.16666666666666667,Mul(s,Sub(0.033333333333333333,"
  "Mul(s,Sub(0.023809523809523810,Mul(s,0.033333333333333333)))))))),t);"
  "w=Add(Add(c,Div(s,2)),h);f=Sin(Mul(3.1415926535897932,Sub(x,Round(x))));"
  "Where(n,Sub(Div(9.8696044010893586,Mul(f,f)),w),w)",
  NULL, NULL, NULL)
X(SILU, elem, FLOATS, "Mul(x,Sigmoid(x))", NULL, NULL, NULL)
X(SILU_SLOPE, elem, COMPOSED,
  "a=Clip(x,-300,300);b=Sigmoid(a);Mul(b,Add(1,Mul(a,Sigmoid(Neg(a)))))", NULL, NULL, NULL)
X(GELU, elem, FLOATS, "Gelu(x)", NULL, NULL, NULL)
X(GELU_SLOPE, elem, COMPOSED,
  "a=Clip(x,-30,30);Add(Mul(0.5,Add(1,Erf(Mul(a,0.70710678118654752)))),"
  "Mul(a,Mul(0.39894228040143268,Exp(Mul(-0.5,Mul(a,a))))))",
  NULL, NULL, NULL)
X(GELU_TANH, elem, FLOATS, "Gelu[approximate=tanh](x)", NULL, NULL, NULL)
X(GELU_TANH_SLOPE, elem, COMPOSED,
  "a=Clip(x,-30,30);q=Mul(a,a);z=Mul(1.5957691216057308,Mul(a,Add(1,Mul(0.044715,q))));"
  "b=Sigmoid(z);Mul(b,Add(1,Mul(Mul(a,Sigmoid(Neg(z))),"
  "Mul(1.5957691216057308,Add(1,Mul(0.134145,q))))))",
  NULL, NULL, NULL)
X(MISH, elem, COMPOSED, "Mul(x,Tanh(Softplus(x)))", NULL, NULL, NULL)
X(FLOOR, elem, FLOATS | ORDERED, "Floor(x)", "x", NULL, NULL)
X(CEIL, elem, FLOATS | ORDERED, "Ceil(x)", "x", NULL, NULL)
X(ROUND, elem, FLOATS | ORDERED, "Round(x)", "x", NULL, NULL)
X(TRUNC, elem, FLOATS | ORDERED, "Where(Less(x,0),Ceil(x),Floor(x))", "x", NULL, NULL)
X(NOT, elem, BITS, NULL, "BitwiseNot(x)", NULL, "Not(x)")
X(CAST, to, ANY, NULL, NULL, NULL, NULL)
X(BITCAST, bits, ANY, NULL, NULL, NULL, NULL)

X(ADD, elem, FLOATS | WORDS, "Add(x,y)", "Add(x,y)", NULL, NULL)
X(SUB, elem, FLOATS | WORDS, "Sub(x,y)", "Sub(x,y)", NULL, NULL)
X(MUL, elem, FLOATS | WORDS, "Mul(x,y)", "Mul(x,y)", NULL, NULL)
X(DIV, elem, FLOATS, "Div(x,y)", NULL, NULL, NULL)
X(FLOOR_DIV, elem, COMPOSED | ORDERED,
  "r=Mod[fmod=1](x,y);k=Round(Div(Sub(x,r),y));"
  "Where(Equal(y,0),Div(x,y),"
  "Where(And(Not(Equal(r,0)),Xor(Less(r,0),Less(y,0))),Sub(k,1),k))",
  "d=Where(Or(Equal(y,0),Equal(y,-1)),1,y);q=Div(x,d);r=Sub(x,Mul(q,d));"
  "f=Where(And(Not(Equal(r,0)),Xor(Less(r,0),Less(d,0))),Sub(q,1),q);"
  "Where(Equal(y,0),0,Where(Equal(y,-1),Neg(x),f))",
  "Where(Equal(y,0),0,Div(x,Where(Equal(y,0),1,y)))", NULL)
X(MOD, elem, COMPOSED | ORDERED,
  "r=Mod[fmod=1](x,y);Where(And(Not(Equal(r,0)),Xor(Less(r,0),Less(y,0))),Add(r,y),r)",
  "b=Or(Equal(y,0),Equal(y,-1));Where(b,0,Mod(x,Where(b,1,y)))",
  "b=Equal(y,0);Where(b,0,Mod(x,Where(b,1,y)))", NULL)
X(POW, elem, FLOATS | WORDS, "Pow(x,y)", "Pow(x,y)", NULL, NULL)
/* Where y is 0 the quotient's sign is y's, too, and x's alone counts. */
X(ATAN2, elem, COMPOSED,
  "a=Atan(Div(x,y));b=Abs(a);n=Or(Less(x,0),Less(Div(1,x),0));"
  "p=Where(n,-3.1415926535897932,3.1415926535897932);"
  "Where(Less(0,y),a,Where(Less(y,0),Add(a,p),"
  "Where(Equal(x,0),Where(Less(Div(1,y),0),p,x),Where(n,Neg(b),b))))",
  NULL, NULL, NULL)
X(HYPOT, elem, COMPOSED,
  "a=Abs(x);b=Abs(y);m=Max(a,b);r=Div(Min(a,b),m);"
  "Where(Or(Equal(m,0),Equal(m,1e999)),m,Mul(m,Sqrt(Add(1,Mul(r,r)))))",
  NULL, NULL, NULL)
X(LOGADDEXP, elem, COMPOSED,
  "Where(Equal(x,y),Add(x,0.69314718055994531),Add(Max(x,y),Softplus(Neg(Abs(Sub(x,y))))))", NULL,
  NULL, NULL)
X(MAXIMUM, elem, FLOATS | ORDERED, "Max(x,y)", "Max(x,y)", NULL, "Or(x,y)")
X(MINIMUM, elem, FLOATS | ORDERED, "Min(x,y)", "Min(x,y)", NULL, "And(x,y)")
X(LT, elem, FLOATS | ORDERED, "Less(x,y)", "Less(x,y)", NULL, "And(Not(x),y)")
X(LE, elem, FLOATS | ORDERED, "LessOrEqual(x,y)", "LessOrEqual(x,y)", NULL, "Or(Not(x),y)")
X(EQ, elem, FLOATS | ORDERED, "Equal(x,y)", "Equal(x,y)", NULL, "Equal(x,y)")
X(NE, elem, FLOATS | ORDERED, "Not(Equal(x,y))", "Not(Equal(x,y))", NULL, "Xor(x,y)")
X(AND, elem, BITS, NULL, "BitwiseAnd(x,y)", NULL, "And(x,y)")
X(OR, elem, BITS, NULL, "BitwiseOr(x,y)", NULL, "Or(x,y)")
X(XOR, elem, BITS, NULL, "BitwiseXor(x,y)", NULL, "Xor(x,y)")
/* Operators shift naturals, by less than their width. Casts between i64 and u64 keep the bits. */
X(SHL, elem, I64, NULL,
  "p=Or(Less(y,0),Less(63,y));Where(p,0,Cast[to=7](BitShift[direction=LEFT](Cast[to=13](x),"
  "Cast[to=13](Where(p,0,y)))))",
  NULL, NULL)
X(SHR, elem, I64 | U64, NULL,
  "c=Where(Or(Less(y,0),Less(63,y)),63,y);s=Where(Less(x,0),-1,0);"
  "BitwiseXor(Cast[to=7](BitShift[direction=RIGHT](Cast[to=13](BitwiseXor(x,s)),"
  "Cast[to=13](c))),s)",
  "p=Less(63,y);Where(p,0,BitShift[direction=RIGHT](x,Where(p,0,y)))", NULL)

X(WHERE, elem, CHOSEN, "Where(x,y,z)", "Where(x,y,z)", NULL, "Or(And(x,y),And(Not(x),z))")
X(FMA, elem, FLOATS, "Add(Mul(x,y),z)", NULL, NULL, NULL)

X(RESHAPE, move, ANY, NULL, NULL, NULL, NULL)
X(PERMUTE, move, ANY, NULL, NULL, NULL, NULL)
X(EXPAND, expand, FLOATS | BITS, NULL, NULL, NULL, NULL)
X(PAD, pad, PADDED, NULL, NULL, NULL, NULL)
X(SLICE, move, ANY, NULL, NULL, NULL, NULL)
X(WINDOW, window, PADDED, NULL, NULL, NULL, NULL)
X(FLIP, move, ANY, NULL, NULL, NULL, NULL)
X(JOIN, join, ANY, NULL, NULL, NULL, NULL)

/* Sums of f16 and bf16 are made in f32, as Quern makes them. */
X(SUM, reduce, COMPOSED | WORDS, "Sum", NULL, NULL, NULL)
X(SUM_PRODUCT, product, FLOATS | WORDS, NULL, NULL, NULL, NULL)
X(PROD, reduce, COMPOSED | WORDS, "Prod", NULL, NULL, NULL)
X(MAX, reduce, FLOATS | ORDERED, "Max", NULL, NULL, NULL)
X(MIN, reduce, FLOATS | ORDERED, "Min", NULL, NULL, NULL)
X(ARGMAX, reduce, FLOATS | ORDERED, "ArgMax", NULL, NULL, NULL)
X(ARGMIN, reduce, FLOATS | ORDERED, "ArgMin", NULL, NULL, NULL)
X(SCAN, scan, COMPOSED | WORDS, NULL, NULL, NULL, NULL)
X(GATHER, gather, CHOSEN, NULL, NULL, NULL, NULL)
X(SCATTER, scatter, FLOATS | ORDERED, NULL, NULL, NULL, NULL)
X(CALL, call, COMPOSED | ORDERED, NULL, NULL, NULL, NULL)
X(LIST, none, ANY, NULL, NULL, NULL, NULL)
X(LOOP, loop, ANY, NULL, NULL, NULL, NULL)
X(RESULT, result, ANY, NULL, NULL, NULL, NULL)
X(CONTIGUOUS, mark, ANY, NULL, NULL, NULL, NULL)
X(DETACH, mark, ANY, NULL, NULL, NULL, NULL)
X(APART, mark, ANY, NULL, NULL, NULL, NULL)
X(STAND_IN, mark, ANY, NULL, NULL, NULL, NULL)
X(CUSTOM, mark, ANY, NULL, NULL, NULL, NULL)

#undef F32
#undef F64
#undef F16
#undef BF16
#undef COMPOSED
#undef FLOATS
#undef FLOATS
#undef I32
#undef I64
#undef U64
#undef TRUTH
#undef BYTES
#undef WORDS
#undef ORDERED
#undef BITS
#undef ANY
#undef PADDED
#undef CHOSEN
