"""The same answer on any number of ranks, for all discretizations and all kinds of walls."""

from mpi4py import MPI

import numpy as np
import pytest
import sympy
import ufl
from dolfinx import fem

import hamfem as hf
from tests.discretization.methods import METHODS

X, Y, T = sympy.symbols("x y t")
SIDES = ["left", "right", "bottom", "top", "back", "front"]
WALLS = {
    "clamped": lambda d: [hf.Clamped(*SIDES[: 2 * d])],
    "free": lambda d: [],
    "impedance": lambda d: [hf.Impedance("left", "top"), hf.Clamped("right")],
    "absorbing": lambda d: [hf.Impedance(*SIDES[: 2 * d])],
    "periodic": lambda d: [hf.Periodic(*SIDES[i : i + 2]) for i in range(0, 2 * d, 2)],
    "strip": lambda d: [hf.Periodic("left", "right"), hf.Clamped("bottom")],
    "data": lambda d: [
        hf.Clamped("left", value=sympy.sin(3 * T + Y)),
        hf.Free("right", value=sympy.cos(2 * T) * Y),
        hf.Impedance("top", value=sympy.sin(T) * X),
    ],
}


def density(x):
    return 1 + 0.3 * np.cos(2 * np.pi * x[0])


def stiffness(x):
    return 2 + np.sin(2 * np.pi * x[1])


def numbers(comm, name, walls, cell, n, k):
    """Energies, invariants and integrals of all fields, at the start and at the end."""
    dim = 3 if cell in ("tetrahedron", "hexahedron") else 2
    domain = hf.box(comm, (0,) * dim, (1,) * dim, n, cell)
    source = hf.Source(hf.exact.bump((0.3,) * dim, 0.2), sympy.cos(4 * T))
    wave = hf.Acoustic(domain, density, stiffness, WALLS[walls](dim), [source])
    system = METHODS[name](wave, k)
    start = "projection" if walls in ("impedance", "absorbing", "data") else "steady"
    bump = hf.exact.bump((0.4, 0.6, 0.5)[:dim], 0.15)
    state = system.state(u=bump, v=lambda x: np.sin(2 * np.pi * x[0]), start=start)
    rows = [_measured(system, state)]
    for state in hf.march(system, hf.Gauss(2), state, 0.02, 0.2, every=10):
        rows.append(_measured(system, state))
    return np.array(rows)


def _measured(system, state):
    row = [system.kinetic(state), system.potential(state), state.work, state.outflow]
    row.append(system.invariants(state)["linear_momentum"])
    for f in system.fields(state).values():
        mesh = f.function_space.mesh
        x = ufl.SpatialCoordinate(mesh)
        weight = ufl.sin(3 * x[0]) * ufl.cos(2 * x[1]) + x[0]
        component = f if f.ufl_shape == () else f[0] + 2 * f[1]
        integrals = [
            fem.assemble_scalar(fem.form(component * weight * ufl.dx(degree=8))),
            fem.assemble_scalar(fem.form(ufl.inner(f, f) * ufl.dx)),
        ]
        row += mesh.comm.allreduce(np.array(integrals)).tolist()
    return row


def check(*case):
    alone = numbers(MPI.COMM_SELF, *case)
    together = numbers(MPI.COMM_WORLD, *case)
    assert np.all(np.isfinite(alone))
    scale = np.abs(alone).max(axis=0) + 1e-3 * np.abs(alone).max()
    assert np.abs(together - alone).max(initial=0) < 1e-10 * scale.max()
    assert np.all(np.abs(together - alone) < 1e-10 * scale)


@pytest.mark.parametrize("walls", WALLS)
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.filterwarnings("ignore:the initial data push the free body")
def test_squares(name, walls):
    check(name, walls, "quadrilateral" if name == "lumped" else "triangle", 6, 2)


@pytest.mark.parametrize("walls", ["clamped", "periodic", "data"])
@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("cg", "tetrahedron"),
        ("lumped", "hexahedron"),
        ("mixed", "tetrahedron"),
        ("mixed", "hexahedron"),
        ("hdg", "tetrahedron"),
        ("hdg", "hexahedron"),
        ("dissipative_hdg", "tetrahedron"),
    ],
)
@pytest.mark.filterwarnings("ignore:the initial data push the free body")
def test_cubes(name, cell, walls):
    check(name, walls, cell, 3, 1)


@pytest.mark.parametrize("name", ["cg", "mixed", "hdg", "dissipative_hdg"])
@pytest.mark.filterwarnings("ignore:the initial data push the free body")
def test_a_periodic_square_does_not_know_where_its_sides_are(name):
    # Moved by half the square, the same data run in the same way.
    results = []
    for shift in (0.0, 0.5):
        domain = hf.box(MPI.COMM_WORLD, (shift, shift), (1 + shift, 1 + shift), 6)
        wave = hf.Acoustic(domain, density, stiffness, WALLS["periodic"](2))
        system = METHODS[name](wave, 2)
        state = system.state(
            u=lambda x: np.sin(2 * np.pi * x[0]) * np.cos(2 * np.pi * (x[1] + x[0])),
            v=lambda x: np.sin(2 * np.pi * (x[1] + x[0])),
        )
        for state in hf.march(system, hf.Gauss(2), state, 0.02, 0.5, every=100):
            pass
        results.append((system.kinetic(state), system.potential(state)))
    assert results[0] == pytest.approx(results[1], rel=1e-10)
