from mpi4py import MPI
from petsc4py import PETSc

import basix
import basix.ufl
import numpy as np
import pytest
import ufl
from dolfinx import fem, mesh
from dolfinx.fem.petsc import assemble_matrix

import hamfem as hf
from hamfem import kernels
from hamfem.discretization.spectral import SpectralStiffness, gauss_lobatto
from hamfem.matrices import check_symmetric, generic_vector

COMM = MPI.COMM_WORLD
# 15 and 27 cells: on one rank at least, the last batch has to be filled up.
SHAPES = {2: (5, 3), 3: (3, 3, 3)}
CASES = [(2, k) for k in range(1, 7)] + [(3, k) for k in range(1, 5)]


def space(dim, degree, shape=None, comm=COMM):
    """Cells without parallel sides."""
    cell = mesh.CellType.quadrilateral if dim == 2 else mesh.CellType.hexahedron
    create = mesh.create_rectangle if dim == 2 else mesh.create_box
    box = create(comm, [(0.0,) * dim, (2.0, 1.0, 1.5)[:dim]], shape or SHAPES[dim], cell)
    x = box.geometry.x[:, :dim].copy()
    for a in range(dim):
        box.geometry.x[:, a] += 0.07 * np.sin(2.0 * x[:, a - 1] + a) * np.cos(3.0 * x[:, a])
    return fem.functionspace(box, ("Lagrange", degree))


def coefficient(V, kind):
    """kappa as d x d functions, and as the values that SpectralStiffness takes."""
    dim = V.mesh.topology.dim
    cells = V.mesh.topology.index_map(dim).size_local
    kappa = [[fem.Function(V) for _ in range(dim)] for _ in range(dim)]
    values = np.zeros((cells, V.dofmap.list.shape[1], dim, dim))
    for a in range(dim):
        for b in range(dim):
            if kind == "matrix":
                kappa[a][b].interpolate(
                    lambda x, a=a, b=b: (a == b) * (3.0 + x[0]) + np.sin(x[1] + a + b)
                )
            elif a == b:
                kappa[a][b].interpolate(
                    lambda x: 2.5 + (np.sin(3 * x[0] + x[1]) if kind == "variable" else 0 * x[0])
                )
            values[:, :, a, b] = kappa[a][b].x.array[V.dofmap.list[:cells]]
    return kappa, values if kind == "matrix" else values[:, :, 0, 0]


def assembled(V, kappa, bcs=()):
    u, w = ufl.TrialFunction(V), ufl.TestFunction(V)
    rule = {"quadrature_rule": "GLL", "quadrature_degree": 2 * V.ufl_element().degree - 1}
    flux = ufl.dot(ufl.as_matrix(kappa), ufl.grad(u))
    A = assemble_matrix(fem.form(ufl.inner(flux, ufl.grad(w)) * ufl.dx(metadata=rule)), bcs, 0.0)
    A.assemble()
    return A


def left_and_front(V):
    return fem.locate_dofs_geometrical(V, lambda x: (x[0] < 0.3) | (x[1] < 0.1))


def difference(x, y):
    apart = x.copy()
    apart.axpy(-1.0, y)
    return apart.norm() / y.norm()


@pytest.mark.parametrize("degree", range(1, 7))
def test_nodes_are_the_points_of_the_quadrature(degree):
    x, w, D = gauss_lobatto(degree)
    for cell, dim in ((basix.CellType.quadrilateral, 2), (basix.CellType.hexahedron, 3)):
        points, weights = basix.make_quadrature(cell, 2 * degree - 1, rule=basix.QuadratureType.gll)
        assert len(points) == len(x) ** dim
        index = np.abs(points[:, :, None] - x).argmin(axis=2)
        assert np.abs(x[index] - points).max() < 1e-15
        assert np.abs(w[index].prod(axis=1) - weights).max() < 1e-15
    for power in range(1, degree + 1):
        assert D @ x**power == pytest.approx(power * x ** (power - 1), abs=1e-13)


