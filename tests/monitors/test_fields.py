"""Fields for ParaView, read back by VTK: the same polynomials for any element, on any ranks."""

import math
import os
import subprocess
import sys
from types import SimpleNamespace

from mpi4py import MPI

import basix
import basix.ufl
import numpy as np
import pytest
import pyvista
from dolfinx import fem, geometry, mesh

import hamfem as hf
from hamfem.monitors.fields import Fields

COMM = MPI.COMM_WORLD
CELLS = ["interval", "triangle", "quadrilateral", "tetrahedron", "hexahedron"]


class Given:
    """A system whose fields are given functions of time."""

    def __init__(self, domain, **elements):
        self.comm, self.mesh = domain.comm, domain.mesh
        self.spaces, self.formulas = {}, {}
        for name, (element, formula) in elements.items():
            self.spaces[name] = fem.functionspace(self.mesh, element)
            self.formulas[name] = formula

    def fields(self, state, names=None):
        result = {}
        for name in names or self.spaces:
            V = self.spaces[name]
            result[name] = fem.Function(V, name="f")
            result[name].interpolate(lambda x, f=self.formulas[name]: f(x, state.t))
        return result


def box(cell, n=2):
    dim = {"interval": 1, "triangle": 2, "quadrilateral": 2}.get(cell, 3)
    return hf.box(COMM, (0.0,) * dim, (1.0,) * dim, n, cell)


def state_at(t, step=0):
    system = hf.SecondOrder(np.eye(COMM.size), np.eye(COMM.size), comm=COMM)
    state = system.state()
    state.t, state.step = t, step
    return state


def read(path, index=-1):
    """The grid at one of the times, and all times."""
    COMM.barrier()
    reader = pyvista.get_reader(str(path))
    times = reader.time_values
    reader.set_active_time_value(times[index])
    grid = reader.read()[0]
    COMM.barrier()
    return grid, times


def at(x, values, dim):
    """A vector field with values in the first `dim` components."""
    return np.array([*values, 0 * x[0]])[:dim] if dim > 1 else values[0]


def legendre(cell, degree):
    return basix.ufl.element("DG", cell, degree, lagrange_variant=basix.LagrangeVariant.legendre)


# ---------------------------------------------------------------- runs


@pytest.mark.parametrize("cell", ["triangle", "hexahedron"])
@pytest.mark.parametrize("degree", [1, 3])
def test_a_run_is_what_the_file_shows(cell, degree, shared_tmp_path):
    domain = box(cell, 3)
    system = hf.cg(hf.Acoustic(domain, boundary=[hf.Clamped("left", "right")]), degree)
    state = system.state(u=lambda x: np.sin(math.pi * x[0]) + 0 * x[1], v=0)
    path = shared_tmp_path / "fields.pvd"
    largest = []
    with Fields(path, system, names=["v", "u"], every=2) as fields:
        fields(state)
        largest.append(state.q.norm(3))
        for state in hf.march(system, hf.Gauss(1), state, 0.1, 0.4):
            fields(state)
            largest.append(state.q.norm(3))
    grid, times = read(path)
    assert times == pytest.approx([0, 0.2, 0.4])
    assert sorted(grid.point_data.keys()) == ["u", "v"]
    assert grid.n_cells == COMM.allreduce(domain.mesh.topology.index_map(domain.dim).size_local)
    # continuous: neighbours share their points, except between ranks
    if COMM.size == 1:
        assert grid.n_points == system.M.size[0]
    if degree == 1:
        for index, value in enumerate(largest[::2]):
            grid, _ = read(path, index)
            assert np.abs(grid["u"]).max() == pytest.approx(value, rel=1e-14)
    compare(system.fields(state), grid, ["u", "v"])


@pytest.mark.parametrize("cell", ["triangle", "hexahedron"])
@pytest.mark.parametrize("discretization", ["cg", "hdg", "mixed"])
def test_all_fields_of_a_system_are_shown(discretization, cell, shared_tmp_path):
    discretize = getattr(hf, discretization)
    domain = box(cell, 4)
    try:
        system = discretize(hf.Acoustic(domain, boundary=[hf.Clamped("left")]), 1)
    except ValueError as error:
        pytest.skip(str(error))
    state = system.state(u=lambda x: np.sin(math.pi * x[0] / 2) + 0 * x[1], v=0)
    fields = Fields(shared_tmp_path / "fields.pvd", system)
    for state in hf.march(system, hf.Gauss(1), state, 0.1, 0.3):
        fields(state)
    grid, _ = read(fields.path)
    shown = system.fields(state)
    assert set(grid.point_data.keys()) == set(shown)
    compare(shown, grid, list(shown))


