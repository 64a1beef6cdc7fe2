"""Job parameters that a workload declares are checked before a run begins."""

import pytest

from ringrift.kernel.errors import SettingsError, UnknownName
from ringrift.workload.api import ParamSpec, Scalar
from ringrift.workload.fake import Fake
from ringrift.workload.params import own_params


class Declaring(Fake):
    """A workload with parameters of every type."""

    name = "declaring"
    params = (
        ParamSpec("lr", 0.1, "Learning rate.", 0.0, 1.0),
        ParamSpec("sims", 16, "Simulations.", 1, 64),
        ParamSpec("steps", None, "Steps.", 1, 100),
        ParamSpec("mode", "fast", "Mode.", choices=("fast", "slow")),
        ParamSpec("title", "", "Title."),
        ParamSpec("mirror", True, "Mirror positions."),
    )


@pytest.mark.parametrize(
    "params",
    [{}, {"lr": 0.0}, {"lr": 1}, {"sims": 64}, {"steps": 1}, {"mode": "slow"}, {"title": "x"}, {"mirror": False}],
)
def test_a_declared_parameter_in_its_range_is_accepted(params: dict[str, Scalar]) -> None:
    """Both ends belong to the range, and a whole number is a number."""
    assert own_params(Declaring(), params) == params


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("lr", 1.1, "must lie between 0 and 1"),
        ("lr", "high", "must be a number"),
        ("lr", float("nan"), "must lie between 0 and 1"),
        ("lr", True, "must be a number"),
        ("sims", 0, "must lie between 1 and 64"),
        ("sims", 2.0, "must be a whole number"),
        ("steps", 101, "must lie between 1 and 100"),
        ("mode", "quick", "must be one of fast, slow"),
        ("mode", 1, "must be text"),
        ("mirror", 1, "must be true or false"),
    ],
)
def test_a_parameter_out_of_its_range_is_refused_by_its_key(name: str, value: Scalar, words: str) -> None:
    """With the value, and what it may be."""
    with pytest.raises(SettingsError) as refused:
        own_params(Declaring(), {name: value})

    assert (refused.value.key, refused.value.limit) == (f"work.params.{name}", words)


def test_an_unknown_parameter_suggests_the_close_ones() -> None:
    """A misspelt learning rate would otherwise train with the default for hours."""
    with pytest.raises(UnknownName, match=r"unknown parameter of declaring 'simms'.*did you mean sims"):
        own_params(Declaring(), {"simms": 1})


def test_a_workload_that_declares_nothing_takes_anything() -> None:
    """As those did that were written before."""
    assert own_params(Fake(), {"anything": 1}) == {"anything": 1}


class Other(Fake):
    """A second game in the same run."""

    name = "other"
    params = (ParamSpec("depth", 4, "Depth.", 1, 8), ParamSpec("sims", 16, "Simulations.", 1, 32))


def test_games_of_one_run_take_each_their_own() -> None:
    """One that only the other declares is no mistake; one of both must suit both, and one of neither is refused."""
    params = {"sims": 40, "lr": 0.1, "depth": 2}

    assert own_params(Declaring(), params, [Declaring(), Other()]) == {"sims": 40, "lr": 0.1}
    with pytest.raises(SettingsError, match="between 1 and 32"):
        own_params(Other(), params, [Declaring(), Other()])
    with pytest.raises(UnknownName, match="parameter of other 'dept'"):
        own_params(Other(), {"dept": 2}, [Declaring(), Other()])
