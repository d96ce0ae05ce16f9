"""Elastic materials: their parameters, stiffness matrices and speeds, and what is refused."""

from mpi4py import MPI

import numpy as np
import pytest
import ufl

import hamfem as hf

COMM = MPI.COMM_WORLD
IRON = (230e9, 135e9, 117e9)  # c11, c12, c44 of a cubic crystal


def square(n=2):
    return hf.box(COMM, (0, 0), (1, 1), n)


def cube(n=1):
    return hf.box(COMM, (0, 0, 0), (1, 1, 1), n, "tetrahedron")


def turn(angle, axis):
    """A rotation matrix about one of the axes."""
    i, j = [k for k in range(3) if k != axis]
    R = np.eye(3)
    R[i, i] = R[j, j] = np.cos(angle)
    R[i, j], R[j, i] = -np.sin(angle), np.sin(angle)
    return R


def stiffness(wave):
    cells = np.arange(wave.domain.mesh.topology.index_map(wave.domain.dim).size_local)
    return wave.C.middle(cells.astype(np.int32))


# ---------------------------------------------------------------- Mandel matrices


@pytest.mark.parametrize("dim", [2, 3])
def test_hookes_law_in_mandels_notation(dim):
    C, basis = hf.mandel.isotropic(1.3, 0.7, dim), hf.physics.operators.symmetric_gradient(dim)
    e = np.random.default_rng(1).standard_normal((dim, dim))
    e = (e + e.T) / 2
    sigma = np.einsum("aij,a->ij", basis, C @ np.einsum("aij,ij->a", basis, e))
    assert sigma == pytest.approx(2 * 0.7 * e + 1.3 * np.trace(e) * np.eye(dim), rel=1e-14)


def test_rotations_are_orthogonal_and_know_symmetries():
    cubic, layers = hf.mandel.cubic(*IRON), hf.mandel.transversely_isotropic(9, 6, 2, 1.5, 2.5)
    for axis in range(3):
        assert hf.mandel.rotated(cubic, turn(np.pi / 2, axis)) == pytest.approx(cubic, abs=1e-3)
    assert not np.allclose(hf.mandel.rotated(cubic, turn(np.pi / 4, 0)), cubic)
    assert hf.mandel.rotated(layers, turn(0.7, 2)) == pytest.approx(layers, abs=1e-13)
    tilted = hf.mandel.rotated(layers, turn(0.7, 0))
    assert np.linalg.eigvalsh(tilted) == pytest.approx(np.linalg.eigvalsh(layers), rel=1e-12)
    assert hf.mandel.rotated(tilted, turn(-0.7, 0)) == pytest.approx(layers, abs=1e-13)
    isotropic = hf.mandel.isotropic(1.3, 0.7, 2)
    assert hf.mandel.rotated(isotropic, 0.4) == pytest.approx(isotropic, abs=1e-13)


def test_speeds_of_a_cubic_crystal_along_its_diagonals():
    # The textbook values along [110] and [111].
    c11, c12, c44 = IRON
    rho, C = 7870.0, hf.mandel.cubic(*IRON)
    found, ways = hf.mandel.speeds(C, rho, (1, 1, 0))
    expected = np.sqrt(np.array([(c11 - c12) / 2, c44, (c11 + c12) / 2 + c44]) / rho)
    assert found == pytest.approx(expected, rel=1e-12)
    assert np.abs(ways[:, 2]) == pytest.approx([np.sqrt(0.5), np.sqrt(0.5), 0], abs=1e-12)
    found, _ = hf.mandel.speeds(C, rho, (1, 1, 1))
    shear = (c11 - c12 + c44) / 3
    expected = np.sqrt(np.array([shear, shear, (c11 + 2 * c12 + 4 * c44) / 3]) / rho)
    assert found == pytest.approx(expected, rel=1e-12)


