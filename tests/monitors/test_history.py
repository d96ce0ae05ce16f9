"""The history of a run: its numbers, its file, and what a crash leaves of it."""

import math
import os

from mpi4py import MPI

import numpy as np
import pytest

import hamfem as hf
from hamfem.monitors.history import Balance, History, read_history

COMM = MPI.COMM_WORLD
METHOD, DT = hf.Gauss(1), 0.02


def membrane(cell="triangle", n=4):
    dim = 3 if cell == "hexahedron" else 2
    domain = hf.box(COMM, (0,) * dim, (1,) * dim, n=n, cell=cell)
    system = hf.cg(hf.Acoustic(domain, boundary=[hf.Clamped("left", "right")]), 2)
    return system, system.state(u=lambda x: np.sin(math.pi * x[0]) * np.cos(math.pi * x[1]), v=0)


def oscillator(**parts):
    system = hf.SecondOrder(np.eye(2), np.diag([1.0, 4.0]), comm=COMM, **parts)
    return system, system.state([1.0, 0.0], [0.0, 1.0])


class Watched:
    """A system with more invariants than it has."""

    def __init__(self, system, **more):
        self.system, self.comm, self.more = system, system.comm, more

    def energy(self, state):
        return self.system.energy(state)

    def invariants(self, state):
        return {**self.system.invariants(state), **self.more}


def write(path, text):
    if COMM.rank == 0:
        path.write_text(text)
    COMM.barrier()


@pytest.mark.parametrize("cell", ["triangle", "hexahedron"])
def test_the_file_has_what_the_system_says(cell, shared_tmp_path):
    system, state = membrane(cell)
    path = shared_tmp_path / "energy.csv"
    expected = []
    with History(path, system, METHOD, DT) as history:
        history(state)
        expected.append((0, 0.0, system.energy(state), system.kinetic(state)))
        for state in hf.march(system, METHOD, state, DT, 0.2, every=2):
            history(state)
            expected.append((state.step, state.t, system.energy(state), system.kinetic(state)))
    columns = read_history(path)
    names = [*columns]
    assert names[:6] == ["step", "t", "energy", "drift", "work", "outflow"]
    assert {"kinetic", "potential"} <= set(names)
    assert names == list(history.names)
    for name in names:
        # every digit is there, and in memory too
        assert np.array_equal(columns[name], history[name])
    assert columns["step"].dtype == np.int64
    for name, values in zip(("step", "t", "energy", "kinetic"), zip(*expected)):
        np.testing.assert_allclose(columns[name], values, rtol=1e-15, atol=0)
    assert history.rows.shape == (6, len(names))
    assert np.abs(columns["drift"]).max() < 1e-13
    assert columns["drift"][0] == 0


def test_the_same_run_on_one_rank_and_on_all(shared_tmp_path):
    n = np.arange(12)
    K = 2 * np.eye(12) - np.eye(12, k=1) - np.eye(12, k=-1)
    columns = []
    for comm, path in (
        (COMM, shared_tmp_path / "all.csv"),
        (MPI.COMM_SELF, shared_tmp_path / f"{COMM.rank}.csv"),
    ):
        system = hf.SecondOrder(np.eye(12), K, comm=comm)
        state = system.state(np.sin(n), np.cos(n))
        history = History(path, system, hf.Verlet(), 0.1)
        for state in hf.march(system, hf.Verlet(), state, 0.1, 1.0):
            history(state)
        columns.append(history)
    for name in columns[0].names:
        np.testing.assert_allclose(columns[0][name], columns[1][name], rtol=1e-13, atol=1e-14)


def test_the_head_records_versions_system_method_and_dt(shared_tmp_path):
    system, state = oscillator()
    path = shared_tmp_path / "energy.csv"
    History(path, system, METHOD, DT)(state)
    head = [line for line in path.read_text().splitlines() if line.startswith("# ")]
    assert head[0].startswith(f"# hamfem {hf.__version__}, DOLFINx 0.")
    assert "PETSc 3." in head[0]
    assert head[1] == "# system: SecondOrder, 4 unknowns"
    assert head[2] == f"# ranks: {COMM.size}"
    assert head[3].startswith("# method: Gauss(1), RungeKutta(")
    assert head[4] == "# dt: 0.02"
    # without a method and dt: what the state's clock says
    for state in hf.march(system, METHOD, state, 0.1, 0.5):
        History(shared_tmp_path / "clock.csv", system)(state)
        break
    lines = (shared_tmp_path / "clock.csv").read_text().splitlines()
    assert lines[3] == "# dt: 0.1"


