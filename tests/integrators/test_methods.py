"""Order, structure, stability and reversibility of every method, on both kinds of system."""

import math

import numpy as np
import pytest

import hamfem as hf
from hamfem.invariants import propagator
from tests.integrators.methods import ALL, EXPLICIT, IMPLICIT, SYMPLECTIC, each
from tests.small import Small, run, vector
from tests.verification import drift
from tests.verification import order as fitted_order

KINDS = pytest.mark.parametrize("kind", ["second", "first"])


@each(ALL)
@KINDS
@pytest.mark.parametrize("forced", [False, True], ids=["free", "forced"])
def test_order(method, order, limit, kind, forced):
    assert method.order == order
    small = Small(kind, forced)
    # The large error constants of order 8 come close to round-off before they come close to their
    # order: a longer time makes the error larger at the same dt.
    T, floor = (100.0, 1e-12) if isinstance(method, hf.Partitioned) and order == 8 else (2.0, 1e-12)
    h, errors = [], []
    for n in (1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128):
        dt = 1.0 / n
        if dt > 0.5 * method.stable_dt(small.system):
            continue
        error = small.error(run(small.system, method, small.state(), dt, T))
        if error < floor:
            break
        h.append(T / math.ceil(T / dt - 1e-9))
        errors.append(error)
    assert len(h) >= 3
    assert fitted_order(h[-2:], errors[-2:], 0) == pytest.approx(order, abs=0.1)


@each(ALL)
@KINDS
def test_a_step_is_a_poisson_map_or_says_that_it_is_not(method, order, limit, kind):
    result = hf.structure(Small(kind).system, method, 0.3)
    assert result.antisymmetry < 1e-15
    assert result.symmetry < 1e-15
    assert result.negative_energy == 0
    assert result.casimir_count == (1 if kind == "first" else 0)
    assert result.casimirs < 1e-13  # every method conserves linear invariants
    if method.symplectic:
        assert result.poisson < 1e-13
    elif method.name != "GeneralizedAlpha(1)":  # one step of it, from rest, is the midpoint rule's
        assert result.poisson > 1e-6


@each(ALL)
@KINDS
def test_symmetric_methods_go_back_to_where_they_came_from(method, order, limit, kind):
    small = Small(kind, forced=True)
    dt = min(0.05, 0.4 * method.stable_dt(small.system))
    state = run(small.system, method, small.state(), dt, 5.0)
    assert np.linalg.norm(vector(state) - small.z0) > 0.1
    state.memory.clear()
    back = np.linalg.norm(vector(run(small.system, method, state, -dt, 0.0)) - small.z0)
    back /= np.linalg.norm(small.z0)
    if getattr(method, "symmetric", method.symplectic):
        assert back < 1e-12
    elif not method.symplectic and order < 4 and method.name != "GeneralizedAlpha(1)":
        assert back > 1e-9


@each(ALL)
def test_stability_limit(method, order, limit):
    # one mass, one spring: omega = 1, so that dt is omega dt
    system = hf.SecondOrder([[1.0]], [[1.0]])
    assert method.stable_dt(system) == pytest.approx(limit, rel=1e-6)
    if math.isinf(limit):
        return
    radius = [
        np.abs(np.linalg.eigvals(propagator(system, method, x * limit))).max()
        for x in (1 - 1e-4, 1 + 1e-4)
    ]
    assert radius[0] <= 1 + 1e-7
    assert radius[1] > 1 + 1e-4


@each(SYMPLECTIC)
def test_energy_of_an_oscillator_is_bounded_and_does_not_drift(method, order, limit):
    # 100 000 steps, by powers of the matrix of one step: the same map, without the overhead
    system = hf.SecondOrder([[1.0]], [[1.0]])
    dt = min(0.5, 0.25 * limit)
    E = propagator(system, method, dt)
    steps = 100_000
    z, block = np.array([0.6, 0.8]), np.empty((steps, 2))
    for i in range(steps):
        z = E @ z
        block[i] = z
    energy = 0.5 * (block**2).sum(axis=1) / 0.5 - 1
    exact = method.name.startswith(("Gauss", "SymplecticDIRK", "Newmark(0.5, 0.25)"))
    assert np.abs(energy).max() < (1e-15 * steps if exact else 0.5)
    slope = drift(np.arange(steps) * dt, np.abs(energy))
    # The round-off of so many steps, and how well the maximum of each tenth of the run is met.
    assert abs(slope) * steps * dt < 1e-15 * steps + (0 if exact else 0.05 * np.abs(energy).max())


