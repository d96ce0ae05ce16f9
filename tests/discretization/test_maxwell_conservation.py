"""Energy and charges of electromagnetic waves over whole runs."""

from mpi4py import MPI

import numpy as np
import pytest
import sympy

import hamfem as hf
from tests.discretization.maxwell import COMM, KINDS, METHODS, SIDES, box, conducting
from tests.verification import drift

SLOW = pytest.mark.slow
T = sympy.Symbol("t")


def permittivity(x):
    return 1 + 0.5 * np.sin(2 * x[0]) * x[1]


def charged(kind):
    """A pulse of E that has charges: its static part stays."""
    dim, across = KINDS[kind][2], KINDS[kind][1] == "TM"
    pulse = hf.exact.bump((0.4, 0.6, 0.5)[:dim], 0.2)
    if across:
        return pulse
    return lambda x: pulse(x) * np.stack([1 + 0 * x[0], 0.5 * x[0], x[1]][:dim])


def wave_of(kind, walls, n=None):
    dim = KINDS[kind][2]
    domain, polarization = box(kind, n or (4 if dim == 2 else 2))
    if walls == "glass":
        domain = domain.name_region("vacuum", lambda x: x[0] < 0.5 + 1e-9)
        domain = domain.name_region("glass", lambda x: x[0] > 0.5 - 1e-9)
        eps = {"vacuum": 1.0, "glass": 4.0}
        return hf.Maxwell(domain, eps, 0.7, polarization, conducting(dim))
    boundary = {
        "conducting": conducting(dim),
        "free": [],
        "periodic": [hf.Periodic(*SIDES[i : i + 2]) for i in range(0, 2 * dim, 2)],
        "plates": [hf.Clamped("left", "right")],  # with a mean field between them
    }[walls]
    eps = 2.0 if walls == "periodic" else permittivity
    return hf.Maxwell(domain, eps, 0.7, polarization, boundary)


def scales(system, state):
    """|D| for charges, of both signs of duality, and |B| / h for the divergence of B."""
    wave = system.space.wave
    cells = wave.domain.mesh.topology.index_map(wave.domain.dim).size_global
    electric = np.sqrt(2 * system.energy(state))
    return electric, electric * cells ** (1 / wave.domain.dim)


MARCHERS = {"Verlet": hf.Verlet(), "Gauss2": hf.Gauss(2), "DIRK4": hf.SymplecticDIRK(4)}
CASES = [
    *((name, kind, walls, method)
      for name in ("mixed", "dual", "cg", "hdg") for kind in ("TE", "3D")
      for walls, method in (("conducting", "Verlet"), ("free", "Gauss2"))),
    *((name, "TM", "free", "Gauss2") for name in ("mixed", "dual", "cg", "hdg")),
    *((name, kind, "glass", "Verlet") for name in ("mixed", "dual", "cg")
      for kind in ("TE squares", "3D cubes")),
    ("mixed", "3D", "periodic", "DIRK4"), ("hdg", "TE", "periodic", "DIRK4"),
    ("cg", "TE", "glass", "DIRK4"), ("hdg", "3D", "glass", "Gauss2"),
    ("cg", "TE", "plates", "Gauss2"), ("hdg", "3D", "plates", "Gauss2"),
    ("dual", "3D", "periodic", "Verlet"),
    ("mixed", "TM squares", "glass", "Verlet"),
]  # fmt: skip


