"""The whole state of a run in a file, from which it goes on."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mpi4py import MPI
from petsc4py import PETSc

import numpy as np
import numpy.typing as npt

from hamfem import dolfinx_versions
from hamfem._version import version
from hamfem.errors import on_root
from hamfem.layout import Piece
from hamfem.monitors.files import check_writable
from hamfem.state import Baseline, Clock, State

Place = tuple[slice, ...]
Put = Callable[[Place, npt.NDArray], None]
Get = Callable[[Place], npt.NDArray]
_KIND = "hamfem checkpoint"


class Checkpoint:
    """Writes the whole state to an HDF5 file, from which the run goes on with the same numbers.

        checkpoint = hf.Checkpoint("run.h5", system, minutes=30)
        state = checkpoint.latest() or system.state(u=...)
        for state in hf.march(system, method, state, dt, t_end, every=100):
            checkpoint(state)

    The file has both halves, the clock, the sums of work and outflow, and what the method
    remembers. It replaces the former one when it is complete: a crash leaves the last good state.
    The run may go on with another number of ranks. Coefficients, walls, sources, method, dt and
    t_end are those of the script that goes on. Drifts of charges are measured on by the Yee scheme,
    and from the checkpoint by finite elements.

    Args:
        path: The file, .h5.
        system: Whose states are written.
        minutes: How many must have passed since the last time; 0 writes at every call.
    """

    def __init__(self, path: str | Path, system: Any, minutes: float = 0.0) -> None:
        self.path, self.system, self.minutes = Path(path), system, float(minutes)
        self._comm = system.comm
        if self.path.suffix != ".h5":
            raise ValueError(f"a checkpoint is an HDF5 file, and '{self.path}' must end with .h5.")
        if not self.minutes >= 0:
            raise ValueError(f"minutes must be at least 0 and is {minutes}.")
        check_writable(self._comm, self.path)
        self._last = time.monotonic()

    def latest(self) -> State | None:
        """The state in the file, or None if there is no file yet; collective."""
        exists = on_root(self._comm, self.path.exists)
        return read_checkpoint(self.path, self.system) if exists else None

    def __call__(self, state: State) -> None:
        """Write the state if it is time; collective."""
        if self._comm.bcast(time.monotonic() - self._last >= 60 * self.minutes):
            self.write(state)

    def write(self, state: State) -> None:
        """Write the state; collective."""
        if state.origin:
            self.system.charges(state)  # what loads have done up to now
        _write(self.path, self.system, state)
        self._last = time.monotonic()


def read_checkpoint(path: str | Path, system: Any) -> State:
    """The state in a file of `Checkpoint`, for the same system; collective."""
    path, comm = Path(path), system.comm
    head = on_root(comm, lambda: _head(path))
    if head["system"] != type(system).__name__:
        raise _other(path)
    state = State(system.new_q(), system.new_v())
    for name in ("t", "work", "outflow"):
        setattr(state, name, float(head[name]))
    state.step = int(head["step"])
    if "clock" in head:
        origin, first, dt = map(float, head["clock"])
        state.clock = Clock(origin, int(first), dt)
    state.memory = {name: system.new_v() for name in head["memory"]}
    if head["origin"]:
        system.charges(state)  # makes the vectors
    for half, t in head["origin"].items():
        if half not in state.origin:
            raise _other(path)
        state.origin[half].t = t
    found = [(where, kind, x, system.pieces(kind, x)) for where, kind, x in _vectors(system, state)]
    for where, _, _, pieces in found:
        if any(head["shapes"].get(_key(where, piece)) != piece.shape for piece in pieces):
            raise _other(path)
    files: list[Any] = []
    errors: list[OSError] = []
    on_root(comm, lambda: files.append(_opened(path, "r")))
    for where, _, _, pieces in found:
        for piece in pieces:
            _scatter(comm, piece, _reader(files, _key(where, piece), errors))
    on_root(comm, lambda: _read(path, files, errors))
    for _, kind, x, pieces in found:
        system.restore(kind, pieces, x)
    return state


def _baselines(system: Any, state: State) -> dict[str, Baseline]:
    """Where drifts of charges are measured from, as far as the system can store charges."""
    return {
        half: baseline
        for half, baseline in state.origin.items()
        if system.pieces("charges", baseline.first)
    }


def _vectors(system: Any, state: State) -> Iterator[tuple[str, str, PETSc.Vec]]:
    """All vectors of a state: where they are in the file, and how they are laid out."""
    yield "q", "q", state.q
    yield "v", "v", state.v
    for name, x in state.memory.items():
        yield f"memory/{name}", "v", x
    for half, baseline in _baselines(system, state).items():
        yield f"origin/{half}/first", "charges", baseline.first
        yield f"origin/{half}/impulse", half, baseline.impulse


# ------------------------------------------------------------ writing


def _write(path: Path, system: Any, state: State) -> None:
    comm, new = system.comm, path.with_name(path.name + ".new")
    head = {
        "kind": _KIND,
        "hamfem": version,
        "dolfinx": dolfinx_versions.RELEASE,
        "system": type(system).__name__,
        "ranks": comm.size,
        "method": getattr(state.method, "name", ""),
        "t": float(state.t),
        "step": int(state.step),
        "work": float(state.work),
        "outflow": float(state.outflow),
    }
    if state.clock is not None:
        head["clock"] = np.array(state.clock, dtype=float)
    files: list[Any] = []
    errors: list[OSError] = []
    on_root(comm, lambda: files.append(_begun(new, path, head)))
    for where, kind, x in _vectors(system, state):
        for piece in system.pieces(kind, x):
            _gather(comm, piece, _writer(files, _key(where, piece), piece.shape, errors))
    baselines = {half: baseline.t for half, baseline in _baselines(system, state).items()}
    on_root(comm, lambda: _finished(files[0], baselines, new, path, errors))


def _begun(new: Path, path: Path, head: dict[str, Any]) -> Any:
    try:
        file = _opened(new, "w")
    except OSError as error:
        raise _not_written(path, error) from None
    for name, value in head.items():
        file.attrs[name] = value
    for group in ("memory", "origin"):
        file.create_group(group)
    return file


def _writer(files: list[Any], name: str, shape: tuple[int, ...], errors: list[OSError]) -> Put:
    """What puts the parts of an array into the file; an error waits until all ranks are through."""
    arrays = []
    try:
        if files:
            arrays.append(files[0].create_dataset(name, shape, dtype=float))
    except OSError as error:
        errors.append(error)

    def put(place: Place, values: npt.NDArray) -> None:
        if errors:
            return
        try:
            arrays[0][place] = values
        except OSError as error:
            errors.append(error)

    return put


def _finished(
    file: Any, baselines: dict[str, float], new: Path, path: Path, errors: list[OSError]
) -> None:
    try:
        with file:
            if errors:
                raise errors[0]
            for half, t in baselines.items():
                file[f"origin/{half}"].attrs["t"] = t
        # On the disk first, then under its name.
        with open(new, "rb") as done:
            os.fsync(done.fileno())
        os.replace(new, path)
    except (OSError, RuntimeError) as error:  # h5py has RuntimeError for a disk that is full
        raise _not_written(path, error) from None


def _not_written(path: Path, error: Exception) -> OSError:
    reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
    return OSError(f"the checkpoint '{path}' cannot be written, the last one is kept: {reason}.")


def _gather(comm: MPI.Comm, piece: Piece, put: Put) -> None:
    """Bring the parts of all ranks to rank 0, one at a time."""
    places: Any = comm.gather(piece.place)
    if comm.rank == 0:
        put(piece.place, piece.values)
        for rank in range(1, comm.size):
            values = np.empty(_sizes(places[rank]))
            comm.Recv(values, source=rank)
            put(places[rank], values)
    else:
        comm.Send(np.ascontiguousarray(piece.values), dest=0)


# ------------------------------------------------------------ reading


def _opened(path: Path, mode: str) -> Any:
    import h5py  # not before it is needed: it brings an HDF5 library of its own

    return h5py.File(path, mode)


def _head(path: Path) -> dict[str, Any]:
    """The numbers in the file, and the shapes of its arrays."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no checkpoint '{path}'.")
    try:
        file = _opened(path, "r")
    except OSError:
        raise ValueError(f"'{path}' is no checkpoint, or it is damaged.") from None
    with file:
        if file.attrs.get("kind") != _KIND:
            raise ValueError(f"'{path}' is an HDF5 file, but no checkpoint.")
        head = dict(file.attrs)
        head["memory"] = list(file["memory"])
        head["origin"] = {half: float(group.attrs["t"]) for half, group in file["origin"].items()}
        shapes: dict[str, tuple[int, ...]] = {}
        file.visititems(
            lambda name, item: shapes.update({name: item.shape} if hasattr(item, "shape") else {})
        )
        head["shapes"] = shapes
    return head


