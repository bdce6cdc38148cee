/* f32.c - transforms of f32: passes by vectors of 32 bytes where a processor of x86 has AVX2, of
 * 16 on others, and by single numbers; and the rows. */
#include "routine/fft/fft.h"

#define REAL        float
#define SHORT_LANES 4
#define LONG_LANES  8
#define ROW(name)   name##_f32
#include "routine/fft/widths.h"
#undef REAL
#undef SHORT_LANES
#undef LONG_LANES
#undef ROW
