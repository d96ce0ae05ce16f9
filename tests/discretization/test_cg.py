from mpi4py import MPI

import numpy as np
import pytest
import ufl
from dolfinx import fem

import hamfem as hf
from tests.verification import drift, order

COMM = MPI.COMM_WORLD
WALLS = ["left", "right", "bottom", "top", "back", "front"]


def membrane(comm, cell, n, degree, walls="clamped"):
    dim = 3 if cell in ("tetrahedron", "hexahedron") else 2
    domain = hf.box(comm, (0,) * dim, (1,) * dim, n, cell)
    condition = hf.Clamped if walls == "clamped" else hf.Free
    wave = hf.Acoustic(domain, 2.0, 8.0, [condition(*WALLS[: 2 * dim])])
    exact = hf.exact.StandingWave((1,) * dim, (1.0,) * dim, speed=2.0, walls=walls)
    return hf.cg(wave, degree), exact


def error(system, state, exact):
    u = system.fields(state)["u"]
    fine = fem.Function(fem.functionspace(u.function_space.mesh, ("Lagrange", 5)))
    fine.interpolate(exact.u(state.t))
    form = fem.form((u - fine) ** 2 * ufl.dx)
    return np.sqrt(u.function_space.mesh.comm.allreduce(fem.assemble_scalar(form)))


@pytest.mark.parametrize("walls", ["clamped", "free"])
@pytest.mark.parametrize(
    ("cell", "degree", "sizes"),
    [
        ("triangle", 1, (8, 16)),
        ("triangle", 2, (6, 12)),
        ("triangle", 3, (4, 8)),
        ("quadrilateral", 2, (6, 12)),
        ("tetrahedron", 1, (6, 12)),
        ("tetrahedron", 2, (4, 8)),
        ("hexahedron", 2, (4, 8)),
    ],
)
def test_displacement_converges_with_order_k_plus_1(cell, degree, sizes, walls):
    errors = []
    for n in sizes:
        system, exact = membrane(COMM, cell, n, degree, walls)
        state = system.state(u=exact.u(0), v=exact.v(0))
        for state in hf.march(system, hf.Gauss(1), state, 1e-3, 0.1, every=100):
            pass
        errors.append(error(system, state, exact))
    assert order([1 / n for n in sizes], errors) > degree + 1 - 0.3


@pytest.mark.parametrize("method", [hf.Verlet(), hf.Gauss(1)], ids=["Verlet", "midpoint"])
def test_time_integrators_have_order_2(method):
    # Against the semi-discrete solution, computed with a step 16 times smaller than the smallest
    # here. The nodal mode is no eigenvector: omega_max dt = 0.2 resolves all that it excites.
    system, exact = membrane(COMM, "triangle", 6, 2)

    def final(dt):
        state = system.state(u=exact.u(0), v=exact.v(0))
        for state in hf.march(system, method, state, dt, 0.5, every=1000):
            pass
        return state

    steps = [0.5 / 320, 0.5 / 640, 0.5 / 1280]
    reference = final(0.5 / 20480)
    errors = []
    for dt in steps:
        q = final(dt).q
        q.axpy(-1.0, reference.q)
        errors.append(q.norm())
    assert order(steps, errors) == pytest.approx(2.0, abs=0.05)


def energies(system, method, state, dt, steps, every):
    rows = [(0.0, system.energy(state))]
    for state in hf.march(system, method, state, dt, steps * dt, every=every):
        rows.append((state.t, system.energy(state)))
    return np.array(rows).T


@pytest.mark.parametrize("cell", ["triangle", "tetrahedron"])
def test_midpoint_conserves_the_energy_over_10000_steps(cell):
    system, exact = membrane(COMM, cell, 6 if cell == "triangle" else 3, 2)
    t, energy = energies(system, hf.Gauss(1), system.state(exact.u(0), exact.v(0)), 0.01, 10000, 20)
    relative = np.abs(energy / energy[0] - 1)
    assert relative.max() < 1e-11
    assert abs(drift(t, relative)) * t[-1] < 1e-11


