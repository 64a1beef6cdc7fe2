"""A publish that brings a model file: accepted at once, imported by a running node, refused where there is none."""

import time
from pathlib import Path

import pytest

from compat.beats import beat
from compat.subscribers import async_test, home
from ringrift.kernel.errors import InvalidId, InvalidPayload, WorkError
from ringrift_compat.embedded_host import get_host
from ringrift_compat.embedded_node import embedded
from ringrift_compat.events.event_emitters import emit_training_complete
from ringrift_compat.events.event_router import get_router

__all__ = ["home"]

REFUSED_SECONDS_MAX = 1.0


def published() -> list[str]:
    """The names of all events in the log."""
    return [event.event_type for event in get_router().get_recent_events()]


@async_test
async def test_without_a_node_the_publish_is_refused_soon(tmp_path: Path) -> None:
    """It returns at once; awaiting it raises, no event is published, and this program opens no node for it."""
    file = tmp_path / "model.pth"
    file.write_bytes(b"weights")
    embedded.node()
    started = time.monotonic()
    pending = emit_training_complete(config_key="hex8_2p", model_path=str(file))

    assert not pending.done()
    with pytest.raises(WorkError, match="no running node on this machine can import models"):
        await pending
    assert time.monotonic() - started < REFUSED_SECONDS_MAX
    assert get_host(embedded.node()) is None
    assert published() == []


@async_test
async def test_a_killed_node_does_not_count(tmp_path: Path) -> None:
    """Its record is in the roster as if it ran, but no process holds the home: the publish is refused as soon."""
    file = tmp_path / "model.pth"
    file.write_bytes(b"weights")
    beat("killed", 1, address=str(tmp_path))
    started = time.monotonic()

    with pytest.raises(WorkError, match="no running node"):
        await emit_training_complete(config_key="hex8_2p", model_path=str(file))
    assert time.monotonic() - started < REFUSED_SECONDS_MAX
    assert published() == []


@async_test
async def test_a_path_of_another_machine_is_published_as_it_is() -> None:
    """The file does not exist here, so nothing is imported, and the event keeps its path."""
    event = await emit_training_complete(config_key="hex8_2p", model_path="/elsewhere/model.pth", metrics={"loss": 0.5})

    assert event.payload == {"config_key": "hex8_2p", "model_path": "/elsewhere/model.pth", "metrics": {"loss": 0.5}}
    assert published() == ["TRAINING_COMPLETED"]
    assert get_host(embedded.node()) is None


@async_test
async def test_a_file_without_a_variant_is_refused(tmp_path: Path) -> None:
    """A model belongs to a line: an event that names none is an error and no event."""
    file = tmp_path / "model.pth"
    file.write_bytes(b"weights")

    with pytest.raises(InvalidPayload):
        await emit_training_complete(model_path=str(file))
    with pytest.raises(InvalidId):
        await get_router().publish("TRAINING_COMPLETED", {"model_path": str(file)})
    assert published() == []
