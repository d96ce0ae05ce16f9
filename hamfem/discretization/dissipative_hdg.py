"""Dissipative HDG: the jump of the velocity is damped, and the trace follows from its neighbours.

    (C^-1 q', r) = b(r; v, vh),   (rho v', w) = -b(q; w, 0) - <tau (v - vh), w> + (f, w),
    <q(n) - tau (v - vh), wh> + <Y vh, wh> = data,
    d(energy)/dt = -<tau (v - vh), v - vh> - <Y vh, vh>.

The trace is local to a facet: (s_ll + Y) vh = data - b_l'q - s_lu v, so that with G = s_ll + Y

    M_q q' = -B'v - R_q q,   M_v v' = B q - R_v v,
    B = -b_u' + s_ul G^-1 b_l',   R_q = b_l G^-1 b_l',   R_v = s_uu - s_ul G^-1 s_lu.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from petsc4py import PETSc

import numpy as np
import numpy.typing as npt
from dolfinx import fem

from hamfem.communicator import lasting
from hamfem.discretization.assembly import assembled, block_diagonal, cell_mass, offset
from hamfem.discretization.broken_fields import BrokenFields
from hamfem.discretization.electromagnetic import ElectromagneticState
from hamfem.discretization.hdg import CondensedSystem, hdg, stabilised
from hamfem.discretization.hybrid_stage import FluxBlocks, HybridFlow, hybrid_stage
from hamfem.discretization.initial_fields import InitialFields
from hamfem.discretization.local import Hybrid
from hamfem.discretization.mixed_space import MixedSpace
from hamfem.discretization.named_fields import Makers, made
from hamfem.discretization.sampling import FacetSamples, data_loads, facet_pairs, prescribed_sides
from hamfem.discretization.start import Data, check_start
from hamfem.discretization.trace import Trace
from hamfem.loads import Loads
from hamfem.physics.boundary import Clamped, Impedance
from hamfem.physics.maxwell import Maxwell
from hamfem.physics.wave import Wave
from hamfem.solvers import inverse_blocks
from hamfem.stage import Stage
from hamfem.state import State
from hamfem.system import FirstOrder

Array = npt.NDArray[Any]


def dissipative_hdg(wave: Wave, degree: int, tau: float | None = None) -> FirstOrder:
    """HDG for the first-order system, with P_degree for velocity, flux and trace.

    Args:
        wave: The physics.
        degree: k, at least 0; v and q converge with order k + 1.
        tau: The stabilisation, by default the impedance sqrt(rho C) of the cell, with the same C
            as that of hf.hdg.
    """

    def impedance(cells: npt.NDArray[np.int32]) -> Array:
        return np.sqrt(wave.rho.largest(cells) * wave.C.bounds(cells)[int(wave.scalar)])

    kind = DissipativeFields if isinstance(wave, Maxwell) else DissipativeSystem
    return kind(stabilised(wave, degree, tau, impedance), tau)


class DissipativeSystem(HybridFlow):
    """The system above, with sparse matrices for explicit methods and condensed implicit stages."""

    space_of: Callable[[Hybrid, Any], Any]

    def __init__(self, hybrid: Hybrid, tau: float | None) -> None:
        wave, size = hybrid.wave, hybrid.trace_size
        comm = wave.domain.comm
        self.hybrid, self.tau = hybrid, tau
        blocks = self.blocks = FluxBlocks.of(hybrid)
        self.cells, self.n, self.n_q = len(blocks.M), hybrid.size, hybrid.flux.size
        self.trace = Trace(wave.domain, size, wave.facets(Clamped), wave.boundary)
        self.wall = FacetSamples(hybrid, facet_pairs(wave.domain, wave.facets(Impedance)))
        self._Y_ll: Array | float = 0.0
        if wave.absorbing:
            Y = self.wall.mass(self.wall.impedance())
            self._Y_ll = self.wall.on_diagonal(np.zeros_like(blocks.s[2]), Y)
        G = self.trace.matrix(blocks.s[2] + self._Y_ll)
        G_inverse = inverse_blocks(_facet_blocks(G, size))
        assert G_inverse is not None
        self._G_inverse = G_inverse
        C = self._coupling(np.swapaxes(blocks.b_l, 1, 2), self.n_q)
        S = self._coupling(blocks.s[1], self.n)
        self._C, self._S = C, S
        B = block_diagonal(comm, -blocks.b_u)
        CG, SG = C.matMult(self._G_inverse), S.matMult(self._G_inverse)
        B.axpy(1.0, SG.matTransposeMult(C), PETSc.Mat.Structure.DIFFERENT_NONZERO_PATTERN)
        R_q = CG.matTransposeMult(C)
        R_v = block_diagonal(comm, blocks.s[0])
        R_v.axpy(-1.0, SG.matTransposeMult(S), PETSc.Mat.Structure.DIFFERENT_NONZERO_PATTERN)
        M_q = cell_mass(comm, np.swapaxes(blocks.M_q, 1, 2))
        space = self.space_of(hybrid, self)
        super().__init__(hybrid, blocks, space, M_q, B, R_q, R_v)
        self.sides = prescribed_sides(hybrid)
        loads, flux_loads = self._boundary_loads()
        self.loads = Loads([*space.source_loads(self.new_v), *loads], self.new_v())
        self.flux_loads = Loads(flux_loads, self.new_q())

    def _coupling(self, values: Array, size: int) -> PETSc.Mat:
        """Cells times traces, from (cells, size, m)."""
        comm, trace = self.hybrid.wave.domain.comm, self.trace
        first = offset(comm, self.cells * size)
        rows = first + np.arange(self.cells * size).reshape(self.cells, size, 1)
        columns = trace.numbers()[:, None, :]
        rows, columns = np.broadcast_to(rows, values.shape), np.broadcast_to(columns, values.shape)
        keep = columns >= 0
        return assembled(comm, rows[keep], columns[keep], values[keep], self.cells * size,
                         trace.blocks * trace.size)  # fmt: skip

    def stage(self, a: complex) -> Stage:
        """A solver of k = L(z + a k) + load: one trace solve."""
        if a == 0:
            return super().stage(a)
        return hybrid_stage(self, self.blocks, self.trace, self._Y_ll, self.kernel, complex(a))

    def _boundary_loads(self) -> tuple[list[Any], list[Any]]:
        """What prescribed velocities and fluxes do to v and to q."""
        on_v: list[Any] = []
        on_q: list[Any] = []
        for condition, samples in self.sides:
            clamped = isinstance(condition, Clamped)
            response = self._of_known if clamped else self._of_flux
            for loads, is_q in ((on_v, False), (on_q, True)):
                acting = partial(response, samples, is_q)
                loads += data_loads(condition.value, samples, acting, int(clamped), is_q)
        return on_v, on_q

    def _of_known(self, samples: FacetSamples, is_q: bool, values: Array) -> PETSc.Vec:
        """The force of known traces on one of the halves."""
        blocks = self.blocks.b_l if is_q else -np.swapaxes(self.blocks.s[1], 1, 2)
        x = self.new_q() if is_q else self.new_v()
        x.array[:] = samples.pulled(blocks, samples.project(values)).reshape(-1)
        return x

    def _of_flux(self, samples: FacetSamples, is_q: bool, values: Array) -> PETSc.Vec:
        """The force of a prescribed flux through facets on one of the halves."""
        trace = self.trace
        g = np.zeros(trace.length)
        g[trace.places(trace.slots[samples.cells, samples.facets])] = samples.moments(values)
        moments, vh = trace.vector(), trace.vector()
        trace.scatter(g, moments)
        self._G_inverse.mult(moments, vh)
        x = self.new_q() if is_q else self.new_v()
        (self._C if is_q else self._S).mult(vh, x)
        x.scale(1.0 if is_q else -1.0)
        return x


def _facet_blocks(G: PETSc.Mat, size: int) -> PETSc.Mat:
    """G without the zeros between different facets, which its pattern has."""
    first, _ = G.getOwnershipRange()
    indptr, indices, data = G.getValuesCSR()
    rows = first + np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    keep = rows // size == indices // size
    n = len(indptr) - 1
    return assembled(lasting(G.comm.tompi4py()), rows[keep], indices[keep], data[keep], n)


class DissipativeSpace(MixedSpace):
    """Fluxes and velocities in P_k of each cell."""

    def state(self, system: Any, u: Any, v: Any, start: str) -> State:
        """The velocity by projection; the flux that Hamiltonian HDG makes of the displacement."""
        check_start(start)
        Data(self.wave, v, self.hybrid.degree)  # says what is wrong with it
        velocity = self.vector(self.project(v, "the initial v"), system.new_v)
        steady = hdg(self.wave, self.hybrid.degree, system.tau)
        assert isinstance(steady, CondensedSystem)
        q = system.new_q()
        q.array[:] = steady.flux_of(steady.state(u=u, start=start).q).reshape(-1)
        return State(q, velocity)

    def primary(self, state: State) -> Makers:
        """The velocity v and the flux q."""
        system = self.system
        return {
            "v": lambda: self.function(system.cellwise(state.v, system.n), "v"),
            self.wave.flux_name: lambda: self.flux_function(system.cellwise(state.q, system.n_q)),
        }

    def makers(self, state: State) -> Makers:
        """The velocity v, the flux and what is derived from them."""
        return self.with_derived(self.primary(state))


DissipativeSystem.space_of = DissipativeSpace


class DissipativeFieldSpace(BrokenFields):
    """-E and H in P_k of each cell."""

    def _start_v(self, fields: InitialFields, start: str) -> PETSc.Vec:
        """The nearest E in the norm of the energy, whose charges are those of the data."""
        moments = self.moments(fields.given_E, "the initial E", self.wave.rho)
        r = self.vector(moments, self.system.new_v)
        r.scale(-1.0)
        return self._projected(r, fields.given_E, "the initial E", -1.0)

    def _start_q(self, fields: InitialFields, start: str) -> PETSc.Vec:
        """The nearest H in the norm of the energy, with (B, grad psi) as in the data."""
        flux, q = self.hybrid.flux, self.system.new_q()
        if fields.without_B:
            return q
        r = np.zeros((self.system.cells, flux.size))
        for part, cells in self.hybrid.batches():
            points = cells.volume(self.quadrature)
            G = (fields.B(cells, points) * points.weights[..., None])[..., None]
            r[part] = flux.moments(flux.basis(cells, points), G)[..., 0]
        moments = self.system.new_q()
        moments.array[:] = r.reshape(-1)
        self.system.flux_solve(moments, q)
        return q

    def primary(self, state: State) -> Makers:
        """E and H."""
        system = self.system
        return {
            "E": lambda: self.function(-system.cellwise(state.v, system.n), "E"),
            "H": lambda: self.flux_function(system.cellwise(state.q, system.n_q)),
        }

    def makers(self, state: State) -> Makers:
        """E, H and B."""
        return self.with_derived(self.primary(state))

    def tracked(self, state: State) -> dict[str, fem.Function]:
        """The fields, and in 3D the rates that curls stand for."""
        fields, system = made(self.primary(state)), self.system
        if self.domain.dim == 2:
            return fields
        kq, kv = system.new_q(), system.new_v()
        system.stage(0)([state.q], [state.v], None, None, [kq], [kv])
        rates = made(self.primary(State(kq, kv)))
        return {**fields, "rate_E": rates["E"], "rate_H": rates["H"]}


class DissipativeFields(ElectromagneticState, DissipativeSystem):  # type: ignore[misc]
    """The same for -E and H, with tangential traces."""

    space_of = DissipativeFieldSpace

    def __init__(self, hybrid: Hybrid, tau: float | None) -> None:
        super().__init__(hybrid, tau)
        assert isinstance(self.space, BrokenFields)
        self.space.begin()