def _reader(files: list[Any], name: str, errors: list[OSError]) -> Get:
    """What gets parts of an array from the file; an error waits until all ranks are through."""

    def get(place: Place) -> npt.NDArray:
        try:
            return np.asarray(files[0][name][place], dtype=float)
        except (OSError, KeyError) as error:
            errors.append(OSError(str(error)))
            return np.zeros(_sizes(place))

    return get


def _other(path: Path) -> ValueError:
    return ValueError(
        f"the checkpoint '{path}' has other unknowns than this system: take the mesh, the "
        "discretization and the degree that it was written with."
    )


def _scatter(comm: MPI.Comm, piece: Piece, get: Get) -> None:
    """Give every rank its part of an array in the file, one at a time."""
    places: Any = comm.gather(piece.place)
    if comm.rank == 0:
        for rank in range(1, comm.size):
            comm.Send(get(places[rank]), dest=rank)
        piece.values[...] = get(piece.place)
    else:
        values = np.empty(piece.values.shape)
        comm.Recv(values, source=0)
        piece.values[...] = values


def _read(path: Path, files: list[Any], errors: list[OSError]) -> None:
    files[0].close()
    if errors:
        raise ValueError(f"the checkpoint '{path}' is damaged: {errors[0]}.")


def _key(where: str, piece: Piece) -> str:
    return f"{where}/{piece.name}" if piece.name else where


def _sizes(place: Place) -> tuple[int, ...]:
    return tuple(s.stop - s.start for s in place)
