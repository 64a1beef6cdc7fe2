"""The declared parameters of reversi are those that its jobs read, with the same ranges and defaults."""

import ast
import importlib
from pathlib import Path

import pytest

import ringrift_reversi
from ringrift_reversi.net import BLOCKS, CHANNELS
from ringrift_reversi.play_spec import Style
from ringrift_reversi.train import TrainConfig
from ringrift_reversi.workload import Reversi

SPECS = {spec.name: spec for spec in Reversi.params}
OF_ONE_JOB = {"games", "first", "count", "openings", "generation"}  # set by the job itself, never by a person
READERS = ("int_param", "float_param", "choice_param")
COMPUTED = {"device"}  # compared with a word where the job begins


def calls() -> list[tuple[str, str, list[ast.expr]]]:
    """Module, parameter and the rest of the arguments of every place that reads a parameter."""
    places = []
    for file in sorted(Path(ringrift_reversi.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in READERS:
                name = node.args[1]
                assert isinstance(name, ast.Constant)
                places.append((f"ringrift_reversi.{file.stem}", str(name.value), node.args[2:]))
    return places


def value_of(module: str, expression: ast.expr) -> object:
    """The value of an argument in its module."""
    return eval(compile(ast.Expression(expression), module, "eval"), vars(importlib.import_module(module)))


def test_every_parameter_that_a_job_reads_is_declared() -> None:
    """And nothing is declared that no job reads."""
    names = {name for _, name, _ in calls()} - OF_ONE_JOB

    assert names | COMPUTED == SPECS.keys()


@pytest.mark.parametrize(
    "place", [call for call in calls() if call[1] in SPECS], ids=lambda call: f"{call[0]}:{call[1]}"
)
def test_ranges_are_those_that_the_job_enforces(place: tuple[str, str, list[ast.expr]]) -> None:
    """What the edge accepts the job accepts too, and the other way round."""
    module, name, rest = place
    spec = SPECS[name]
    if spec.choices:
        assert value_of(module, rest[0]) == spec.choices
    else:
        assert [value_of(module, limit) for limit in rest[1:3]] == [spec.low, spec.high]


def test_defaults_are_those_of_the_job() -> None:
    """The reference does not promise other values."""
    style, config = Style(), TrainConfig(steps=1)
    for part in (style, config):
        for name in part.__dataclass_fields__:
            if name != "steps":
                assert SPECS[name].default == getattr(part, name)
    assert (SPECS["channels"].default, SPECS["blocks"].default) == (CHANNELS, BLOCKS)


def test_every_parameter_says_what_it_means_and_when_to_change_it() -> None:
    """As every setting does."""
    assert [spec.name for spec in Reversi.params if not (spec.meaning and spec.change)] == []
