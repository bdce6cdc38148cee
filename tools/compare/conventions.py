"""conventions.py - differences that are documented conventions, and public functions without a
counterpart, each with its reason. A difference that no row here explains is a fault.

A convention is (functions, order, test, reason); the test sees the case, the elements of the
arguments (where there is one element each), what came and what was expected.
"""

import math


def zeros(case, args, got, want):
    """Both are zero, of different sign."""
    return got == 0 and want == 0


CONVENTIONS = []

# Public functions that give no value to compare, or whose counterpart stands under another name.
NOT_COMPARED = {}


def explained(case, args, got, want):
    for names, order, test, reason in CONVENTIONS:
        if case.name in names.split() and order in (case.order, "any") and test(case, args, got, want):
            return reason
    return None


def both_nan(got, want):
    return isinstance(want, float) and math.isnan(want) and math.isnan(got)
