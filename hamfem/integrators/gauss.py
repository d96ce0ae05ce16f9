"""Gauss-Legendre integrators: symplectic, symmetric, stable for every dt."""

from __future__ import annotations

import numpy as np

from hamfem.integrators.runge_kutta import RungeKutta


def Gauss(stages: int) -> RungeKutta:
    """Gauss-Legendre collocation: order 2 x stages, symplectic, stable for every dt.

    It conserves all linear and quadratic invariants, hence the energy, exactly.
    """
    if not isinstance(stages, int) or stages < 1:
        raise ValueError(
            f"Gauss needs a whole number of stages, at least 1: {stages!r} is not one."
        )
    x, w = np.polynomial.legendre.leggauss(stages)
    c, b = (1 + x) / 2, w / 2
    # a_ij = integral of the j-th Lagrange polynomial from 0 to c_i, by the same quadrature, exactly
    points = np.multiply.outer(c, c)
    others = [np.delete(np.arange(stages), j) for j in range(stages)]
    lagrange = np.stack(
        [np.prod((points[..., None] - c[o]) / (c[j] - c[o]), axis=-1) for j, o in enumerate(others)]
    )
    A = c[:, None] * np.einsum("jiq,q->ij", lagrange, b)
    return RungeKutta(A, b, c, name=f"Gauss({stages})")  # type: ignore[arg-type]
