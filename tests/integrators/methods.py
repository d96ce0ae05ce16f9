"""Every method, with the order and the stability limit of the literature, shared by the tests."""

import math

import pytest

import hamfem as hf

INF = math.inf
# Lobatto IIIA-IIIB with three stages, of order 4: implicit in both halves
IIIA = ((0, 0, 0), (5 / 24, 1 / 3, -1 / 24), (1 / 6, 2 / 3, 1 / 6))
IIIB = ((1 / 6, -1 / 6, 0), (1 / 6, 1 / 3, 0), (1 / 6, 5 / 6, 0))
WEIGHTS = (1 / 6, 2 / 3, 1 / 6)

EXPLICIT = [
    (hf.SymplecticEuler(), 1, 2),
    (hf.Verlet(), 2, 2),
    (hf.Verlet("drift"), 2, 2),
    (hf.Ruth3(), 3, 2.507481171),
    (hf.McLachlanAtela(2), 2, 2.264483765),
    (hf.McLachlanAtela(3), 3, 4.520089518),
    (hf.Yoshida(4), 4, 1.573401947),
    (hf.Suzuki4(), 4, 2.720974539),
    (hf.PEFRL(), 4, 2.989449546),
    (hf.McLachlanS5(), 4, 3.035501218),
    (hf.BlanesMoan(4), 4, 3.132823398),
    (hf.BlanesMoan(6), 6, 3.134247522),
    (hf.Yoshida(6), 6, 2.269057996),
    (hf.KahanLi(6), 6, 2.532627388),
    (hf.Yoshida(8), 8, 2.356508139),
    (hf.SS15(), 8, 3.393234268),
    (hf.KahanLi(8), 8, 3.096438680),
    (hf.SRKN("6b"), 4, 3.163465067),
    (hf.SRKN("11b"), 6, 3.141431088),
    (hf.SRKN("14a"), 6, 3.140925083),
    (hf.SelfStarting(0.5), 2, 2),
    (hf.SelfStarting(0.3), 1, 2),
    (hf.Partitioned((0.25, 0.5, 0.25), (0.5, 0.5), name="two half Verlet steps"), 2, 4),
]
IMPLICIT = [
    (hf.Gauss(1), 2, INF),
    (hf.Gauss(2), 4, INF),
    (hf.Gauss(3), 6, INF),
    (hf.Gauss(4), 8, INF),
    (hf.SymplecticDIRK(2), 2, INF),
    (hf.SymplecticDIRK(4), 4, INF),
    (hf.SymplecticDIRK(6), 6, INF),
    (hf.Newmark(0.5, 0.25), 2, INF),
    (hf.Newmark(0.5, 0.0), 2, 2),
    (hf.Newmark(0.5, 1 / 12), 2, math.sqrt(6)),
    (hf.Newmark(0.5, 1 / 6), 2, math.sqrt(12)),
    (hf.Simpson(), 4, math.sqrt(8)),
    (hf.PartitionedRungeKutta(IIIA, WEIGHTS, IIIB, WEIGHTS, name="Lobatto IIIAB"), 4, math.sqrt(8)),
]
OTHERS = [
    (hf.SDIRK3(), 3, INF),
    (hf.RK4(), 4, math.sqrt(8)),
    (hf.Newmark(0.6, 0.3025), 1, INF),
    (hf.GeneralizedAlpha(0.0), 2, INF),
    (hf.GeneralizedAlpha(0.5), 2, INF),
    (hf.GeneralizedAlpha(1.0), 2, INF),
]
SYMPLECTIC = EXPLICIT + IMPLICIT
ALL = SYMPLECTIC + OTHERS


def each(rows):
    """Run a test for each method of the rows."""
    return pytest.mark.parametrize(
        ("method", "order", "limit"), rows, ids=[method.name for method, *_ in rows]
    )
