"""Small systems with known solutions, spread over all ranks, shared by the tests."""

import numpy as np
import scipy.linalg

import hamfem as hf
from hamfem.matrices import gathered_vector

OMEGA = 1.3  # of the loads


def definite(n, low, high, seed):
    """A full symmetric matrix with eigenvalues from low to high."""
    Q, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(n, n)))
    return Q @ np.diag(np.linspace(low, high, n)) @ Q.T


class Small:
    """dz/dt = A z + F (cos OMEGA t, sin OMEGA t), as a hamfem system and in closed form."""

    def __init__(self, kind, forced=False, damping=0.0):
        self.forced = forced
        n, m = 4, 5
        rng = np.random.default_rng(5)
        f, g = rng.normal(size=n), rng.normal(size=m)
        load = hf.Load(lambda t: np.cos(OMEGA * t), f, lambda t: np.sin(OMEGA * t) / OMEGA)
        M = definite(n, 1, 2, 1)
        zero = np.zeros
        R = damping * definite(n, 0, 1, 4)
        if kind == "second":
            K = definite(n, 0.5, 4, 2)
            self.system = hf.SecondOrder(
                M, K, R=R if damping else None, loads=[load] if forced else []
            )
            A = np.block([[zero((n, n)), np.eye(n)], [-np.linalg.solve(M, K), zero((n, n))]])
            F = np.column_stack([np.r_[zero(n), np.linalg.solve(M, f)], zero(2 * n)])
            self.n_q = n
        else:
            M_q, B = definite(m, 1, 2, 3), 0.5 * rng.normal(size=(n, m))
            R_q = damping * definite(m, 0, 0.7, 6)
            flux = hf.Load(lambda t: np.sin(OMEGA * t), g, lambda t: -np.cos(OMEGA * t) / OMEGA)
            # Every other load as samples, so that both ways are marched
            sampled = hf.SampledLoad(f[:, None], lambda t: np.array([np.cos(OMEGA * t)]))
            self.system = hf.FirstOrder(
                M_q, M, B,
                R_q=R_q if damping else None, R_v=R if damping else None,
                loads=[sampled] if forced else [], flux_loads=[flux] if forced else [],
            )  # fmt: skip
            A = np.block([
                [-np.linalg.solve(M_q, R_q), -np.linalg.solve(M_q, B.T)],
                [np.linalg.solve(M, B), zero((n, n))],
            ])  # fmt: skip
            F = np.column_stack([
                np.r_[zero(m), np.linalg.solve(M, f)], np.r_[np.linalg.solve(M_q, g), zero(n)]
            ])  # fmt: skip
            self.n_q = m
        A[self.n_q :, self.n_q :] -= np.linalg.solve(M, R)
        self.A, self.F = A, F
        self.z0 = rng.normal(size=self.n_q + n)

    def state(self):
        return self.system.state(self.z0[: self.n_q], self.z0[self.n_q :])

    def exact(self, t):
        N = len(self.A)
        clock = np.array([[0, -OMEGA], [OMEGA, 0]])
        big = np.block([[self.A, self.F * self.forced], [np.zeros((2, N)), clock]])
        return (scipy.linalg.expm(t * big) @ np.r_[self.z0, 1, 0])[:N]

    def error(self, state):
        """Relative to the exact solution at the state's time."""
        exact = self.exact(state.t)
        return np.linalg.norm(vector(state) - exact) / np.linalg.norm(exact)


def vector(state):
    return np.concatenate([gathered_vector(state.q), gathered_vector(state.v)])


def run(system, method, state, dt, t_end, every=10**6):
    for state in hf.march(system, method, state, dt, t_end, every):
        pass
    return state


def ring(n=12, spread=0.0):
    """Masses and springs in a ring; `spread` makes the masses unequal."""
    M = np.diag(1 + spread * np.cos(np.arange(n)))
    shift = np.roll(np.eye(n), 1, axis=1)
    K = 2 * np.eye(n) - shift - shift.T
    return M, K