def test_vectors_become_columns(shared_tmp_path):
    system, state = oscillator()
    watched = Watched(
        system, momentum=np.array([1.0, 2.0]), spin=3.0, rigid=np.arange(4.0), one=np.ones(1)
    )
    history = History(shared_tmp_path / "h.csv", watched, extra={"double": lambda s: 2 * s.t})
    history(state)
    assert history.names[6:] == (
        *("kinetic", "potential", "momentum_x", "momentum_y", "spin"),
        *("rigid_0", "rigid_1", "rigid_2", "rigid_3", "one_x", "double"),
    )
    assert history["rigid_3"] == 3
    assert history["momentum_y"] == 2


def test_extra_quantities_may_come_without_names(shared_tmp_path):
    system, state = oscillator()
    modified = hf.modified_energy(system, hf.Verlet(), 0.1)
    history = History(
        shared_tmp_path / "h.csv", system, hf.Verlet(), 0.1, extra=[modified, lambda s: s.step]
    )
    history(state)
    for state in hf.march(system, hf.Verlet(), state, 0.1, 5.0):
        history(state)
    assert np.ptp(history["extra_0"]) < 1e-13
    assert np.ptp(history["energy"]) > 1e-4
    assert np.array_equal(history["extra_1"], history["step"])


def test_drift_counts_work_and_outflow(shared_tmp_path):
    # from rest: there is no first energy to compare with
    load = hf.Load(math.cos, np.array([1.0, 0.0]))
    system, _ = oscillator(R=0.1 * np.eye(2), loads=[load])
    state = system.state()
    history = History(shared_tmp_path / "h.csv", system, METHOD, DT)
    history(state)
    for state in hf.march(system, METHOD, state, DT, 2.0):
        history(state)
    assert history["energy"][-1] > 0.1
    assert history["work"][-1] > history["outflow"][-1] > 0
    assert np.abs(history["drift"]).max() < 1e-13


def test_drift_is_relative_to_the_first_value_or_to_the_largest_work():
    balance = Balance()
    assert balance.drift(2.0, 0.0, 0.0) == 0
    assert balance.drift(2.0, -1.0, 0.0) == 0.5
    assert balance.drift(2.5, 0.0, 0.0) == 0.25
    assert balance.drift(10.0, 10.0, 1.0) == -0.1
    assert balance.drift(2.5, 0.0, 0.0) == 0.05  # what was put in and taken out again
    assert math.isnan(balance.drift(math.nan, 0.0, 0.0))
    assert Balance().drift(0.0, 0.0, 0.0) == 0


# ---------------------------------------------------------------- restart


def run(path, state, system, t_end, every=1, dt=DT):
    history = History(path, system, METHOD, dt)
    history(state)
    for state in hf.march(system, METHOD, state, dt, t_end, every=every):
        history(state)
    history.close()
    return history, state


def test_a_continued_run_goes_on_in_its_file(shared_tmp_path):
    system, state = oscillator()
    path, whole = shared_tmp_path / "parts.csv", shared_tmp_path / "whole.csv"
    run(whole, state.copy(), system, 1.0)
    _, middle = run(path, state.copy(), system, 0.4)
    checkpoint = middle.copy()
    # the first run got further than its last checkpoint, and then died in the middle of a row
    run(path, middle, system, 0.6)
    COMM.barrier()
    write(path, path.read_text() + "31,0.62000")
    history, _ = run(path, checkpoint, system, 1.0)
    text = path.read_text()
    assert text.count("# continued at step 20: hamfem ") == 1
    assert text.count("step,t,energy") == 1
    expected = read_history(whole)
    for name, values in read_history(path).items():
        np.testing.assert_allclose(values, expected[name], rtol=1e-12, atol=1e-13)
        assert np.array_equal(values, history[name])  # in memory too, on every rank
    assert history["drift"][0] == 0


def test_the_first_call_may_come_after_the_first_step(shared_tmp_path):
    system, state = oscillator()
    path = shared_tmp_path / "parts.csv"
    for part, end in enumerate((0.4, 1.0)):
        history = History(path, system, METHOD, DT)
        for state in hf.march(system, METHOD, state, DT, end, every=5):
            history(state)
    assert history["step"].tolist() == list(range(5, 51, 5))


def test_another_run_replaces_the_file(shared_tmp_path):
    system, state = oscillator()
    path = shared_tmp_path / "h.csv"
    run(path, state.copy(), system, 0.4)
    history, _ = run(path, state.copy(), system, 0.2)  # from step 0
    assert len(read_history(path)["t"]) == len(history["t"]) == 11
    # The script again with a larger dt, and with its first call after 4 steps.
    history = History(path, system)
    for state in hf.march(system, METHOD, state.copy(), 0.1, 0.8, every=4):
        history(state)
    assert history["step"].tolist() == [4, 8]
    # Another number of unknowns is another system.
    system = hf.SecondOrder(np.eye(3), np.eye(3), comm=COMM)
    state = system.state([1.0, 0, 0])
    history = History(path, system)
    for state in hf.march(system, METHOD, state, 0.1, 0.8, every=8):
        history(state)
    assert history["step"].tolist() == [8]


