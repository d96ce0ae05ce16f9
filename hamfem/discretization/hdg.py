"""Hamiltonian HDG: a physics becomes a second-order system whose stiffness is condensed.

The trace of u is not a dynamical variable: it is what makes the flux continuous,

    rho u' = rho v,   (rho v', w) = -b(q; w, 0) - <tau (u - uh), w> + (f, w),
    (C^-1 q, r) = b(r; u, uh),   <q(n) - tau (u - uh), wh> = data,

so that the energy 1/2 (rho v, v) + 1/2 (C^-1 q, q) + 1/2 <tau (u - uh), u - uh> is a Hamiltonian.
On an absorbing wall the trace is an unknown without mass: Y duh/dt is the force on it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

from petsc4py import PETSc

import basix
import numpy as np
import numpy.typing as npt

from hamfem.discretization.assembly import block_diagonal, cell_mass
from hamfem.discretization.broken import BrokenSpace
from hamfem.discretization.broken_fields import BrokenFields
from hamfem.discretization.condensation import CondensedSolver, CondensedStiffness
from hamfem.discretization.degree import check_simplices, checked_degree
from hamfem.discretization.electromagnetic import ElectromagneticState
from hamfem.discretization.flux_spaces import BrokenFlux
from hamfem.discretization.hybrid_stage import join
from hamfem.discretization.local import Hybrid
from hamfem.discretization.sampling import (
    FacetSamples,
    data_loads,
    facet_pairs,
    prescribed,
    prescribed_sides,
)
from hamfem.discretization.trace import Trace
from hamfem.loads import Loads
from hamfem.physics.boundary import Clamped, Free, Impedance
from hamfem.physics.data import MissingDerivativeError
from hamfem.physics.maxwell import Maxwell
from hamfem.physics.wave import Wave
from hamfem.solvers import Solve
from hamfem.stability import shell
from hamfem.stage import Stage, Vecs, axpy
from hamfem.system import MASSLESS, PairSolve, SecondOrder, _matched, _matched_pair

Array = npt.NDArray[Any]


def hdg(wave: Wave, degree: int, tau: float | None = None) -> SecondOrder:
    """The Hamiltonian HDG method with P_degree for displacement, flux and trace.

    Args:
        wave: The physics.
        degree: k, at least 0; u converges with order k + 1 and u_star with k + 2 for k >= 1.
        tau: The stabilisation; by default the stiffness in the cell over the diameter of the
            domain: of scalar waves the largest one, of elastic waves the smallest, the shear's.
            (With the largest, a nearly incompressible body would lock.) Ten times as much where
            only the tangential part has a trace: slow jumps of E, which a smaller one leaves, were
            measured to make its error in cavities three to ten times larger.
    """
    extreme, factor = int(wave.scalar), 10.0 if wave.tangential else 1.0

    def default(cells: npt.NDArray[np.int32]) -> Array:
        return factor * wave.C.bounds(cells)[extreme] / wave.diameter

    hybrid = stabilised(wave, degree, tau, default)
    return ElectromagneticHDG(hybrid) if isinstance(wave, Maxwell) else CondensedSystem(hybrid)


def stabilised(
    wave: Wave, degree: int, tau: float | None, default: Callable[[Array], Array]
) -> Hybrid:
    """P_degree for displacement, flux and trace, with tau or its default in each cell."""
    if wave.scalar:
        k = checked_degree(degree)
    else:
        check_simplices(wave, "HDG")
        # With constants in the cells rotations would have an energy.
        k = checked_degree(degree, 1, "HDG methods of vector waves")
    cells = wave.domain.own_cells
    if tau is None:
        values = default(cells)
    elif isinstance(tau, int | float | np.number) and np.isfinite(tau) and tau > 0:
        values = np.full(len(cells), float(tau))
    else:
        raise ValueError(f"the stabilisation tau must be a positive number and is {tau!r}.")
    flux = BrokenFlux(basix.CellType[wave.domain.cell], k, wave.symbol)
    return Hybrid(wave, k, flux, values)


class CondensedSystem(SecondOrder):
    """M v' = -K u - R v + f with K = X_uu - X_ul X_ll^-1 X_lu, applied and inverted cell by cell.

    The vectors hold the cells of the rank one after the other, then the traces on absorbing walls.
    """

    space_of: Callable[[Hybrid, Any], Any] = BrokenSpace

    def __init__(self, hybrid: Hybrid) -> None:
        wave = hybrid.wave
        comm = wave.domain.comm
        self.hybrid = hybrid
        n, size = hybrid.size, hybrid.trace_size
        self.cells, self.n = len(hybrid.cells), n
        m = size * hybrid.cells.facet_count
        X_uu, X_lu, X_ll = (np.empty((self.cells, *s)) for s in ((n, n), (m, n), (m, m)))
        masses: list[Array] = []
        for B in hybrid.blocks():
            masses.append(B.M)
            X_uu[B.cells] = B.s_uu + np.matmul(np.swapaxes(B.b_u, 1, 2), B.c_u)
            X_lu[B.cells] = np.swapaxes(B.s_ul, 1, 2) + np.matmul(np.swapaxes(B.c_l, 1, 2), B.b_u)
            X_ll[B.cells] = B.s_ll + np.matmul(np.swapaxes(B.b_l, 1, 2), B.c_l)
        M = np.concatenate(masses) if masses else np.zeros((0, n))
        X = (X_uu, np.swapaxes(X_lu, 1, 2), X_ll)
        clamped, walls = wave.facets(Clamped), wave.facets(Impedance)
        # For K the traces on absorbing walls are given; in an implicit stage they are solved for.
        self.trace = Trace(wave.domain, size, np.union1d(clamped, walls), wave.boundary)
        self.stage_trace = (
            self.trace if not wave.absorbing else Trace(wave.domain, size, clamped, wave.boundary)
        )
        self._stiffness = CondensedStiffness(self.trace, X)
        self._X, self._M = X, M
        self.wall = FacetSamples(hybrid, facet_pairs(wave.domain, walls))
        at_wall = self.wall.cells, self.wall.facets
        places = self.trace.places(self.trace.slots[at_wall])
        self._wall_known = places.reshape(-1) - self.trace.unknowns
        places = self.stage_trace.places(self.stage_trace.slots[at_wall])
        self._wall_slots = places.reshape(-1)
        self._Y = self.wall.mass(self.wall.impedance())

        length = self.cells * n + len(self._wall_slots)
        mass = cell_mass(comm, M, length)
        K = shell(mass, self._apply)
        K.setOption(PETSc.Mat.Option.SYMMETRIC, True)
        R = block_diagonal(comm, self._Y, length, self.cells * n) if wave.absorbing else None
        space = self.space_of(hybrid, self)
        self.massless = comm.allreduce(len(self._wall_slots)) > 0
        super().__init__(mass, K, R, kernel=space.rigid(mass), space=space)
        self._sides = prescribed_sides(hybrid)
        loads = [*space.source_loads(self.new_v), *self._boundary_loads()]
        self.loads = Loads(loads, self.new_v())

    # ------------------------------------------------------------ K

    def split(self, x: PETSc.Vec) -> tuple[Array, Array]:
        """The cells' part and the walls' part of a vector."""
        values = x.array_r
        return values[: self.cells * self.n].reshape(self.cells, self.n), values[
            self.cells * self.n :
        ]

    def cell_rows(self, half: str, x: PETSc.Vec) -> Array:
        """The numbers of each cell, behind them the traces on its absorbing walls."""
        cells, wall = self.split(x)
        if not self.massless:
            return cells
        traces = np.zeros((self.cells, self.hybrid.cells.facet_count, self.hybrid.trace_size))
        traces[self.wall.cells, self.wall.facets] = wall.reshape(-1, self.hybrid.trace_size)
        return np.hstack([cells, traces.reshape(self.cells, -1)])

    def set_cell_rows(self, half: str, rows: Array, x: PETSc.Vec) -> None:
        """The vector with these rows."""
        cells, traces = np.split(rows[: self.cells], [self.n], axis=1)
        with x as array:
            array[: self.cells * self.n] = cells.reshape(-1)
        if self.massless:
            shaped = traces.reshape(self.cells, -1, self.hybrid.trace_size)
            self.set_wall(x, shaped[self.wall.cells, self.wall.facets])

    def _apply(self, x: PETSc.Vec, y: PETSc.Vec) -> None:
        u, wall = self.split(x)
        with y as out:
            cells = out[: self.cells * self.n].reshape(self.cells, self.n)
            if not self.massless:
                self._stiffness(u, cells)
                return
            known = np.zeros(self.trace.length - self.trace.unknowns)
            known[self._wall_known] = wall
            forces = self._stiffness(u, cells, known)
            assert forces is not None
            out[self.cells * self.n :] = forces[self._wall_known]

    def _traces(self, condition: Any, samples: FacetSamples, values: Array) -> tuple[Array, Array]:
        """What values at points prescribe: known traces, and loads on all traces."""
        known, g = np.zeros(self.trace.length), np.zeros(self.trace.length)
        places = self.trace.places(self.trace.slots[samples.cells, samples.facets])
        if isinstance(condition, Clamped):
            known[places] = samples.project(values)
        else:
            g[places] = samples.moments(values)
        return known[self.trace.unknowns :], g

    def _response(self, condition: Any, samples: FacetSamples, values: Array) -> PETSc.Vec:
        """The force of prescribed values on a system at rest."""
        f = self.new_v()
        with f as out:
            cells = out[: self.cells * self.n].reshape(self.cells, self.n)
            known, g = self._traces(condition, samples, values)
            forces = self._stiffness(np.zeros((self.cells, self.n)), cells, known, g)
            assert forces is not None
            out[self.cells * self.n :] = forces[self._wall_known]
            out *= -1.0
        return f

    def _boundary_loads(
        self, derivative: int = 0, kinds: Any = Clamped | Free | Impedance
    ) -> list[Any]:
        """Prescribed displacements are known traces; prescribed fluxes are loads on the traces."""
        loads: list[Any] = []
        for condition, samples in self._sides:
            if isinstance(condition, kinds):
                response = partial(self._response, condition, samples)
                loads += data_loads(condition.value, samples, response, derivative)
        return loads

    def flux_response(self, samples: FacetSamples, values: Array) -> PETSc.Vec:
        """The force of a flux through facets, given at their points, on a system at rest."""
        return self._response(None, samples, values)

    def boundary_loads(self, derivative: int) -> Loads | None:
        """Of prescribed displacements, or a derivative of them; None if that is not known."""
        try:
            return Loads(self._boundary_loads(derivative, Clamped), self.new_v())
        except MissingDerivativeError:
            return None

    def _prescribed(self, t: float, derivative: int) -> tuple[Array, Array]:
        """Known traces and loads on the traces at time t, or a derivative of them."""
        known = np.zeros(self.trace.length - self.trace.unknowns)
        g = np.zeros(self.trace.length)
        for condition, samples in self._sides:
            if isinstance(condition, Clamped | Free):
                values = prescribed(condition.value, samples, t, derivative)
                traces, loads = self._traces(condition, samples, values)
                known += traces
                g += loads
        return known, g

    def flux_of(self, x: PETSc.Vec, t: float = 0.0, derivative: int = 0) -> Array:
        """The flux q of a displacement (or velocity), (cells, flux coefficients)."""
        u, wall = self.split(x)
        known, g = self._prescribed(t, derivative)
        known[self._wall_known] = wall
        self._stiffness(u, np.empty((self.cells, self.n)), known, g)
        m = self._stiffness.m[self.trace.places(self.trace.slots)]
        c_u, c_l = self._flux_maps
        return np.matmul(c_u, u[..., None])[..., 0] + np.matmul(c_l, m[..., None])[..., 0]

    @cached_property
    def _flux_maps(self) -> tuple[Array, Array]:
        """The flux is c_u u + c_l m in each cell; made when a flux is first asked for."""
        parts = [(B.c_u, B.c_l) for B in self.hybrid.blocks()]
        return tuple(np.concatenate(p) for p in zip(*parts))

    def set_wall(self, x: PETSc.Vec, values: Array) -> None:
        """Write the traces on absorbing walls."""
        with x as array:
            array[self.cells * self.n :] = values.reshape(-1)

    # ------------------------------------------------------------ implicit

    def _solver(self, c: complex, wall_shift: complex, loaded: bool = True) -> CondensedSolver:
        """The condensed solver with wall_shift Y added on the absorbing walls."""
        X_uu, X_ul, X_ll = self._X
        absolute = None
        if c.imag:
            absolute = ((X_uu, X_ul, self._with_walls(X_ll, abs(wall_shift))), abs(c))
        X_ll = self._with_walls(X_ll, wall_shift)
        X = (X_uu, X_ul, X_ll)
        return CondensedSolver(self.stage_trace, self._M, X, c, absolute, loaded)

    def _with_walls(self, X_ll: Array, shift: complex) -> Array:
        if not self.massless:
            return X_ll
        shift = shift.real if not shift.imag else shift
        return self.wall.on_diagonal(X_ll, shift * self._Y)

    def shifted(self, c: float, a: float = 0.0) -> Solve:
        """A solver of (M + a R + c K) x = r."""
        if c == 0.0 and not self.massless:
            return self.mass_solve
        solve = self._shifted(complex(c), complex(a))

        def single(r: PETSc.Vec, x: PETSc.Vec) -> None:
            solve([r], [x])

        return _matched(single, self.kernel)

    def shifted_pair(self, c: complex, a: complex = 0.0) -> PairSolve:
        """The same for complex numbers as pairs."""
        return _matched_pair(self._shifted(c, complex(a)), self.kernel)

    def _shifted(self, c: complex, a: complex) -> PairSolve:
        if self.massless and c == 0:
            raise ValueError(MASSLESS)
        solver = self._solver(c, a / c)
        m = np.zeros(solver.trace.length, solver.dtype)
        g = np.zeros(solver.trace.length, solver.dtype) if self.massless else None
        k, zero = (np.zeros((self.cells, self.n), solver.dtype) for _ in range(2))
        split = self.cells * self.n
        pair = np.zeros(self.new_v().local_size if c.imag else 0, solver.dtype)

        def solve(r: Vecs, x: Vecs) -> None:
            f, r_wall = self._joined(r, pair)
            if g is not None:
                g[:] = 0.0
                g[self._wall_slots] = r_wall
            solver(zero, f, g, k, m)
            wall = m[self._wall_slots] / solver.c
            for part, name in zip(x, ("real", "imag")):
                with part as values:
                    values[:split] = getattr(k, name).reshape(-1)
                    values[split:] = getattr(wall, name)

        return solve

    def _joined(self, x: Vecs, out: Array) -> tuple[Array, Array]:
        """The parts of a real vector, or of a pair, which is written as one complex vector."""
        if len(x) == 1:
            return self.split(x[0])
        join(x, out)
        split = self.cells * self.n
        return out[:split].reshape(self.cells, self.n), out[split:]

    def stage(self, a: complex) -> Stage:
        """A solver of k = L(z + a k) + load: one trace solve."""
        a = complex(a)
        if a == 0:
            return super().stage(a)
        solver = self._solver(a * a, 1 / a, bool(self.loads))
        real_a = a.real if not a.imag else a
        m = np.zeros(solver.trace.length, solver.dtype)
        g = np.zeros(solver.trace.length, solver.dtype) if self.massless else None
        k = np.zeros((self.cells, self.n), solver.dtype)
        count = 2 if a.imag else 1
        Q = [self.new_q() for _ in range(count)]
        split = self.cells * self.n
        length = self.new_v().local_size if a.imag else 0
        pair, load_pair = np.zeros(length, solver.dtype), np.zeros(length, solver.dtype)

        def stage(zq: Vecs, zv: Vecs, g_: Vecs | None, f: Vecs | None, kq: Vecs, kv: Vecs) -> None:
            for i in range(count):
                zq[i].copy(Q[i])
            axpy(Q, a, zv)
            if self.kernel is not None:
                for part in Q:
                    self.kernel.remove(part)
            if g is not None:
                g[:] = 0.0
                g[self._wall_slots] = self._damp(self._joined(zq, pair)[1]) / real_a
            u, u_wall = self._joined(Q, pair)
            load = None if f is None else self._joined(f, load_pair)
            if g is not None and load is not None:
                g[self._wall_slots] += load[1]
            solver(u, None if load is None else load[0], g, k, m)
            wall = (m[self._wall_slots] - u_wall) / solver.c
            for part, name in zip(kv, ("real", "imag")):
                with part as values:
                    values[:split] = getattr(k, name).reshape(-1)
                    values[split:] = getattr(wall, name)
            if self.kernel is not None:
                for i in range(count):
                    if f is None:
                        self.kernel.remove(kv[i])
                    else:
                        self.kernel.match(kv[i], f[i])
            for i in range(count):
                zv[i].copy(kq[i])
            axpy(kq, a, kv)

        return stage

    def _damp(self, wall: Array) -> Array:
        size = self.hybrid.trace_size
        return np.matmul(self._Y, wall.reshape(-1, size, 1)).reshape(-1)


class ElectromagneticHDG(ElectromagneticState, CondensedSystem):  # type: ignore[misc]
    """The same for u = A and v = -E, with tangential traces."""

    space_of = BrokenFields

    def __init__(self, hybrid: Hybrid) -> None:
        super().__init__(hybrid)
        for condition, samples in self._sides:
            if isinstance(condition, Clamped):
                prescribed(condition.value, samples, 0.0)  # says if a potential is not known
        assert isinstance(self.space, BrokenFields)
        self.space.begin()
