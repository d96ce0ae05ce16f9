"""Linear elastodynamics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import ufl
from dolfinx import fem

from hamfem.domain import Domain
from hamfem.physics import mandel
from hamfem.physics.acoustic import turned
from hamfem.physics.boundary import Condition, Periodic
from hamfem.physics.coefficient import Coefficient
from hamfem.physics.operators import symmetric_gradient
from hamfem.physics.source import Source
from hamfem.physics.wave import Motion, Wave

Array = npt.NDArray[Any]


class Elastic(Wave):
    """rho d²u/dt² = div sigma + f with sigma = C eps(u).

    Args:
        domain: The mesh, of 2 or 3 dimensions.
        density: rho, positive: a number, {region: number}, a callable x -> array, or UFL.
        lam: Lamé's first parameter, likewise; 2 mu + d lam must be positive.
        mu: The shear modulus, likewise.
        stiffness: In place of lam and mu: a symmetric positive definite matrix in Mandel's
            notation (see hf.mandel), 3 x 3 in 2D and 6 x 6 in 3D; also per region, as a callable or
            as UFL.
        plane: In 2D, "strain" for a body that cannot widen in the third direction, or "stress" for
            a thin sheet. A 3 x 3 stiffness is taken as it is.
        boundary: The conditions: u = value on hf.Clamped, sigma n = value on hf.Free,
            sigma n + Y du/dt = value with Y = sqrt(rho C(n)) on hf.Impedance (Lysmer's: rho c_P
            along the normal and rho c_S across it), and hf.Periodic. A side that none names is
            free of traction.
        sources: f, a sum of hf.Source, forces per volume.
    """

    flux_name = "stress"
    tracked = ("u", "v", "stress")

    @property
    def isotropic(self) -> bool:
        """Whether all directions are alike."""
        return self.lam is not None

    def __init__(
        self,
        domain: Domain,
        density: Any = 1.0,
        lam: Any = None,
        mu: Any = None,
        stiffness: Any = None,
        plane: str = "strain",
        boundary: Sequence[Condition] = (),
        sources: Sequence[Source] = (),
    ) -> None:
        if domain.dim == 1:
            raise ValueError("an elastic body has 2 or 3 dimensions: for a rod take hf.Acoustic.")
        if plane not in ("strain", "stress"):
            raise ValueError(f"plane is 'strain' or 'stress', not {plane!r}.")
        if stiffness is not None and (lam is not None or mu is not None):
            raise ValueError("give either lam and mu or a stiffness, not both.")
        self.plane = plane
        self.lam: Any = None
        self.mu: Any = None
        symbol = symmetric_gradient(domain.dim)
        if stiffness is None:
            self.lam, self.mu = (1.0 if m is None else m for m in (lam, mu))
            if domain.dim == 2 and plane == "stress":
                self.lam = combined(domain, _sheet, self.lam, self.mu)
            stiffness = _isotropic(domain, self.lam, self.mu)
        rho = Coefficient(domain, density, "density", 1)
        C = Coefficient(domain, stiffness, "stiffness", len(symbol))
        if not C.is_matrix:
            raise ValueError(
                f"an elastic stiffness is a {len(symbol)} x {len(symbol)} matrix in Mandel's "
                "notation and not a number: give lam and mu, or see hf.mandel."
            )
        super().__init__(domain, boundary, sources, symbol, rho, C, (domain.dim,))

    @classmethod
    def from_young(
        cls,
        domain: Domain,
        density: Any = 1.0,
        E: Any = 1.0,
        nu: Any = 0.25,
        plane: str = "strain",
        boundary: Sequence[Condition] = (),
        sources: Sequence[Source] = (),
    ) -> Elastic:
        """From Young's modulus E and Poisson's ratio nu, -1 < nu < 1/2."""
        _check_poisson(domain, nu)
        mu = combined(domain, lambda E, nu: E / (2 * (1 + nu)), E, nu)
        lam = combined(domain, lambda E, nu: E * nu / ((1 + nu) * (1 - 2 * nu)), E, nu)
        return cls(domain, density, lam, mu, None, plane, boundary, sources)

    @classmethod
    def from_speeds(
        cls,
        domain: Domain,
        density: Any = 1.0,
        p: Any = 1.7,
        s: Any = 1.0,
        plane: str = "strain",
        boundary: Sequence[Condition] = (),
        sources: Sequence[Source] = (),
    ) -> Elastic:
        """From the speeds of pressure and shear waves in the bulk: mu = rho s², p > 2/sqrt(3) s."""
        mu = combined(domain, lambda rho, s: rho * s * s, density, s)
        lam = combined(domain, lambda rho, p, s: rho * (p * p - 2 * s * s), density, p, s)
        return cls(domain, density, lam, mu, None, plane, boundary, sources)

    @property
    def motions(self) -> Mapping[str, Sequence[Motion]]:
        """Translations and, unless sides are periodic, rotations about the origin."""
        d = self.domain.dim
        translations = [_translation(np.eye(d)[i]) for i in range(d)]
        if any(isinstance(c, Periodic) for c in self.boundary):
            return {"linear_momentum": translations}
        return {"linear_momentum": translations, "angular_momentum": rotations(d)}

    # ------------------------------------------------------------ local conservation laws

    def densities(self, fields: Mapping[str, Any], t: Any, degree: int) -> dict[str, Any]:
        """Density and flux of the momenta, the energy and, of u, the pseudomomentum.

        With L = 1/2 sigma:eps - 1/2 rho |v|², the last one for constant coefficients:

            linear_momentum    rho v                 -sigma
            angular_momentum   x x rho v             -x x sigma
            energy             kinetic + potential   -v.sigma
            pseudomomentum     rho grad(u)'v         -grad(u)'sigma + L 1
        """
        v, sigma = fields["v"], fields["stress"]
        rho = self.rho.ufl(degree)
        x = ufl.SpatialCoordinate(self.domain.mesh)
        q = self.in_mandel(ufl.sym(sigma))
        kinetic = rho * ufl.inner(v, v) / 2
        potential = ufl.inner(q, ufl.dot(self.C.inverse_ufl(degree), q)) / 2
        result = {
            "linear_momentum": (rho * v, -sigma),
            "energy": (kinetic + potential, -ufl.dot(v, sigma)),
            "angular_momentum": (turned(x, rho * v), -turned(x, sigma)),
        }
        if "u" in fields:
            gradient = ufl.grad(fields["u"])
            L = (potential - kinetic) * ufl.Identity(self.domain.dim)
            result["pseudomomentum"] = (
                rho * ufl.dot(v, gradient),
                L - ufl.dot(gradient.T, sigma),
            )
        return result

    def in_mandel(self, tensor: Any) -> Any:
        """A symmetric UFL tensor as a vector in Mandel's notation."""
        return ufl.as_vector([
            sum(float(row[i, j]) * tensor[int(i), int(j)] for i, j in zip(*np.nonzero(row)))
            for row in self.symbol
        ])  # fmt: skip

    def derived(self, known: Iterable[str]) -> dict[str, tuple[str, Callable[[Any], Any]]]:
        """The von Mises stress, if the stress out of the plane is known."""
        if self.domain.dim == 2 and self.plane != "stress" and self.lam is None:
            return {}
        return {"von_mises": ("stress", self._von_mises)}

    def _von_mises(self, stress: Any) -> Any:
        """sqrt(3/2) |dev sigma|."""
        sigma = ufl.sym(stress)
        if self.domain.dim == 2:
            out: Any = 0.0
            if self.plane != "stress":
                C = self.C.ufl(2)
                lam, mu = C[0, 1], C[2, 2] / 2
                out = lam / (2 * (lam + mu)) * ufl.tr(sigma)
            sigma = ufl.as_matrix(
                [[sigma[0, 0], sigma[0, 1], 0], [sigma[1, 0], sigma[1, 1], 0], [0, 0, out]]
            )
        deviator = sigma - ufl.tr(sigma) / 3 * ufl.Identity(3)
        return ufl.sqrt(1.5 * ufl.inner(deviator, deviator))


