"""What is refused, with one sentence that says what is wrong."""

from contextlib import contextmanager

from mpi4py import MPI

import numpy as np
import pytest
import ufl

import hamfem as hf
from tests.discretization.methods import METHODS

COMM = MPI.COMM_WORLD
each = pytest.mark.parametrize("name", [name for name in METHODS if name != "lumped"])


@pytest.fixture(scope="module")
def domain():
    return hf.box(COMM, (0, 0), (1, 1), 4)


@contextmanager
def refused(error, match):
    """Raised with a message that matches and is a sentence: one line with its stop."""
    with pytest.raises(error, match=match) as caught:
        yield
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith((".", "?"))


@pytest.mark.parametrize(
    "density", [-1.0, 0.0, lambda x: x[0] - 0.5, lambda x: np.nan * x[0]],
    ids=["negative", "zero", "changing", "nan"],
)  # fmt: skip
def test_a_density_that_is_not_positive(domain, density):
    with refused(ValueError, "the density must be a positive number everywhere and is"):
        hf.Acoustic(domain, density)


def test_a_density_that_is_not_positive_in_ufl(domain):
    x = ufl.SpatialCoordinate(domain.mesh)
    with refused(ValueError, "the density must be a positive number everywhere and is"):
        hf.Acoustic(domain, x[0] - 0.5)


@pytest.mark.parametrize(
    ("stiffness", "match"),
    [
        (-2.0, "the stiffness must be a positive number everywhere and is -2"),
        (np.array([[1.0, 1.0], [1.0, 1.0]]), "symmetric matrix everywhere and is singular"),
        (np.array([[1.0, 2.0], [2.0, 1.0]]), "symmetric matrix everywhere and is singular"),
        (np.array([[1.0, 0.3], [0.2, 1.0]]), "everywhere and is not symmetric"),
        (np.eye(3), "a positive number or a 2 x 2 matrix and has shape"),
        ("steel", "the stiffness is a number, .* 'steel' is none"),
        ({"core": 1.0}, "the mesh has no region 'core'"),
        (lambda x: x[:2], r"must return an array of shape .* and returned \(2,"),
    ],
    ids=[
        "negative", "singular", "indefinite", "skew", "shape", "word", "region", "returned shape"
    ],
)  # fmt: skip
def test_a_stiffness_that_is_none(domain, stiffness, match):
    with refused((ValueError, TypeError), match):
        hf.Acoustic(domain, 1.0, stiffness)


def test_a_coefficient_that_leaves_cells_out(domain):
    half = domain.name_region("half", lambda x: x[0] < 0.5 + 1e-9)
    with refused(ValueError, "the density is not given everywhere: some cells lie in no region"):
        hf.Acoustic(half, {"half": 1.0})


def test_boundaries(domain):
    with refused(ValueError, "the mesh has no boundary 'roof'; it has: left, right, bottom, top"):
        hf.Acoustic(domain, boundary=[hf.Clamped("roof")])
    with refused(ValueError, "side 'left' has two conditions: leave one"):
        hf.Acoustic(domain, boundary=[hf.Clamped("left"), hf.Free("left")])
    with refused(ValueError, r"hf.Clamped\(\) names no side: name at least one"):
        hf.Acoustic(domain, boundary=[hf.Clamped()])
    with refused(TypeError, "'left' is not a boundary condition: use hf.Clamped"):
        hf.Acoustic(domain, boundary=["left"])
    with refused(TypeError, r"is not a source: use hf.Source\(shape, amplitude\)"):
        hf.Acoustic(domain, sources=[lambda x: x[0]])


@pytest.mark.parametrize("degree", [-1, 1.5, True, "2"])
@each
def test_degrees_that_are_none(domain, name, degree):
    with refused(ValueError, "have a degree of at least . *: .* is not one"):
        METHODS[name](hf.Acoustic(domain), degree)


def test_degree_0_of_continuous_elements(domain):
    with refused(ValueError, "continuous elements have a degree of at least 1: 0 is not one"):
        hf.cg(hf.Acoustic(domain), 0)


def test_lumped_masses_on_triangles(domain):
    with refused(ValueError, "lumped masses need quadrilaterals or hexahedra"):
        hf.cg(hf.Acoustic(domain), 2, lumped=True)


def test_the_mixed_method_on_cells_that_are_not_affine():
    domain = hf.box(COMM, (0, 0), (1, 1), 3, "quadrilateral")
    x = domain.mesh.geometry.x
    x[:, 0] += 0.1 * x[:, 0] * x[:, 1]
    with refused(ValueError, "the mixed method needs affine cells"):
        hf.mixed(hf.Acoustic(domain), 1)


