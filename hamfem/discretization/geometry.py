"""The cells of this rank and their facets: quadrature points, Jacobians, normals."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mpi4py import MPI

import basix
import numpy as np
import numpy.typing as npt

from hamfem.dolfinx_versions import cell_nodes, geometry_degree
from hamfem.domain import Domain

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int32]

# A direction in which no two vertices of a facet of a structured mesh are equally far; the order of
# the vertices along it is the same for a facet and its translate.
_DIRECTION = np.array([1.0, np.sqrt(2.0), np.sqrt(3.0)])


@dataclass(frozen=True)
class Points:
    """Quadrature on each cell, or on one facet of each cell.

    Attributes:
        X: Reference points, shape (points, dim).
        x: The points in space, shape (cells, points, dim).
        weights: Weights times the measure, shape (cells, points).
        inverse: The inverse Jacobians, shape (cells, points or 1, dim, dim).
        normals: The outward normals of a facet, shape (cells, points or 1, dim); None in cells.
    """

    X: Array
    x: Array
    weights: Array
    inverse: Array
    normals: Array | None = None


class Cells:
    """The cells that this rank owns, or some of them."""

    def __init__(self, domain: Domain, cells: Integers | None = None) -> None:
        mesh, dim = domain.mesh, domain.dim
        self.domain, self.dim = domain, dim
        self.type = basix.CellType[domain.cell]
        if cells is None:
            cells = domain.own_cells
        self.cells = cells
        self.nodes = mesh.geometry.x[cell_nodes(mesh)[cells]][:, :, :dim]
        self._map = basix.create_element(
            basix.ElementFamily.P,
            self.type,
            geometry_degree(mesh),
            basix.LagrangeVariant.gll_warped,
        )
        self._simplex = domain.cell in ("interval", "triangle", "tetrahedron")
        self._straight = self._simplex and geometry_degree(mesh) == 1

    def __len__(self) -> int:
        return len(self.cells)

    @cached_property
    def affine(self) -> bool:
        """Whether the Jacobian is constant in every cell, on every rank."""
        local = True
        if not self._straight:
            J = self._jacobian(basix.geometry(self.type))
            scale = np.abs(J).max(axis=(1, 2, 3), initial=0.0)
            local = bool(np.all(np.abs(J - J[:, :1]).max(axis=(1, 2, 3), initial=0) < 1e-9 * scale))
        return self.domain.comm.allreduce(local, MPI.LAND)

    def _jacobian(self, X: Array) -> Array:
        table = self._map.tabulate(1, X)[1 : 1 + self.dim, :, :, 0]  # (dim, points, nodes)
        if self._straight:
            table = table[:, :1]
        return np.einsum("rpk,ckj->cpjr", table, self.nodes, optimize=True)

    def volume(self, degree: int) -> Points:
        """Quadrature of the given degree on the cells."""
        X, w = basix.make_quadrature(self.type, degree)
        return self.at(X, w)

    def at(self, X: Array, w: Array) -> Points:
        """The reference points X with the weights w on the cells."""
        J = self._jacobian(X)
        table = self._map.tabulate(0, X)[0, :, :, 0]
        x = np.matmul(table, self.nodes)
        weights = np.abs(np.linalg.det(J)) * w
        return Points(X, x, weights, np.linalg.inv(J))

    @property
    def facet_type(self) -> basix.CellType:
        """The shape of the facets."""
        return basix.cell.subentity_types(self.type)[self.dim - 1][0]

    @property
    def facet_count(self) -> int:
        """The number of facets of a cell."""
        return len(basix.topology(self.type)[self.dim - 1])

    def facet(
        self, f: int, degree: int, rule: basix.QuadratureType = basix.QuadratureType.default
    ) -> Points:
        """Quadrature of the given degree on facet f of each cell."""
        if self.dim == 1:
            s, w = np.zeros((1, 0)), np.ones(1)
        else:
            s, w = basix.make_quadrature(self.facet_type, degree, rule)
        corners = basix.geometry(self.type)[basix.topology(self.type)[self.dim - 1][f]]
        tangents = corners[1 : self.dim] - corners[0]
        X = corners[0] + s @ tangents
        if self.dim == 1:
            area = 1.0
        elif self.dim == 2:
            area = float(np.linalg.norm(tangents[0]))
        else:
            area = float(np.linalg.norm(np.cross(tangents[0], tangents[1])))
        normal = area * basix.cell.facet_outward_normals(self.type)[f]
        J = self._jacobian(X)
        inverse = np.linalg.inv(J)
        # Nanson: n da = det(J) J^-T N dA
        n = np.einsum("cprj,r->cpj", inverse, normal) * np.abs(np.linalg.det(J))[..., None]
        measure = np.linalg.norm(n, axis=-1)
        table = self._map.tabulate(0, X)[0, :, :, 0]
        x = np.matmul(table, self.nodes)
        return Points(X, x, measure * w, inverse, n / measure[..., None])

    def orientation(self, f: int) -> Integers:
        """How facet f of each cell lies to the facet's own coordinates, as a number.

        The facet's own coordinates begin at the vertex that is first along a fixed direction, so
        that both cells of a facet, and a facet and its translate, agree on them.
        """
        count = len(self.cells)
        if self.dim == 1:
            return np.zeros(count, np.int32)
        vertices = basix.topology(self.type)[self.dim - 1][f]
        corners = self._map.tabulate(0, basix.geometry(self.type)[vertices])[0, :, :, 0]
        x = np.matmul(corners, self.nodes)
        keys = x @ _DIRECTION[: self.dim]
        if len(vertices) == 2:
            return (keys[:, 0] > keys[:, 1]).astype(np.int32)
        if len(vertices) == 3:
            order = np.argsort(keys, axis=1)
            return (2 * order[:, 0] + (order[:, 1] > order[:, 2])).astype(np.int32)
        first = np.argmin(keys, axis=1)
        rows = np.arange(count)
        return (2 * first + (keys[rows, first ^ 2] < keys[rows, first ^ 1])).astype(np.int32)

    def own_coordinates(self, degree: int) -> Array:
        """The quadrature points of `facet` in a facet's own coordinates, for each orientation."""
        if self.dim == 1:
            return np.zeros((1, 1, 0))
        s, _ = basix.make_quadrature(self.facet_type, degree)
        if self.dim == 2:
            return np.stack([s, 1 - s])
        if self.facet_type == basix.CellType.triangle:
            barycentric = np.column_stack([1 - s.sum(axis=1), s])
            result = []
            for first in range(3):
                others = [i for i in range(3) if i != first]
                for second, third in (others, others[::-1]):
                    result.append(barycentric[:, [second, third]])
            return np.stack(result)
        result = []
        for first in range(4):
            flipped = np.column_stack(
                [1 - s[:, 0] if first & 1 else s[:, 0], 1 - s[:, 1] if first & 2 else s[:, 1]]
            )
            result += [flipped, flipped[:, ::-1]]
        return np.stack(result)


def tangents(normals: Array) -> Array:
    """Orthonormal tangents at normals (n, p, d): (n, p, d - 1, d), the same from both sides."""
    key = normals @ _DIRECTION[: normals.shape[-1]]
    normals = normals * np.where(np.round(key, 6) >= 0, 1.0, -1.0)[..., None]
    if normals.shape[-1] == 2:
        return np.stack([-normals[..., 1], normals[..., 0]], axis=-1)[..., None, :]
    smallest = np.argmin(np.round(np.abs(normals), 6), axis=-1)  # rounded: no ties by round-off
    first = np.cross(normals, np.eye(3)[smallest])
    first /= np.linalg.norm(first, axis=-1, keepdims=True)
    return np.stack([first, np.cross(normals, first)], axis=-2)
