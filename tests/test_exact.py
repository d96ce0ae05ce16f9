import numpy as np
import pytest

import hamfem as hf


@pytest.mark.parametrize("walls", ["clamped", "free"])
def test_a_standing_wave_solves_the_wave_equation(walls):
    wave = hf.exact.StandingWave(modes=(2, 1, 3), lengths=(1.0, 2.0, 1.5), speed=1.7, walls=walls)
    x = np.random.default_rng(1).uniform(0, 1, (3, 20))
    t, h = 0.4, 1e-3
    u = wave.u(t)(x)
    u_tt = (wave.u(t + h)(x) - 2 * u + wave.u(t - h)(x)) / h**2
    laplacian = sum(
        (wave.u(t)(x + h * e[:, None]) - 2 * u + wave.u(t)(x - h * e[:, None])) / h**2
        for e in np.eye(3)
    )
    assert np.abs(u_tt).max() > 1
    assert u_tt == pytest.approx(1.7**2 * laplacian, abs=1e-3 * np.abs(u_tt).max())
    velocity = (wave.u(t + h)(x) - wave.u(t - h)(x)) / (2 * h)
    assert wave.v(t)(x) == pytest.approx(velocity, abs=1e-4 * np.abs(velocity).max())


def test_walls():
    x = np.array([[0.0, 1.0], [0.3, 0.3], [0.0, 0.0]])
    assert hf.exact.StandingWave().u(0)(x) == pytest.approx([0, 0], abs=1e-15)
    with pytest.raises(ValueError, match="'clamped' or 'free'"):
        hf.exact.StandingWave(walls="soft")
    with pytest.raises(ValueError, match="2 modes do not fit 1 lengths"):
        hf.exact.StandingWave(modes=(1, 1), lengths=(1.0,))


def test_bump():
    bump = hf.exact.bump((0.5, 0.5), 0.1)
    x = np.array([[0.5, 0.6], [0.5, 0.5], [0.0, 0.0]])
    assert bump(x) == pytest.approx([1.0, np.exp(-0.5)])
    with pytest.raises(ValueError, match="must be positive"):
        hf.exact.bump((0.5, 0.5), 0)
