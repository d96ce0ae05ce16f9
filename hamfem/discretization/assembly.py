"""Sparse matrices from entries that any rank may have."""

from __future__ import annotations

from typing import Any

from mpi4py import MPI
from petsc4py import PETSc

import numba
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp


def offset(comm: Any, count: int) -> int:
    """How many the lower ranks have together."""
    return comm.exscan(count) or 0


def assembled(
    comm: MPI.Comm,
    rows: npt.NDArray,
    columns: npt.NDArray,
    values: npt.NDArray,
    local_rows: int,
    local_columns: int | None = None,
) -> PETSc.Mat:
    """The sum of entries in global numbering; rows of other ranks are sent there first.

    Args:
        comm: The communicator.
        rows: Global row numbers.
        columns: Global column numbers.
        values: The entries; several for one place are added.
        local_rows: How many rows this rank owns.
        local_columns: How many columns; as many as rows if not given.
    """
    if local_columns is None:
        local_columns = local_rows
    rows, columns, values = _sent(comm, rows, columns, values, local_rows)
    shape = (local_rows, comm.allreduce(local_columns))
    A = sp.coo_matrix((values, (rows - offset(comm, local_rows), columns)), shape=shape).tocsr()
    return _petsc(comm, A, local_rows, local_columns)


def diagonal_matrix(comm: MPI.Comm, values: npt.NDArray) -> PETSc.Mat:
    """A diagonal matrix from the entries of each rank."""
    n, first = len(values), offset(comm, len(values))
    A = sp.csr_matrix(
        (values, np.arange(first, first + n), np.arange(n + 1)), shape=(n, comm.allreduce(n))
    )
    return _petsc(comm, A, n, n)


def block_diagonal(
    comm: MPI.Comm, blocks: npt.NDArray, length: int | None = None, start: int = 0
) -> PETSc.Mat:
    """A matrix of the blocks (n, rows, columns) of each rank, one after the other.

    Args:
        comm: The communicator.
        blocks: The blocks.
        length: How many rows and columns this rank has, if more than the blocks take.
        start: Where among them the blocks begin.
    """
    n, r, c = blocks.shape
    local_rows, local_columns = (n * r, n * c) if length is None else (length, length)
    rows = offset(comm, local_rows) + start + np.arange(n * r).reshape(n, r, 1)
    columns = offset(comm, local_columns) + start + np.arange(n * c).reshape(n, 1, c)
    rows, columns = np.broadcast_to(rows, blocks.shape), np.broadcast_to(columns, blocks.shape)
    return assembled(comm, rows.ravel(), columns.ravel(), blocks.ravel(), local_rows, local_columns)


def cell_mass(comm: MPI.Comm, M: npt.NDArray, length: int | None = None) -> PETSc.Mat:
    """The mass of the cells, (cells, n) or (cells, n, n); what `length` has beyond has no mass."""
    if M.ndim == 3:
        return block_diagonal(comm, M, length)
    missing = 0 if length is None else length - M.size
    return diagonal_matrix(comm, np.concatenate([M.reshape(-1), np.zeros(missing)]))


@numba.njit(cache=True)
def _add_blocks(blocks: npt.NDArray, target: npt.NDArray, out: npt.NDArray) -> None:
    """Add each block to its target: numpy would sort copies of all of them."""
    for n in range(len(blocks)):
        for i in range(out.shape[1]):
            for j in range(out.shape[2]):
                out[target[n], i, j] += blocks[n, i, j]


def assembled_blocks(
    comm: MPI.Comm, rows: npt.NDArray, columns: npt.NDArray, blocks: npt.NDArray, local_rows: int
) -> PETSc.Mat:
    """The sum of square blocks (n, size, size) in the global numbering of blocks."""
    size = blocks.shape[1]
    rows, columns, blocks = _sent(comm, rows, columns, blocks, local_rows)
    total = comm.allreduce(local_rows)
    keys = (rows - offset(comm, local_rows)) * total + columns
    places, target = np.unique(keys, return_inverse=True)
    summed: npt.NDArray = np.zeros((len(places), size, size), blocks.dtype)
    _add_blocks(blocks, target, summed)
    indptr = np.searchsorted(places, np.arange(local_rows + 1) * total)
    A = sp.bsr_matrix(
        (summed, places % total, indptr), shape=(local_rows * size, total * size)
    ).tocsr()
    return _petsc(comm, A, local_rows * size, local_rows * size)


def _sent(
    comm: MPI.Comm, rows: npt.NDArray, columns: npt.NDArray, values: npt.NDArray, local_rows: int
) -> tuple[npt.NDArray, npt.NDArray, npt.NDArray]:
    """The entries of the rows that this rank owns, from all ranks."""
    if comm.size == 1:
        return rows, columns, values
    ends = np.cumsum(comm.allgather(local_rows))
    owner = np.searchsorted(ends, rows, side="right")
    parcels = []
    for rank in range(comm.size):
        theirs = owner == rank if rank != comm.rank else np.zeros(len(rows), bool)
        parcels.append((rows[theirs], columns[theirs], values[theirs]))
    mine = owner == comm.rank
    arrived = comm.alltoall(parcels)
    return (
        np.concatenate([rows[mine], *(p[0] for p in arrived)]),
        np.concatenate([columns[mine], *(p[1] for p in arrived)]),
        np.concatenate([values[mine], *(p[2] for p in arrived)]),
    )


def _petsc(comm: MPI.Comm, A: sp.csr_matrix, rows: int, columns: int) -> PETSc.Mat:
    A.sort_indices()
    result = PETSc.Mat().createAIJ(
        ((rows, PETSc.DETERMINE), (columns, PETSc.DETERMINE)),
        csr=(A.indptr.astype(PETSc.IntType), A.indices.astype(PETSc.IntType), A.data),
        comm=comm,
    )
    result.assemble()
    return result