def test_plane_strain_and_plane_stress_of_an_isotropic_solid():
    lam, mu = 1.3, 0.7
    C = hf.mandel.isotropic(lam, mu)
    assert hf.mandel.plane_strain(C) == pytest.approx(hf.mandel.isotropic(lam, mu, 2), rel=1e-14)
    sheet = 2 * lam * mu / (lam + 2 * mu)
    assert hf.mandel.plane_stress(C) == pytest.approx(
        hf.mandel.isotropic(sheet, mu, 2), rel=1e-13, abs=1e-15
    )
    voigt = np.diag([3.0, 3.0, 3.0, 1.0, 1.0, 1.0])
    assert np.diag(hf.mandel.from_voigt(voigt)) == pytest.approx([3, 3, 3, 2, 2, 2])


# ---------------------------------------------------------------- parameters


@pytest.mark.parametrize("make", [square, cube])
def test_all_ways_to_give_a_material_agree(make):
    domain, rho, lam, mu = make(), 2.5, 1.3, 0.7
    E, nu = mu * (3 * lam + 2 * mu) / (lam + mu), lam / (2 * (lam + mu))
    p, s = np.sqrt((lam + 2 * mu) / rho), np.sqrt(mu / rho)
    x = ufl.SpatialCoordinate(domain.mesh)
    one = 1 + 0 * x[0]
    everywhere = domain.name_region("all", lambda x: x[0] > -1)
    waves = [
        hf.Elastic(domain, rho, lam, mu),
        hf.Elastic(domain, rho, stiffness=hf.mandel.isotropic(lam, mu, domain.dim)),
        hf.Elastic.from_young(domain, rho, E, nu),
        hf.Elastic.from_speeds(domain, rho, p, s),
        hf.Elastic(everywhere, rho, {"all": lam}, mu),
        hf.Elastic.from_young(everywhere, rho, {"all": E}, {"all": nu}),
        hf.Elastic(domain, rho, lambda x: lam + 0 * x[0], mu),
        hf.Elastic.from_speeds(domain, lambda x: rho + 0 * x[0], p, lambda x: s + 0 * x[0]),
        hf.Elastic(domain, rho, lam * one, mu),
        hf.Elastic.from_young(domain, rho, E, nu * one),
    ]
    for wave in waves:
        assert stiffness(wave) == pytest.approx(stiffness(waves[0]), rel=1e-12, abs=1e-14)
        assert wave.speeds() == pytest.approx((s, p), rel=1e-12)


def test_a_thin_sheet_is_softer():
    lam, mu = 1.3, 0.7
    wave = hf.Elastic(square(), lam=lam, mu=mu, plane="stress")
    C = hf.mandel.plane_stress(hf.mandel.isotropic(lam, mu))
    assert stiffness(wave)[0] == pytest.approx(C, rel=1e-13, abs=1e-15)


def test_speeds_of_an_anisotropic_material_are_those_of_all_directions():
    C = hf.mandel.cubic(*IRON)
    slow, fast = hf.Elastic(cube(), 7870.0, stiffness=C).speeds()
    slowest, fastest = (hf.mandel.speeds(C, 7870.0, n)[0] for n in ((1, 1, 0), (1, 1, 1)))
    assert slow == pytest.approx(slowest[0], rel=0.01)
    assert fast == pytest.approx(fastest[2], rel=0.01)


