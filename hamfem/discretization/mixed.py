"""The mixed method: a physics becomes a first-order system of flux and velocity.

    (C^-1 q', r) = b(r; v, vh),   (rho v', w) = -b(q; w, 0) + (f, w),   <q(n), wh> = data,

with q in RT_k of each cell, v in P_k, and the trace vh that keeps the normal flux continuous: the
classical method on RT_k x DG_k, hybridised. Vectors q lie in the constrained space; the solver of
M_q projects onto it with one trace solve, smaller than one with the mass of global RT_k functions.
"""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any

from petsc4py import PETSc

import basix
import numpy as np
import numpy.typing as npt

from hamfem.discretization.cell_products import (
    add_from_trace,
    add_local,
    add_to_trace,
    add_transposed,
    by_columns,
)
from hamfem.discretization.condensation import CondensedSolver, TraceSolver
from hamfem.discretization.degree import check_simplices, checked_degree
from hamfem.discretization.edge_systems import edge_mixed
from hamfem.discretization.flux_spaces import (
    BrokenFlux,
    RaviartThomas,
    WeaklySymmetricStress,
)
from hamfem.discretization.hybrid_stage import FluxBlocks, HybridFlow, hybrid_stage
from hamfem.discretization.local import Hybrid
from hamfem.discretization.mixed_space import MixedSpace
from hamfem.discretization.sampling import (
    FacetSamples,
    data_loads,
    facet_pairs,
    prescribed_sides,
)
from hamfem.discretization.trace import Trace
from hamfem.flow import Half
from hamfem.loads import Loads
from hamfem.physics.boundary import Clamped, Free, Impedance
from hamfem.physics.elastic import Elastic
from hamfem.physics.maxwell import Maxwell
from hamfem.physics.wave import Wave
from hamfem.solvers import Solve
from hamfem.stage import Stage
from hamfem.system import FirstOrder, _matched

Array = npt.NDArray[Any]


def mixed(wave: Wave, degree: int, dual: bool = False) -> FirstOrder:
    """RT_degree x DG_degree (on intervals P_(degree+1) x DG_degree): order degree + 1 for both.

    For electromagnetic waves E in NED_degree and B in RT_degree, both of order degree + 1. On
    quadrilaterals and hexahedra with right angles the masses are diagonal: explicit steps need no
    solve.

    Args:
        wave: The physics.
        degree: k, at least 0.
        dual: Of electromagnetic waves: H in NED_degree and D in RT_degree.
    """
    if isinstance(wave, Maxwell):
        return edge_mixed(wave, degree, dual)
    if dual:
        raise ValueError("only electromagnetic waves have a dual mixed form: leave dual=True out.")
    hybrid = Hybrid(wave, checked_degree(degree), _flux(wave, degree), None)
    if not hybrid.cells.affine:
        raise ValueError(
            "the mixed method needs affine cells (triangles, tetrahedra, parallelograms), and some "
            "cell of the mesh is not: take hf.cg or hf.hdg."
        )
    return MixedSystem(hybrid)


def _flux(wave: Wave, k: int) -> Any:
    """The space of the flux that goes with P_k."""
    cell = basix.CellType[wave.domain.cell]
    if isinstance(wave, Elastic):
        check_simplices(wave, "the mixed method")
        return WeaklySymmetricStress(cell, k, wave.symbol)
    if wave.domain.dim == 1:
        flux = BrokenFlux(cell, k + 1, wave.symbol)
        flux.trace_degree = k
        return flux
    return RaviartThomas(cell, k, wave.symbol)


