"""Diagonally implicit Runge-Kutta methods: one real solve for each stage."""

from __future__ import annotations

import math

import numpy as np

from hamfem.integrators.runge_kutta import RungeKutta


def SymplecticDIRK(order: int) -> RungeKutta:
    """Midpoint rules of lengths b_i dt one after the other: order 2, 4 (5 stages) or 6 (9).

    a_ij = b_j for j < i, a_ii = b_i / 2; b from Suzuki's and from Kahan and Li's compositions.
    Every stage is a real positive definite solve, for every dt.
    """
    if order == 2:
        b = [1.0]
    elif order == 4:
        p = 1 / (4 - 4 ** (1 / 3))
        b = [p, p, 1 - 4 * p, p, p]
    elif order == 6:
        half = [0.39216144400731413927925056, 0.33259913678935943859974864,
                -0.70624617255763935980996482, 0.08221359629355080023149045]  # fmt: skip
        b = [*half, 1 - 2 * sum(half), *half[::-1]]
    else:
        raise ValueError(f"there is no SymplecticDIRK of order {order!r}: choose 2, 4 or 6.")
    A = np.tril(np.tile(b, (len(b), 1)), -1) + np.diag(b) / 2
    return RungeKutta(A, b, name=f"SymplecticDIRK({order})")  # type: ignore[arg-type]


def SDIRK3() -> RungeKutta:
    """Two stages of order 3, A-stable, not symplectic: the energy decays.

    gamma = (3 + sqrt 3)/6. The source prints (1 + sqrt 3)/2, which gives order 2: the conditions
    gamma² - gamma + 1/2 = 1/3 and gamma - gamma² = 1/6 leave (3 ± sqrt 3)/6 only, and the minus
    sign is not A-stable.
    """
    g = (3 + math.sqrt(3)) / 6
    return RungeKutta(((g, 0.0), (1 - 2 * g, g)), (0.5, 0.5), name="SDIRK3()")
