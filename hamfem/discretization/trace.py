"""The unknowns on the facets: one block for each facet, shared by its cells and by the ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from mpi4py import MPI
from petsc4py import PETSc

import basix
import numpy as np
import numpy.typing as npt
from dolfinx import la
from dolfinx.mesh import compute_midpoints
from scipy.spatial import cKDTree

from hamfem.discretization.assembly import assembled_blocks, offset
from hamfem.domain import Domain
from hamfem.physics.boundary import Condition, Periodic

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int32]


class Trace:
    """A numbering of facet blocks of `size` numbers: unknown ones first, then the known ones.

    On each rank the blocks that its own cells touch stand in one array: those that it owns, those
    that other ranks own, and those whose value is known (on sides with prescribed values), which
    belong to the rank of their cell and are not numbered over the ranks.

    Attributes:
        slots: For each facet of each own cell, its place in the array, in blocks.
        known: For the known blocks in their order, (cell, facet of the cell).
    """

    def __init__(
        self, domain: Domain, size: int, known: Integers, conditions: Sequence[Condition] = ()
    ) -> None:
        topology, dim = domain.mesh.topology, domain.dim
        topology.create_connectivity(dim, dim - 1)
        topology.create_connectivity(dim - 1, dim)
        index_map = topology.index_map(dim - 1)
        owned, facets = index_map.size_local, index_map.size_local + index_map.num_ghosts
        of_cell = facets_of_cells(domain)
        self.comm, self.size = domain.comm, size

        is_known = np.zeros(facets, bool)
        is_known[known] = True
        partner = _partners(domain, conditions)
        unknown = ~is_known
        unknown[list(partner)] = False
        count = int(unknown[:owned].sum())
        first = offset(self.comm, count)
        numbers = la.vector(index_map, 1, dtype=np.int64)
        numbers.array[:] = -1
        numbers.array[:owned][unknown[:owned]] = first + np.arange(count)
        numbers.scatter_forward()
        number = numbers.array.copy()
        number[is_known] = -1
        _number_partners(domain, partner, number, owned)

        touched = number[of_cell]  # (cells, facets of a cell)
        own = (touched >= first) & (touched < first + count)
        ghosts = np.unique(touched[(touched >= 0) & ~own])
        self.blocks, self.first = count, first
        self.ghosts = ghosts
        self.known = np.argwhere(touched < 0).astype(np.int32)
        slots = np.empty(touched.shape, np.int64)
        slots[own] = touched[own] - first
        foreign = (touched >= 0) & ~own
        slots[foreign] = count + np.searchsorted(ghosts, touched[foreign])
        slots[touched < 0] = count + len(ghosts) + np.arange(len(self.known))
        self.slots = np.ascontiguousarray(slots.astype(np.int32))
        self.total = self.comm.allreduce(count)
        dofs = (ghosts[:, None] * size + np.arange(size)).ravel().astype(PETSc.IntType)
        self._ghosted = PETSc.Vec().createGhost(
            dofs, (count * size, PETSc.DETERMINE), comm=self.comm
        )
        self._touched = touched

    @property
    def length(self) -> int:
        """The length of the array of all blocks on this rank."""
        return (self.blocks + len(self.ghosts) + len(self.known)) * self.size

    @property
    def unknowns(self) -> int:
        """The number of entries of the array that are not known."""
        return (self.blocks + len(self.ghosts)) * self.size

    def vector(self) -> PETSc.Vec:
        """A vector of the unknowns, with room for those of other ranks."""
        return self._ghosted.duplicate()

    def gather(self, x: PETSc.Vec, out: npt.NDArray) -> None:
        """Write the unknowns x into the array `out`; the known part stays."""
        x.ghostUpdate(PETSc.InsertMode.INSERT, PETSc.ScatterMode.FORWARD)
        with x.localForm() as local:
            out[: self.unknowns] = local.array_r

    def scatter(self, array: npt.NDArray, out: PETSc.Vec) -> None:
        """Add up what the ranks have in their arrays; the known part is left out."""
        with out.localForm() as local:
            local.array[:] = array[: self.unknowns]
        out.ghostUpdate(PETSc.InsertMode.ADD, PETSc.ScatterMode.REVERSE)

    def places(self, slots: Integers) -> Integers:
        """Where the numbers of the blocks at `slots` stand in the array: (n, numbers)."""
        numbers = slots[..., None] * self.size + np.arange(self.size)
        return numbers.reshape(len(slots), math.prod(numbers.shape[1:]))

    def numbers(self) -> npt.NDArray[np.int64]:
        """The global numbers of the unknowns of each cell, -1 for known ones: (cells, m)."""
        dofs = self._touched[:, :, None] * self.size + np.arange(self.size)
        return np.where(self._touched[:, :, None] >= 0, dofs, -1).reshape(len(dofs), -1)

    def matrix(self, blocks: npt.NDArray) -> PETSc.Mat:
        """The matrix of the unknowns from the cells' blocks, shape (cells, m, m)."""
        cells, facets = self._touched.shape
        rows = np.repeat(self._touched, facets, axis=1).ravel()
        columns = np.tile(self._touched, (1, facets)).ravel()
        keep = np.flatnonzero((rows >= 0) & (columns >= 0))
        shape = (cells, facets, self.size, facets, self.size)
        pairs = blocks.reshape(shape).transpose(0, 1, 3, 2, 4)
        cell, place = np.divmod(keep, facets * facets)
        pairs = pairs[cell, place // facets, place % facets]
        return assembled_blocks(self.comm, rows[keep], columns[keep], pairs, self.blocks)


def facets_of_cells(domain: Domain) -> Integers:
    """The facets of each cell of this rank, shape (cells, facets of a cell)."""
    topology, dim = domain.mesh.topology, domain.dim
    topology.create_connectivity(dim, dim - 1)
    per_cell = len(basix.topology(basix.CellType[domain.cell])[dim - 1])
    table = topology.connectivity(dim, dim - 1).array.reshape(-1, per_cell)
    return table[: topology.index_map(dim).size_local]


def _partners(domain: Domain, conditions: Sequence[Condition]) -> dict[int, Array]:
    """Facet of this rank on the second side of a periodic pair -> the midpoint of its partner."""
    partners: dict[int, Array] = {}
    mesh, dim = domain.mesh, domain.dim
    for condition in conditions:
        if not isinstance(condition, Periodic):
            continue
        shift = translation(domain, condition)
        facets = domain.facets(condition.second)
        if len(facets):
            middle = compute_midpoints(mesh, dim - 1, facets)
            partners.update((int(f), x) for f, x in zip(facets, middle - shift))
    return partners


def translation(domain: Domain, condition: Periodic) -> Array:
    """The vector from the first side of a periodic pair to the second."""
    mesh, dim, comm = domain.mesh, domain.dim, domain.comm
    owned = mesh.topology.index_map(dim - 1).size_local
    sums = []
    for name in condition.names:
        facets = domain.facets(name)
        facets = facets[facets < owned]
        middle = compute_midpoints(mesh, dim - 1, facets) if len(facets) else np.empty((0, 3))
        sums.append((comm.allreduce(len(facets)), comm.allreduce(middle.sum(axis=0))))
    (n_a, a), (n_b, b) = sums
    if n_a != n_b:
        raise ValueError(
            f"periodic sides must be translates of each other: '{condition.first}' has {n_a} "
            f"facets and '{condition.second}' {n_b}."
        )
    return b / n_b - a / n_a


def _number_partners(
    domain: Domain, partner: dict[int, Array], number: npt.NDArray[np.int64], owned: int
) -> None:
    """Give the facets on second sides the numbers of their partners, wherever those live."""
    mesh, dim, comm = domain.mesh, domain.dim, domain.comm
    if not comm.allreduce(len(partner)):
        return
    mine = np.flatnonzero(number[:owned] >= 0).astype(np.int32)
    middle = compute_midpoints(mesh, dim - 1, mine) if len(mine) else np.empty((0, 3))
    # Only the facets on the boundary matter; they are few, and every rank may know them all.
    boundary = np.isin(mine, _boundary(domain))
    points = np.concatenate(comm.allgather(middle[boundary]))
    numbers = np.concatenate(comm.allgather(number[mine[boundary]]))
    scale = np.ptp(points, axis=0).max() if len(points) else 1.0
    far = 0.0
    if partner:
        distance, index = cKDTree(points).query(np.array(list(partner.values())))
        far = float(distance.max())
        number[list(partner)] = numbers[index]
    if comm.allreduce(far, MPI.MAX) > 1e-6 * scale:
        raise ValueError(
            "periodic sides must be translates of each other: a facet of the second side has no "
            "partner on the first."
        )


def _boundary(domain: Domain) -> Integers:
    from dolfinx.mesh import exterior_facet_indices

    return exterior_facet_indices(domain.mesh.topology)
