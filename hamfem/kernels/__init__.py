"""Kernels in C, compiled for this machine at first use and kept in the user's cache.

The compiler is there anyway, because FFCx needs it. Batches as wide as the machine's vectors, with
their lengths known at compile time, are what numba and portable binaries cannot give.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mpi4py import MPI

import cffi  # type: ignore[import-untyped]

# No -ffast-math: the sums are written in the order in which they are wanted, with vectors, and
# infinities must stay visible. Products and sums are fused by default.
FLAGS = ("-std=gnu11", "-O3", "-march=native", "-fPIC", "-shared")
_loaded: dict[tuple[Path, str], tuple[Any, Any]] = {}


def load(
    name: str,
    declarations: str,
    macros: Mapping[str, int],
    comm: MPI.Comm,
    libraries: Sequence[str] = (),
) -> tuple[cffi.FFI, Any]:
    """The library of `name`.c in this folder, compiled with the macros; collective.

    It is linked with the `libraries`.

    Returns cffi's interface, for its pointers, and the library with the declared functions. Rank 0
    compiles; the others find the result, or compile on their own if their machine is another.
    """
    result: tuple[Any, Any] = (None, None)
    failure: RuntimeError | None = None
    for first in (True, False):
        if (comm.rank == 0) == first:
            try:
                result = _library(name, declarations, macros, libraries)
            except RuntimeError as error:
                failure = error
        comm.barrier()
    for failure in comm.allgather(failure):
        if failure is not None:
            raise failure
    return result


def cache() -> Path:
    """Where the libraries are kept: hamfem in XDG_CACHE_HOME, or in .cache of the home."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hamfem"


def _library(
    name: str, declarations: str, macros: Mapping[str, int], libraries: Sequence[str]
) -> tuple[cffi.FFI, Any]:
    source = Path(__file__).with_name(f"{name}.c")
    command = [*shlex.split(os.environ.get("CC") or "cc"), *FLAGS]
    command += [f"-D{macro}={value}" for macro, value in sorted(macros.items())]
    linked = [f"-l{library}" for library in libraries]
    texts = [path.read_text() for path in (source, *sorted(source.parent.glob("*.h")))]
    identity = "\n".join([*texts, *command, *linked, _processor()])
    path = cache() / f"{name}_{hashlib.sha256(identity.encode()).hexdigest()[:24]}.so"
    if (path, declarations) not in _loaded:
        if not path.exists():
            _compile(command, source, linked, path)
        ffi = cffi.FFI()
        ffi.cdef(declarations)
        try:
            _loaded[path, declarations] = (ffi, ffi.dlopen(str(path)))
        except OSError as error:
            raise RuntimeError(f"{path} cannot be loaded, remove it: {error}.") from None
    return _loaded[path, declarations]


def _compile(command: list[str], source: Path, linked: list[str], path: Path) -> None:
    """Compile under a name of its own: nobody ever sees half a library, whoever else compiles."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, unfinished = tempfile.mkstemp(suffix=".so", prefix=path.stem, dir=path.parent)
    except OSError as error:
        raise RuntimeError(
            f"compiled kernels cannot be kept in {path.parent} ({error.strerror}): set "
            "XDG_CACHE_HOME to a directory that you own."
        ) from None
    os.close(handle)
    try:
        done = subprocess.run(
            [*command, "-o", unfinished, str(source), *linked],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            os.replace(unfinished, path)
            return
        words = f"{shlex.join(command)} failed: " + " ".join(done.stderr.split())[:500]
    except OSError as error:
        words = f"{command[0]} cannot be run ({error.strerror})"
    finally:
        Path(unfinished).unlink(missing_ok=True)
    raise RuntimeError(
        f"the kernel {source.name} needs a C compiler, set CC to one that works: {words}"
    )


def _processor() -> str:
    """What -march=native depends on."""
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    keys = {"vendor_id", "cpu family", "model", "model name", "stepping", "flags", "cpu"}
    keys |= {"Features", "CPU implementer", "CPU part", "CPU variant", "isa", "uarch"}
    native = [line for line in lines if line.split(":")[0].strip() in keys]
    return "\n".join([platform.machine(), *native])