def test_verlet_conserves_its_modified_energy_and_does_not_drift():
    system, exact = membrane(COMM, "triangle", 5, 2)
    dt = 0.5 * hf.Verlet().stable_dt(system)
    state = system.state(exact.u(0), exact.v(0))
    Ku, a = state.q.duplicate(), state.q.duplicate()

    def modified(state):
        system.K.mult(state.q, Ku)
        system.mass_solve(Ku, a)
        return system.energy(state) - dt**2 / 8 * a.dot(Ku)

    rows = [(0.0, system.energy(state), modified(state))]
    for state in hf.march(system, hf.Verlet(), state, dt, 10000 * dt, every=7):
        rows.append((state.t, system.energy(state), modified(state)))
    t, energy, shadow = np.array(rows).T
    assert np.abs(shadow / shadow[0] - 1).max() < 1e-11
    oscillation = np.abs(energy / energy[0] - 1)
    assert 1e-8 < oscillation.max() < 0.05  # bounded, and not an invariant
    assert abs(drift(t, oscillation)) * t[-1] < 0.02 * oscillation.max()


def test_linear_momentum_of_a_free_membrane_is_kept():
    system, exact = membrane(COMM, "triangle", 6, 2, walls="free")
    # A velocity of mean 0: a thrown membrane would lose digits in K u, whose rigid part grows.
    state = system.state(exact.u(0), lambda x: x[0] - 0.5)
    ones, work = state.v.duplicate(), state.v.duplicate()
    ones.set(1.0)
    system.M.mult(ones, work)
    size = np.sqrt(ones.dot(work) * 2 * system.kinetic(state))
    momentum = work.dot(state.v)
    assert momentum == pytest.approx(0.0, abs=1e-15 * size)
    for state in hf.march(system, hf.Gauss(1), state, 0.01, 10.0, every=100):
        # 1e-15 a step is what round-off of a direct solve may do without deflation.
        assert abs(work.dot(state.v) - momentum) < 1e-15 * state.step * size


@pytest.mark.parametrize("method", [hf.Verlet(), hf.Gauss(1)], ids=["Verlet", "midpoint"])
def test_the_same_answer_on_any_number_of_ranks(method):
    results = []
    for comm in (COMM, MPI.COMM_SELF):
        system, exact = membrane(comm, "triangle", 8, 2)
        state = system.state(hf.exact.bump((0.4, 0.6), 0.2), exact.v(0))
        for state in hf.march(system, method, state, 0.005, 1.0, every=200):
            pass
        results.append((system.energy(state), system.kinetic(state), error(system, state, exact)))
    assert results[0] == pytest.approx(results[1], rel=1e-10)


def test_largest_frequency_of_the_specification():
    # Unit square, right diagonals, rho = kappa = 1: omega_max / n = 5.30, 11.6, 19.0 for k = 1..3.
    domain = hf.box(COMM, (0, 0), (1, 1), 8)
    for degree, expected in ((1, 5.30), (2, 11.6), (3, 19.0)):
        system = hf.cg(hf.Acoustic(domain), degree)
        assert system.max_frequency() / 8 == pytest.approx(expected, rel=0.02)


def test_clamped_values_stay_zero():
    system, _ = membrane(COMM, "quadrilateral", 6, 2)
    state = system.state(u=lambda x: 1.0 + 0 * x[0], v=lambda x: 1.0 + 0 * x[0])
    for state in hf.march(system, hf.Verlet(), state, 0.001, 0.1, every=50):
        pass
    clamped = system.space.samples.clamped
    assert COMM.allreduce(len(clamped)) > 0
    assert np.all(system.fields(state)["u"].x.array[clamped] == 0)


def test_bad_input_gives_one_sentence():
    domain = hf.box(COMM, (0, 0), (1, 1), 4)
    for degree in (0, -1, 1.5):
        with pytest.raises(ValueError, match="degree of at least 1"):
            hf.cg(hf.Acoustic(domain), degree)
    system = hf.cg(hf.Acoustic(domain), 1)
    with pytest.raises(TypeError, match="a number, a callable x -> array or a UFL expression"):
        system.state(u="bump")
    with pytest.raises(ValueError, match="initial v is not finite"):
        system.state(v=lambda x: np.nan * x[0])
