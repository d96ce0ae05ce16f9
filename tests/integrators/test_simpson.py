"""The one-solve form of Simpson's integrator against the two forms of its source."""

import math

import numpy as np
import pytest

import hamfem as hf
from hamfem.invariants import propagator
from tests.small import definite, run, vector

N, H = 4, 0.3
M, K = definite(N, 1, 2, 1), definite(N, 0.5, 6, 2)


def source_matrices(h):
    L = np.eye(N) - h**2 / 8 * np.linalg.solve(M, K)
    X = 2 * M / h - h * K / 6
    Y = h / 3 * (K @ np.linalg.inv(L) + K / 2)
    return L, X, Y


def step_in_q_and_p(h):
    """Variant 1: [[1, -X], [1, Y]] (p, q)_1 = [[-1, -X], [1, -Y]] (p, q)_0, for (q, v)."""
    _, X, Y = source_matrices(h)
    one, zero = np.eye(N), np.zeros((N, N))
    E = np.linalg.solve(np.block([[one, -X], [one, Y]]), np.block([[-one, -X], [one, -Y]]))
    to_pq = np.block([[zero, M], [one, zero]])  # (p, q) of (q, v)
    return np.linalg.inv(to_pq) @ E @ to_pq


def step_through_the_middle(h):
    """Variant 2: solve for the middle and the end of the path, then for the momentum."""
    columns = []
    for z in np.eye(2 * N):
        q0, p0 = z[:N], M @ z[N:]
        # unknowns (q_m, q_1): the middle's equation, and p_0 = -dL/dq_0
        A = np.block([
            [M - h**2 / 8 * K, -M / 2],
            [8 / (3 * h) * M, -M / (3 * h)],
        ])  # fmt: skip
        r = np.r_[M @ q0 / 2, p0 + 7 / (3 * h) * M @ q0 - h / 6 * K @ q0]
        qm, q1 = np.split(np.linalg.solve(A, r), 2)
        p1 = M @ (q0 - 8 * qm + 7 * q1) / (3 * h) - h / 6 * K @ q1
        columns.append(np.r_[q1, np.linalg.solve(M, p1)])
    return np.array(columns).T


def test_three_forms_of_one_step():
    E = propagator(hf.SecondOrder(M, K), hf.Simpson(), H)
    assert np.abs(E - step_in_q_and_p(H)).max() < 1e-13
    assert np.abs(E - step_through_the_middle(H)).max() < 1e-13


def test_phi_of_the_source():
    _, X, Y = source_matrices(H)
    system = hf.SecondOrder(M, K)
    energy = hf.modified_energy(system, hf.Simpson(), H)
    rng = np.random.default_rng(3)
    q, v = rng.normal(size=N), rng.normal(size=N)
    p = M @ v
    phi = 0.5 * p @ np.linalg.solve(X + Y, p)
    phi += 0.5 * q @ np.linalg.solve(np.linalg.inv(X) + np.linalg.inv(Y), q)
    assert energy(system.state(q, v)) == pytest.approx(2 / H * phi, rel=1e-13)


def test_a_forced_step_is_the_discrete_action_with_its_load():
    """f enters the action by Simpson's rule; the step is solved from its two equations."""
    f, h, t = np.array([1.0, -2, 0.5, 1]), H, 0.7
    f0, fm, f1 = (math.cos(3 * x) * f for x in (t, t + h / 2, t + h))
    system = hf.SecondOrder(M, K, loads=[hf.Load(lambda t: math.cos(3 * t), f)])
    rng = np.random.default_rng(3)
    q0, v0 = rng.normal(size=N), rng.normal(size=N)
    A = np.block([[M - h**2 / 8 * K, -M / 2], [8 / (3 * h) * M, -M / (3 * h)]])
    r = np.r_[M @ q0 / 2 - h**2 / 8 * fm, M @ v0 + 7 / (3 * h) * M @ q0 - h / 6 * (K @ q0 - f0)]
    qm, q1 = np.split(np.linalg.solve(A, r), 2)
    p1 = M @ (q0 - 8 * qm + 7 * q1) / (3 * h) - h / 6 * (K @ q1 - f1)
    state = system.state(q0, v0)
    state.t = t
    state = run(system, hf.Simpson(), state, h, t + h)
    assert np.allclose(vector(state), np.r_[q1, np.linalg.solve(M, p1)], rtol=0, atol=1e-13)


def test_stable_again_beyond_the_gap():
    system = hf.SecondOrder([[1.0]], [[1.0]])
    radius = {
        y: np.abs(np.linalg.eigvals(propagator(system, hf.Simpson(), y))).max()
        for y in (2.8, 2.9, 3.4, 3.5, 4.8, 5.0)
    }
    assert {y for y, r in radius.items() if r > 1 + 1e-9} == {2.9, 3.4, 5.0}
