"""Values at points: the same on every rank and on any number of them, in memory and on disk."""

import math

from mpi4py import MPI

import basix.ufl
import numpy as np
import pytest
from dolfinx import fem

import hamfem as hf
from hamfem.discretization.broken import BrokenSpace
from hamfem.dolfinx_versions import cell_nodes
from hamfem.monitors.probe import _outside
from hamfem.monitors.receivers import Receivers, read_receivers

COMM = MPI.COMM_WORLD
CELLS = ["interval", "triangle", "quadrilateral", "tetrahedron", "hexahedron"]
DT = 0.02


def box(cell="triangle", n=3, comm=COMM):
    dim = {"interval": 1, "triangle": 2, "quadrilateral": 2}.get(cell, 3)
    return hf.box(comm, (0.0,) * dim, (1.0,) * dim, n, cell)


def function(domain, element, formula):
    f = fem.Function(fem.functionspace(domain.mesh, element))
    f.interpolate(formula)
    return f


def membrane(comm=COMM, space=hf.cg, **options):
    wave = hf.Acoustic(box(n=4, comm=comm), boundary=[hf.Clamped("left", "right")])
    system = space(wave, 2, **options)
    u = hf.exact.bump((0.4, 0.5), 0.1)
    return system, system.state(u=u, v=0, start="projection")


def write(path, text):
    if COMM.rank == 0:
        path.write_text(text)
    COMM.barrier()


def same_everywhere(values):
    everywhere = COMM.allgather(values)
    assert all(np.array_equal(values, other) for other in everywhere)


# ---------------------------------------------------------------- probes


@pytest.mark.parametrize("cell", CELLS)
def test_polynomials_are_found_at_any_points(cell):
    domain = box(cell)
    dim = domain.dim
    points = np.random.default_rng(1).uniform(size=(40, dim))
    points[:3] = [[0.0] * dim, [1.0] * dim, [1 / 3] * dim]  # corners, and a node inside
    points[3:6, 0] = 2 / 3  # on faces between cells
    probe = hf.Probe(domain, points)
    values = probe(function(domain, ("P", 2), lambda x: 1 + x[0] ** 2 - x[dim - 1]))
    same_everywhere(values)
    assert values.shape == (40, 1)
    expected = 1 + points[:, 0] ** 2 - points[:, -1]
    np.testing.assert_allclose(values[:, 0], expected, rtol=0, atol=1e-13)
    if dim > 1:
        f = function(domain, ("P", 1, (dim,)), lambda x: x[:dim] * 2)
        np.testing.assert_allclose(probe(f), 2 * points, rtol=0, atol=1e-13)


@pytest.mark.parametrize("family", ["N1curl", "RT"])
def test_edge_and_face_elements(family):
    domain = box("tetrahedron", 2)
    points = np.random.default_rng(2).uniform(size=(10, 3))
    f = function(domain, (family, 2), lambda x: np.stack([x[1], x[0] + 1, 0 * x[2]]))
    expected = np.stack([points[:, 1], points[:, 0] + 1, 0 * points[:, 2]], axis=1)
    np.testing.assert_allclose(hf.Probe(domain, points)(f), expected, atol=1e-13)


def test_tensors_are_flat():
    domain = box()
    for symmetry, values in ((True, [1, 2, 3]), (False, [1, 2, 2, 3])):
        element = basix.ufl.element("DG", "triangle", 1, shape=(2, 2), symmetry=symmetry)
        f = fem.Function(fem.functionspace(domain.mesh, element))
        f.x.array.reshape(-1, len(values))[:] = values
        probed = hf.Probe(domain, [(0.1, 0.2), (0.7, 0.9)])(f)
        np.testing.assert_allclose(probed, [[1, 2, 2, 3]] * 2, rtol=1e-14)


@pytest.mark.parametrize("cell", CELLS[1:])
def test_a_point_between_cells_belongs_to_the_same_one_on_any_number_of_ranks(cell):
    values = []
    for comm in (COMM, MPI.COMM_SELF):
        domain = box(cell, comm=comm)
        # In each cell a number of its own: what jumps the most.
        f = function(domain, ("DG", 0), lambda x: np.sin(50 * x[0] + 90 * x[1] + 70 * x[2]))
        lattice = np.arange(4) / 3
        points = np.stack(np.meshgrid(*[lattice] * domain.dim), axis=-1).reshape(-1, domain.dim)
        values.append(hf.Probe(domain, points)(f))
    np.testing.assert_allclose(*values, rtol=0, atol=1e-12)
    same_everywhere(values[0])
    assert len(np.unique(values[0].round(9))) > 4


