"""Static condensation onto the trace: batched elimination in the cells, one sparse solve for all.

A hybridised method has, in each cell, a displacement u and the traces l of its facets, coupled by
X = [[X_uu, X_ul], [X_lu, X_ll]]. The solver here finds the k and the trace m of

    M k + X_uu (Q + c k) + X_ul m = f,     sum over cells of X_lu (Q + c k) + X_ll m = g.

With A = M + c X_uu and E = -A^-1 X_ul in each cell this is

    (sum over cells of X_ll + c X_lu E) m = g + E'(M Q + c f),    k = A^-1 (f - X_uu Q) + E m:

one solve for the trace, and products with small matrices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hamfem.discretization.cell_products import add_local, add_to_trace, by_columns, combine
from hamfem.discretization.trace import Trace
from hamfem.solvers import PairSolver, solver

Array = npt.NDArray[Any]
_BATCH = 512


class TraceSolver:
    """Solves with the condensed matrix, real or complex, between arrays of all blocks of a rank."""

    def __init__(self, trace: Trace, blocks: Array, absolute: Array | None = None) -> None:
        self.trace = trace
        self.complex = np.iscomplexobj(blocks)
        if not trace.total:
            return
        if self.complex:
            P, Q = trace.matrix(blocks.real), trace.matrix(blocks.imag)
            S = None if absolute is None else trace.matrix(absolute)
            self._pair = PairSolver(P, Q, "hamfem_pair_", S)
        else:
            self._solver = solver(trace.matrix(blocks), "hamfem_trace_")
        count = 2 if self.complex else 1
        self._r = [trace.vector() for _ in range(count)]
        self._x = [trace.vector() for _ in range(count)]

    def __call__(self, r: Array, out: Array) -> None:
        """Sum r over the ranks, solve, and write the unknown part of `out`."""
        trace = self.trace
        if not trace.total:
            return
        if not self.complex:
            trace.scatter(r, self._r[0])
            self._solver.solve(self._r[0], self._x[0])
            trace.gather(self._x[0], out)
            return
        trace.scatter(r.real, self._r[0])
        trace.scatter(r.imag, self._r[1])
        self._pair(self._r, self._x)
        trace.gather(self._x[0], out.real)
        trace.gather(self._x[1], out.imag)


class CondensedSolver:
    """The k and m of the equations above, for real or complex c.

    Args:
        trace: The numbering of the facets.
        M: (cells, n) for a diagonal mass, else (cells, n, n).
        X: The blocks X_uu, X_ul, X_ll.
        c: The shift.
        absolute: The blocks X_uu, X_ul, X_ll and the shift of a positive definite neighbour, by
            which a Krylov method for complex c is preconditioned.
        loaded: Whether there will ever be an f.
    """

    def __init__(
        self,
        trace: Trace,
        M: Array,
        X: Sequence[Array],
        c: complex,
        absolute: tuple[Sequence[Array], float] | None = None,
        loaded: bool = True,
    ) -> None:
        self.trace, self.M = trace, M
        self.c = c.real if not c.imag and not np.iscomplexobj(X[0]) else c
        cells, n, m = X[1].shape
        self.dtype = np.result_type(M, *X, self.c)
        # By columns; the inverse is symmetric.
        self.minus_D = np.empty((cells, n, n), self.dtype)
        self.E = np.empty((cells, m, n), self.dtype)
        self.inverse = np.empty((cells, n, n), self.dtype) if loaded else None
        S = np.empty((cells, m, m), self.dtype)
        for part in _batches(cells):
            D, E, S[part], inverse = _condensed(M[part], [x[part] for x in X], self.c)
            np.negative(np.swapaxes(D, 1, 2), out=self.minus_D[part])
            self.E[part] = np.swapaxes(E, 1, 2)
            if self.inverse is not None:
                self.inverse[part] = inverse
        neighbour = None
        if absolute is not None and np.iscomplexobj(S):
            neighbour = np.empty((cells, m, m))
            for part in _batches(cells):
                near = [x[part] for x in absolute[0]]
                neighbour[part] = _condensed(M[part], near, absolute[1])[2]
        # In a first-order system a negative coefficient of a method makes S negative definite.
        self._negative = not np.iscomplexobj(S) and c.real < 0
        self.solve = TraceSolver(trace, -S if self._negative else S, neighbour)
        self._r = np.zeros(trace.length, self.dtype)
        self._y = np.empty((cells, n), self.dtype)

    def __call__(self, Q: Array, f: Array | None, g: Array | None, k: Array, m: Array) -> None:
        """Find k and m from Q, f, g; m must be 0 on the known facets, whose data are loads."""
        trace, y = self.trace, self._y
        if self.M.ndim == 2:
            np.multiply(self.M, Q, out=y)
        else:
            np.matmul(self.M, Q[..., None], out=y[..., None])
        if f is not None:
            np.multiply(f, self.c, out=k)
            y += k
        self._r[:] = 0.0 if g is None else g
        add_to_trace(self.E, trace.slots, trace.size, y, self._r)
        if self._negative:
            np.negative(self._r, out=self._r)
        self.solve(self._r, m)
        combine(self.minus_D, Q, self.E, trace.slots, trace.size, m, k)
        if f is not None:
            assert self.inverse is not None
            add_local(self.inverse, f, k)


def _batches(cells: int) -> Iterator[slice]:
    """The cells in batches whose matrices fit into the cache: no temporaries of all cells."""
    return (slice(start, start + _BATCH) for start in range(0, cells, _BATCH))


def _condensed(M: Array, X: Sequence[Array], c: complex) -> tuple[Array, Array, Array, Array]:
    """A^-1 X_uu, -A^-1 X_ul, the condensed X_ll + c X_lu E, and A^-1 (symmetric), per cell."""
    X_uu, X_ul, X_ll = X
    A = c * X_uu
    if M.ndim == 2:
        i = np.arange(A.shape[1])
        A[:, i, i] += M
    else:
        A += M
    inverse = np.linalg.inv(A)
    E = -np.matmul(inverse, X_ul)
    S = X_ll + c * np.matmul(np.swapaxes(X_ul, 1, 2), E)
    S = (S + np.swapaxes(S, 1, 2)) / 2
    return np.matmul(inverse, X_uu), E, S, inverse


class CondensedStiffness:
    """K u = X_uu u + X_ul m with the trace m of X_lu u + X_ll m = g on all unknown facets."""

    def __init__(self, trace: Trace, X: Sequence[Array]) -> None:
        self.trace = trace
        # X_uu is symmetric: its rows are its columns.
        self.X_uu, self.X_ul, X_ll = X[0], by_columns(X[1]), X[2]
        # Only the cells with known facets need X_ll in an application.
        self._edge = np.unique(trace.known[:, 0]) if len(trace.known) else np.empty(0, np.int32)
        self._edge_places = trace.places(trace.slots[self._edge])
        self._edge_ll = by_columns(X_ll[self._edge])
        self._X_ll = X_ll
        self._r = np.zeros(trace.length)
        self.m = np.zeros(trace.length)

    @cached_property
    def solve(self) -> TraceSolver:
        """The solver of X_ll, made when K is first applied: implicit steps have others."""
        return TraceSolver(self.trace, self._X_ll)

    def __call__(
        self, u: Array, out: Array, known: Array | None = None, g: Array | None = None
    ) -> Array | None:
        """Write K u to `out`; with known traces, return the forces on them (minus g)."""
        trace, r, m = self.trace, self._r, self.m
        start = trace.unknowns
        r[:] = 0.0
        add_to_trace(self.X_ul, trace.slots, trace.size, u, r)
        m[:] = 0.0
        if known is not None:
            m[start:] = known
            self._edges(m, r)
        if g is not None:
            r -= g
        np.negative(r, out=r)
        self.solve(r, m)
        combine(self.X_uu, u, self.X_ul, trace.slots, trace.size, m, out)
        if known is None:
            return None
        r[:] = 0.0
        add_to_trace(self.X_ul, trace.slots, trace.size, u, r)
        self._edges(m, r)
        return r[start:] if g is None else r[start:] - g[start:]

    def _edges(self, m: Array, r: Array) -> None:
        """Add X_ll m to r, complete in rows of known facets and, for known m, of their cells."""
        if not len(self._edge):
            return
        places = self._edge_places
        local = m[places]
        product = np.zeros_like(local)
        add_local(self._edge_ll, local, product)
        np.add.at(r, places.reshape(-1), product.reshape(-1))
