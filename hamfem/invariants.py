"""What a system conserves, what its integrators conserve instead; the proof on small systems."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from petsc4py import PETSc

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse as sp

from hamfem.communicator import lasting
from hamfem.integrators.method import Method, System
from hamfem.integrators.newmark import Newmark
from hamfem.integrators.partitioned import Partitioned
from hamfem.integrators.runge_kutta import RungeKutta
from hamfem.integrators.simpson import Simpson
from hamfem.matrices import as_petsc, as_vector, gathered, gathered_vector
from hamfem.state import State
from hamfem.system import SecondOrder

Invariant = Callable[[State], float]
Array = npt.NDArray[np.float64]
# Beyond this many unknowns, dense matrices of the whole system are refused.
_SMALL = 2000


# ---------------------------------------------------------------- dense matrices of small systems


def structure_matrices(system: System) -> tuple[Array, Array]:
    """J and H with dz/dt = J H z for z = (q, v) and energy 1/2 z'Hz, without loads and damping."""
    if isinstance(system, SecondOrder):
        M, K = (gathered(_small(A)).toarray() for A in (system.M, system.K))
        inverse = np.linalg.inv(M)
        inverse = (inverse + inverse.T) / 2
        zero = np.zeros_like(M)
        return np.block([[zero, inverse], [-inverse, zero]]), scipy.linalg.block_diag(K, M)
    M_q, M_v, B = (gathered(_small(A)).toarray() for A in (system.M_q, system.M_v, system.B))
    block: Array = np.linalg.solve(M_v, np.linalg.solve(M_q, B.T).T)  # M_v^-1 B M_q^-1
    J = np.block([
        [np.zeros_like(M_q), -block.T],
        [block, np.zeros_like(M_v)],
    ])  # fmt: skip
    return J, scipy.linalg.block_diag(M_q, M_v)


def _small(A: PETSc.Mat) -> PETSc.Mat:
    if max(A.size) > _SMALL:
        raise ValueError(
            f"this needs dense matrices and the system has {max(A.size)} unknowns: "
            f"it is for systems of up to {_SMALL}."
        )
    return A


def propagator(system: System, method: Method, dt: float) -> Array:
    """The matrix E of one step, z_1 = E z_0, column by column; for small systems without loads."""
    advance = method.bind(system, dt)
    n_q, n_v = system.new_q().size, system.new_v().size
    E = np.empty((n_q + n_v, n_q + n_v))
    identity: Array = np.eye(n_q + n_v)
    for i in range(n_q + n_v):
        unit = identity[i]
        state = State(
            as_vector(unit[:n_q], system.new_q(), "q"), as_vector(unit[n_q:], system.new_v(), "v")
        )
        advance(state, 1)
        E[:, i] = np.concatenate([gathered_vector(state.q), gathered_vector(state.v)])
    return E


@dataclass(frozen=True)
class Structure:
    """How well a system is Hamiltonian, and a step of a method a Poisson map; all should be 0.

    Attributes:
        antisymmetry: |J + J'| / |J|.
        symmetry: |H - H'| / |H|.
        negative_energy: -min(0, the smallest eigenvalue of H) / |H|.
        poisson: |E J E' - J| / |J| for a step E of the method; None without a method.
        casimirs: |E'c - c| over an orthonormal basis c of ker J; 0 where it is empty.
        casimir_count: The dimension of ker J.
    """

    antisymmetry: float
    symmetry: float
    negative_energy: float
    poisson: float | None
    casimirs: float | None
    casimir_count: int


def structure(system: System, method: Method | None = None, dt: float | None = None) -> Structure:
    """Measure the structure of a small system and, with a method and dt, of one step."""
    J, H = structure_matrices(system)
    values = np.linalg.eigvalsh((H + H.T) / 2)
    casimirs = scipy.linalg.null_space(J, rcond=1e-12)
    poisson = kept = None
    if method is not None:
        if dt is None:
            raise ValueError("a method is measured with a dt: give one.")
        E = propagator(system, method, dt)
        poisson = float(np.abs(E @ J @ E.T - J).max() / np.abs(J).max())
        kept = float(np.abs(E.T @ casimirs - casimirs).max()) if casimirs.size else 0.0
    return Structure(
        float(np.abs(J + J.T).max() / np.abs(J).max()),
        float(np.abs(H - H.T).max() / np.abs(H).max()),
        float(max(0.0, -values[0]) / np.abs(values).max()),
        poisson,
        kept,
        casimirs.shape[1],
    )