def compare(fields, grid, names):
    """Functions evaluated by DOLFINx and sampled by VTK, somewhere in the cells."""
    msh = fields[names[0]].function_space.mesh
    x = np.zeros((40, 3))
    x[:, : msh.topology.dim] = np.random.default_rng(2).uniform(0.02, 0.98, (40, msh.topology.dim))
    sampled = pyvista.PolyData(x).sample(grid)
    assert sampled["vtkValidPointMask"].all()
    tree = geometry.bb_tree(msh, msh.topology.dim, padding=1e-10)
    cells = geometry.compute_colliding_cells(msh, geometry.compute_collisions_points(tree, x), x)
    here = [i for i in range(len(x)) if len(cells.links(i))]
    first = np.array([cells.links(i)[0] for i in here], dtype=np.int32)
    for name in names:
        f = fields[name]
        values = np.full((len(x), int(np.prod(f.ufl_shape, dtype=int))), -np.inf)
        if here:
            values[here] = f.eval(x[here], first).reshape(len(here), -1)
        COMM.Allreduce(MPI.IN_PLACE, values, MPI.MAX)
        seen = sampled[name].reshape(len(x), -1)[:, : values.shape[1]]
        np.testing.assert_allclose(seen, values, atol=1e-12 * (1 + np.abs(values).max()))


# ---------------------------------------------------------------- elements


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("degree", [1, 2, 3, 4])
def test_vtk_sees_the_polynomial_itself(cell, degree, shared_tmp_path):
    """Sampled anywhere in the cells, not only at the nodes: degree and order of nodes are right."""
    domain = box(cell)

    def f(x, t):
        return t + (x[0] - 0.3) ** degree + (2 * x[1] + x[2] ** (degree - 1) * x[0])

    system = Given(domain, p=(basix.ufl.element("P", cell, degree), f))
    path = shared_tmp_path / "p.pvd"
    Fields(path, system)(state_at(0.5))
    grid, _ = read(path)
    x = np.zeros((50, 3))
    x[:, : domain.dim] = np.random.default_rng(1).uniform(0.02, 0.98, (50, domain.dim))
    if cell == "interval":
        # VTK finds no points in lines: at the nodes then
        x, values = grid.points, grid["p"]
    else:
        sampled = pyvista.PolyData(x).sample(grid)
        assert sampled["vtkValidPointMask"].all()
        values = sampled["p"]
    np.testing.assert_allclose(values, f(x.T, 0.5), atol=1e-6 if values.dtype == "f4" else 1e-12)


@pytest.mark.parametrize("cell", CELLS[1:])
def test_all_elements_go_into_one_file(cell, shared_tmp_path):
    """RT, N1curl, Legendre, symmetric tensors and two degrees, reproduced at every point."""
    domain = box(cell)
    dim = domain.dim

    def vector(x, t):
        return at(x, (1 + t + 2 * x[0], 3 * x[1] - t), dim)

    def constant(x, t):
        return at(x, (1 + t + 0 * x[0], 2 + 0 * x[0]), dim)

    def scalar(x, t):
        return t + x[0] - 2 * x[1] * t

    def quadratic(x, t):
        return x[0] * x[1] + t

    def tensor(x, t):
        T = np.zeros((dim, dim, x.shape[1]))
        T[0, 0], T[0, 1], T[1, 0], T[1, 1] = x[0], t, t, x[1]
        return T.reshape(dim * dim, -1)

    system = Given(
        domain,
        q=(basix.ufl.element("RT", cell, 2), vector),
        E=(basix.ufl.element("N1curl", cell, 2), vector),
        B=(basix.ufl.element("RT", cell, 1), constant),
        v=(legendre(cell, 1), scalar),
        u_star=(basix.ufl.element("DG", cell, 3), quadratic),
        u=(basix.ufl.element("P", cell, 2), quadratic),
        rho=(basix.ufl.element("DG", cell, 0), lambda x, t: t + 0 * x[0]),
        w=(basix.ufl.element("P", cell, 1, shape=(dim,)), vector),
        stress=(basix.ufl.element("DG", cell, 1, shape=(dim, dim)), tensor),
    )
    path = shared_tmp_path / "all.pvd"
    fields = Fields(path, system)
    for step, t in enumerate((0.25, 1.5)):
        fields(state_at(t, step))
        grid, times = read(path)
        assert times[-1] == t
        x = np.asarray(grid.points, dtype=float).T
        for name, formula in system.formulas.items():
            expected = np.asarray(formula(x, t))
            if name in "qEBw":
                expected = np.pad(expected, ((0, 3 - dim), (0, 0))).T
            elif name == "stress":
                expected = expected.reshape(dim, dim, -1)
                expected = np.pad(expected, ((0, 3 - dim), (0, 3 - dim), (0, 0)))
                expected = expected.reshape(9, -1).T
            np.testing.assert_allclose(grid[name], expected, atol=1e-12, err_msg=name)


