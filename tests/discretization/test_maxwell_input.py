"""What is refused of electromagnetic waves, with one sentence that says what is wrong."""

import numpy as np
import pytest
import sympy
import ufl

import hamfem as hf
from tests.discretization.maxwell import COMM, METHODS, conducting
from tests.discretization.test_bad_input import refused

T, Y = sympy.symbols("t y")


@pytest.fixture(scope="module")
def square():
    return hf.box(COMM, (0, 0), (1, 1), 3)


@pytest.fixture(scope="module")
def cube():
    return hf.box(COMM, (0, 0, 0), (1, 1, 1), 1, "tetrahedron")


def test_materials_that_are_none(square, cube):
    with refused(ValueError, "the permittivity must be a positive number everywhere and is -2"):
        hf.Maxwell(cube, -2.0)
    with refused(ValueError, "the permeability must be a positive number everywhere and is 0"):
        hf.Maxwell(cube, 1.0, 0.0)
    skew = np.eye(3) + np.array([[0, 0.3, 0], [0, 0, 0], [0, 0, 0]])
    with refused(ValueError, "the permittivity must be a positive .* and is not symmetric"):
        hf.Maxwell(cube, skew)
    with refused(ValueError, "the permeability must be .* and is singular or indefinite"):
        hf.Maxwell(cube, 1.0, np.diag([1.0, -1.0, 1.0]))
    with refused(ValueError, "the permittivity must be .* 3 x 3 matrix and has shape"):
        hf.Maxwell(cube, np.eye(2))
    with refused(ValueError, "the permittivity must be a positive number everywhere and is"):
        hf.Maxwell(square, lambda x: x[0] - 0.5, 1.0, "TE")
    x = ufl.SpatialCoordinate(cube.mesh)
    with refused(ValueError, "the permeability must be a positive number everywhere and is"):
        hf.Maxwell(cube, 1.0, x[0] - 2)


def test_polarizations(square, cube):
    for wrong in (None, "both"):
        with refused(ValueError, "in 2D the polarization must be chosen: 'TE' .* or 'TM'"):
            hf.Maxwell(square, polarization=wrong)
    with refused(ValueError, "in 3D there is no polarization to choose and it is 'TE'"):
        hf.Maxwell(cube, polarization="TE")
    with refused(ValueError, "electromagnetic waves have 2 or 3 dimensions"):
        hf.Maxwell(hf.box(COMM, 0, 1, 4, "interval"))


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("kind", ["constant", "separated", "sampled"])
def test_data_with_a_part_normal_to_the_wall(square, name, kind):
    value = {
        "constant": [1.0, 1.0],
        "separated": (lambda x: np.stack([x[1], x[1]]), sympy.sin(T)),
        "sampled": [sympy.sin(T), sympy.cos(T) * Y],
    }[kind]
    for condition in (hf.Clamped, hf.Free, hf.Impedance):
        wave = hf.Maxwell(square, polarization="TE", boundary=[condition("left", value=value)])
        with refused(ValueError, "the value on side 'left' must be tangential and has a part nor"):
            METHODS[name](wave, 1)


def test_data_along_a_curved_wall_may_lean():
    # A circle of straight pieces: data along the circle are not quite along them.
    domain = hf.read_mesh(COMM, "meshes/obstacle_disc.msh")
    name = next(n for n in domain.boundaries if n not in ("left", "right", "bottom", "top"))

    def around(x):
        middle = np.array([2.0, 2.0])
        r = x[:2] - middle[:, None]
        return np.stack([-r[1], r[0]]) / np.linalg.norm(r, axis=0)

    wave = hf.Maxwell(
        domain, polarization="TE", boundary=[hf.Clamped(name, value=(around, sympy.sin(T)))]
    )
    assert hf.mixed(wave, 0).loads


def test_methods_that_cannot(square):
    with refused(ValueError, "only electromagnetic waves have a dual mixed form"):
        hf.mixed(hf.Acoustic(square), 1, dual=True)
    squares = hf.box(COMM, (0, 0), (1, 1), 3, "quadrilateral")
    wave = hf.Maxwell(squares, polarization="TE")
    with refused(ValueError, "HDG of vector waves needs triangles or tetrahedra"):
        hf.hdg(wave, 1)
    bent = hf.box(COMM, (0, 0), (1, 1), 3, "quadrilateral")
    bent.mesh.geometry.x[:, 0] += 0.1 * bent.mesh.geometry.x[:, 0] * bent.mesh.geometry.x[:, 1]
    for method in (hf.mixed, hf.cg):
        with refused(ValueError, "edge elements need affine cells"):
            method(hf.Maxwell(bent, polarization="TE"), 1)
    with refused(ValueError, "HDG methods of vector waves have a degree of at least 1: 0 is"):
        hf.hdg(hf.Maxwell(square, polarization="TE"), 0)
    with refused(ValueError, "have a degree of at least 0: -1 is not one"):
        hf.mixed(wave, -1)
    full = np.array([[2.0, 0.5], [0.5, 1.0]])
    with refused(ValueError, "lumped masses of edge elements need quadrilaterals or hexahedra"):
        hf.cg(hf.Maxwell(squares, full, polarization="TE"), 1, lumped=True)


@pytest.mark.parametrize("name", METHODS)
def test_starts_that_are_none(square, name):
    system = METHODS[name](hf.Maxwell(square, polarization="TE", boundary=conducting(2)), 1)
    with refused(ValueError, "B and A say the same of the start: give one of them"):
        system.state(B=1, A=lambda x: x[:2])
    with refused(ValueError, "must return an array of shape"):
        system.state(E=lambda x: x[0])
    with refused(TypeError, "the initial E is 0, a vector of 2 numbers, a callable"):
        system.state(E="pulse")
    with refused(ValueError, "the initial E is not finite: it has NaN or infinity"):
        system.state(E=lambda x: np.nan * x[:2])
    with refused(ValueError, "start is 'steady' or 'projection', not 'guess'"):
        system.state(start="guess")


def test_an_initial_B_with_charges(cube):
    # B = x points away from the middle: no curl.
    system = hf.mixed(hf.Maxwell(cube), 1)
    with refused(ValueError, "the initial B is not free of divergence .*: there are no magnetic"):
        system.state(B=lambda x: x - 0.5)


# Not of the dual form: its current is on the flux and is projected, nothing to nothing.
@pytest.mark.parametrize("name", [name for name in METHODS if name != "dual"])
def test_a_current_that_touches_nothing(square, name):
    outside = hf.Source(lambda x: np.where(x[0] > 2, 1.0, 0.0) * np.ones((2, 1)))
    with refused(ValueError, "a source touches nothing: its shape is 0 at all quadrature points"):
        METHODS[name](hf.Maxwell(square, polarization="TE", sources=[outside]), 1)


def test_a_field_whose_potential_nobody_knows(square):
    # hf.mixed takes it: it needs E and its derivative alone.
    value = (lambda x: np.stack([0 * x[0], x[1]]), (np.sin, np.cos))
    wave = hf.Maxwell(square, polarization="TE", boundary=[hf.Clamped("left", value=value)])
    assert hf.mixed(wave, 1).loads
    for method in (hf.hdg, hf.cg):
        with refused(ValueError, "the potential on a wall is the time integral of the tangential"):
            method(wave, 1)


def test_explicit_steps_beyond_the_limit(square):
    system = hf.mixed(hf.Maxwell(square, polarization="TE"), 1)
    state = system.state(E=lambda x: x[:2])
    with refused(ValueError, "is beyond the stable step"):
        hf.march(system, hf.Verlet(), state, 1.0, 2.0)