def test_a_file_without_rows_is_begun_again(shared_tmp_path):
    system, state = oscillator()
    path = shared_tmp_path / "h.csv"
    for text in (
        "",
        "# hamf",
        "# hamfem\nstep,t,ene",
        "# hamfem\nstep,t,energy,drift,work,outflow\n0,",
    ):
        write(path, text)
        state.step = 3
        History(path, system)(state)
        COMM.barrier()
        assert read_history(path)["step"].tolist() == [3]
        COMM.barrier()


def test_a_row_is_in_the_file_when_the_call_returns(shared_tmp_path):
    system, state = oscillator()
    path = shared_tmp_path / "h.csv"
    history = History(path, system)
    for n in range(3):
        history(state)
        assert len(read_history(path)["t"]) == n + 1
        COMM.barrier()


def test_reading_leaves_out_a_row_that_was_cut_off(shared_tmp_path):
    system, state = oscillator()
    path = shared_tmp_path / "h.csv"
    run(path, state, system, 0.2)
    COMM.barrier()
    text = path.read_text()
    COMM.barrier()
    for cut in (1, 5, 40):
        write(path, text[:-cut])
        assert len(read_history(path)["t"]) == 10
        COMM.barrier()


# ---------------------------------------------------------------- what can be wrong


def test_wrong_places_are_refused_on_every_rank(shared_tmp_path):
    system, _ = oscillator()
    with pytest.raises(FileNotFoundError, match=r"no folder '.*missing' for the file 'h.csv'"):
        History(shared_tmp_path / "missing" / "h.csv", system)
    with pytest.raises(IsADirectoryError, match="is a folder"):
        History(shared_tmp_path, system)
    with pytest.raises(FileNotFoundError, match="no history"):
        read_history(shared_tmp_path / "h.csv")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_is_not_writable_is_refused(shared_tmp_path):
    system, _ = oscillator()
    if COMM.rank == 0:
        shared_tmp_path.chmod(0o500)
    try:
        with pytest.raises(PermissionError, match="is not writable"):
            History(shared_tmp_path / "h.csv", system)
    finally:
        COMM.barrier()
        if COMM.rank == 0:
            shared_tmp_path.chmod(0o700)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a full disk")
def test_a_full_disk_is_an_error_on_every_rank(shared_tmp_path):
    system, state = oscillator()
    history = History(shared_tmp_path / "h.csv", system)
    history(state)
    history.close()
    history.path = type(history.path)("/dev/full")
    with pytest.raises(OSError, match="'/dev/full' cannot be written: No space left"):
        history(state)


def test_a_place_that_vanishes_is_an_error_on_every_rank(shared_tmp_path):
    system, state = oscillator()
    folder = shared_tmp_path / "folder"
    if COMM.rank == 0:
        folder.mkdir()
    COMM.barrier()
    history = History(folder / "h.csv", system)
    COMM.barrier()
    if COMM.rank == 0:
        folder.rmdir()
    with pytest.raises(FileNotFoundError, match=r"h.csv' cannot be written: No such file"):
        history(state)


def test_foreign_and_damaged_files_are_not_continued(shared_tmp_path):
    system, state = oscillator()
    path = shared_tmp_path / "h.csv"
    state.step = 5
    write(path, "a,b\n1,2\n")
    with pytest.raises(ValueError, match="is no history: its columns must begin with step, t"):
        History(path, system)(state)
    write(path, "step,t,energy,drift,work,outflow\n1,2,3\n")
    with pytest.raises(ValueError, match="is damaged: a row does not have 6 numbers"):
        History(path, system)(state)
    state.step = 0
    History(path, system)(state)
    state.step = 5
    with pytest.raises(ValueError, match="it cannot go on in this file"):
        History(path, system, extra={"more": lambda s: 0.0})(state)
    COMM.barrier()
    write(path, "")
    with pytest.raises(ValueError, match="is no history"):
        read_history(path)


def test_wrong_columns_are_named(shared_tmp_path):
    system, state = oscillator()
    path = shared_tmp_path / "h.csv"
    for extra, error, message in (
        ({"energy": len}, ValueError, "two columns are named 'energy'"),
        ({"matrix": lambda s: np.eye(2)}, ValueError, r"shape \(2, 2\)"),
        ({"a,b": len}, ValueError, "cannot name a column"),
        ({"a": 1.0}, TypeError, "must be a function of the state"),
    ):
        extra = {n: (lambda s: 0.0) if f is len else f for n, f in extra.items()}
        with pytest.raises(error, match=message):
            History(path, system, extra=extra)(state)
    history = History(path, system)
    with pytest.raises(KeyError, match="none yet"):
        history["t"]
    history(state)
    with pytest.raises(KeyError, match="no column 'heat'; it has: step, t, energy"):
        history["heat"]
    history.system = Watched(system, late=1.0)
    with pytest.raises(ValueError, match="changed during the run"):
        history(state)