class MixedSystem(HybridFlow):
    """M_q dq/dt = -B'v - R_q q + g, M_v dv/dt = B q + f on fluxes with continuous normal part."""

    def __init__(self, hybrid: Hybrid) -> None:
        wave, size = hybrid.wave, hybrid.trace_size
        self.hybrid = hybrid
        blocks = self.blocks = FluxBlocks.of(hybrid)
        self.cells, self.n, self.n_q = len(blocks.M), hybrid.size, hybrid.flux.size
        comm = wave.domain.comm
        clamped, walls = wave.facets(Clamped), wave.facets(Impedance)
        self.trace = Trace(wave.domain, size, np.union1d(clamped, walls), wave.boundary)
        self.stage_trace = (
            self.trace if not wave.absorbing else Trace(wave.domain, size, clamped, wave.boundary)
        )
        self.wall = FacetSamples(hybrid, facet_pairs(wave.domain, walls))
        self._Y = self.wall.mass(self.wall.impedance())
        q, v = ((self.cells * n, PETSc.DETERMINE) for n in (self.n_q, self.n))
        M_q = PETSc.Mat().createPython((q, q), _Local(self, blocks.M_q), comm=comm)
        B = PETSc.Mat().createPython((v, q), _Coupling(self), comm=comm)
        R_q = None
        if wave.absorbing:
            damping = by_columns(self._wall_damping())
            R_q = PETSc.Mat().createPython((q, q), _Local(self, damping), comm=comm)
        for A in (M_q, B, R_q):
            if A is not None:
                A.setUp()
        space = MixedSpace(hybrid, self)
        super().__init__(hybrid, blocks, space, M_q, B, R_q)
        self.sides = prescribed_sides(hybrid)
        self.flux_loads = Loads(self._flux_loads(1), self.new_q())
        loads = [*space.source_loads(self.new_v), *self._prescribed_flux()]
        self.loads = Loads(loads, self.new_v())

    def _wall_damping(self) -> Array:
        """R_q = b_l Y^-1 b_l' on the cells at absorbing walls."""
        R, b = np.zeros((self.cells, self.n_q, self.n_q)), self.wall.picked(self.blocks.b_l)
        np.add.at(R, self.wall.cells, np.swapaxes(b, 1, 2) @ np.linalg.solve(self._Y, b))
        return R

    @cached_property
    def _inverse_q(self) -> tuple[Solve, None]:
        return ConstrainedInverse(self, self.blocks.inverse, self.blocks.c_l), None

    def shifted(self, c: float, a: float = 0.0) -> Solve:
        """A solver of (M_v + c K) x = r with K = B M_q^-1 B', hybridised."""
        if c == 0.0 or self.R_q is not None:
            return super().shifted(c, a) if c == 0.0 else self._refuse()
        solver = CondensedSolver(self.trace, self.blocks.M, self.blocks.X, complex(c))
        zero, k = (np.zeros((self.cells, self.n)) for _ in range(2))
        m = np.zeros(self.trace.length)

        def solve(r: PETSc.Vec, x: PETSc.Vec) -> None:
            solver(zero, self.cellwise(r, self.n), None, k, m)
            x.array[:] = k.reshape(-1)

        return _matched(solve, self.kernel)

    def _refuse(self) -> Solve:
        raise ValueError(
            "a mixed method with absorbing walls damps its fluxes: take a Runge-Kutta method, such "
            "as hf.Gauss, or hf.Verlet."
        )

    def stage(self, a: complex) -> Stage:
        """A solver of k = L(z + a k) + load: one trace solve."""
        a = complex(a)
        if a == 0:
            return super().stage(a) if self.R_q is None else self._explicit()
        Y_ll: Array | float = 0.0
        if self.hybrid.wave.absorbing:
            Y_ll = self.wall.on_diagonal(np.zeros_like(self.blocks.s[2]), self._Y)
        return hybrid_stage(self, self.blocks, self.stage_trace, Y_ll, self.kernel, a)

    def _explicit(self) -> Stage:
        r_q, w_q = self.new_q(), self.new_q()
        r_v = self.new_v()

        def stage(zq: Any, zv: Any, g: Any, f: Any, kq: Any, kv: Any) -> None:
            self._minus_transpose(zv[0], r_q)
            self.R_q.mult(zq[0], w_q)  # type: ignore[union-attr]
            r_q.axpy(-1.0, w_q)
            if g is not None:
                r_q.axpy(1.0, g[0])
            self.flux_solve(r_q, kq[0])
            self.restoring(zq[0], r_v)
            if f is not None:
                r_v.axpy(1.0, f[0])
            self.mass_solve(r_v, kv[0])

        return stage

    @cached_property
    def drift(self) -> Half:
        """M_q dq/dt = -B'v - R_q q + g, v standing still."""
        half = FirstOrder.drift.func(self)  # type: ignore[attr-defined]

        def damped(a: float) -> Solve:
            M_q = np.swapaxes(self.blocks.M_q, 1, 2) + a * self._wall_damping()
            inverse = self.hybrid.flux.inverse(M_q)
            b_l = np.swapaxes(self.blocks.b_l, 1, 2)
            return ConstrainedInverse(self, inverse, by_columns(inverse @ b_l))

        return Half(half.new, half.force, half.solve, damped, half.R, half.loads, half.scaled, True)

    # ------------------------------------------------------------ loads

    def _flux_loads(self, derivative: int) -> list[Any]:
        """<du_D/dt, r(n)> on clamped sides, <g / Y, r(n)> on absorbing walls."""
        loads: list[Any] = []
        for condition, samples in self.sides:
            if isinstance(condition, Clamped):
                response = partial(self._of_trace, samples, samples.mass())
                loads += data_loads(condition.value, samples, response, derivative, True)
            elif isinstance(condition, Impedance):
                Y = samples.mass(samples.impedance())
                response = partial(self._of_trace, samples, Y)
                loads += data_loads(condition.value, samples, response, 0, True)
        return loads

    def _of_trace(self, samples: FacetSamples, mass: Array, values: Array) -> PETSc.Vec:
        """b_l vh for the traces with mass vh = <values, eta> on some facets."""
        moments = samples.moments(values)[..., None]
        vh = np.linalg.solve(mass, moments)[..., 0] if len(mass) else moments[..., 0]
        x = self.new_q()
        x.array[:] = samples.pulled(self.blocks.b_l, vh).reshape(-1)
        return x

    def lift(self, samples: FacetSamples, values: Array) -> PETSc.Vec:
        """The flux of least energy that goes through some free facets as prescribed."""
        inverse = self._inverse_q[0]
        assert isinstance(inverse, ConstrainedInverse)
        g = np.zeros(self.trace.length)
        places = self.trace.places(self.trace.slots[samples.cells, samples.facets])
        g[places] = samples.moments(values)
        x = self.new_q()
        inverse.lift(g, x)
        return x

    def _prescribed_flux(self) -> list[Any]:
        """B times the lift of prescribed fluxes, which is orthogonal to all admissible fluxes."""

        def response(samples: FacetSamples, values: Array) -> PETSc.Vec:
            f = self.new_v()
            self.B.mult(self.lift(samples, values), f)
            return f

        loads: list[Any] = []
        for condition, samples in self.sides:
            if isinstance(condition, Free):
                loads += data_loads(condition.value, samples, partial(response, samples))
        return loads


