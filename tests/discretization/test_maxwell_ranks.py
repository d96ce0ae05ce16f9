"""The same electromagnetic waves on any number of ranks."""

from mpi4py import MPI

import numpy as np
import pytest
import sympy
import ufl
from dolfinx import fem

import hamfem as hf
from tests.discretization.maxwell import COMM, KINDS, METHODS, SIDES, box

X, Y, T = sympy.symbols("x y t")


def along(kind, side, f):
    """A field along a side: a number across the plane, else a vector."""
    dim, polarization = KINDS[kind][2], KINDS[kind][1]
    if polarization == "TM":
        return f
    parts = [0] * dim
    parts[1 if side in ("left", "right") else 0] = f
    return parts


WALLS = {
    "free": lambda kind: [],
    "conducting": lambda kind: [hf.Clamped("left", "top")],
    "absorbing": lambda kind: [hf.Impedance("left", "top"), hf.Clamped("right")],
    "periodic": lambda kind: [
        hf.Periodic(*SIDES[i : i + 2]) for i in range(0, 2 * KINDS[kind][2], 2)
    ],
    "data": lambda kind: [
        hf.Clamped("left", value=along(kind, "left", sympy.sin(3 * T + Y))),
        hf.Free("right", value=along(kind, "right", sympy.cos(2 * T) * Y)),
        hf.Impedance("top", value=along(kind, "top", sympy.sin(T) * X)),
    ],
}


def numbers(comm, name, kind, walls):
    """Energies, invariants and integrals of all fields along a run."""
    dim, polarization = KINDS[kind][2], KINDS[kind][1]
    domain, _ = box(kind, 4 if dim == 2 else (3, 2, 2), comm)
    bump = hf.exact.bump((0.3, 0.4, 0.5)[:dim], 0.3)

    def pulse(x):
        return bump(x) if polarization == "TM" else bump(x) * np.array([[1.0], [2.0], [3.0]])[:dim]

    wave = hf.Maxwell(
        domain, lambda x: 1 + 0.3 * np.cos(2 * np.pi * x[0]), lambda x: 2 + np.sin(6 * x[1]),
        polarization, WALLS[walls](kind), [hf.Source(pulse, sympy.cos(4 * T))],
    )  # fmt: skip
    system = METHODS[name](wave, 1)
    rows = []
    state = system.state(E=pulse, start="projection" if walls == "data" else "steady")
    for state in hf.march(system, hf.Gauss(2), state, 0.02, 0.2, every=5):
        row = [system.kinetic(state), system.potential(state), state.work, state.outflow]
        for quantity, value in system.invariants(state).items():
            if quantity not in ("electric_charge", "magnetic_charge", "magnetic_charge_weak"):
                row += np.ravel(value).tolist()  # the others are round-off
        for f in system.fields(state).values():
            x = ufl.SpatialCoordinate(domain.mesh)
            weight = ufl.sin(3 * x[0]) * ufl.cos(2 * x[1]) + x[0]
            component = f if f.ufl_shape == () else f[0] + 2 * f[1]
            integrals = [
                fem.assemble_scalar(fem.form(component * weight * ufl.dx(degree=6))),
                fem.assemble_scalar(fem.form(ufl.inner(f, f) * ufl.dx(degree=6))),
            ]
            row += comm.allreduce(np.array(integrals)).tolist()
        rows.append(row)
    return np.array(rows)


@pytest.mark.parametrize("walls", WALLS)
@pytest.mark.parametrize(("name", "kind"), [
    *((name, kind) for name in METHODS for kind in ("TE", "3D")),
    *((name, "TM") for name in ("mixed", "dual", "cg")),
    ("mixed", "TE squares"), ("mixed", "3D cubes"), ("dual", "3D cubes"),
])  # fmt: skip
def test_the_same_on_any_number_of_ranks(name, kind, walls):
    alone, together = (numbers(comm, name, kind, walls) for comm in (MPI.COMM_SELF, COMM))
    assert np.all(np.isfinite(alone))
    scale = np.abs(alone).max(axis=0) + 1e-3 * np.abs(alone).max()
    assert np.all(np.abs(together - alone) < 1e-10 * scale)


@pytest.mark.parametrize("name", METHODS)
def test_a_periodic_square_does_not_know_where_its_sides_are(name):
    # Moved by half the square, the same data run in the same way.
    results = []
    for shift in (0.0, 0.5):
        domain = hf.box(COMM, (shift, shift), (1 + shift, 1 + shift), 4)
        wave = hf.Maxwell(
            domain, lambda x: 2 + np.cos(2 * np.pi * x[0]), 0.7, "TE", WALLS["periodic"]("TE")
        )
        system = METHODS[name](wave, 1)
        state = system.state(
            E=lambda x: np.stack([
                np.sin(2 * np.pi * x[1]), np.cos(2 * np.pi * (x[0] + x[1])) + 0.5
            ]),
            B=lambda x: np.sin(2 * np.pi * x[0]),
        )  # fmt: skip
        for state in hf.march(system, hf.Gauss(2), state, 0.02, 0.4, every=100):
            pass
        results.append((system.kinetic(state), system.potential(state)))
    assert results[0] == pytest.approx(results[1], rel=1e-10)
