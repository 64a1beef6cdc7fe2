"""The log and its dead letters from the command line."""

import asyncio
import json
import signal

import pytest

from e2e.processes import Home
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.settings import StoreSettings
from ringrift.store.open import open_store
from ringrift.store.ports import Delivery


def bury(home: Home, *positions: int) -> None:
    """Record failed deliveries of the pipeline for the events at *positions*."""

    async def story() -> None:
        async with open_store(StoreSettings(path=str(home.database)), SystemClock()) as store, store.begin() as tx:
            await tx.put_deliveries(
                [
                    Delivery(
                        reader="pipeline",
                        position=position,
                        state="dead",
                        attempts=5,
                        pause=0.0,
                        error="ValueError: no",
                        first=1.0,
                        last=2.0,
                    )
                    for position in positions
                ]
            )

    asyncio.run(story())


def test_the_log_is_shown_and_one_event_with_everything(played: Home) -> None:
    """tail prints the last events in order, filtered by name, and show prints one with what is around it."""
    _, text = played.run("events", "tail", "-n", "5")
    _, lines = played.run("events", "tail", "-n", "100", "--names", "model.promoted", "--json")

    promoted = [json.loads(line) for line in lines.splitlines()]
    _, one = played.run("events", "show", promoted[-1]["id"])
    assert len(text.splitlines()) == 5
    assert [event["body"]["generation"] for event in promoted] == [0, 1]
    assert json.loads(one) == promoted[-1]
    assert promoted[-1]["cause"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("events", "show", "nothing"), "unknown event id 'nothing'"),
        (("events", "tail", "--names", "no.such"), "unknown event 'no.such'; known: "),
        (("events", "tail", "--count", "0"), "--count 0 is not valid: must be 1 or more"),
        (("dlq", "retry", "pipeline"), "name a delivery as READER@POSITION"),
        (("dlq", "discard", "pipeline@7"), "unknown delivery 'pipeline@7'"),
    ],
)
def test_unknown_names_and_deliveries_are_refused(played: Home, arguments: tuple[str, ...], text: str) -> None:
    """An unknown name or delivery is an error of its own with exit 2."""
    code, output = played.run(*arguments)

    assert code == 2, output
    assert text in output


def test_dead_letters_are_listed_counted_retried_and_discarded(played: Home) -> None:
    """A dead letter that is retried is recovered by the next coordinator; one that is discarded stays so."""
    bury(played, 2, 3)

    _, listed = played.run("dlq", "list")
    played.run("dlq", "discard", "pipeline@2", "--reason", "not worth it")
    _, retried = played.run("dlq", "retry", "pipeline@3")
    _, between = played.run("dlq", "stats", "--json")
    played.run("run", "--iterations", "1", "--variants", "hex8_2p", "--set", "bus.redeliver_seconds=0.1")
    _, after = played.run("dlq", "stats", "--json")

    assert "pipeline@2" in listed
    assert "ValueError: no" in listed
    assert "will be tried again" in retried
    assert json.loads(between) == {"pending": 1, "recovered": 0, "abandoned": 0, "discarded": 1}
    assert json.loads(after) == {"pending": 0, "recovered": 1, "abandoned": 0, "discarded": 1}


def test_following_shows_events_of_another_process(played: Home) -> None:
    """While another process runs the loop, tail --follow prints its events as they come, until it is interrupted."""
    follower = played.start("events", "tail", "-n", "1", "--follow", "--names", "node.joined")
    assert follower.stdout is not None
    first = follower.stdout.readline()

    played.run("run", "--iterations", "1", "--variants", "hex8_2p")
    then = follower.stdout.readline()
    follower.send_signal(signal.SIGINT)
    follower.communicate(timeout=10)

    assert "node.joined" in first
    assert "node=a, profile=full" in then
    assert follower.returncode == 0
