"""Sparse matrices from entries that any rank may have."""

from __future__ import annotations

from typing import Any

from mpi4py import MPI
from petsc4py import PETSc

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
    ends = np.cumsum(comm.allgather(local_rows))
    first = ends[comm.rank] - local_rows
    total_columns = comm.allreduce(local_columns)
    owner = np.searchsorted(ends, rows, side="right")
    if comm.size > 1:
        parcels = []
        for rank in range(comm.size):
            theirs = owner == rank if rank != comm.rank else np.zeros(len(rows), bool)
            parcels.append((rows[theirs], columns[theirs], values[theirs]))
        mine = owner == comm.rank
        arrived = comm.alltoall(parcels)
        rows = np.concatenate([rows[mine], *(p[0] for p in arrived)])
        columns = np.concatenate([columns[mine], *(p[1] for p in arrived)])
        values = np.concatenate([values[mine], *(p[2] for p in arrived)])
    A = sp.coo_matrix((values, (rows - first, columns)), shape=(local_rows, total_columns)).tocsr()
    A.sort_indices()
    result = PETSc.Mat().createAIJ(
        ((local_rows, PETSc.DETERMINE), (local_columns, PETSc.DETERMINE)),
        csr=(A.indptr.astype(PETSc.IntType), A.indices.astype(PETSc.IntType), A.data),
        comm=comm,
    )
    result.assemble()
    return result
