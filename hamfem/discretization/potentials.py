"""Potentials of fields at rest: 0 or constant along walls, and those that jump at periodic sides.

A field v = grad phi is at rest, and its charge (rho v, grad phi) conserved, if its tangential part
is 0 where v is held or damped: phi is constant on each connected piece of such walls. These are the
charges of the conductors. Where sides are periodic, phi may gain a constant from one to the other:
the mean field.
"""

from __future__ import annotations

from typing import Any

from petsc4py import PETSc

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from hamfem.communicator import lasting
from hamfem.discretization.assembly import assembled
from hamfem.discretization.basis import Basis
from hamfem.discretization.constraints import Constraint
from hamfem.discretization.nodal import owned_vector
from hamfem.discretization.sampling import facet_pairs
from hamfem.discretization.trace import translation
from hamfem.physics.boundary import Periodic
from hamfem.physics.wave import Wave

Array = npt.NDArray[Any]


class Potentials:
    """All potentials of fields at rest, but for a constant if that is one of them.

    Attributes:
        inside: Those that are 0 on walls: all dofs of S x free numbers.
        others: All dofs of the others.
    """

    def __init__(self, S: Basis, wave: Wave, walls: npt.NDArray[np.int32]) -> None:
        self.S, self.wave = S, wave
        self._constraint = Constraint(S, wave, walls)
        self.inside = self._constraint.P
        index_map = S.V.dofmap.index_map
        own = index_map.local_range[0] + np.arange(index_map.size_local)
        self._own = self._constraint.identified(own)
        on_walls = self._on_walls(walls)
        numbers, pieces = _connected(self._constraint.identified(on_walls))
        # On the first piece they are 0.
        self.others = [
            owned_vector(S.V, np.isin(self._own, numbers[pieces == piece]).astype(float))
            for piece in range(1, pieces.max(initial=0) + 1)
        ]
        periodic = [c for c in wave.boundary if isinstance(c, Periodic)]
        for pair, (second, _) in zip(periodic, self._constraint.partners):
            # A wall that goes through both sides has one value there.
            if not np.isin(second, on_walls).any():
                self.others.append(self._jump(pair, numbers, pieces))

    def _on_walls(self, walls: npt.NDArray[np.int32]) -> Array:
        """The global dofs of each facet of the walls, (facets, dofs), of all ranks."""
        S, wave = self.S, self.wave
        pairs = facet_pairs(wave.domain, walls)
        closures = np.array([S.closure(f) for f in range(1 + pairs[:, 1].max(initial=0))])
        of_cells = S.numbers(wave.domain.own_cells[pairs[:, 0]])
        local = np.take_along_axis(of_cells, closures[pairs[:, 1]], axis=1)
        return np.concatenate(wave.domain.comm.allgather(local))

    def _jump(self, pair: Periodic, numbers: Array, pieces: Array) -> PETSc.Vec:
        """The coordinate from one side to the other, made constant on each piece of walls."""
        V, comm = self.S.V, self.wave.domain.comm
        shift = translation(self.wave.domain, pair)
        s = V.tabulate_dof_coordinates()[: len(self._own)] @ shift / (shift @ shift)
        if not len(numbers):
            return owned_vector(V, s)
        place = np.minimum(np.searchsorted(numbers, self._own), len(numbers) - 1)
        on_wall = numbers[place] == self._own
        highest = np.full(1 + pieces.max(), -np.inf)
        np.maximum.at(highest, pieces[place[on_wall]], s[on_wall])
        highest = np.max(comm.allgather(highest), axis=0)
        s[on_wall] = highest[pieces[place[on_wall]]]
        return owned_vector(V, s)


def _connected(facets: Array) -> tuple[Array, Array]:
    """The numbers of the dofs of facets, and which connected piece each of them belongs to."""
    numbers, index = np.unique(facets, return_inverse=True)
    if not len(numbers):
        return numbers, np.empty(0, int)
    n, m = facets.shape
    graph = sp.csr_matrix(
        (np.ones(n * m), (np.repeat(np.arange(n), m), index.ravel())), shape=(n, len(numbers))
    )
    return numbers, connected_components(graph.T @ graph, directed=False)[1]


def side_by_side(A: PETSc.Mat, columns: list[PETSc.Vec]) -> PETSc.Mat:
    """A with more columns, which the first rank owns, after those it has of A."""
    if not columns:
        return A
    comm = lasting(A.comm.tompi4py())
    first, last = A.getOwnershipRange()
    ends = A.getOwnershipRangesColumn()[1:]
    indptr, places, entries = A.getValuesCSR()
    rows = [np.repeat(np.arange(first, last), np.diff(indptr))]
    # What other ranks own of A comes after the new columns.
    numbers = [np.where(places < ends[0], places, places + len(columns))]
    values = [entries]
    for j, column in enumerate(columns):
        kept = np.flatnonzero(np.abs(column.array_r) > 1e-14)
        rows.append(first + kept)
        numbers.append(np.full(len(kept), ends[0] + j))
        values.append(column.array_r[kept])
    width = A.getLocalSize()[1] + (len(columns) if comm.rank == 0 else 0)
    row, number, value = (np.concatenate(p) for p in (rows, numbers, values))
    return assembled(comm, row, number, value, last - first, width)
