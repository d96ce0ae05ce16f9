"""The named sets of kicks and drifts, with their sources.

Coefficients as published; `order`, `limit` (the largest stable omega dt) and `negative_steps` are
derived from them. B is a kick, A a drift; comp(w) is Störmer-Verlet with steps w_i dt.
"""

from __future__ import annotations

from itertools import pairwise
from math import sqrt

from hamfem.integrators.partitioned import Partitioned

Weights = tuple[float, ...]


def SymplecticEuler() -> Partitioned:
    """B A: order 1, stable for omega dt < 2."""
    return Partitioned((1.0,), (1.0,), name="SymplecticEuler()", reference="de Vogelaere 1956")


def Verlet(first: str = "kick") -> Partitioned:
    """Störmer-Verlet, B/2 A B/2 or A/2 B A/2: order 2, stable for omega dt < 2.

    Kick first conserves 1/2 v'Mv + 1/2 u'(K - dt²/4 K M^-1 K)u exactly instead of the energy, drift
    first 1/2 v'(M - dt²/4 K)v + 1/2 u'Ku; the energy oscillates within O(dt²).
    """
    if first not in ("kick", "drift"):
        raise ValueError(f"Verlet begins with a 'kick' or a 'drift', not with {first!r}.")
    halves, whole = (0.5, 0.5), (1.0,)
    kicks, drifts = (halves, whole) if first == "kick" else (whole, halves)
    return Partitioned(kicks, drifts, name=f"Verlet({first!r})", reference="Störmer 1907")


def SelfStarting(alpha: float = 0.5) -> Partitioned:
    """A(1 - alpha) B A(alpha): the self-starting family of Wang and Chen.

    It has the stability limit 2 and the frequency error of the central difference method for every
    alpha and needs no starting step; of order 2 for alpha = 1/2 and of order 1 otherwise.
    """
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha must lie between 0 and 1 and is {alpha}.")
    return Partitioned(
        (1.0,), (1.0 - alpha, alpha), name=f"SelfStarting({alpha})", reference="Wang, Chen 2025"
    )


def Ruth3() -> Partitioned:
    """Order 3 with three kicks, stable for omega dt < 2.507."""
    return Partitioned(
        (7 / 24, 3 / 4, -1 / 24), (2 / 3, -2 / 3, 1.0), name="Ruth3()", reference="Ruth 1983"
    )


def McLachlanAtela(order: int) -> Partitioned:
    """Order 2 with two kicks (limit 2.264), or order 3 with three (limit 4.520), of least error."""
    _one_of("McLachlanAtela", order, (2, 3))
    kicks: Weights
    drifts: Weights
    if order == 2:
        r = 1 / sqrt(2)
        kicks, drifts = (1 - r, r), (r, 1 - r)
    else:
        a, b, c = 0.2683300957817599250, 0.9196615230173998571, -0.1879916187991597820
        kicks, drifts = (a, c, b), (b, c, a)
    return Partitioned(
        kicks, drifts, name=f"McLachlanAtela({order})", reference="McLachlan, Atela 1992"
    )


def Yoshida(order: int) -> Partitioned:
    """Compositions of Störmer-Verlet of order 4 (3 kicks), 6 (7) and 8 (15).

    Order 4 is the triple jump of Forest and Ruth, 6 solution A, 8 solution D: the common solution A
    of order 8 carries a residual of 8e-13 and is stable only up to 0.927.
    """
    _one_of("Yoshida", order, (4, 6, 8))
    outer: Weights
    if order == 4:
        w = 1 / (2 - 2 ** (1 / 3))
        outer, centre = (w,), -(2 ** (1 / 3)) * w
    elif order == 6:
        outer = (0.7845136104775572638194976, 0.2355732133593581336847932,
                 -1.177679984178871006946416)  # fmt: skip
        centre = 1.31518632068391121888425
    else:
        outer = (0.9148442462297915667487935, 0.253693336566211354146146,
                 -1.444852236860605157694731, -0.1582406353680501752040668,
                 1.938139137622525986579186, -1.960610232975310807607633,
                 0.1027998493917964406981151)  # fmt: skip
        centre = 1.708453070787281584668379
    return _composition(f"Yoshida({order})", outer, "Yoshida 1990", centre)


def Suzuki4() -> Partitioned:
    """The five-fold composition of order 4: stable for omega dt < 2.721, small error constant."""
    p = 1 / (4 - 4 ** (1 / 3))
    return _composition("Suzuki4()", (p, p), "Suzuki 1990")


def PEFRL() -> Partitioned:
    """The position-extended Forest-Ruth-like method of order 4, four kicks, limit 2.989."""
    xi, lam, chi = 0.1786178958448091, -0.2123418310626054, -0.06626458266981849
    b = (1 - 2 * lam) / 2
    return Partitioned(
        (b, lam, lam, b),
        (xi, chi, 1 - 2 * (chi + xi), chi, xi),
        name="PEFRL()",
        reference="Omelyan, Mryglod, Folk 2002",
    )


def McLachlanS5() -> Partitioned:
    """Order 4 with five kicks, limit 3.036."""
    b = (0.089269454226475244887, -0.097336042636895508015, 0.50806658841042026313)
    return Partitioned(
        (*b, *b[::-1]),
        (0.4, -0.1, 0.4, -0.1, 0.4),
        name="McLachlanS5()",
        reference="McLachlan 1995",
    )


