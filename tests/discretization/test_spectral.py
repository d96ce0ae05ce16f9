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
from hamfem.discretization import spectral
from hamfem.discretization.spectral import SpectralStiffness, gauss_lobatto
from hamfem.matrices import check_symmetric, generic_vector
from hamfem.physics.operators import gradient, symmetric_gradient

COMM = MPI.COMM_WORLD
# 15 and 27 cells: on one rank at least, the last batch has to be filled up.
SHAPES = {2: (5, 3), 3: (3, 3, 3)}
SCALAR, ELASTIC = ("constant", "variable", "matrix"), ("isotropic", "anisotropic")
CASES = [(2, k, kind) for k in range(1, 7) for kind in SCALAR]
CASES += [(3, k, kind) for k in range(1, 5) for kind in SCALAR]
CASES += [(dim, k, kind) for dim in (2, 3) for k in range(1, 5) for kind in ELASTIC]


def space(dim, degree, kind, shape=None):
    """Cells without parallel sides; scalars or vectors, as the coefficient wants."""
    cell = mesh.CellType.quadrilateral if dim == 2 else mesh.CellType.hexahedron
    create = mesh.create_rectangle if dim == 2 else mesh.create_box
    box = create(COMM, [(0.0,) * dim, (2.0, 1.0, 1.5)[:dim]], shape or SHAPES[dim], cell)
    x = box.geometry.x[:, :dim].copy()
    for a in range(dim):
        box.geometry.x[:, a] += 0.07 * np.sin(2.0 * x[:, a - 1] + a) * np.cos(3.0 * x[:, a])
    return fem.functionspace(box, ("Lagrange", degree, (dim,) if kind in ELASTIC else ()))


def coefficient(V, kind):
    """C as a matrix of functions, and as the values that SpectralStiffness takes.

    C = sum_n f_n(x) A_n with constant symmetric matrices A_n.
    """
    dim = V.mesh.topology.dim
    cells = V.mesh.topology.index_map(dim).size_local
    m = dim * (dim + 1) // 2 if kind in ELASTIC else dim
    one, trace = np.eye(m), np.outer(np.arange(m) < dim, np.arange(m) < dim).astype(float)
    generic = np.sin(np.add.outer(np.arange(m), np.arange(m)) + 1.0)
    first = {"constant": 2.5 * one, "isotropic": 3.0 * one + 2.0 * trace}.get(kind, 4.0 * one)
    others = {
        "constant": (),
        "variable": (one,),
        "matrix": (one, generic),
        "isotropic": (one, trace),
        "anisotropic": (generic, trace),
    }[kind]
    scalar = fem.functionspace(V.mesh, ("Lagrange", V.ufl_element().degree))
    C, values = ufl.as_matrix(first.tolist()), first
    for n, A in enumerate(others):
        f = fem.Function(scalar)
        f.interpolate(lambda x, n=n: np.sin(3.0 * x[0] + x[1] + n))
        C += f * ufl.as_matrix(A.tolist())
        values = values + f.x.array[V.dofmap.list[:cells]][:, :, None, None] * A
    values = np.broadcast_to(values, (cells, V.dofmap.list.shape[1], m, m)).copy()
    return C, values[..., 0, 0] if kind in ("constant", "variable") else values


def assembled(V, C, bcs=()):
    u, w = ufl.TrialFunction(V), ufl.TestFunction(V)
    rule = {"quadrature_rule": "GLL", "quadrature_degree": 2 * V.ufl_element().degree - 1}
    dim = V.mesh.topology.dim

    def D(v):
        v, symbol = ([v], gradient(dim)) if V.value_shape == () else (v, symmetric_gradient(dim))
        pairs = [(i, j) for i in range(len(v)) for j in range(dim)]
        return ufl.as_vector([sum(float(s[i, j]) * v[i].dx(j) for i, j in pairs) for s in symbol])

    A = assemble_matrix(fem.form(ufl.inner(C * D(u), D(w)) * ufl.dx(metadata=rule)), bcs, 0.0)
    A.assemble()
    return A


