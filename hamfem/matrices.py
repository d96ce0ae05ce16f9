"""Matrices and vectors from numpy, scipy or PETSc, and what is asked of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mpi4py import MPI
from petsc4py import PETSc

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hamfem.communicator import lasting

# Up to this size, dense eigenvalues cost nothing.
SMALL = 100


def as_petsc(A: Any, name: str, comm: MPI.Comm | None = None) -> PETSc.Mat:
    """A PETSc matrix from a PETSc, scipy.sparse or numpy one; rows are spread over the ranks."""
    if isinstance(A, PETSc.Mat):
        return A
    A = sp.csr_matrix(np.atleast_2d(A) if not sp.issparse(A) else A, dtype=float)
    if not np.all(np.isfinite(A.data)):
        raise ValueError(f"the matrix {name} has entries that are NaN or infinite.")
    mat = PETSc.Mat().create(comm or MPI.COMM_WORLD)
    mat.setSizes(A.shape)
    mat.setType(PETSc.Mat.Type.AIJ)
    mat.setUp()
    first, last = mat.getOwnershipRange()
    own = A[first:last]
    mat.setPreallocationCSR((own.indptr.astype(PETSc.IntType), own.indices.astype(PETSc.IntType)))
    mat.setValuesCSR(own.indptr.astype(PETSc.IntType), own.indices.astype(PETSc.IntType), own.data)
    mat.assemble()
    return mat


def as_vector(data: Any, template: PETSc.Vec, name: str) -> PETSc.Vec:
    """A new vector like `template` from a Vec, from all its entries, or from 0."""
    x = template.duplicate()
    if isinstance(data, PETSc.Vec):
        if data.sizes != x.sizes:
            raise ValueError(f"{name} has {data.size} entries and the system {x.size}.")
        data.copy(x)
        return x
    values = np.asarray(data, dtype=float)
    if values.ndim > 1 or values.size not in (1, x.size):
        raise ValueError(f"{name} has shape {values.shape} and the system {x.size} unknowns.")
    first, last = x.getOwnershipRange()
    x.array[:] = np.broadcast_to(values, x.size)[first:last]
    return x


def gathered(A: PETSc.Mat) -> sp.csr_matrix:
    """All rows of a matrix, on every rank; for small ones."""
    indptr, indices, data = A.getValuesCSR()
    local = sp.csr_matrix((data, indices, indptr), shape=(len(indptr) - 1, A.size[1]))
    return sp.vstack(lasting(A.comm.tompi4py()).allgather(local), format="csr")


def gathered_vector(x: PETSc.Vec) -> npt.NDArray[np.float64]:
    """All entries of a vector, on every rank; for small ones."""
    return np.concatenate(lasting(x.comm.tompi4py()).allgather(x.array.copy()))


def check_symmetric(A: PETSc.Mat, name: str) -> None:
    """Refuse a matrix with x'Ay != y'Ax, for two vectors without symmetry."""
    if A.size[0] != A.size[1]:
        raise ValueError(f"{name} must be square and is {A.size[0]} x {A.size[1]}.")
    if A.isSymmetricKnown() == (True, True) and A.getType() == PETSc.Mat.Type.PYTHON:
        return  # a discretization says so, and to apply it may need what is not yet factorised
    x, y = generic_vector(A, 1.0), generic_vector(A, 2.0)
    Ax, Ay = A.createVecLeft(), A.createVecLeft()
    A.mult(x, Ax)
    A.mult(y, Ay)
    scale = max(x.norm() * Ay.norm(), y.norm() * Ax.norm())
    if not np.isfinite(scale):
        raise ValueError(f"the matrix {name} has entries that are NaN or infinite.")
    if abs(x.dot(Ay) - y.dot(Ax)) > 1e-10 * scale:
        raise ValueError(f"{name} must be symmetric and is not: x'{name}y differs from y'{name}x.")


def check_positive(M: PETSc.Mat, name: str) -> None:
    """Refuse a mass matrix that is not positive definite; if it is large, by its diagonal."""
    if not M.getDiagonal().min()[1] > 0:
        raise ValueError(f"{name} must be positive definite: its diagonal is not positive.")
    if M.getType() == PETSc.Mat.Type.PYTHON:
        return
    if M.size[0] <= SMALL and not np.linalg.eigvalsh(gathered(M).toarray())[0] > 0:
        raise ValueError(f"{name} must be positive definite: it has a negative eigenvalue.")


def generic_vector(like: PETSc.Mat | PETSc.Vec, seed: float) -> PETSc.Vec:
    """A vector whose entries depend on their global number only, in no symmetry class."""
    x = like.createVecRight() if isinstance(like, PETSc.Mat) else like.duplicate()
    first, last = x.getOwnershipRange()
    x.array[:] = np.sin(seed + np.arange(first, last) * (12.9898 + seed))
    return x


def combination(terms: Sequence[tuple[float, PETSc.Mat | None]]) -> PETSc.Mat:
    """The sum of the matrices times their factors, as a new matrix; the first is there."""
    factor, A = terms[0]
    assert A is not None
    result = A.copy()
    result.scale(factor)
    for factor, B in terms[1:]:
        if B is not None and factor != 0.0:
            result.axpy(factor, B, structure=PETSc.Mat.Structure.DIFFERENT_NONZERO_PATTERN)
    return result


def nested(blocks: list[list[PETSc.Mat | None]]) -> PETSc.Mat:
    """One assembled matrix of the blocks; on every rank the local parts stand side by side."""
    comm = next(A.comm for A in blocks[0] if A is not None)
    return PETSc.Mat().createNest(blocks, comm=comm).convert(PETSc.Mat.Type.AIJ)
