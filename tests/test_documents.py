"""What the documents say is true: the README's script runs, the lists of packages agree."""

import re
from pathlib import Path

from mpi4py import MPI

import pytest

import hamfem as hf

ROOT = Path(__file__).parents[1]


def read(name):
    return (ROOT / name).read_text()


def scripts():
    return re.findall(r"```python\n(.*?)```", read("README.md"), re.DOTALL)


def test_the_first_script_of_the_readme_runs(monkeypatch, shared_tmp_path):
    script = scripts()[0]
    assert len([line for line in script.splitlines() if line.strip()]) <= 12
    monkeypatch.chdir(shared_tmp_path)
    names = {}
    exec(script, names)
    assert names["state"].t == pytest.approx(2.0)
    energies = names["history"]["energy"]
    assert len(energies) == 10
    assert energies == pytest.approx(energies[0], rel=1e-12)
    assert hf.read_history(shared_tmp_path / "energy.csv")["energy"] == pytest.approx(energies)


def test_the_script_of_a_run_that_goes_on(monkeypatch, shared_tmp_path):
    monkeypatch.chdir(shared_tmp_path)
    script = scripts()[1]
    assert "t_end=2.0" in script
    ends = []
    # Until 1.2, from there to the end, and once more when there is nothing left to do.
    for t_end in (1.2, 2.0, 2.0):
        names = {}
        exec(script.replace("t_end=2.0", f"t_end={t_end}"), names)
        ends.append(names["state"])
    assert [state.t for state in ends] == [1.2, 2.0, 2.0]
    assert [state.step for state in ends] == [600, 1000, 1000]
    history = hf.read_history(shared_tmp_path / "energy.csv")
    assert history["step"].tolist() == [*range(50, 1001, 50)]
    assert ends[1].v.norm() == pytest.approx(ends[2].v.norm(), rel=1e-12)


def test_the_script_of_a_spinning_crystal_runs():
    names = {"print": lambda *values: None}
    exec(scripts()[2], names)
    system, state = names["system"], names["state"]
    assert state.t == pytest.approx(0.2)
    assert system.invariants(state)["angular_momentum"][2] == pytest.approx(
        7.87 * (8 / 3 + 2 / 3), rel=1e-3
    )


def test_the_script_of_a_pulse_into_glass_runs(capsys):
    names = {}
    exec(scripts()[3], names)
    system, state = names["system"], names["state"]
    assert state.t == pytest.approx(1.0)
    assert names["E"].ufl_shape == (3,)
    assert system.charges(state)["magnetic_charge"] < 1e-11
    # Verlet's energy oscillates; without the walls the pulse would still be whole.
    assert system.energy(state) < 0.8 * (system.energy(state) + state.outflow)
    assert "electric_charge" in capsys.readouterr().out or MPI.COMM_WORLD.rank


def test_the_script_of_the_yee_scheme_runs(monkeypatch, shared_tmp_path):
    monkeypatch.chdir(shared_tmp_path)
    names = {}
    exec(scripts()[4], names)
    system, state = names["system"], names["state"]
    assert state.t == pytest.approx(2.0)
    assert [len(line) for line in names["lines"]] == [*names["Ez"].shape]
    traces = hf.read_receivers(shared_tmp_path / "traces.csv")
    assert traces["t"][-1] == pytest.approx(2.0)
    assert abs(traces["E_z_0"]).max() > 1e-3
    size = (2 * system.energy(state)) ** 0.5
    assert system.charges(state)["electric_charge"] < 1e-11 * size
    assert state.outflow > 0


def test_the_script_with_matrices_runs(capsys):
    exec(scripts()[5], {})
    lines = capsys.readouterr().out.splitlines()
    if MPI.COMM_WORLD.rank == 0:
        rows = [[float(x) for x in line.split()] for line in lines[:10]]
        for momentum, energy, _ in rows:
            assert (momentum, energy) == pytest.approx(rows[0][:2], rel=1e-12)
        assert max(abs(row[2] / rows[0][2] - 1) for row in rows) > 1e-6
        assert lines[10].startswith("Structure(")


def packages(recipe):
    """The words between the option of apt-get install and the end of that command."""
    text = read(f"docker/{recipe}").split("install -y --no-install-recommends", 1)[1]
    return set(re.split(r";|\n *apt-get", text, maxsplit=1)[0].replace("\\", " ").split())


def test_the_two_container_recipes_install_the_same():
    assert packages("Dockerfile") == packages("hamfem.def")
    assert "python3-dolfinx-real" in packages("Dockerfile")


def test_one_version_of_ruff():
    version = re.search(r"^version=(\S+)", read("docker/lint"), re.MULTILINE).group(1)
    assert f"ruff={version}" in read("environment.yml")


def test_the_readme_lists_every_integrator():
    text = read("README.md")
    methods = [
        name
        for name in hf.__all__
        if getattr(getattr(hf, name), "__module__", "").startswith("hamfem.integrators")
        and name[0].isupper()
    ]
    assert "Gauss" in methods
    for name in methods:
        assert f"`hf.{name}(" in text, f"the README does not mention {name}"
