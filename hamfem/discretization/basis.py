"""The basis of a space with edge, face or nodal dofs at points of cells, as arrays."""

from __future__ import annotations

from typing import Any

from petsc4py import PETSc

import basix
import numpy as np
import numpy.typing as npt
import ufl
from dolfinx import fem, la

from hamfem.discretization.geometry import Cells, Points
from hamfem.discretization.nodal import owned_vector
from hamfem.dolfinx_versions import interpolation_points

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int32]


class Basis:
    """Basis functions with their orientation and Piola's map; one component where there is none.

    On a cell they are phi_i = sum_j T_ij Piola(phi_j of the reference cell), where T depends on how
    the global numbers of the vertices are ordered in the cell; few orders occur in a mesh.
    """

    def __init__(self, V: fem.FunctionSpace) -> None:
        self.V, self.element = V, V.ufl_element().basix_element
        topology = V.mesh.topology
        topology.create_entity_permutations()
        kinds, self._order = np.unique(topology.get_cell_permutation_info(), return_inverse=True)
        n = self.element.dim
        self.T = np.empty((len(kinds), n, n))
        for T, kind in zip(self.T, kinds):
            flat = np.eye(n).reshape(-1)
            # DOLFINx has permutations in its dofs already.
            if not self.element.dof_transformations_are_permutations:
                self.element.T_apply(flat, n, int(kind))
            T[:] = flat.reshape(n, n)

    @property
    def map(self) -> basix.MapType:
        """How values go from the reference cell to a cell."""
        return self.element.map_type

    def orders(self, cells: Integers) -> Array:
        """Which of the matrices T belongs to each of the cells."""
        return self._order[cells]

    def dofs(self, cells: Integers) -> npt.NDArray[np.int32]:
        """The local dofs of the cells, (cells, dofs)."""
        return self.V.dofmap.list[cells]

    def numbers(self, cells: Integers) -> npt.NDArray[np.int64]:
        """The global dofs of the cells."""
        dofs = self.dofs(cells)
        return self.V.dofmap.index_map.local_to_global(dofs.reshape(-1)).reshape(dofs.shape)

    def at(self, cells: Cells, points: Points) -> Array:
        """The basis at the points: (cells, points, dofs, components)."""
        table = self.element.tabulate(0, points.X)[0]  # (points, dofs, components)
        turned = np.einsum("tij,pjc->tpic", self.T, table, optimize=True)
        return self.mapped(turned[self.orders(cells.cells)], points)

    def mapped(self, values: Array, points: Points) -> Array:
        """Values (cells, points, ..., components) of the reference cell as those in the cells."""
        if self.map == basix.MapType.identity:
            return values
        inverse = points.inverse
        if self.map == basix.MapType.covariantPiola:
            return np.matmul(values, inverse)  # J^-T phi, phi in rows
        J = np.linalg.inv(inverse)
        return np.matmul(values, np.swapaxes(J, 2, 3)) * np.linalg.det(inverse)[..., None, None]

    def pulled(self, values: Array, points: Points) -> Array:
        """Values (cells, points, ..., components) in the cells as those of the reference cell."""
        if self.map == basix.MapType.identity:
            return values
        inverse = points.inverse
        if self.map == basix.MapType.covariantPiola:
            return np.matmul(values, np.linalg.inv(inverse))
        return (
            np.matmul(values, np.swapaxes(inverse, 2, 3)) / np.linalg.det(inverse)[..., None, None]
        )

    def moments(self, cells: Cells, points: Points, values: Array) -> Array:
        """(values, phi) on each cell for values (cells, points, components): (cells, dofs)."""
        phi = self.at(cells, points)
        return np.einsum("cpia,cpa,cp->ci", phi, values, points.weights, optimize=True)

    def collected(self, cells: Integers, values: Array) -> PETSc.Vec:
        """Add up cell vectors, (cells, dofs), over the cells and the ranks."""
        total = la.vector(self.V.dofmap.index_map, 1)
        np.add.at(total.array, self.dofs(cells).reshape(-1), values.reshape(-1))
        total.scatter_reverse(la.InsertMode.add)
        return owned_vector(self.V, total.array)

    def interpolant(self, f: Any, shape: tuple[int, ...]) -> PETSc.Vec:
        """The dofs of the interpolant of a callable, numbers, or a UFL expression."""
        g = fem.Function(self.V)
        if isinstance(f, ufl.core.expr.Expr):
            g.interpolate(fem.Expression(f, interpolation_points(self.V.element)))
        else:

            def values(x: Array) -> Array:
                n = x.shape[1]
                found = f(x) if callable(f) else np.reshape(f, (*np.shape(f), 1))
                return np.broadcast_to(np.asarray(found, float), (*shape, n))

            g.interpolate(values)
        return owned_vector(self.V, g.x.array)

    def rows(self, u: PETSc.Vec) -> Array:
        """All dofs as coefficients in the reference basis of each cell of this rank."""
        cells = np.arange(self.V.mesh.topology.index_map(self.V.mesh.topology.dim).size_local)
        f = self.function(u, "u")
        T = self.T[self.orders(cells)]
        return np.einsum("cij,ci->cj", T, f.x.array[self.dofs(cells)], optimize=True)

    def from_rows(self, rows: Array) -> PETSc.Vec:
        """All dofs, from these coefficients in all cells that this rank knows."""
        cells = np.arange(len(rows))
        inverse = np.linalg.inv(self.T)[self.orders(cells)]
        f = fem.Function(self.V)
        f.x.array[self.dofs(cells)] = np.einsum("cji,cj->ci", inverse, rows, optimize=True)
        return owned_vector(self.V, f.x.array)

    def closure(self, facet: int) -> list[int]:
        """The dofs of a cell on one of its facets, its edges and vertices included."""
        return self.element.entity_closure_dofs[self.V.mesh.topology.dim - 1][facet]

    def function(self, dofs: PETSc.Vec, name: str) -> fem.Function:
        """The function of all dofs."""
        f = fem.Function(self.V, name=name)
        f.x.array[: dofs.local_size] = dofs.array_r
        f.x.scatter_forward()
        return f
