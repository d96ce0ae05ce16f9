"""Continuous displacements: nodal values, and the functions they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from mpi4py import MPI
from petsc4py import PETSc

import basix
import numpy as np
import numpy.typing as npt
import ufl
from dolfinx import fem, la
from scipy.spatial import cKDTree

from hamfem.discretization.assembly import assembled
from hamfem.discretization.geometry import Cells
from hamfem.discretization.sampling import FacetPoints, Shell, constant, sample
from hamfem.discretization.start import (
    INTERPOLATION,
    Data,
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
from hamfem.physics.coefficient import call
from hamfem.physics.data import Data as Prescribed
from hamfem.physics.data import Sampled, Separated
from hamfem.physics.wave import Wave
from hamfem.state import State

Array = npt.NDArray[Any]


def unrolled(V: fem.FunctionSpace, nodes: npt.NDArray) -> npt.NDArray:
    """The dofs of nodes, all components: (..., nodes) becomes (..., components, nodes)."""
    bs = V.dofmap.index_map_bs
    return nodes[..., None, :] * bs + np.arange(bs)[:, None]


def owned_vector(V: fem.FunctionSpace, values: Array) -> PETSc.Vec:
    """A vector of the owned nodal values."""
    n = V.dofmap.index_map.size_local * V.dofmap.index_map_bs
    x = PETSc.Vec().createMPI((n, PETSc.DETERMINE), comm=V.mesh.comm)
    x.array[:] = values[:n]
    return x


class NodalSamples:
    """Moments against the nodal basis, by quadrature on the cells and facets of this rank."""

    def __init__(self, wave: Wave, V: fem.FunctionSpace, clamped: Array) -> None:
        self.wave, self.V, self.clamped = wave, V, clamped
        self.element = nodal_element(V)
        self.cells = Cells(wave.domain)
        self.degree = 2 * self.element.degree + 8

    def dofs(self, cells: npt.NDArray) -> npt.NDArray:
        """The local dofs of cells, (cells, components, nodes)."""
        return unrolled(self.V, self.V.dofmap.list[cells])

    def collected(self, cells: npt.NDArray, values: Array) -> PETSc.Vec:
        """Add up cell vectors, (cells, components, nodes of a cell); 0 at clamped dofs."""
        total = la.vector(self.V.dofmap.index_map, self.V.dofmap.index_map_bs)
        np.add.at(total.array, self.dofs(cells).reshape(-1), values.reshape(-1))
        total.scatter_reverse(la.InsertMode.add)
        total.scatter_forward()
        total.array[self.clamped] = 0.0
        return owned_vector(self.V, total.array)

    def source(self, f: Any, rho: Any = None) -> PETSc.Vec:
        """(f, w), or (rho f, w)."""
        points = self.cells.volume(self.degree)
        phi = self.element.tabulate(0, points.X)[0, :, :, 0]
        values = sample(f, self.wave, self.cells.cells, points, "a source")
        weights = points.weights
        if rho is not None:
            weights = weights * rho.at(self.cells.cells, points.X, points.x)
        moments = np.einsum("cp,cpi,pf->cif", weights, values, phi, optimize=True)
        return self.collected(self.cells.cells, moments)

    def strain_moments(self, data: Data) -> PETSc.Vec:
        """(C D u0, D w)."""
        points = self.cells.volume(self.degree)
        table = self.element.tabulate(1, points.X)[1:, :, :, 0]
        n, p, d = points.x.shape
        q = data.flux(self.cells, points) * points.weights[..., None]
        inverse_J = np.broadcast_to(points.inverse, (n, p, d, d))
        pulled = np.einsum("cpa,aij,cprj->cpri", q, self.wave.symbol, inverse_J, optimize=True)
        return self.collected(
            self.cells.cells, np.einsum("cpri,rpf->cif", pulled, table, optimize=True)
        )


class NodalFacets(FacetPoints):
    """Quadrature points on some facets, and moments against the nodal basis."""

    def __init__(
        self,
        samples: NodalSamples,
        pairs: npt.NDArray,
        degree: int,
        rule: basix.QuadratureType = basix.QuadratureType.default,
    ) -> None:
        super().__init__(samples.wave, pairs, degree, rule)
        self.samples = samples

    def vector(self, values: Array) -> PETSc.Vec:
        """<values, w>, for values at the points, (facets, points, i)."""
        element = self.samples.element
        result = np.zeros((len(self.cells), self.wave.components, element.dim))
        for mine, _, points in self.by_facet:
            phi = element.tabulate(0, points.X)[0, :, :, 0]
            result[mine] = np.einsum(
                "cp,cpi,pf->cif", self.weights[mine], values[mine], phi, optimize=True
            )
        return self.samples.collected(self.cells, result)

    def matrix(self, Y: Array) -> PETSc.Mat:
        """<Y u, w> on dofs that are not clamped, for matrices Y at the points."""
        samples, V = self.samples, self.samples.V
        m = self.wave.components * samples.element.dim
        blocks = np.zeros((len(self.cells), m, m))
        for mine, _, points in self.by_facet:
            phi = samples.element.tabulate(0, points.X)[0, :, :, 0]
            weighted = self.weights[mine][..., None, None] * Y[mine]
            block = np.einsum("cpij,pf,pg->cifjg", weighted, phi, phi, optimize=True)
            blocks[mine] = block.reshape(len(mine), m, m)
        free = np.ones(V.dofmap.index_map.size_local + V.dofmap.index_map.num_ghosts, bool)
        free = np.repeat(free, V.dofmap.index_map_bs)
        free[samples.clamped] = False
        local = samples.dofs(self.cells).reshape(len(self.cells), m)
        keep = free[local][:, :, None] & free[local][:, None, :]
        # Between different Gauss-Lobatto points there are zeros, up to round-off.
        keep &= np.abs(blocks) > 1e-14 * np.abs(blocks).max(initial=0.0)
        numbers = global_dofs(V)[local]
        rows = np.broadcast_to(numbers[:, :, None], blocks.shape)[keep]
        columns = np.broadcast_to(numbers[:, None, :], blocks.shape)[keep]
        owned = V.dofmap.index_map.size_local * V.dofmap.index_map_bs
        return assembled(self.wave.domain.comm, rows, columns, blocks[keep], owned)


def nodal_element(V: fem.FunctionSpace) -> Any:
    """The Basix element of each component."""
    element = V.ufl_element()
    return (element.sub_elements[0] if element.block_size > 1 else element).basix_element


def global_dofs(V: fem.FunctionSpace) -> npt.NDArray:
    """The global numbers of the local dofs, ghosts included."""
    index_map, bs = V.dofmap.index_map, V.dofmap.index_map_bs
    nodes = np.arange(index_map.size_local + index_map.num_ghosts, dtype=np.int32)
    return (index_map.local_to_global(nodes)[:, None] * bs + np.arange(bs)).reshape(-1)


@dataclass(frozen=True, eq=False)
class ClampedNodes:
    """The nodes of some clamped sides, with what is prescribed there.

    Attributes:
        wave: The physics.
        V: The space.
        nodes: The local nodes on these sides, ghosts included.
        value: What is prescribed.
    """

    wave: Wave
    V: fem.FunctionSpace
    nodes: Array
    value: Prescribed

    @property
    def dofs(self) -> Array:
        """The dofs of the nodes, all components of a node together."""
        return unrolled(self.V, self.nodes).T.reshape(-1)

    def _points(self) -> Array:
        return self.V.tabulate_dof_coordinates()[self.nodes][:, None, : self.V.mesh.geometry.dim]

    def at(self, t: float, derivative: int = 0) -> Array:
        """The prescribed values, or a derivative of them, at time t."""
        if isinstance(self.value, Separated):
            return self.value.amplitude.derivative(derivative)(t) * self._shape
        assert isinstance(self.value, Sampled)
        g = self.value.derivative(derivative)
        values = call(lambda x: g(x, t), self._points(), "boundary data", self.wave.shape)
        return values.reshape(-1)

    @cached_property
    def _shape(self) -> Array:
        assert isinstance(self.value, Separated)
        shape = self.value.shape
        if isinstance(shape, ufl.core.expr.Expr):
            f = fem.Function(self.V)
            f.interpolate(fem.Expression(shape, interpolation_points(self.V.element)))
            return f.x.array[self.dofs].copy()
        return nodal_values(shape, self.wave, self._points(), "boundary data")

    def lifted(self, values: Array) -> Array:
        """An array of all local dofs with these values, 0 elsewhere."""
        index_map = self.V.dofmap.index_map
        n = index_map.size_local + index_map.num_ghosts
        array = np.zeros(n * self.V.dofmap.index_map_bs)
        array[self.dofs] = values
        return array

    def response(self, A: PETSc.Mat, clamped: Array, values: Array) -> PETSc.Vec:
        """-A G on the free dofs, for the values G at these nodes."""
        x = owned_vector(self.V, self.lifted(values))
        y = x.duplicate()
        A.mult(x, y)
        y.scale(-1.0)
        y.array[clamped[clamped < y.local_size]] = 0.0
        return y

    def loads(self, A: PETSc.Mat, clamped: Array, derivative: int) -> list[Load | SampledLoad]:
        """-A G on the free dofs, for the prescribed values G or a derivative of them."""
        owned = self.V.dofmap.index_map.size_local * self.V.dofmap.index_map_bs
        response = partial(self.response, A, clamped)
        if isinstance(self.value, Separated):
            a = self.value.amplitude.derivative(derivative)
            return [Load(a.value, response(self._shape), a.antiderivative)]
        self.at(0.0, derivative)  # says at once if a derivative is missing
        n = int(np.count_nonzero(self.dofs < owned))
        own = np.flatnonzero(self.dofs < owned)
        comm = self.wave.domain.comm

        def from_own(x: Array) -> PETSc.Vec:
            values = np.zeros(len(self.dofs))
            values[own] = x
            return response(values)

        sizes = response(np.zeros(len(self.dofs))).sizes
        W = PETSc.Mat().createPython((sizes, (n, comm.allreduce(n))), Shell(from_own), comm=comm)
        W.setUp()
        return [SampledLoad(W, lambda t: self.at(t, derivative)[own])]


def nodal_values(f: Any, wave: Wave, x: Array, what: str) -> Array:
    """A callable, number or vector at nodes x, (nodes, 1, dim): node by node."""
    if callable(f):
        return call(f, x, what, wave.shape).reshape(-1)
    return np.tile(constant(f, wave, what), len(x))


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
        full = owned_vector(V, values)
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
        halves = []
        for derivative, (name, f) in enumerate((("u", u), ("v", v))):
            data = Data(self.wave, f, self.samples.element.degree + INTERPOLATION)
            projected = self._projection(system, f, name)
            if start == "projection" or (is_constant(f) and not self.moving):
                halves.append(projected)
                continue
            F = self.restricted(self.samples.strain_moments(data))
            for nodes in self.moving:
                F.axpy(1.0, self.restricted(self._of_lift(nodes, self.full_K, derivative)))
            x = steady(system, F, self.wave.slowest_crossing)
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
        if self.P is not None:
            full = self.P.createVecLeft()
            self.P.mult(vector, full)
            vector = full
        f.x.array[: vector.local_size] = vector.array_r
        f.x.scatter_forward()
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

    def fields(self, state: State) -> dict[str, fem.Function]:
        """The displacement u, the velocity v, the flux C D u and what is derived from them."""
        return self.with_derived(self.primary(state))

    def primary(self, state: State) -> dict[str, fem.Function]:
        """The displacement u, the velocity v and the flux C D u."""
        result = {
            "u": self.function(state.q, state.t, 0, "u"),
            "v": self.function(state.v, state.t, 1, "v"),
        }
        u, expression = self._flux
        u.x.array[:] = result["u"].x.array
        flux = fem.Function(self._flux_space, name=self.wave.flux_name)
        flux.interpolate(expression)
        return {**result, flux.name: flux}
