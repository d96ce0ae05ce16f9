"""The progress of a run: what is shown, and how rarely the energy is asked for."""

import io
import re

from mpi4py import MPI

import numpy as np
import pytest

import hamfem as hf
from hamfem.monitors.progress import Progress, _duration

COMM = MPI.COMM_WORLD
METHOD = hf.Gauss(1)


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Counting:
    """A system that counts how often its energy is asked for."""

    def __init__(self, system):
        self.system, self.comm, self.looks = system, system.comm, 0

    def energy(self, state):
        self.looks += 1
        return self.system.energy(state)


def oscillator():
    system = hf.SecondOrder(np.eye(3), np.diag([1.0, 4.0, 9.0]), comm=COMM)
    return system, system.state([1.0, 0.0, 0.0], [0.0, 1.0, 0.0])


def run(progress, steps=100, every=1, state=None, system=None):
    if system is None:
        system, state = oscillator()
    t_end = steps * 0.01 + state.t
    for state in hf.march(system, METHOD, state, 0.01, t_end, every=every):
        progress(state)
    return state


def test_a_log_has_a_line_for_each_tenth():
    out = io.StringIO()
    system, _ = oscillator()
    watched = Counting(system)
    run(Progress(1.0, watched, file=out))
    lines = out.getvalue().splitlines()
    if COMM.rank == 0:
        percent = [int(line.split("%")[0]) for line in lines]
        assert percent == [1, *range(10, 101, 10)]
        line = r" 50 %: step 50, t = 0.5, drift [+-]\d\.\de-\d\d, 0:00:\d\d left"
        assert re.fullmatch(line, lines[5])
        assert re.search("after 0:00:0", lines[-1])
    else:
        assert not lines
    assert watched.looks == 11


@pytest.mark.parametrize("watch", [False, True])
@pytest.mark.parametrize("t_end", [None, 1.0])
def test_a_bar_counts_steps(t_end, watch):
    out = Terminal()
    system, _ = oscillator()
    with Progress(t_end, system if watch else None, interval=1e-9, file=out) as progress:
        run(progress)
    text = out.getvalue()
    if COMM.rank > 0:
        assert text == ""
        return
    assert ("100/100" in text) == (t_end is not None)
    assert "100step" in text or "100/100" in text
    assert ("drift" in text) == watch
    assert "t = 1" in text
    assert "step/s" in text
    assert text.endswith("\n")


def test_everything_is_optional(capsys):
    progress = Progress()
    run(progress)
    progress.close()
    progress.close()
    shown = capsys.readouterr().err
    # without an end: after 1, 2, 4, ... calls, then once in a minute
    steps = [int(s) for s in re.findall(r"step (\d+), t = ", shown)]
    assert steps == ([1, 3, 7, 15, 31, 63] if COMM.rank == 0 else [])


def test_the_energy_is_asked_for_rarely_and_by_all_ranks_together():
    system, _ = oscillator()
    watched = Counting(system)
    with Progress(50.0, watched, interval=30, file=Terminal()) as progress:
        run(progress, steps=4000)
    assert COMM.allgather(watched.looks) == [watched.looks] * COMM.size
    assert 2 <= watched.looks <= 13


def test_ranks_agree_when_only_one_has_a_terminal():
    system, _ = oscillator()
    watched = Counting(system)
    out = Terminal() if COMM.rank == 0 else io.StringIO()
    run(Progress(1.0, watched, interval=1e-3, file=out))
    assert COMM.allgather(watched.looks) == [watched.looks] * COMM.size


def test_a_continued_run_shows_the_whole():
    system, state = oscillator()
    state = run(lambda s: None, steps=50, state=state, system=system)
    out = io.StringIO()
    run(Progress(1.0, file=out), steps=50, every=10, state=state, system=system)
    if COMM.rank == 0:
        percent = [int(line.split("%")[0]) for line in out.getvalue().splitlines()]
        assert percent == [60, 70, 80, 90, 100]


def test_a_loop_of_ones_own_needs_no_clock():
    _, state = oscillator()
    out = io.StringIO()
    progress = Progress(-2.0, file=out)  # back in time
    for step in range(9):
        state.step, state.t, state.clock = step, -step / 4, None
        progress(state)
    if COMM.rank == 0:
        assert "100 %: step 8, t = -2" in out.getvalue()
        assert " 50 %: step 4" in out.getvalue()


def test_one_progress_for_two_runs():
    system, state = oscillator()
    out = io.StringIO()
    progress = Progress(0.2, file=out)
    state = run(progress, steps=20, state=state, system=system)
    progress.t_end = 0.4
    run(progress, steps=20, state=state, system=system)
    if COMM.rank == 0:
        assert out.getvalue().count("100 %") == 2


def test_durations():
    assert _duration(0.2) == "0:00:00"
    assert _duration(3723.4) == "1:02:03"
