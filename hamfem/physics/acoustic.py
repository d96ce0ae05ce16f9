"""The scalar wave equation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hamfem.domain import Domain
from hamfem.physics.boundary import Condition, check


@dataclass(frozen=True, eq=False)
class Acoustic:
    """rho d²u/dt² = div(kappa grad u), with u = 0 on clamped and kappa du/dn = 0 on free sides.

    Attributes:
        domain: The mesh and the names of its sides.
        density: rho, a positive number.
        stiffness: kappa, a positive number.
        boundary: The conditions; a side that none names is free.
    """

    domain: Domain
    density: float = 1.0
    stiffness: float = 1.0
    boundary: Sequence[Condition] = ()

    def __post_init__(self) -> None:
        for name, value in (("density", self.density), ("stiffness", self.stiffness)):
            if not math.isfinite(value) or value <= 0:
                raise ValueError(f"the {name} must be a positive number and is {value}.")
        check(self.domain, self.boundary)