@pytest.mark.parametrize("constrained", [False, True], ids=["free", "constrained"])
@pytest.mark.parametrize("kind", ["constant", "variable", "matrix"])
@pytest.mark.parametrize(("dim", "degree"), CASES)
def test_it_is_the_assembled_matrix(dim, degree, kind, constrained):
    V = space(dim, degree)
    kappa, values = coefficient(V, kind)
    dofs = left_and_front(V) if constrained else np.zeros(0, np.int32)
    A = assembled(V, kappa, [fem.dirichletbc(PETSc.ScalarType(0), dofs, V)])
    K = SpectralStiffness(V, values, dofs).mat
    assert K.sizes == A.sizes
    check_symmetric(K, "K")
    x, y, z = generic_vector(A, 1.0), A.createVecLeft(), A.createVecLeft()
    A.mult(x, z)
    for _ in range(2):  # nothing is left behind by the first call
        K.mult(x, y)
        assert difference(y, z) < 1e-13
    K.multTranspose(x, y)
    assert difference(y, z) < 1e-13
    owned = dofs[dofs < len(y.array)]
    assert np.all(y.array[owned] == 0.0)


@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize("dim", [2, 3])
def test_every_width_of_the_vectors(dim, width, monkeypatch):
    load = kernels.load
    narrow = {"WIDTH": width}
    monkeypatch.setattr(kernels, "load", lambda a, b, macros, c: load(a, b, macros | narrow, c))
    V = space(dim, 3)
    kappa, values = coefficient(V, "matrix")
    dofs = left_and_front(V)
    A = assembled(V, kappa, [fem.dirichletbc(PETSc.ScalarType(0), dofs, V)])
    K = SpectralStiffness(V, values, dofs).mat
    x, y, z = generic_vector(A, 1.0), A.createVecLeft(), A.createVecLeft()
    A.mult(x, z)
    K.mult(x, y)
    assert difference(y, z) < 1e-13


@pytest.mark.parametrize("shape", [(1, 2), (8, 8), (23, 17)])
def test_few_cells_full_batches_and_many_cells(shape):
    V = space(2, 3, shape)
    kappa, values = coefficient(V, "matrix")
    A = assembled(V, kappa)
    K = SpectralStiffness(V, values).mat
    x, y, z = generic_vector(A, 1.0), A.createVecLeft(), A.createVecLeft()
    A.mult(x, z)
    K.mult(x, y)
    assert difference(y, z) < 1e-13


def test_a_dof_constrained_by_one_rank_is_constrained_on_all():
    V = space(2, 3)
    _, values = coefficient(V, "variable")
    dofs = left_and_front(V)
    own = dofs[dofs < V.dofmap.index_map.size_local]  # the owners alone know
    K, L = SpectralStiffness(V, values, dofs).mat, SpectralStiffness(V, values, own).mat
    x, y, z = generic_vector(K, 1.0), K.createVecLeft(), K.createVecLeft()
    K.mult(x, y)
    L.mult(x, z)
    assert difference(y, z) < 1e-14


@pytest.mark.parametrize("dim", [2, 3])
def test_a_kick_in_one_pass(dim):
    V = space(dim, 3)
    dofs = left_and_front(V)
    K = SpectralStiffness(V, coefficient(V, "variable")[1], dofs)
    u, v = generic_vector(K.mat, 1.0), generic_vector(K.mat, 2.0)
    inverse_mass = v.duplicate()
    inverse_mass.array[:] = 1.5 + generic_vector(K.mat, 3.0).array
    h = 0.3
    rate, expected, out = u.duplicate(), v.copy(), v.duplicate()
    K.mat.mult(u, rate)
    rate.pointwiseMult(rate, inverse_mass)
    expected.axpy(-h, rate)
    S = K.scaled(h, inverse_mass)
    S.multAdd(u, v, out)
    assert difference(out, expected) < 1e-14
    state = v.stateGet()
    S.multAdd(u, v, v)
    assert v.stateGet() > state  # PETSc knows that v has changed, hence not its old norm
    assert difference(v, expected) < 1e-14
    S.mult(u, out)
    rate.scale(-h)
    assert difference(out, rate) < 1e-14
    # S' = -h K M^-1
    S.multTranspose(u, out)
    work = u.duplicate()
    work.pointwiseMult(u, inverse_mass)
    K.mat.mult(work, rate)
    rate.scale(-h)
    assert difference(out, rate) < 1e-14
    # K itself has not been scaled, and adds as well.
    K.mat.mult(u, rate)
    K.mat.multAdd(u, v, out)
    rate.axpy(1.0, v)
    assert difference(out, rate) < 1e-14