@pytest.mark.parametrize("steps", [400, pytest.param(10_000, marks=SLOW)])
@pytest.mark.parametrize(("name", "kind", "walls", "method"), CASES)
def test_energy_and_charges(name, kind, walls, method, steps):
    # Long runs are on a finer mesh, too.
    n = {2: 12, 3: 4}[KINDS[kind][2]] if steps > 400 else None
    system = METHODS[name](wave_of(kind, walls, n), 1)
    marcher = MARCHERS[method]
    dt = 0.7 * marcher.stable_dt(system) if method == "Verlet" else 0.05
    state = system.state(E=charged(kind))
    energy = hf.modified_energy(system, marcher, dt)
    size, size_div = scales(system, state)
    rows = [(0.0, energy(state), 0.0)]
    for state in hf.march(system, marcher, state, dt, steps * dt, every=steps // 40):
        found = system.space.charges(state)
        # The charge against each test function: |D| |grad phi| is its scale.
        weak, strong = "electric_charge", "magnetic_charge"
        if name == "dual":
            weak, strong = strong, weak
        elif name == "hdg":
            assert found.pop(strong, 0.0) < 1e-12 * size
        assert found.get(weak, 0.0) < 1e-12 * size
        assert found.get(strong, 0.0) < 1e-12 * size_div
        assert found.get("magnetic_charge_weak", 0.0) < 1e-12 * size
        rows.append((state.t, energy(state), found.get(weak, 0.0)))
    t, energies, charges = np.array(rows).T
    relative = np.abs(energies / energies[0] - 1)
    assert relative.max() < 1e-11
    assert abs(drift(t, relative)) * t[-1] < 1e-11
    assert abs(drift(t, charges)) * t[-1] < 1e-12 * size
    # The run is one: there is a wave, and of charged fields a static part.
    assert 1e-3 < system.kinetic(state) / system.energy(state) < 1 - 1e-3


@pytest.mark.parametrize("name", ["cg", "hdg"])
def test_charges_that_nothing_corrects_drift_with_round_off_only(name):
    # Without the deflation of gradients: at most 1e-15 a step, for a start without charges.
    system = METHODS[name](wave_of("3D", "conducting"), 1)
    exact = hf.exact.CavityMode(3)
    state = system.state(E=exact.E(0), A=exact.A(0))
    system.at_rest = None
    size, _ = scales(system, state)
    for state in hf.march(system, hf.Gauss(1), state, 0.05, 20.0, every=100):
        found = system.space.charges(state)["electric_charge"]
        assert found < 1e-15 * state.step * size
    assert found > 0  # which is not none


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(("kind", "method"), [("TE", "Gauss2"), ("TE", "Verlet"), ("3D", "Gauss2")])
def test_charges_that_a_current_brings(name, kind, method):
    # A current that flows for a while: charges are its divergence times the integral of its
    # amplitude, whatever it made of waves. The trapezoidal sum of a pulse is exact to round-off.
    dim, polarization = KINDS[kind][2], KINDS[kind][1]
    driven = hf.Maxwell(
        box(kind, 4 if dim == 2 else 2)[0], permittivity, 0.7, polarization, conducting(dim),
        [hf.Source(charged(kind), sympy.exp(-(((T - 2) / sympy.Rational(1, 3)) ** 2)))],
    )  # fmt: skip
    system = METHODS[name](driven, 1)
    marcher = MARCHERS[method]
    dt = 0.02 if method == "Gauss2" else 0.5 * marcher.stable_dt(system)
    state = system.state(E=charged(kind))
    size, size_div = scales(system, state)
    first = system.invariants(state)["total_charge"]
    for state in hf.march(system, marcher, state, dt, 4.5, every=50):
        found = system.space.charges(state)
        assert found["electric_charge"] < 1e-11 * (size_div if name == "dual" else size)
    brought = found["total_charge"] - first
    assert abs(brought) > 1e-3 * size
    # (J, grad phi) for the phi that is 1 but at the walls, or dually the flux through them.
    change = -np.sqrt(np.pi) / 3 * expected_charge(name, kind, driven)
    assert brought == pytest.approx(change, rel=1e-8)


def expected_charge(name, kind, wave):
    """What a unit of the current brings in, from the same system at rest."""
    system = METHODS[name](hf.Maxwell(
        wave.domain, wave.eps.value, wave.mu.value, wave.polarization, wave.boundary
    ), 1)  # fmt: skip

    # E = J / eps has the charge of div J.
    def E(x):
        return charged(kind)(x) / permittivity(x)

    return system.invariants(system.state(E=E))["total_charge"]


LOBATTO = hf.PartitionedRungeKutta(
    ((0.0, 0.0), (0.5, 0.5)), (0.5, 0.5), ((0.5, 0.0), (0.5, 0.0)), (0.5, 0.5)
)
DAMPED = [hf.Verlet(), hf.Gauss(2), hf.SDIRK3(), hf.RK4()]
BALANCED = [*DAMPED, hf.Verlet("drift"), hf.PEFRL(), hf.Newmark(), hf.Newmark(0.6, 0.4),
            hf.Simpson(), LOBATTO]  # fmt: skip


@pytest.mark.parametrize(("name", "marcher"), [
    *((name, m) for name in METHODS if name != "dissipative_hdg" for m in BALANCED),
    *(("dissipative_hdg", m) for m in DAMPED),
], ids=lambda x: getattr(x, "name", x))  # fmt: skip
def test_charges_are_balanced_after_every_step(name, marcher):
    # Whatever the current does in between: the balance is that of the method's own stages.
    wave = hf.Maxwell(
        box("TE", 4)[0], permittivity, 0.7, "TE", conducting(2),
        [hf.Source(charged("TE"), sympy.cos(5 * T)), hf.Source(charged("TE"), lambda t: t**3)],
    )  # fmt: skip
    system = METHODS[name](wave, 1)
    state = system.state(E=charged("TE"))
    dt = 0.02 if np.isinf(marcher.limit) else 0.6 * marcher.stable_dt(system)
    brought = []
    for state in hf.march(system, marcher, state, dt, 40 * dt, every=3):
        size, size_div = scales(system, state)
        found = system.charges(state)
        assert found["electric_charge"] < 1e-12 * (size_div if name == "dual" else size)
        brought.append(found["total_charge"])
    assert np.ptp(brought) > 1e-3 * size


def test_the_potential_is_the_mixed_method():
    # B = curl A, under the same kicks and drifts.
    for kind in ("TE", "3D", "TM"):
        wave = wave_of(kind, "conducting")
        systems = [hf.mixed(wave, 1), hf.cg(wave, 1)]
        dim = KINDS[kind][2]
        mode = hf.exact.CavityMode(dim, KINDS[kind][1])
        fields = []
        for system in systems:
            state = system.state(E=mode.E(0), A=mode.A(0))
            dt = 0.5 * hf.Verlet().stable_dt(systems[0])
            for state in hf.march(system, hf.Verlet(), state, dt, 100 * dt, every=100):
                pass
            fields.append(system.fields(state))
        for name in "EB":
            a, b = (f[name].x.array for f in fields)
            largest = COMM.allreduce(np.abs(a).max(initial=0), MPI.MAX)
            assert np.abs(a - b).max(initial=0) < 1e-12 * largest


WALLS = {
    "all": lambda: [hf.Impedance("left", "right", "bottom", "top")],
    "two": lambda: [hf.Impedance("left", "right"), hf.Clamped("top")],
}


@pytest.mark.parametrize("walls", WALLS)
@pytest.mark.parametrize(("name", "kind"), [
    *((name, kind) for name in METHODS for kind in ("TE", "TM")),
    ("mixed", "TE squares"), ("cg", "TM squares"),
])  # fmt: skip
def test_absorbing_walls_take_what_the_energy_loses(name, kind, walls):
    domain, polarization = box(kind, 4)
    wave = hf.Maxwell(domain, 2.0, 0.5, polarization, WALLS[walls]())
    system = METHODS[name](wave, 1)
    state = system.state(E=charged(kind))
    first, last = system.energy(state), 0.0
    for state in hf.march(system, hf.Gauss(2), state, 0.05, 3.0):
        assert abs(system.energy(state) + state.outflow - first) < 1e-11 * first
        assert state.outflow >= last
        last = state.outflow
    assert last > 0.3 * first
    found = system.space.charges(state)
    for charge in found.keys() - {"total_charge"}:
        assert found[charge] < 1e-12 * max(scales(system, state)[1], np.sqrt(first))


@pytest.mark.parametrize("angle", [0.0, 0.4])
@pytest.mark.parametrize("name", METHODS)
def test_waves_of_both_polarisations_leave_an_anisotropic_medium(name, angle):
    # A pulse in a crystal whose waves along x are polarised along no axis, between absorbing ends.
    domain = hf.box(COMM, (0, 0, 0), (4, 0.25, 0.25), (12, 1, 1), "tetrahedron")
    R = np.array([[1, 0, 0], [0, np.cos(angle), -np.sin(angle)], [0, np.sin(angle), np.cos(angle)]])
    eps = R @ np.diag([1.0, 2.0, 1.0]) @ R.T
    walls = [hf.Impedance("left", "right"), hf.Periodic(*SIDES[2:4]), hf.Periodic(*SIDES[4:])]
    system = METHODS[name](hf.Maxwell(domain, eps, 0.5, boundary=walls), 2)
    pulse = hf.exact.bump((2.0,), 0.3)
    way = np.array([0.0, 1.0, 0.5])
    state = system.state(E=lambda x: np.outer(way, pulse(x[:1])), start="projection")
    first = system.energy(state)
    for state in hf.march(system, hf.Gauss(2), state, 0.05, 3.6, every=100):
        pass
    assert abs(system.energy(state) + state.outflow - first) < 1e-11 * first
    # HDG keeps a little in its jumps on so coarse a mesh.
    assert system.energy(state) < (1e-2 if name == "hdg" else 1e-4) * first