@pytest.mark.parametrize(("size", "origin"), [(1e-9, 0.0), (1e9, 0.0), (1.0, 1e6)])
def test_units_do_not_matter(size, origin):
    domain = hf.box(COMM, (origin,) * 2, (origin + size,) * 2, 3)
    probe = hf.Probe(domain, origin + size * np.array([(1 / 3, 2 / 3), (1, 1), (0.1, 0.7)]))
    f = function(domain, ("P", 1), lambda x: (x[0] - origin) / size)
    np.testing.assert_allclose(probe(f)[:, 0], [1 / 3, 1, 0.1], atol=1e-8)
    with pytest.raises(ValueError, match="outside of the mesh"):
        hf.Probe(domain, [(origin + 1.0001 * size, origin)])


def test_cells_that_are_not_affine():
    """Quadrilaterals bent to trapezoids: their bounding boxes overlap."""
    domain = box("quadrilateral", 4)
    x = domain.mesh.geometry.x
    x[:, 0] += 0.4 * x[:, 0] * x[:, 1]
    points = np.random.default_rng(3).uniform(size=(60, 2))
    values = hf.Probe(domain, points)(function(domain, ("Q", 2), lambda x: x[0] + x[1]))
    np.testing.assert_allclose(values[:, 0], points.sum(axis=1), atol=1e-9)
    own = domain.own_cells
    middle = x[cell_nodes(domain.mesh)[own]].mean(axis=1) if len(own) else np.zeros((0, 3))
    assert np.all(_outside(domain, own, middle) < -0.4)


def test_where_the_points_are_is_found_once(monkeypatch):
    domain = box()
    probe = hf.Probe(domain, [(0.5, 0.5)])
    f = function(domain, ("P", 1), lambda x: x[0])
    monkeypatch.setattr("dolfinx.geometry.bb_tree", None)
    assert probe(f) == pytest.approx(0.5)
    assert probe(f) == pytest.approx(0.5)


def test_wrong_points_give_one_sentence_on_every_rank():
    domain = box()
    for points, message in (
        ([], "there are no points: name at least one"),
        (np.zeros((0, 2)), "there are no points"),
        ([(0.5, 0.5, 0.0)], r"shape \(1, 3\): each of them must have 2 coordinates"),
        ([0.5, 0.5, 0.1], r"shape \(3,\): each of them must have 2 coordinates"),
        ([(0.5, 0.5), (0.1,)], "must be numbers, 2 coordinates for each point"),
        ([("a", "b")], "must be numbers"),
        ([(0.5, math.nan)], r"the point \(0.5, nan\) is nowhere"),
        ([(0.5, 0.5), (0.5, 1.25)], r"the point \(0.5, 1.25\) lies outside of the mesh: move"),
        ([(-1, 0), (0.5, 0.5), (2, 0)], r"\(-1, 0\) lies outside of the mesh, and so do 1 more"),
    ):
        with pytest.raises(ValueError, match=message):
            hf.Probe(domain, points)
    with pytest.raises(ValueError, match=r"each of them must have 1 coordinates, .* 1 dimension\."):
        hf.Probe(box("interval"), [(0.5, 0.5)])
    assert hf.Probe(box("interval"), [0.5, 0.25]).points.shape == (2, 1)
    probe = hf.Probe(domain, [(0.5, 0.5)])
    with pytest.raises(ValueError, match="lives on another mesh"):
        probe(function(box(), ("P", 1), lambda x: x[0]))


# ---------------------------------------------------------------- fields by name


@pytest.mark.parametrize(
    "system",
    [
        lambda: hf.cg(hf.Elastic(box()), 2),
        lambda: hf.mixed(hf.Elastic(box()), 1),
        lambda: hf.mixed(hf.Acoustic(box()), 1),
        lambda: hf.hdg(hf.Acoustic(box()), 1),
        lambda: hf.dissipative_hdg(hf.Acoustic(box()), 1),
        lambda: hf.mixed(hf.Maxwell(box(), polarization="TM"), 1),
        lambda: hf.mixed(hf.Maxwell(box(), polarization="TM"), 1, dual=True),
        lambda: hf.cg(hf.Maxwell(box(), polarization="TE"), 1),
        lambda: hf.hdg(hf.Maxwell(box(), polarization="TM"), 1),
        lambda: hf.dissipative_hdg(hf.Maxwell(box(), polarization="TE"), 1),
    ],
)  # fmt: skip
def test_a_field_alone_is_the_field_among_all(system):
    system = system()
    state = system.state()
    rng = np.random.default_rng(4)
    for x in (state.q, state.v):
        first, last = x.getOwnershipRange()
        x.array[:] = rng.normal(size=x.size)[first:last]
    fields = system.fields(state)
    assert len(fields) > 1
    for name, f in fields.items():
        alone = system.fields(state, name)
        assert [*alone] == [name]
        assert alone[name].name == name
        scale = np.abs(f.x.array).max(initial=0)
        np.testing.assert_allclose(alone[name].x.array, f.x.array, rtol=0, atol=1e-12 * scale)
    assert [*system.fields(state, [*fields][::-1])] == [*fields][::-1]
    with pytest.raises(ValueError, match=rf"no field 'heat'; it has: {', '.join(fields)}\."):
        system.fields(state, ["heat"])


