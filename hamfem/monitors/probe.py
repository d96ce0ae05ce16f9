"""Values of functions at points."""

from __future__ import annotations

from typing import Any

from mpi4py import MPI

import basix
import numpy as np
import numpy.typing as npt
from dolfinx import geometry

from hamfem.dolfinx_versions import cell_nodes, geometry_degree
from hamfem.domain import Domain
from hamfem.errors import on_root
from hamfem.points import checked_points, refuse_lost

Array = npt.NDArray[np.float64]
# How far outside a point may lie and still be in a cell, in units of the cell.
_ROUNDING = 1e-8
_NOWHERE = np.iinfo(np.int64).max


class Probe:
    """The values of functions at points, on every rank; which cells they are in is found once.

    A point on a border belongs to one cell only: to the first one in the order in which the mesh
    was made, which is the same on any number of ranks, and so are the values of functions that
    jump there.

    Args:
        domain: Where the functions live.
        points: As many coordinates for each point as the domain has dimensions.

    Attributes:
        points: Their coordinates, shape (points, dimension).
    """

    def __init__(self, domain: Domain, points: Any) -> None:
        self._comm, self._mesh = domain.comm, domain.mesh
        self.points = on_root(self._comm, lambda: checked_points(points, domain.dim))
        x = np.zeros((len(self.points), 3))
        x[:, : domain.dim] = self.points
        cells, first = _first_cells(domain, x)
        everywhere = np.empty_like(first)
        self._comm.Allreduce(first, everywhere, MPI.MIN)
        lost = np.flatnonzero(everywhere == _NOWHERE)
        refuse_lost(self.points, lost, "mesh")
        self._here = np.flatnonzero(first == everywhere)
        self._x, self._cells = x[self._here], cells[self._here]

    def __call__(self, f: Any) -> Array:
        """The values of a DOLFINx function, shape (points, components); collective."""
        if f.function_space.mesh.topology._cpp_object is not self._mesh.topology._cpp_object:
            raise ValueError(
                f"the function '{f.name}' lives on another mesh than this probe: make a probe for "
                "its domain."
            )
        values = np.zeros((len(self.points), int(np.prod(f.ufl_shape, dtype=int))))
        if len(self._here):
            values[self._here] = f.eval(self._x, self._cells).reshape(len(self._here), -1)
        self._comm.Allreduce(MPI.IN_PLACE, values)
        return values


def _first_cells(domain: Domain, x: Array) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """The cell of this rank that each point is in, and the number that the cell was made with."""
    mesh, own = domain.mesh, domain.own_cells
    cells, first = np.full(len(x), -1, np.int32), np.full(len(x), _NOWHERE)
    if not len(own):
        return cells, first  # DOLFINx makes no tree of nothing
    padding = _ROUNDING * float(np.abs(mesh.geometry.x).max())
    tree = geometry.bb_tree(mesh, domain.dim, entities=own, padding=padding)
    near = geometry.compute_collisions_points(tree, x)
    candidates, offsets = near.array, near.offsets
    points = np.repeat(np.arange(len(x)), np.diff(offsets))
    inside = _outside(domain, candidates, x[points]) < _ROUNDING
    points, candidates = points[inside], candidates[inside]
    number = np.asarray(mesh.topology.original_cell_index)[candidates]
    np.minimum.at(first, points, number)
    chosen = number == first[points]
    cells[points[chosen]] = candidates[chosen]
    return cells, first


def _outside(domain: Domain, cells: npt.NDArray[np.int32], x: Array) -> Array:
    """How far each point lies outside of its own cell in coordinates of the reference cell.

    They are found by Newton's method, in one step if the cell is affine.
    """
    if not len(cells):
        return np.zeros(0)  # Basix aborts without points
    mesh, dim, kind = domain.mesh, domain.dim, basix.CellType[domain.cell]
    shape = basix.create_element(
        basix.ElementFamily.P, kind, geometry_degree(mesh), basix.LagrangeVariant.gll_warped
    )
    nodes = mesh.geometry.x[cell_nodes(mesh)[cells]][:, :, :dim]
    X = np.tile(basix.geometry(kind).mean(axis=0), (len(cells), 1))
    for _ in range(30):
        table = shape.tabulate(1, X)[..., 0]
        distance = x[:, :dim] - np.einsum("pn,pni->pi", table[0], nodes)
        J = np.einsum("rpn,pni->pir", table[1:], nodes)
        # A point far outside of a curved cell may lead to where J is singular.
        step = np.einsum("pri,pi->pr", np.linalg.pinv(J), distance)
        X = np.clip(X + step, -2, 3)
        if np.abs(step).max(initial=0.0) < 1e-13:
            break
    beyond = -X.min(axis=1)
    simplex = domain.cell in ("interval", "triangle", "tetrahedron")
    return np.maximum(beyond, (X.sum(axis=1) if simplex else X.max(axis=1)) - 1)
