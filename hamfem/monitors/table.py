"""Rows of numbers along a run, as a CSV file that survives a crash and can be continued."""

from __future__ import annotations

import errno
import os
import re
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from petsc4py import PETSc

import numpy as np
import numpy.typing as npt

from hamfem import dolfinx_versions
from hamfem._version import version
from hamfem.errors import on_root
from hamfem.monitors.files import check_writable, same_run
from hamfem.state import State

Array = npt.NDArray[np.float64]
Self = TypeVar("Self", bound="Table")


class Table:
    """A monitor that writes one row of numbers per call; a base of monitors.

    Lines that begin with # record versions, system, ranks and dt, and what the monitor adds. Every
    row is complete in the file when the call returns. If the file has earlier rows of the same run
    (smaller steps, the same clock and number of unknowns), the run was continued from a checkpoint
    and goes on in it: rows from the present step on are replaced. Else the file is replaced.

    Attributes:
        kind: What the file is called in messages.
        first: The names of its first columns.
        path: The CSV file.
        names: Those of all columns, from the first call on.
    """

    kind: str
    first: tuple[str, ...]

    def __init__(
        self, path: str | Path, system: Any, method: Any = None, dt: float | None = None
    ) -> None:
        self.path, self.system, self.method, self.dt = Path(path), system, method, dt
        self.names: tuple[str, ...] = ()
        self._comm = system.comm
        self._numbers = array("d")
        self._file: BinaryIO | None = None
        self._started = False
        if self._comm.bcast(self.path.is_dir()):
            raise IsADirectoryError(f"'{self.path}' is a folder: give the name of a CSV file.")
        check_writable(self._comm, self.path)

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

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self, state: State, names: Sequence[str], always: Sequence[str] = ()) -> Array:
        """Make the file ready for the row of `state`; the rows that it has already.

        Args:
            state: The first state of this part of the run.
            names: Of the columns.
            always: More lines of comment, which an earlier part of the run must have too.
        """
        description = self._description(state)
        # The collective parts of this were done above: what follows is the work of one rank.
        self.names = tuple(names)
        old = on_root(self._comm, lambda: self._open(state, description, always))
        self._started = True
        self._numbers = array("d", old.ravel())
        return old

    def _add(self, row: Sequence[float]) -> None:
        """Add a row, whose first number is the step."""
        on_root(self._comm, lambda: self._write(",".join(map(repr, row)) + "\n"))
        self._numbers.extend(row)

    # ------------------------------------------------------------ the file, on rank 0

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

    def _open(self, state: State, description: list[str], always: Sequence[str]) -> Array:
        comments, lines = [f"# {line}\n" for line in description], []
        always = [f"# {line}\n" for line in always]
        if state.step > 0 and self.path.exists():
            old_comments, header, old = _split(self.path, self.kind, self.first)
            earlier = [line for line in old if int(line.split(",", 1)[0]) < state.step]
            clock = [(int(step), float(t)) for step, t, *_ in (e.split(",") for e in earlier)]
            if comments[1] in old_comments and same_run(clock, state):
                lines = earlier
            if lines:
                self._check_same(old_comments, header, always)
                past = [c for c in old_comments if _continued(c) < state.step]
                now = "; ".join(description)
                comments = [*past, f"# continued at step {state.step}: {now}\n"]
        if not lines:
            comments += always
        # A crash while the old rows are copied must not lose them.
        copy = self.path.with_name(self.path.name + ".new")
        try:
            copy.write_text(
                "".join([*comments, ",".join(self.names) + "\n", *lines]), encoding="utf-8"
            )
            os.replace(copy, self.path)
        except OSError as error:
            raise type(error)(f"'{self.path}' cannot be written: {error.strerror}.") from None
        return _numbers(self.path, self.names, lines)

    def _check_same(
        self, comments: list[str], header: tuple[str, ...] | None, always: Sequence[str]
    ) -> None:
        """Refuse to go on in a file with other columns, or other lines that must be there."""
        if header != self.names:
            raise ValueError(
                f"'{self.path}' has the columns {', '.join(header or ())} and this run "
                f"{', '.join(self.names)}: it cannot go on in this file, choose another one."
            )
        for line in always:
            if line not in comments:
                raise ValueError(
                    f"'{self.path}' is not of '{line[2:-1]}', as this run is: it cannot go on in "
                    "this file, choose another one."
                )

    def _write(self, text: str) -> None:
        """Append a row, past all buffers of this process."""
        try:
            if self._file is None:
                self._file = open(self.path, "ab", buffering=0)
            if self._file.write(text.encode()) != len(text):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise type(error)(f"'{self.path}' cannot be written: {error.strerror}.") from None


def read_columns(path: str | Path, kind: str, first: tuple[str, ...]) -> dict[str, npt.NDArray]:
    """The columns of a file by name; a last row that a crash cut off is left out."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no {kind} '{path}'.")
    _, names, lines = _split(path, kind, first)
    if names is None:
        raise ValueError(f"'{path}' is no {kind}: it has no line of column names.")
    rows = _numbers(path, names, lines)
    return {name: _column(rows, names, name, path) for name in names}


def _split(
    path: Path, kind: str, first: tuple[str, ...]
) -> tuple[list[str], tuple[str, ...] | None, list[str]]:
    """The comments, the names of the columns and the complete rows of a file."""
    text = path.read_text(encoding="utf-8", errors="replace")
    lines = text[: text.rfind("\n") + 1].splitlines(keepends=True)
    comments = [line for line in lines if line.startswith("#")]
    body = [line for line in lines if line.strip() and not line.startswith("#")]
    if not body:
        return comments, None, []
    names = tuple(body[0].strip().split(","))
    if names[: len(first)] != first:
        raise ValueError(f"'{path}' is no {kind}: its columns must begin with {', '.join(first)}.")
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
