"""Electromagnetic waves converge with their orders, against exact solutions."""

import numpy as np
import pytest
import scipy.linalg
import scipy.optimize
import sympy
import ufl
from dolfinx import fem

import hamfem as hf
from tests.discretization.maxwell import COMM, KINDS, METHODS, SIDES, box, conducting
from tests.verification import check_orders, error, worst

pytestmark = pytest.mark.skipif(COMM.size > 1, reason="orders are measured on one rank")
SLOW = pytest.mark.slow
X, Y, T = sympy.symbols("x y t")


CASES = [
    *((name, kind, k, {0: (8, 16), 1: (6, 12), 2: (4, 8)}[k])
      for name in ("mixed", "dual", "cg") for kind in ("TE", "TM") for k in (0, 1, 2)),
    *((name, kind, k, {1: (4, 8), 2: (3, 6)}[k])
      for name in ("mixed", "dual") for kind in ("TE squares", "TM squares") for k in (1, 2)),
    ("mixed", "TE squares", 0, (8, 16)),
    ("mixed", "TE squares", 3, (3, 6)),
    *((name, kind, k, {1: (8, 16), 2: (6, 12)}[k])
      for name in ("hdg", "dissipative_hdg") for kind in ("TE", "TM") for k in (1, 2)),
    ("hdg", "TE", 3, (4, 8)),
    ("mixed", "3D", 0, (6, 12)),
    ("mixed", "3D", 1, (3, 6)),
    ("dual", "3D", 1, (3, 6)),
    ("cg", "3D", 1, (3, 6)),
    ("mixed", "3D cubes", 0, (4, 8)),
    ("mixed", "3D cubes", 1, (3, 6)),
    ("hdg", "3D", 1, (3, 6)),
    ("dissipative_hdg", "3D", 1, (3, 6)),
    pytest.param("mixed", "3D", 2, (3, 6), marks=SLOW),
    pytest.param("dual", "3D", 2, (3, 6), marks=SLOW),
    pytest.param("dual", "3D", 0, (6, 12), marks=SLOW),
    pytest.param("cg", "3D", 0, (8, 16), marks=SLOW),
    pytest.param("cg", "3D", 2, (3, 6), marks=SLOW),
    pytest.param("mixed", "3D cubes", 2, (3, 6), marks=SLOW),
    pytest.param("dual", "3D cubes", 1, (3, 6), marks=SLOW),
    pytest.param("cg", "3D cubes", 1, (3, 6), marks=SLOW),
    pytest.param("hdg", "3D", 2, (3, 6), marks=SLOW),
]  # fmt: skip


