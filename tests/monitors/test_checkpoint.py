"""Runs go on from a checkpoint with the same numbers, on other ranks, too, and after a crash."""

import os

from mpi4py import MPI

import numpy as np
import pytest
import sympy

import hamfem as hf
from hamfem.monitors.checkpoint import Checkpoint, read_checkpoint
from tests.discretization.yee import KINDS, WALLS, field, grid, random_state, rough
from tests.small import Small

COMM = MPI.COMM_WORLD
T = sympy.Symbol("t")


def acoustic(make, comm=COMM):
    domain = hf.box(comm, (0, 0), (1, 1), 4)
    source = hf.Source(hf.exact.bump((0.4, 0.5), 0.2), sympy.cos(4 * T))
    system = make(hf.Acoustic(domain, 1.3, boundary=[hf.Clamped("left")], sources=[source]), 1)
    return system, system.state(u=hf.exact.bump((0.4, 0.5), 0.2))


def maxwell(make, comm=COMM):
    domain = hf.box(comm, (0, 0), (1, 1), 4)
    source = hf.Source(field("TE"), sympy.cos(4 * T))
    walls = [hf.Clamped("left")]
    system = make(hf.Maxwell(domain, rough(0), 0.7, "TE", walls, [source]), 1)
    return system, system.state(E=field("TE"))


def yee(kind, walls, comm=COMM):
    domain, polarization = grid(kind, comm)
    source = hf.Source(field(kind), sympy.cos(4 * T))
    sides = WALLS[walls](domain.dim)
    system = hf.yee(hf.Maxwell(domain, rough(0), rough(1), polarization, sides, [source]))
    state = system.state(E=field(kind))
    random_state(system).q.copy(state.q)
    return system, state


def small(kind):
    problem = Small(kind, forced=True)
    return problem.system, problem.state()


CASES = {
    "second order": lambda: small("second"),
    "first order": lambda: small("first"),
    "cg": lambda: acoustic(hf.cg),
    "hdg": lambda: acoustic(hf.hdg),
    "mixed": lambda: acoustic(hf.mixed),
    "potential": lambda: maxwell(hf.cg),
    "edges": lambda: maxwell(hf.mixed),
    "dual": lambda: maxwell(lambda wave, k: hf.mixed(wave, k, dual=True)),
    **{f"yee {kind} {walls}": lambda kind=kind, walls=walls: yee(kind, walls)
       for kind in KINDS for walls in ("absorbing", "tube")},
}  # fmt: skip
SECOND = ("second order", "cg", "hdg", "potential", "yee 3D tube")


def march(system, method, state, every=5):
    yield from hf.march(system, method, state, 0.01, 0.2, every)


def tracked(system, state):
    return {name: np.array(value) for name, value in system.invariants(state).items()}


@pytest.mark.parametrize(("case", "method"), [
    *((case, hf.Verlet()) for case in CASES),
    *((case, hf.Gauss(2)) for case in CASES),
    *((case, hf.GeneralizedAlpha(0.8)) for case in SECOND),  # which remembers an acceleration
], ids=lambda x: getattr(x, "name", x))  # fmt: skip
def test_the_run_goes_on_with_the_same_numbers(case, method, shared_tmp_path):
    path = shared_tmp_path / "run.h5"
    system, state = CASES[case]()
    if np.isfinite(method.limit) and 0.01 > method.stable_dt(system):
        pytest.skip("the step is for the other cases")
    checkpoint = Checkpoint(path, system)
    assert checkpoint.latest() is None
    tracked(system, state)  # where drifts of charges are measured from
    for state in march(system, method, state):
        if state.step == 10:
            checkpoint(state)
    first, (system, _) = system, CASES[case]()
    again = Checkpoint(path, system).latest()
    assert (again.step, again.t) == (10, 0.1)
    assert type(again.clock.dt) is float
    for again in march(system, method, again):
        pass
    # MUMPS does not add in the same order twice, nor DOLFINx divide a mesh in the same way.
    tolerance = 0.0 if COMM.size == 1 else 1e-12
    for half in ("q", "v"):
        pairs = (system, again), (first, state)
        for x, y in zip(*(one.pieces(half, getattr(at, half)) for one, at in pairs)):
            apart, size = (COMM.allreduce(np.sum(a**2)) for a in (x.values - y.values, y.values))
            assert size > 0
            assert np.sqrt(apart / size) <= tolerance
    assert again.work == pytest.approx(state.work, rel=1e-12)
    assert again.outflow == pytest.approx(state.outflow, rel=1e-12)
    one, other = tracked(first, state), tracked(system, again)
    assert one.keys() == other.keys()
    size = np.sqrt(system.energy(state))
    for name, value in one.items():
        if name == "electric_charge" and "yee" not in case:
            continue  # its drift is measured from the checkpoint on
        assert np.all(np.abs(value - other[name]) <= 1e-12 * (size + np.abs(value).max()))


