"""The story of events from the command line: traces, replays, schemas, readers, requests, alerts."""

import json

import pytest

from e2e.processes import Home


def told(home: Home, *arguments: str) -> list[dict[str, object]]:
    """What a command prints as JSON, a line each."""
    code, output = home.run(*arguments, "--json")
    assert code == 0, output
    return [json.loads(line) for line in output.splitlines()]


def test_the_story_of_an_event_is_shown(played: Home) -> None:
    """trace prints everything that one cause led to, and names the event that was asked for; a trace id does too."""
    [promoted] = told(played, "events", "tail", "-n", "1", "--names", "MODEL_PROMOTED")

    code, text = played.run("events", "trace", str(promoted["id"]))
    _, tree = played.run("events", "trace", str(promoted["trace"]), "--json")
    nobody, _ = played.run("events", "trace", "0" * 32)

    assert code == 0, text
    assert "evaluation.blocks_played" in text
    assert "model.promoted" in text
    assert str(promoted["id"]) in tree
    assert nobody == 2


def test_events_are_printed_and_delivered_again(played: Home) -> None:
    """replay prints what fits; with a reader it becomes its letters, which the next coordinator settles."""
    names = ("--names", "pipeline.moved")

    code, text = played.run("events", "replay", "--after", "0", *names)
    [count] = told(played, "events", "replay", "--since", "1d", *names, "--dry-run")
    [again] = told(played, "events", "replay", "--after", "0", *names, "--reader", "alert")
    _, waiting = played.run("dlq", "stats", "--json")
    played.run("run", "--iterations", "1", "--variants", "hex8_2p", "--set", "bus.redeliver_seconds=0.1")
    _, after = played.run("dlq", "stats", "--json")

    assert code == 0, text
    assert text.count("pipeline.moved") == count["events"] == again["again"] > 0
    assert json.loads(waiting)["pending"] == again["again"]
    assert json.loads(after) == {"pending": 0, "recovered": again["again"], "abandoned": 0, "discarded": 0}


def test_readers_are_listed_and_forgotten(played: Home) -> None:
    """Every reaction is a reader that stands somewhere; one that is forgotten is gone until it starts anew."""
    _, listed = played.run("readers", "list", "--json")
    code, text = played.run("readers", "forget", "feedback")
    _, left = played.run("readers", "list", "--json")
    unknown, _ = played.run("readers", "forget", "nobody")

    before, after = ({row["reader"] for row in json.loads(output)} for output in (listed, left))
    assert code == 0, text
    assert {"pipeline", "fill", "alert", "feedback"} <= before
    assert before - after == {"feedback"}
    assert unknown == 2


def test_schemas_are_printed(home: Home) -> None:
    """Every event is in the JSON Schema and in the AsyncAPI document, without any store."""
    _, schema = home.run("events", "schema")
    _, document = home.run("events", "schema", "--asyncapi")

    assert "model.promoted" in schema
    assert json.loads(document)["asyncapi"].startswith("3.")


def test_a_letter_is_shown_with_its_event(played: Home) -> None:
    """dlq show prints the letter and the event that it could not deliver."""
    [again] = told(played, "events", "replay", "--after", "0", "--names", "pipeline.opened", "--reader", "pipeline")

    _, listed = played.run("dlq", "list", "--json")
    [letter] = json.loads(listed)
    code, shown = played.run("dlq", "show", f"pipeline@{letter['position']}")

    assert again["again"] == 1
    assert code == 0, shown
    assert json.loads(shown)["event"]["name"] == "pipeline.opened"


def test_a_request_is_answered_by_a_gate(played: Home) -> None:
    """Asking for a promotion never bypasses the gate; a line or stage that is not there is wrong input."""
    # Nobody runs the pipeline now: the request is kept, and the next run answers it.
    code, text = played.run("request", "hex8_2p", "promote")
    played.run("run", "--iterations", "1", "--variants", "hex8_2p")
    _, why = played.run("why", "hex8_2p")

    assert code == 1
    assert "nobody has answered" in text
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
        (("events", "tail", "--names", "QUORUM_LOST"), "is retired"),
        (("events", "replay", "--since", "soon"), "is neither like 90m"),
        (("events", "replay", "--reader", "nobody"), "unknown reader 'nobody'"),
        (("dlq", "show", "pipeline@999999"), "unknown delivery"),
        (("readers", "forget"), "which reader?"),
    ],
)
def test_wrong_words_are_answered(played: Home, arguments: tuple[str, ...], text: str) -> None:
    """Each wrong word is named with exit 2."""
    code, output = played.run(*arguments)

    assert code == 2, output
    assert text in output
