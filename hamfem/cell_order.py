"""Rows of numbers, one for each cell, in the order in which a mesh was made.

DOLFINx divides a mesh among the ranks in another way for each number of them, and not always in the
same way for one; that order stays, and so does the order of the corners of each cell.
"""

from __future__ import annotations

from typing import Any

from mpi4py import MPI
from petsc4py import PETSc

import numpy as np
import numpy.typing as npt
from dolfinx.mesh import Mesh

from hamfem.dolfinx_versions import cell_nodes
from hamfem.layout import Piece

Array = npt.NDArray[Any]


class CellOrder:
    """Between the cells of this rank and its part of that order.

    Args:
        mesh: The mesh.
        comm: Its communicator, or one of the same ranks.
    """

    def __init__(self, mesh: Mesh, comm: MPI.Comm) -> None:
        self._mesh, self._comm = mesh, comm
        index_map = mesh.topology.index_map(mesh.topology.dim)
        self._own, self._count = index_map.size_local, index_map.size_global
        self._numbers = np.asarray(mesh.topology.original_cell_index).astype(PETSc.IntType)
        self._part = tuple(self._count * (comm.rank + s) // comm.size for s in (0, 1))

    def piece(self, name: str, rows: Array) -> Piece:
        """This rank's part of all rows, from those of its own cells, (cells, numbers)."""
        ordered, size = self._ordered(rows.shape[1]), rows.shape[1]
        given = PETSc.Vec().createWithArray(np.ascontiguousarray(rows), comm=PETSc.COMM_SELF)
        scatter = self._scatter(ordered, self._numbers[: self._own], given, size)
        scatter.scatter(given, ordered, mode=PETSc.ScatterMode.REVERSE)
        place = (slice(*self._part), slice(0, size))
        return Piece(name, (self._count, size), place, ordered.array.reshape(-1, size).copy())

    def rows(self, piece: Piece) -> Array:
        """The rows of all cells that this rank knows, those of its neighbours last."""
        size = piece.shape[1]
        ordered = self._ordered(size)
        ordered.array[:] = piece.values.reshape(-1)
        rows = np.zeros((len(self._numbers), size))
        found = PETSc.Vec().createWithArray(rows, comm=PETSc.COMM_SELF)
        self._scatter(ordered, self._numbers, found, size).scatter(ordered, found)
        return rows

    def _ordered(self, size: int) -> PETSc.Vec:
        x = PETSc.Vec().create(self._comm)
        x.setSizes(((self._part[1] - self._part[0]) * size, self._count * size))
        x.setType(PETSc.Vec.Type.STANDARD)
        return x

    def _scatter(
        self, ordered: PETSc.Vec, numbers: Array, local: PETSc.Vec, size: int
    ) -> PETSc.Scatter:
        wanted = PETSc.IS().createBlock(size, numbers, comm=self._comm)
        return PETSc.Scatter().create(ordered, wanted, local, None)

    def corners(self) -> Piece:
        """What tells a mesh from another one: the corners of its cells, each in its order."""
        x = self._mesh.geometry.x[cell_nodes(self._mesh)[: self._own]]
        return self.piece("corners", x.reshape(len(x), -1))
