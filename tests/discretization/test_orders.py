"""Orders of convergence of all discretizations, against exact solutions."""

from mpi4py import MPI

import numpy as np
import pytest
import sympy
import ufl
from dolfinx import fem

import hamfem as hf
from tests.discretization.methods import METHODS
from tests.verification import check_orders

COMM = MPI.COMM_WORLD
# The studies are long, and that the states are the same on any number of ranks is in test_ranks.
pytestmark = pytest.mark.skipif(COMM.size > 1, reason="orders are measured on one rank")
WALLS = ["left", "right", "bottom", "top", "back", "front"]
SLOW = pytest.mark.slow


def box(n, cell):
    dim = {"interval": 1, "triangle": 2, "quadrilateral": 2}.get(cell, 3)
    return hf.box(COMM, (0,) * dim, (1,) * dim, n, cell)


class Errors:
    """The errors of all known fields in the mean square: the largest over the times asked for."""

    def __init__(self, system, exact):
        self.system, self.exact = system, exact
        self.largest, self._forms = {}, {}

    def __call__(self, state):
        for name, f in self.system.fields(state).items():
            solution = self.exact(name[0], state.t)
            if solution is None:
                continue
            V = f.function_space
            if name not in self._forms:
                degree = V.ufl_element().basix_element.degree + 3
                shape = V.ufl_element().reference_value_shape
                fine = fem.functionspace(V.mesh, ("Discontinuous Lagrange", degree, shape))
                copies = fem.Function(V), fem.Function(fine)
                difference = copies[0] - copies[1]
                form = fem.form(ufl.inner(difference, difference) * ufl.dx)
                self._forms[name] = *copies, form
            copy, fine, form = self._forms[name]
            copy.x.array[:] = f.x.array
            fine.interpolate(solution)
            value = np.sqrt(V.mesh.comm.allreduce(fem.assemble_scalar(form)))
            self.largest[name] = max(value, self.largest.get(name, 0.0))


def errors(system, method, state, dt, t_end, exact):
    """{field: its largest error over the run}; at a single time errors of phase hide."""
    found = Errors(system, exact)
    for state in hf.march(system, method, state, dt, t_end, every=2):
        found(state)
    return found.largest


def expected_orders(name, k):
    if name == "hdg":
        return {"u": k + 1, "v": k + 1, "u_star": k + 2, "v_star": k + 2}
    if name == "mixed":
        return {"v": k + 1, "v_star": k + 2}
    if name == "dissipative_hdg":
        return {"v": k + 1}
    return {"u": k + 1, "v": k + 1}


STANDING = [
    ("cg", "interval", 1, (8, 16)),
    ("cg", "interval", 2, (6, 12)),
    ("cg", "interval", 3, (4, 8)),
    ("mixed", "interval", 0, (8, 16)),
    ("mixed", "interval", 1, (8, 16)),
    ("mixed", "interval", 2, (6, 12)),
    ("mixed", "interval", 3, (4, 8)),
    ("hdg", "interval", 1, (16, 32)),
    ("hdg", "interval", 2, (8, 16)),
    ("hdg", "interval", 3, (4, 8)),
    ("dissipative_hdg", "interval", 1, (8, 16)),
    ("dissipative_hdg", "interval", 2, (8, 16)),
    ("cg", "triangle", 1, (8, 16)),
    ("cg", "triangle", 2, (6, 12)),
    ("cg", "triangle", 3, (4, 8)),
    ("cg", "tetrahedron", 2, (3, 6)),
    ("cg", "tetrahedron", 3, (2, 4)),
    ("hdg", "triangle", 1, (16, 32)),
    ("hdg", "triangle", 2, (6, 12)),
    ("hdg", "triangle", 3, (4, 8)),
    ("mixed", "triangle", 0, (8, 16)),
    ("mixed", "triangle", 1, (6, 12)),
    ("mixed", "triangle", 2, (4, 8)),
    ("mixed", "triangle", 3, (4, 8)),
    ("mixed", "quadrilateral", 0, (8, 16)),
    ("mixed", "quadrilateral", 1, (4, 8)),
    ("mixed", "quadrilateral", 2, (4, 8)),
    ("mixed", "hexahedron", 0, (4, 8)),
    ("mixed", "hexahedron", 1, (3, 6)),
    ("mixed", "hexahedron", 2, (2, 4)),
    ("hdg", "quadrilateral", 1, (16, 32)),
    ("hdg", "quadrilateral", 2, (6, 12)),
    ("dissipative_hdg", "triangle", 1, (6, 12)),
    ("dissipative_hdg", "triangle", 2, (4, 8)),
    ("dissipative_hdg", "triangle", 3, (4, 8)),
    ("lumped", "quadrilateral", 1, (8, 16)),
    ("lumped", "quadrilateral", 2, (6, 12)),
    ("lumped", "quadrilateral", 3, (4, 8)),
    ("lumped", "quadrilateral", 4, (3, 6)),
    ("lumped", "hexahedron", 1, (6, 12)),
    ("lumped", "hexahedron", 2, (3, 6)),
    ("hdg", "tetrahedron", 2, (4, 6)),
    ("mixed", "tetrahedron", 1, (3, 6)),
    ("dissipative_hdg", "tetrahedron", 1, (3, 6)),
    pytest.param("hdg", "tetrahedron", 1, (6, 12), marks=SLOW),
    pytest.param("hdg", "hexahedron", 1, (6, 12), marks=SLOW),
    pytest.param("mixed", "tetrahedron", 2, (3, 6), marks=SLOW),
    pytest.param("hdg", "triangle", 1, (32, 64), marks=SLOW),
    pytest.param("hdg", "triangle", 2, (12, 24), marks=SLOW),
    pytest.param("mixed", "triangle", 2, (12, 24), marks=SLOW),
    pytest.param("lumped", "hexahedron", 3, (4, 8), marks=SLOW),
]


