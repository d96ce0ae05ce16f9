"""The scalar wave equation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hamfem.domain import Domain
from hamfem.physics.boundary import Condition
from hamfem.physics.coefficient import Coefficient
from hamfem.physics.operators import gradient
from hamfem.physics.source import Source
from hamfem.physics.wave import Wave


class Acoustic(Wave):
    """rho d²u/dt² = div(kappa grad u) + f: sound, membranes, antiplane shear.

    Args:
        domain: The mesh and the names of its sides.
        density: rho, positive: a number, {region: number}, a callable x -> array, or UFL.
        stiffness: kappa, positive, likewise; also a symmetric positive definite matrix.
        boundary: The conditions: u = value on hf.Clamped, kappa du/dn = value on hf.Free,
            kappa du/dn + sqrt(rho kappa) du/dt = value on hf.Impedance, and hf.Periodic. A side
            that none names is free.
        sources: f, a sum of hf.Source.
    """

    def __init__(
        self,
        domain: Domain,
        density: Any = 1.0,
        stiffness: Any = 1.0,
        boundary: Sequence[Condition] = (),
        sources: Sequence[Source] = (),
    ) -> None:
        symbol = gradient(domain.dim)
        for name, value in (
            ("domain", domain),
            ("boundary", tuple(boundary)),
            ("sources", tuple(sources)),
            ("symbol", symbol),
            ("rho", Coefficient(domain, density, "density", 1)),
            ("C", Coefficient(domain, stiffness, "stiffness", len(symbol))),
            ("scalar", True),
            ("tangential", False),
        ):
            object.__setattr__(self, name, value)
        self._check()
