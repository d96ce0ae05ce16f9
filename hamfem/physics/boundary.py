"""Conditions on named sides. A side that no condition names is free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hamfem.domain import Domain
from hamfem.physics.data import Data, data


@dataclass(frozen=True, init=False, eq=False)
class _Named:
    """A condition with data on some sides."""

    names: tuple[str, ...]
    value: Data

    def __init__(self, *names: str, value: Any = None) -> None:
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "value", data(value))


class Clamped(_Named):
    """u = value on the named sides; 0 if none is given."""


class Free(_Named):
    """The flux through the named sides is prescribed: D(n)'q = value; 0 if none is given."""


class Impedance(_Named):
    """A first-order absorbing wall: D(n)'q + Y du/dt = value, with the impedance Y = sqrt(rho C).

    A plane wave that meets it at a right angle goes through; `value` sends one in.
    """


@dataclass(frozen=True)
class Periodic:
    """What leaves through side `first` comes in through side `second`, its translate."""

    first: str
    second: str

    @property
    def names(self) -> tuple[str, ...]:
        """Both sides."""
        return (self.first, self.second)


Condition = Clamped | Free | Impedance | Periodic


def check(domain: Domain, conditions: Sequence[Condition]) -> None:
    """Refuse names that the mesh lacks and sides with two conditions."""
    seen: set[str] = set()
    for condition in conditions:
        if not isinstance(condition, Condition):
            raise TypeError(
                f"{condition!r} is not a boundary condition: use hf.Clamped, hf.Free, "
                "hf.Impedance or hf.Periodic."
            )
        if not condition.names:
            raise ValueError(f"hf.{type(condition).__name__}() names no side: name at least one.")
        domain.check_boundaries(*condition.names)
        for name in condition.names:
            if name in seen:
                raise ValueError(f"side '{name}' has two conditions: leave one.")
            seen.add(name)


def names(conditions: Sequence[Condition], kind: type) -> list[str]:
    """The sides that have a condition of this kind."""
    return [name for c in conditions if isinstance(c, kind) for name in c.names]