def test_what_nobody_wants_is_not_computed(monkeypatch, shared_tmp_path):
    system, state = membrane(space=hf.hdg)
    monkeypatch.setattr(BrokenSpace, "postprocessed", property(lambda self: pytest.fail("u_star")))
    monkeypatch.setattr(type(system), "flux_of", lambda *_: pytest.fail("q"))
    assert [*system.fields(state, "v")] == ["v"]
    Receivers(shared_tmp_path / "v.csv", system, [(0.3, 0.3)], names=["v", "u"])(state)


def test_postprocessed_fields_that_need_unknown_derivatives():
    clamped = hf.Clamped("left", value=(lambda x: 1 + 0 * x[0], math.cos))
    system = hf.hdg(hf.Acoustic(box(), boundary=[clamped]), 1)
    state = system.state(start="projection")
    assert "u_star" in system.fields(state)
    assert "v_star" not in system.fields(state)
    with pytest.raises(ValueError, match="needs its time derivatives"):
        system.fields(state, "v_star")


# ---------------------------------------------------------------- files


def test_the_file_has_the_fields_at_the_points(shared_tmp_path):
    system, state = membrane()
    points, path = [(0.25, 0.5), (0.4, 0.5), (1.0, 0.1)], shared_tmp_path / "traces.csv"
    probe, expected = hf.Probe(system.domain, points), []
    with Receivers(path, system, points) as receivers:
        for state in hf.march(system, hf.Gauss(1), state, DT, 0.2, every=2):
            receivers(state)
            fields = system.fields(state)
            row = np.concatenate([probe(f).ravel() for f in fields.values()])
            expected.append([state.step, state.t, *row])
    names = ["step", "t", *(f"{name}_{i}" for name in "uv" for i in range(3))]
    names += [f"q_{c}_{i}" for i in range(3) for c in "xy"]
    columns = read_receivers(path)
    assert [*columns] == [*receivers.names] == names
    for name, values in zip(names, np.array(expected).T):
        assert np.array_equal(columns[name], values)
        assert np.array_equal(receivers[name], values)
        same_everywhere(receivers[name])
    assert columns["step"].dtype == np.int64
    assert np.abs(columns["u_1"]).max() > 0.1
    head = [line for line in path.read_text().splitlines() if line.startswith("# ")]
    assert head[0].startswith(f"# hamfem {hf.__version__}, DOLFINx 0.")
    n = state.q.size + state.v.size
    said = [f"# system: SecondOrder, {n} unknowns", f"# ranks: {COMM.size}", "# dt: 0.02"]
    assert head[1:4] == said
    assert head[4:] == [
        "# receiver 0 at (0.25, 0.5)", "# receiver 1 at (0.4, 0.5)", "# receiver 2 at (1, 0.1)"
    ]  # fmt: skip


@pytest.mark.parametrize("space", [hf.cg, hf.mixed, hf.hdg])
def test_the_same_traces_on_one_rank_and_on_all(space, shared_tmp_path):
    columns = []
    for comm, name in ((COMM, "all"), (MPI.COMM_SELF, f"one{COMM.rank}")):
        system, state = membrane(comm, space)
        receivers = Receivers(shared_tmp_path / f"{name}.csv", system, [(0.5, 0.5), (0.3, 0.1)])
        receivers(state)
        for state in hf.march(system, hf.Gauss(1), state, DT, 0.1):
            receivers(state)
        columns.append(receivers)
    assert columns[0].names == columns[1].names
    for name in columns[0].names:
        np.testing.assert_allclose(columns[0][name], columns[1][name], rtol=0, atol=1e-10)


