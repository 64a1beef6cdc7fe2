"""An emitter has the fields of its event as parameters; what does not fit is an error, and nothing is published."""

import inspect
from typing import Any

import pytest

from compat.subscribers import EventRecorder, async_test, home
from ringrift.kernel.errors import InvalidPayload
from ringrift_compat.events import event_emitters, old_names
from ringrift_compat.events.event_emitters import __all__ as EMITTERS
from ringrift_compat.events.event_router import get_router

__all__ = ["home"]
LOST = {"node_id": "n", "duration": 7.5}


def emitter(name: str) -> Any:
    """The emitter of the event *name*."""
    return getattr(event_emitters, f"emit_{name.lower()}")


@pytest.mark.parametrize("function", EMITTERS)
def test_an_emitter_shows_the_fields_of_its_event(function: str) -> None:
    """Every field that does not follow from the name is a keyword parameter, and no name of ours takes others."""
    row = old_names.resolve(function.removeprefix("emit_"))
    assert row is not None
    parameters = inspect.signature(emitter(function.removeprefix("emit_"))).parameters

    takes_any = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values())
    assert takes_any == (row.event is None or bool(row.fixed.keys() & {"event"}))
    if row.event is not None and not takes_any:
        assert set(row.event.__struct_fields__) - row.fixed.keys() <= parameters.keys()


def test_documented_words_come_first() -> None:
    """A field that must be there is required under the documents' word for it."""
    parameters = inspect.signature(emitter("training_started")).parameters
    required = {name for name, parameter in parameters.items() if parameter.default is inspect.Parameter.empty}

    assert required == {"config_key", "job_id", "node_id", "attempt"}
    assert parameters["config_key"].annotation is str
    assert {"variant", "config", "resumed", "source"} <= parameters.keys()
    assert "kind" not in parameters


@pytest.mark.parametrize(
    ("name", "fields", "path"),
    [
        ("HOST_OFFLINE", {"node_id": "n"}, "$.duration"),
        ("HOST_OFFLINE", {**LOST, "colour": "red"}, "$.colour"),
        ("HOST_OFFLINE", {**LOST, "duration": "long"}, "$.seconds"),
        ("TRAINING_COMPLETED", {"config_key": "hex8_2p", "metrics": {"loss": 0.5}}, "$.model_id"),
        ("TRAINING_COMPLETED", {"config_key": "hex8_2p", "model_path": "/m.pth", "metrics": "good"}, "$.metrics"),
        ("TRAINING_COMPLETED", {"config_key": "hex8_2p", "model_path": "/m.pth", "db_path": "/g.db"}, "$.db_path"),
        ("SELFPLAY_COMPLETE", {"config_key": "hex8_2p", "db_path": "/games.db"}, "$.games_generated"),
    ],
)
@async_test
async def test_what_does_not_fit_is_refused_and_not_published(name: str, fields: dict[str, Any], path: str) -> None:
    """A missing, unknown or wrong field is named; a lenient publish takes the same fields."""
    recorder = EventRecorder()
    get_router().subscribe(name, recorder.plain)

    with pytest.raises(InvalidPayload) as refused:
        emitter(name)(**fields)
    await get_router().publish(name, fields, "lenient")

    assert refused.value.path == path
    assert [event.source for event in await recorder.until(1)] == ["lenient"]


@async_test
async def test_documented_calls_and_both_words_are_taken() -> None:
    """A file stands for the fields that follow from it; our words and the documents' may be mixed."""
    recorder = EventRecorder()
    get_router().subscribe(None, recorder.plain)

    await emitter("selfplay_complete")(config_key="hex8_2p", games_generated=1000, db_path="/nowhere/games.db")
    await emitter("training_complete")(config_key="hex8_2p", model_path="/nowhere/m.pth", metrics={"loss": 0.5})
    await emitter("host_offline")({"node": "n"}, seconds=7.5, source="me")

    events = await recorder.until(3)
    assert [event.event_type for event in events[:3]] == ["SELFPLAY_COMPLETE", "TRAINING_COMPLETED", "HOST_OFFLINE"]
    assert (events[2].payload["node_id"], events[2].source) == ("n", "me")


@async_test
async def test_a_name_that_is_not_true_takes_any_fields() -> None:
    """Only subscribers to that name get it."""
    recorder = EventRecorder()
    get_router().subscribe("NODE_PROVISIONED", recorder.plain)

    await emitter("node_provisioned")(bucket="b", anything=[1])

    assert [event.payload for event in await recorder.until(1)] == [{"bucket": "b", "anything": [1]}]
