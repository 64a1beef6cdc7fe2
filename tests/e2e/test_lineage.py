"""After a run its store shows what every model rests on and what the games of every node have reached."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from e2e.processes import Home


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home in which two variants have had a promotion each."""
    home = Home(tmp_path_factory.mktemp("lineage") / "home")
    code, output = home.run("run", "--iterations", "1", "--variants", "hex8_2p,hex8_3p")
    assert code == 0, output
    return home


def events_of(home: Home, name: str, variant: str = "hex8_2p") -> list[dict[str, Any]]:
    """Every event of *name* about *variant*, from the log."""
    rows = home.ask("SELECT body FROM log WHERE name = ? ORDER BY position", name)
    return [body for body in (json.loads(row) for (row,) in rows) if body["variant"] == variant]


def run_json(home: Home, *arguments: str) -> dict[str, Any]:
    """The answer of a command as JSON."""
    code, output = home.run(*arguments, "--json")
    assert code == 0, output
    answer: dict[str, Any] = json.loads(output)
    return answer


def test_the_champion_is_traced_back_to_its_games(ran: Home) -> None:
    """Its samples, batches, nodes, seeds, parent and code are those in the log."""
    champion = ran.lines()["hex8_2p"].champion
    [trained] = [event for event in events_of(ran, "training.finished") if event["model"] == champion]
    [exported] = [event for event in events_of(ran, "data.exported") if event["samples"] == trained["samples"]]
    played = {event["batch"]: event for event in events_of(ran, "selfplay.batch_finished")}
    used = [played[batch] for batch in exported["batches"]]
    seeds = {seed for (seed,) in ran.ask("SELECT json_extract(body, '$.seed') FROM jobs WHERE kind = 'play'")}

    tree = run_json(ran, "lineage", "hex8_2p")

    assert (tree["model"]["blob"], tree["champion"]) == (champion, True)
    assert (tree["model"]["node"], tree["model"]["model"]) == (trained["node"], trained["parent"])
    assert (tree["samples"]["blob"], tree["samples"]["node"]) == (trained["samples"], exported["node"])
    assert {batch["blob"]: (batch["node"], batch["games"], batch["model"]) for batch in tree["batches"]} == {
        batch["batch"]: (batch["node"], batch["games"], batch["model"]) for batch in used
    }
    assert {batch["seed"] for batch in tree["batches"]} <= seeds
    assert {(batch["workload"], batch["version"], batch["release"]) for batch in tree["batches"]} == {
        ("fake", "1", "0.1.0")
    }
    assert [model["generation"] for model in tree["parents"]][-1] == 0
    assert tree["parents"][0]["blob"] == trained["parent"]
    assert sum(group["games"] for group in tree["groups"]) == sum(batch["games"] for batch in used)
    assert (tree["missing"], tree["cut"]) == ([], [])


def test_the_origin_names_the_job_and_the_moment(ran: Home) -> None:
    """Job and time are those of the transaction that ended the job."""
    champion = ran.lines()["hex8_2p"].champion
    [(at,)] = ran.ask(
        "SELECT time FROM log WHERE name = 'training.finished' AND json_extract(body, '$.model') = ?", champion
    )

    model = run_json(ran, "lineage", str(champion)[:16])["model"]

    assert ran.ask("SELECT kind, state, key FROM jobs WHERE id = ?", model["job"]) == [("train", "done", model["key"])]
    assert abs(model["time"] - at) < 1.0


@pytest.mark.parametrize("variant", ["hex8_2p", "hex8_3p"])
def test_the_games_of_a_node_are_followed_to_models(ran: Home, variant: str) -> None:
    """For every node, samples, models and games are those that can be counted in the log; other variants are not."""
    batches = {event["batch"]: event for event in events_of(ran, "selfplay.batch_finished", variant)}
    exports = {event["samples"]: event["batches"] for event in events_of(ran, "data.exported", variant)}
    for node in {batch["node"] for batch in batches.values()}:
        games_by_batch = {blob: batch["games"] for blob, batch in batches.items() if batch["node"] == node}
        games_by_samples = {
            samples: sum(games_by_batch.get(blob, 0) for blob in used) for samples, used in exports.items()
        }
        trained = [
            event["model"]
            for event in events_of(ran, "training.finished", variant)
            if games_by_samples.get(event["samples"])
        ]

        reach = run_json(ran, "blast", "--node", node, "--variant", variant)

        assert (reach["played"]["blobs"], reach["played"]["games"]) == (
            len(games_by_batch),
            sum(games_by_batch.values()),
        )
        assert {sample["origin"]["blob"]: sample["games"] for sample in reach["samples"]} == {
            samples: games for samples, games in games_by_samples.items() if games
        }
        assert Counter(model["origin"]["blob"] for model in reach["models"] if model["directly"]) == Counter(trained)
        assert {model["origin"]["blob"] for model in reach["models"] if model["champion"]} <= {
            ran.lines()[variant].champion
        }


def test_the_text_output_names_champion_parent_and_nodes(ran: Home) -> None:
    """Without --json both commands name the champion, its parent and the nodes; --full lists every batch."""
    champion = str(ran.lines()["hex8_2p"].champion)
    tree = run_json(ran, "lineage", champion)
    node = tree["batches"][0]["node"]

    _, short = ran.run("lineage", "hex8_2p")
    _, full = ran.run("lineage", "hex8_2p", "--full")
    _, blast = ran.run("blast", "--node", node, "--since", "1h")
    _, later = ran.run("blast", "--node", node, "--since", "2999-01-01")

    assert f"model {champion}: hex8_2p, generation {tree['model']['generation']}, champion" in short
    assert f"parent {tree['model']['model']}" in short
    assert f"samples {tree['samples']['blob']}: " in short
    assert all(batch["blob"] in full and batch["blob"] not in short for batch in tree["batches"])
    assert f"{node} played " in blast
    assert champion[:10] in blast
    assert "champion" in blast
    assert "no samples and no model contain any of them" in later


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("lineage", "zzz"), "unknown model 'zzz'; known: "),
        (("lineage", "square8_2p"), "unknown model 'square8_2p'; known: "),
        (("blast", "--node", "nobody"), "unknown node 'nobody'; known: a"),
        (("blast", "--node", "a", "--variant", "chess"), "variant 'chess' is not valid"),
        (("blast", "--node", "a", "--variant", "hex8_4p"), "unknown variant 'hex8_4p'; known: hex8_2p, hex8_3p"),
        (("blast", "--node", "a", "--since", "soon"), "not a time: 'soon'"),
        (("blast", "--node", "a", "--since", "1h", "--until", "2h"), "--until '2h' lies before --since '1h'"),
    ],
)
def test_unknown_names_are_refused_with_the_known_ones(ran: Home, arguments: tuple[str, ...], text: str) -> None:
    """Exit 2, one line with the known names, and the log is unchanged."""
    before = ran.ask("SELECT count(*) FROM log")

    code, output = ran.run(*arguments)

    assert code == 2, output
    assert text in output
    assert "Traceback" not in output
    assert ran.ask("SELECT count(*) FROM log") == before


def test_without_a_store_there_is_no_answer(tmp_path: Path) -> None:
    """Both commands report that there is none, and create none."""
    home = Home(tmp_path / "home")

    answers = [home.run("lineage", "hex8_2p"), home.run("blast", "--node", "a")]

    assert [code for code, _ in answers] == [1, 1]
    assert all("no store at" in output for _, output in answers)
    assert not home.database.exists()
