"""The Yee scheme against the mixed method, matrices and exact solutions."""

from mpi4py import MPI

import numpy as np
import pytest
import scipy.linalg
import sympy

import hamfem as hf
from hamfem.discretization.nodal import owned_vector
from hamfem.matrices import gathered
from tests.discretization.maxwell import COMM, SIDES
from tests.discretization.yee import KINDS, WALLS, field, grid, random_state, rough
from tests.integrators.methods import ALL, each
from tests.verification import check_orders, error

T = sympy.Symbol("t")


def materials(name, kind):
    """A domain with eps and mu."""
    domain, _ = grid(kind)
    if name == "numbers":
        return domain, 2.0, 0.7
    if name == "callables":
        return domain, lambda x: 1 + x[0] ** 2, lambda x: 2 + x[1]
    x = domain.lower[0] + (domain.upper[0] - domain.lower[0]) * (domain.n[0] // 2) / domain.n[0]
    domain = domain.name_region("glass", lambda X: X[0] < x + 1e-9)
    domain = domain.name_region("vacuum", lambda X: X[0] > x - 1e-9)
    return domain, {"vacuum": 1.0, "glass": 4.0}, {"vacuum": 1.0, "glass": 2.0}


def largest(x):
    return COMM.allreduce(float(np.abs(x).max(initial=0.0)), MPI.MAX)


@pytest.mark.parametrize("walls", WALLS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("material", "method"), [
    ("numbers", hf.Verlet()), ("regions", hf.Yoshida(4)), ("callables", hf.Verlet("drift")),
])  # fmt: skip
def test_the_mixed_method_of_degree_0_is_the_same(kind, walls, material, method):
    domain, eps, mu = materials(material, kind)
    dim = domain.dim
    if walls == "absorbing":
        # The trace of a callable on a wall is averaged in another way there.
        material, eps, mu, method = "numbers", 2.0, 0.7, hf.Verlet()
    J = 0.3 if kind == "TM" else [0.3, 0.2, 0.1][:dim]
    sources = [hf.Source(J, sympy.cos(3 * T))] if material == "numbers" else []
    wave = hf.Maxwell(domain, eps, mu, KINDS[kind][1], WALLS[walls](dim), sources)
    system, twin = hf.yee(wave), hf.mixed(wave, 0)
    state = system.state(E=field(kind), A=field(kind))
    fields, other = system.fields(state), twin.state(E=0)
    v, q = (owned_vector(f.function_space, f.x.array) for f in (fields["E"], fields["B"]))
    v.scale(-1.0)
    twin.edges.on_V.picked(v).copy(other.v)
    twin.edges.on_W.picked(q).copy(other.q)
    assert system.kinetic(state) == pytest.approx(twin.kinetic(other), rel=1e-13)
    assert system.potential(state) == pytest.approx(twin.potential(other), rel=1e-13)
    assert system.max_frequency() == pytest.approx(twin.max_frequency(), rel=1e-6)
    dt = 0.4 * method.stable_dt(system)
    first = system.energy(state)
    for state in hf.march(system, method, state, dt, 24 * dt, every=8):
        pass
    for other in hf.march(twin, method, other, dt, 24 * dt, every=8):
        pass
    found, expected = system.fields(state), twin.fields(other)
    for name in "EB":
        a, b = found[name].x.array, expected[name].x.array
        assert largest(a - b) < 1e-13 * largest(b)
    assert abs(state.work - other.work) < 1e-13 * first
    assert abs(state.outflow - other.outflow) < 1e-13 * first
    assert (state.outflow > 1e-2 * first) == (walls == "absorbing")
    if kind != "TM":
        charge = twin.charges(other)["total_charge"]
        found = system.charges(state)["total_charge"]
        assert found == pytest.approx(charge, abs=1e-12 * np.sqrt(first))


@pytest.mark.parametrize("walls", WALLS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_kernel_has_assembled_twins(kind, walls):
    domain, polarization = grid(kind)
    wave = hf.Maxwell(domain, rough(0), rough(1), polarization, WALLS[walls](domain.dim))
    system = hf.yee(wave)
    state = random_state(system)
    q, v = state.q, state.v
    a, b = system.new_v(), system.new_v()
    system.restoring(q, a)
    system.B.mult(q, b)
    b.axpy(-1.0, a)
    assert b.norm() < 1e-15 * 10 * a.norm()
    f, g = system.new_q(), system.new_q()
    system.flux(v, f)
    system.M_q.mult(f, g)
    system.B.multTransposeAdd(v, g, g)
    system.B.multTranspose(v, f)
    assert g.norm() < 1e-15 * 10 * f.norm()
    system.M_v.mult(v, a)
    assert system.kinetic(state) == pytest.approx(0.5 * v.dot(a), rel=1e-14)
    system.M_q.mult(q, f)
    assert system.potential(state) == pytest.approx(0.5 * q.dot(f), rel=1e-14)


@pytest.mark.parametrize("walls", ["conducting", "absorbing", "periodic", "tube"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", [
    hf.Verlet(), hf.Verlet("drift"), hf.Ruth3(), hf.PEFRL(),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("blocking", [(2, 2), (4, 1), (16, 3)], ids=str)
def test_compiled_steps_are_those_of_kicks_and_drifts(kind, walls, method, blocking):
    # However many kicks and drifts share a sweep, and however few cells there are for them.
    if method.negative_steps and walls == "absorbing":
        method = hf.Verlet()
    domain, polarization = grid(kind)
    sources = [hf.Source(field(kind), sympy.cos(4 * T)), hf.Source(field(kind), 1.5)]
    wave = hf.Maxwell(domain, rough(0), 0.7, polarization, WALLS[walls](domain.dim), sources)
    system, plain = hf.yee(wave), hf.yee(wave)
    plain.compiled = lambda parts, dt: None
    system.stencil.blocking = blocking
    states = []
    for one in (system, plain):
        state = random_state(one)
        dt = 0.6 * method.stable_dt(system)
        for state in hf.march(one, method, state, dt, 30 * dt, every=11):
            pass
        states.append(state)
    a, b = states
    for name in "vq":
        x, y = getattr(a, name), getattr(b, name)
        size = y.norm()
        y.axpy(-1.0, x)
        assert y.norm() < 1e-13 * size
    assert a.work == pytest.approx(b.work, rel=1e-11)
    assert a.outflow == pytest.approx(b.outflow, rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("walls", [
    *(name for name in WALLS if name != "absorbing"), "mixed",
])  # fmt: skip
@pytest.mark.parametrize("n", [2, 3])
def test_the_largest_frequency_in_closed_form(kind, walls, n):
    sides = {**WALLS, "mixed": lambda dim: [hf.Clamped("left", "top")]}[walls]
    domain, polarization = grid(kind, n=(n, n + 1, n + 2)[: len(KINDS[kind][2])])
    if COMM.size > n:
        pytest.skip("too small for so many ranks")
    system = hf.yee(hf.Maxwell(domain, 2.0, 0.7, polarization, sides(domain.dim)))
    K, M = gathered(system._sparse_K).toarray(), gathered(system.M_v).toarray()
    omega = np.sqrt(scipy.linalg.eigvalsh(K, M)[-1])
    assert system.max_frequency() == pytest.approx(omega, rel=1e-12)
    assert system._found_frequency() == pytest.approx(omega, rel=1e-10)


def test_the_stability_limit_has_ten_digits():
    # A periodic box with an even number of cells: c dt < 1 / sqrt(1/dx² + 1/dy² + 1/dz²).
    domain, _ = grid("3D", n=(8, 6, 4))
    h = np.array([1, 1.3, 0.7]) / (8, 6, 4)
    system = hf.yee(hf.Maxwell(domain, 2.0, 0.7, boundary=WALLS["periodic"](3)))
    limit = np.sqrt(2.0 * 0.7 / np.sum(1 / h**2))
    assert hf.Verlet().stable_dt(system) == pytest.approx(limit, rel=1e-10)
    with pytest.raises(ValueError, match="is beyond the stable step"):
        hf.march(system, hf.Verlet(), system.state(), limit * (1 + 1e-10), limit * (100 + 1e-8))
    # The zigzag stays bounded below the limit and grows beyond it.
    for factor, bounded in ((1 - 1e-3, True), (1 + 1e-3, False)):
        state, dt = random_state(system), factor * limit
        first = system.energy(state)
        advance = hf.Verlet().bind(system, dt)
        advance(state, 400)
        assert (system.energy(state) < 1e4 * first) == bounded
    # Conducting walls: the steepest wave has n - 1 of n half waves along each axis.
    system = hf.yee(hf.Maxwell(domain, 2.0, 0.7, boundary=WALLS["conducting"](3)))
    s = 2 / h * np.cos(np.pi / (2 * np.array([8, 6, 4])))
    limit = 2 / np.sqrt(np.sum(s**2) / 1.4)
    assert hf.Verlet().stable_dt(system) == pytest.approx(limit, rel=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_orders_of_a_cavity_mode(kind):
    cell, polarization, cells = KINDS[kind]
    dim, sizes, rows = len(cells), (8, 16), []
    mode = hf.exact.CavityMode(dim, polarization, permittivity=2.0, permeability=0.5)
    for n in sizes:
        domain = hf.box(COMM, (0,) * dim, (1,) * dim, n, cell)
        wave = hf.Maxwell(domain, 2.0, 0.5, polarization, WALLS["conducting"](dim))
        system = hf.yee(wave)
        state = system.state(E=mode.E(0), B=mode.B(0))
        for state in hf.march(system, hf.Verlet(), state, 0.4 / n, 1.0, every=10**6):
            pass
        exact = system.state(E=mode.E(1.0), B=mode.B(1.0))
        row = {}
        for name, x, y in (("E", state.v, exact.v), ("H", state.q, exact.q)):
            size = y.norm()
            x.axpy(-1.0, y)
            row[name] = x.norm() / size
        rows.append(row)
        if n == sizes[-1]:
            at_end = system.fields(exact)
            size = error(at_end["E"], lambda x: 0 * mode.E(1.0)(x))
            assert error(at_end["E"], mode.E(1.0)) < 0.1 * size
    check_orders(sizes, rows, {"E": 2, "H": 2}, below=0.1)


@each(ALL)
def test_every_integrator_is_that_of_the_matrices(method, order, limit):
    # The same Poisson system from its matrices alone.
    domain, _ = grid("3D", n=(4, 3, 3))
    source = hf.Source(field("3D"), sympy.cos(4 * T))
    wave = hf.Maxwell(domain, rough(0), rough(1), boundary=WALLS["tube"](3), sources=[source])
    system = hf.yee(wave)
    load = system.space.current(source)
    force = hf.Load(load.amplitude, load.vector, load.antiderivative)
    twin = hf.FirstOrder(system.M_q, system.M_v, system.B, loads=[force])
    dt = min(0.5 * limit / system.max_frequency(), 0.02)
    ends = []
    for one in (system, twin):
        state = random_state(system)
        for state in hf.march(one, method, state, dt, 12 * dt, every=5):
            pass
        ends.append(state)
    a, b = ends
    for name in "vq":
        x, y = getattr(a, name), getattr(b, name)
        size = y.norm()
        y.axpy(-1.0, x)
        assert y.norm() < 1e-12 * size
    assert abs(a.work) > 1e-6
    assert a.work == pytest.approx(b.work, rel=1e-9)


def test_implicit_methods():
    domain, polarization = grid("3D", n=(4, 3, 3))
    wave = hf.Maxwell(domain, rough(0), rough(1), polarization, WALLS["absorbing"](3))
    system = hf.yee(wave)
    ends = []
    for method, dt in ((hf.Gauss(2), 0.01), (hf.Gauss(1), 0.0025), (hf.Verlet(), 0.0002)):
        state = random_state(system)
        first = system.energy(state)
        for state in hf.march(system, method, state, dt, 0.1, every=1000):
            pass
        balance = system.energy(state) + state.outflow - first
        assert abs(balance) < (1e-12 if np.isinf(method.limit) else 1e-3) * first
        ends.append(system.energy(state))
    assert ends[0] == pytest.approx(ends[1], rel=1e-3)
    assert ends[0] == pytest.approx(ends[2], rel=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_starts(kind):
    domain, polarization = grid(kind)
    dim = domain.dim
    system = hf.yee(hf.Maxwell(domain, rough(0), rough(1), polarization, WALLS["tube"](dim)))
    if kind != "TE":
        # B from a potential has no divergence, nor have means whose quadrature is not exact.
        a = 2 * np.pi

        def B(x):
            dx = a * np.cos(a * x[0]) * np.cos(3 * x[1])
            dy = -3 * np.sin(a * x[0]) * np.sin(3 * x[1])
            return np.stack([dy, -dx, 0 * dx][:dim])

        def A(x):
            potential = np.sin(a * x[0]) * np.cos(3 * x[1])
            return potential if kind == "TM" else np.stack([0 * x[0], 0 * x[0], potential])

        states = [system.state(A=A), system.state(B=B)]
        for state in states:
            assert system.charges(state)["magnetic_charge"] < 1e-11 * a
        first, second = states
        size = first.q.norm()
        first.q.axpy(-1.0, second.q)
        assert first.q.norm() < 1e-2 * size
        with pytest.raises(ValueError, match="the initial B is not free of divergence"):
            system.state(B=lambda x: np.stack([np.sin(6 * x[0]), 0 * x[0], 0 * x[0]][:dim]))
    with pytest.raises(ValueError, match="B and H say the same of the start"):
        system.state(B=0, H=0)
    with pytest.raises(ValueError, match="must return an array of shape"):
        system.state(E=lambda x: np.zeros((5, x.shape[1])))


@pytest.mark.parametrize("material", ["callables", "regions"])
def test_a_box_makes_no_mesh_until_it_is_asked_for(material):
    domain, eps, mu = materials(material, "3D")
    mu = np.diag([1.0, 2.0, 3.0]) if material == "callables" else mu
    wave = hf.Maxwell(domain, eps, mu, boundary=WALLS["absorbing"](3))
    system = hf.yee(wave)
    state = system.state(E=field("3D"))
    for state in hf.march(system, hf.Verlet(), state, 0.01, 0.1):
        pass
    system.invariants(state)
    assert "_named" not in vars(domain)
    system.fields(state)
    assert "_named" in vars(domain)
    assert SIDES == list(domain.boundaries)


@pytest.mark.parametrize("kind", KINDS)
def test_values_on_the_grid_are_those_of_the_fields(kind):
    domain, polarization = grid(kind)
    dim = domain.dim
    system = hf.yee(hf.Maxwell(domain, polarization=polarization))

    def ramp(n):
        if n == 1:
            return lambda x: 1 + x[0]
        return lambda x: np.stack([1 + i + x[(i - 1) % n] for i in range(n)])

    sizes = {"TE": (2, 1), "TM": (1, 2)}.get(polarization, (3, 3))
    state = system.state(E=ramp(sizes[0]), H=ramp(sizes[1]), start="projection")
    values = system.grid_values(state)
    names = {None: "Ex Ey Ez Hx Hy Hz", "TE": "Ex Ey Hz", "TM": "Ez Hx Hy"}[polarization]
    assert sorted(values) == names.split()
    for name, (lines, found) in values.items():
        n, i = sizes["EH".index(name[0])], "xyz".index(name[1])
        x = np.meshgrid(*lines, indexing="ij")
        expected = 1 + i + x[(i - 1) % n] if n > 1 else 1 + x[0]
        if name[0] == "E":  # H may lose a divergence
            assert np.allclose(found, expected, atol=1e-13)
    assert "energy_density" in system.densities(state)
    assert dim == len(next(iter(values.values()))[0])
