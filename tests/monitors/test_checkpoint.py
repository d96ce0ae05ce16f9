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
ANYWHERE = ("second order", "first order", "yee")  # the others need one rank
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
    if COMM.size > 1 and not case.startswith(ANYWHERE):
        with pytest.raises(ValueError, match=r"no checkpoints of finite elements on . ranks yet"):
            Checkpoint(path, system)
        return
    if np.isfinite(method.limit) and 0.01 > method.stable_dt(system):
        pytest.skip("the step is for the other cases")
    checkpoint = Checkpoint(path, system)
    assert checkpoint.latest() is None
    tracked(system, state)  # where drifts of charges are measured from
    for state in march(system, method, state):
        if state.step == 10:
            checkpoint(state)
    system, _ = CASES[case]()
    again = Checkpoint(path, system).latest()
    assert (again.step, again.t) == (10, 0.1)
    assert type(again.clock.dt) is float
    for again in march(system, method, again):
        pass
    # MUMPS does not add in the same order twice.
    tolerance = 0.0 if COMM.size == 1 else 1e-13
    for half in ("q", "v"):
        x, y = getattr(again, half), getattr(state, half)
        assert y.norm() > 0
        assert (x - y).norm() <= tolerance * y.norm()
    assert again.work == pytest.approx(state.work, rel=1e-12)
    assert again.outflow == pytest.approx(state.outflow, rel=1e-12)
    one, other = tracked(system, state), tracked(system, again)
    assert one.keys() == other.keys()
    size = np.sqrt(system.energy(state))
    for name, value in one.items():
        assert np.all(np.abs(value - other[name]) <= 1e-12 * (size + np.abs(value).max()))


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


@pytest.mark.skipif(COMM.size > 1, reason="finite elements on one rank")
def test_another_mesh_is_refused(tmp_path):
    path = tmp_path / "run.h5"
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
