"""Maxwell's equations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import ufl

from hamfem.domain import Domain
from hamfem.physics.acoustic import turned
from hamfem.physics.boundary import Clamped, Condition
from hamfem.physics.coefficient import Coefficient
from hamfem.physics.data import since_start
from hamfem.physics.operators import curl, rotated_gradient
from hamfem.physics.source import Source
from hamfem.physics.wave import Motion, Wave

POLARIZATIONS = ("TE", "TM")


class Maxwell(Wave):
    """eps dE/dt = curl H - J, dB/dt = -curl E with B = mu H.

    As a wave it is eps d²A/dt² = -curl(1/mu curl A) + J with the potential A: its displacement is
    u = A, its velocity v = dA/dt = -E, its flux H = 1/mu curl A; B = curl A.

    Args:
        domain: The mesh, of 2 or 3 dimensions.
        permittivity: eps, positive: a number, {region: number}, a callable x -> array, or UFL; also
            a symmetric positive definite matrix, as large as E has components.
        permeability: mu, likewise, as large as H has components.
        polarization: In 2D, "TE" with E in the plane and H across it, or "TM" with H in the plane
            and E across it.
        boundary: The conditions. A perfect electric conductor (PEC) is hf.Clamped: the tangential
            part of E is `value`, 0 if none is given. A perfect magnetic conductor (PMC) is hf.Free:
            H x n = value, with the outward normal n; a value is a current K that flows on the wall.
            hf.Impedance absorbs (Silver and Müller): H x n - Y E_t = value, Y = sqrt(eps/mu), and a
            value of -2 Y E_t sends a plane wave E in. hf.Periodic joins sides. A side that none
            names is a PMC. Values are vectors along the wall; numbers where E is across the plane.
        sources: J, a sum of hf.Source: currents per area.
    """

    flux_name = "H"
    tracked = ("E", "D", "B", "H", "curl_E", "curl_H", "rate_E", "rate_H")

    def __init__(
        self,
        domain: Domain,
        permittivity: Any = 1.0,
        permeability: Any = 1.0,
        polarization: str | None = None,
        boundary: Sequence[Condition] = (),
        sources: Sequence[Source] = (),
    ) -> None:
        if domain.dim == 1:
            raise ValueError(
                "electromagnetic waves have 2 or 3 dimensions: for one of them take hf.Acoustic."
            )
        if domain.dim == 2 and polarization not in POLARIZATIONS:
            raise ValueError(
                "in 2D the polarization must be chosen: 'TE' (E in the plane, H across it) or 'TM' "
                f"(H in the plane, E across it); it is {polarization!r}."
            )
        if domain.dim == 3 and polarization is not None:
            raise ValueError(
                f"in 3D there is no polarization to choose and it is {polarization!r}: leave it "
                "out."
            )
        self.polarization = polarization
        scalar = polarization == "TM"
        symbol = rotated_gradient() if scalar else curl(domain.dim)
        fluxes, components = symbol.shape[:2]
        eps = Coefficient(domain, permittivity, "permittivity", components)
        self.mu = Coefficient(domain, permeability, "permeability", fluxes)
        self.tangential = not scalar
        shape = () if scalar else (domain.dim,)
        super().__init__(domain, boundary, sources, symbol, eps, self.mu.inverse(), shape)
        # What a wall does to E is told to the displacement A, which begins with 0 there.
        self.boundary = tuple(
            Clamped(*c.names, value=since_start(c.value, -1.0)) if isinstance(c, Clamped) else c
            for c in self.boundary
        )

    @property
    def eps(self) -> Coefficient:
        """The permittivity."""
        return self.rho

    @property
    def motions(self) -> Mapping[str, Sequence[Motion]]:
        """Across the plane, E = 1: its (D, 1) is the electric flux, which no free wall changes."""
        return {"electric_flux": [lambda x: np.ones(x.shape[1])]} if self.scalar else {}

    def densities(self, fields: Mapping[str, Any], t: Any, degree: int) -> dict[str, Any]:
        """Tables 3 and 4 of the paper, for homogeneous media without charges and currents.

        With D = eps E, B = mu H, c² = 1/(eps mu) and X the tensor of the last row but one:

            energy                   (D.E + B.H)/2                 E x H
            linear_momentum          D x B                         energy 1 - E (x) D - H (x) B
            angular_momentum         x x (D x B)                   x x (flux of linear momentum)
            optical_chirality        (D.curl E + B.curl H)/2       (E x curl H + curl E x H)/2
            optical_chirality_flux   (E x curl H + curl E x H)/2   X
            zilch                    X_ij                          c² d_ij (E x curl H + curl E x H)/2
                                      + c²/2 (H_j grad E_i - E_i grad H_j + H_i grad E_j - E_j grad H_i)

            X = c² optical_chirality 1 - sym(1/mu E (x) curl E + 1/eps H (x) curl H)

        The paper prints 1 for the factor c² of the first term of X; its local law then has a
        residual of 0.1 on superpositions of plane waves, and of 4e-12 with c². In 2D the last three
        rows are 0 and left out.
        """  # noqa: E501
        eps, mu = self.eps.ufl(degree), self.mu.ufl(degree)
        E, D = _pair(fields, "E", "D", eps, lambda: self.eps.inverse_ufl(degree))
        H, B = _pair(fields, "H", "B", mu, lambda: self.mu.inverse_ufl(degree))
        d = self.domain.dim
        E3, D3, B3, H3 = (_in_space(f) for f in (E, D, B, H))
        energy = (ufl.inner(D, E) + ufl.inner(B, H)) / 2
        P = _in_plane(ufl.cross(D3, B3), d)
        stress = ufl.outer(E3, D3) + ufl.outer(H3, B3)
        if d == 2:
            stress = ufl.as_matrix([[stress[i, j] for j in range(2)] for i in range(2)])
        flux = energy * ufl.Identity(d) - stress
        x = ufl.SpatialCoordinate(self.domain.mesh)
        result = {
            "energy": (energy, _in_plane(ufl.cross(E3, H3), d)),
            "linear_momentum": (P, flux),
            "angular_momentum": (turned(x, P), turned(x, flux)),
        }
        known = {"curl_E", "rate_H"} & set(fields) and {"curl_H", "rate_E"} & set(fields)
        if d == 3 and known and not (eps.ufl_shape or mu.ufl_shape):
            curl_E = fields["curl_E"] if "curl_E" in fields else -mu * fields["rate_H"]
            curl_H = fields["curl_H"] if "curl_H" in fields else eps * fields["rate_E"]
            result |= _lipkin(E, B, H, curl_E, curl_H, eps, mu)
        return result

    def derived(self, known: Iterable[str]) -> dict[str, tuple[str, Callable[[Any], Any]]]:
        """Those of E, B and H that the discretization does not have."""
        ways: dict[str, tuple[str, Callable[[Any], Any]]] = {
            "E": ("D", lambda D: _times(self.eps.inverse_ufl(_degree(D)), D)),
            "H": ("B", lambda B: _times(self.mu.inverse_ufl(_degree(B)), B)),
            "B": ("H", lambda H: _times(self.mu.ufl(_degree(H)), H)),
        }
        return {name: way for name, way in ways.items() if name not in known}


def _degree(f: Any) -> int:
    """Of the polynomials of a function."""
    return f.function_space.ufl_element().embedded_superdegree


def _pair(
    fields: Mapping[str, Any], f: str, g: str, c: Any, inverse: Callable[[], Any]
) -> tuple[Any, Any]:
    """Both f and g = c f, of which one at least is there."""
    if f in fields:
        return fields[f], fields[g] if g in fields else _times(c, fields[f])
    return _times(inverse(), fields[g]), fields[g]


def _lipkin(E: Any, B: Any, H: Any, curl_E: Any, curl_H: Any, eps: Any, mu: Any) -> dict[str, Any]:
    """The conserved quantities of Lipkin."""
    chirality = (eps * ufl.inner(E, curl_E) + ufl.inner(B, curl_H)) / 2
    flow = (ufl.cross(E, curl_H) + ufl.cross(curl_E, H)) / 2
    c2 = 1 / (eps * mu)
    pairs = ufl.outer(E, curl_E) / mu + ufl.outer(H, curl_H) / eps
    tensor = c2 * chirality * ufl.Identity(3) - ufl.sym(pairs)
    dE, dH = ufl.grad(E), ufl.grad(H)

    def entry(i: int, j: int, k: int) -> Any:
        value = H[j] * dE[i, k] - E[i] * dH[j, k] + H[i] * dE[j, k] - E[j] * dH[i, k]
        return c2 * (value / 2 + (flow[k] if i == j else 0))

    zilch = [[[entry(i, j, k) for k in range(3)] for j in range(3)] for i in range(3)]
    return {
        "optical_chirality": (chirality, flow),
        "optical_chirality_flux": (flow, tensor),
        "zilch": (tensor, ufl.as_tensor(zilch)),
    }


def _times(coefficient: Any, f: Any) -> Any:
    """A number or a matrix times a field."""
    return ufl.dot(coefficient, f) if coefficient.ufl_shape else coefficient * f


def _in_space(f: Any) -> Any:
    """A field of the plane as one of space: numbers stand across it."""
    if not f.ufl_shape:
        return ufl.as_vector([0, 0, f])
    return f if len(f) == 3 else ufl.as_vector([f[0], f[1], 0])


def _in_plane(f: Any, dim: int) -> Any:
    """The first components of a vector of space."""
    return ufl.as_vector([f[i] for i in range(dim)])
