"""Events from the command line: traces, replays, schemas, readers, requests, alerts."""

import json

import pytest

from e2e.processes import Home


def run_json(home: Home, *arguments: str) -> list[dict[str, object]]:
    """The output of a command as JSON, one value per line."""
    code, output = home.run(*arguments, "--json")
    assert code == 0, output
    return [json.loads(line) for line in output.splitlines()]


def test_the_trace_of_an_event_is_shown(played: Home) -> None:
    """trace prints every event that one cause led to, and marks the requested event; a trace id works too."""
    [promoted] = run_json(played, "events", "tail", "-n", "1", "--names", "model.promoted")

    code, text = played.run("events", "trace", str(promoted["id"]))
    _, tree = played.run("events", "trace", str(promoted["trace"]), "--json")
    unknown, _ = played.run("events", "trace", "0" * 32)

    assert code == 0, text
    assert "evaluation.blocks_played" in text
    assert "model.promoted" in text
    assert str(promoted["id"]) in tree
    assert unknown == 2


def test_events_are_printed_and_delivered_again(played: Home) -> None:
    """replay prints the selected events; with a reader the next coordinator delivers them to it again."""
    names = ("--names", "pipeline.moved")

    code, text = played.run("events", "replay", "--after", "0", *names)
    [count] = run_json(played, "events", "replay", "--since", "1d", *names, "--dry-run")
    [again] = run_json(played, "events", "replay", "--after", "0", *names, "--reader", "alert")
    _, waiting = played.run("dlq", "stats", "--json")
    played.run("run", "--iterations", "1", "--variants", "hex8_2p", "--set", "bus.redeliver_seconds=0.1")
    _, after = played.run("dlq", "stats", "--json")

    assert code == 0, text
    assert text.count("pipeline.moved") == count["events"] == again["again"] > 0
    assert json.loads(waiting)["pending"] == again["again"]
    assert json.loads(after) == {"pending": 0, "recovered": again["again"], "abandoned": 0, "discarded": 0}


def test_readers_are_listed_and_forgotten(played: Home) -> None:
    """Every reaction is a reader with a position; one that is forgotten is absent until it starts anew."""
    _, listed = played.run("readers", "list", "--json")
    code, text = played.run("readers", "forget", "record_ratings")
    _, left = played.run("readers", "list", "--json")
    unknown, _ = played.run("readers", "forget", "nobody")

    before, after = ({row["reader"] for row in json.loads(output)} for output in (listed, left))
    assert code == 0, text
    assert {"pipeline", "fill", "alert", "record_ratings"} <= before
    assert before - after == {"record_ratings"}
    assert unknown == 2


def test_schemas_are_printed(home: Home) -> None:
    """Every event is in the JSON Schema and in the AsyncAPI document, without any store."""
    _, schema = home.run("events", "schema")
    _, document = home.run("events", "schema", "--asyncapi")

    assert "model.promoted" in schema
    assert json.loads(document)["asyncapi"].startswith("3.")


def test_a_dead_letter_is_shown_with_its_event(played: Home) -> None:
    """dlq show prints the delivery and the event that failed."""
    [again] = run_json(played, "events", "replay", "--after", "0", "--names", "pipeline.opened", "--reader", "pipeline")

    _, listed = played.run("dlq", "list", "--json")
    [delivery] = json.loads(listed)
    code, text = played.run("dlq", "show", f"pipeline@{delivery['position']}")

    assert again["again"] == 1
    assert code == 0, text
    assert json.loads(text)["event"]["name"] == "pipeline.opened"


def test_a_request_is_answered_by_a_gate(played: Home) -> None:
    """Requesting a promotion never bypasses the gate; an unknown line or stage is wrong input."""
    # No process runs the pipeline now: the request is stored, and the next run answers it.
    code, text = played.run("request", "hex8_2p", "promote")
    played.run("run", "--iterations", "1", "--variants", "hex8_2p")
    _, why = played.run("why", "hex8_2p")

    assert code == 1
    assert "no coordinator has answered within" in text
    assert "requested" in why
    assert played.run("request", "square8_4p", "export")[0] == 2
    assert played.run("request", "hex8_2p", "dance")[0] == 2


def test_alerts_are_listed_and_cleared(played: Home) -> None:
    """Nothing is wrong after a good run; clearing what is not open is wrong input."""
    code, text = played.run("alerts", "list")
    unknown, output = played.run("alerts", "clear", "disk", "a")

    assert (code, text.strip()) == (0, "no alerts")
    assert unknown == 2, output


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("events", "tail", "--names", "QUORUM_LOST"), "unknown event 'QUORUM_LOST'"),
        (("events", "replay", "--since", "soon"), "not a time: 'soon'"),
        (("events", "replay", "--reader", "nobody"), "unknown reader 'nobody'"),
        (("dlq", "show", "pipeline@999999"), "unknown delivery"),
        (("readers", "forget"), "name the reader"),
    ],
)
def test_wrong_arguments_are_named(played: Home, arguments: tuple[str, ...], text: str) -> None:
    """Each wrong argument is named with exit 2."""
    code, output = played.run(*arguments)

    assert code == 2, output
    assert text in output