def left_and_front(V):
    """The clamp, and its dofs."""
    nodes = fem.locate_dofs_geometrical(V, lambda x: (x[0] < 0.3) | (x[1] < 0.1))
    d = V.dofmap.index_map_bs
    zero = PETSc.ScalarType(0) if d == 1 else np.zeros(d)
    return fem.dirichletbc(zero, nodes, V), (d * nodes[:, None] + np.arange(d)).ravel()


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
@pytest.mark.parametrize(("dim", "degree", "kind"), CASES)
def test_it_is_the_assembled_matrix(dim, degree, kind, constrained):
    # The twin's cost grows with the sixth power of the degree and the square of the components.
    V = space(dim, degree, kind, (3, 2, 2) if dim == 3 and kind in ELASTIC else None)
    C, values = coefficient(V, kind)
    clamp, dofs = left_and_front(V)
    if not constrained:
        dofs = dofs[:0]
    A = assembled(V, C, [clamp] if constrained else [])
    K = SpectralStiffness(V, values, dofs).mat
    assert K.sizes == A.sizes
    assert K.block_size == A.block_size
    check_symmetric(K, "K")
    x, y, z = generic_vector(A, 1.0), A.createVecLeft(), A.createVecLeft()
    A.mult(x, z)
    for _ in range(2):  # nothing is left behind by the first call
        K.mult(x, y)
        assert difference(y, z) < 1e-13
    again = y.duplicate()
    K.mult(x, again)
    assert np.array_equal(again.array, y.array)
    K.multTranspose(x, y)
    assert difference(y, z) < 1e-13
    owned = dofs[dofs < len(y.array)]
    assert np.all(y.array[owned] == 0.0)


@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize("kind", ["matrix", *ELASTIC])
@pytest.mark.parametrize("dim", [2, 3])
def test_every_width_of_the_vectors(dim, kind, width, monkeypatch):
    load = kernels.load
    narrow = {"WIDTH": width}
    monkeypatch.setattr(kernels, "load", lambda a, b, macros, c: load(a, b, macros | narrow, c))
    V = space(dim, 2, kind)
    C, values = coefficient(V, kind)
    clamp, dofs = left_and_front(V)
    A = assembled(V, C, [clamp])
    K = SpectralStiffness(V, values, dofs).mat
    x, y, z = generic_vector(A, 1.0), A.createVecLeft(), A.createVecLeft()
    A.mult(x, z)
    K.mult(x, y)
    assert difference(y, z) < 1e-13


@pytest.mark.parametrize("kind", ELASTIC)
@pytest.mark.parametrize(("dim", "degree"), [(2, 1), (2, 4), (3, 1), (3, 4)])
def test_rigid_motions_have_no_stress(dim, degree, kind):
    V = space(dim, degree, kind)
    K = SpectralStiffness(V, coefficient(V, kind)[1]).mat
    x, y = generic_vector(K, 1.0), K.createVecLeft()
    K.mult(x, y)
    size = y.norm() / x.norm()

    def motion(i, j):
        """The translation along i, or the rotation in the plane of i and j."""
        x = V.tabulate_dof_coordinates()[: V.dofmap.index_map.size_local]
        values = np.zeros((len(x), dim))
        values[:, i], values[:, j] = (1.0, 1.0) if i == j else (x[:, j], -x[:, i])
        return values.ravel()

    for i in range(dim):
        for j in range(i, dim):
            x.array[:] = motion(i, j)
            K.mult(x, y)
            assert y.norm() < 1e-13 * size * x.norm()


@pytest.mark.parametrize(("dim", "numbers"), [(2, (6, 10)), (3, (11, 30))])
def test_isotropy_is_found_wherever_it_is(dim, numbers):
    """One anisotropic cell on one rank makes all take the general form; the result is the same."""
    V = space(dim, 2, "isotropic")
    C = coefficient(V, "isotropic")[1]
    products = []
    for few, expected in zip((0.0, 1e-12), numbers):
        if COMM.rank == COMM.size - 1:
            C[-1, -1, 0, 0] *= 1.0 + few
        K = SpectralStiffness(V, C).mat
        assert K.getPythonContext().operator.lib.factors() == expected
        x, y = generic_vector(K, 1.0), K.createVecLeft()
        K.mult(x, y)
        products.append(y)
    assert difference(*products) < 1e-12


@pytest.mark.parametrize("kind", SCALAR + ELASTIC)
def test_a_coefficient_that_is_constant_in_each_cell(kind, monkeypatch):
    monkeypatch.setattr(spectral, "CHUNK", 4)
    V = space(2, 3, kind)
    C = coefficient(V, kind)[1][:, :1]
    K = SpectralStiffness(V, C).mat
    L = SpectralStiffness(V, np.repeat(C, 16, axis=1)).mat
    x, y, z = generic_vector(K, 1.0), K.createVecLeft(), K.createVecLeft()
    K.mult(x, y)
    L.mult(x, z)
    assert np.array_equal(y.array, z.array)


