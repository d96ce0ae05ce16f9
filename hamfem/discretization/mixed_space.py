"""Fluxes and velocities of mixed methods: vectors, and the functions they stand for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property
from typing import Any

from petsc4py import PETSc

import numpy as np
import numpy.typing as npt
from dolfinx import fem

from hamfem.discretization.broken import BrokenSpace
from hamfem.discretization.flux_spaces import (
    BrokenFlux,
    WeaklySymmetricStress,
    basix_volume,
    legendre,
)
from hamfem.discretization.named_fields import Makers
from hamfem.discretization.sampling import prescribed
from hamfem.discretization.start import INTERPOLATION, Data, FarSolve, check_start, is_zero, steady
from hamfem.loads import Loads
from hamfem.physics.boundary import Free
from hamfem.state import State

Array = npt.NDArray[Any]


class MixedSpace(BrokenSpace):
    """Fluxes in RT_k of each cell, velocities in P_k."""

    def state(self, system: Any, u: Any, v: Any, start: str) -> State:
        """The velocity by projection; the flux of the steady problem of u, or its projection."""
        check_start(start)
        data, _ = (Data(self.wave, f, self.hybrid.degree + INTERPOLATION) for f in (u, v))
        velocity = self.vector(self.project(v, "the initial v"), system.new_v)
        if start == "projection" or self.wave.absorbing:
            # An absorbing wall prescribes neither u nor the flux: nothing steady to solve there.
            r = system.new_q()
            r.array[:] = self.flux_moments(data).reshape(-1)
            q = system.new_q()
            system.flux_solve(r, q)
            return State(q, velocity)
        q = system.new_q()
        loads = Loads(system._flux_loads(0), system.new_q())
        if loads:
            g = system.new_q()
            loads.add([0.0], [1.0], g)
            system.flux_solve(g, q)
        if is_zero(u) and not loads:
            return State(q, velocity)
        # K w = F + B q_D, q = q_D + F w with the flux F w of the displacement w
        F = self.vector(self.steady_force(data) + self._misfit(data), system.new_v)
        f, change = system.new_v(), system.new_q()
        system.B.mult(q, f)
        F.axpy(1.0, f)
        for lift in self.lifts(0.0):
            system.B.mult(lift, f)
            F.axpy(1.0, f)
        w = steady(system, F, self._far)
        system.flux(w, change)
        q.axpy(1.0, change)
        return State(q, velocity)

    def invariants(self, state: State) -> dict[str, Any]:
        """The momenta, the tracked quantities and, of a weakly symmetric stress, its asymmetry."""
        result = super().invariants(state)
        flux = self.hybrid.flux
        if isinstance(flux, WeaklySymmetricStress):
            skew = flux.asymmetry(self.system.cellwise(state.q, self.system.n_q))
            squared = float((self._volumes[:, None] * skew**2).sum())
            result["asymmetry"] = float(np.sqrt(self.domain.comm.allreduce(squared)))
        return result

    @cached_property
    def _volumes(self) -> Array:
        """The volumes of the cells, that of the reference cell being 1."""
        reference = basix_volume(self.hybrid.cells.type)
        return self.hybrid.cells.volume(0).weights.sum(axis=1) / reference

    def _misfit(self, data: Data) -> Array:
        """<q(n) - g, w> on free sides with q = C D u0 and the prescribed flux g, (cells, size).

        A flux of this space goes through free sides as prescribed. Where that of u0 does not, the
        force is a layer at the wall, as it is for continuous elements. (Without it, an error of u0
        of 60 % was measured, at all mesh sizes.)
        """
        F = np.zeros((self.system.cells, self.system.n))
        for value, walls in self.free_walls:
            values = self.wall_flux(walls, data)
            if value is not None:
                values = values - prescribed(value, walls, 0.0)
            moments = walls.cell_moments(self.hybrid.element, values)
            np.add.at(F, walls.cells, moments.reshape(len(moments), self.system.n))
        return F

    def displacement(self, state: State) -> PETSc.Vec:
        """The u whose flux is q, where the boundary allows; free bodies get the one of mean 0.

        M_q q = b_u u + b_l uh, hence K u = -B q for the part of q that no datum made.
        """
        system = self.system
        q = state.q.copy()
        loads = Loads(system._flux_loads(0), system.new_q())
        if loads:
            g, of_data = system.new_q(), system.new_q()
            loads.add([state.t], [1.0], g)
            system.flux_solve(g, of_data)
            q.axpy(-1.0, of_data)
        F = system.new_v()
        system.restoring(q, F)
        F.scale(-1.0)
        return steady(system, F, self._far)

    @cached_property
    def _far(self) -> FarSolve:
        """Kept, for every displacement needs it."""
        return FarSolve(self.system, self.wave.slowest_crossing)

    def flux_moments(self, data: Data) -> Array:
        """(D u0, r) for every flux r, (cells, fluxes)."""
        flux = self.hybrid.flux
        parts = [np.zeros((0, flux.size))]
        for _, cells in self.hybrid.batches():
            points = cells.volume(self.quadrature)
            strain = flux.of_strain(data.strain(cells, points))
            G = (strain * points.weights[..., None])[..., None]
            parts.append(flux.moments(flux.basis(cells, points), G)[..., 0])
        return np.concatenate(parts)

    def lifts(self, t: float, derivative: int = 0) -> list[PETSc.Vec]:
        """The lifts of prescribed fluxes, or of a derivative of them, at time t."""
        return [
            self.system.lift(samples, prescribed(condition.value, samples, t, derivative))
            for condition, samples in self.system.sides
            if isinstance(condition, Free)
        ]

    # ------------------------------------------------------------ fields

    @cached_property
    def _to_broken(self) -> Array:
        """The map from RT_k to components in P_(k+1), which hold it."""
        degree = self.hybrid.flux.degree
        element = legendre(self.hybrid.cells.type, degree)
        parts = []
        components = len(self.hybrid.flux.symbol)
        for _, cells in self.hybrid.batches():
            points = cells.volume(2 * degree)
            phi = element.tabulate(0, points.X)[0, :, :, 0]
            basis = self.hybrid.flux.basis(cells, points)
            n, p = points.weights.shape
            scaled = points.weights[:, :, None] * phi / points.weights.sum(axis=1)[:, None, None]
            scaled *= basix_volume(self.hybrid.cells.type)
            G = np.einsum("ab,cpf->cpabf", np.eye(components), scaled).reshape(n, p, components, -1)
            parts.append(np.swapaxes(self.hybrid.flux.moments(basis, G), 1, 2))
        return np.concatenate(parts)

    def whole_flux(self, state: State) -> PETSc.Vec:
        """The flux with what is prescribed on free sides."""
        total = state.q.copy()
        for lift in self.lifts(state.t):
            total.axpy(1.0, lift)
        return total

    def primary(self, state: State) -> Makers:
        """The velocity v and the flux q."""
        return self._primary(state, lambda: self.whole_flux(state))

    def _primary(self, state: State, total: Callable[[], PETSc.Vec]) -> Makers:
        def velocity() -> fem.Function:
            return self.function(self.system.cellwise(state.v, self.system.n), "v")

        def flux() -> fem.Function:
            q = self.system.cellwise(total(), self.system.n_q)
            if not isinstance(self.hybrid.flux, BrokenFlux):
                q = np.matmul(self._to_broken, q[..., None])[..., 0]
            return self.flux_function(q)

        return {"v": velocity, self.wave.flux_name: flux}

    def makers(self, state: State) -> Makers:
        """v, the flux, the u that belongs to it, and of scalar waves the postprocessed ones.

        With absorbing walls the flux does not determine a u, which is then left out. v_star needs
        the time derivative of a prescribed flux.
        """
        system = self.system
        total = cache(lambda: self.whole_flux(state))
        displacement = cache(lambda: system.cellwise(self.displacement(state), system.n))
        result = dict(self.with_derived(self._primary(state, total)))

        def u_star() -> fem.Function:
            flux = system.cellwise(total(), system.n_q)
            return self.postprocessed.function(displacement(), flux, "u_star")

        def v_star() -> fem.Function:
            rate = system.cellwise(self._flux_rate(state), system.n_q)
            velocity = system.cellwise(state.v, system.n)
            return self.postprocessed.function(velocity, rate, "v_star")

        if not self.wave.absorbing:
            result["u"] = lambda: self.function(displacement(), "u")
            if self.wave.scalar:
                result["u_star"] = u_star
        if self.wave.scalar:
            result["v_star"] = v_star
        return result

    def _flux_rate(self, state: State) -> PETSc.Vec:
        """The flux of v, which is dq/dt."""
        system = self.system
        r, rate = system.new_q(), system.new_q()
        system._minus_transpose(state.v, r)
        if system.R_q is not None:
            system.R_q.mult(state.q, rate)
            r.axpy(-1.0, rate)
        if system.flux_loads:
            system.flux_loads.add([state.t], [1.0], r)
        system.flux_solve(r, rate)
        for lift in self.lifts(state.t, 1):
            rate.axpy(1.0, lift)
        return rate
