"""The scalar wave equation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import ufl

from hamfem.domain import Domain
from hamfem.physics.boundary import Condition
from hamfem.physics.coefficient import Coefficient
from hamfem.physics.operators import gradient
from hamfem.physics.source import Source
from hamfem.physics.wave import Motion, Wave


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
        rho = Coefficient(domain, density, "density", 1)
        C = Coefficient(domain, stiffness, "stiffness", len(symbol))
        super().__init__(domain, boundary, sources, symbol, rho, C, ())

    @property
    def motions(self) -> Mapping[str, Sequence[Motion]]:
        """The displacement 1, whose momentum is (rho v, 1)."""
        return {"linear_momentum": [lambda x: np.ones(x.shape[1])]}

    def densities(self, fields: Mapping[str, Any], t: Any, degree: int) -> dict[str, Any]:
        """Tables 1 and 2 of the paper.

        With L = 1/2 q.C^-1 q - 1/2 rho v² and D = (d-1)/2 u + x.grad u + t v:

            linear_momentum          rho v                 -q
            energy                   kinetic + potential   -v q
            pseudomomentum           rho v q               -q (x) q + L C
            angular_pseudomomentum   x x (rho v q)         x x (flux of pseudomomentum)
            dilation                 rho D v + t L         -D q + x L
        """
        d = self.domain.dim
        v, q = fields["v"], fields["q"]
        rho, C = self.rho.ufl(degree), self.C.ufl(degree)
        compliance = self.C.inverse_ufl(degree)
        matrix = C if C.ufl_shape else C * ufl.Identity(d)
        strain = ufl.dot(compliance, q) if compliance.ufl_shape else compliance * q
        kinetic, potential = rho * v**2 / 2, ufl.inner(q, strain) / 2
        L = potential - kinetic
        x = ufl.SpatialCoordinate(self.domain.mesh)
        p, p_flux = rho * v * q, -ufl.outer(q, q) + L * matrix
        result = {
            "linear_momentum": (rho * v, -q),
            "energy": (kinetic + potential, -v * q),
            "pseudomomentum": (p, p_flux),
        }
        if d > 1:
            result["angular_pseudomomentum"] = (turned(x, p), turned(x, p_flux))
        if "u" in fields:
            shift = (d - 1) / 2 * fields["u"] + ufl.dot(x, strain) + t * v
            result["dilation"] = (rho * shift * v + t * L, -shift * q + x * L)
        return result


def turned(x: Any, p: Any) -> Any:
    """The moment x x p of a UFL vector p, or of the columns of a matrix: a number in 2D."""
    if len(x) == 2:
        turn = ufl.as_matrix([[0, 1], [-1, 0]])  # x.(turn p) = x_1 p_2 - x_2 p_1
        return ufl.dot(ufl.dot(x, turn), p)
    if len(p.ufl_shape) == 1:
        return ufl.cross(x, p)
    columns = [ufl.cross(x, p[:, j]) for j in range(3)]
    return ufl.as_matrix([[columns[j][i] for j in range(3)] for i in range(3)])
