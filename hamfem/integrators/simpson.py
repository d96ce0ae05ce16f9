"""Simpson's variational integrator of order 4."""

from __future__ import annotations

import math
from dataclasses import dataclass

from petsc4py import PETSc

import numpy as np

from hamfem.integrators.method import Advance, Method, Quadrature, System
from hamfem.state import State


@dataclass(frozen=True)
class Simpson(Method):
    """The action of quadratic paths by Simpson's rule: order 4, symplectic, omega dt < 2 sqrt 2.

    With the middle of the path eliminated and the step solved for (derivation and the two-solve
    variants: tests/integrators/test_simpson.py):

        (M + dt²/24 K) e = dt²/2 F + dt²/3 (f_m - f_0) - dt²/8 K (dt v + dt²/6 M^-1 F) - dt³/24 K v
        u1 = u + dt v + e,   v1 = v + 2/dt e - dt/6 M^-1 (K (dt v + e) - f_1 + f_0)

    where F = -K u + f_0 and f_0, f_m, f_1 are the loads at the beginning, middle and end.
    """

    name = "Simpson()"
    order = 4
    symplectic = True
    symmetric = True
    negative_steps = False
    limit = 2 * math.sqrt(2)

    def quadrature(self, half: str, integrable: bool = False) -> Quadrature:
        """Simpson's rule."""
        return np.array([0.0, 0.5, 1.0]), np.array([1.0, 4.0, 1.0]) / 6

    def bind(self, system: System, dt: float) -> Advance:
        """A function that advances a state by n steps: one solve, two mass solves, three K each."""
        if system.R is not None or system.R_q is not None:
            raise ValueError(
                "Simpson comes from an action and knows no damping: take hf.Gauss(2) instead."
            )
        h = dt
        solve = system.shifted(h**2 / 24)
        loaded = _Loaded(system, h) if system.loads or system.flux_loads else None
        F, w, Kw, e, rhs, delta = (system.new_v() for _ in range(6))
        dq = system.new_q()

        def advance(state: State, n: int) -> None:
            start = state.t
            for i in range(n):
                system.restoring(state.q, F)
                if loaded is not None:
                    loaded.begin(state, start + i * h, F)
                system.mass_solve(F, w)
                w.scale(h**2 / 6)
                w.axpy(4 * h / 3, state.v)  # K (dt v + ...) and dt³/24 K v in one product
                system.stiffness(w, Kw)
                F.copy(rhs)
                rhs.scale(h**2 / 2)
                rhs.axpy(-(h**2) / 8, Kw)
                if loaded is not None:
                    rhs.axpy(h**2 / 3, loaded.middle)
                solve(rhs, e)
                delta.waxpy(h, state.v, e)
                system.stiffness(delta, Kw)
                if loaded is not None:
                    Kw.axpy(-1.0, loaded.end)
                system.mass_solve(Kw, w)
                state.v.maxpy([2 / h, -h / 6], [e, w])
                system.flux(delta, dq)
                state.q.axpy(1.0, dq)
                if loaded is not None:
                    loaded.finish(state, start + i * h, delta)

        return advance


class _Loaded:
    """The loads of a step by their values at its beginning, middle and end, and their work.

    Attributes:
        middle: f_m - f_0, with the force of what the load on q has done by then.
        end: f_1 - f_0, likewise.
    """

    def __init__(self, system: System, h: float) -> None:
        self.system, self.h = system, h
        self.middle, self.end, self.f, self.v0, self.u = (system.new_v() for _ in range(5))
        self.q0, self.g, self.q = (system.new_q() for _ in range(3))
        self.flux = [system.new_q() for _ in range(2)]  # M_q^-1 of the integrals of g

    def begin(self, state: State, t: float, F: PETSc.Vec) -> None:
        """Compute middle and end, and add f_0 to F."""
        system, h = self.system, self.h
        times = [t, t + h / 2, t + h]
        # integrals of g by the parabola through its three values
        integrals = ([5 * h / 24, 8 * h / 24, -h / 24], [h / 6, 4 * h / 6, h / 6])
        state.v.copy(self.v0)
        state.q.copy(self.q0)
        system.loads.add([t], [1.0], F)
        for vector, weights, integral, flux in zip(
            (self.middle, self.end), ([-1, 1, 0], [-1, 0, 1]), integrals, self.flux
        ):
            vector.zeroEntries()
            if system.flux_loads:
                self.g.zeroEntries()
                system.flux_loads.add(times, integral, self.g)
                system.flux_solve(self.g, flux)
                system.restoring(flux, vector)
            system.loads.add(times, weights, vector)

    def finish(self, state: State, t: float, delta: PETSc.Vec) -> None:
        """Add the load on q to it, and the work of both loads by Simpson's rule.

        The velocity in the middle is the one for which Simpson's rule gives delta, the position in
        the middle that of the cubic through both ends.
        """
        system, h = self.system, self.h
        ends = ((t, self.v0), (t + h, state.v))
        if system.loads:
            for time, v in ends:
                self.f.zeroEntries()
                system.loads.add([time, t + h / 2], [h / 6, -h / 6], self.f)
                state.work += float(self.f.dot(v))
            self.f.zeroEntries()
            system.loads.add([t + h / 2], [1.0], self.f)
            state.work += float(self.f.dot(delta))
        if system.flux_loads:
            state.q.axpy(1.0, self.flux[1])
            self.u.zeroEntries()
            self.u.maxpy([0.5, h / 8, -h / 8], [delta, self.v0, state.v])
            system.flux(self.u, self.q)
            self.q.maxpy([1.0, 1.0], [self.q0, self.flux[0]])
            points = ((t, 1, self.q0), (t + h / 2, 4, self.q), (t + h, 1, state.q))
            for time, weight, q in points:
                self.g.zeroEntries()
                system.flux_loads.add([time], [weight * h / 6], self.g)
                state.work += float(self.g.dot(q))