SIDES = ["left", "right", "bottom", "top", "back", "front"]
WAVES = {
    "acoustic": lambda domain, walls: hf.Acoustic(domain, 1.3, boundary=walls),
    "elastic": lambda domain, walls: hf.Elastic(domain, 1.3, 0.7, 1.1, boundary=walls),
    "TE": lambda domain, walls: hf.Maxwell(domain, 1.3, 0.7, "TE", walls),
    "TM": lambda domain, walls: hf.Maxwell(domain, 1.3, 0.7, "TM", walls),
    "3D": lambda domain, walls: hf.Maxwell(domain, 1.3, 0.7, boundary=walls),
}
MAKERS = {
    "cg": hf.cg,
    "lumped": lambda wave, k: hf.cg(wave, k, lumped=True),
    "mixed": hf.mixed,
    "dual": lambda wave, k: hf.mixed(wave, k, dual=True),
    "hdg": hf.hdg,
    "dissipative_hdg": hf.dissipative_hdg,
}
CELLS = {"tri": "triangle", "quad": "quadrilateral", "tet": "tetrahedron", "hex": "hexahedron"}
SPREAD = [
    *(("acoustic", name, cell, 3) for name in ("cg", "hdg") for cell in CELLS),
    ("acoustic", "mixed", "tri", 2), ("acoustic", "mixed", "tet", 1),
    ("acoustic", "lumped", "quad", 4), ("acoustic", "lumped", "hex", 3),
    ("acoustic", "dissipative_hdg", "tri", 2),
    *(("elastic", name, cell, k) for name in ("cg", "mixed", "hdg", "dissipative_hdg")
      for cell, k in (("tri", 2), ("tet", 1))),
    ("elastic", "lumped", "quad", 3),
    *((kind, name, "tri", 2) for kind in ("TE", "TM") for name in MAKERS if name != "lumped"),
    ("TE", "mixed", "quad", 3),
    *(("3D", name, "tet", 2) for name in ("cg", "mixed", "dual")),
    ("3D", "hdg", "tet", 1), ("3D", "mixed", "hex", 2), ("3D", "dual", "hex", 1),
]  # fmt: skip
SPREAD_WALLS = {
    "clamped": lambda dim: [hf.Clamped("left", "top")],
    "absorbing": lambda dim: [hf.Impedance("left", "top")],
    "periodic": lambda dim: [hf.Periodic(*SIDES[i : i + 2]) for i in range(0, 2 * dim, 2)],
}


