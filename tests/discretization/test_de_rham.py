"""Spaces of edge elements: derivatives, masses, and meshes of all kinds."""

from pathlib import Path

from mpi4py import MPI
from petsc4py import PETSc

import numpy as np
import pytest
import ufl
from dolfinx import fem

import hamfem as hf
from hamfem.discretization.de_rham import DeRham
from hamfem.discretization.edge_mass import masses
from hamfem.discretization.edges import Edges
from hamfem.solvers import is_diagonal
from tests.discretization.maxwell import COMM

MESHES = Path(__file__).parents[2] / "meshes"
COMPLEXES = [
    (cell, across, k)
    for cell, across in (
        ("triangle", False), ("triangle", True), ("quadrilateral", False), ("quadrilateral", True),
        ("tetrahedron", False), ("hexahedron", False), ("gmsh", False),
    )
    for k in (0, 1, 2)
    if not (cell == "gmsh" and k == 2)
]  # fmt: skip


def mesh(cell):
    if cell == "gmsh":
        return hf.read_mesh(COMM, MESHES / "cavity_sphere.msh")
    dim = 3 if cell in ("tetrahedron", "hexahedron") else 2
    return hf.box(COMM, (0,) * dim, (1, 1.3, 0.7)[:dim], 2, cell)


def generic(basis):
    """A function without any symmetry, the same on any number of ranks up to its numbering."""
    f, n = fem.Function(basis.V), basis.element.value_size

    def values(x):
        parts = np.stack([
            np.sin(3 * x[1] + x[2] + 1) + x[0] ** 3, np.cos(2 * x[0] - x[2]) * x[1],
            np.exp(x[0]) * x[1] ** 2,
        ])  # fmt: skip
        return parts[:n] if n > 1 else parts[0]

    f.interpolate(values)
    return f


def times(A, f, basis):
    """A f as a function."""
    x = A.createVecRight()
    x.array[:] = f.x.array[: x.local_size]
    y = A.createVecLeft()
    A.mult(x, y)
    return basis.function(y, "derivative")


def difference(a, b):
    squared = fem.form(ufl.inner(a - b, a - b) * ufl.dx)
    whole = fem.form(ufl.inner(b, b) * ufl.dx)
    return np.sqrt(
        COMM.allreduce(fem.assemble_scalar(squared)) / COMM.allreduce(fem.assemble_scalar(whole))
    )


@pytest.mark.parametrize(("cell", "across", "k"), COMPLEXES)
def test_derivatives_are_matrices(cell, across, k):
    domain = mesh(cell)
    c = DeRham(domain, k, across)
    v = generic(c.V)
    w = times(c.curl, v, c.W)
    if across:
        curl = ufl.as_vector([v.dx(1), -v.dx(0)])
    else:
        curl = ufl.curl(v) if domain.dim == 3 else v[1].dx(0) - v[0].dx(1)
    assert difference(curl, w) < 1e-13 * 10
    if not across:
        phi = generic(c.S)
        assert difference(ufl.grad(phi), times(c.gradient, phi, c.V)) < 1e-12
        assert c.curl.matMult(c.gradient).norm() < 1e-13 * c.curl.norm() * c.gradient.norm()
    if c.Q is not None:
        b = generic(c.W)
        assert difference(ufl.div(b), times(c.divergence, b, c.Q)) < 1e-12
        assert c.divergence.matMult(c.curl).norm() < 1e-13 * c.divergence.norm() * c.curl.norm()


def energy(M, x):
    y = M.createVecLeft()
    M.mult(x, y)
    return float(x.dot(y))


def sheared(domain, by):
    """The same mesh of parallelograms, with x moved by y."""
    x = domain.mesh.geometry.x
    x[:, 0] += by * x[:, 1]
    return domain


