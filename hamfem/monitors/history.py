"""Energy and invariants along a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hamfem.monitors.table import Table, read_columns
from hamfem.state import State

Quantity = Callable[[State], Any]
_KIND, _FIRST = "history", ("step", "t", "energy", "drift", "work", "outflow")


class Balance:
    """The change of energy + outflow - work since the first look, which a perfect run keeps at 0.

    It is relative to the first value or to the largest work so far, whichever is larger: a body
    that is pushed from rest has no energy at first.
    """

    def __init__(self) -> None:
        self.first: float | None = None
        self.scale = 0.0

    def drift(self, energy: float, work: float, outflow: float) -> float:
        """The relative change."""
        value = energy + outflow - work
        if self.first is None:
            self.first = value
        self.scale = max(self.scale, abs(self.first), abs(work))
        change = value - self.first
        # A look at 0 / 0 is no drift; NaN goes through.
        return change / self.scale if self.scale > 0 else change


class History(Table):
    """Writes one row of numbers per call: step, t, energy, drift, work, outflow and invariants.

    The drift is that of energy + outflow - work, relative. Lines that begin with # record versions,
    system, method and dt. Every row is complete in the file when the call returns. If the file has
    earlier rows of the same run (smaller steps, the same clock and number of unknowns), the run was
    continued from a checkpoint and goes on in it: rows from the present step on are replaced, and
    the drift is still measured from the first row. Else the file is replaced.

    Args:
        path: The CSV file.
        system: Whose `invariants` are written; a vector becomes name_x, name_y, name_z.
        method: Recorded, if given.
        dt: Recorded, if given.
        extra: More columns: {name: quantity of a state}, or a sequence of quantities, which are
            then called by their `name` or extra_0, extra_1 and so on.
    """

    kind, first = _KIND, _FIRST

    def __init__(
        self,
        path: str | Path,
        system: Any,
        method: Any = None,
        dt: float | None = None,
        extra: Mapping[str, Quantity] | Iterable[Quantity] = (),
    ) -> None:
        self._extra = _named(extra)
        self._balance = Balance()
        super().__init__(path, system, method, dt)

    def __call__(self, state: State) -> None:
        """Add a row; collective."""
        columns = self._columns(state)
        if not self._started:
            self._start(state, tuple(columns))
        if tuple(columns) != self.names:
            raise ValueError(
                f"the columns of '{self.path}' changed during the run, from {', '.join(self.names)}"
                f" to {', '.join(columns)}: a history keeps its columns."
            )
        columns["drift"] = self._balance.drift(columns["energy"], state.work, state.outflow)
        self._add([int(state.step), *map(float, list(columns.values())[1:])])

    def _start(self, state: State, names: tuple[str, ...]) -> None:
        """Begin the file, and the drift with its earlier rows."""
        at = [names.index(name) for name in ("energy", "work", "outflow")]
        for row in self._begin(state, names):
            self._balance.drift(*row[at])

    def _columns(self, state: State) -> dict[str, float]:
        """The row of a state, with its drift still to come."""
        values = dict(self.system.invariants(state))
        energy = values.pop("energy", None)
        columns = {
            "step": state.step,
            "t": state.t,
            "energy": self.system.energy(state) if energy is None else energy,
            "drift": 0.0,
            "work": state.work,
            "outflow": state.outflow,
        }
        more = [*values.items(), *((name, f(state)) for name, f in self._extra.items())]
        for name, value in more:
            for column, number in _flat(name, value):
                if column in columns:
                    raise ValueError(f"two columns are named '{column}': rename the extra one.")
                columns[column] = number
        return columns


def read_history(path: str | Path) -> dict[str, npt.NDArray]:
    """The columns of a file of `History`, by name; a last row that a crash cut off is left out."""
    return read_columns(path, _KIND, _FIRST)


def _flat(name: str, value: Any) -> list[tuple[str, float]]:
    """The columns of a number or a vector."""
    numbers = np.asarray(value, dtype=float)
    if numbers.ndim == 0:
        return [(name, float(numbers))]
    if numbers.ndim > 1:
        raise ValueError(
            f"'{name}' has the shape {numbers.shape}: a history takes numbers and vectors."
        )
    labels = "xyz" if len(numbers) <= 3 else range(len(numbers))
    return [(f"{name}_{label}", float(number)) for label, number in zip(labels, numbers)]


def _named(extra: Mapping[str, Quantity] | Iterable[Quantity]) -> dict[str, Quantity]:
    if isinstance(extra, Mapping):
        named = dict(extra)
    else:
        quantities: list[Quantity] = list(extra)
        named = {getattr(f, "name", f"extra_{i}"): f for i, f in enumerate(quantities)}
        if len(named) < len(quantities):
            raise ValueError("two extra quantities have one name: give them as {name: quantity}.")
    for name, f in named.items():
        if not callable(f):
            raise TypeError(f"the extra quantity '{name}' must be a function of the state.")
        if not isinstance(name, str) or not name or set(name) & set(',"#\r\n'):
            raise ValueError(f"{name!r} cannot name a column of a CSV file: rename it.")
    return named