def test_symmetric_tensors_are_written_in_full(shared_tmp_path):
    domain = box("triangle")
    system = Given(
        domain,
        s=(basix.ufl.element("DG", "triangle", 1, shape=(2, 2), symmetry=True), None),
    )
    V = system.spaces["s"]

    def given(state, names=None):
        f = fem.Function(V)
        f.x.array.reshape(-1, 3)[:] = (1 + state.t, 2, 3)
        return {"s": f}

    system.fields = given
    fields = Fields(shared_tmp_path / "s.pvd", system)
    for step in range(2):
        fields(state_at(float(step), step))
        grid, _ = read(fields.path)
        np.testing.assert_allclose(
            grid["s"], np.tile([1 + step, 2, 0, 2, 3, 0, 0, 0, 0], (grid.n_points, 1)), atol=1e-13
        )


def test_discontinuous_fields_stay_so(shared_tmp_path):
    domain = box("triangle")
    system = Given(domain, j=(basix.ufl.element("DG", "triangle", 0), lambda x, t: x[0]))
    path = shared_tmp_path / "j.pvd"
    Fields(path, system)(state_at(0.0))
    grid, _ = read(path)
    assert grid.n_points == 3 * grid.n_cells  # no value is an average of two
    for c in range(grid.n_cells):
        cell = grid.get_cell(c)
        mean = np.mean(cell.points, axis=0)[0]
        np.testing.assert_allclose(grid["j"][cell.point_ids], mean, atol=1e-12)


def test_curved_cells_stay_curved(shared_tmp_path):
    x = np.array([[0, 0], [1, 0], [0, 1], [0.6, 0.6], [0, 0.5], [0.5, 0]])
    element = basix.ufl.element("P", "triangle", 2, shape=(2,))
    msh = mesh.create_mesh(MPI.COMM_SELF, cells=np.arange(6)[None, :], x=x, e=element)
    V = fem.functionspace(msh, ("P", 1))
    system = SimpleNamespace(comm=msh.comm, fields=lambda state, names: {"u": fem.Function(V)})
    path = shared_tmp_path / f"{COMM.rank}.pvd"
    Fields(path, system)(state_at(0.0))
    grid, _ = read(path)
    assert grid.n_points == 6
    assert np.abs(grid.points[:, :2] - [0.6, 0.6]).sum(axis=1).min() < 1e-14


def test_ranks_without_cells_write_nothing(shared_tmp_path):
    """Two cells; on three ranks one has none."""
    system = Given(box("triangle", 1), u=(basix.ufl.element("P", "triangle", 2), lambda x, t: x[0]))
    path = shared_tmp_path / "u.pvd"
    Fields(path, system)(state_at(0.0))
    grid, _ = read(path)
    assert grid.n_cells == 2
    np.testing.assert_allclose(grid["u"], grid.points[:, 0], atol=1e-14)