def BlanesMoan(order: int) -> Partitioned:
    """Order 4 with six kicks (limit 3.133) or order 6 with ten (3.134), of very small error."""
    _one_of("BlanesMoan", order, (4, 6))
    a: Weights
    b: Weights
    if order == 4:
        b = (0.0792036964311957, 0.353172906049774, -0.0420650803577195)
        a = (0.209515106613362, -0.143851773179818)
    else:
        b = (0.0502627644003922, 0.413514300428344, 0.0450798897943977, -0.188054853819569,
             0.541960678450780)  # fmt: skip
        a = (0.148816447901042, -0.132385865767784, 0.067307604692185, 0.432666402578175)
    a = (*a, 0.5 - sum(a))
    return Partitioned(
        _mirrored(b, 1 - 2 * sum(b)), (*a, *a[::-1]), name=f"BlanesMoan({order})",
        reference="Blanes, Moan 2002",
    )  # fmt: skip


def KahanLi(order: int) -> Partitioned:
    """Compositions of Störmer-Verlet of order 6 (9 kicks, limit 2.533) and 8 (17, 3.096)."""
    _one_of("KahanLi", order, (6, 8))
    outer: Weights
    if order == 6:
        outer = (0.39216144400731413927925056, 0.33259913678935943859974864,
                 -0.70624617255763935980996482, 0.08221359629355080023149045)  # fmt: skip
    else:
        outer = (0.13020248308889008087881763, 0.56116298177510838456196441,
                 -0.38947496264484728640807860, 0.15884190655515560089621075,
                 -0.39590389413323757733623154, 0.18453964097831570709183254,
                 0.25837438768632204729397911, 0.29501172360931029887096624)  # fmt: skip
    return _composition(f"KahanLi({order})", outer, "Kahan, Li 1997")


def SS15() -> Partitioned:
    """A composition of Störmer-Verlet of order 8 with 15 kicks, limit 3.393."""
    outer = (0.7416703643506129534, -0.4091008258000315940, 0.1907547102962383800,
             -0.5738624711160822667, 0.2990641813036559238, 0.3346249182452981838,
             0.3152930923967665966)  # fmt: skip
    return _composition("SS15()", outer, "Suzuki, Umeno 1993; McLachlan 1995")


def SRKN(kind: str) -> Partitioned:
    """Nyström sets of Blanes and Moan: "6b" of order 4, "11b" and "14a" of order 6.

    The order rests on a force that is linear in q, as in every system here; a load on the q
    equation must come with its antiderivative.
    """
    a: Weights
    b: Weights
    kicks: Weights
    drifts: Weights
    if kind == "6b":
        b = (0.0829844064174052, 0.396309801498368, -0.0390563049223486)
        a = (0.245298957184271, 0.604872665711080)
        a = (*a, 0.5 - sum(a))
        kicks, drifts = _mirrored(b, 1 - 2 * sum(b)), (*a, *a[::-1])
    elif kind == "11b":
        b = (0.0414649985182624, 0.198128671918067, -0.0400061921041533, 0.0752539843015807,
             -0.0115113874206879)  # fmt: skip
        b = (*b, 0.5 - sum(b))
        a = (0.123229775946271, 0.290553797799558, -0.127049212625417, -0.246331761062075,
             0.357208872795928)  # fmt: skip
        kicks, drifts = (*b, *b[::-1]), _mirrored(a, 1 - 2 * sum(a))
    elif kind == "14a":
        a = (0.0378593198406116, 0.102635633102435, -0.0258678882665587, 0.314241403071447,
             -0.130144459517415, 0.106417700369543, -0.00879424312851058)  # fmt: skip
        b = (0.09171915262446165, 0.183983170005006, -0.05653436583288827, 0.004914688774712854,
             0.143761127168358, 0.328567693746804)  # fmt: skip
        b = (*b, 0.5 - sum(b))
        kicks, drifts = (*b, *b[::-1]), _mirrored(a, 1 - 2 * sum(a))
    else:
        raise ValueError(f"there is no SRKN set {kind!r}: choose '6b', '11b' or '14a'.")
    return Partitioned(
        kicks, drifts, name=f"SRKN({kind!r})", nystrom=True, reference="Blanes, Moan 2002"
    )


def _composition(
    name: str, outer: tuple[float, ...], reference: str, centre: float | None = None
) -> Partitioned:
    """Störmer-Verlet, kick first, with steps outer, centre, outer mirrored."""
    w = _mirrored(outer, 1 - 2 * sum(outer) if centre is None else centre)
    kicks = [w[0] / 2, *((left + right) / 2 for left, right in pairwise(w)), w[-1] / 2]
    return Partitioned(tuple(kicks), w, name=name, reference=reference)


def _mirrored(outer: tuple[float, ...], centre: float) -> tuple[float, ...]:
    return (*outer, centre, *outer[::-1])


def _one_of(name: str, order: int, orders: tuple[int, ...]) -> None:
    if order not in orders:
        raise ValueError(
            f"there is no {name} of order {order!r}: choose {', '.join(map(str, orders))}."
        )