@pytest.mark.parametrize("k", [0, 1, 2, 3])
@pytest.mark.parametrize(("cell", "polarization"), [
    ("quadrilateral", "TE"), ("quadrilateral", "TM"), ("hexahedron", None),
])  # fmt: skip
def test_masses_of_boxes_are_diagonal_and_exact(cell, polarization, k):
    if cell == "hexahedron" and k > 1:
        pytest.skip("the same lines of code")
    domain = mesh(cell)
    for shear in (0.0, 0.4):
        if shear:
            sheared(domain, shear)
        for dual in (False, True):
            edges = Edges(hf.Maxwell(domain, 2.0, 0.5, polarization), k, dual)
            right = shear == 0.0
            assert edges.diagonal == right
            # Linear fields, whose square the rules integrate exactly from k = 1 on.
            pairs = [
                (edges.complex.V, edges.roles.rho), (edges.complex.W, edges.roles.C)
            ]  # fmt: skip
            matrices, _ = masses(pairs, k, True)
            assert is_diagonal(matrices[0]) == right
            for (basis, c), M in zip(pairs, matrices):
                n = basis.element.value_size

                def field(x, n=n):
                    parts = np.stack([1 + x[1], 2 - x[0], 1 + x[0] + x[1]])[:n]
                    return parts if n > 1 else parts[0]

                constant = not k or n == 1
                f = (lambda x, n=n: np.ones((n, x.shape[1]))) if constant else field
                shape = () if n == 1 else (n,)
                x = basis.interpolant(f if n > 1 else (lambda x: np.ones(x.shape[1])), shape)
                exact = fem.Function(fem.functionspace(
                    domain.mesh, ("Discontinuous Lagrange", 1, shape)
                ))  # fmt: skip
                exact.interpolate(f if n > 1 else (lambda x: np.ones(x.shape[1])))
                form = fem.form(float(c.value) * ufl.inner(exact, exact) * ufl.dx)
                whole = COMM.allreduce(fem.assemble_scalar(form))
                assert energy(M, x) == pytest.approx(whole, rel=1e-12)


def test_matrices_with_the_axes_of_the_cells_keep_masses_diagonal():
    domain = hf.box(COMM, (0, 0), (1, 1), 3, "quadrilateral")
    straight, full = np.diag([2.0, 3.0]), np.array([[2.0, 0.5], [0.5, 1.0]])
    assert Edges(hf.Maxwell(domain, straight, polarization="TE"), 1).diagonal
    assert not Edges(hf.Maxwell(domain, full, polarization="TE"), 1).diagonal
    # Explicit steps then multiply sparse matrices and solve nothing.
    system = hf.mixed(hf.Maxwell(domain, straight, polarization="TE"), 1)
    assert system.kick.scaled(0.1) is not None
    assert hf.mixed(hf.Maxwell(domain, full, polarization="TE"), 1).kick.scaled(0.1) is None


def test_a_rotated_box_is_a_box():
    # The cells' axes are not the coordinates', and the same wave runs in it.
    energies = []
    for angle in (0.0, 0.3):
        domain = hf.box(COMM, (0, 0), (1, 1), 4, "quadrilateral")
        x = domain.mesh.geometry.x
        c, s = np.cos(angle), np.sin(angle)
        x[:, :2] = x[:, :2] @ np.array([[c, s], [-s, c]])
        walls = [hf.Clamped("left", "bottom"), hf.Impedance("right")]
        system = hf.mixed(hf.Maxwell(domain, 2.0, polarization="TE", boundary=walls), 1)
        assert system.edges.diagonal
        assert is_diagonal(system.R)

        def E(x, c=c, s=s):
            x0 = c * x[0] + s * x[1]
            y0 = -s * x[0] + c * x[1]
            pulse = np.exp(-20 * ((x0 - 0.5) ** 2 + (y0 - 0.4) ** 2))
            return np.stack([c * pulse - s * x0 * pulse, s * pulse + c * x0 * pulse])

        state = system.state(E=E)
        for state in hf.march(system, hf.Verlet(), state, 0.01, 0.5, every=100):
            pass
        energies.append((system.kinetic(state), system.potential(state), state.outflow))
    assert energies[1] == pytest.approx(energies[0], rel=1e-10)


@pytest.mark.parametrize("cell", ["triangle", "tetrahedron"])
def test_steps_forward_and_back(cell):
    domain = mesh(cell)
    polarization = "TE" if domain.dim == 2 else None
    system = hf.mixed(hf.Maxwell(domain, polarization=polarization), 1)
    parts = (lambda x: x[1] ** 2, lambda x: np.sin(3 * x[0]), lambda x: x[0] * x[1])[: domain.dim]
    state = system.state(E=lambda x: np.stack([f(x) for f in parts]))
    start, dt = state.copy(), 0.5 * hf.Verlet().stable_dt(system)
    for state in hf.march(system, hf.Verlet(), state, dt, 50 * dt, every=50):
        pass
    for state in hf.march(system, hf.Verlet(), state, -dt, 0.0, every=50):
        pass
    for now, then in ((state.q, start.q), (state.v, start.v)):
        now.axpy(-1.0, then)
        assert now.norm(PETSc.NormType.INFINITY) < 1e-12
    assert MPI.COMM_WORLD.size == COMM.size
