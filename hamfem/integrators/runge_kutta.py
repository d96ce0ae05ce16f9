"""Runge-Kutta methods with any tableau, implicit or not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg

from hamfem.integrators.method import Advance, Method, Quadrature, System
from hamfem.stability import oscillator_limit
from hamfem.stage import Stage
from hamfem.state import State


@dataclass(frozen=True)
class RungeKutta(Method):
    """k_i = L(z + h sum_j a_ij k_j) + load(t + c_i h), z += h sum_i b_i k_i.

    The tableau is brought to real Schur form, A = U S U', so that a step solves one system for each
    real and one for each pair of complex eigenvalues of A, whatever the tableau; a triangular
    tableau is taken as it is.

    Attributes:
        A: The matrix of the tableau.
        b: The weights.
        c: The nodes; the row sums of A if they are not given.
        name: What the method is called.
    """

    A: tuple[tuple[float, ...], ...]
    b: tuple[float, ...]
    c: tuple[float, ...] | None = None
    name: str = "RungeKutta"

    def __post_init__(self) -> None:
        A, b = np.array(self.A, dtype=float), np.array(self.b, dtype=float)
        c = A.sum(axis=1) if self.c is None else np.array(self.c, dtype=float)
        s = len(b)
        if A.shape != (s, s) or c.shape != (s,) or s < 1:
            raise ValueError(
                f"a tableau with {b.size} weights needs a matrix {b.size} x {b.size} and as many "
                f"nodes: A has the shape {A.shape} and c {c.shape}."
            )
        if not abs(b.sum() - 1) < 1e-12:
            raise ValueError(f"the weights b must add up to 1 and add up to {b.sum()}.")
        object.__setattr__(self, "A", tuple(map(tuple, A.tolist())))
        object.__setattr__(self, "b", tuple(b.tolist()))
        object.__setattr__(self, "c", tuple(c.tolist()))

    # ------------------------------------------------------------ properties

    @cached_property
    def _tableau(self) -> tuple[Any, Any, Any]:
        return np.array(self.A), np.array(self.b), np.array(self.c)

    @cached_property
    def symplectic(self) -> bool:
        """Whether b_i a_ij + b_j a_ji = b_i b_j for all i and j."""
        A, b, _ = self._tableau
        BA = b[:, None] * A
        return bool(np.abs(BA + BA.T - np.outer(b, b)).max() < 1e-13)

    @cached_property
    def symmetric(self) -> bool:
        """Whether a step back undoes a step, on linear systems: R(z) R(-z) = 1."""
        z = np.array([0.3, 1.0j, 0.7 + 2.0j])
        return bool(
            np.abs(self.stability_function(z) * self.stability_function(-z) - 1).max() < 1e-12
        )

    @cached_property
    def negative_steps(self) -> bool:
        """Whether A has an eigenvalue with negative real part: a pole for damped systems."""
        return bool(np.linalg.eigvals(self._tableau[0]).real.min() < -1e-14)

    @cached_property
    def order(self) -> int:
        """The order on linear systems with loads: b'A^j c^k = k! / (j + k + 1)!."""
        A, b, c = self._tableau
        p = 0
        while p < 2 * len(b) and all(
            abs(b @ np.linalg.matrix_power(A, p - k) @ c**k
                - math.factorial(k) / math.factorial(p + 1)) < 1e-12 * 2.0**-p
            for k in range(p + 1)
        ):  # fmt: skip
            p += 1
        return p

    def stability_function(self, z: npt.ArrayLike) -> npt.NDArray[np.complex128]:
        """R(z) = 1 + z b'(1 - z A)^-1 1."""
        A, b, _ = self._tableau
        z = np.atleast_1d(np.asarray(z, dtype=complex))
        matrices = np.eye(len(b)) - z[:, None, None] * A
        k = np.linalg.solve(matrices, np.ones((len(z), len(b), 1)))[..., 0]
        return 1 + z * (k @ b)

    @cached_property
    def limit(self) -> float:
        """The largest omega h up to which |R(i omega h)| <= 1."""
        return oscillator_limit(lambda y: np.abs(self.stability_function(1j * y)))

    def quadrature(self, half: str, integrable: bool = False) -> Quadrature:
        """That of the tableau."""
        return self._tableau[2], self._tableau[1]

    # ------------------------------------------------------------ marching

    def bind(self, system: System, dt: float) -> Advance:
        """A function that advances a state by n steps."""
        A, b, c = self._tableau
        U, S, blocks = schur(A)
        s = len(b)
        stages: dict[complex, Stage] = {}  # stages with the same a share their factorisation
        solvers = [_Block(system, dt, S, block, stages) for block in blocks]
        kq = [system.new_q() for _ in range(s)]
        kv = [system.new_v() for _ in range(s)]
        zq = [system.new_q() for _ in range(s)]
        zv = [system.new_v() for _ in range(s)]
        f = [system.new_v() for _ in range(s)] if system.loads else None
        g = [system.new_q() for _ in range(s)] if system.flux_loads else None
        ones, weights = U.T @ np.ones(s), dt * (U.T @ b)
        track = _Balance(system, dt, A @ U, b, c)

        def advance(state: State, n: int) -> None:
            start = state.t
            for i in range(n):
                t = start + i * dt
                times = [t + x * dt for x in c]
                for loads, vectors in ((system.loads, f), (system.flux_loads, g)):
                    if vectors is not None:
                        for m in range(s):
                            vectors[m].zeroEntries()
                            loads.add(times, U[:, m], vectors[m])
                for block in solvers:
                    block(state, ones, zq, zv, g, f, kq, kv)
                if track.needed:
                    track(state, times, kq, kv)
                state.q.maxpy(weights, kq)
                state.v.maxpy(weights, kv)

        return advance


