"""Partitioned Runge-Kutta methods: one tableau for q, another for v."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hamfem.integrators.method import Advance, Method, Quadrature, System
from hamfem.integrators.runge_kutta import schur
from hamfem.stability import oscillator_limit
from hamfem.state import State


@dataclass(frozen=True)
class PartitionedRungeKutta(Method):
    """Q_i = q + h sum_j a_ij F(V_j), V_i = v + h sum_j abar_ij M^-1 (restoring(Q_j) + f_j).

    q += h sum b_i F(V_i), v += h sum bbar_i M^-1 (restoring(Q_i) + f_i). The rates of v satisfy
    (M + h² A Abar (x) K) k = ..., which the real Schur form of A Abar splits into single solves.

    Attributes:
        A: The tableau of q.
        b: Its weights.
        A_bar: The tableau of v.
        b_bar: Its weights.
        name: What the method is called.
    """

    A: tuple[tuple[float, ...], ...]
    b: tuple[float, ...]
    A_bar: tuple[tuple[float, ...], ...]
    b_bar: tuple[float, ...]
    name: str = "PartitionedRungeKutta"

    def __post_init__(self) -> None:
        s = len(self.b)
        for name, rank in (("A", 2), ("b", 1), ("A_bar", 2), ("b_bar", 1)):
            value: Any = np.array(getattr(self, name), dtype=float)
            if value.shape != (s,) * rank or s < 1:
                raise ValueError(
                    f"both tableaux must have {s} stages: {name} has the shape {value.shape}."
                )
            if rank == 1 and not abs(value.sum() - 1) < 1e-12:
                raise ValueError(f"the weights {name} must add up to 1 and not to {value.sum()}.")
            frozen = tuple(map(tuple, value.tolist())) if rank == 2 else tuple(value.tolist())
            object.__setattr__(self, name, frozen)

    @cached_property
    def _tableaux(self) -> tuple[Any, Any, Any, Any]:
        return tuple(np.array(x) for x in (self.A, self.b, self.A_bar, self.b_bar))  # type: ignore

    @cached_property
    def symplectic(self) -> bool:
        """Whether b_i abar_ij + bbar_j a_ji = b_i bbar_j for all i, j.

        The source prints a_ij in the second term; its own Störmer-Verlet then leaves 1.02.
        """
        A, b, A_bar, b_bar = self._tableaux
        left = b[:, None] * A_bar + (b_bar[:, None] * A).T
        return bool(np.abs(left - np.outer(b, b_bar)).max() < 1e-13)

    def propagator(self, y: Any) -> Any:
        """The matrices of one step for (omega q, v) on oscillators with omega h = y."""
        A, b, A_bar, b_bar = self._tableaux
        one = np.ones(len(b))
        result = np.empty((len(y), 2, 2))
        for n, x in enumerate(np.asarray(y, float)):
            # k = -(x)(Q), Q = q + x A V, V = v + A_bar k
            solved = np.linalg.solve(
                np.eye(len(b)) + x**2 * A @ A_bar, np.column_stack([-x * one, -(x**2) * A @ one])
            )
            V = A_bar @ solved + np.column_stack([0 * one, one])
            result[n] = np.array([[1.0, 0.0], [0.0, 1.0]]) + [x * b @ V, b_bar @ solved]
        return result

    @cached_property
    def order(self) -> int:
        """The order on linear systems, from how fast a step approaches the exponential."""
        y = np.array([0.4, 0.2, 0.1]) * min(1.0, self.limit / 2)
        exact = np.array([[[np.cos(x), np.sin(x)], [-np.sin(x), np.cos(x)]] for x in y])
        error = np.abs(self.propagator(y) - exact).max(axis=(1, 2))
        return round(math.log(error[1] / error[2]) / math.log(2)) - 1

    @cached_property
    def limit(self) -> float:
        """The largest stable omega h."""
        if self.symplectic:  # determinant 1: stable while the trace stays within -2 and 2
            return oscillator_limit(
                lambda y: np.maximum(
                    1.0, np.abs(np.trace(self.propagator(y), axis1=1, axis2=2)) / 2
                )
            )
        return oscillator_limit(lambda y: np.abs(np.linalg.eigvals(self.propagator(y))).max(axis=1))

    @cached_property
    def negative_steps(self) -> bool:
        """Damping is refused at `bind`; a substep back shows in the eigenvalues of A Abar."""
        A, _, A_bar, _ = self._tableaux
        return bool(np.linalg.eigvals(A @ A_bar).real.min() < -1e-14)

    def quadrature(self, half: str, integrable: bool = False) -> Quadrature:
        """Those of the tableaux: a load on v is seen at the times of q, and the other way round."""
        A, b, A_bar, b_bar = self._tableaux
        return (A.sum(axis=1), b_bar) if half == "v" else (A_bar.sum(axis=1), b)

    def bind(self, system: System, dt: float) -> Advance:
        """A function that advances a state by n steps."""
        if system.R is not None or system.R_q is not None:
            raise ValueError(
                f"{self.name} knows no damping: take a Runge-Kutta method, such as hf.Gauss(2)."
            )
        A, b, A_bar, b_bar = self._tableaux
        s = len(b)
        U, S, blocks = schur(A @ A_bar)
        h = dt
        solvers: list[Any] = []
        for block in blocks:
            if len(block) == 1:
                solvers.append((block, None, None, system.shifted(h**2 * S[block[0], block[0]])))
            else:
                values, left = np.linalg.eig(S[np.ix_(block, block)].T)
                index = int(np.argmax(values.imag))
                row = left[:, index]
                back = np.linalg.inv(np.array([row.real, row.imag]))
                solvers.append(
                    (block, row, back, system.shifted_pair(h**2 * complex(values[index])))
                )
        r, k, K_k = ([system.new_v() for _ in range(s)] for _ in range(3))
        rate, pair_r, pair_k = ([system.new_v() for _ in range(m)] for m in (s, 2, 2))
        Fv, dq, g, Q = (system.new_q() for _ in range(4))
        Mg = [system.new_q() for _ in range(s)] if system.flux_loads else None
        w, V, f = (system.new_v() for _ in range(3))
        c, c_bar = A.sum(axis=1), A_bar.sum(axis=1)
        # sum_i b_i V_i = v + h sum_j (b'Abar)_j rate_j
        mean = b @ A_bar

        def advance(state: State, n: int) -> None:
            start = state.t
            for i in range(n):
                t = start + i * h
                system.flux(state.v, Fv)
                if Mg is not None:
                    for j in range(s):
                        g.zeroEntries()
                        system.flux_loads.add([t + c_bar[j] * h], [1.0], g)
                        system.flux_solve(g, Mg[j])
                for j in range(s):
                    dq.waxpy(h * c[j], Fv, state.q)
                    if Mg is not None:
                        dq.maxpy(h * A[j], Mg)
                    system.restoring(dq, rate[j])
                    system.loads.add([t + c[j] * h], [1.0], rate[j])
                for m in range(s):
                    r[m].zeroEntries()
                    r[m].maxpy(U[:, m], rate)
                known: list[int] = []
                for block, row, back, solve in solvers:
                    for m in block:
                        if known:
                            r[m].maxpy(-(h**2) * S[m, known], [K_k[j] for j in known])
                    if row is None:
                        solve(r[block[0]], k[block[0]])
                    else:
                        for part, weights in zip(pair_r, (row.real, row.imag)):
                            part.zeroEntries()
                            part.maxpy(weights, [r[m] for m in block])
                        solve(pair_r, pair_k)
                        for weights, m in zip(back, block):
                            k[m].zeroEntries()
                            k[m].maxpy(weights, pair_k)
                    for m in block:
                        if np.any(S[:, m][[j for j in range(s) if j not in block]]):
                            system.stiffness(k[m], K_k[m])
                        else:
                            K_k[m].zeroEntries()
                    known += block
                for j in range(s):
                    rate[j].zeroEntries()
                    rate[j].maxpy(U[j], k)
                if system.loads:
                    for j in range(s):
                        state.v.copy(V)
                        V.maxpy(h * A_bar[j], rate)
                        f.zeroEntries()
                        system.loads.add([t + c[j] * h], [h * b_bar[j]], f)
                        state.work += f.dot(V)
                state.v.copy(w)
                w.maxpy(h * mean, rate)
                system.flux(w, dq)
                if Mg is not None:
                    dq.maxpy(b, Mg)
                    for j in range(s):
                        # Q_j = q + h sum_i a_ji (F V_i + M_q^-1 g_i), for the work g_j'Q_j
                        V.zeroEntries()
                        V.axpy(h * c[j], state.v)
                        V.maxpy(h**2 * (A @ A_bar)[j], rate)
                        system.flux(V, Q)
                        Q.axpy(1.0, state.q)
                        Q.maxpy(h * A[j], Mg)
                        g.zeroEntries()
                        system.flux_loads.add([t + c_bar[j] * h], [h * b[j]], g)
                        state.work += g.dot(Q)
                state.q.axpy(h, dq)
                state.v.maxpy(h * b_bar, rate)

        return advance
