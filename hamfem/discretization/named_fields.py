"""The fields of a state by name, of which only the wanted ones are computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

from dolfinx import fem

from hamfem.dolfinx_versions import interpolation_points
from hamfem.physics.data import MissingDerivativeError
from hamfem.physics.wave import Wave
from hamfem.state import State

# What makes each field, by name.
Makers = Mapping[str, Callable[[], fem.Function]]


def made(makers: Makers, names: str | Sequence[str] | None = None) -> dict[str, fem.Function]:
    """These fields, or all that can be made: some need time derivatives of data, given or not."""
    if names is not None:
        names = [names] if isinstance(names, str) else list(names)
        for name in names:
            if name not in makers:
                raise ValueError(
                    f"this system has no field '{name}'; it has: {', '.join(makers) or 'none'}."
                )
        return {name: makers[name]() for name in names}
    result = {}
    for name, make in makers.items():
        try:
            result[name] = make()
        except MissingDerivativeError:
            continue
    return result


class NamedFields:
    """What a space of functions offers of fields; a base of the spaces."""

    wave: Wave

    def primary(self, state: State) -> Makers:
        """The fields that the discretization has, of which others are made."""
        raise NotImplementedError

    def makers(self, state: State) -> Makers:
        """All fields."""
        return self.with_derived(self.primary(state))

    def fields(
        self, state: State, names: str | Sequence[str] | None = None
    ) -> dict[str, fem.Function]:
        """The fields of a state, or only these."""
        return made(self.makers(state), names)

    def with_derived(self, primary: Makers) -> Makers:
        """These fields and what the physics derives from them, by interpolation."""
        once = {name: cache(make) for name, make in primary.items()}
        derived = {
            name: partial(self._derive, name, once[source], expression)
            for name, (source, expression) in self.wave.derived(primary).items()
        }
        return {**once, **derived}

    def _derive(
        self, name: str, make: Callable[[], fem.Function], expression: Callable[[Any], Any]
    ) -> fem.Function:
        """The field that is this UFL expression of another one; compiled at the first call."""
        given = make()
        if not hasattr(self, "_derivations"):
            self._derivations: dict[str, tuple[fem.Function, fem.FunctionSpace, Any]] = {}
        if name not in self._derivations:
            source = fem.Function(given.function_space)
            formula, degree = expression(source), degree_of(source)
            element = ("Discontinuous Lagrange", degree, formula.ufl_shape)
            V = fem.functionspace(self.wave.domain.mesh, element)
            compiled = fem.Expression(formula, interpolation_points(V.element))
            self._derivations[name] = source, V, compiled
        source, V, compiled = self._derivations[name]
        source.x.array[:] = given.x.array
        f = fem.Function(V, name=name)
        f.interpolate(compiled)
        return f


def degree_of(f: Any) -> int:
    """The degree of the polynomials that hold a function."""
    return int(f.function_space.ufl_element().embedded_superdegree)
