/* dtypes.h - the element types, one row each. Everything that depends on a type follows from its
 * row: size, name, promotion, conversions of the host and of both emitters, what sums are taken in,
 * its name in files. Only the enumerator itself stands in quern.h, whose values never change.
 *
 * X(NAME, name, bits, KIND, rank, ACC, SUM, C, fraction, least, TOP)
 *   NAME      QN_NAME; also its name in safetensors files
 *   bits      of an element in memory
 *   KIND      BOOL; SIGNED, UNSIGNED integers; FLOAT one that C has; NARROW one that is computed
 *             as ACC and rounded after each operation: in memory a sign, an exponent and the
 *             fraction
 *   rank      promotion within a kind goes to the higher; of two floats of one rank to ACC
 *   ACC       what a kernel keeps partial results of it in, sums and maxima
 *   SUM       what sums and products along axes are taken in: the results of integers have that
 *             dtype, as the array API asks, those of floats are rounded back
 *   C         the C type of an element in memory
 *   fraction  bits behind a float's leading 1; of integers those of the value
 *   least     exponent of a float's smallest normal number
 *   TOP       what the largest exponent is for: INF infinities and NaN, as in IEEE 754; NAN numbers
 *             but for the largest fraction, which is NaN: there are no infinities, and what is
 *             too large is NaN. Of integers INF
 *
 * COMPLEX(NAME, name, bits, PART) are the complex ones, where that is defined: they are dtypes of
 * handles only; nodes hold pairs of dtype PART along one more, last axis (docs/complex.md). */
#ifdef X
X(BOOL, "bool", 8, BOOL, 0, BOOL, I64, uint8_t, 1, 0, INF)
X(I8, "i8", 8, SIGNED, 1, I8, I64, int8_t, 7, 0, INF)
X(I16, "i16", 16, SIGNED, 2, I16, I64, int16_t, 15, 0, INF)
X(I32, "i32", 32, SIGNED, 3, I32, I64, int32_t, 31, 0, INF)
X(I64, "i64", 64, SIGNED, 4, I64, I64, int64_t, 63, 0, INF)
X(U8, "u8", 8, UNSIGNED, 1, U8, U64, uint8_t, 8, 0, INF)
X(U16, "u16", 16, UNSIGNED, 2, U16, U64, uint16_t, 16, 0, INF)
X(U32, "u32", 32, UNSIGNED, 3, U32, U64, uint32_t, 32, 0, INF)
X(U64, "u64", 64, UNSIGNED, 4, U64, U64, uint64_t, 64, 0, INF)
X(F16, "f16", 16, NARROW, 2, F32, F32, uint16_t, 10, -14, INF)
X(BF16, "bf16", 16, NARROW, 2, F32, F32, uint16_t, 7, -126, INF)
X(F32, "f32", 32, FLOAT, 3, F32, F32, float, 23, -126, INF)
X(F64, "f64", 64, FLOAT, 4, F64, F64, double, 52, -1022, INF)
X(F8_E4M3, "f8_e4m3", 8, NARROW, 1, F32, F32, uint8_t, 3, -6, NAN)
X(F8_E5M2, "f8_e5m2", 8, NARROW, 1, F32, F32, uint8_t, 2, -14, INF)
#endif
#ifdef COMPLEX
COMPLEX(C64, "c64", 64, F32)
COMPLEX(C128, "c128", 128, F64)
#endif
