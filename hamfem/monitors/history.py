"""Energy and invariants along a run, as a CSV file that survives a crash and can be continued."""

from __future__ import annotations

import errno
import os
import re
from array import array
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from petsc4py import PETSc

import numpy as np
import numpy.typing as npt

from hamfem import dolfinx_versions
from hamfem._version import version
from hamfem.errors import on_root
from hamfem.monitors.files import check_writable, same_run
from hamfem.state import State

Array = npt.NDArray[np.float64]
Quantity = Callable[[State], Any]
_FIRST = ("step", "t", "energy", "drift", "work", "outflow")


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


class History:
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

    def __init__(
        self,
        path: str | Path,
        system: Any,
        method: Any = None,
        dt: float | None = None,
        extra: Mapping[str, Quantity] | Iterable[Quantity] = (),
    ) -> None:
        self.path, self.system, self.method, self.dt = Path(path), system, method, dt
        self.names: tuple[str, ...] = ()
        self._extra = _named(extra)
        self._comm = system.comm
        self._balance = Balance()
        self._numbers = array("d")
        self._file: BinaryIO | None = None
        self._started = False
        if self._comm.bcast(self.path.is_dir()):
            raise IsADirectoryError(f"'{self.path}' is a folder: give the name of a CSV file.")
        check_writable(self._comm, self.path)

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
        row = [int(state.step), *map(float, list(columns.values())[1:])]
        on_root(self._comm, lambda: self._write(",".join(map(repr, row)) + "\n"))
        self._numbers.extend(row)

    @property
    def rows(self) -> Array:
        """All rows so far, on every rank; those of an earlier part of the run included."""
        return np.array(self._numbers).reshape(-1, max(len(self.names), 1))

    def __getitem__(self, name: str) -> npt.NDArray:
        """A column so far, by its name."""
        return _column(self.rows, self.names, name, self.path)

    def close(self) -> None:
        """Close the file; every row is there already."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> History:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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

    # ------------------------------------------------------------ the file, on rank 0

    def _start(self, state: State, names: tuple[str, ...]) -> None:
        description = self._description(state)
        # The collective parts of this were done above: what follows is the work of one rank.
        old = on_root(self._comm, lambda: self._open(state, names, description))
        self.names, self._started = names, True
        self._numbers = array("d", old.ravel())
        at = [names.index(name) for name in ("energy", "work", "outflow")]
        for row in old:
            self._balance.drift(*row[at])

    def _description(self, state: State) -> list[str]:
        n = state.q.size + state.v.size
        lines = [
            f"hamfem {version}, DOLFINx {dolfinx_versions.RELEASE}, "
            f"PETSc {'.'.join(map(str, PETSc.Sys.getVersion()))}",
            f"system: {type(self.system).__name__}, {n} unknowns",
            f"ranks: {self._comm.size}",
        ]
        if self.method is not None:
            name = getattr(self.method, "name", type(self.method).__name__)
            # A long tableau would hide the numbers below it.
            text = " ".join(repr(self.method).split())
            lines.append(f"method: {name}" + (f", {text}" if name != text else "")[:300])
        dt = self.dt if self.dt is not None else state.clock and state.clock.dt
        if dt is not None:
            lines.append(f"dt: {float(dt)!r}")
        return lines

    def _open(self, state: State, names: tuple[str, ...], description: list[str]) -> Array:
        """Make the file ready for the row of `state`; the rows that it has already."""
        comments, lines = [f"# {line}\n" for line in description], []
        if state.step > 0 and self.path.exists():
            old_comments, header, old = _split(self.path)
            earlier = [line for line in old if int(line.split(",", 1)[0]) < state.step]
            clock = [(int(step), float(t)) for step, t, *_ in (e.split(",") for e in earlier)]
            if comments[1] in old_comments and same_run(clock, state):
                lines = earlier
            if lines:
                if header != names:
                    raise ValueError(
                        f"'{self.path}' has the columns {', '.join(header or ())} and this run "
                        f"{', '.join(names)}: it cannot go on in this file, choose another one."
                    )
                past = [c for c in old_comments if _continued(c) < state.step]
                now = "; ".join(description)
                comments = [*past, f"# continued at step {state.step}: {now}\n"]
        # A crash while the old rows are copied must not lose them.
        copy = self.path.with_name(self.path.name + ".new")
        try:
            copy.write_text("".join([*comments, ",".join(names) + "\n", *lines]), encoding="utf-8")
            os.replace(copy, self.path)
        except OSError as error:
            raise type(error)(f"'{self.path}' cannot be written: {error.strerror}.") from None
        return _numbers(self.path, names, lines)

    def _write(self, text: str) -> None:
        """Append a row, past all buffers of this process."""
        try:
            if self._file is None:
                self._file = open(self.path, "ab", buffering=0)
            if self._file.write(text.encode()) != len(text):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise type(error)(f"'{self.path}' cannot be written: {error.strerror}.") from None


def read_history(path: str | Path) -> dict[str, npt.NDArray]:
    """The columns of a file of `History`, by name; a last row that a crash cut off is left out."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no history '{path}'.")
    _, names, lines = _split(path)
    if names is None:
        raise ValueError(f"'{path}' is no history: it has no line of column names.")
    rows = _numbers(path, names, lines)
    return {name: _column(rows, names, name, path) for name in names}


def _split(path: Path) -> tuple[list[str], tuple[str, ...] | None, list[str]]:
    """The comments, the names of the columns and the complete rows of a file."""
    text = path.read_text(encoding="utf-8", errors="replace")
    lines = text[: text.rfind("\n") + 1].splitlines(keepends=True)
    comments = [line for line in lines if line.startswith("#")]
    body = [line for line in lines if line.strip() and not line.startswith("#")]
    if not body:
        return comments, None, []
    names = tuple(body[0].strip().split(","))
    if names[: len(_FIRST)] != _FIRST:
        raise ValueError(
            f"'{path}' is no history: its columns must begin with {', '.join(_FIRST)}."
        )
    _numbers(path, names, body[1:])
    return comments, names, body[1:]


def _continued(comment: str) -> int:
    """The step at which a comment says that the run was continued, or -1."""
    found = re.match(r"# continued at step (\d+):", comment)
    return int(found[1]) if found else -1


def _numbers(path: Path, names: tuple[str, ...], lines: list[str]) -> Array:
    try:
        rows = [[float(x) for x in line.split(",")] for line in lines]
        return np.array(rows, dtype=float).reshape(len(rows), len(names))
    except ValueError:
        raise ValueError(
            f"'{path}' is damaged: a row does not have {len(names)} numbers."
        ) from None


def _column(rows: Array, names: tuple[str, ...], name: str, path: Path) -> npt.NDArray:
    if name not in names:
        known = ", ".join(names) or "none yet"
        raise KeyError(f"'{path}' has no column '{name}'; it has: {known}.")
    column = rows[:, names.index(name)]
    return column.astype(np.int64) if name == "step" else column.copy()


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
