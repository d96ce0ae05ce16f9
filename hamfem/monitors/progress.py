"""How far a run is, how long it will take, and whether its energy still holds."""

from __future__ import annotations

import math
import sys
import time
from typing import Any, TextIO

from mpi4py import MPI

from hamfem.communicator import lasting
from hamfem.monitors.history import Balance
from hamfem.state import State


class Progress:
    """A bar on the terminal of rank 0; in a log file a line now and then.

    It is looked after about every `interval` seconds. Rank 0 says how many calls that will be until
    the next look, so that in between a call costs a comparison and no message; only at a look is
    the energy evaluated, on all ranks together.

    Args:
        t_end: The end of the run; gives a percentage and the time that is left. In a log there is
            then one line for each tenth of the run.
        system: Whose energy is watched: the relative drift of energy + outflow - work is shown.
        interval: Seconds between two looks: by default 0.5 on a terminal, else 60.
        file: Where to write, instead of the standard error stream.
    """

    def __init__(
        self,
        t_end: float | None = None,
        system: Any = None,
        interval: float | None = None,
        file: TextIO | None = None,
    ) -> None:
        self.t_end, self.system, self.interval, self.file = t_end, system, interval, file
        self._reset()

    def _reset(self) -> None:
        self._comm: MPI.Comm | None = None
        self._bar: Any = None
        self._balance = Balance()
        self._calls = self._due = self._tenth = 0

    def __call__(self, state: State) -> None:
        """Note that a state was reached; collective if a system is watched."""
        if self._comm is None:
            self._begin(state)
        self._calls += 1
        finished = self._fraction(state) >= 1
        if self._by_tenths:
            look = self._calls == 1 or math.floor(10 * self._fraction(state)) > self._tenth
        else:
            look = self._calls >= self._due
        if look or finished:
            self._look(state)
        if finished:
            self.close()

    def close(self) -> None:
        """Leave the bar as it is; a later call begins a new one."""
        if self._bar is not None:
            self._bar.close()
        self._reset()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------ the same on every rank

    def _begin(self, state: State) -> None:
        comm = self.system.comm if self.system is not None else lasting(state.q.comm.tompi4py())
        self._comm = comm
        self._t0, self._step0 = (
            (state.t, state.step)
            if state.clock is None
            else (state.clock.origin, state.clock.first)
        )
        if self.t_end == self._t0:
            self._t0, self._step0 = state.t, state.step
        stream = self.file or sys.stderr
        terminal = comm.rank == 0 and stream.isatty()
        # Without a system the other ranks have nothing to do and need not know.
        self._terminal = comm.bcast(terminal) if self.system is not None else terminal
        self._by_tenths = not self._terminal and self.t_end is not None
        self._wait = self.interval or (0.5 if self._terminal else 60.0)
        self._start = self._last = time.monotonic()
        self._last_calls, self._first_step = 0, state.step
        if self._terminal and comm.rank == 0:
            from tqdm import tqdm

            self._bar = tqdm(
                file=stream,
                initial=state.step - self._step0,
                total=self._total(state),
                unit="step",
                mininterval=0,
                dynamic_ncols=True,
            )

    def _fraction(self, state: State) -> float:
        """The part of the run that is done, or 0 if its end is not known."""
        if self.t_end is None:
            return 0.0
        span = self.t_end - self._t0
        # Rounding must not keep a run from its end.
        return 1.0 if span == 0 else (state.t - self._t0) / span + 1e-12

    def _look(self, state: State) -> None:
        """Show the present state, and agree on the call of the next look."""
        assert self._comm is not None
        drift = None
        if self.system is not None:
            drift = self._balance.drift(self.system.energy(state), state.work, state.outflow)
        self._tenth = math.floor(10 * self._fraction(state))
        if self._comm.rank == 0:
            self._show(state, drift)
        if self._by_tenths:
            return
        now = time.monotonic()
        done = self._calls - self._last_calls
        # At most twice as many as the last time: the first steps may be unusually fast.
        calls = round(self._wait * done / max(now - self._last, 1e-9))
        calls = min(max(calls, 1), 2 * done)
        self._last, self._last_calls = now, self._calls
        self._due = self._calls + (self._comm.bcast(calls) if self.system is not None else calls)

    # ------------------------------------------------------------ rank 0 only

    def _total(self, state: State) -> int | None:
        """The number of steps of the run, from the time that those so far have covered."""
        fraction = self._fraction(state)
        done = state.step - self._step0
        if fraction > 1e-9 and done > 0:
            return max(round(done / fraction), done)
        return None

    def _show(self, state: State, drift: float | None) -> None:
        note = f"t = {state.t:.6g}" + ("" if drift is None else f", drift {drift:+.1e}")
        if self._bar is not None:
            self._bar.n, self._bar.total = state.step - self._step0, self._total(state)
            self._bar.set_postfix_str(note, refresh=False)
            self._bar.refresh()
            return
        words = [f"step {state.step}, {note}"]
        elapsed, done = time.monotonic() - self._start, state.step - self._first_step
        if (total := self._total(state)) is not None:
            now = state.step - self._step0
            words[0] = f"{100 * now / total:3.0f} %: {words[0]}"
            if total == now:
                words.append(f"after {_duration(elapsed)}")
            elif done:
                words.append(f"{_duration(elapsed / done * (total - now))} left")
        print(", ".join(words), file=self.file or sys.stderr, flush=True)


def _duration(seconds: float) -> str:
    """A number of seconds for the eye."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"
