"""The de Rham complex of a mesh: spaces that the gradient and the curl map into each other.

    3D, and 2D with a field in the plane:   S = CG_(k+1) --grad--> V = NED_k --curl--> W
    2D with a field across the plane:                              V = CG_(k+1) --curl--> W

with W = RT_k, or DG_k where the curl is across the plane (indices as in the classical papers), and
div: RT_k -> Q = DG_k. The derivatives are matrices of their own, the same for every coefficient,
with curl grad = 0 and div curl = 0.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from petsc4py import PETSc

import basix.ufl
import numpy as np
import numpy.typing as npt
from dolfinx import fem

from hamfem.discretization.assembly import assembled
from hamfem.discretization.basis import Basis
from hamfem.discretization.edge_elements import edge_element, face_element
from hamfem.discretization.flux_spaces import legendre_space
from hamfem.discretization.geometry import Cells
from hamfem.domain import Domain

Array = npt.NDArray[Any]


class DeRham:
    """The spaces with P_k in V and W, and the derivatives between them, without any walls.

    Args:
        domain: The mesh.
        k: The degree.
        across: In 2D, whether the field of V stands across the plane.
    """

    def __init__(self, domain: Domain, k: int, across: bool = False) -> None:
        self.domain, self.k, self.across = domain, k, across
        self.tensor = domain.cell in ("quadrilateral", "hexahedron")
        self.V = Basis(self._nodal() if across else self._edges())
        self.W = Basis(self._faces() if across or domain.dim == 3 else self._broken())

    @cached_property
    def S(self) -> Basis | None:
        """The potentials of V's fields without curl; None across the plane, where it has none."""
        return None if self.across else Basis(self._nodal())

    def _nodal(self) -> fem.FunctionSpace:
        return fem.functionspace(self.domain.mesh, ("Lagrange", self.k + 1))

    def _edges(self) -> fem.FunctionSpace:
        cell, k = self.domain.cell, self.k
        element = edge_element(cell, k) if self.tensor else basix.ufl.element("N1curl", cell, k + 1)
        return fem.functionspace(self.domain.mesh, element)

    def _faces(self) -> fem.FunctionSpace:
        cell, k = self.domain.cell, self.k
        element = face_element(cell, k) if self.tensor else basix.ufl.element("RT", cell, k + 1)
        return fem.functionspace(self.domain.mesh, element)

    def _broken(self) -> fem.FunctionSpace:
        # On boxes at the Gauss points, on simplices with orthonormal polynomials: a diagonal mass.
        if self.tensor:
            return self._nodes_inside()
        return legendre_space(self.domain, self.k)

    def _nodes_inside(self) -> fem.FunctionSpace:
        element = basix.ufl.element(
            "Lagrange",
            self.domain.cell,
            self.k,
            lagrange_variant=basix.LagrangeVariant.gl_isaac,
            discontinuous=True,
        )
        return fem.functionspace(self.domain.mesh, element)

    @cached_property
    def curl(self) -> PETSc.Mat:
        """V -> W."""
        return derivative(self.domain, self.V, self.W, _curl)

    @cached_property
    def gradient(self) -> PETSc.Mat:
        """S -> V."""
        assert self.S is not None
        return derivative(self.domain, self.S, self.V, _gradient)

    @cached_property
    def Q(self) -> Basis | None:
        """The divergences of W's fields, by values inside the cells; None if they have none."""
        if self.W.element.value_size == 1:
            return None
        return Basis(self._nodes_inside())

    @cached_property
    def divergence(self) -> PETSc.Mat:
        """W -> Q."""
        assert self.Q is not None
        return derivative(self.domain, self.W, self.Q, _divergence)


def _gradient(table: Array) -> Array:
    """From tables (1 + d, points, functions, 1): (points, functions, d)."""
    return np.moveaxis(table[1:, :, :, 0], 0, -1)


def _curl(table: Array) -> Array:
    """The curl of scalars (2D), vectors of the plane and vectors of space."""
    d = table[1:]
    if d.shape[-1] == 1:
        return np.stack([d[1, ..., 0], -d[0, ..., 0]], axis=-1)
    if d.shape[-1] == 2:
        return (d[0, ..., 1] - d[1, ..., 0])[..., None]
    return np.stack(
        [
            d[1, ..., 2] - d[2, ..., 1],
            d[2, ..., 0] - d[0, ..., 2],
            d[0, ..., 1] - d[1, ..., 0],
        ],
        axis=-1,
    )


def _divergence(table: Array) -> Array:
    """From tables (1 + d, points, functions, d): (points, functions, 1)."""
    return np.einsum("jpfj->pf", table[1:])[..., None]


def derivative(domain: Domain, V: Basis, W: Basis, differentiate: Any) -> PETSc.Mat:
    """The matrix of a derivative that maps V into W and commutes with their Piola maps.

    It is one matrix on the reference cell; dofs that cells share are taken from one of them.
    """
    points = W.element.points
    values = differentiate(V.element.tabulate(1, points))  # (points, functions, components)
    Pi = W.element.interpolation_matrix.reshape(W.element.dim, -1, len(points))
    reference = np.einsum("icp,pjc->ij", Pi, values)
    # u = sum_i u_i T_ij phi_j: coefficients of the reference cell are T'u.
    local = np.linalg.solve(np.swapaxes(W.T, 1, 2), reference @ np.swapaxes(V.T, 1, 2))
    local[np.abs(local) < 1e-13 * np.abs(reference).max()] = 0.0

    count = len(W.V.dofmap.list)
    everywhere = np.arange(count, dtype=np.int32)
    dofs = W.dofs(everywhere)
    owned = W.V.dofmap.index_map.size_local
    found, first = np.unique(dofs, return_index=True)
    first = first[found < owned]
    cells, rows = np.divmod(first, dofs.shape[1])
    entries = local[V.orders(cells), rows]
    if W.element.value_size == 1:  # a density: it is divided by the volume of the cell
        J = np.linalg.inv(Cells(domain, everywhere).at(points[:1], np.ones(1)).inverse)
        entries /= np.linalg.det(J[cells, 0])[:, None]
    columns = V.numbers(cells.astype(np.int32))
    keep = entries != 0.0
    start = W.V.dofmap.index_map.local_range[0]
    numbers = np.broadcast_to((start + found[found < owned])[:, None], entries.shape)
    return assembled(
        domain.comm,
        numbers[keep],
        columns[keep],
        entries[keep],
        owned,
        V.V.dofmap.index_map.size_local,
    )