# ---------------------------------------------------------------- first integrals


@dataclass(frozen=True, eq=False)
class LinearInvariant:
    """w_q'q + w_v'v."""

    w_q: PETSc.Vec
    w_v: PETSc.Vec

    def __call__(self, state: State) -> float:
        """The value at a state."""
        return float(self.w_q.dot(state.q) + self.w_v.dot(state.v))


def linear_invariants(system: System) -> list[LinearInvariant]:
    """A basis of the linear first integrals: ker A' of dz/dt = A z.

    Those of the system's kernel W, w'Mv, if it has one; else found by a dense null space.
    """
    if system.kernel is not None:
        zero = system.new_q()
        return [LinearInvariant(zero, Mw.copy()) for Mw in system.kernel.MW]
    J, H = structure_matrices(system)
    n_q = system.new_q().size
    A = J @ H
    # Rows scaled to one: the units of q and v must not decide what counts as zero.
    basis = scipy.linalg.null_space(A.T / np.abs(A).max(), rcond=1e-11)
    return [
        LinearInvariant(
            as_vector(w[:n_q], system.new_q(), "w"), as_vector(w[n_q:], system.new_v(), "w")
        )
        for w in basis.T
    ]


def modified_energy(system: System, method: Method, dt: float) -> Invariant:
    """The quadratic form that a symplectic method conserves exactly in place of the energy.

    The energy itself for Runge-Kutta methods; in closed form for Störmer-Verlet, Newmark and
    Simpson; for other methods on small systems from the logarithm of a step, log E = dt J H~.
    """
    if not method.symplectic:
        raise ValueError("a method that is not symplectic conserves no modified energy.")
    if isinstance(method, Partitioned) and method.symmetric and len(method.operations) == 3:
        return _verlet_energy(system, dt, kick_first=not method.drift_first)
    if isinstance(method, RungeKutta):
        return system.energy
    if isinstance(method, Newmark):
        return _newmark_energy(system, method, dt)
    if isinstance(method, Simpson):
        return _simpson_energy(system, dt)
    J, _ = structure_matrices(system)
    form = quadratic_form(J, scipy.linalg.logm(propagator(system, method, dt)).real / dt)

    def energy(state: State) -> float:
        z = np.concatenate([gathered_vector(state.q), gathered_vector(state.v)])
        return float(0.5 * z @ form @ z)

    return energy


def quadratic_form(J: Array, A: Array) -> Array:
    """The symmetric G with J G = A, for an antisymmetric J that may be singular.

    T = J^+ A is the part P G of it, with P = J^+ J; the rest follows from symmetry.
    """
    T = np.linalg.pinv(J, rcond=1e-12) @ A
    P = np.linalg.pinv(J, rcond=1e-12) @ J
    G = T + (T @ (np.eye(len(J)) - P)).T
    return (G + G.T) / 2


def _verlet_energy(system: System, dt: float, kick_first: bool) -> Invariant:
    """The energy minus dt²/8 F'M^-1 F, F = restoring(q); drift first, minus dt²/8 v'K v."""
    F, a = system.new_v(), system.new_v()

    def energy(state: State) -> float:
        if kick_first:
            system.restoring(system.moving(state.q), F)
            system.mass_solve(F, a)
            return system.energy(state) - dt**2 / 8 * float(F.dot(a))
        system.stiffness(state.v, F)
        return system.energy(state) - dt**2 / 8 * float(F.dot(state.v))

    return energy


def _newmark_energy(system: System, method: Newmark, dt: float) -> Invariant:
    """The energy plus dt²/2 (beta - 1/4) a'Ma."""
    F, a = system.new_v(), system.new_v()

    def energy(state: State) -> float:
        system.restoring(system.moving(state.q), F)
        system.mass_solve(F, a)
        return system.energy(state) + dt**2 / 2 * (method.beta - 0.25) * float(F.dot(a))

    return energy


