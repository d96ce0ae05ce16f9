"""How spaces store their vectors: as coefficients in the reference basis of each cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mpi4py import MPI
from petsc4py import PETSc

import numpy as np
import numpy.typing as npt

from hamfem.layout import Piece
from hamfem.physics.wave import Wave

Array = npt.NDArray[Any]


class CellRows:
    """A row for each cell, in the order in which the mesh was made; a base of the spaces.

    Such rows depend neither on how the mesh is divided nor on the numbering of its vertices, which
    turns edges and faces. Dofs between cells stand in all of their rows.
    """

    wave: Wave

    def cell_rows(self, half: str, x: PETSc.Vec) -> Array:
        """The rows of a vector like q or v, for the cells of this rank."""
        raise NotImplementedError

    def set_cell_rows(self, half: str, rows: Array, x: PETSc.Vec) -> None:
        """The vector with these rows, of all cells that this rank knows."""
        raise NotImplementedError

    def pieces(self, kind: str, x: PETSc.Vec) -> list[Piece]:
        """The rows and, once, the corners of the cells, by which the mesh is known again."""
        if kind not in ("q", "v"):
            return []
        order = self.wave.domain.cell_order
        rows = order.piece("cells", self.cell_rows(kind, x))
        return [rows, order.corners()] if kind == "q" else [rows]

    def restore(self, kind: str, pieces: Sequence[Piece], x: PETSc.Vec) -> None:
        """The vector from its pieces, of the same mesh."""
        domain = self.wave.domain
        order = domain.cell_order
        if kind == "q":
            there, here = pieces[1].values, order.corners().values
            apart = float(np.abs(there - here).max(initial=0.0))
            if domain.comm.allreduce(apart, MPI.MAX) > 1e-9 * self.wave.diameter:
                raise ValueError(
                    "the checkpoint is of another mesh than this run: take the one that it was "
                    "written with."
                )
        self.set_cell_rows(kind, order.rows(pieces[0]), x)
