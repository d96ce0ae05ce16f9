"""Solvers that fit what a matrix is: inverted, factorised, or iterative."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from mpi4py import MPI
from petsc4py import PETSc

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu

from hamfem import cholesky, matrices
from hamfem.cholesky import Cholesky
from hamfem.communicator import lasting
from hamfem.matrices import combination, gathered, nested

Solve = Callable[[PETSc.Vec, PETSc.Vec], None]
# Blocks up to this size are inverted and stored; a cubic hexahedron has 64.
_LARGEST_BLOCK = 128


def solver(
    A: PETSc.Mat, prefix: str, definite: bool = True, P: PETSc.Mat | None = None
) -> PETSc.KSP | DenseInverse | Cholesky:
    """A solver of A x = r for symmetric A: small matrices are inverted, others factorised.

    On one rank a definite matrix has solves of its own (Cholesky), unless PETSc's options of this
    prefix ask for something else; all others are `factorised` by PETSc.
    """
    krylov = PETSc.Options(prefix).hasName("ksp_type")
    if A.size[0] <= matrices.SMALL and not krylov:
        return DenseInverse(A)
    if definite and cholesky.applies(A) and not PETSc.Options(prefix).getAll():
        # CHOLMOD through PETSc takes LDL' where there is little fill, or says what is wrong.
        with suppress(ArithmeticError):
            return Cholesky(A)
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
    return bool(lasting(A.comm.tompi4py()).allreduce(np.array_equal(rows, indices), MPI.LAND))


def inverse_blocks(M: PETSc.Mat) -> PETSc.Mat | None:
    """The inverse of a block-diagonal matrix, or None if M is not one with small blocks."""
    if M.getType() not in (PETSc.Mat.Type.SEQAIJ, PETSc.Mat.Type.MPIAIJ):
        return None
    comm = lasting(M.comm.tompi4py())
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
    """(P + iQ)(x + iy) = r + is for symmetric P, Q, in a real PETSc.

    On one rank by a complex LU factorisation of the same size, which benchmarks/gauss.py finds to
    be the fastest. Otherwise (or with -prefix_ksp_type preonly) the symmetric real matrix of
    [[P, -Q], [-Q, -P]] (x, y) = (r, -s) is factorised as LDL'; a Krylov method for it is
    preconditioned by S on both halves.

    Args:
        P: The real part.
        Q: The imaginary part.
        prefix: Of PETSc's options.
        S: Positive definite and close to |P + iQ|, where there is such a matrix.
    """

    def __init__(self, P: PETSc.Mat, Q: PETSc.Mat, prefix: str, S: PETSc.Mat | None = None) -> None:
        krylov = PETSc.Options(prefix).hasName("ksp_type")
        self._lu = None
        if S is not None and P.comm.size == 1 and 2 * P.size[0] > matrices.SMALL and not krylov:
            self._lu = _ComplexLU(P, Q)
            return
        minus_Q = combination([(-1.0, Q)])
        A = nested([[P, minus_Q], [minus_Q, combination([(-1.0, P)])]])
        both = None if S is None else nested([[S, None], [None, S]])
        self.solver = solver(A, prefix, definite=False, P=both)
        self._r, self._x = A.createVecRight(), A.createVecRight()

    def __call__(self, r: Sequence[PETSc.Vec], x: Sequence[PETSc.Vec]) -> None:
        """Solve for the real and the imaginary part."""
        if self._lu is not None:
            self._lu(r, x)
            return
        n = r[0].local_size
        with self._r as values:
            values[:n] = r[0].array_r
            values[n:] = -r[1].array_r
        self.solver.solve(self._r, self._x)
        values = self._x.array_r
        with x[0] as real, x[1] as imaginary:
            real[:], imaginary[:] = values[:n], values[n:]


class _ComplexLU:
    """SuperLU after nested dissection; its own orderings fill in 3D beyond all measure."""

    def __init__(self, P: PETSc.Mat, Q: PETSc.Mat) -> None:
        self.order = P.getOrdering(PETSc.Mat.OrderingType.ND)[0].getIndices()
        A = (gathered(P) + 1j * gathered(Q)).tocsr()[self.order][:, self.order]
        # 1 and the shift of a pair lie in one half-plane, so that the matrix is definite up to a
        # complex factor: no pivoting is needed, and the pattern stays symmetric.
        options = {"SymmetricMode": True}
        self.lu = splu(A.tocsc(), permc_spec="NATURAL", diag_pivot_thresh=0.0, options=options)
        self.r = np.empty(P.size[0], complex)

    def __call__(self, r: Sequence[PETSc.Vec], x: Sequence[PETSc.Vec]) -> None:
        self.r.real = r[0].array_r[self.order]
        self.r.imag = r[1].array_r[self.order]
        solution = self.lu.solve(self.r)
        with x[0] as real, x[1] as imaginary:
            real[self.order] = solution.real
            imaginary[self.order] = solution.imag