@pytest.mark.parametrize("tau", [0.0, -1.0, np.inf, np.nan])
@pytest.mark.parametrize("method", [hf.hdg, hf.dissipative_hdg])
def test_stabilisations_that_are_none(domain, method, tau):
    with refused(ValueError, "the stabilisation tau must be a positive number and is"):
        method(hf.Acoustic(domain), 1, tau=tau)


@each
def test_a_source_that_touches_nothing(domain, name):
    outside = hf.Source(lambda x: np.where(x[0] > 2, 1.0, 0.0))
    with refused(ValueError, "a source touches nothing: its shape is 0 at all quadrature points"):
        METHODS[name](hf.Acoustic(domain, sources=[outside]), 2)


@each
def test_initial_data_of_the_wrong_kind(domain, name):
    system = METHODS[name](hf.Acoustic(domain), 2)
    x = ufl.SpatialCoordinate(domain.mesh)
    for half in ("u", "v"):
        with refused(TypeError, "a number, a callable x -> array or a UFL expression"):
            system.state(**{half: "bump"})
        with refused(ValueError, r"must return an array of shape .* and returned \(2, "):
            system.state(**{half: lambda x: x[:2]})
        with refused(ValueError, r"have shape \(2,\) and must have \(\)"):
            system.state(**{half: ufl.as_vector([x[0], x[1]])})
        with refused(ValueError, f"the initial {half}( or q)? is not finite"):
            system.state(**{half: lambda x: np.nan * x[0]})
    with refused(ValueError, "start is 'steady' or 'projection', not 'guess'"):
        system.state(start="guess")


@each
def test_periodic_sides_that_do_not_match(domain, name):
    wave = hf.Acoustic(domain, boundary=[hf.Periodic("left", "top")])
    with refused(ValueError, "periodic sides must be translates of each other"):
        METHODS[name](wave, 1)
    uneven = hf.box(COMM, (0, 0), (1, 1), (4, 3))
    with refused(ValueError, "periodic sides must be translates of each other: 'left' has 3"):
        METHODS[name](hf.Acoustic(uneven, boundary=[hf.Periodic("left", "top")]), 1)


def test_a_side_that_is_its_own_partner(domain):
    with refused(ValueError, "two conditions|itself|translates"):
        hf.cg(hf.Acoustic(domain, boundary=[hf.Periodic("left", "left")]), 1)


@pytest.mark.parametrize("method", [hf.Verlet(), hf.RK4()], ids=["Verlet", "RK4"])
def test_explicit_methods_on_hdg_with_absorbing_walls(domain, method):
    system = hf.hdg(hf.Acoustic(domain, boundary=[hf.Impedance("left")]), 1)
    state = system.state(u=hf.exact.bump((0.5, 0.5), 0.1))
    with refused(ValueError, "mass"):
        for state in hf.march(system, method, state, 1e-4, 1e-3):
            pass


@each
def test_methods_that_go_back_in_time_on_absorbing_walls(domain, name):
    system = METHODS[name](hf.Acoustic(domain, boundary=[hf.Impedance("left")]), 1)
    state = system.state(u=hf.exact.bump((0.5, 0.5), 0.1), start="projection")
    with refused(ValueError, "has substeps back in time, in which damping grows without bound"):
        hf.march(system, hf.Yoshida(4), state, 1e-4, 1e-3)


@each
def test_prescribed_displacements_without_derivatives(domain, name):
    wave = hf.Acoustic(domain, boundary=[hf.Clamped("left", value=lambda x, t: np.sin(t) + x[1])])
    if name == "hdg":  # whose loads need the values only
        assert hf.hdg(wave, 1).loads
        return
    with refused(ValueError, "needs its time derivatives: give the amplitude as a sympy"):
        METHODS[name](wave, 1)


def test_data_that_are_none(domain):
    import sympy

    with refused(TypeError, r"a value is a number or vector, \(shape, amplitude\), g\(x, t\)"):
        hf.Clamped("left", value="sine")
    with refused(ValueError, r"depends on x, y, z and t and this one on \['w'\]"):
        hf.Clamped("left", value=sympy.Symbol("w"))
    with refused(ValueError, r"an amplitude depends on t alone and this one on \['x'\]"):
        hf.Source(1.0, sympy.Symbol("x"))
    with refused(TypeError, "an amplitude is a number, a callable or a sympy expression"):
        hf.Source(1.0, "sine")