def test_components_have_names(shared_tmp_path):
    for system, names, expected in (
        (hf.hdg(hf.Elastic(box()), 1), "stress", "xx xy yx yy"),
        (hf.cg(hf.Elastic(box("tetrahedron", 1)), 1), ["v"], "x y z"),
        (hf.hdg(hf.Acoustic(box("interval")), 1), "q", "x"),
    ):
        state, point = system.state(), [(0.3,) * system.domain.dim]
        receivers = Receivers(shared_tmp_path / "r.csv", system, point, names)
        receivers(state)
        field = names if isinstance(names, str) else names[0]
        assert [*receivers.names[2:]] == [f"{field}_{c}_0" for c in expected.split()]


# ---------------------------------------------------------------- restart


def run(path, state, system, t_end, points=((0.25, 0.5), (0.6, 0.6)), names=("u", "v")):
    receivers = Receivers(path, system, points, names)
    receivers(state)
    for state in hf.march(system, hf.Gauss(1), state, DT, t_end):
        receivers(state)
    receivers.close()
    return receivers, state


def test_a_continued_run_goes_on_in_its_file(shared_tmp_path):
    system, state = membrane()
    path, whole = shared_tmp_path / "parts.csv", shared_tmp_path / "whole.csv"
    run(whole, state.copy(), system, 0.4)
    _, middle = run(path, state.copy(), system, 0.2)
    checkpoint = middle.copy()
    # the first run got further than its last checkpoint, and then died in the middle of a row
    run(path, middle, system, 0.3)
    COMM.barrier()
    write(path, path.read_text() + "16,0.32000")
    receivers, _ = run(path, checkpoint, system, 0.4)
    text = path.read_text()
    assert text.count("# continued at step 10: hamfem ") == 1
    assert text.count("step,t,u_0") == 1
    assert text.count("# receiver 1 at (0.6, 0.6)") == 1
    expected = read_receivers(whole)
    for name, values in read_receivers(path).items():
        np.testing.assert_allclose(values, expected[name], rtol=0, atol=1e-12)
        assert np.array_equal(values, receivers[name])


def test_another_run_replaces_the_file(shared_tmp_path):
    system, state = membrane()
    path = shared_tmp_path / "r.csv"
    run(path, state.copy(), system, 0.2)
    receivers, state = run(path, state.copy(), system, 0.1, [(0.1, 0.1)], "v")
    assert receivers.names == ("step", "t", "v_0")
    assert len(read_receivers(path)["t"]) == 6


def test_other_receivers_do_not_go_on_in_a_file(shared_tmp_path):
    system, state = membrane()
    path = shared_tmp_path / "r.csv"
    _, state = run(path, state, system, 0.1)
    with pytest.raises(ValueError, match=r"not of 'receiver 1 at \(0.7, 0.6\)', as this run is"):
        run(path, state, system, 0.2, [(0.25, 0.5), (0.7, 0.6)])
    with pytest.raises(ValueError, match="has the columns step, t, u_0, u_1, v_0, v_1 and this"):
        run(path, state, system, 0.2, names="u")
    assert len(read_receivers(path)["t"]) == 6


# ---------------------------------------------------------------- what can be wrong


def test_wrong_calls_give_one_sentence_on_every_rank(shared_tmp_path):
    system, state = membrane()
    path, points = shared_tmp_path / "r.csv", [(0.5, 0.5)]
    with pytest.raises(FileNotFoundError, match=r"no folder '.*missing' for the file 'r.csv'"):
        Receivers(shared_tmp_path / "missing" / "r.csv", system, points)
    with pytest.raises(IsADirectoryError, match="is a folder"):
        Receivers(shared_tmp_path, system, points)
    with pytest.raises(ValueError, match="no points"):
        Receivers(path, system, [])
    with pytest.raises(ValueError, match="no field to write"):
        Receivers(path, system, points, [])
    with pytest.raises(ValueError, match="no field 'heat'; it has: u, v, q"):
        Receivers(path, system, points, ["u", "heat"])(state)
    with pytest.raises(ValueError, match="made from matrices"):
        Receivers(path, hf.SecondOrder(np.eye(4), np.eye(4), comm=COMM), points)
    with pytest.raises(FileNotFoundError, match="no file of receivers"):
        read_receivers(path)
    COMM.barrier()
    write(path, "x,y\n1,2\n")
    with pytest.raises(ValueError, match="no file of receivers: its columns must begin with step"):
        read_receivers(path)
    COMM.barrier()
    receivers = Receivers(path, system, points, "u")
    with pytest.raises(KeyError, match="none yet"):
        receivers["t"]
    receivers(state)
    with pytest.raises(KeyError, match="no column 'u'; it has: step, t, u_0"):
        receivers["u"]
