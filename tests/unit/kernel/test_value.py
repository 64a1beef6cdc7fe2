"""A Value is immutable, is built by keyword only, and so is every subclass."""

import msgspec
import pytest

from ringrift.kernel.value import Value


class Point(Value):
    """A value."""

    x: int
    tags: dict[str, int] = {}


class Marked(Point, tag="marked"):
    """A value below another."""

    mark: str = "here"


def test_a_value_cannot_be_changed() -> None:
    """Neither a value nor one below it takes a new field value."""
    for value in (Point(x=1), Marked(x=1)):
        with pytest.raises(AttributeError):
            value.x = 2


def test_a_value_is_built_by_name_only() -> None:
    """A field without a name is refused, also below another value."""
    with pytest.raises(TypeError):
        Point(1)
    with pytest.raises(TypeError):
        Marked(1)


def test_values_with_the_same_fields_are_equal() -> None:
    """Values are compared by what is in them."""
    assert Marked(x=1, mark="a") == Marked(x=1, mark="a")
    assert Marked(x=1) != Marked(x=2)


def test_a_mutable_default_is_not_shared() -> None:
    """Each value gets a fresh copy of a default dictionary."""
    first, second = Point(x=1), Point(x=1)

    first.tags["a"] = 1

    assert second.tags == {}


def test_a_value_survives_the_wire() -> None:
    """An encoded value decodes to the same value, with its tag."""
    value = Marked(x=1, mark="there")

    assert msgspec.json.decode(msgspec.json.encode(value), type=Marked) == value
    assert b'"type":"marked"' in msgspec.json.encode(value)
