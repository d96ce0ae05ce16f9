"""Errors that every rank raises, so that no rank is left waiting in a collective call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from mpi4py import MPI

T = TypeVar("T")


def on_root(comm: MPI.Comm, work: Callable[[], T]) -> T:
    """Do `work` on rank 0 and give its result to all; if it fails there, it fails on all."""
    result: tuple[T | None, Exception | None] = (None, None)
    if comm.rank == 0:
        try:
            result = (work(), None)
        except Exception as error:
            result = (None, error)
    value, failure = comm.bcast(result, root=0)
    if failure is not None:
        raise failure
    return value
