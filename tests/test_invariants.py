"""What is conserved: modified energies, first integrals, and Noether's quantities."""

import numpy as np
import pytest
import scipy.sparse as sp

import hamfem as hf
from hamfem.invariants import propagator, quadratic_form, structure_matrices
from tests.integrators.methods import SYMPLECTIC, each
from tests.small import Small, ring, run, vector
from tests.verification import drift

KINDS = pytest.mark.parametrize("kind", ["second", "first"])


@each(SYMPLECTIC)
@KINDS
def test_every_symplectic_method_conserves_its_modified_energy(method, order, limit, kind):
    small = Small(kind)
    dt = min(0.8, 0.3 * method.stable_dt(small.system))
    energy = hf.modified_energy(small.system, method, dt)
    state = small.state()
    start, plain = energy(state), small.system.energy(state)
    values, energies = [], []
    for state in hf.march(small.system, method, state, dt, 1000 * dt, every=10):
        values.append(energy(state))
        energies.append(small.system.energy(state))
    assert np.abs(np.array(values) / start - 1).max() < 1e-12
    assert start == pytest.approx(plain, rel=0.3)  # it is close to the energy, and not it
    if not isinstance(method, hf.RungeKutta) and method.name != "Newmark(0.5, 0.25)":
        assert np.abs(np.array(energies) / plain - 1).max() > 1e-11


CLOSED = [hf.Verlet(), hf.Verlet("drift"), hf.Simpson(), hf.Newmark(0.5, 0)]


@pytest.mark.parametrize("method", CLOSED, ids=lambda m: m.name)
@KINDS
def test_closed_forms_agree_with_the_logarithm_of_a_step(method, kind):
    """Two invariant quadratic forms of the same step: on one mode they must be proportional."""
    system = hf.SecondOrder([[2.0]], [[3.0]])
    if kind == "first":
        system = hf.FirstOrder([[1 / 3]], [[2.0]], [[1.0]])
    dt, E = 0.4, propagator(system, method, 0.4)
    J, _ = structure_matrices(system)
    vals, vecs = np.linalg.eig(E)
    log = (vecs @ np.diag(np.log(vals)) @ np.linalg.inv(vecs)).real / dt
    form = quadratic_form(J, log)
    energy = hf.modified_energy(system, method, dt)
    ratios = []
    for z in ([1.0, 0.0], [0.0, 1.0], [0.3, -0.8]):
        ratios.append(energy(system.state(z[:1], z[1:])) / (0.5 * np.array(z) @ form @ z))
    assert np.ptp(ratios) < 1e-12
    assert ratios[0] == pytest.approx(1, abs=0.1)


def test_a_method_without_modified_energy_says_so():
    with pytest.raises(ValueError, match="conserves no modified energy"):
        hf.modified_energy(Small("second").system, hf.RK4(), 0.1)


def test_linear_first_integrals_are_found():
    M, K = ring(8, spread=0.4)
    system = hf.SecondOrder(M, K)
    (momentum,) = hf.linear_invariants(system)
    rng = np.random.default_rng(1)
    state = system.state(rng.normal(size=8), rng.normal(size=8))
    v = vector(state)[8:]
    # the total momentum, up to a factor
    factor = momentum(state) / (np.ones(8) @ M @ v)
    start = momentum(state)
    state = run(system, hf.Gauss(2), state, 0.1, 10.0)
    assert momentum(state) == pytest.approx(start, rel=1e-12)
    total = np.ones(8) @ M @ vector(state)[8:]
    assert momentum(state) == pytest.approx(factor * total, rel=1e-12)
    # the same from a kernel that the system was given, and for first order with both kinds
    given = hf.SecondOrder(M, K, kernel=[np.ones(8)])
    (known,) = hf.linear_invariants(given)
    assert abs(known(state)) == pytest.approx(abs(total) / np.sqrt(np.trace(M)), rel=1e-12)
    B = np.eye(8) - np.roll(np.eye(8), 1, axis=1)
    first = hf.FirstOrder(np.eye(8), M, B)
    integrals = hf.linear_invariants(first)
    assert len(integrals) == 2  # ker B and ker B'
    state = first.state(rng.normal(size=8), rng.normal(size=8))
    starts = [w(state) for w in integrals]
    state = run(first, hf.Yoshida(6), state, 0.1, 10.0)
    assert [w(state) for w in integrals] == pytest.approx(starts, rel=1e-12)


