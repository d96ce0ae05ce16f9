from mpi4py import MPI

import pytest

import hamfem as hf


@pytest.fixture
def domain():
    return hf.box(MPI.COMM_WORLD, (0, 0), (1, 1), 4)


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_coefficients_must_be_positive(domain, value):
    with pytest.raises(ValueError, match="density must be a positive number"):
        hf.Acoustic(domain, density=value)
    with pytest.raises(ValueError, match="stiffness must be a positive number"):
        hf.Acoustic(domain, stiffness=value)


def test_boundary_names_are_checked(domain):
    with pytest.raises(ValueError, match="no boundary 'lid'"):
        hf.Acoustic(domain, boundary=[hf.Clamped("lid")])
    with pytest.raises(ValueError, match="'left' has two conditions"):
        hf.Acoustic(domain, boundary=[hf.Clamped("left"), hf.Free("left")])
    with pytest.raises(ValueError, match="names no side"):
        hf.Acoustic(domain, boundary=[hf.Clamped()])
    with pytest.raises(TypeError, match="is not a boundary condition"):
        hf.Acoustic(domain, boundary=["left"])
