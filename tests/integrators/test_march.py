from mpi4py import MPI

import numpy as np
import pytest

import hamfem as hf

COMM = MPI.COMM_WORLD
METHODS = pytest.mark.parametrize("method", [hf.Verlet(), hf.Gauss(1)], ids=["Verlet", "midpoint"])


@pytest.fixture
def system():
    domain = hf.box(COMM, (0, 0), (1, 1), 6)
    return hf.cg(hf.Acoustic(domain, boundary=[hf.Clamped("left", "top")]), 2)


@pytest.fixture
def start(system):
    return system.state(u=hf.exact.bump((0.5, 0.4), 0.2), v=hf.exact.bump((0.3, 0.6), 0.3))


def run(system, method, state, dt, t_end, every=1):
    for state in hf.march(system, method, state, dt, t_end, every):
        pass
    return state


def distance(a, b):
    return max((a.q - b.q).norm() / b.q.norm(), (a.v - b.v).norm() / b.v.norm())


def test_it_yields_every_few_steps_and_at_the_end(system, start):
    seen = [(s.step, s.t) for s in hf.march(system, hf.Gauss(1), start, 0.1, 1.0, every=3)]
    assert [step for step, _ in seen] == [3, 6, 9, 10]
    assert [t for _, t in seen] == pytest.approx([0.3, 0.6, 0.9, 1.0])
    assert seen[-1][1] == 1.0


def test_dt_is_made_smaller_so_that_the_end_is_hit(system, start):
    state = run(system, hf.Gauss(1), start, 0.3, 1.0)
    assert (state.step, state.t) == (4, 1.0)


def test_nothing_to_do(system, start):
    assert list(hf.march(system, hf.Gauss(1), start, 0.1, 0.0)) == []


@METHODS
def test_a_run_goes_back_to_where_it_came_from(system, start, method):
    begin = start.copy()
    state = run(system, method, start, 0.002, 0.5, every=10)
    assert distance(state, begin) > 0.1
    assert distance(run(system, method, state, -0.002, 0.0, every=10), begin) < 1e-11
    assert state.t == 0.0


@METHODS
def test_a_copied_state_continues_bit_for_bit(system, start, method):
    for state in hf.march(system, method, start, 0.0625 / 32, 0.125, every=16):
        if state.step == 32:
            middle = state.copy()
    again = run(system, method, middle, 0.0625 / 32, 0.125, every=16)
    if COMM.size == 1:
        assert np.array_equal(again.q.array, state.q.array)
        assert np.array_equal(again.v.array, state.v.array)
    else:  # solves with MUMPS are not reproducible to the last bit
        assert distance(again, state) < 1e-14
    assert (again.step, again.t) == (state.step, state.t)


def test_the_stable_step_is_sharp(system, start):
    limit = hf.Verlet().stable_dt(system)
    with pytest.raises(ValueError, match="beyond the stable step"):
        hf.march(system, hf.Verlet(), start, 1.01 * limit, 1000 * limit)
    state = run(system, hf.Verlet(), start, 0.99 * limit, 3000 * limit, every=100)
    assert np.isfinite(system.energy(state))


def test_a_blow_up_is_an_error(system, start):
    dt = 1.1 * hf.Verlet().stable_dt(system)
    with pytest.raises(FloatingPointError, match="the run blew up"):
        for _ in hf.march(system, hf.Verlet(), start, dt, 1000 * dt, allow_unstable=True):
            pass


def test_bad_calls_fail_at_the_call(system, start):
    for dt in (0.0, float("nan"), float("inf"), -0.1):
        with pytest.raises(ValueError, match="does not lead from t = "):
            hf.march(system, hf.Gauss(1), start, dt, 1.0)
    with pytest.raises(ValueError, match="every must be at least 1"):
        hf.march(system, hf.Gauss(1), start, 0.1, 1.0, every=0)


def test_a_system_that_is_driven_from_rest_does_not_count_as_a_blow_up():
    load = hf.Load(lambda t: 1e6 * np.sin(t), [1.0])
    system = hf.SecondOrder([[1.0]], [[1.0]], loads=[load])  # in resonance
    state = run(system, hf.Verlet(), system.state(), 0.1, 50.0)
    assert system.energy(state) > 1e12


def test_nan_in_a_load_stops_the_run_on_all_ranks():
    load = hf.Load(lambda t: np.nan if t > 0.5 else 0.0, np.ones(4))
    system = hf.SecondOrder(np.eye(4), np.eye(4), loads=[load])
    with pytest.raises(FloatingPointError, match="the run blew up: at t = "):
        run(system, hf.Gauss(1), system.state(np.ones(4)), 0.1, 1.0)