def _simpson_energy(system: System, dt: float) -> Invariant:
    """Phi of the Simpson integrator, times 2/dt, which makes it an energy.

    With S = M + dt²/24 K, and all functions of M^-1 K commuting,
    phi = dt/4 [p'(1 - dt²/8 M^-1 K) S^-1 p + q'K (1 - dt²/24 M^-1 K) S^-1 (M - dt²/12 K) q];
    the second half is written with F = -K q only, so that it holds for first-order systems too:
    K S^-1 (M - dt²/12 K) q = K q - dt²/8 K S^-1 K q.
    """
    solve = system.shifted(dt**2 / 24)
    p, s, Ks, w, F = (system.new_v() for _ in range(5))

    def energy(state: State) -> float:
        system.mass(state.v, p)
        solve(p, s)
        system.stiffness(s, Ks)
        system.mass_solve(Ks, w)
        kinetic = p.dot(s) - dt**2 / 8 * p.dot(w)
        # with x = S^-1 F: q'K q - dt²/8 F'x - dt²/24 (F - dt²/8 K x)'M^-1 F
        system.restoring(system.moving(state.q), F)
        solve(F, s)
        system.stiffness(s, Ks)
        system.mass_solve(F, w)
        potential = 2 * system.potential(state) - dt**2 / 8 * F.dot(s)
        potential -= dt**2 / 24 * (F.dot(w) - dt**2 / 8 * Ks.dot(w))
        return float(0.5 * (kinetic + potential))

    return energy


# ---------------------------------------------------------------- Noether


def noether(system: System, X: Any) -> Invariant:
    """The invariant that belongs to a symmetry X of the discrete system, exact for every step.

    For a second-order system X is an orthogonal matrix that commutes with M and K, such as the
    permutation of unknowns by a translation or rotation of the mesh. v'M(X - X')u is then constant:
    the discrete (angular) pseudomomentum. It is bilinear in u and v, so that every symplectic
    method of this package conserves it. For a first-order system X = (X_q, X_v) commutes with the
    masses and X_v B = B X_q; 1/2 z'H(X + X')z is constant, and Gauss methods conserve it.

    Args:
        system: The system.
        X: A matrix, or a permutation p as an array: (X u)_i = u_p(i). Two of them for first order.

    Raises:
        ValueError: X is not orthogonal or does not commute.
    """
    if isinstance(system, SecondOrder):
        matrix = _orthogonal(X, system.M)
        for name, A in (("M", system.M), ("K", system.K)):
            _check_intertwined(matrix, A, matrix, name)
        Mv, w = system.new_v(), system.new_v()

        def pseudomomentum(state: State) -> float:
            system.mass(state.v, Mv)
            matrix.mult(state.q, w)
            value = Mv.dot(w)
            matrix.multTranspose(state.q, w)
            return float(value - Mv.dot(w))

        return pseudomomentum
    X_q, X_v = _orthogonal(X[0], system.M_q), _orthogonal(X[1], system.M_v)
    _check_intertwined(X_q, system.M_q, X_q, "M_q")
    _check_intertwined(X_v, system.M_v, X_v, "M_v")
    _check_intertwined(X_v, system.B, X_q, "B")
    Mq, wq, Mv, wv = system.new_q(), system.new_q(), system.new_v(), system.new_v()

    def symmetric_energy(state: State) -> float:
        system.M_q.mult(state.q, Mq)
        X_q.mult(state.q, wq)
        system.M_v.mult(state.v, Mv)
        X_v.mult(state.v, wv)
        return float(Mq.dot(wq) + Mv.dot(wv))

    return symmetric_energy


def _orthogonal(X: Any, M: PETSc.Mat) -> PETSc.Mat:
    n = M.size[0]
    if not isinstance(X, PETSc.Mat):
        if not sp.issparse(X):
            X = np.asarray(X)
            if X.ndim == 1:
                if not np.array_equal(np.sort(X), np.arange(n)):
                    raise ValueError(f"the array is no permutation of 0 to {n - 1}.")
                X = sp.csr_matrix((np.ones(n), (np.arange(n), X)), shape=(n, n))
        X = as_petsc(X, "X", lasting(M.comm.tompi4py()))
    if X.size != (n, n):
        raise ValueError(f"X is {X.size[0]} x {X.size[1]} and the system has {n} unknowns.")
    difference = X.transposeMatMult(X)
    difference.shift(-1.0)
    if difference.norm(PETSc.NormType.INFINITY) > 1e-10:
        raise ValueError("X is not orthogonal: X'X differs from 1.")
    return X


def _check_intertwined(left: PETSc.Mat, A: PETSc.Mat, right: PETSc.Mat, name: str) -> None:
    difference = left.matMult(A)
    difference.axpy(-1.0, A.matMult(right))
    if difference.norm(PETSc.NormType.INFINITY) > 1e-10 * A.norm(PETSc.NormType.INFINITY):
        raise ValueError(f"X is no symmetry of this system: it does not commute with {name}.")
