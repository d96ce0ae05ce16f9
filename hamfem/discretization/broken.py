"""Discontinuous displacements: vectors of cell coefficients, and the functions they stand for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property
from typing import Any

from petsc4py import PETSc

import numpy as np
import numpy.typing as npt
from dolfinx import fem

from hamfem.discretization.flux_spaces import cell_function, legendre_space
from hamfem.discretization.local import Hybrid
from hamfem.discretization.named_fields import Makers
from hamfem.discretization.postprocess import Postprocessed
from hamfem.discretization.sampling import (
    FacetPoints,
    FacetSamples,
    facet_pairs,
    free_facets,
    sample,
    source_load,
    weighted,
)
from hamfem.discretization.start import INTERPOLATION, Data, FarSolve, check_start, is_zero, steady
from hamfem.discretization.tracked import Tracking
from hamfem.loads import Load
from hamfem.physics.boundary import Free, Impedance
from hamfem.physics.coefficient import Coefficient
from hamfem.state import State

Array = npt.NDArray[Any]


class BrokenSpace(Tracking):
    """P_k in each cell, in an orthonormal basis; a vector holds the cells one after the other."""

    def __init__(self, hybrid: Hybrid, system: Any) -> None:
        self.hybrid, self.system, self.wave = hybrid, system, hybrid.wave
        self.domain = hybrid.wave.domain
        self.V = legendre_space(self.domain, hybrid.degree, self.wave.shape)
        self.quadrature = 2 * hybrid.degree + 8

    # ------------------------------------------------------------ vectors

    def moments(self, f: Any, what: str, rho: Coefficient | None = None) -> Array:
        """(f, w), or (rho f, w), for every w, shape (cells, size)."""
        parts = [np.zeros((0, self.hybrid.size))]
        for _, cells in self.hybrid.batches():
            points = cells.volume(self.quadrature)
            phi = self.hybrid.element.tabulate(0, points.X)[0, :, :, 0]
            values = sample(f, self.wave, cells.cells, points, what)
            if rho is not None:
                values = weighted(rho, cells, points, values)
            F = np.einsum("cp,cpi,pf->cif", points.weights, values, phi, optimize=True)
            parts.append(F.reshape(len(F), self.hybrid.size))
        return np.concatenate(parts)

    @cached_property
    def _gram(self) -> Array:
        """(u, w) in each cell: (cells, size) if diagonal."""
        one = np.ones((1, 1))
        parts = []
        for _, cells in self.hybrid.batches():
            points = cells.volume(self.hybrid.quadrature)
            phi = self.hybrid.element.tabulate(0, points.X)[0, :, :, 0]
            rho = np.broadcast_to(one, (len(cells), 1))
            parts.append(self.hybrid._mass(phi, points.weights, rho, cells.affine))
        return np.concatenate(parts) if parts else np.zeros((0, self.hybrid.size))

    def project(self, f: Any, what: str) -> Array:
        """The nearest function to f in the mean square, shape (cells, size)."""
        r = self.moments(f, what)
        if self._gram.ndim == 2:
            return r / self._gram
        return np.linalg.solve(self._gram, r[..., None])[..., 0]

    def vector(self, cells: Array, new: Any) -> PETSc.Vec:
        """A vector with the given coefficients, and 0 on walls."""
        x = new()
        x.array[: cells.size] = cells.reshape(-1)
        return x

    def cell_rows(self, half: str, x: PETSc.Vec) -> Array:
        """The coefficients are those of cells already."""
        return self.system.cell_rows(half, x)

    def set_cell_rows(self, half: str, rows: Array, x: PETSc.Vec) -> None:
        """The vector with these rows."""
        self.system.set_cell_rows(half, rows, x)

    def motion(self, w: Any, new: Any) -> PETSc.Vec:
        """The projection of a motion, with its traces on absorbing walls."""
        x = self.vector(self.project(w, "a motion"), new)
        if self.system.massless:
            wall = self.system.wall
            self.system.set_wall(x, wall.project(wall.values(w)))
        return x

    def source_loads(self, new: Any) -> list[Load]:
        """(f, w)."""
        return [
            source_load(self.vector(self.moments(s.shape, "a source"), new), s.amplitude)
            for s in self.wave.sources
        ]

    # ------------------------------------------------------------ states

    def steady_force(self, data: Data) -> Array:
        """-(div q, w) = (q, D w) - <q, D(n) w> with q = C D u0, shape (cells, size)."""
        wave, parts = self.wave, [np.zeros((0, self.hybrid.size))]
        for _, cells in self.hybrid.batches():
            points = cells.volume(self.quadrature)
            F = data.strain_moments(cells, points, self.hybrid.element)
            for k in range(cells.facet_count):
                side = cells.facet(k, self.quadrature)
                phi = self.hybrid.element.tabulate(0, side.X)[0, :, :, 0]
                q = data.flux(cells, side) * side.weights[..., None]
                assert side.normals is not None
                normals = np.broadcast_to(side.normals, (*q.shape[:2], cells.dim))
                F -= np.einsum("cpa,aij,cpj,pf->cif", q, wave.symbol, normals, phi, optimize=True)
            parts.append(F.reshape(len(cells), self.hybrid.size))
        return np.concatenate(parts)

    @cached_property
    def free_walls(self) -> list[tuple[Any, FacetSamples]]:
        """The sides without clamps and dampers, with the flux through them if one is prescribed."""
        wave, domain = self.wave, self.domain
        sides: list[tuple[Any, Any]] = [(None, free_facets(wave))]
        sides += [(c.value, domain.facets(*c.names)) for c in wave.boundary if isinstance(c, Free)]
        return [
            (value, FacetSamples(self.hybrid, facet_pairs(domain, facets), self.quadrature))
            for value, facets in sides
        ]

    def state(self, system: Any, u: Any, v: Any, start: str) -> State:
        """Displacement and velocity by the steady problem, or by projection."""
        check_start(start)
        far = FarSolve(system, self.wave.slowest_crossing)
        q = self._half(system, u, "u", start, 0, far)
        return State(q, self._half(system, v, "v", start, 1, far))

    def _half(
        self, system: Any, f: Any, what: str, start: str, derivative: int, far: FarSolve
    ) -> PETSc.Vec:
        """One half of the state."""
        data = Data(self.wave, f, self.hybrid.degree + INTERPOLATION)
        cells = self.project(f, f"the initial {what}")
        projected = self.vector(cells, system.new_q)
        if system.massless:
            system.set_wall(projected, system.wall.from_cells(self.hybrid, cells))
        loads = system.boundary_loads(derivative)
        if start == "projection" or loads is None or (is_zero(f) and not loads):
            return projected
        F = self.steady_forces(system, data)
        loads.add([0.0], [1.0], F)
        if system.massless and self.free is not None:
            # The forces balance up to quadrature; what is left would push the body as a whole.
            self.free.balance(F)
        x = steady(system, F, far)
        return self.with_rigid_part(x, projected)

    def steady_forces(self, system: Any, data: Data) -> PETSc.Vec:
        """The forces that hold a displacement, but for those of prescribed displacements."""
        F = self.vector(self.steady_force(data), system.new_q)
        if system.massless:
            # With the points of the cells' forces: both cancel on what does no work.
            pairs = facet_pairs(self.domain, self.wave.facets(Impedance))
            wall = FacetSamples(self.hybrid, pairs, self.quadrature)
            system.set_wall(F, wall.moments(self.wall_flux(wall, data)))
        # Through free walls goes the flux of the data, whether or not it is the prescribed one.
        for _, walls in self.free_walls:
            F.axpy(1.0, system.flux_response(walls, self.wall_flux(walls, data)))
        return F

    def wall_flux(self, wall: FacetPoints, data: Data) -> Array:
        """The flux D(n)'C D u0 through walls, (facets, points, i)."""
        values = np.zeros(wall.shape)
        for mine, cells, points in wall.by_facet:
            q = data.flux(cells, points)
            values[mine] = np.einsum("cpa,aij,cpj->cpi", q, self.wave.symbol, wall.normals[mine])
        return values

    # ------------------------------------------------------------ fields

    def function(self, values: Array, name: str) -> fem.Function:
        """A displacement or velocity from its coefficients in the cells."""
        return cell_function(self.V, values, name)

    @cached_property
    def V_q(self) -> fem.FunctionSpace:
        """Fluxes as discontinuous functions: vectors for scalar waves, tensors for vector ones."""
        shape = (*self.wave.shape, self.domain.dim)
        return legendre_space(self.domain, self.hybrid.flux.degree, shape)

    def flux_function(self, q: Array) -> fem.Function:
        """The flux from its components in P_k of each cell, (cells, components x functions)."""
        symbol = self.hybrid.flux.symbol
        shaped = q.reshape(len(q), len(symbol), -1)
        fields = np.einsum("aij,caf->cijf", symbol, shaped, optimize=True)
        return cell_function(self.V_q, fields.reshape(len(q), -1), self.wave.flux_name)

    @cached_property
    def postprocessed(self) -> Postprocessed:
        """The local problems of u_star and v_star."""
        return Postprocessed(self.hybrid)

    def primary(self, state: State) -> Makers:
        """u, v and the flux q."""
        return self._primary(state, lambda: self.system.flux_of(state.q, state.t))

    def _primary(self, state: State, flux: Callable[[], Array]) -> Makers:
        split = self.system.split
        return {
            "u": lambda: self.function(split(state.q)[0], "u"),
            "v": lambda: self.function(split(state.v)[0], "v"),
            self.wave.flux_name: lambda: self.flux_function(flux()),
        }

    def makers(self, state: State) -> Makers:
        """u, v, the flux, and of scalar waves the postprocessed u_star and v_star in P_(k+1).

        v_star needs the time derivative of prescribed data.
        """
        system = self.system
        flux = cache(lambda: system.flux_of(state.q, state.t))
        makers = self.with_derived(self._primary(state, flux))
        if not self.wave.scalar:
            return makers

        def u_star() -> fem.Function:
            return self.postprocessed.function(system.split(state.q)[0], flux(), "u_star")

        def v_star() -> fem.Function:
            rate = system.flux_of(state.v, state.t, 1)
            return self.postprocessed.function(system.split(state.v)[0], rate, "v_star")

        return {**makers, "u_star": u_star, "v_star": v_star}
