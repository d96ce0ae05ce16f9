"""Gauss-Legendre integrators: symplectic, symmetric, stable for every dt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hamfem.system import SecondOrder, State


@dataclass(frozen=True)
class Gauss:
    """The Gauss-Legendre method with one stage, the implicit midpoint rule: order 2.

    It conserves all linear and quadratic invariants, hence the energy, exactly.
    """

    stages: int = 1
    symplectic = True

    def __post_init__(self) -> None:
        if self.stages != 1:
            raise ValueError(
                f"Gauss({self.stages}) is not there yet: Gauss(1), the implicit midpoint rule, is."
            )

    @property
    def order(self) -> int:
        """Twice the number of stages."""
        return 2 * self.stages

    def stable_dt(self, system: SecondOrder) -> float:
        """No limit."""
        return float("inf")

    def bind(self, system: SecondOrder, dt: float) -> Callable[[State, int], None]:
        """A function that advances a state by n steps, one solve and one product with K each.

        With d = v_mid - v, the increment rather than a difference of large numbers:
        (M + dt²/4 K) d = -dt/2 K (u + dt/2 v);  u += dt (v + d);  v += 2 d.
        """
        solver = system.shifted(dt**2 / 4)
        middle, force, d = (system.K.createVecLeft() for _ in range(3))

        def advance(state: State, n: int) -> None:
            for _ in range(n):
                middle.waxpy(dt / 2, state.v, state.q)
                system.K.mult(middle, force)
                force.scale(-dt / 2)
                solver.solve(force, d)
                state.v.axpy(1.0, d)
                state.q.axpy(dt, state.v)
                state.v.axpy(1.0, d)

        return advance