def test_structure_finds_what_is_wrong():
    good = hf.structure(Small("second").system)
    assert (good.poisson, good.casimirs) == (None, None)
    bad = hf.SecondOrder(np.eye(2), np.diag([1.0, -0.5]))
    assert hf.structure(bad).negative_energy == pytest.approx(0.5)
    with pytest.raises(ValueError, match="measured with a dt"):
        hf.structure(bad, hf.Verlet())
    big = hf.SecondOrder(sp.eye(3000), sp.eye(3000))
    with pytest.raises(ValueError, match="the system has 3000 unknowns: it is for systems of up"):
        hf.structure(big)


# ---------------------------------------------------------------- Noether


def shift(n):
    return np.roll(np.arange(n), -1)  # (X u)_i = u_(i+1)


@pytest.mark.parametrize(
    ("method", "kept"),
    [(hf.Verlet(), True), (hf.Yoshida(4), True), (hf.Gauss(2), True), (hf.RK4(), False)],
    ids=lambda m: getattr(m, "name", ""),
)
def test_the_momentum_of_a_ring_over_100_000_steps(method, kept):
    n = 6
    M, K = ring(n)
    system = hf.SecondOrder(M, K)
    noether = hf.noether(system, shift(n))
    rng = np.random.default_rng(4)
    phase = 2 * np.pi * np.arange(n) / n  # a wave that runs around, and some noise
    u, v = np.sin(phase) + 0.2 * rng.normal(size=n), np.cos(phase) + 0.2 * rng.normal(size=n)
    state = system.state(u - u.mean(), v - v.mean())  # no mean velocity: it stays where it is
    start = noether(state)
    # its own scale, |v| |(X - X')u|
    scale = np.linalg.norm(v) * np.linalg.norm(np.roll(u, -1) - np.roll(u, 1))
    assert abs(start) > 0.1 * scale
    dt = 0.3
    values = [
        noether(state) for state in hf.march(system, method, state, dt, 100_000 * dt, every=2000)
    ]
    assert state.step == 100_000
    changes = np.abs(np.array(values) - start) / scale
    if kept:
        assert changes.max() < 1e-12
        t = np.arange(len(changes)) * 2000 * dt
        assert abs(drift(t, changes)) * t[-1] < 1e-12
    else:
        assert changes[-1] > 0.1


def test_noether_of_first_order_systems():
    n = 8
    B = np.eye(n) - np.roll(np.eye(n), 1, axis=1)
    system = hf.FirstOrder(2 * np.eye(n), np.eye(n), B)
    noether = hf.noether(system, (shift(n), shift(n)))
    rng = np.random.default_rng(4)
    state = system.state(rng.normal(size=n), rng.normal(size=n))
    start, energy = noether(state), system.energy(state)
    assert start != pytest.approx(2 * energy, rel=0.1)
    state = run(system, hf.Gauss(2), state, 0.2, 200.0)
    assert noether(state) == pytest.approx(start, abs=1e-12 * energy)


def test_what_is_no_symmetry_is_refused():
    n = 8
    M, K = ring(n, spread=0.2)
    for X, matrices, message in (
        (shift(n), (M, K), "does not commute with M"),
        (shift(n), (np.eye(n), K + np.diag(np.arange(n))), "does not commute with K"),
        (2 * np.eye(n), (np.eye(n), K), "X is not orthogonal"),
        (np.zeros(n, int), (np.eye(n), K), "no permutation of 0 to 7"),
        (np.eye(3), (np.eye(n), K), "X is 3 x 3 and the system has 8"),
    ):
        with pytest.raises(ValueError, match=message):
            hf.noether(hf.SecondOrder(*matrices), X)