def duration(name, k):
    """How long a standing wave is followed: about half a period, or two for HDG with k = 1.

    There the error swings about the mode with a phase that moves with h, and the largest error of
    half a period depends on where the swing stands. Orders of u_star on free tetrahedra: 3.0 to 3.1
    at t = 0 (n = 4, 8, 16); of its maximum up to 0.32, 2.4 to 3.0, and up to 1.28, 3.2 to 3.4
    (n = 4, 6, 8, 12).
    """
    return 1.28 if name == "hdg" and k == 1 else 0.32


@pytest.mark.parametrize("walls", ["clamped", "free"])
@pytest.mark.parametrize(("name", "cell", "k", "sizes"), STANDING)
def test_standing_waves(name, cell, k, sizes, walls):
    rows = []
    for n in sizes:
        domain = box(n, cell)
        condition = hf.Clamped if walls == "clamped" else hf.Free
        wave = hf.Acoustic(domain, 2.0, 8.0, [condition(*WALLS[: 2 * domain.dim])])
        one = (1,) * domain.dim
        exact = hf.exact.StandingWave(one, one, speed=2.0, walls=walls)
        system = METHODS[name](wave, k)
        state = system.state(u=exact.u(0), v=exact.v(0))
        rows.append(
            errors(
                system, hf.Gauss(3), state, 0.02, duration(name, k),
                lambda f, t, exact=exact: None if f == "q" else getattr(exact, f)(t),
            )
        )  # fmt: skip
    check_orders(sizes, rows, expected_orders(name, k))


# ---------------------------------------------------------------- prescribed data

X, Y, T = sympy.symbols("x y t")
DIRECTION = (sympy.Rational(3, 5), sympy.Rational(4, 5))
PLANE = sympy.sin(3 * (DIRECTION[0] * X + DIRECTION[1] * Y - T) + sympy.Rational(1, 2))
NORMALS = {"left": (-1, 0), "right": (1, 0), "bottom": (0, -1), "top": (0, 1)}


PLANE_FIELDS = {
    name: sympy.lambdify((X, Y, T), expression, "numpy")
    for name, expression in (
        ("u", PLANE), ("v", PLANE.diff(T)), ("q", [PLANE.diff(X), PLANE.diff(Y)])
    )
}  # fmt: skip


def plane(field, t):
    f = PLANE_FIELDS[field]
    return lambda x: np.asarray(f(x[0], x[1], t))


def flux(side):
    """du/dn of the plane wave."""
    n = NORMALS[side]
    return n[0] * PLANE.diff(X) + n[1] * PLANE.diff(Y)


def conditions(kind):
    """The plane wave goes through; the left side of `free` is clamped, to hold the body."""
    if kind == "clamped":
        return [hf.Clamped(*NORMALS, value=PLANE)]
    sides = [side for side in NORMALS if side != "left"]
    if kind == "free":
        return [hf.Clamped("left", value=PLANE), *(hf.Free(s, value=flux(s)) for s in sides)]
    return [hf.Impedance(s, value=flux(s) + PLANE.diff(T)) for s in NORMALS]


@pytest.mark.parametrize("kind", ["clamped", "free", "impedance"])
@pytest.mark.parametrize(
    ("name", "cell", "k", "sizes"),
    [
        ("cg", "triangle", 1, (6, 12)),
        ("cg", "triangle", 2, (4, 8)),
        ("lumped", "quadrilateral", 2, (4, 8)),
        ("mixed", "triangle", 1, (4, 8)),
        ("mixed", "triangle", 2, (3, 6)),
        ("hdg", "triangle", 1, (16, 32)),
        ("hdg", "triangle", 2, (3, 6)),
        ("dissipative_hdg", "triangle", 1, (4, 8)),
        ("dissipative_hdg", "triangle", 2, (3, 6)),
    ],
)
def test_a_plane_wave_with_prescribed_data(name, cell, k, sizes, kind):
    rows = []
    for n in sizes:
        system = METHODS[name](hf.Acoustic(box(n, cell), boundary=conditions(kind)), k)
        start = "projection" if kind == "impedance" and name == "mixed" else "steady"
        state = system.state(u=plane("u", 0), v=plane("v", 0), start=start)
        rows.append(errors(system, hf.Gauss(3), state, 0.02, 0.3, plane))
    expected = expected_orders(name, k)
    expected["q"] = k if name in ("cg", "lumped") else k + 1
    if start == "projection":  # which is not enough for superconvergence
        expected["v_star"] = k + 1
    check_orders(sizes, rows, expected)


@pytest.mark.parametrize(("name", "cell"), [
    ("cg", "triangle"), ("lumped", "quadrilateral"), ("mixed", "triangle"), ("hdg", "triangle"),
])  # fmt: skip
def test_steel_in_si_units_has_the_frequencies_of_unit_coefficients(name, cell):
    found = []
    for rho, kappa in ((1.0, 1.0), (7850.0, 2e11)):
        system = METHODS[name](hf.Acoustic(box(4, cell), rho, kappa), 2)
        found.append(system.max_frequency() / np.sqrt(kappa / rho))
    assert found[0] == pytest.approx(found[1], rel=1e-6)
