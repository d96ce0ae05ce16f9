"""Simpson's variational integrator of order 4."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hamfem.integrators.method import Advance, Method, System
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

    def stable_dt(self, system: System) -> float:
        """2 sqrt 2 over the largest frequency; it is stable again beyond a gap, from sqrt 12."""
        omega = system.max_frequency()
        return self.limit / omega if omega > 0 else float("inf")

    def bind(self, system: System, dt: float) -> Advance:
        """A function that advances a state by n steps: one solve, two mass solves, three K each."""
        if system.R is not None or system.R_q is not None:
            raise ValueError(
                "Simpson comes from an action and knows no damping: take hf.Gauss(2) instead."
            )
        h = dt
        solve = system.shifted(h**2 / 24)
        loads, flux_loads = system.loads, system.flux_loads
        F, w, Kw, e, rhs, delta = (system.new_v() for _ in range(6))
        change = [system.new_v() for _ in range(2)] if loads or flux_loads else None
        f = system.new_v() if loads else None
        g, dq = system.new_q(), system.new_q()

        def load_changes(t: float) -> None:
            """f_m - f_0 and f_1 - f_0, with what the load on q has done by then."""
            assert change is not None
            times = [t, t + h / 2, t + h]
            for vector, weights in zip(change, ([-1, 1, 0], [-1, 0, 1])):
                vector.zeroEntries()
                loads.add(times, weights, vector)
            if flux_loads:
                # integrals of g by the parabola through its three values
                halves = ([5 * h / 24, 8 * h / 24, -h / 24], [h / 6, 4 * h / 6, h / 6])
                for vector, weights in zip(change, halves):
                    g.zeroEntries()
                    flux_loads.add(times, weights, g)
                    system.flux_solve(g, dq)
                    system.restoring(dq, w)
                    vector.axpy(1.0, w)

        def advance(state: State, n: int) -> None:
            start = state.t
            for i in range(n):
                t = start + i * h
                system.restoring(state.q, F)
                if change is not None:
                    load_changes(t)
                    loads.add([t], [1.0], F)
                system.mass_solve(F, w)
                w.scale(h**2 / 6)
                w.axpy(4 * h / 3, state.v)  # K (dt v + ...) and dt³/24 K v in one product
                system.stiffness(w, Kw)
                F.copy(rhs)
                rhs.scale(h**2 / 2)
                rhs.axpy(-(h**2) / 8, Kw)
                if change is not None:
                    rhs.axpy(h**2 / 3, change[0])
                solve(rhs, e)
                delta.waxpy(h, state.v, e)
                system.stiffness(delta, Kw)
                if change is not None:
                    Kw.axpy(-1.0, change[1])
                system.mass_solve(Kw, w)
                if f is not None:
                    # Simpson's rule for the work; the velocity in the middle is delta / h
                    for time, weight, velocity in (
                        (t, h / 6, state.v), (t + h / 2, 2 / 3, delta)
                    ):  # fmt: skip
                        f.zeroEntries()
                        loads.add([time], [weight], f)
                        state.work += f.dot(velocity)
                state.v.maxpy([2 / h, -h / 6], [e, w])
                if f is not None:
                    f.zeroEntries()
                    loads.add([t + h], [h / 6], f)
                    state.work += f.dot(state.v)
                system.flux(delta, dq)
                if flux_loads:
                    g.zeroEntries()
                    flux_loads.add([t, t + h / 2, t + h], [h / 6, 4 * h / 6, h / 6], g)
                    system.flux_solve(g, rhs_q)
                    state.work += g.dot(state.q) + 0.5 * g.dot(dq) + 0.5 * g.dot(rhs_q)
                    dq.axpy(1.0, rhs_q)
                state.q.axpy(1.0, dq)

        rhs_q = system.new_q()
        return advance