def test_the_same_content_on_one_rank_and_on_all(shared_tmp_path):
    contents = []
    for comm, name in ((COMM, "all"), (MPI.COMM_SELF, f"one{COMM.rank}")):
        domain = hf.box(comm, (0, 0), (1, 1), 4)
        system = hf.cg(hf.Acoustic(domain), 2)
        state = system.state(u=lambda x: np.cos(math.pi * x[0]) * x[1] ** 2, v=0)
        path = shared_tmp_path / f"{name}.pvd"
        fields = Fields(path, system)
        for state in hf.march(system, hf.Gauss(1), state, 0.1, 0.3):
            fields(state)
        grid, _ = read(path)
        rows = np.round(np.column_stack([grid.points, grid["u"], grid["v"]]), 10) + 0.0
        contents.append(np.unique(rows, axis=0))
        assert grid.n_cells == 32
    np.testing.assert_allclose(*contents, atol=1e-9)


# ---------------------------------------------------------------- the file


def test_a_continued_run_goes_on_and_another_one_replaces(shared_tmp_path):
    domain = box("triangle")
    system = hf.cg(hf.Acoustic(domain), 1)
    state = system.state(u=lambda x: x[0], v=0)
    path = shared_tmp_path / "run.pvd"

    def run(state, dt, t_end, every=1):
        fields = Fields(path, system, names="u")
        for state in hf.march(system, hf.Gauss(1), state, dt, t_end, every=every):
            fields(state)
        fields.close()
        grid, times = read(path)
        files = sorted(p.name for p in (shared_tmp_path / "run").iterdir())
        assert len(files) == len(times)  # nothing is left over
        assert list(grid.point_data.keys()) == ["u"]
        COMM.barrier()
        return state, times

    middle, times = run(state.copy(), 0.1, 0.3)
    assert times == pytest.approx([0.1, 0.2, 0.3])
    run(middle.copy(), 0.1, 0.6)
    _, times = run(middle.copy(), 0.1, 0.5)
    assert times == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5])
    _, times = run(state.copy(), 0.05, 0.2, every=2)
    assert times == pytest.approx([0.1, 0.2])


CRASH = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tests.monitors.test_fields import Given, basix, box, state_at, Fields
system = Given(box("triangle"), u=(basix.ufl.element("P", "triangle", 2), lambda x, t: x[0] + t))
fields = Fields(sys.argv[1], system)
for step in range(3):
    fields(state_at(float(step), step))