class ConstrainedInverse:
    """q of M_q q = r + b_l m, b_l'q = 0: the inverse of M_q on continuous normal fluxes."""

    def __init__(self, system: MixedSystem, inverse: Array, c_l: Array) -> None:
        self.system, self.inverse, self.c_l = system, np.ascontiguousarray(inverse), c_l
        b_l = system.blocks.b_l  # by columns: (cells, m, n_q)
        self._solve = TraceSolver(system.trace, np.matmul(b_l, np.swapaxes(c_l, 1, 2)))
        self._r, self._m = (np.zeros(system.trace.length) for _ in range(2))
        self._q = np.zeros((system.cells, system.n_q))

    def __call__(self, r: PETSc.Vec, x: PETSc.Vec) -> None:
        """The flux of the force r."""
        q, trace = self._q, self.system.trace
        q[:] = 0.0
        add_local(self.inverse, self.system.cellwise(r, self.system.n_q), q)
        self._r[:] = 0.0
        add_to_trace(self.system.blocks.b_l, trace.slots, trace.size, q, self._r)
        np.negative(self._r, out=self._r)
        self._solve(self._r, self._m)
        add_from_trace(self.c_l, trace.slots, trace.size, self._m, q)
        x.array[:] = q.reshape(-1)

    def lift(self, g: Array, x: PETSc.Vec) -> None:
        """The q = M_q^-1 b_l m with b_l'q = g."""
        self._solve(g, self._m)
        self._q[:] = 0.0
        trace = self.system.trace
        add_from_trace(self.c_l, trace.slots, trace.size, self._m, self._q)
        x.array[:] = self._q.reshape(-1)


class _Local:
    """A symmetric matrix of blocks, one for each cell."""

    def __init__(self, system: MixedSystem, blocks: Array) -> None:
        self.system, self.blocks = system, np.ascontiguousarray(blocks)
        self._y = np.zeros(self.blocks.shape[:2])

    def mult(self, mat: PETSc.Mat, x: PETSc.Vec, y: PETSc.Vec) -> None:
        """Y = A x."""
        self._y[:] = 0.0
        add_local(self.blocks, self.system.cellwise(x, self._y.shape[1]), self._y)
        y.array[:] = self._y.reshape(-1)

    def getDiagonal(self, mat: PETSc.Mat, d: PETSc.Vec) -> None:
        """The diagonal."""
        d.array[:] = np.einsum("cii->ci", self.blocks).reshape(-1)


class _Coupling:
    """B = -b_u', cell by cell."""

    def __init__(self, system: MixedSystem) -> None:
        self.system = system
        self._v = np.zeros((system.cells, system.n))
        self._q = np.zeros((system.cells, system.n_q))

    def mult(self, mat: PETSc.Mat, q: PETSc.Vec, f: PETSc.Vec) -> None:
        """B q."""
        system = self.system
        self._v[:] = 0.0
        add_transposed(system.blocks.b_u, system.cellwise(q, system.n_q), self._v)
        np.negative(self._v.reshape(-1), out=f.array)

    def multTranspose(self, mat: PETSc.Mat, v: PETSc.Vec, r: PETSc.Vec) -> None:
        """B'v."""
        system = self.system
        self._q[:] = 0.0
        add_local(system.blocks.b_u, system.cellwise(v, system.n), self._q)
        np.negative(self._q.reshape(-1), out=r.array)