def _translation(e: Array) -> Motion:
    return lambda x: np.outer(e, np.ones(x.shape[1]))


def rotations(dim: int) -> list[Motion]:
    """The fields x -> e x x of rotations about the origin, one in 2D and three in 3D."""
    if dim == 2:
        return [lambda x: np.stack([-x[1], x[0]])]

    def rotation(e: Array) -> Motion:
        return lambda x: np.cross(e, x.T).T

    return [rotation(e) for e in np.eye(3)]


# ---------------------------------------------------------------- parameters of every kind


def combined(domain: Domain, f: Callable[..., Any], *parameters: Any) -> Any:
    """F of parameters that are numbers, {region: number}, callables or UFL: again one of these."""
    kinds = [
        next((k for k in (ufl.core.expr.Expr, Mapping) if isinstance(p, k)), callable(p))
        for p in parameters
    ]
    if ufl.core.expr.Expr in kinds:
        parts = [_as_ufl(domain, p) for p in parameters]
        return f(*parts)
    if Mapping in kinds:
        if True in kinds:
            raise ValueError(
                "parameters per region and callables do not go together: give all of them per "
                "region, or all as callables."
            )
        regions = dict.fromkeys(r for p in parameters if isinstance(p, Mapping) for r in p)
        for p in parameters:
            if isinstance(p, Mapping) and set(p) != set(regions):
                raise ValueError(
                    f"parameters per region must name the same regions: {list(p)} and "
                    f"{list(regions)} differ."
                )
        return {r: f(*(p[r] if isinstance(p, Mapping) else p for p in parameters)) for r in regions}
    if True in kinds:

        def function(x: Array) -> Array:
            values = [np.asarray(p(x) if callable(p) else p, float) for p in parameters]
            return f(*(np.broadcast_to(v, x.shape[1]) for v in values))

        return function
    return f(*parameters)


