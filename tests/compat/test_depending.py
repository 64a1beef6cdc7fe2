"""The documented dependency graph: that of the bootstrap and one's own."""

import pytest

from ringrift.kernel.errors import UnknownName
from ringrift_compat.coordinators import COORDINATOR_REGISTRY
from ringrift_compat.depending import (
    CircularDependency,
    CoordinatorDependencyGraph,
    get_dependency_graph,
    get_dependents,
    get_initialization_order,
    validate_dependencies,
)

OWN = {"pipeline": ["queue", "models"], "queue": ["store"], "models": ["store"], "store": [], "pages": []}


def test_the_bootstrap_has_an_order() -> None:
    """Everybody comes behind what it needs, and behind all lower layers."""
    order = get_initialization_order()

    assert sorted(order) == sorted(COORDINATOR_REGISTRY)
    layers = [COORDINATOR_REGISTRY[name].layer for name in order]
    assert layers == sorted(layers)
    for spec in COORDINATOR_REGISTRY.values():
        assert all(order.index(need) < order.index(spec.name) for need in spec.needs)
    assert validate_dependencies()
    assert get_dependency_graph().get_shutdown_order() == order[::-1]


def test_ones_own_graph_has_an_order() -> None:
    """What depends on nothing keeps the order in which it was added."""
    assert get_initialization_order(OWN) == ["store", "queue", "models", "pipeline", "pages"]
    assert CoordinatorDependencyGraph(OWN).get_dependencies("queue") == ("store",)


def test_a_failed_one_takes_its_dependents_along() -> None:
    """Directly or not, in their order, and nobody else."""
    assert get_dependents("store", OWN) == ["queue", "models", "pipeline"]
    assert get_dependents("pages", OWN) == []
    assert "pipeline_orchestrator" in get_dependents("task_coordinator")
    with pytest.raises(UnknownName):
        get_dependents("nobody", OWN)


def test_a_circle_is_named() -> None:
    """The order cannot be had, and both the error and the check name who is in the circle."""
    circular = OWN | {"store": ["pipeline"]}

    with pytest.raises(CircularDependency) as found:
        get_initialization_order(circular)
    assert {"store", "pipeline"} <= set(found.value.circle)
    assert "pages" not in found.value.circle
    valid, errors = validate_dependencies(circular)
    assert (valid, len(errors)) == (False, 1)
    assert "store" in errors[0]


def test_a_dependency_that_nobody_is_is_named() -> None:
    """The order raises, and the check tells of it together with all else that is wrong; it is false."""
    wrong = {"a": ["b", "ghost"], "b": ["a"]}

    with pytest.raises(UnknownName, match="ghost"):
        get_initialization_order(wrong)
    found = validate_dependencies(wrong)
    assert not found
    assert len(found.errors) == 2