class _Block:
    """The transformed stages of one diagonal block of S, one real or two for a complex pair."""

    def __init__(
        self, system: System, dt: float, S: Any, block: list[int], stages: dict[complex, Stage]
    ) -> None:
        self.block, self.dt, self.S = block, dt, S
        last = block[-1]
        # U'A U is upper triangular for a Schur form and lower for an explicit or DIRK tableau.
        others = [j for j in range(len(S)) if j not in block and np.any(S[block, j])]
        self.known = others
        self.pair = len(block) == 2
        if not self.pair:
            self.a = complex(dt * S[last, last])
        else:
            values, left = np.linalg.eig(S[np.ix_(block, block)].T)
            index = int(np.argmax(values.imag))
            self.row = left[:, index]  # row @ S2 = value row
            self.a = complex(dt * values[index])
            self.back = np.linalg.inv(np.array([self.row.real, self.row.imag]))
            self.zq = [system.new_q() for _ in range(2)]
            self.zv = [system.new_v() for _ in range(2)]
            self.kq = [system.new_q() for _ in range(2)]
            self.kv = [system.new_v() for _ in range(2)]
            self.f = [system.new_v() for _ in range(2)] if system.loads else None
            self.g = [system.new_q() for _ in range(2)] if system.flux_loads else None
        if self.a not in stages:
            stages[self.a] = system.stage(self.a)
        self.stage = stages[self.a]

    def __call__(
        self, state: State, ones: Any, zq: Any, zv: Any, g: Any, f: Any, kq: Any, kv: Any
    ) -> None:
        for m in self.block:
            coefficients = self.dt * self.S[m, self.known]
            for x, z, k in ((state.q, zq[m], kq), (state.v, zv[m], kv)):
                x.copy(z)
                if ones[m] != 1.0:
                    z.scale(ones[m])
                if self.known:
                    z.maxpy(coefficients, [k[j] for j in self.known])
        if not self.pair:
            m = self.block[0]
            one = slice(m, m + 1)
            self.stage(zq[one], zv[one], g and g[one], f and f[one], kq[one], kv[one])
            return
        m, n = self.block
        vectors: Any = ((self.zq, zq), (self.zv, zv), (self.g, g), (self.f, f))
        for target, source in vectors:
            if target is not None:
                for part, weights in zip(target, (self.row.real, self.row.imag)):
                    part.zeroEntries()
                    part.maxpy(weights, [source[m], source[n]])
        self.stage(self.zq, self.zv, self.g, self.f, self.kq, self.kv)
        for target, source in ((kq, self.kq), (kv, self.kv)):
            for row, j in zip(self.back, (m, n)):
                target[j].zeroEntries()
                target[j].maxpy(row, source)


class _Balance:
    """Work and outflow by the method's quadrature: h sum b_i V_i'f_i and h sum b_i V_i'R V_i."""

    def __init__(self, system: System, dt: float, AU: Any, b: Any, c: Any) -> None:
        self.halves = [
            (1, system.loads, system.R, system.new_v),
            (0, system.flux_loads, system.R_q, system.new_q),
        ]
        self.halves = [half for half in self.halves if half[1] or half[2] is not None]
        self.needed = bool(self.halves)
        self.coefficients, self.b = dt * AU, dt * b
        self.work = [(new(), new()) for *_, new in self.halves]

    def __call__(self, state: State, times: Sequence[float], kq: Any, kv: Any) -> None:
        for (is_v, loads, R, _), (X, w) in zip(self.halves, self.work):
            x, k = (state.v, kv) if is_v else (state.q, kq)
            for i, t in enumerate(times):
                x.copy(X)
                X.maxpy(self.coefficients[i], k)
                if loads:
                    w.zeroEntries()
                    loads.add([t], [1.0], w)
                    state.work += self.b[i] * X.dot(w)
                if R is not None:
                    R.mult(X, w)
                    state.outflow += self.b[i] * X.dot(w)


def schur(A: Any) -> tuple[Any, Any, list[list[int]]]:
    """Orthogonal U, block-triangular S = U'A U, and the blocks in the order of their solution."""
    s = len(A)
    if np.allclose(np.triu(A, 1), 0, atol=0):
        return np.eye(s), A, [[i] for i in range(s)]
    S, U = scipy.linalg.schur(A, output="real")
    S[np.abs(S) < 1e-15 * np.abs(A).max()] = 0.0
    blocks, i = [], s - 1
    while i >= 0:
        size = 2 if i > 0 and S[i, i - 1] != 0.0 else 1
        blocks.append(list(range(i - size + 1, i + 1)))
        i -= size
    return U, S, blocks


def RK4() -> RungeKutta:
    """The classical explicit method of order 4: not symplectic, the energy drifts."""
    A = ((0, 0, 0, 0), (0.5, 0, 0, 0), (0, 0.5, 0, 0), (0, 0, 1, 0))
    return RungeKutta(A, (1 / 6, 1 / 3, 1 / 3, 1 / 6), name="RK4()")