@each(ALL)
@KINDS
def test_a_copied_state_continues_bit_for_bit(method, order, limit, kind):
    small = Small(kind, forced=True)
    dt = 0.1 * min(1.0, method.stable_dt(small.system))
    copies = []
    for state in hf.march(small.system, method, small.state(), dt, 7.7, every=5):
        if state.step == 15:
            copies.append(state.copy())
    again = run(small.system, method, copies[0], dt, 7.7, every=5)
    assert np.array_equal(vector(again), vector(state))
    assert (again.t, again.step, again.work) == (state.t, state.step, state.work)


@each(ALL)
@KINDS
def test_energy_balance_with_loads(method, order, limit, kind):
    """energy - work is constant: to round-off with Gauss, at the method's order with others."""
    small = Small(kind, forced=True)
    gaps, h = [], []
    for n in (16, 32, 64, 128):
        dt = 3.0 / n
        if dt > 0.5 * method.stable_dt(small.system):
            continue
        state = small.state()
        start = small.system.energy(state)
        state = run(small.system, method, state, dt, 3.0)
        gaps.append(abs(small.system.energy(state) - start - state.work) / start)
        h.append(dt)
    assert abs(state.work) > 0.1
    if method.name.startswith(("Gauss", "SymplecticDIRK")):
        assert max(gaps) < 1e-12
    elif "0.25" not in method.name or kind == "first":
        # The work of Nyström methods is of order 4: f'v is not linear in q.
        expected = 4 if getattr(method, "nystrom", False) else order
        keep = [i for i, gap in enumerate(gaps) if gap > 2e-14]
        assert fitted_order(np.array(h)[keep], np.array(gaps)[keep], 0) > expected - 0.3


DAMPED = [row for row in ALL if not row[0].negative_steps]
KNOWS_NO_DAMPING = ("Simpson", "Lobatto")


@each([row for row in DAMPED if not row[0].name.startswith(KNOWS_NO_DAMPING)])
@KINDS
def test_order_with_damping(method, order, limit, kind):
    small = Small(kind, forced=True, damping=0.8)
    if kind == "first" and method.name.startswith(("Newmark", "Generalized")):
        with pytest.raises(ValueError, match="knows no damping of q"):
            method.bind(small.system, 0.1)
        return
    h, errors, gaps = [], [], []
    for n in (3, 4, 6, 8, 12, 16, 24, 32, 48, 64):
        dt = 2.0 / n
        if dt > 0.5 * method.stable_dt(small.system):
            continue
        state = small.state()
        start = small.system.energy(state)
        state = run(small.system, method, state, dt, 2.0)
        error = small.error(state)
        if error < 1e-12:
            break
        h.append(dt)
        errors.append(error)
        gaps.append(abs(small.system.energy(state) - start - state.work + state.outflow) / start)
    assert state.outflow > 0.1
    # a damped explicit step is the midpoint rule in the damping: of order 2
    expected = min(order, 2) if isinstance(method, hf.Partitioned) else order
    assert fitted_order(h[-3:], errors[-3:]) > expected - 0.15
    if method.name.startswith("Gauss"):
        assert max(gaps) < 1e-12


@each([row for row in ALL if row[0].negative_steps])
@KINDS
def test_substeps_back_in_time_are_refused_on_damped_systems(method, order, limit, kind):
    small = Small(kind, damping=0.5)
    with pytest.raises(ValueError, match="has substeps back in time"):
        hf.march(small.system, method, small.state(), 0.01, 1.0)


@each([row for row in IMPLICIT if row[0].name.startswith(KNOWS_NO_DAMPING)])
def test_methods_that_know_no_damping_say_so(method, order, limit):
    small = Small("second", damping=0.5)
    with pytest.raises(ValueError, match="knows no damping: take "):
        method.bind(small.system, 0.01)


@each(EXPLICIT)
def test_merged_kicks_give_the_same_as_single_steps(method, order, limit):
    small = Small("first", forced=True)
    dt = 0.05
    merged = run(small.system, method, small.state(), dt, 2.0, every=40)
    single = run(small.system, method, small.state(), dt, 2.0, every=1)
    assert np.linalg.norm(vector(merged) - vector(single)) < 1e-12 * np.linalg.norm(vector(single))