def test_points_per_wavelength():
    domain = hf.box(COMM, (0, 0), (1, 2), (4, 4))  # diagonals of sqrt(1/16 + 1/4)
    wave = hf.Elastic.from_speeds(domain, 3.0, 5.0, 2.0)
    expected = 2.0 / 10.0 * 3 / np.sqrt(1 / 16 + 1 / 4)
    assert wave.points_per_wavelength(10.0, 3) == pytest.approx(expected, rel=1e-12)
    sound = hf.Acoustic(domain, 4.0, 36.0)
    assert sound.speeds() == pytest.approx((3.0, 3.0), rel=1e-12)
    assert hf.Acoustic(domain, 1.0, np.diag([1.0, 9.0])).speeds() == pytest.approx((1, 3))
    with pytest.raises(ValueError, match="a positive number"):
        sound.points_per_wavelength(0, 1)


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: hf.Elastic(square(), lam=1.0, mu=-1.0), "definite symmetric matrix everywhere"),
        (lambda: hf.Elastic(square(), lam=-1.5, mu=1.0), "singular or indefinite"),
        (lambda: hf.Elastic(square(), -1.0), "the density must be a positive number"),
        (lambda: hf.Elastic.from_young(square(), 1, 1, 0.5), "between -1 and 1/2 and is 0.5"),
        (lambda: hf.Elastic.from_young(square(), 1, 1, -1.0), "between -1 and 1/2 and is -1"),
        (lambda: hf.Elastic.from_speeds(square(), 1, 1.0, 1.0), "singular or indefinite"),
        (
            lambda: hf.Elastic(square(), stiffness=np.eye(3) + np.eye(3, k=1)),
            "everywhere and is not symmetric",
        ),
        (lambda: hf.Elastic(square(), stiffness=np.eye(6)), r"3 x 3 matrix and has shape \(6, 6\)"),
        (lambda: hf.Elastic(cube(), stiffness=np.eye(3)), r"6 x 6 matrix and has shape \(3, 3\)"),
        (lambda: hf.Elastic(square(), stiffness=2.0), "in Mandel's notation and not a number"),
        (lambda: hf.Elastic(square(), lam=1, stiffness=np.eye(3)), "either lam and mu or a"),
        (lambda: hf.Elastic(square(), plane="sheet"), "plane is 'strain' or 'stress'"),
        (lambda: hf.Elastic(hf.box(COMM, (0,), (1,), 4, "interval")), "for a rod take hf.Acoustic"),
        (
            lambda: hf.Elastic(square(), lam={"all": 1.0}, mu=lambda x: 1 + x[0]),
            "per region and callables do not go together",
        ),
        (
            lambda: hf.Elastic(square(), boundary=[hf.Clamped("left", value=[1.0, "up"])]),
            "a vector is a list of finite numbers",
        ),
        (lambda: hf.mandel.rotated(np.eye(6), 2 * np.eye(3)), "an orthogonal 3 x 3 matrix"),
        (lambda: hf.mandel.from_voigt(np.eye(4)), "3 x 3 or 6 x 6"),
        (lambda: hf.mandel.plane_strain(np.eye(3)), "a 6 x 6 matrix"),
        (lambda: hf.hdg(hf.Elastic(square()), 0), "degree of at least 1"),
        (
            lambda: hf.hdg(hf.Elastic(hf.box(COMM, (0, 0), (1, 1), 2, "quadrilateral")), 1),
            "needs triangles or tetrahedra",
        ),
        (
            lambda: hf.mixed(hf.Elastic(hf.box(COMM, (0, 0), (1, 1), 2, "quadrilateral")), 1),
            "needs triangles or tetrahedra",
        ),
        (
            lambda: hf.cg(hf.Elastic(square()), 1).state(v=1.0),
            "0, a vector of 2 numbers, a callable",
        ),
        (
            lambda: hf.cg(hf.Elastic(square()), 1).state(v=[1.0, 2.0, 3.0]),
            r"has shape \(3,\) and must have \(2,\)",
        ),
        (
            lambda: hf.hdg(hf.Elastic(square()), 1).state(v=lambda x: x[0]),
            r"must return an array of shape \(2, ",
        ),
        (
            lambda: hf.cg(
                hf.Elastic(square(), sources=[hf.Source(lambda x: np.where(x[:2] > 9, 1, 0))]), 1
            ),
            "a source touches nothing",
        ),
    ],
)  # fmt: skip
def test_bad_input_gives_one_sentence(make, words):
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        make()
    message = str(caught.value)
    assert message.endswith(".")
    assert "\n" not in message