def _as_ufl(domain: Domain, p: Any) -> Any:
    if isinstance(p, ufl.core.expr.Expr):
        return p
    if isinstance(p, Mapping) or callable(p):
        raise ValueError(
            "UFL parameters go together with numbers and UFL only: write the others as UFL too."
        )
    return fem.Constant(domain.mesh, float(p))


def _isotropic(domain: Domain, lam: Any, mu: Any) -> Any:
    """The stiffness matrix of Hooke's law, as whatever kind lam and mu are."""
    d = domain.dim

    def stiffness(lam: Any, mu: Any) -> Any:
        if isinstance(lam, ufl.core.expr.Expr):
            size = d * (d + 1) // 2
            return ufl.as_matrix([
                [2 * mu * (a == b) + lam * (a < d and b < d) for b in range(size)]
                for a in range(size)
            ])  # fmt: skip
        return mandel.isotropic(lam, mu, d)

    return combined(domain, stiffness, lam, mu)


def _sheet(lam: Any, mu: Any) -> Any:
    """Lam of plane stress."""
    return 2 * lam * mu / (lam + 2 * mu)


def _check_poisson(domain: Domain, nu: Any) -> None:
    """Refuse ratios that no material has; those of functions show in the stiffness."""
    values = list(nu.values()) if isinstance(nu, Mapping) else [nu]
    for value in values:
        if isinstance(value, int | float | np.number) and not -1 < value < 0.5:
            raise ValueError(
                f"Poisson's ratio must lie between -1 and 1/2 and is {value}: for a nearly "
                "incompressible material take nu = 0.4999 with hf.mixed or hf.hdg."
            )
