"""Tracked quantities: local laws that the fields obey up to the order of the method."""

from mpi4py import MPI

import numpy as np
import pytest
import ufl
from dolfinx import fem

import hamfem as hf

COMM = MPI.COMM_WORLD
MAKERS = {
    "cg": lambda wave: hf.cg(wave, 3),
    "hdg": lambda wave: hf.hdg(wave, 3),
    "mixed": lambda wave: hf.mixed(wave, 3),
    "dissipative_hdg": lambda wave: hf.dissipative_hdg(wave, 3),
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_plane_pulse_has_as_much_pseudomomentum_as_energy(name):
    # u = exp(-(x - 2)²/(2 s²)) going left, v = du/dx: the energy is sqrt(pi)/(2 s)
    s = 0.3
    domain = hf.box(COMM, (0, 0), (4, 1), (16, 4))
    system = MAKERS[name](hf.Acoustic(domain))
    x = ufl.SpatialCoordinate(domain.mesh)
    u = ufl.exp(-((x[0] - 2) ** 2) / (2 * s**2))
    v = -(x[0] - 2) / s**2 * u
    values = system.invariants(system.state(u=u, v=v))
    exact = np.sqrt(np.pi) / (2 * s)
    assert values["energy"] == pytest.approx(exact, rel=1e-3)
    assert values["pseudomomentum"] == pytest.approx([2 * values["kinetic"], 0.0], abs=2e-3)
    assert values["linear_momentum"] == pytest.approx(0.0, abs=1e-3)


@pytest.mark.parametrize("name", MAKERS)
def test_walls_change_the_totals_by_the_flux_through_them(name):
    domain = hf.box(COMM, (0, 0), (1, 1), 8)
    kappa = np.diag([2.0, 1.0])
    system = MAKERS[name](hf.Acoustic(domain, density=1.5, stiffness=kappa))
    state = system.state(
        u=lambda x: np.cos(np.pi * x[0]) * (1 + 0.5 * np.cos(np.pi * x[1])),
        v=lambda x: np.cos(2 * np.pi * x[1]) + np.cos(np.pi * x[0]),
    )
    dt, rows = 1e-3, []
    for state in hf.march(system, hf.Gauss(2), state, dt, 0.102):
        if state.step >= 100:
            rows.append((system.invariants(state), system.through_walls(state)))
    (before, _), (_, flux), (after, _) = rows
    names = ["pseudomomentum", "angular_pseudomomentum"]
    if "dilation" in before:
        names.append("dilation")
    for quantity in names:
        rate = (np.array(after[quantity]) - np.array(before[quantity])) / (2 * dt)
        scale = np.abs(flux[quantity]).max()
        assert scale > 0.1, quantity
        assert rate == pytest.approx(-np.array(flux[quantity]), abs=0.01 * scale)


def test_densities_are_fields_whose_integrals_are_the_totals():
    domain = hf.box(COMM, (0, 0, 0), (1, 1, 1), 2, "tetrahedron")
    system = hf.hdg(hf.Acoustic(domain), 2)
    state = system.state(
        u=lambda x: x[0] * x[1] + x[2] ** 2, v=lambda x: x[0] - x[2], start="projection"
    )
    fields, totals = system.densities(state), system.invariants(state)
    for name in ("pseudomomentum", "angular_pseudomomentum"):
        f = fields[f"{name}_density"]
        parts = [
            COMM.allreduce(fem.assemble_scalar(fem.form(f[i] * ufl.dx)))
            for i in range(f.ufl_shape[0])
        ]
        assert parts == pytest.approx(totals[name], rel=1e-10, abs=1e-12)
        assert fields[f"{name}_flux"].ufl_shape == (3, 3)
    energy = COMM.allreduce(fem.assemble_scalar(fem.form(fields["energy_density"] * ufl.dx)))
    assert energy == pytest.approx(totals["energy"], rel=0.1)  # without the jumps of HDG


def test_systems_of_matrices_have_no_densities():
    system = hf.SecondOrder(np.eye(2), np.eye(2))
    with pytest.raises(ValueError, match="vectors and no fields"):
        system.densities(system.state([1.0, 0.0], [0.0, 0.0]))
