"""A = P'L L'P on one rank, with solves of our own: kernels/cholesky.c says why."""

from __future__ import annotations

from functools import cache
from typing import Any

from mpi4py import MPI
from petsc4py import PETSc

import numpy as np

from hamfem import kernels

DECLARATIONS = """
void *factorise(int n, int *indptr, int *indices, double *values);
void release(void *F);
double entries(void *F);
void solve(void *F, const double *r, double *x);
"""


@cache
def library() -> tuple[Any, Any] | None:
    """The kernel, or None where CHOLMOD's headers are not installed."""
    try:
        return kernels.load("cholesky", DECLARATIONS, {}, MPI.COMM_SELF, ("cholmod",))
    except RuntimeError:
        return None


def applies(A: PETSc.Mat) -> bool:
    """Whether A is a matrix of one rank with its entries, and the kernel is there."""
    return A.getType() == PETSc.Mat.Type.SEQAIJ and library() is not None


class Cholesky:
    """Solves A x = r for a symmetric positive definite A, factorised once.

    Against CHOLMOD through PETSc, a solve takes 0.6 of the time in 2D and 0.8 in 3D.

    Raises:
        ArithmeticError: A could not be factorised.
    """

    def __init__(self, A: PETSc.Mat) -> None:
        found = library()
        assert found is not None
        self._ffi, self._lib = found
        indptr, indices, values = A.getValuesCSR()
        F = self._lib.factorise(
            A.size[0],
            self._ffi.from_buffer("int[]", indptr.astype(np.int32, copy=False)),
            self._ffi.from_buffer("int[]", indices.astype(np.int32, copy=False)),
            self._ffi.from_buffer("double[]", values),
        )
        if F == self._ffi.NULL:
            raise ArithmeticError("the matrix is not positive definite, or memory has run out.")
        self._factor = self._ffi.gc(F, self._lib.release)

    @property
    def entries(self) -> float:
        """How many numbers L holds."""
        return self._lib.entries(self._factor)

    def solve(self, r: PETSc.Vec, x: PETSc.Vec) -> None:
        """X = A^-1 r."""
        from_buffer = self._ffi.from_buffer
        with x as values:
            self._lib.solve(
                self._factor, from_buffer("double[]", r.array_r), from_buffer("double[]", values)
            )
