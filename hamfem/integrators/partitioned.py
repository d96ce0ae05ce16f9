"""Explicit symplectic integrators: sequences of kicks of v and drifts of q."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hamfem.system import SecondOrder, State


@dataclass(frozen=True)
class Verlet:
    """Störmer-Verlet, kick first: order 2, symplectic, stable for omega dt < 2.

    v += -dt/2 M^-1 K u;  u += dt v;  v += -dt/2 M^-1 K u. It does not conserve the energy but
    1/2 v'Mv + 1/2 u'(K - dt²/4 K M^-1 K)u, so that the energy oscillates within O(dt²).
    """

    order = 2
    symplectic = True

    def stable_dt(self, system: SecondOrder) -> float:
        """The limit 2 / omega_max."""
        omega = system.max_frequency()
        return 2.0 / omega if omega > 0 else float("inf")

    def bind(self, system: SecondOrder, dt: float) -> Callable[[State, int], None]:
        """A function that advances a state by n steps, the kicks between them merged."""
        force, acceleration = system.K.createVecLeft(), system.K.createVecLeft()

        def kick(state: State, h: float) -> None:
            system.K.mult(state.q, force)
            system.mass_solve(force, acceleration)
            state.v.axpy(-h, acceleration)

        def advance(state: State, n: int) -> None:
            kick(state, dt / 2)
            for i in range(n):
                state.q.axpy(dt, state.v)
                kick(state, dt if i < n - 1 else dt / 2)

        return advance
