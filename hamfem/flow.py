"""One half of a partitioned linear system while the other half stands still."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from petsc4py import PETSc

from numpy.polynomial.legendre import leggauss

from hamfem.loads import Loads
from hamfem.matrices import generic_vector
from hamfem.solvers import Solve

# Quadrature on (0, 1) with five points, exact enough for order 8.
NODES, WEIGHTS = (leggauss(5)[0] + 1) / 2, leggauss(5)[1] / 2
# (x, y, clock, start, end) -> (work, outflow): see Half.flow
Flow = Callable[[PETSc.Vec, PETSc.Vec, float, float, float], tuple[float, float]]


@dataclass(frozen=True, eq=False)
class Half:
    """M dx/dt = force(y) - R x + load(t).

    Attributes:
        new: Makes a vector like x.
        force: force(y, out).
        solve: M^-1.
        damped_solve: a -> (M + a R)^-1.
        R: The damping, or None.
        loads: The loads.
        scaled: h -> the matrix h M^-1 force where it is sparse, to be multiplied at once; or None.
        integrate: Whether loads with antiderivatives are integrated. Nyström methods need it of the
            drifts; of the kicks it would cost them their order, as the same load on q otherwise.
    """

    new: Callable[[], PETSc.Vec]
    force: Solve
    solve: Solve
    damped_solve: Callable[[float], Solve]
    R: PETSc.Mat | None
    loads: Loads
    scaled: Callable[[float], PETSc.Mat | None]
    integrate: bool

    def flow(self, h: float, often: bool = False, repeated: bool = False) -> Flow:
        """X += h (M + h/2 R)^-1 (force(y) - R x + load): exact without R, else the midpoint rule.

        The load is taken at `clock`, or integrated from `start` to `end`. Returned are the work
        h load'x and the loss h x'Rx, with x at the middle. If the flow is applied `often`, M^-1 is
        multiplied into the force where that pays; if it is `repeated` with the same y, the force is
        kept.
        """
        if not self.loads and self.R is None:
            S = self.scaled(h) if often else None
            return self._plain(h, repeated) if S is None else _multiplied(S)
        return self._full(h)

    def _plain(self, h: float, repeated: bool) -> Flow:
        force, rate = self.new(), self.new()
        # A number tells whether y is what it was: nobody is forbidden to change a state, be it
        # through an array that PETSc does not watch.
        probe: list[PETSc.Vec] = []
        seen = math.nan

        def apply(
            x: PETSc.Vec, y: PETSc.Vec, clock: float, start: float, end: float
        ) -> tuple[float, float]:
            nonlocal seen
            if repeated:
                if not probe:
                    probe.append(generic_vector(y, 1.0))
                now = y.dot(probe[0])
            if not repeated or now != seen:
                self.force(y, force)
                solve(force, rate)
            if repeated:
                seen = now
            x.axpy(h, rate)
            return 0.0, 0.0

        solve = self.solve
        return apply

    def _full(self, h: float) -> Flow:
        R, loads = self.R, self.loads
        solve = self.solve if R is None else self.damped_solve(h / 2)
        force, rate, middle = self.new(), self.new(), self.new()
        load = self.new() if loads else None
        moment = self.new() if self.integrate and loads and loads.integrable else None

        def apply(
            x: PETSc.Vec, y: PETSc.Vec, clock: float, start: float, end: float
        ) -> tuple[float, float]:
            self.force(y, force)
            leaning = 0.0
            if R is not None:
                R.mult(x, middle)
                force.axpy(-1.0, middle)
            if load is not None:
                load.zeroEntries()
                if moment is not None:
                    # The mean of the load does not see how the load leans over the step: its first
                    # moment d about the middle adds force'M^-1 d to the work.
                    moment.zeroEntries()
                    loads.add(start + h * NODES, h**2 * WEIGHTS * (NODES - 0.5), moment)
                    solve(moment, rate)
                    leaning = force.dot(rate)
                    loads.add_integral(start, end, load)
                    load.scale(1.0 / h)
                else:
                    loads.add([clock], [1.0], load)
                force.axpy(1.0, load)
            solve(force, rate)
            middle.waxpy(h / 2, rate, x)
            x.axpy(h, rate)
            work = h * load.dot(middle) + leaning if load is not None else 0.0
            if R is None:
                return work, 0.0
            R.mult(middle, force)
            return work, h * middle.dot(force)

        return apply


def _multiplied(S: PETSc.Mat) -> Flow:
    def apply(
        x: PETSc.Vec, y: PETSc.Vec, clock: float, start: float, end: float
    ) -> tuple[float, float]:
        S.multAdd(y, x, x)
        return 0.0, 0.0

    return apply
