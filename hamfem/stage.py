"""One implicit stage: k = L(z + a k) + load for the linear field L, with a real or complex a.

Vectors come as lists, [x] for real a and [real, imaginary] for complex a.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from petsc4py import PETSc

from hamfem.matrices import combination, nested
from hamfem.solvers import PairSolver, solver

if TYPE_CHECKING:
    from hamfem.system import FirstOrder, SecondOrder

Vecs = Sequence[PETSc.Vec]
# stage(z_q, z_v, g, f, k_q, k_v): k = L(z + a k) + loads g on q and f on v, None if there are none
Stage = Callable[[Vecs, Vecs, "Vecs | None", "Vecs | None", Vecs, Vecs], None]


def axpy(out: Vecs, a: complex, x: Vecs) -> None:
    """Out += a x, for real or complex a and vectors."""
    if len(out) == 1:
        out[0].axpy(a.real, x[0])
    else:
        out[0].maxpy([a.real, -a.imag], [x[0], x[1]])
        out[1].maxpy([a.imag, a.real], [x[0], x[1]])


def eliminated(system: SecondOrder | FirstOrder, a: complex) -> Stage:
    """The stage by elimination of k_q: (M + a R + a² K) k_v = restoring(z_q + a F z_v) - R z_v + f.

    F is the flux of a displacement: q' = F v + M_q^-1 g.
    """
    m = 2 if a.imag else 1
    if m == 2:
        pair = system.shifted_pair(a * a, a)
    else:
        single = system.shifted((a * a).real, a.real)
    Q = [system.new_q() for _ in range(m)]
    r = [system.new_v() for _ in range(m)]
    R, Rv = system.R, system.new_v()

    def stage(zq: Vecs, zv: Vecs, g: Vecs | None, f: Vecs | None, kq: Vecs, kv: Vecs) -> None:
        for i in range(m):
            system.flux(zv[i], kq[i])
            if g is not None:
                system.flux_solve(g[i], Q[i])
                kq[i].axpy(1.0, Q[i])
            zq[i].copy(Q[i])
        axpy(Q, a, kq)
        for i in range(m):
            system.restoring(Q[i], r[i])
            if R is not None:
                R.mult(zv[i], Rv)
                r[i].axpy(-1.0, Rv)
            if f is not None:
                r[i].axpy(1.0, f[i])
        if m == 2:
            pair(r, kv)
        else:
            single(r[0], kv[0])
        if a:
            for i in range(m):
                system.flux(kv[i], Q[i])
            axpy(kq, a, Q)

    return stage


def saddle(system: FirstOrder, a: complex) -> Stage:
    """The stage of a first-order system with both halves in one matrix, symmetric quasi-definite.

    [[M_v + a R_v, a B], [a B', -(M_q + a R_q)]] (k_v, -k_q)
        = (B z_q - R_v z_v + f, -B'z_v - R_q z_q + g)
    """
    m = 2 if a.imag else 1
    P = _saddle_matrix(system, 1.0, a.real)
    if m == 2:
        Q = _saddle_matrix(system, 0.0, a.imag)
        S = nested(
            [
                [_damped(system.M_v, system.R_v, abs(a)), None],
                [None, _damped(system.M_q, system.R_q, abs(a))],
            ]
        )
        pair = PairSolver(P, Q, "hamfem_pair_", S)
    else:
        ksp = solver(P, "hamfem_saddle_", definite=False)
    r = [P.createVecRight() for _ in range(m)]
    x = [P.createVecRight() for _ in range(m)]
    rv, rq, wv, wq = system.new_v(), system.new_q(), system.new_v(), system.new_q()
    n = rv.local_size
    kernel = system.kernel if system.R_v is None else None

    def stage(zq: Vecs, zv: Vecs, g: Vecs | None, f: Vecs | None, kq: Vecs, kv: Vecs) -> None:
        for i in range(m):
            system.restoring(zq[i], rv)
            system.B.multTranspose(zv[i], rq)
            rq.scale(-1.0)
            for R, z, w, out in ((system.R_v, zv[i], wv, rv), (system.R_q, zq[i], wq, rq)):
                if R is not None:
                    R.mult(z, w)
                    out.axpy(-1.0, w)
            if f is not None:
                rv.axpy(1.0, f[i])
            if g is not None:
                rq.axpy(1.0, g[i])
            with r[i] as values:
                values[:n], values[n:] = rv.array_r, rq.array_r
        if m == 2:
            pair(r, x)
        else:
            ksp.solve(r[0], x[0])
        for i in range(m):
            values = x[i].array_r
            with kv[i] as v, kq[i] as q:
                v[:] = values[:n]
                q[:] = -values[n:]
            if kernel is not None:
                with rv as v:
                    v[:] = r[i].array_r[:n]
                kernel.match(kv[i], rv)

    return stage


def _damped(M: PETSc.Mat, R: PETSc.Mat | None, a: float) -> PETSc.Mat:
    return combination([(1.0, M), (a, R)])


def _saddle_matrix(system: FirstOrder, one: float, a: float) -> PETSc.Mat:
    """[[one M_v + a R_v, a B], [a B', -(one M_q + a R_q)]]."""
    aB = combination([(a, system.B)])
    vv = combination([(one, system.M_v), (a, system.R_v)])
    qq = combination([(-one, system.M_q), (-a, system.R_q)])
    return nested([[vv, aB], [aB.transpose(PETSc.Mat()), qq]])
