/* f64.c - transforms of f64: passes by vectors of 32 bytes where a processor of x86 has AVX2, of
 * 16 on others, and by single numbers; and the rows. */
#include "routine/fft/fft.h"

#define REAL        double
#define SHORT_LANES 2
#define LONG_LANES  4
#define ROW(name)   name##_f64
#include "routine/fft/widths.h"
#undef REAL
#undef SHORT_LANES
#undef LONG_LANES
#undef ROW
