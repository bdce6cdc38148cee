/* math_trig.c - sin, cos and atan. */
#include "kern/math.h"

/* z + z^3 P(z^2) with z = |x|, or -1/|x| added to pi/2. There the two largest terms are added
 * first, the rounding error of that sum (exact) goes to the small ones. */
kexpr math_atan(const math *m, kexpr x) {
    bool f32 = m->dtype == QN_F32;
    kexpr t = math_abs(m, x), zero = math_f(m, 0), one = math_f(m, 1);
    kexpr far = math_lt(m, one, t);
    kexpr z = math_where(m, far, math_div(m, math_f(m, -1), t), t);
    kexpr high = math_f(m, f32 ? 0x1.921fb6p+0 : 0x1.921fb54442d18p+0);
    kexpr low = math_f(m, f32 ? -0x1.777a5cp-25 : 0x1.1a62633145c07p-54);
    high = math_where(m, far, high, zero);
    low = math_where(m, far, low, zero);
    kexpr u = math_mul(m, z, z);
    kexpr rest = math_fma(m, math_mul(m, z, u), math_poly(m, POLY(m, ATAN), 1, u), low);
    kexpr sum = math_add(m, high, z);
    rest = math_add(m, rest, math_add(m, z, math_sub(m, high, sum)));
    return math_copy_sign(m, math_add(m, sum, rest), x);
}
