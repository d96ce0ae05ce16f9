"""Systems from matrices: their maps, their checks, their solvers."""

import math

from mpi4py import MPI
from petsc4py import PETSc

import numpy as np
import pytest
import scipy.sparse as sp

import hamfem as hf
from hamfem import matrices
from hamfem.matrices import as_petsc, gathered_vector
from tests.integrators.methods import IIIA, IIIB, WEIGHTS
from tests.small import definite, ring, run, vector

I4 = np.eye(4)


def test_bad_matrices_are_refused_with_one_sentence():
    skew = I4.copy()
    skew[0, 1] = 0.5
    nan = I4.copy()
    nan[2, 2] = math.nan
    for make, message in (
        (lambda: hf.SecondOrder(skew, I4), "M must be symmetric"),
        (lambda: hf.SecondOrder(I4, skew), "K must be symmetric"),
        (lambda: hf.SecondOrder(I4, I4, R=skew), "R must be symmetric"),
        (lambda: hf.SecondOrder(np.diag([1.0, 1, -1, 1]), I4), "M must be positive definite"),
        (lambda: hf.SecondOrder(I4, np.eye(3)), "K is 3 x 3 and M 4"),
        (lambda: hf.SecondOrder(I4, np.ones((4, 3))), "K must be square and is 4 x 3"),
        (lambda: hf.SecondOrder(nan, I4), "M has entries that are NaN"),
        (lambda: hf.SecondOrder(I4, nan), "K has entries that are NaN"),
        (lambda: hf.FirstOrder(I4, np.eye(3), I4), "B is 4 x 4 and must be 3 x 4"),
        (lambda: hf.FirstOrder(skew, I4, I4), "M_q must be symmetric"),
        (lambda: hf.FirstOrder(I4, -I4, I4), "M_v must be positive definite"),
        (lambda: hf.FirstOrder(I4, I4, I4, R_q=np.eye(3)), "R_q is 3 x 3 and must be 4 x 4"),
        (lambda: hf.SecondOrder(I4, I4, loads=[hf.Load(math.sin, [1, 2])]), "a load has shape"),
        (
            lambda: hf.SecondOrder(I4, I4, loads=[hf.SampledLoad(np.eye(3), math.sin)]),
            "W has 3 rows",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            make()
    with pytest.raises(TypeError, match=r"a load is a hf\.Load"):
        hf.SecondOrder(I4, I4, loads=[math.sin])


def test_bad_states_are_refused():
    system = hf.SecondOrder(I4, I4)
    with pytest.raises(ValueError, match="v is not finite"):
        system.state(0, [1, 2, math.nan, 4])
    with pytest.raises(ValueError, match=r"u has shape \(3,\) and the system 4 unknowns"):
        system.state([1, 2, 3])
    with pytest.raises(ValueError, match="it has vectors and no fields"):
        system.fields(system.state())


def test_an_indefinite_mass_with_positive_diagonal_is_refused():
    with pytest.raises(ValueError, match="M must be positive definite: it has a negative eigenv"):
        hf.SecondOrder([[1.0, 3.0], [3.0, 1.0]], np.eye(2))
    n = 300  # too large for a look at all eigenvalues: seen when the energy is negative
    M = sp.diags([1.0, 0.8, 0.8], [0, 1, -1], shape=(n, n))
    system = hf.SecondOrder(M, sp.eye(n))
    with pytest.raises(ValueError, match="the kinetic energy is negative"):
        hf.march(system, hf.Gauss(1), system.state(0, (-1.0) ** np.arange(n)), 0.1, 1.0)


def maps(system, w, r):
    """What every map does to w (in v) and r (in q)."""
    out_v, out_q, again = system.new_v(), system.new_q(), system.new_v()
    system.mass(w, out_v)
    yield gathered_vector(out_v)
    system.mass_solve(out_v, again)
    yield gathered_vector(again)
    system.flux(w, out_q)
    yield gathered_vector(out_q)
    system.restoring(r, out_v)
    yield gathered_vector(out_v)
    system.stiffness(w, out_v)
    yield gathered_vector(out_v)
    system.shifted(0.7, 0.3)(w, out_v)
    yield gathered_vector(out_v)
    pair = [system.new_v(), system.new_v()]
    system.shifted_pair(0.7 + 0.4j, 0.3 - 0.1j)([w, out_v], pair)
    yield np.concatenate([gathered_vector(x) for x in pair])


@pytest.mark.parametrize("diagonal", [True, False], ids=["sparse K", "saddle"])
def test_the_maps_of_a_first_order_system(diagonal):
    rng = np.random.default_rng(2)
    M_q = np.diag(np.linspace(1, 2, 5)) if diagonal else definite(5, 1, 2, 1)
    M_v, B = definite(4, 1, 2, 2), rng.normal(size=(4, 5))
    R = definite(4, 0, 1, 3)
    system = hf.FirstOrder(M_q, M_v, B, R_v=R)
    assert (system._sparse_K is not None) == diagonal
    K = B @ np.linalg.solve(M_q, B.T)
    w, r = rng.normal(size=4), rng.normal(size=5)
    state = system.state(r, w)
    shifted = np.linalg.solve(M_v + 0.3 * R + 0.7 * K, w)
    x = np.linalg.solve(M_v + (0.3 - 0.1j) * R + (0.7 + 0.4j) * K, w + 1j * shifted)
    expected = [
        M_v @ w, w, -np.linalg.solve(M_q, B.T @ w), B @ r, K @ w, shifted, np.r_[x.real, x.imag]
    ]  # fmt: skip
    for got, value in zip(maps(system, state.v, state.q), expected, strict=True):
        assert np.allclose(got, value, rtol=0, atol=1e-13 * np.abs(value).max())
    omega = np.sqrt(np.linalg.eigvals(np.linalg.solve(M_v, K)).real.max())
    assert system.max_frequency() == pytest.approx(omega, rel=1e-6)


def test_the_maps_of_a_second_order_system():
    rng = np.random.default_rng(2)
    M, K, R = definite(4, 1, 2, 2), definite(4, 0, 5, 1), definite(4, 0, 1, 3)
    system = hf.SecondOrder(M, K, R=R)
    w, r = rng.normal(size=4), rng.normal(size=4)
    state = system.state(r, w)
    shifted = np.linalg.solve(M + 0.3 * R + 0.7 * K, w)
    x = np.linalg.solve(M + (0.3 - 0.1j) * R + (0.7 + 0.4j) * K, w + 1j * shifted)
    expected = [M @ w, w, w, -K @ r, K @ w, shifted, np.r_[x.real, x.imag]]
    for got, value in zip(maps(system, state.v, state.q), expected, strict=True):
        assert np.allclose(got, value, rtol=0, atol=1e-13 * np.abs(value).max())


def test_the_largest_frequency_of_a_long_chain():
    n = 400
    K = sp.diags([2.0, -1.0, -1.0], [0, -1, 1], shape=(n, n))
    omega = 2 * np.sin(np.pi * n / (2 * (n + 1)))
    system = hf.SecondOrder(sp.eye(n), K)
    assert system.max_frequency() == pytest.approx(omega, rel=1e-6)


def thrown_ring(deflated):
    """A free ring that vibrates, with full matrices so that round-off shows.

    If its kernel is known it is thrown as well, so that u grows to 10 000.
    """
    n = 40
    _, K = ring(n)
    Q = np.eye(n) + 0.1 * np.sin(np.add.outer(np.arange(n), np.arange(n) ** 2.0)) / n
    M, K = Q.T @ Q, Q.T @ K @ Q
    w = np.linalg.solve(Q, np.ones(n))
    rng = np.random.default_rng(1)
    system = hf.SecondOrder(M, K, kernel=[w] if deflated else [])
    return system, system.state(rng.normal(size=n), (10 * deflated) * w + rng.normal(size=n)), M @ w


LONG_RUN = [
    hf.Verlet(), hf.Gauss(1), hf.Gauss(2), hf.SymplecticDIRK(4), hf.Newmark(), hf.Simpson()
]  # fmt: skip


@pytest.mark.parametrize("method", LONG_RUN, ids=lambda m: m.name)
@pytest.mark.parametrize("deflated", [True, False], ids=["deflated", "plain"])
def test_momentum_and_energy_over_10_000_steps(method, deflated):
    system, state, Mw = thrown_ring(deflated)
    scale = np.sqrt(2 * system.kinetic(state) * 40)  # |v|_M |w|_M
    momentum = Mw @ gathered_vector(state.v)
    energy = hf.modified_energy(system, method, 0.1)
    energy0 = energy(state)
    state = run(system, method, state, 0.1, 1000.0, every=2500)
    assert state.step == 10_000
    change = abs(Mw @ gathered_vector(state.v) - momentum) / scale
    # the rule of the house: 1e-13 with the kernel given, at most 1e-15 a step without
    assert change < (1e-13 if deflated else 1e-15 * state.step)
    assert abs(energy(state) / energy0 - 1) < 1e-11


@pytest.mark.parametrize("method", [hf.Gauss(1), hf.Gauss(2)], ids=lambda m: m.name)
def test_krylov_solvers_by_options_keep_the_invariants(method):
    """Iterations do not grow with the mesh, at fixed dt and at fixed dt/h."""
    options = PETSc.Options()
    names = {
        "hamfem_shifted_ksp_type": "cg",
        "hamfem_pair_ksp_type": "minres",
    }
    for name, value in names.items():
        options[name] = value
    try:
        counts = {}
        for n in (25, 50, 100):
            K1 = sp.diags([2.0, -1.0, -1.0], [0, -1, 1], shape=(n, n)) * n**2
            K = sp.kron(K1, sp.eye(n)) + sp.kron(sp.eye(n), K1)
            system = hf.SecondOrder(sp.eye(n * n), K)
            x = np.sin(np.pi * np.arange(1, n + 1) / (n + 1)) ** 3
            for label, dt in (("fixed dt", 0.05), ("fixed dt/h", 1.0 / n)):
                eigenvalue = 0.5 if method.name == "Gauss(1)" else (3 + 1j * 3**0.5) / 12
                a = system.stage(dt * eigenvalue)
                ksp = _ksp_of(a)
                state = system.state(np.kron(x, x))
                energy = system.energy(state)
                state = run(system, method, state, dt, 5 * dt)
                assert system.energy(state) == pytest.approx(energy, rel=1e-10)
                zq, zv, kq, kv = ([system.new_v() for _ in range(2)] for _ in range(4))
                for z in zq:
                    state.q.copy(z)
                m = 1 if method.name == "Gauss(1)" else 2
                a(zq[:m], zv[:m], None, None, kq[:m], kv[:m])
                counts.setdefault(label, []).append(ksp.getIterationNumber())
    finally:
        for name in names:
            options.delValue(name)
    for label, values in counts.items():
        assert min(values) > 1
        assert values[-1] <= 1.2 * values[0] + 3, (label, values)


def _ksp_of(stage):
    """The solver inside a stage."""
    for name, cell in zip(stage.__code__.co_freevars, stage.__closure__):
        if name == "pair" and _filled(cell):
            return cell.cell_contents.solver
        if name == "single" and _filled(cell):
            return cell.cell_contents.__self__
    raise AssertionError("no solver found")


def _filled(cell):
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def test_petsc_matrices_of_a_subcommunicator():
    system = hf.SecondOrder(I4, 2 * I4, comm=MPI.COMM_SELF)
    assert system.comm.size == 1
    state = run(system, hf.Gauss(2), system.state(np.ones(4)), 0.1, 1.0)
    assert system.energy(state) == pytest.approx(4.0, rel=1e-13)
    assert as_petsc(system.M, "M").comm.size == 1


def test_a_sampled_load_is_the_same_as_separated_ones():
    forces = np.random.default_rng(1).normal(size=(4, 2))
    separated = [hf.Load(math.sin, forces[:, 0]), hf.Load(math.cos, forces[:, 1])]
    sampled = [hf.SampledLoad(forces, lambda t: np.array([math.sin(t), math.cos(t)]))]
    ends = []
    for loads in (separated, sampled):
        system = hf.SecondOrder(I4, definite(4, 1, 2, 1), loads=loads)
        state = run(system, hf.Gauss(2), system.state(), 0.1, 2.0)
        ends.append(np.r_[vector(state), state.work])
    assert np.allclose(*ends, rtol=0, atol=1e-14)
    assert np.abs(ends[0]).max() > 0.1


def test_energies_of_many_states():
    system = hf.SecondOrder(np.eye(3), np.eye(3))
    for a in (1.0, 2.0, 3.0):  # freed vectors leave their place to new ones
        assert system.energy(system.state(v=a * np.ones(3))) == pytest.approx(1.5 * a**2)


FACTORISED = [
    hf.Verlet(), hf.RK4(), hf.Gauss(1), hf.Gauss(2), hf.Gauss(3), hf.SymplecticDIRK(4),
    hf.Newmark(), hf.Simpson(), hf.GeneralizedAlpha(0.8),
    hf.PartitionedRungeKutta(IIIA, WEIGHTS, IIIB, WEIGHTS, name="Lobatto IIIAB"),
]  # fmt: skip


@pytest.mark.parametrize("method", FACTORISED, ids=lambda m: m.name)
@pytest.mark.parametrize("kind", ["second", "sparse K", "saddle", "damped saddle"])
def test_factorised_and_inverted_matrices_give_the_same(method, kind, monkeypatch):
    if kind == "damped saddle" and method.name.startswith(("New", "Gen", "Sim", "Lob", "Sym")):
        pytest.skip("knows no damping")
    n = 120
    chain = sp.diags([2.0, -1.0, -1.0], [0, -1, 1], shape=(n, n), format="csr")
    mass = sp.diags([4.0, 1.0, 1.0], [0, -1, 1], shape=(n, n), format="csr") / 6
    B = sp.eye(n, format="csr") - sp.diags([1.0], [1], shape=(n, n), format="csr")
    rng = np.random.default_rng(1)
    q, v = rng.normal(size=(2, n))
    ends = []
    for small in (100, 1000):
        monkeypatch.setattr(matrices, "SMALL", small)
        if kind == "second":
            system = hf.SecondOrder(mass, chain)
        elif kind == "sparse K":
            system = hf.FirstOrder(sp.eye(n), mass, B)
        else:
            R = mass if kind == "damped saddle" else None
            system = hf.FirstOrder(mass, mass, B, R_q=R)
        ends.append(vector(run(system, method, system.state(q, v), 0.1, 2.0)))
    assert np.abs(ends[0] - ends[1]).max() < 1e-12 * np.abs(ends[1]).max()