def test_nystrom_methods_need_the_antiderivative_of_a_load_on_q():
    load = hf.Load(math.sin, [1.0])
    system = hf.FirstOrder([[1.0]], [[1.0]], [[1.0]], flux_loads=[load])
    with pytest.raises(ValueError, match="only if the load has its antiderivative"):
        hf.SRKN("11b").bind(system, 0.1)
    hf.BlanesMoan(6).bind(system, 0.1)


def test_bad_methods_are_refused():
    for make, message in (
        (lambda: hf.Yoshida(5), "no Yoshida of order 5: choose 4, 6, 8"),
        (lambda: hf.BlanesMoan(8), "no BlanesMoan of order 8"),
        (lambda: hf.SRKN("7"), "no SRKN set '7'"),
        (lambda: hf.SymplecticDIRK(3), "no SymplecticDIRK of order 3"),
        (lambda: hf.Verlet("jump"), "begins with a 'kick' or a 'drift'"),
        (lambda: hf.SelfStarting(1.5), "alpha must lie between 0 and 1"),
        (lambda: hf.Gauss(0), "whole number of stages, at least 1: 0"),
        (lambda: hf.Gauss(1.5), "whole number of stages, at least 1: 1.5"),
        (lambda: hf.Newmark(0.4, 0.25), "unstable for every dt"),
        (lambda: hf.GeneralizedAlpha(1.1), "rho_inf must lie between 0 and 1"),
        (lambda: hf.Partitioned((0.5, 0.4), (1.0,)), "kicks must add up to 1"),
        (lambda: hf.Partitioned((0.5, 0.3, 0.2), (1.0,)), "kicks and drifts alternate"),
        (lambda: hf.RungeKutta([[0.5]], [0.5, 0.5]), "needs a matrix 2 x 2"),
        (lambda: hf.RungeKutta([[0.5]], [0.9]), "weights b must add up to 1"),
        (lambda: hf.PartitionedRungeKutta([[0.5]], [1], [[0, 1]], [1]), "1 stages: A_bar has"),
    ):
        with pytest.raises(ValueError, match=message):
            make()


def test_symplecticity_conditions_of_tableaux():
    assert hf.Gauss(6).symplectic
    assert not hf.RK4().symplectic
    # Radau IIA: A-stable, not symplectic; its order is found
    radau = hf.RungeKutta([[5 / 12, -1 / 12], [3 / 4, 1 / 4]], [3 / 4, 1 / 4])
    assert (radau.symplectic, radau.order, radau.limit) == (False, 3, math.inf)
    # a defective tableau: both eigenvalues of A are 1/2 and A is not diagonal
    defective = hf.RungeKutta([[0.25, 0.25], [-0.25, 0.75]], [0.5, 0.5])
    small = Small("second", forced=True)
    h = [0.1, 0.05, 0.025]
    errors = [small.error(run(small.system, defective, small.state(), x, 2.0)) for x in h]
    assert fitted_order(h, errors) == pytest.approx(defective.order, abs=0.1)
    # the condition as the source prints it, with a_ij for a_ji, fails for its own Störmer-Verlet
    verlet = hf.PartitionedRungeKutta(
        [[0, 0], [0.5, 0.5]], [0.5, 0.5], [[0.5, 0], [0.5, 0]], [0.5, 0.5]
    )
    assert verlet.symplectic
    small = Small("first")
    one = run(small.system, verlet, small.state(), 0.1, 1.0)
    other = run(small.system, hf.Verlet("kick"), small.state(), 0.1, 1.0)
    assert np.linalg.norm(vector(one) - vector(other)) < 1e-13


def test_generalized_alpha_damps_infinite_frequencies_by_rho():
    for rho in (0.0, 0.25, 0.5, 0.8, 1.0):
        system = hf.SecondOrder([[1.0]], [[1.0]])
        method, dt = hf.GeneralizedAlpha(rho), 1e5
        advance = method.bind(system, dt)
        columns = []
        for unit in np.eye(3):  # (u, dt v, dt² a)
            state = system.state(unit[:1], unit[1:2] / dt)
            state.memory["acceleration"] = system.new_v()
            state.memory["acceleration"].set(unit[2] / dt**2)
            advance(state, 1)
            acceleration = hf.State(state.q, state.memory["acceleration"])
            u, v = vector(state)
            columns.append([u, dt * v, dt**2 * vector(acceleration)[1]])
        radius = np.abs(np.linalg.eigvals(np.array(columns).T)).max()
        assert radius == pytest.approx(rho, abs=2e-3)
