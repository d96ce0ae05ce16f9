"""How the numbers of a vector are spread over the ranks: what a file needs to know of them."""

from __future__ import annotations

from typing import Any, NamedTuple

from petsc4py import PETSc

import numpy.typing as npt

Array = npt.NDArray[Any]


class Piece(NamedTuple):
    """What this rank has of an array whose order does not depend on the number of ranks.

    Attributes:
        name: Of the array, among those that a vector consists of; "" for the only one.
        shape: That of the whole array.
        place: Where in it this rank's part is.
        values: The part.
    """

    name: str
    shape: tuple[int, ...]
    place: tuple[slice, ...]
    values: Array


def in_rows(x: PETSc.Vec) -> list[Piece]:
    """A vector as one array in the order of its global numbers."""
    return [Piece("", (x.size,), (slice(*x.owner_range),), x.array_r.copy())]
