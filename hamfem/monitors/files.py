"""Where monitors write."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from mpi4py import MPI

from hamfem.errors import on_root
from hamfem.state import State


def check_writable(comm: MPI.Comm, path: Path) -> None:
    """Say on every rank why nothing can be written at `path`, before the run rather than in it."""

    def check() -> None:
        folder = path.parent
        if not folder.is_dir():
            raise FileNotFoundError(
                f"there is no folder '{folder}' for the file '{path.name}': create it first."
            )
        place = path if path.exists() else folder
        if not os.access(place, os.W_OK):
            raise PermissionError(f"'{place}' is not writable: choose another place for output.")

    on_root(comm, check)


def same_run(earlier: Iterable[tuple[int, float]], state: State) -> bool:
    """Whether outputs at these earlier (step, t) can be of the run that has now come to `state`.

    They have the times of its clock then: a script that is run again with another dt starts anew.
    """
    clock = state.clock
    return clock is None or all(
        step < clock.first or abs(clock.time(step) - t) < 1e-6 * abs(clock.dt)
        for step, t in earlier
    )