@pytest.mark.parametrize(("name", "kind", "k", "sizes"), CASES)
def test_a_mode_of_a_cavity(name, kind, k, sizes):
    dim, rows = KINDS[kind][2], []
    eps, mu = 2.0, 0.5
    for n in sizes:
        # In 3D the mode is the same at every x: a slice will do.
        count = (n, n) if dim == 2 else (max(1, n // 3), n, n)
        domain, polarization = box(kind, count, upper=None if dim == 2 else (1 / 3, 1, 1))
        exact = hf.exact.CavityMode(dim, polarization, permittivity=eps, permeability=mu)
        wave = hf.Maxwell(domain, eps, mu, polarization, conducting(dim))
        system = METHODS[name](wave, k)
        # The start: by B where that is all it takes, by the potential where there is one.
        start = {"A": exact.A(0)} if name in ("cg", "hdg") else {"B": exact.B(0)}
        state, found = system.state(E=exact.E(0), **start), {}
        for state in hf.march(system, hf.Gauss(2), state, 0.05, 1.0, every=5):
            fields = system.fields(state)
            known = {f: error(fields[f], getattr(exact, f)(state.t)) for f in "EBH"}
            found = worst(found, known)
        rows.append(found)
    check_orders(sizes, rows, {"E": k + 1, "B": k + 1, "H": k + 1})


def filled(eps1, eps2):
    """TE: the lowest mode with H_z = f(x) cos(pi y) of a cavity with eps1 left and eps2 right.

    (f'/eps)' + (omega² - pi²/eps) f = 0 with f and f'/eps continuous at x = 1/2 and f' = 0 at the
    conducting walls: k1/eps1 tan(k1/2) + k2/eps2 tan(k2/2) = 0 with k_i² = omega² eps_i - pi². The
    normal part E_x of the field jumps.
    """

    def numbers(omega):
        return [np.sqrt(complex(omega**2 * e - np.pi**2)) for e in (eps1, eps2)]

    def condition(omega):
        k1, k2 = numbers(omega)
        return (k1 / eps1 * np.tan(k1 / 2) + k2 / eps2 * np.tan(k2 / 2)).real

    grid = np.linspace(1.0, 4.0, 400)
    values = [condition(w) for w in grid]
    omega = next(
        scipy.optimize.brentq(condition, a, b)
        for a, b, fa, fb in zip(grid, grid[1:], values, values[1:])
        if fa < 0 < fb and fb - fa < 10
    )
    k1, k2 = numbers(omega)
    b = np.cos(k1 / 2) / np.cos(k2 / 2)

    def f(x, left):
        return np.where(left, np.cos(k1 * x), b * np.cos(k2 * (1 - x))).real

    def slope(x, left):
        return np.where(left, -k1 * np.sin(k1 * x), b * k2 * np.sin(k2 * (1 - x))).real

    def H(t):
        return lambda x: f(x[0], x[0] < 0.5) * np.cos(np.pi * x[1]) * np.cos(omega * t)

    def E(t, left):
        """On one side: E_x jumps at x = 1/2, where elements have nodes."""
        eps = eps1 if left else eps2

        def field(x):
            # eps dE/dt = (dH/dy, -dH/dx)
            E_x = -np.pi * f(x[0], left) * np.sin(np.pi * x[1])
            E_y = -slope(x[0], left) * np.cos(np.pi * x[1])
            return np.stack([E_x, E_y]) * np.sin(omega * t) / (eps * omega)

        return field

    return omega, E, H


@pytest.mark.parametrize(("name", "kind", "k", "sizes"), [
    ("mixed", "TE", 1, (6, 12)), ("dual", "TE", 1, (6, 12)), ("cg", "TE", 1, (6, 12)),
    ("hdg", "TE", 1, (8, 16)), ("dissipative_hdg", "TE", 1, (6, 12)),
    ("mixed", "TE squares", 1, (4, 8)),
])  # fmt: skip
def test_a_cavity_half_filled_with_a_dielectric(name, kind, k, sizes):
    eps = (1.0, 4.0)
    omega, E, H = filled(*eps)
    rows = []
    for n in sizes:
        domain, polarization = box(kind, n)
        domain = domain.name_region("vacuum", lambda x: x[0] < 0.5 + 1e-9)
        domain = domain.name_region("glass", lambda x: x[0] > 0.5 - 1e-9)
        wave = hf.Maxwell(
            domain, {"vacuum": eps[0], "glass": eps[1]}, 1.0, polarization, conducting(2)
        )
        system = METHODS[name](wave, k)
        # At t = 0 there is H alone, which is continuous.
        state, found = system.state(E=0, H=H(0)), {}
        for state in hf.march(system, hf.Gauss(2), state, 0.05, 1.0, every=5):
            fields = system.fields(state)
            halves = [
                error_in(domain, region, fields["E"], E(state.t, region == "vacuum"))
                for region in ("vacuum", "glass")
            ]
            found = worst(found, {"H": error(fields["H"], H(state.t)), "E": np.hypot(*halves)})
        rows.append(found)
    assert 1.0 < omega < 4.0
    check_orders(sizes, rows, {"E": k + 1, "H": k + 1})


def error_in(domain, region, f, solution):
    """The distance of a function from an exact one in a region."""
    V = f.function_space
    degree = V.ufl_element().embedded_superdegree + 3
    fine = fem.Function(fem.functionspace(V.mesh, ("Discontinuous Lagrange", degree, (2,))))
    fine.interpolate(solution)
    dx = ufl.Measure("dx", domain=V.mesh, subdomain_data=domain.cell_tags)
    form = fem.form(ufl.inner(f - fine, f - fine) * dx(domain.regions[region]))
    return np.sqrt(COMM.allreduce(fem.assemble_scalar(form)))


def at(parts, t):
    """A callable from a sympy expression, or from a list of them."""
    if isinstance(parts, list):
        functions = [at(part, t) for part in parts]
        return lambda x: np.stack([f(x) for f in functions])
    f = sympy.lambdify((X, Y, T), parts, "numpy")
    return lambda x: np.broadcast_to(f(x[0], x[1], t), x.shape[1])


def plane_wave(polarization):
    """A plane wave that comes in through walls of all kinds: E, B and the conditions.

    eps = 2, mu = 1/2: the impedance is Z = 1/2 = 1/Y, the speed 1.
    """
    a, b = sympy.Rational(3, 5), sympy.Rational(4, 5)
    h = sympy.sin(3 * (a * X + b * Y - T))
    if polarization == "TE":
        E = [-h * b / 2, h * a / 2]
        return E, h / 2, [
            hf.Clamped("left", value=[0, E[1]]),
            hf.Clamped("bottom", value=[E[0], 0]),
            hf.Free("right", value=[0, h]),  # H x n
            hf.Impedance("top", value=[-h - 2 * E[0], 0]),  # H x n - Y E_t
        ]  # fmt: skip
    H = [2 * h * b, -2 * h * a]
    return h, [H[0] / 2, H[1] / 2], [
        hf.Clamped("left", "bottom", value=h),
        hf.Free("right", value=-H[1]),
        hf.Impedance("top", value=H[0] - 2 * h),
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "kind"), [
    *((name, "TE") for name in METHODS), ("mixed", "TE squares"), ("cg", "TE squares"),
    ("mixed", "TM"), ("dual", "TM"), ("dissipative_hdg", "TM"),
])  # fmt: skip
def test_a_plane_wave_comes_in_through_driven_walls(name, kind):
    k, sizes, rows = 1, (6, 12), []
    for n in sizes:
        domain, polarization = box(kind, n)
        E, B, walls = plane_wave(polarization)
        system = METHODS[name](hf.Maxwell(domain, 2.0, 0.5, polarization, walls), k)
        state, found = system.state(E=at(E, 0.0), B=at(B, 0.0)), {}
        first = system.energy(state)
        for state in hf.march(system, hf.Gauss(3), state, 0.02, 0.5, every=5):
            fields = system.fields(state)
            now = {f: error(fields[f], at(e, state.t)) for f, e in (("E", E), ("B", B))}
            found = worst(found, now)
        balance = system.energy(state) + state.outflow - state.work
        assert balance == pytest.approx(first, rel=1e-10)
        rows.append(found)
    check_orders(sizes, rows, {"E": k + 1, "B": k + 1})


def test_a_driven_wall_and_explicit_steps():
    # Verlet takes the data of a wall on both halves: order 2 in time on one mesh.
    found = []
    for steps in (40, 80, 160):
        domain, polarization = box("TE", 4)
        E, B, walls = plane_wave(polarization)
        system = hf.mixed(hf.Maxwell(domain, 2.0, 0.5, polarization, walls[:3]), 1)
        state = system.state(E=at(E, 0.0), B=at(B, 0.0))
        method = hf.Gauss(3) if steps == 160 else hf.Verlet()
        for state in hf.march(system, method, state, 0.4 / steps, 0.4, every=steps):
            pass
        found.append(state.v.copy())
    errors = [(v - found[-1]).norm() for v in found[:-1]]
    assert 3.5 < errors[0] / errors[1] < 4.5


def test_data_that_start_where_a_potential_cannot():
    # TM: a wave that runs along the clamped wall has B through it, which A = 0 there forbids.
    domain, polarization = box("TM", 6)
    E, B, walls = plane_wave(polarization)
    for name in ("cg", "hdg"):
        system = METHODS[name](hf.Maxwell(domain, 2.0, 0.5, polarization, walls), 1)
        with pytest.raises(ValueError, match="not the curl of a potential that is 0 along"):
            system.state(E=at(E, 0.0), B=at(B, 0.0))


@pytest.mark.parametrize("name", ["mixed", "cg", "hdg"])
def test_plane_waves_in_an_anisotropic_medium(name):
    # The speeds of a periodic crystal are those of Fresnel: n x (mu^-1 (n x E)) + c² eps E = 0.
    eps = np.array([[2.0, 0.3, 0.1], [0.3, 1.5, 0.2], [0.1, 0.2, 1.0]])
    mu = np.diag([1.0, 0.8, 0.6])
    domain = hf.box(COMM, (0, 0, 0), (1, 0.25, 0.25), (6, 1, 1), "tetrahedron")
    pairs = [hf.Periodic(*SIDES[i : i + 2]) for i in (0, 2, 4)]
    wave = hf.Maxwell(domain, eps, mu, boundary=pairs)
    n, k = np.array([1.0, 0.0, 0.0]), 2 * np.pi
    S = np.cross(np.eye(3), n)  # rows e_i x n
    squares, ways = scipy.linalg.eigh(S @ np.linalg.inv(mu) @ S.T, eps)
    slowest, fastest = wave.speeds()
    assert slowest <= np.sqrt(squares[1]) < np.sqrt(squares[2]) <= fastest
    for mode in (1, 2):
        c, way = float(np.sqrt(squares[mode])), ways[:, mode]

        def E(t, c=c, way=way):
            return lambda x: np.outer(way, np.cos(k * (x[0] - c * t)))

        def A(x, c=c, way=way):  # dA/dt = -E
            return np.outer(way, np.sin(k * x[0])) / (k * c)

        system = METHODS[name](wave, 2)
        state, t_end = system.state(E=E(0), A=A), 0.25 / c
        for state in hf.march(system, hf.Gauss(3), state, t_end / 10, t_end, every=10):
            pass
        # With another speed the wave would be elsewhere: |E| is |way| / 5.6 in the mean square.
        assert error(system.fields(state)["E"], E(t_end)) < 1e-3 * np.linalg.norm(way)