# One of each kind of space; all of them are a long study.
QUICK = {
    ("acoustic", "cg", "tet", "periodic"), ("acoustic", "hdg", "tri", "absorbing"),
    ("acoustic", "mixed", "tet", "clamped"), ("elastic", "lumped", "quad", "clamped"),
    ("elastic", "mixed", "tri", "periodic"), ("TE", "mixed", "quad", "periodic"),
    ("TM", "dual", "tri", "absorbing"), ("3D", "mixed", "tet", "periodic"),
    ("3D", "cg", "tet", "clamped"), ("3D", "hdg", "tet", "clamped"),
    ("TE", "dissipative_hdg", "tri", "absorbing"),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "name", "cell", "k", "walls"), [
    pytest.param(
        *case, walls, marks=() if (*case[:3], walls) in QUICK else pytest.mark.slow
    )
    for case in SPREAD for walls in SPREAD_WALLS
])  # fmt: skip
def test_elements_go_on_on_another_number_of_ranks(kind, name, cell, k, walls, shared_tmp_path):
    dim = 2 if cell in ("tri", "quad") else 3
    if walls == "absorbing" and name in ("lumped", "cg") and kind == "elastic":
        pytest.skip("as without vectors")
    paths = [shared_tmp_path / f"alone_{COMM.rank}.h5", shared_tmp_path / "together.h5"]
    comms, ends = (MPI.COMM_SELF, COMM), []

    def system_on(comm):
        n = (3, 3) if dim == 2 else (2, 2, 2)
        domain = hf.box(comm, (0,) * dim, (1, 1.3, 0.7)[:dim], n, CELLS[cell])
        return MAKERS[name](WAVES[kind](domain, SPREAD_WALLS[walls](dim)), k)

    def numbers(system, state):
        row = [system.kinetic(state), system.potential(state), state.outflow]
        for value in system.invariants(state).values():
            row += np.ravel(value).tolist()
        return np.array(row)

    def pulse(x):
        components = {"acoustic": 1, "TM": 1}.get(kind, dim)
        bump = hf.exact.bump((0.4, 0.6, 0.3)[:dim], 0.3)(x)
        return bump if components == 1 else bump * np.stack([1 + x[i] for i in range(components)])

    for path, comm in zip(paths, comms):
        system = system_on(comm)
        start = {"u" if kind in ("acoustic", "elastic") else "E": pulse}
        state = system.state(**start, start="projection")
        for state in hf.march(system, hf.Gauss(1), state, 0.02, 0.1, every=10):
            pass
        Checkpoint(path, system).write(state)
    COMM.barrier()
    paths[0] = shared_tmp_path / "alone_0.h5"
    for path in paths:
        for comm in comms:
            system = system_on(comm)
            state = read_checkpoint(path, system)
            ends.append(numbers(system, state))
            for state in hf.march(system, hf.Gauss(1), state, 0.02, 0.2, every=10):
                pass
            ends.append(numbers(system, state))
    for i, end in enumerate(ends):
        expected = ends[i % 2]  # as read, and at the end
        assert end == pytest.approx(expected, rel=1e-10, abs=1e-11 * np.abs(expected).max())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("walls", ["periodic", "conducting"])
def test_yee_goes_on_on_another_number_of_ranks(kind, walls, shared_tmp_path):
    paths = [shared_tmp_path / f"alone_{COMM.rank}.h5", shared_tmp_path / "together.h5"]
    comms, ends = (MPI.COMM_SELF, COMM), []
    for path, comm in zip(paths, comms):
        system, state = yee(kind, walls, comm)
        system.charges(state)
        for state in march(system, hf.Verlet(), state):
            if state.step == 10:
                Checkpoint(path, system).write(state)
        ends.append([system.kinetic(state), system.potential(state), state.work])
    COMM.barrier()
    # What one rank wrote is read by all, and the other way round.
    paths[0] = shared_tmp_path / "alone_0.h5"
    for path, comm in zip(reversed(paths), comms):
        system, _ = yee(kind, walls, comm)
        state = read_checkpoint(path, system)
        for state in march(system, hf.Verlet(), state):
            pass
        ends.append([system.kinetic(state), system.potential(state), state.work])
        if kind != "TM":
            assert system.charges(state)["electric_charge"] < 1e-13 * np.sqrt(ends[0][0])
    for end in ends[1:]:
        assert end == pytest.approx(ends[0], rel=1e-12)


