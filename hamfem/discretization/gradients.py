"""Gradients of continuous potentials: fields at rest, whose charges are conserved.

For phi in CG_(k+1), 0 on walls that v is held or damped along, v = grad phi has no curl and is no
wave: (rho v, grad phi) is constant but for currents. It is minus the charge that phi sees.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Protocol

from petsc4py import PETSc

import numpy as np

from hamfem.communicator import lasting
from hamfem.flow import NODES, WEIGHTS
from hamfem.loads import Loads
from hamfem.solvers import Solve, solver
from hamfem.state import Baseline, State

Advance = Callable[[State, int], None]
# A gradient is large if a charge is more than this part of |v| |grad phi|.
_LARGE = 1e-3


class Gradients:
    """The fields G phi of a system.

    Args:
        G: The gradients of the potentials, one column for each.
        M: The mass of v.
        inside: How many potentials of this rank, the first ones, are 0 on all walls.
    """

    def __init__(self, G: PETSc.Mat, M: PETSc.Mat, inside: int) -> None:
        self.G, self.M, self.inside = G, M, inside
        self._Mv = M.createVecLeft()

    def charges(self, v: PETSc.Vec) -> PETSc.Vec:
        """G'Mv."""
        self.M.mult(v, self._Mv)
        return self.forces(self._Mv)

    def total(self, charges: PETSc.Vec) -> float:
        """The sum of the charges inside: what a potential sees that is 0 at walls and else 1."""
        return lasting(charges.comm.tompi4py()).allreduce(charges.array_r[: self.inside].sum())

    def forces(self, f: PETSc.Vec) -> PETSc.Vec:
        """G'f."""
        c = self.G.createVecRight()
        self.G.multTranspose(f, c)
        return c

    @cached_property
    def stiffness(self) -> PETSc.Mat:
        """S = G'MG."""
        return self.M.ptap(self.G)

    @cached_property
    def lengths(self) -> PETSc.Vec:
        """|grad phi| of each of the potentials."""
        d = self.stiffness.getDiagonal()
        d.sqrtabs()
        return d

    @cached_property
    def _solve(self) -> Solve:
        """S^-1; a constant potential, which has no gradient, is fixed at one place."""
        S = self.stiffness.copy()
        one, S_one = S.createVecRight(), S.createVecRight()
        one.array[: self.inside] = 1.0
        S.mult(one, S_one)
        if one.norm() and S_one.norm() < 1e-10 * self.lengths.norm() ** 2 / one.norm():
            if S.getOwnershipRange()[0] == 0 and S.getLocalSize()[0]:
                S.setValue(0, 0, 2 * self.lengths.array_r[0] ** 2)
            S.assemble()
        S.setOption(PETSc.Mat.Option.SYMMETRIC, True)
        return solver(S, "hamfem_gradient_").solve

    def field(self, charges: PETSc.Vec) -> PETSc.Vec:
        """The gradient that has the charges."""
        phi, field = charges.duplicate(), self.G.createVecLeft()
        self._solve(charges, phi)
        self.G.mult(phi, field)
        return field

    def give(self, charges: PETSc.Vec, v: PETSc.Vec) -> None:
        """Change v by a gradient such that it has the charges."""
        if self.G.size[1]:
            missing = charges.copy()
            missing.axpy(-1.0, self.charges(v))
            v.axpy(1.0, self.field(missing))

    def take(self, u: PETSc.Vec) -> tuple[PETSc.Vec, PETSc.Vec | None]:
        """The charges of u; a large gradient is taken away and returned, and no charge left."""
        charges = self.charges(u)
        size = np.sqrt(abs(u.dot(self._Mv)))
        if self.size(charges) <= _LARGE * size:
            return charges, None
        part = self.field(charges)
        u.axpy(-1.0, part)
        charges.set(0.0)
        return charges, part

    def without(self, u: PETSc.Vec) -> PETSc.Vec:
        """This u, or a copy of it without its gradient if that is large."""
        copy = u.copy()
        return u if self.take(copy)[1] is None else copy

    def apart(self, advance: Advance, dt: float, system: Any) -> Advance:
        """The same steps, in which fields at rest go on by themselves and charges do not change.

        v' = 0 and, of a potential, u' = v is all that happens to gradients: they need not suffer
        from the round-off of the steps, nor these from that of theirs. The mixed method keeps
        charges by itself. Loads work on v, which is then left as it is.
        """
        potential = system.drift is None
        driven = bool(system.loads or system.flux_loads)

        def kept(state: State, n: int) -> None:
            place = self.take(state.q)[1] if potential else None
            if driven:
                advance(state, n)
            else:
                charges, velocity = self.take(state.v)
                advance(state, n)
                if potential:
                    self.give(charges, state.v)
                if velocity is not None:
                    state.v.axpy(1.0, velocity)
                    if potential:
                        state.q.axpy(n * dt, velocity)
            if place is not None:
                state.q.axpy(1.0, place)

        return kept

    def size(self, charges: PETSc.Vec, inside: bool = False) -> float:
        """The largest |charge| / |grad phi| over all potentials phi, or those 0 at all walls."""
        if not self.G.size[1]:
            return 0.0
        x = charges.copy()
        x.pointwiseDivide(x, self.lengths)
        if inside:
            x.array[self.inside :] = 0.0
        return float(x.norm(PETSc.NormType.INFINITY))


class Counter(Protocol):
    """What counts charges of one half of a state."""

    def charges(self, x: PETSc.Vec) -> PETSc.Vec:
        """The charges of a field."""

    def forces(self, f: PETSc.Vec) -> PETSc.Vec:
        """The charges that a load brings."""

    def size(self, charges: PETSc.Vec) -> float:
        """The largest of them."""


class Charges:
    """How far the charges are from those of the start and what currents have brought since.

    What currents bring is summed up with the weights of the method's own steps, so that the balance
    closes after every step (of hf.GeneralizedAlpha, which has no such weights, to its order). The
    start is when `remember` was called, or the first look at a state that has none.

    Args:
        counter: What counts them.
        loads: What acts on that half.
        half: "q" or "v".
    """

    def __init__(self, counter: Counter, loads: Loads, half: str = "v") -> None:
        self.counter, self.loads, self._half = counter, loads, half

    def of(self, state: State) -> PETSc.Vec:
        """The charges."""
        return self.counter.charges(getattr(state, self._half))

    def remember(self, state: State) -> Baseline:
        """This state is the start."""
        impulse = getattr(state, self._half).duplicate()
        impulse.set(0.0)
        baseline = Baseline(self.of(state), impulse, state.t)
        state.origin[self._half] = baseline
        return baseline

    def drift(self, state: State) -> float:
        """The largest change of a charge since the start, but for currents."""
        baseline = state.origin.get(self._half) or self.remember(state)
        change = self.of(state)
        change.axpy(-1.0, baseline.first)
        if self.loads:
            self._continue(baseline, state)
            change.axpy(-1.0, self.counter.forces(baseline.impulse))
        return self.counter.size(change)

    def _continue(self, baseline: Baseline, state: State) -> None:
        """Sum the loads up from the last look to this one, as the steps of the method do."""
        if span := state.t - baseline.t:
            dt = abs(state.clock.dt) if state.clock else abs(span)
            pieces = max(1, round(abs(span) / dt))
            h = span / pieces
            nodes, weights = NODES, WEIGHTS
            if state.method is not None:
                nodes, weights = state.method.quadrature(self._half, self.loads.integrable)
            times = baseline.t + h * (np.arange(pieces)[:, None] + nodes).ravel()
            self.loads.add(times, np.tile(h * weights, pieces), baseline.impulse)
            baseline.t = state.t
