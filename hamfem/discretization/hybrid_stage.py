"""An implicit stage of a first-order system, condensed onto the trace.

    M_q q' = b_u v + b_l vh + g,   M v' = -b_u'q - s_uu v - s_ul vh + f,
    b_l'q + s_lu v + (s_ll + Y) vh = 0,

so that, with X = s + a b'M_q^-1 b and z = the state before the stage, the stage k solves

    M k_v + X_uu (z_v + a k_v) + X_ul m = f - b_u'(z_q + a M_q^-1 g),
    X_lu (z_v + a k_v) + (X_ll + Y) m  = -b_l'(z_q + a M_q^-1 g),
    k_q = M_q^-1 (b_u (z_v + a k_v) + b_l m + g).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from petsc4py import PETSc

import numpy as np
import numpy.typing as npt

from hamfem.discretization.assembly import cell_mass
from hamfem.discretization.cell_products import (
    add_from_trace,
    add_local,
    add_to_trace,
    add_transposed,
    by_columns,
)
from hamfem.discretization.condensation import CondensedSolver
from hamfem.discretization.local import Hybrid
from hamfem.discretization.trace import Trace
from hamfem.kernel import Kernel
from hamfem.stage import Stage, Vecs
from hamfem.system import FirstOrder

Array = npt.NDArray[Any]


@dataclass
class FluxBlocks:
    """The matrices of all cells of this rank, stored by columns where a step uses them.

    Attributes:
        M: The mass of v, (cells, n) or (cells, n, n).
        M_q: The mass of q.
        inverse: M_q^-1.
        b_u, b_l: The coupling of q with v and with the traces.
        c_u, c_l: M_q^-1 b.
        s: The stabilisation s_uu, s_ul, s_ll.
        X: b'M_q^-1 b as blocks uu, ul, ll.
    """

    M: Array
    M_q: Array
    inverse: Array
    b_u: Array
    b_l: Array
    c_u: Array
    c_l: Array
    s: tuple[Array, Array, Array]
    X: tuple[Array, Array, Array]

    @classmethod
    def of(cls, hybrid: Hybrid) -> FluxBlocks:
        """All cells of this rank."""
        rows: list[list[Array]] = [[] for _ in range(13)]
        for B in hybrid.blocks(with_mass=True):
            assert B.M_q is not None
            assert B.inverse is not None
            t = np.swapaxes(B.b_u, 1, 2)
            values = (
                B.M, by_columns(B.M_q), B.inverse,
                by_columns(B.b_u), by_columns(B.b_l), by_columns(B.c_u), by_columns(B.c_l),
                B.s_uu, B.s_ul, B.s_ll,
                t @ B.c_u, t @ B.c_l, np.swapaxes(B.b_l, 1, 2) @ B.c_l,
            )  # fmt: skip
            for row, value in zip(rows, values):
                row.append(value)
        joined = [np.concatenate(row) for row in rows]
        s, X = (joined[7], joined[8], joined[9]), (joined[10], joined[11], joined[12])
        M, M_q, inverse, b_u, b_l, c_u, c_l = joined[:7]
        return cls(M, M_q, inverse, b_u, b_l, c_u, c_l, s, X)


def join(x: Vecs, out: Array) -> None:
    """Write a vector, or a pair of them as one complex vector, into an array."""
    for part, name in zip(x, ("real", "imag")):
        getattr(out, name)[...] = part.array_r.reshape(out.shape)


def hybrid_stage(
    system: Any,
    blocks: FluxBlocks,
    trace: Trace,
    Y_ll: Array | float,
    kernel: Kernel | None,
    a: complex,
) -> Stage:
    """The stage above, for a real or complex a: one trace solve."""
    number: Any = a.real if not a.imag else a
    s, X = blocks.s, blocks.X
    parts = [s[i] + number * X[i] for i in range(3)]
    parts[2] = parts[2] + Y_ll
    absolute = None
    if a.imag:
        neighbour = [s[i] + abs(a) * X[i] for i in range(3)]
        neighbour[2] = neighbour[2] + Y_ll
        absolute = (neighbour, abs(a))
    solver = CondensedSolver(trace, blocks.M, parts, a, absolute)
    dtype = solver.dtype
    cells, n = blocks.b_u.shape[:2]
    n_q = blocks.b_u.shape[2]
    m, g_l = np.zeros(trace.length, dtype), np.zeros(trace.length, dtype)
    k, force, v, before = (np.zeros((cells, n), dtype) for _ in range(4))
    q, rate, shift = (np.zeros((cells, n_q), dtype) for _ in range(3))
    f_work = system.new_v()

    def stage(zq: Vecs, zv: Vecs, g: Vecs | None, f: Vecs | None, kq: Vecs, kv: Vecs) -> None:
        rate[:] = 0.0
        if g is not None:
            join(g, q)
            add_local(blocks.inverse, q, rate)
            np.multiply(rate, number, out=shift)
        join(zq, q)
        if g is not None:
            np.add(q, shift, out=q)
        force[:] = 0.0
        add_transposed(blocks.b_u, q, force)
        np.negative(force, out=force)
        if f is not None:
            join(f, k)
            np.add(force, k, out=force)
        g_l[:] = 0.0
        add_to_trace(blocks.b_l, trace.slots, trace.size, q, g_l)
        np.negative(g_l, out=g_l)
        join(zv, before)
        solver(before, force, g_l, k, m)
        for part, name in zip(kv, ("real", "imag")):
            part.array[:] = getattr(k, name).reshape(-1)
        if kernel is not None:
            # The total force on a rigid motion is that of the loads alone.
            for i, part in enumerate(kv):
                if f is None:
                    kernel.remove(part)
                else:
                    f[i].copy(f_work)
                    kernel.match(part, f_work)
            join(kv, k)
        np.multiply(k, number, out=v)
        np.add(v, before, out=v)
        add_local(blocks.c_u, v, rate)
        add_from_trace(blocks.c_l, trace.slots, trace.size, m, rate)
        for part, name in zip(kq, ("real", "imag")):
            part.array[:] = getattr(rate, name).reshape(-1)

    return stage


class HybridFlow(FirstOrder):
    """A first-order system whose vectors hold the cells of the rank one after the other."""

    def __init__(
        self,
        hybrid: Hybrid,
        blocks: FluxBlocks,
        space: Any,
        M_q: PETSc.Mat,
        B: PETSc.Mat,
        R_q: PETSc.Mat | None,
        R_v: PETSc.Mat | None = None,
    ) -> None:
        M_v = cell_mass(hybrid.wave.domain.comm, blocks.M)
        super().__init__(M_q, M_v, B, R_q, R_v, kernel=space.rigid(M_v), space=space)

    cells: int
    n: int
    n_q: int

    def cell_rows(self, half: str, x: PETSc.Vec) -> Array:
        """The numbers of each cell."""
        return self.cellwise(x, self.n_q if half == "q" else self.n)

    def set_cell_rows(self, half: str, rows: Array, x: PETSc.Vec) -> None:
        """The vector with these rows."""
        x.array[:] = rows[: self.cells].reshape(-1)

    def cellwise(self, x: PETSc.Vec, size: int) -> Array:
        """A vector as (cells, size)."""
        return x.array_r.reshape(self.cells, size)

    def split(self, x: PETSc.Vec) -> tuple[Array, Array]:
        """The cells' part of a velocity; there is no other."""
        return self.cellwise(x, self.n), np.empty(0)
