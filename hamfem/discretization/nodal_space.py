"""Continuous displacements: vectors of nodal values, and the functions they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any

from mpi4py import MPI
from petsc4py import PETSc

import numpy as np
import numpy.typing as npt
import ufl
from dolfinx import fem
from scipy.spatial import cKDTree

from hamfem.discretization.assembly import assembled
from hamfem.discretization.named_fields import Makers
from hamfem.discretization.nodal import ClampedNodes, NodalSamples, nodal_values, owned_vector
from hamfem.discretization.start import (
    INTERPOLATION,
    Data,
    FarSolve,
    check_start,
    is_constant,
    is_zero,
    steady,
)
from hamfem.discretization.trace import translation
from hamfem.discretization.tracked import Tracking
from hamfem.dolfinx_versions import interpolation_points
from hamfem.loads import Load, SampledLoad
from hamfem.physics.boundary import Periodic
from hamfem.physics.wave import Wave
from hamfem.state import State

Array = npt.NDArray[Any]


class NodalSpace(Tracking):
    """Vectors of nodal values, which are 0 at clamped dofs; periodic sides are identified by P."""

    system: Any

    def __init__(
        self,
        wave: Wave,
        samples: NodalSamples,
        P: PETSc.Mat | None,
        moving: Sequence[ClampedNodes],
        lumped: bool,
    ) -> None:
        self.wave, self.samples, self.V = wave, samples, samples.V
        self.P, self.moving, self.lumped = P, moving, lumped

    # ------------------------------------------------------------ vectors

    def restricted(self, f: PETSc.Vec) -> PETSc.Vec:
        """P'f: what a vector of forces is for the unknowns."""
        if self.P is None:
            return f
        x = self.P.createVecRight()
        self.P.multTranspose(f, x)
        return x

    def reduced_load(self, load: Load | SampledLoad) -> Load | SampledLoad:
        """A load on the unknowns."""
        if self.P is None:
            return load
        if isinstance(load, Load):
            return Load(load.amplitude, self.restricted(load.vector), load.antiderivative)
        raise ValueError(
            "periodic sides and data g(x, t) do not go together here: give the data as "
            "(shape, amplitude)."
        )

    def nodal(self, data: Any, what: str) -> PETSc.Vec:
        """The unknowns of a nodal interpolant."""
        V = self.V
        if isinstance(data, ufl.core.expr.Expr):
            f = fem.Function(V)
            f.interpolate(fem.Expression(data, interpolation_points(V.element)))
            values = f.x.array.copy()
        else:
            x = V.tabulate_dof_coordinates()[:, None, : self.wave.domain.dim]
            values = nodal_values(data, self.wave, x, what).copy()
        values[self.samples.clamped] = 0.0
        return self._unknowns(owned_vector(V, values))

    def cell_rows(self, half: str, x: PETSc.Vec) -> Array:
        """The nodal values in each cell, component by component."""
        f = fem.Function(self.V)
        self._fill(f, x)
        dofs = self.samples.dofs(self.wave.domain.own_cells)
        return f.x.array[dofs].reshape(len(dofs), -1)

    def set_cell_rows(self, half: str, rows: Array, x: PETSc.Vec) -> None:
        """The vector with these values."""
        f = fem.Function(self.V)
        dofs = self.samples.dofs(np.arange(len(rows)))
        f.x.array[dofs] = rows.reshape(dofs.shape)
        self._unknowns(owned_vector(self.V, f.x.array)).copy(x)

    def _fill(self, f: fem.Function, vector: PETSc.Vec) -> None:
        """All nodal values, from the unknowns."""
        if self.P is not None:
            full = self.P.createVecLeft()
            self.P.mult(vector, full)
            vector = full
        f.x.array[: vector.local_size] = vector.array_r
        f.x.scatter_forward()

    def _unknowns(self, full: PETSc.Vec) -> PETSc.Vec:
        """Of all nodal values the unknowns; periodic ones are the mean of those that are one."""
        if self.P is None:
            return full
        x = self.restricted(full)
        count = self.P.createVecLeft()
        count.set(1.0)
        x.pointwiseDivide(x, self.restricted(count))
        return x

    def motion(self, w: Any, new: Any) -> PETSc.Vec:
        """The nodal values of a motion (0 at clamped dofs)."""
        return self.nodal(w, "a motion")

    # ------------------------------------------------------------ states

    def state(self, system: Any, u: Any, v: Any, start: str) -> State:
        """Displacement and velocity by the steady problem, or by projection."""
        check_start(start)
        halves, far = [], FarSolve(system, self.wave.slowest_crossing)
        for derivative, (name, f) in enumerate((("u", u), ("v", v))):
            data = Data(self.wave, f, self.samples.element.degree + INTERPOLATION)
            projected = self._projection(system, f, name)
            if start == "projection" or (is_constant(f) and not self.moving):
                halves.append(projected)
                continue
            F = self.restricted(self.samples.strain_moments(data))
            for nodes in self.moving:
                F.axpy(1.0, self.restricted(self._of_lift(nodes, self.full_K, derivative)))
            x = steady(system, F, far)
            halves.append(self.with_rigid_part(x, projected))
        return State(*halves)

    def _of_lift(self, nodes: ClampedNodes, A: PETSc.Mat, derivative: int) -> PETSc.Vec:
        """What the prescribed values at t = 0, or a derivative of them, do through A."""
        return nodes.response(A, self.samples.clamped, nodes.at(0.0, derivative))

    full_K: PETSc.Mat
    full_M: PETSc.Mat

    def _projection(self, system: Any, f: Any, name: str) -> PETSc.Vec:
        """(rho u, w) = (rho f, w); with a lumped mass, the nodal values."""
        if self.lumped or is_zero(f):
            return self.nodal(f, f"the initial {name}")
        r = self.restricted(self.samples.source(f, self.wave.rho))
        for nodes in self.moving:  # the lift has its share in the projection
            r.axpy(1.0, self.restricted(self._of_lift(nodes, self.full_M, int(name == "v"))))
        x = r.duplicate()
        system.mass_solve(r, x)
        return x

    def symmetry(self, move: Any) -> PETSc.Mat:
        """X with (X u)(move(x)) = R u(x), for hf.noether; R turns vectors and is 1 for scalars.

        Args:
            move: x -> x', for points of shape (3, n): a motion R x + a that maps the mesh onto
                itself, up to the translations of periodic sides.
        """
        comm, V, bs = self.wave.domain.comm, self.V, self.wave.components
        x = V.tabulate_dof_coordinates()[: V.dofmap.index_map.size_local]
        template = self.system.new_q()
        first, last = (end // bs for end in template.getOwnershipRange())
        if self.P is not None:
            columns = self.P.getValuesCSR()[1][::bs] // bs
            mine = (columns >= first) & (columns < last)
            position = np.empty((last - first, 3))
            position[columns[mine] - first] = x[mine]
            x = position
        everywhere = np.concatenate(comm.allgather(x))
        tree = cKDTree(everywhere)
        image = np.asarray(move(x.T), float).T
        shifts = [np.zeros(3)]
        for pair in self.wave.boundary:
            if isinstance(pair, Periodic):
                s = translation(self.wave.domain, pair)
                shifts = [a + b for a in shifts for b in (0 * s, s, -s)]
        best, target = np.full(len(x), np.inf), np.zeros(len(x), int)
        for shift in shifts:
            distance, index = tree.query(image + shift) if len(x) else (best, target)
            better = distance < best
            best[better], target[better] = distance[better], index[better]
        worst = comm.allreduce(float(best.max(initial=0.0)), MPI.MAX)
        if worst > 1e-6 * self.wave.diameter:
            raise ValueError(
                f"the motion does not map the nodes onto themselves: one is off by {worst:.2g}."
            )
        R = np.ones((1, 1))
        if not self.wave.scalar:
            corners = np.asarray(move(np.c_[np.zeros(3), np.eye(3)]), float)
            R = (corners[:, 1:] - corners[:, :1])[:bs, :bs]
        n = last - first
        i, j = (index.ravel() for index in np.indices((bs, bs)))
        rows = (target[:, None] * bs + i).ravel()
        columns = ((first + np.arange(n))[:, None] * bs + j).ravel()
        return assembled(comm, rows, columns, np.tile(R.ravel(), n), n * bs)

    # ------------------------------------------------------------ fields

    def function(self, vector: PETSc.Vec, t: float, derivative: int, name: str) -> fem.Function:
        """The function of a vector of unknowns at time t."""
        f = fem.Function(self.V, name=name)
        self._fill(f, vector)
        for nodes in self.moving:
            f.x.array[nodes.dofs] = nodes.at(t, derivative)
        return f

    @cached_property
    def _flux_space(self) -> fem.FunctionSpace:
        degree = self.samples.element.degree
        simplex = self.wave.domain.cell in ("interval", "triangle", "tetrahedron")
        shape = (*self.wave.shape, self.wave.domain.dim)
        return fem.functionspace(
            self.wave.domain.mesh,
            ("Discontinuous Lagrange", degree - 1 if simplex else degree, shape),
        )

    @cached_property
    def _flux(self) -> tuple[fem.Function, fem.Expression]:
        u = fem.Function(self.V)
        q = self.wave.stress(self.wave.D(u), self.samples.element.degree + 1)
        points = interpolation_points(self._flux_space.element)
        return u, fem.Expression(self.wave.flux_field(q), points)

    def primary(self, state: State) -> Makers:
        """The displacement u, the velocity v and the flux C D u."""
        displacement = cache(lambda: self.function(state.q, state.t, 0, "u"))

        def flux() -> fem.Function:
            u, expression = self._flux
            u.x.array[:] = displacement().x.array
            q = fem.Function(self._flux_space, name=self.wave.flux_name)
            q.interpolate(expression)
            return q

        return {
            "u": displacement,
            "v": lambda: self.function(state.v, state.t, 1, "v"),
            self.wave.flux_name: flux,
        }
