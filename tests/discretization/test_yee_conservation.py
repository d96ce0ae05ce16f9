"""What the Yee scheme conserves, its ranks, and what it refuses."""

from mpi4py import MPI

import numpy as np
import pytest
import sympy

import hamfem as hf
from hamfem.discretization.yee_grid import edges
from tests.discretization.maxwell import COMM, SIDES
from tests.discretization.test_bad_input import refused
from tests.discretization.yee import KINDS, WALLS, field, grid, random_state, rough
from tests.verification import drift

T = sympy.Symbol("t")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("walls", ["conducting", "periodic", "free"])
def test_charges_over_10_000_steps(kind, walls):
    # Between ranks a small step is little but waiting for messages.
    steps = 10_000 if COMM.size == 1 else 400
    domain, polarization = grid(kind)
    wave = hf.Maxwell(domain, rough(0), rough(1), polarization, WALLS[walls](domain.dim))
    system, method = hf.yee(wave), hf.Verlet()
    state = system.state(E=field(kind))
    random = random_state(system)
    random.q.copy(state.q)
    dt = 0.9 * method.stable_dt(system)
    D = np.sqrt(2 * system.kinetic(state))
    B = np.sqrt(2 * system.potential(state)) / min(system.grid.h)
    first, rows = system.space.divergence(state.q), []
    exact = hf.modified_energy(system, method, dt)
    energy = exact(state)
    for state in hf.march(system, method, state, dt, steps * dt, every=steps // 10):
        if kind != "TM":
            assert system.charges(state)["electric_charge"] < 1e-13 * D
        if kind != "TE":
            change = np.abs(system.space.divergence(state.q) - first).max(initial=0.0)
            assert COMM.allreduce(change, MPI.MAX) < 1e-13 * B
        rows.append((state.t, exact(state) / energy - 1))
    t, relative = np.array(rows).T
    assert np.abs(relative).max() < 1e-11
    assert abs(drift(t, relative)) * t[-1] < 1e-11


@pytest.mark.parametrize("kind", ["3D", "TE"])
@pytest.mark.parametrize("method", [hf.Verlet(), hf.PEFRL(), hf.Gauss(2)], ids=lambda m: m.name)
def test_charges_are_balanced_after_every_step(kind, method):
    domain, polarization = grid(kind)
    walls = [hf.Clamped("left"), hf.Periodic("bottom", "top")]
    source = hf.Source(field(kind), sympy.cos(5 * T))
    system = hf.yee(hf.Maxwell(domain, rough(0), rough(1), polarization, walls, [source]))
    state = system.state(E=field(kind))
    dt = 0.02 if np.isinf(method.limit) else 0.6 * method.stable_dt(system)
    totals = []
    for state in hf.march(system, method, state, dt, 40 * dt, every=3):
        D, found = np.sqrt(2 * system.energy(state)), system.charges(state)
        assert found["electric_charge"] < 1e-13 * D
        totals.append(found["total_charge"])
    assert np.ptp(totals) > 1e-3 * D


def helix(x):
    """A field that turns, so that it has chirality."""
    a, b = 2 * np.pi * x[2] / 0.7, 2 * np.pi * x[0]
    return np.stack([np.cos(a), np.sin(a) + np.cos(b), 0.4 * np.sin(b)])


@pytest.mark.parametrize("method", [hf.Gauss(1), hf.Gauss(2), hf.Verlet(), hf.Yoshida(4)], ids=str)
def test_optical_chirality(method):
    # On unequal cells, 3 of them along an axis: the exact discrete invariant of Lipkin.
    domain, _ = grid("3D", n=(6, 4, 3))
    system = hf.yee(hf.Maxwell(domain, 2.0, 0.7, boundary=WALLS["periodic"](3)))
    state = system.state(E=helix, A=lambda x: 0.3 * helix(x)[[1, 2, 0]])
    random = random_state(system)
    state.q.axpy(0.1, random.q)
    state.v.axpy(0.1, random.v)
    explicit = not np.isinf(method.limit)
    dt = 0.5 * method.stable_dt(system) if explicit else 0.05
    first = system.invariants(state)["optical_chirality"]
    assert abs(first) > 1.0
    rows = []
    for state in hf.march(system, method, state, dt, 200 * dt, every=2):
        rows.append((state.t, abs(system.invariants(state)["optical_chirality"] / first - 1)))
    t, relative = np.array(rows).T
    assert relative.max() < (0.5 if explicit else 1e-12)
    assert abs(drift(t, relative)) * t[-1] < (0.1 * relative.max() + 1e-12)


def test_chirality_is_told_only_where_it_is_exact():
    for walls, eps in (("conducting", 2.0), ("periodic", rough(0))):
        system = hf.yee(hf.Maxwell(grid("3D")[0], eps, boundary=WALLS[walls](3)))
        assert "optical_chirality" not in system.invariants(system.state(E=field("3D")))


def test_the_momentum_of_a_plane_wave():
    # E_y and H_z = E_y of a wave along x: D x B points along x and is the energy over c = 1.
    domain = hf.box(COMM, (0, 0, 0), (1, 1, 1), (16, 4, 4), "hexahedron")
    system = hf.yee(hf.Maxwell(domain, boundary=WALLS["periodic"](3)))

    def wave(axis):
        return lambda x: np.sin(2 * np.pi * x[0]) * np.eye(3)[axis][:, None]

    state = system.state(E=wave(1), H=wave(2))
    P = system.invariants(state)["linear_momentum"]
    assert P == pytest.approx([system.energy(state), 0, 0], rel=0.05, abs=1e-13)


@pytest.mark.parametrize("walls", ["absorbing", "periodic", "conducting"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_on_any_number_of_ranks(kind, walls):
    rows = []
    for comm in (MPI.COMM_SELF, COMM):
        domain, polarization = grid(kind, comm)
        sources = [hf.Source(field(kind), sympy.cos(4 * T))]
        wave = hf.Maxwell(
            domain, rough(0), rough(1), polarization, WALLS[walls](domain.dim), sources
        )
        system, method = hf.yee(wave), hf.Verlet()
        state = system.state(E=field(kind))
        random_state(system).q.copy(state.q)
        row = []
        for state in hf.march(system, method, state, 0.9 * method.stable_dt(system), 5.0, 100):
            row += [system.kinetic(state), system.potential(state), state.work, state.outflow]
            row += system.invariants(state)["linear_momentum"].tolist()
            row.append(system.charges(state).get("total_charge", 0.0))
            for f in system.fields(state).values():
                own = f.x.array[: f.function_space.dofmap.index_map.size_local]
                row += [comm.allreduce(np.sum(own**2)), comm.allreduce(np.sum(own**4))]
        rows.append(np.array(row))
    alone, together = rows
    assert np.all(np.abs(alone - together) < 1e-12 * (np.abs(alone) + np.abs(alone).max()))


@pytest.mark.parametrize("kind", KINDS)
def test_receivers_are_the_numbers_of_the_grid(kind, shared_tmp_path):
    # At the middle of an edge the lowest edge elements have the number of that edge.
    domain, polarization = grid(kind)
    system = hf.yee(hf.Maxwell(domain, rough(0), 1.0, polarization))
    state, method, dt = system.state(E=field(kind)), hf.Verlet(), 0.02
    component = "z" if kind == "TM" else "y"
    points = []
    for place in ([2, 3, 1], [4, 1, 2]):
        stagger = edges("zxy".index(component) if domain.dim == 2 else 1)[3 - domain.dim :]
        h = (np.array(domain.upper) - domain.lower) / domain.n
        points.append(domain.lower + h * (place[: domain.dim] + 0.5 * ~np.array(stagger)))
    path = shared_tmp_path / "traces.csv"
    receivers, rows = hf.Receivers(path, system, points, names="E"), []
    for state in hf.march(system, method, state, dt, 20 * dt, every=5):
        receivers(state)
        lines, values = system.grid_values(state)["E" + component]
        row = []
        for point in points:
            near = [np.flatnonzero(np.abs(line - x) < 1e-9) for line, x in zip(lines, point)]
            here = values[np.ix_(*near)].ravel()
            row.append(COMM.allreduce(here.sum()))
        rows.append(row)
    traces = hf.read_receivers(path)
    names = ["E_0", "E_1"] if kind == "TM" else [f"E_{component}_0", f"E_{component}_1"]
    found = np.stack([traces[name] for name in names], axis=-1)
    assert np.abs(found).max() > 1e-2
    assert found == pytest.approx(np.array(rows), rel=1e-12, abs=1e-14)


def ramp(x, a):
    return 1 + a + x[0] - 2 * x[1] + (3 - a) * x[-1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("walls", ["free", "conducting"])
def test_points_see_linear_fields_exactly(kind, walls, shared_tmp_path):
    domain, polarization = grid(kind)
    dim = domain.dim
    system = hf.yee(hf.Maxwell(domain, 1.0, 2.0, polarization, WALLS[walls](dim)))
    state = system.state()
    for family, x, sign in ((system.E, state.v, -1.0), (system.H, state.q, 1.0)):
        with x as array:
            blocks = family.blocks(array)
            for a, stagger in zip(family.axes, family.staggers):
                lines = system.grid.points(stagger)[system.grid.first :]
                places = np.meshgrid(*lines, indexing="ij")
                blocks[a][...] = sign * ramp(places, a).reshape(blocks[a].shape)
    points = np.random.default_rng(2).uniform(size=(30, dim)) * (1, 1.3, 0.7)[:dim]
    points[:2] = np.zeros(dim), (1, 1.3, 0.7)[:dim]
    values = system.at_points(points)(state)
    for name, family, factor in (("E", system.E, 1), ("H", system.H, 1), ("B", system.H, 2)):
        expected = np.stack([factor * ramp(points.T, a) for a in family.axes], axis=-1)
        assert values[name].reshape(expected.shape) == pytest.approx(expected, rel=1e-13)
    path = shared_tmp_path / "traces.csv"
    hf.Receivers(path, system, points[:1], "E")(state)
    assert "_named" not in vars(domain)  # there is no mesh
    with refused(ValueError, r"the point \(2, .*\) lies outside of the box, and so do 1"):
        hf.Receivers(path, system, [(2.0,) * dim, (-1.0,) * dim])
    with refused(ValueError, "this system has no field 'D'; it has: E, B, H"):
        hf.Receivers(path, system, points[:1], "D")(state)


def test_points_see_waves_with_order_2_through_periodic_sides():
    found = []
    points = np.random.default_rng(3).uniform(size=(50, 3))
    points[0] = 0.0
    for n in (8, 16):
        domain = hf.box(COMM, (0, 0, 0), (1, 1, 1), n, "hexahedron")
        system = hf.yee(hf.Maxwell(domain, boundary=WALLS["periodic"](3)))

        def E(x):
            return np.stack([np.sin(2 * np.pi * (x[1] + x[i])) for i in range(3)])

        values = system.at_points(points)(system.state(E=E), "E")["E"]
        found.append(np.abs(values - E(points.T).T).max())
    assert 3.5 < found[0] / found[1] < 4.5


def test_a_run_goes_back_and_starts_again():
    domain, _ = grid("3D")
    system = hf.yee(hf.Maxwell(domain, rough(0), boundary=WALLS["conducting"](3)))
    state, method, dt = random_state(system), hf.Verlet(), 0.01
    first = state.copy()
    for state in hf.march(system, method, state, dt, 1.0, every=7):
        if state.step == 49:
            middle = state.copy()
    for again in hf.march(system, method, middle, dt, 1.0, every=7):
        pass
    assert np.array_equal(again.v.array, state.v.array)
    for state in hf.march(system, method, state, -dt, 0.0, every=13):
        pass
    state.v.axpy(-1.0, first.v)
    assert state.v.norm() < 1e-12 * first.v.norm()


def test_the_structure_is_that_of_a_poisson_system():
    if COMM.size > 2:
        pytest.skip("too small for so many ranks")
    domain, _ = grid("3D", n=(2, 2, 2))
    system = hf.yee(hf.Maxwell(domain, rough(0), rough(1), boundary=WALLS["conducting"](3)))
    found = hf.structure(system, hf.Verlet(), 0.05)
    assert max(found.antisymmetry, found.symmetry, found.poisson, found.casimirs) < 1e-13


def test_what_is_refused():
    cube, _ = grid("3D")
    triangles = hf.box(COMM, (0, 0), (1, 1), 4)
    with refused(ValueError, "the Yee scheme needs the uniform grid of hf.box"):
        hf.yee(hf.Maxwell(triangles, polarization="TE"))
    bent, _ = grid("TE")
    bent.mesh.geometry.x[:, 0] += 0.1 * bent.mesh.geometry.x[:, 1]
    with refused(ValueError, "the Yee scheme needs the uniform grid of hf.box"):
        hf.yee(hf.Maxwell(bent, polarization="TE"))
    with refused(ValueError, "the Yee scheme is for hf.Maxwell"):
        hf.yee(hf.Acoustic(cube))
    with refused(ValueError, "sides 'left' and 'top' are no translates of each other"):
        hf.yee(hf.Maxwell(cube, boundary=[hf.Periodic("left", "top")]))
    with refused(ValueError, "the permittivity must be a positive number everywhere and is -2"):
        hf.Maxwell(cube, -2.0)
    with refused(ValueError, "the permeability must be a positive number everywhere and is -"):
        hf.Maxwell(cube, 1.0, lambda x: x[0] - 0.5)
    skew = np.eye(3) + 0.1
    with refused(ValueError, "takes numbers and diagonal matrices, and the permittivity is"):
        hf.yee(hf.Maxwell(cube, skew))
    with refused(ValueError, "the Yee scheme has walls without data, and hf.Clamped has a value"):
        hf.yee(hf.Maxwell(cube, boundary=[hf.Clamped("left", value=[0, 1.0, 0])]))
    part = cube.name_boundary("port", lambda x: (x[0] < 1e-9) & (x[1] < 0.7))
    with refused(ValueError, "the Yee scheme knows whole sides of the box only"):
        hf.yee(hf.Maxwell(part, boundary=[hf.Clamped("port")]))
    with refused(ValueError, "a source touches nothing"):
        hf.yee(hf.Maxwell(cube, sources=[hf.Source(lambda x: 0 * x, 1.0)]))
    system = hf.yee(hf.Maxwell(cube, boundary=[hf.Clamped(*SIDES)]))
    with refused(ValueError, "dt = .* is beyond the stable step"):
        hf.march(system, hf.Verlet(), system.state(), 1.0, 2.0)
    damped = hf.yee(hf.Maxwell(cube, boundary=[hf.Impedance("left")]))
    with refused(ValueError, "has substeps back in time"):
        hf.march(damped, hf.Yoshida(4), damped.state(), 0.01, 1.0)
