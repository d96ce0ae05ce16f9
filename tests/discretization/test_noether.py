"""Symmetries of a mesh give exact invariants: discrete pseudomomenta."""

from mpi4py import MPI

import numpy as np
import pytest

import hamfem as hf

COMM = MPI.COMM_WORLD


def wobble(x):
    return np.sin(2 * np.pi * x[0]) * np.cos(2 * np.pi * x[1]) + 0.3 * np.cos(4 * np.pi * x[0])


def push(x):
    return np.cos(2 * np.pi * (x[0] + x[1])) - 0.2 * np.sin(4 * np.pi * x[0])


@pytest.mark.parametrize("lumped", [False, True])
@pytest.mark.parametrize("method", [hf.Verlet(), hf.Yoshida(4), hf.Gauss(2)], ids=str)
def test_translation_of_a_periodic_mesh(lumped, method):
    cell = "quadrilateral" if lumped else "triangle"
    domain = hf.box(COMM, (0, 0), (1, 1), 4, cell)
    sides = [hf.Periodic("left", "right"), hf.Periodic("bottom", "top")]
    system = hf.cg(hf.Acoustic(domain, boundary=sides), 2, lumped=lumped)
    X = system.symmetry(lambda x: x + np.array([[0.25], [0.0], [0.0]]))
    momentum = hf.noether(system, X)
    state = system.state(u=wobble, v=push)
    start = momentum(state)
    scale = 2 * np.sqrt(2 * system.kinetic(state)) * state.q.norm()
    dt = 0.5 * hf.Yoshida(4).stable_dt(system)
    worst = 0.0
    for state in hf.march(system, method, state, dt, 500 * dt, every=50):
        worst = max(worst, abs(momentum(state) - start))
    assert worst < 1e-12 * scale
    assert abs(start) > 1e-3 * scale


def test_rotation_of_a_square():
    domain = hf.box(COMM, (-1, -1), (1, 1), 6, "quadrilateral")
    system = hf.cg(hf.Acoustic(domain), 3)
    X = system.symmetry(lambda x: np.array([-x[1], x[0], x[2]]))
    momentum = hf.noether(system, X)
    state = system.state(u=lambda x: x[0] * np.exp(-(x[0] ** 2)), v=lambda x: x[1] + 0 * x[0])
    start = momentum(state)
    assert abs(start) > 1e-2
    for state in hf.march(system, hf.Gauss(1), state, 0.05, 10.0, every=50):
        assert momentum(state) == pytest.approx(start, rel=1e-11)


def test_a_motion_that_is_no_symmetry_is_refused():
    system = hf.cg(hf.Acoustic(hf.box(COMM, (0, 0), (1, 1), 4)), 1)
    with pytest.raises(ValueError, match="does not map the nodes onto themselves"):
        system.symmetry(lambda x: x + 0.1)
    broken = hf.hdg(hf.Acoustic(hf.box(COMM, (0, 0), (1, 1), 2)), 1)
    with pytest.raises(ValueError, match="only continuous elements"):
        broken.symmetry(lambda x: x)