@pytest.mark.parametrize("kind", ["matrix", "anisotropic"])
@pytest.mark.parametrize("shape", [(1, 2), (8, 8), (23, 17)])
def test_few_cells_full_batches_and_many_cells(shape, kind):
    V = space(2, 3, kind, shape)
    C, values = coefficient(V, kind)
    A = assembled(V, C)
    K = SpectralStiffness(V, values).mat
    x, y, z = generic_vector(A, 1.0), A.createVecLeft(), A.createVecLeft()
    A.mult(x, z)
    K.mult(x, y)
    assert difference(y, z) < 1e-13


@pytest.mark.parametrize("kind", ["variable", "isotropic"])
def test_a_dof_constrained_by_one_rank_is_constrained_on_all(kind):
    V = space(2, 3, kind)
    _, values = coefficient(V, kind)
    _, dofs = left_and_front(V)
    # The owners alone know.
    own = dofs[dofs < V.dofmap.index_map_bs * V.dofmap.index_map.size_local]
    K, L = SpectralStiffness(V, values, dofs).mat, SpectralStiffness(V, values, own).mat
    x, y, z = generic_vector(K, 1.0), K.createVecLeft(), K.createVecLeft()
    K.mult(x, y)
    L.mult(x, z)
    assert difference(y, z) < 1e-14


@pytest.mark.parametrize("kind", ["variable", *ELASTIC])
@pytest.mark.parametrize("dim", [2, 3])
def test_a_kick_in_one_pass(dim, kind):
    V = space(dim, 3, kind)
    _, dofs = left_and_front(V)
    K = SpectralStiffness(V, coefficient(V, kind)[1], dofs)
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


@pytest.mark.parametrize("kind", ["variable", "isotropic"])
def test_a_system_takes_it_for_a_matrix(kind):
    V = space(2, 4, kind)
    C, values = coefficient(V, kind)
    A, K = assembled(V, C), SpectralStiffness(V, values).mat
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
    V = space(2, 2, "matrix")
    _, values = coefficient(V, "matrix")
    with pytest.raises(ValueError, match=r"C has shape .* or .* for numbers"):
        SpectralStiffness(V, np.ones((len(values), 3)))
    if COMM.rank == 0:  # all ranks hear of it
        values[..., 0, 1] += 1.0
    with pytest.raises(ValueError, match="symmetric at every node"):
        SpectralStiffness(V, values)
    with pytest.raises(ValueError, match="local numbers from 0 to"):
        SpectralStiffness(V, np.ones((len(values), 1)), [10**6])
    triangles = fem.functionspace(mesh.create_unit_square(COMM, 4, 4), ("Lagrange", 2))
    with pytest.raises(ValueError, match="quadrilaterals in the plane or hexahedra"):
        SpectralStiffness(triangles, np.ones((1, 6)))
    V = space(2, 2, "isotropic")
    _, values = coefficient(V, "isotropic")
    with pytest.raises(ValueError, match=r"C has shape .* must have \(.*, 9, 3, 3\), a matrix"):
        SpectralStiffness(V, values[..., 0, 0])
    with pytest.raises(ValueError, match="all its components or in none"):
        SpectralStiffness(V, values, [0, 1, 3] if COMM.rank == 0 else [])
    for element in (("Lagrange", 2, (3,)), ("RTCF", 1)):
        with pytest.raises(ValueError, match="1 component, or of 2"):
            SpectralStiffness(fem.functionspace(V.mesh, element), np.ones((1, 9)))
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


def load(points=2):
    macros = {"POINTS": points, "DIM": 2, "COMPONENTS": 1}
    return kernels.load("spectral", "int width(void);", macros, COMM)


def test_a_kernel_is_compiled_once(compilations, shared_tmp_path, monkeypatch):
    _, library = load()
    assert library.width() in (2, 4, 8)
    assert COMM.allreduce(len(compilations)) == 1
    assert load()[1] is library
    monkeypatch.setattr(kernels, "_loaded", {})  # as in another process
    assert load()[1].width() == library.width()
    assert COMM.allreduce(len(compilations)) == 1
    load(points=3)
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
