"""After a run the store shows how strong each champion is, from jobs of real workers."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from e2e.processes import SHARP, Home, kill

VARIANTS = "hex8_2p,hex8_3p"


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home in which two variants have had two promotions each, rated soon after every decision."""
    home = Home(tmp_path_factory.mktemp("elo") / "home", SHARP)
    code, output = home.run("run", "--iterations", "2", "--variants", VARIANTS, "--set", "policy.rate_seconds=0.2")
    assert code == 0, output
    return home


def strengths(home: Home, *arguments: str) -> dict[str, Any]:
    """The command's answer as JSON."""
    code, output = home.run("elo", *arguments, "--json")
    assert code == 0, output
    answer: dict[str, Any] = json.loads(output)
    return answer


def test_champions_are_rated_above_their_start(ran: Home) -> None:
    """Each with bounds; start, champion, games and generations are those of the line."""
    by_variant = {strength["variant"]: strength for strength in strengths(ran)["lines"]}

    assert set(by_variant) == set(VARIANTS.split(","))
    for variant, line in ran.lines().items():
        strength = by_variant[variant]
        assert (strength["champion"], strength["generation"], strength["games"]) == (
            line.champion,
            2,
            line.counts.games,
        )
        assert strength["start"] == line.ancestors[0].model
        assert strength["blocks"] > 0
        # The last champion may be younger than the last ratings; the one before it is not.
        [(body,)] = ran.ask("SELECT body FROM records WHERE kind = 'ratings' AND id = ?", variant)
        first, second, *_ = json.loads(body)["periods"]
        assert (first["generation"], first["elo"]) == (0, {"value": 0.0, "lower": 0.0, "upper": 0.0})
        assert (second["generation"], second["elo"]["value"] > 0.0) == (1, True)
        assert second["elo"]["lower"] < second["elo"]["value"] < second["elo"]["upper"]
    rated = ran.ask("SELECT count(*) FROM jobs WHERE kind = 'rate' AND state = 'done'")
    assert rated[0][0] >= 2
    assert not ran.ask("SELECT key FROM jobs WHERE kind = 'rate' AND state = 'dead'")


def test_the_errors_of_the_run_are_reported(ran: Home) -> None:
    """As many promotions as there were on evidence, and how many false ones to expect at most."""
    errors = strengths(ran, "--variant", "hex8_2p")["errors"]

    assert errors["promotions"] == 4
    assert errors["false_at_most"] > 0.0
    assert errors["share_at_most"] <= errors["budget"]


def test_a_target_and_a_line_that_is_unknown(ran: Home) -> None:
    """A target adds a column; a variant that was never opened is wrong input and names those that were."""
    code, output = ran.run("elo", "--target", "5000")
    assert code == 0
    assert "at 5000 Elo" in output

    code, output = ran.run("elo", "--variant", "square8_2p")
    assert code == 2
    assert "hex8_2p" in output


def test_watching_prints_at_once_and_ends_with_ctrl_c(ran: Home) -> None:
    """The command prints until it is interrupted, and that is no failure."""
    process = ran.start("elo", "--watch")
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("variant")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=10)
        assert process.returncode == 0
    finally:
        kill(process)


def test_a_missing_store_is_reported(tmp_path: Path) -> None:
    """The command creates nothing."""
    code, output = Home(tmp_path / "empty").run("elo")

    assert code == 1
    assert "no store at" in output
