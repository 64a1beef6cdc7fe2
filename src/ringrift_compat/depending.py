"""The documented dependency graph: in which order coordinators are initialised, and whom a failed one takes along."""

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush
from typing import NamedTuple

from ringrift.kernel.errors import InputError, UnknownName
from ringrift_compat.coordinators import COORDINATOR_REGISTRY


class CircularDependency(InputError):
    """Parts depend on each other in a circle: none of them can be first."""

    def __init__(self, circle: Iterable[str]) -> None:
        self.circle = tuple(circle)
        super().__init__(f"these depend on each other in a circle: {' → '.join(self.circle)}")


class Validation(NamedTuple):
    """What a check found; true only when nothing is wrong, and it may be unpacked."""

    valid: bool
    errors: list[str]

    def __bool__(self) -> bool:
        return self.valid


class CoordinatorDependencyGraph:
    """Who depends on whom: name → the names that must be there before."""

    def __init__(self, dependencies: Mapping[str, Iterable[str]] | None = None) -> None:
        self._needs: dict[str, tuple[str, ...]] = {}
        for name, needs in (dependencies or {}).items():
            self.add(name, needs)

    def add(self, name: str, depends_on: Iterable[str] = ()) -> None:
        """Say what *name* depends on, in place of what was said before."""
        self._needs[name] = tuple(dict.fromkeys(depends_on))

    def get_dependencies(self, name: str) -> tuple[str, ...]:
        """What *name* directly depends on.  Raises UnknownName."""
        if name not in self._needs:
            raise UnknownName("coordinator", name, self._needs)
        return self._needs[name]

    def get_dependents(self, name: str) -> list[str]:
        """All that cannot be there without *name*, directly or not, in the order of initialisation."""
        self.get_dependencies(name)
        lost = {name}
        order = self.get_initialization_order()
        for other in order:
            if not lost.isdisjoint(self._needs[other]):
                lost.add(other)
        return [other for other in order if other in lost and other != name]

    def get_initialization_order(self) -> list[str]:
        """Every name behind all that it depends on; otherwise as they were added.

        Raises CircularDependency naming the circle, and UnknownName for a dependency that nobody is.
        """
        for name, needs in self._needs.items():
            for need in needs:
                if need not in self._needs:
                    raise UnknownName(f"dependency of {name}", need, self._needs)
        places = {name: place for place, name in enumerate(self._needs)}
        sorter = TopologicalSorter(self._needs)
        try:
            sorter.prepare()
        except CycleError as circular:
            raise CircularDependency(circular.args[1]) from circular
        order: list[str] = []
        ready: list[tuple[int, str]] = []
        while sorter.is_active():
            for name in sorter.get_ready():
                heappush(ready, (places[name], name))
            order.append(heappop(ready)[1])
            sorter.done(order[-1])
        return order

    def get_shutdown_order(self) -> list[str]:
        """The other way round."""
        return self.get_initialization_order()[::-1]

    def validate(self) -> Validation:
        """Whether there is an order, and every reason why not."""
        wrong = [
            f"{name} depends on {need!r}, which nobody is"
            for name, needs in self._needs.items()
            for need in needs
            if need not in self._needs
        ]
        known = {name: [need for need in needs if need in self._needs] for name, needs in self._needs.items()}
        try:
            CoordinatorDependencyGraph(known).get_initialization_order()
        except CircularDependency as circular:
            wrong.append(str(circular))
        return Validation(not wrong, wrong)


def get_dependency_graph() -> CoordinatorDependencyGraph:
    """The graph of the bootstrap; where needs leave it open, lower layers come first."""
    graph = CoordinatorDependencyGraph()
    for spec in sorted(COORDINATOR_REGISTRY.values(), key=lambda spec: spec.layer):
        graph.add(spec.name, spec.needs)
    return graph


def get_initialization_order(dependencies: Mapping[str, Iterable[str]] | None = None) -> list[str]:
    """The order of *dependencies*, or of the bootstrap.  Raises CircularDependency or UnknownName."""
    return _graph(dependencies).get_initialization_order()


def validate_dependencies(dependencies: Mapping[str, Iterable[str]] | None = None) -> Validation:
    """Whether *dependencies*, or those of the bootstrap, have an order; true only if so."""
    return _graph(dependencies).validate()


def get_dependents(name: str, dependencies: Mapping[str, Iterable[str]] | None = None) -> list[str]:
    """All that cannot be there when *name* has failed.  Raises UnknownName."""
    return _graph(dependencies).get_dependents(name)


def _graph(dependencies: Mapping[str, Iterable[str]] | None) -> CoordinatorDependencyGraph:
    return get_dependency_graph() if dependencies is None else CoordinatorDependencyGraph(dependencies)
