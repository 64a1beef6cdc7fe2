"""After a run its store says what every model rests on and what the games of every node have reached."""

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


def said(home: Home, name: str, variant: str = "hex8_2p") -> list[dict[str, Any]]:
    """Every event of *name* about *variant*, from the log."""
    rows = home.ask("SELECT body FROM log WHERE name = ? ORDER BY position", name)
    return [body for body in (json.loads(row) for (row,) in rows) if body["variant"] == variant]


def told(home: Home, *arguments: str) -> dict[str, Any]:
    """What a command answers as JSON."""
    code, output = home.run(*arguments, "--json")
    assert code == 0, output
    answer: dict[str, Any] = json.loads(output)
    return answer


def test_the_champion_is_told_back_to_its_games(ran: Home) -> None:
    """Its samples, batches, nodes, seeds, parent and code are those that the log has told of."""
    champion = ran.lines()["hex8_2p"].champion
    [trained] = [one for one in said(ran, "training.finished") if one["model"] == champion]
    [exported] = [one for one in said(ran, "data.exported") if one["samples"] == trained["samples"]]
    played = {one["batch"]: one for one in said(ran, "selfplay.batch_finished")}
    used = [played[batch] for batch in exported["batches"]]
    seeds = {seed for (seed,) in ran.ask("SELECT json_extract(body, '$.seed') FROM jobs WHERE kind = 'play'")}

    found = told(ran, "lineage", "hex8_2p")

    assert (found["model"]["blob"], found["champion"]) == (champion, True)
    assert (found["model"]["node"], found["model"]["model"]) == (trained["node"], trained["parent"])
    assert (found["samples"]["blob"], found["samples"]["node"]) == (trained["samples"], exported["node"])
    assert {one["blob"]: (one["node"], one["games"], one["model"]) for one in found["batches"]} == {
        one["batch"]: (one["node"], one["games"], one["model"]) for one in used
    }
    assert {one["seed"] for one in found["batches"]} <= seeds
    assert {(one["workload"], one["version"], one["release"]) for one in found["batches"]} == {("fake", "1", "0.1.0")}
    assert [one["generation"] for one in found["parents"]][-1] == 0
    assert found["parents"][0]["blob"] == trained["parent"]
    assert sum(group["games"] for group in found["groups"]) == sum(one["games"] for one in used)
    assert (found["missing"], found["cut"]) == ([], [])


def test_the_origin_names_the_job_and_the_moment(ran: Home) -> None:
    """Job and time are those of the transaction that ended the job."""
    champion = ran.lines()["hex8_2p"].champion
    [(at,)] = ran.ask(
        "SELECT time FROM log WHERE name = 'training.finished' AND json_extract(body, '$.model') = ?", champion
    )

    model = told(ran, "lineage", str(champion)[:16])["model"]

    assert ran.ask("SELECT kind, state, key FROM jobs WHERE id = ?", model["job"]) == [("train", "done", model["key"])]
    assert abs(model["time"] - at) < 1.0


@pytest.mark.parametrize("variant", ["hex8_2p", "hex8_3p"])
def test_the_games_of_a_node_are_followed_to_models(ran: Home, variant: str) -> None:
    """For every node, samples, models and games are those that can be counted in the log; other variants are not."""
    batches = {one["batch"]: one for one in said(ran, "selfplay.batch_finished", variant)}
    exports = {one["samples"]: one["batches"] for one in said(ran, "data.exported", variant)}
    for node in {one["node"] for one in batches.values()}:
        mine = {blob: one["games"] for blob, one in batches.items() if one["node"] == node}
        seen = {samples: sum(mine.get(blob, 0) for blob in used) for samples, used in exports.items()}
        trained = [one["model"] for one in said(ran, "training.finished", variant) if seen.get(one["samples"])]

        found = told(ran, "blast", "--node", node, "--variant", variant)

        assert (found["played"]["blobs"], found["played"]["games"]) == (len(mine), sum(mine.values()))
        assert {one["origin"]["blob"]: one["games"] for one in found["samples"]} == {
            samples: games for samples, games in seen.items() if games
        }
        assert Counter(one["origin"]["blob"] for one in found["models"] if one["directly"]) == Counter(trained)
        assert {one["origin"]["blob"] for one in found["models"] if one["champion"]} <= {ran.lines()[variant].champion}


def test_people_can_read_it(ran: Home) -> None:
    """Without --json both commands name the champion, its parent and the nodes; --full lists every batch."""
    champion = str(ran.lines()["hex8_2p"].champion)
    found = told(ran, "lineage", champion)
    node = found["batches"][0]["node"]

    _, short = ran.run("lineage", "hex8_2p")
    _, full = ran.run("lineage", "hex8_2p", "--full")
    _, blast = ran.run("blast", "--node", node, "--since", "1h")
    _, later = ran.run("blast", "--node", node, "--since", "2999-01-01")

    assert f"model {champion}: hex8_2p, generation {found['model']['generation']}, champion" in short
    assert f"parent {found['model']['model']}" in short
    assert f"samples {found['samples']['blob']}: " in short
    assert all(one["blob"] in full and one["blob"] not in short for one in found["batches"])
    assert f"{node} played " in blast
    assert champion[:10] in blast
    assert "champion" in blast
    assert "no samples and no model have seen any of them" in later


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("lineage", "zzz"), "unknown model 'zzz'; known: "),
        (("lineage", "square8_2p"), "unknown model 'square8_2p'; known: "),
        (("blast", "--node", "nobody"), "unknown node 'nobody'; known: a"),
        (("blast", "--node", "a", "--variant", "chess"), "variant 'chess' is not valid"),
        (("blast", "--node", "a", "--variant", "hex8_4p"), "unknown variant 'hex8_4p'; known: hex8_2p, hex8_3p"),
        (("blast", "--node", "a", "--since", "soon"), "is neither like 90m"),
        (("blast", "--node", "a", "--since", "1h", "--until", "2h"), "--until '2h' lies before --since '1h'"),
    ],
)
def test_what_is_not_there_is_named(ran: Home, arguments: tuple[str, ...], text: str) -> None:
    """Exit 2, one line that says what there is, and the log is as it was."""
    before = ran.ask("SELECT count(*) FROM log")

    code, output = ran.run(*arguments)

    assert code == 2, output
    assert text in output
    assert "Traceback" not in output
    assert ran.ask("SELECT count(*) FROM log") == before


def test_without_a_store_there_is_no_answer(tmp_path: Path) -> None:
    """Both commands say so and make none."""
    home = Home(tmp_path / "home")

    answers = [home.run("lineage", "hex8_2p"), home.run("blast", "--node", "a")]

    assert [code for code, _ in answers] == [1, 1]
    assert all("there is no store at" in output for _, output in answers)
    assert not home.database.exists()
