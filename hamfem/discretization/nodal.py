"""Nodal values of continuous displacements: moments against the basis, and clamped nodes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from petsc4py import PETSc

import basix
import numpy as np
import numpy.typing as npt
import ufl
from dolfinx import fem, la

from hamfem.discretization.assembly import assembled
from hamfem.discretization.geometry import Cells
from hamfem.discretization.sampling import FacetPoints, Shell, constant, sample
from hamfem.discretization.start import Data
from hamfem.dolfinx_versions import interpolation_points
from hamfem.loads import Load, SampledLoad
from hamfem.physics.coefficient import call
from hamfem.physics.data import Data as Prescribed
from hamfem.physics.data import Sampled, Separated
from hamfem.physics.wave import Wave

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
        moments = data.strain_moments(self.cells, points, self.element)
        return self.collected(self.cells.cells, moments)


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
        moments = self.cell_moments(self.samples.element, values)
        return self.samples.collected(self.cells, moments)

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
            return [Load(a.value, response(self._shape))]
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
