"""Matrices from numpy, scipy or PETSc, and the solvers that fit what they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mpi4py import MPI
from petsc4py import PETSc

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

Solve = Callable[[PETSc.Vec, PETSc.Vec], None]
# Blocks up to this size are inverted and stored; a cubic hexahedron has 64.
_LARGEST_BLOCK = 128
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
    return sp.vstack(A.comm.tompi4py().allgather(local), format="csr")


def gathered_vector(x: PETSc.Vec) -> npt.NDArray[np.float64]:
    """All entries of a vector, on every rank; for small ones."""
    return np.concatenate(x.comm.tompi4py().allgather(x.array.copy()))


def check_symmetric(A: PETSc.Mat, name: str) -> None:
    """Refuse a matrix with x'Ay != y'Ax, for two vectors without symmetry."""
    if A.size[0] != A.size[1]:
        raise ValueError(f"{name} must be square and is {A.size[0]} x {A.size[1]}.")
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


# ---------------------------------------------------------------- solvers


def solver(
    A: PETSc.Mat, prefix: str, definite: bool = True, P: PETSc.Mat | None = None
) -> PETSc.KSP | DenseInverse:
    """A solver of A x = r for symmetric A: small matrices are inverted, others `factorised`."""
    krylov = PETSc.Options(prefix).hasName("ksp_type")
    if A.size[0] <= SMALL and not krylov:
        return DenseInverse(A)
    return factorised(A, prefix, definite, P)


def factorised(
    A: PETSc.Mat, prefix: str, definite: bool = True, P: PETSc.Mat | None = None
) -> PETSc.KSP:
    """A solver of A x = r for symmetric A, factorised once, and open to PETSc's options.

    By CHOLMOD on one rank, by MUMPS on many and for indefinite matrices. If the user asks for a
    Krylov method (-prefix_ksp_type cg,
    or minres for indefinite matrices), it is preconditioned by algebraic multigrid on P and solves
    to 1e-13, so that invariants are kept.
    """
    krylov = PETSc.Options(prefix).getString("ksp_type", "preonly")
    ksp = PETSc.KSP().create(A.comm)
    ksp.setOptionsPrefix(prefix)
    ksp.setOperators(A, P or A)
    ksp.setErrorIfNotConverged(True)
    A.setOption(PETSc.Mat.Option.SYMMETRIC, True)
    pc = ksp.getPC()
    if krylov != "preonly":
        ksp.setTolerances(rtol=1e-13, atol=0.0, max_it=2000)
        # On the pairs of Gauss methods, PETSc's own multigrid loses its flat iteration counts.
        hypre = PETSc.Sys.hasExternalPackage("hypre")
        pc.setType(PETSc.PC.Type.HYPRE if hypre else PETSc.PC.Type.GAMG)
    else:
        ksp.setType(PETSc.KSP.Type.PREONLY)
        if P is not None:
            ksp.setOperators(A, A)
        pc.setType(PETSc.PC.Type.CHOLESKY)
        if definite:
            A.setOption(PETSc.Mat.Option.SPD, True)
        if definite and A.comm.size == 1:
            pc.setFactorSolverType("cholmod")
        else:
            pc.setFactorSolverType("mumps")
            pc.setFactorSetUpSolverType()
            # MUMPS estimates its workspace, too small by far on small matrices: allow 200 % more.
            pc.getFactorMatrix().setMumpsIcntl(14, 200)
    ksp.setFromOptions()
    try:
        ksp.setUp()
    except PETSc.Error as error:
        raise ValueError(
            f"the matrix of {prefix[:-1]} could not be factorised: is the mass positive definite "
            f"and the stiffness semidefinite? (PETSc's error {error.ierr})"
        ) from error
    return ksp


class DenseInverse:
    """A small matrix, inverted once: faster than the calls of a sparse solver, and less biased.

    The inverse is correct to the last digit (one Newton step in extended precision), so that it has
    the symmetries of the matrix; the order of elimination in a factorisation breaks them, and over
    100 000 steps an invariant of a symmetry sees that.
    """

    def __init__(self, A: PETSc.Mat) -> None:
        full = gathered(A).toarray().astype(np.longdouble)
        X = np.linalg.inv(full.astype(float)).astype(np.longdouble)
        X = (X + X @ (np.eye(len(full)) - full @ X)).astype(float)
        first, last = A.getOwnershipRange()
        own = np.asfortranarray(X[first:last])
        self._mat = PETSc.Mat().createDense(A.sizes, array=own, comm=A.comm)
        self._mat.assemble()

    def solve(self, r: PETSc.Vec, x: PETSc.Vec) -> None:
        """X = A^-1 r."""
        self._mat.mult(r, x)


def inverse(M: PETSc.Mat, prefix: str) -> tuple[Solve, PETSc.Mat | None]:
    """X = M^-1 r by what M is, and M^-1 as a matrix where it is sparse.

    Diagonal and block-diagonal matrices are inverted and multiplied; all others are factorised, or
    solved iteratively if the options say so.
    """
    blocks = inverse_blocks(M)
    if blocks is not None:
        if M.getDiagonal().norm() and is_diagonal(blocks):
            d = blocks.getDiagonal()
            return (lambda r, x: x.pointwiseMult(d, r)), blocks
        return blocks.mult, blocks
    return solver(M, prefix).solve, None


def is_diagonal(A: PETSc.Mat) -> bool:
    """Whether a matrix stores nothing beside its diagonal."""
    if A.getType() not in (PETSc.Mat.Type.SEQAIJ, PETSc.Mat.Type.MPIAIJ):
        return False
    first, last = A.getOwnershipRange()
    indptr, indices, _ = A.getValuesCSR()
    rows = np.repeat(np.arange(first, last), np.diff(indptr))
    return bool(A.comm.tompi4py().allreduce(np.array_equal(rows, indices), MPI.LAND))


def inverse_blocks(M: PETSc.Mat) -> PETSc.Mat | None:
    """The inverse of a block-diagonal matrix, or None if M is not one with small blocks."""
    if M.getType() not in (PETSc.Mat.Type.SEQAIJ, PETSc.Mat.Type.MPIAIJ):
        return None
    comm = M.comm.tompi4py()
    first, last = M.getOwnershipRange()
    n = last - first
    indptr, indices, data = M.getValuesCSR()
    label: npt.NDArray[Any] = np.empty(0, int)
    position: npt.NDArray[Any] = np.empty(0, int)
    size: npt.NDArray[Any] = np.empty(0, int)
    local = len(indices) <= _LARGEST_BLOCK * n
    local = local and bool(np.all((indices >= first) & (indices < last)))
    if local and n:
        pattern = sp.csr_matrix((np.ones(len(data)), indices - first, indptr), shape=(n, n))
        count, label = connected_components(pattern, directed=False)
        size = np.bincount(label, minlength=count)
        order = np.argsort(label, kind="stable")
        position = np.empty(n, int)
        position[order] = np.arange(n) - np.repeat(np.cumsum(size) - size, size)
        local = bool(size.max() <= _LARGEST_BLOCK)
    # One block is no structure to exploit: a small full matrix is factorised like any other.
    if not comm.allreduce(local, MPI.LAND) or comm.allreduce(len(size)) == 1 < M.size[0]:
        return None
    rows = np.repeat(np.arange(n), np.diff(indptr))
    columns = indices - first
    triples = [(np.empty(0, int), np.empty(0, int), np.empty(0))]
    for s in np.unique(size):
        of_size = size == s
        block_number = np.cumsum(of_size) - 1
        dense = np.zeros((of_size.sum(), s, s))
        mine = of_size[label[rows]]
        r, c = rows[mine], columns[mine]
        dense[block_number[label[r]], position[r], position[c]] = data[mine]
        members = np.empty((of_size.sum(), s), int)
        own = np.flatnonzero(of_size[label])
        members[block_number[label[own]], position[own]] = own
        inverted = np.linalg.inv(dense)
        triples.append(
            (
                np.repeat(members, s, axis=1).ravel(),
                np.tile(members, (1, s)).ravel(),
                inverted.ravel(),
            )
        )
    i, j, a = (np.concatenate(part) for part in zip(*triples))
    csr = sp.csr_matrix((a, (i, j)), shape=(n, n))
    csr.sort_indices()
    result = PETSc.Mat().createAIJ(
        size=M.sizes,
        csr=(
            csr.indptr.astype(PETSc.IntType),
            (csr.indices + first).astype(PETSc.IntType),
            csr.data,
        ),
        comm=M.comm,
    )
    result.assemble()
    return result


class PairSolver:
    """(P + iQ)(x + iy) = r + is for symmetric P, Q, in real arithmetic.

    [[P, -Q], [-Q, -P]] (x, y) = (r, -s) is symmetric, so that it is factorised as LDL'; a Krylov
    method is preconditioned by S on both halves, positive definite and close to |P + iQ|.
    """

    def __init__(self, P: PETSc.Mat, Q: PETSc.Mat, prefix: str, S: PETSc.Mat | None = None) -> None:
        minus_Q = combination([(-1.0, Q)])
        A = nested([[P, minus_Q], [minus_Q, combination([(-1.0, P)])]])
        zero = None if S is None else nested([[S, None], [None, S]])
        self._ksp = solver(A, prefix, definite=False, P=zero)
        self._r, self._x = A.createVecRight(), A.createVecRight()

    def __call__(self, r: Sequence[PETSc.Vec], x: Sequence[PETSc.Vec]) -> None:
        """Solve for the real and the imaginary part."""
        n = r[0].local_size
        with self._r as values:
            values[:n] = r[0].array_r
            values[n:] = -r[1].array_r
        self._ksp.solve(self._r, self._x)
        values = self._x.array_r
        with x[0] as real, x[1] as imaginary:
            real[:], imaginary[:] = values[:n], values[n:]
