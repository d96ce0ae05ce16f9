"""Conditions on named sides. A side that no condition names is free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hamfem.domain import Domain


@dataclass(frozen=True, init=False)
class Clamped:
    """u = 0 on the named sides."""

    names: tuple[str, ...]

    def __init__(self, *names: str) -> None:
        object.__setattr__(self, "names", names)


@dataclass(frozen=True, init=False)
class Free:
    """No force on the named sides: the flux C D u vanishes there."""

    names: tuple[str, ...]

    def __init__(self, *names: str) -> None:
        object.__setattr__(self, "names", names)


Condition = Clamped | Free


def check(domain: Domain, conditions: Sequence[Condition]) -> None:
    """Refuse names that the mesh lacks and sides with two conditions."""
    seen: set[str] = set()
    for condition in conditions:
        if not isinstance(condition, Condition):
            raise TypeError(
                f"{condition!r} is not a boundary condition: use hf.Clamped or hf.Free."
            )
        if not condition.names:
            raise ValueError(f"hf.{type(condition).__name__}() names no side: name at least one.")
        domain.facets(*condition.names)
        for name in condition.names:
            if name in seen:
                raise ValueError(f"side '{name}' has two conditions: leave one.")
            seen.add(name)


def clamped_names(conditions: Sequence[Condition]) -> list[str]:
    """The sides on which u = 0."""
    return [name for c in conditions if isinstance(c, Clamped) for name in c.names]