def test_history_and_receivers_go_on_with_it(shared_tmp_path):
    paths = [shared_tmp_path / name for name in ("run.h5", "energy.csv", "traces.csv")]

    def monitors(system):
        return hf.History(paths[1], system), hf.Receivers(paths[2], system, [(0.3, 0.4, 0.2)], "E")

    system, state = yee("3D", "conducting")
    history, receivers = monitors(system)
    checkpoint = Checkpoint(paths[0], system)
    for state in march(system, hf.Verlet(), state, every=2):
        history(state)
        receivers(state)
        if state.step == 10:
            checkpoint(state)
    COMM.barrier()
    whole = hf.read_history(paths[1]), hf.read_receivers(paths[2])
    COMM.barrier()
    system, _ = yee("3D", "conducting")
    history, receivers = monitors(system)
    for state in march(system, hf.Verlet(), read_checkpoint(paths[0], system), every=2):
        history(state)
        receivers(state)
    COMM.barrier()
    for before, after in zip(whole, (hf.read_history(paths[1]), hf.read_receivers(paths[2]))):
        assert before["step"].tolist() == after["step"].tolist() == list(range(2, 21, 2))
        for name in before:
            assert after[name] == pytest.approx(before[name], rel=1e-12, abs=1e-14)


def test_it_writes_when_it_is_time(shared_tmp_path, monkeypatch):
    path, now = shared_tmp_path / "run.h5", 0.0
    monkeypatch.setattr("hamfem.monitors.checkpoint.time.monotonic", lambda: now)
    system, state = small("first")
    checkpoint, steps = Checkpoint(path, system, minutes=1), []
    for now in (30.0, 61.0, 100.0, 122.0):
        state.step += 1
        checkpoint(state)
        written = checkpoint.latest()
        steps.append(written and written.step)
    assert steps == [None, 2, 2, 4]


def test_a_crash_leaves_the_last_good_state(shared_tmp_path, monkeypatch):
    path = shared_tmp_path / "run.h5"
    system, state = yee("3D", "conducting")
    checkpoint = Checkpoint(path, system)
    checkpoint(state)
    state.step = 7
    with monkeypatch.context() as broken:
        broken.setattr("hamfem.monitors.checkpoint.os.fsync", no_space)
        with pytest.raises(OSError, match="cannot be written, the last one is kept: No space left"):
            checkpoint(state)
    assert checkpoint.latest().step == 0
    with monkeypatch.context() as broken:
        broken.setattr("h5py.Group.create_dataset", no_space)
        with pytest.raises(OSError, match="cannot be written, the last one is kept: No space left"):
            checkpoint(state)
    assert checkpoint.latest().step == 0
    checkpoint(state)
    assert checkpoint.latest().step == 7


def test_another_mesh_is_refused(shared_tmp_path):
    path = shared_tmp_path / "run.h5"
    system, state = acoustic(hf.cg)
    Checkpoint(path, system)(state)
    for make in (hf.hdg, lambda wave, k: hf.cg(wave, k + 1)):
        with pytest.raises(ValueError, match="has other unknowns than this system: take the mesh"):
            read_checkpoint(path, acoustic(make)[0])
    moved = hf.box(COMM, (0, 0), (1, 2), 4)
    other = hf.cg(hf.Acoustic(moved, boundary=[hf.Clamped("left")]), 1)
    with pytest.raises(ValueError, match="is of another mesh than this run: take the one"):
        read_checkpoint(path, other)


def no_space(*_, **__):
    raise OSError(28, os.strerror(28))


def test_what_is_refused(shared_tmp_path):
    system, state = small("second")
    path = shared_tmp_path / "run.h5"
    with pytest.raises(ValueError, match=r"must end with \.h5"):
        Checkpoint(shared_tmp_path / "run.csv", system)
    with pytest.raises(ValueError, match="minutes must be at least 0 and is -1"):
        Checkpoint(path, system, minutes=-1)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        Checkpoint(shared_tmp_path / "nowhere" / "run.h5", system)
    with pytest.raises(FileNotFoundError, match="there is no checkpoint"):
        read_checkpoint(path, system)
    Checkpoint(path, system)(state)
    others = [yee("TE", "tube")[0], hf.SecondOrder(np.eye(9), np.eye(9), comm=COMM)]
    for other in others:
        with pytest.raises(ValueError, match="has other unknowns than this system: take the mesh"):
            read_checkpoint(path, other)
    COMM.barrier()
    if COMM.rank == 0:
        path.write_bytes(path.read_bytes()[:100])
    COMM.barrier()
    with pytest.raises(ValueError, match="is no checkpoint, or it is damaged"):
        read_checkpoint(path, system)
