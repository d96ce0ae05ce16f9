"""Steady starts from data that do not fit the walls."""

from mpi4py import MPI

import numpy as np
import pytest
import sympy
import ufl
from dolfinx import fem

import hamfem as hf
from tests.discretization.methods import METHODS
from tests.verification import order

COMM = MPI.COMM_WORLD
SPD = np.array([[2.0, 0.5], [0.5, 1.0]])
EXACT = 2.584251  # the energy of u0: cg with k = 4 and n = 32, 64 in all digits


def u0(x):
    """0 on the clamped side; its flux SPD grad u0 does not vanish on the free ones."""
    return np.sin(np.pi * x[0] / 2) * (1 + np.cos(np.pi * x[1]))


def distance(f, g):
    fine = fem.Function(fem.functionspace(f.function_space.mesh, ("Discontinuous Lagrange", 6)))
    fine.interpolate(g)
    return np.sqrt(COMM.allreduce(fem.assemble_scalar(fem.form((f - fine) ** 2 * ufl.dx))))


def started(name, n, **boundary):
    cell = "quadrilateral" if name == "lumped" else "triangle"
    walls = [hf.Clamped("left"), *boundary.get("walls", [])]
    system = METHODS[name](hf.Acoustic(hf.box(COMM, (0, 0), (1, 1), n, cell), 1.0, SPD, walls), 2)
    return system, system.state(u=u0, v=0)


@pytest.mark.parametrize("name", ["cg", "lumped", "mixed", "hdg"])
def test_data_whose_flux_does_not_fit_free_walls(name):
    errors, energies = [], []
    for n in (8, 16):
        system, state = started(name, n)
        errors.append(distance(system.fields(state)["u"], u0))
        energies.append(system.energy(state))
    # The flux of mixed elements is 0 on the wall and has a layer there.
    assert order([1 / 8, 1 / 16], errors) > (1.2 if name == "mixed" else 2.7)
    assert energies[1] == pytest.approx(EXACT, rel=3e-3)


def test_dissipative_hdg_starts_with_the_same_flux():
    system, state = started("dissipative_hdg", 16)
    assert system.energy(state) == pytest.approx(EXACT, rel=3e-3)


@pytest.mark.parametrize("name", ["mixed", "hdg"])
def test_a_prescribed_flux_that_is_not_that_of_the_data(name):
    # Through the right side goes a flux of 1, whatever u0 says: the start is still u0.
    walls = [hf.Free("right", value=1 + sympy.Symbol("t"))]
    errors = []
    for n in (8, 16):
        system, state = started(name, n, walls=walls)
        errors.append(distance(system.fields(state)["u"], u0))
    assert order([1 / 8, 1 / 16], errors) > (1.2 if name == "mixed" else 2.7)
