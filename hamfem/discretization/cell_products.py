"""Products with small matrices, one for each cell, and the traces of the cells' facets.

Matrices are stored by columns, A[cell, column, row]. Real ones are multiplied by kernels/cells.c,
complex ones by numba, whose loops over so few numbers take two to three times as long.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from mpi4py import MPI

import numba
import numpy as np
import numpy.typing as npt

from hamfem import kernels

Array = npt.NDArray[Any]

DECLARATIONS = """
void add_local(long cells, int columns, int n, const double *A, const double *x, double *out);
void add_transposed(long cells, int columns, int n, const double *A, const double *x, double *out);
void add_from_trace(long cells, int facets, int size, int n, const double *A, const int *slots,
                    const double *trace, double *out);
void add_to_trace(long cells, int facets, int size, int n, const double *A, const int *slots,
                  const double *x, double *trace);
void combine(long cells, int facets, int size, int n, const double *D, const double *x,
             const double *A, const int *slots, const double *trace, double *out);
"""


@cache
def _library() -> tuple[Any, Any]:
    return kernels.load("cells", DECLARATIONS, {}, MPI.COMM_SELF)


def by_columns(A: Array) -> Array:
    """The matrices of all cells, stored by columns."""
    return np.ascontiguousarray(np.swapaxes(A, 1, 2))


def add_local(A: Array, x: Array, out: Array) -> None:
    """out_c += A_c x_c in each cell."""
    if np.iscomplexobj(out):
        _add_local(A, x, out)
    else:
        _call("add_local", A.shape, A, x, out)


def add_transposed(A: Array, x: Array, out: Array) -> None:
    """out_c += A_c' x_c in each cell."""
    if np.iscomplexobj(out):
        _add_transposed(A, x, out)
    else:
        _call("add_transposed", A.shape, A, x, out)


def add_from_trace(A: Array, slots: Array, size: int, trace: Array, out: Array) -> None:
    """out_c += A_c m_c with the traces m_c of the cell's facets."""
    if np.iscomplexobj(out):
        _add_from_trace(A, slots, size, trace, out)
    else:
        _call("add_from_trace", (*slots.shape, size, A.shape[2]), A, slots, trace, out)


def add_to_trace(A: Array, slots: Array, size: int, x: Array, trace: Array) -> None:
    """Add A_c' x_c to the traces of each cell's facets."""
    if np.iscomplexobj(trace):
        _add_to_trace(A, slots, size, x, trace)
    else:
        _call("add_to_trace", (*slots.shape, size, A.shape[2]), A, slots, x, trace)


def combine(
    D: Array, x: Array, A: Array, slots: Array, size: int, trace: Array, out: Array
) -> None:
    """out_c = D_c x_c + A_c m_c with square D_c and the traces m_c of the cell's facets."""
    if np.iscomplexobj(out):
        out[:] = 0.0
        _add_local(D, x, out)
        _add_from_trace(A, slots, size, trace, out)
    else:
        _call("combine", (*slots.shape, size, A.shape[2]), D, x, A, slots, trace, out)


def _call(name: str, sizes: tuple[int, ...], *arrays: Array) -> None:
    """Call the kernel, which checks nothing: neither types nor lengths."""
    ffi, lib = _library()
    pointers = []
    for array in arrays:
        kind = "int[]" if array.dtype == np.int32 else "double[]"
        if kind == "double[]" and array.dtype != np.float64:
            raise TypeError(f"{name} takes real numbers and got {array.dtype}.")
        pointers.append(ffi.from_buffer(kind, array))
    getattr(lib, name)(*sizes, *pointers)


# ---------------------------------------------------------------- complex numbers

_OPTIONS = {"cache": True, "fastmath": {"reassoc", "contract", "nsz"}, "nogil": True}


@numba.njit(**_OPTIONS)
def _add_local(A: Array, x: Array, out: Array) -> None:
    """out_c += A_c x_c in each cell, for A stored by columns: A[c, j, i]."""
    cells, m, n = A.shape
    for c in range(cells):
        for j in range(m):
            xj = x[c, j]
            for i in range(n):
                out[c, i] += A[c, j, i] * xj


@numba.njit(**_OPTIONS)
def _add_transposed(A: Array, x: Array, out: Array) -> None:
    """out_c += A_c' x_c in each cell, for A stored by columns."""
    cells, m, n = A.shape
    for c in range(cells):
        for j in range(m):
            s = A[c, j, 0] * x[c, 0]
            for i in range(1, n):
                s += A[c, j, i] * x[c, i]
            out[c, j] += s


@numba.njit(**_OPTIONS)
def _add_from_trace(A: Array, slots: Array, size: int, trace: Array, out: Array) -> None:
    """out_c += A_c m_c with the traces m_c of the cell's facets."""
    cells, _, n = A.shape
    for c in range(cells):
        for f in range(slots.shape[1]):
            start = slots[c, f] * size
            for j in range(size):
                t = trace[start + j]
                for i in range(n):
                    out[c, i] += A[c, f * size + j, i] * t


@numba.njit(**_OPTIONS)
def _add_to_trace(A: Array, slots: Array, size: int, x: Array, trace: Array) -> None:
    """Add A_c' x_c to the traces of each cell's facets."""
    cells, _, n = A.shape
    for c in range(cells):
        for f in range(slots.shape[1]):
            start = slots[c, f] * size
            for j in range(size):
                s = A[c, f * size + j, 0] * x[c, 0]
                for i in range(1, n):
                    s += A[c, f * size + j, i] * x[c, i]
                trace[start + j] += s