def test_a_system_takes_it_for_a_matrix():
    V = space(2, 4)
    kappa, values = coefficient(V, "variable")
    A, K = assembled(V, kappa), SpectralStiffness(V, values).mat
    mass = PETSc.Mat().createAIJ(A.sizes, nnz=1, comm=COMM)
    mass.setUp()
    diagonal = A.createVecRight()
    diagonal.set(0.01)
    mass.setDiagonal(diagonal)
    mass.assemble()
    finals, frequencies = [], []
    for stiffness in (A, K):
        system = hf.SecondOrder(mass, stiffness)
        frequencies.append(system.max_frequency())
        state = system.state(generic_vector(A, 1.0), generic_vector(A, 2.0))
        dt = 0.5 / frequencies[0]
        for state in hf.march(system, hf.Verlet(), state, dt, 100 * dt, every=100):
            pass
        finals.append(state)
    assert frequencies[1] == pytest.approx(frequencies[0], rel=1e-6)
    for name in ("q", "v"):
        assert difference(getattr(finals[1], name), getattr(finals[0], name)) < 1e-12


def test_bad_input_gives_one_sentence():
    V = space(2, 2)
    _, values = coefficient(V, "matrix")
    with pytest.raises(ValueError, match="C has shape"):
        SpectralStiffness(V, np.ones((len(values), 3)))
    values[..., 0, 1] += 1.0
    with pytest.raises(ValueError, match="symmetric at every node"):
        SpectralStiffness(V, values)
    triangles = fem.functionspace(mesh.create_unit_square(COMM, 4, 4), ("Lagrange", 2))
    with pytest.raises(ValueError, match="quadrilaterals in the plane or hexahedra"):
        SpectralStiffness(triangles, np.ones((1, 6)))
    vectors = fem.functionspace(V.mesh, ("Lagrange", 2, (2,)))
    with pytest.raises(ValueError, match="C has shape"):
        SpectralStiffness(vectors, np.ones((1, 9)))
    equispaced = basix.ufl.element(
        "Lagrange", "quadrilateral", 3, lagrange_variant=basix.LagrangeVariant.equispaced
    )
    with pytest.raises(ValueError, match="Gauss-Lobatto points as nodes"):
        SpectralStiffness(fem.functionspace(V.mesh, equispaced), np.ones((1, 16)))


# ------------------------------------------------------------ the cache


@pytest.fixture
def compilations(monkeypatch, shared_tmp_path):
    """An empty cache, and a list that grows whenever the compiler is called."""
    calls = []
    run = kernels.subprocess.run
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared_tmp_path))
    monkeypatch.setattr(kernels, "_loaded", {})
    monkeypatch.setattr(
        kernels.subprocess, "run", lambda *args, **more: calls.append(args) or run(*args, **more)
    )
    return calls


def load(**macros):
    return kernels.load("spectral", "int width(void);", {"POINTS": 2, "DIM": 2, "COMPONENTS": 1, **macros}, COMM)


def test_a_kernel_is_compiled_once(compilations, shared_tmp_path, monkeypatch):
    _, library = load()
    assert library.width() in (2, 4, 8)
    assert COMM.allreduce(len(compilations)) == 1
    assert load()[1] is library
    monkeypatch.setattr(kernels, "_loaded", {})  # as in another process
    assert load()[1].width() == library.width()
    assert COMM.allreduce(len(compilations)) == 1
    load(POINTS=3)
    assert COMM.allreduce(len(compilations)) == 2
    # Another processor needs another library; none is left unfinished.
    monkeypatch.setattr(kernels, "_processor", lambda: "another")
    load()
    assert COMM.allreduce(len(compilations)) == 3
    COMM.barrier()
    assert len(list((shared_tmp_path / "hamfem").iterdir())) == 3


@pytest.mark.parametrize("compiler", ["false", "no-such-compiler"])
def test_without_a_compiler_there_is_one_sentence(
    compilations, compiler, shared_tmp_path, monkeypatch
):
    monkeypatch.setenv("CC", compiler)
    with pytest.raises(RuntimeError, match=r"spectral\.c needs a C compiler, set CC to one"):
        load()
    COMM.barrier()
    assert not list((shared_tmp_path / "hamfem").iterdir())


def test_without_a_place_for_the_cache_there_is_one_sentence(
    compilations, shared_tmp_path, monkeypatch
):
    file = shared_tmp_path / "file"
    file.touch()
    COMM.barrier()
    monkeypatch.setenv("XDG_CACHE_HOME", str(file))
    with pytest.raises(RuntimeError, match="set XDG_CACHE_HOME to a directory that you own"):
        load()