os._exit(9)
"""


@pytest.mark.serial
@pytest.mark.parametrize("kind", ["pvd", "bp"])
def test_what_was_written_survives_a_crash(kind, tmp_path):
    root = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    path = tmp_path / f"run.{kind}"
    # A process of its own, also if this one was started by mpirun.
    mpi = ("OMPI_COMM", "PMIX_", "PRTE_", "PMI_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(mpi)}
    command = [sys.executable, "-c", CRASH, str(path), root]
    done = subprocess.run(command, env=environment, check=False, timeout=120)
    assert done.returncode == 9
    if kind == "bp":
        times, (x, u) = read_bp(path)
        assert times == [0, 1, 2]
        np.testing.assert_allclose(u, x[:, 0] + 2, atol=1e-13)
        return
    # a file that was begun and is not in the list
    (tmp_path / "run" / "step_00000003.vtu").write_bytes(b"<VTKFile")
    grid, times = read(path)
    assert times == [0, 1, 2]
    np.testing.assert_allclose(grid["u"], grid.points[:, 0] + 2, atol=1e-13)


def read_bp(path):
    """The times of a .bp file and, at the last of them, the points and the values of q and u.

    By VTK, where it was built with ADIOS2, else by ADIOS2 itself.
    """
    try:
        from vtkmodules.vtkIOADIOS2 import vtkADIOS2VTXReader
    except ImportError:
        return read_bp_by_adios(path)
    from vtkmodules.util.numpy_support import vtk_to_numpy
    from vtkmodules.vtkCommonExecutionModel import vtkStreamingDemandDrivenPipeline as Pipeline
    from vtkmodules.vtkParallelCore import vtkMultiProcessController
    from vtkmodules.vtkParallelMPI import vtkMPIController

    # Without a controller this reader ends the process.
    if vtkMultiProcessController.GetGlobalController() is None:
        controller = vtkMPIController()
        controller.Initialize()
        vtkMultiProcessController.SetGlobalController(controller)
    reader = vtkADIOS2VTXReader()
    reader.SetFileName(str(path))
    reader.UpdateInformation()
    times = list(reader.GetOutputInformation(0).Get(Pipeline.TIME_STEPS()))
    for t in times:
        reader.UpdateTimeStep(t)
        piece = reader.GetOutput().GetBlock(0).GetPiece(0)
    arrays = [piece.GetPoints().GetData()]
    arrays += [piece.GetPointData().GetArray(name) for name in ("q", "u")]
    return times, [vtk_to_numpy(array).copy() for array in arrays if array is not None]


def read_bp_by_adios(path):
    adios2 = pytest.importorskip("adios2", reason="nothing here reads .bp files")
    with adios2.FileReader(str(path)) as file:
        times = file.inquire_variable("step")
        values = []
        for name in ("geometry", "q", "u"):
            variable = file.inquire_variable(name)
            if variable is not None:
                variable.set_block_selection(0)
                variable.set_step_selection([times.steps() - 1, 1])
                values.append(np.squeeze(file.read(variable)))
        return file.read(times, step_selection=[0, times.steps()]).ravel().tolist(), values


def test_a_bp_file_has_all_fields(shared_tmp_path):
    domain = box("triangle")
    system = Given(
        domain,
        q=(basix.ufl.element("RT", "triangle", 1), lambda x, t: np.array([x[0] + t, x[1]])),
        u=(basix.ufl.element("P", "triangle", 2), lambda x, t: x[0] * x[1] + t),
    )
    path = shared_tmp_path / "all.bp"
    with Fields(path, system) as fields:
        for step in range(3):
            fields(state_at(0.5 * step, step))
    COMM.barrier()
    if COMM.size > 1:
        assert path.is_dir()
        return
    times, (x, q, u) = read_bp(path)
    assert times == [0, 0.5, 1]
    np.testing.assert_allclose(u, x[:, 0] * x[:, 1] + 1, atol=1e-12)
    np.testing.assert_allclose(q[:, :2], x[:, :2] + [1, 0], atol=1e-12)
    assert x.shape == (6 * 8, 3)


# ---------------------------------------------------------------- what can be wrong


def test_wrong_calls_give_one_sentence(shared_tmp_path):
    domain = box("triangle")
    system = hf.cg(hf.Acoustic(domain), 1)
    state = system.state(u=0, v=0)
    for path in ("u.vtu", "u.xdmf", "u"):
        with pytest.raises(ValueError, match=rf"as \.pvd or \.bp and '.*{path}' is neither"):
            Fields(shared_tmp_path / path, system)
    with pytest.raises(FileNotFoundError, match=r"no folder '.*missing' for the file 'u.pvd'"):
        Fields(shared_tmp_path / "missing" / "u.pvd", system)
    path = shared_tmp_path / "u.pvd"
    for every in (0, -1, 0.5):
        with pytest.raises(ValueError, match="every must be a whole number"):
            Fields(path, system, every=every)
    with pytest.raises(ValueError, match="no field 'p'; it has: u, v"):
        Fields(path, system, names=["u", "p"])(state)
    with pytest.raises(ValueError, match="no field to write"):
        Fields(path, system, names=[])(state)
    with pytest.raises(ValueError, match="made from matrices"):
        Fields(path, hf.SecondOrder(np.eye(4), np.eye(4), comm=COMM))(state)
    assert not path.exists()


def test_a_field_on_another_mesh_is_refused(shared_tmp_path):
    system = Given(box("triangle"), u=(basix.ufl.element("P", "triangle", 1), lambda x, t: x[0]))
    other = Given(box("triangle"), w=(basix.ufl.element("P", "triangle", 1), lambda x, t: x[0]))
    system.spaces.update(other.spaces)
    system.formulas.update(other.formulas)
    with pytest.raises(ValueError, match="'w' lives on another mesh"):
        Fields(shared_tmp_path / "u.pvd", system)(state_at(0.0))


def test_a_folder_that_vanishes_is_an_error_on_every_rank(shared_tmp_path):
    system = Given(box("triangle"), u=(basix.ufl.element("P", "triangle", 1), lambda x, t: x[0]))
    fields = Fields(shared_tmp_path / "u.pvd", system)
    fields(state_at(0.0))
    COMM.barrier()
    if COMM.rank == 0:
        for file in (shared_tmp_path / "u").iterdir():
            file.unlink()
        (shared_tmp_path / "u").rmdir()
    COMM.barrier()
    with pytest.raises(OSError, match=r"step_00000001.vtu' cannot be written"):
        fields(state_at(1.0, 1))
