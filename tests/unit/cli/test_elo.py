"""Elo shows how far each line has come and how fast, with bounds, and what the run's promotions may be wrong by."""

import pytest

from ringrift.cli.commands.elo import _as_text, _players_table, _promotion_errors
from ringrift.evaluation.budget import begin, open_account, settle
from ringrift.evaluation.interval import Interval
from ringrift.kernel.settings import Budget, Gate
from ringrift.kernel.value import changed
from ringrift.pipeline.metrics import LineMetrics, MetricPoint
from ringrift.pipeline.ratings import RatedModel

NOW = 10_000.0
ERRORS = {"tests": 5, "promotions": 2, "false_at_most": 0.12, "share_at_most": 0.06, "budget": 0.1}
START, CHAMPION = "a" * 64, "b" * 64


def climb(
    elo: Interval | None = None, pace: Interval | None = None, eta: float | None = None, rated: float | None = None
) -> dict[str, object]:
    """A line that has come so far."""
    models = {"start": START, "champion": CHAMPION, "generation": 3, "promotions": 3}
    strength = {"elo": elo, "elo_per_hour": pace, "eta_seconds": eta, "blocks": 96, "rated": rated}
    about = {"variant": "hex8_2p", "games": 12_345, "metrics": LineMetrics(variant="hex8_2p"), "players": ()}
    return {**about, **models, **strength}


def between(lower: float, upper: float) -> Interval:
    """An interval with these bounds."""
    return Interval(value=(lower + upper) / 2, lower=lower, upper=upper)


def test_a_line_without_ratings_says_so() -> None:
    """Its games and generations are shown all the same."""
    text = _as_text((climb(),), ERRORS, None, NOW)

    assert "no ratings yet" in text
    assert "too early to say" in text
    assert "12,345" in text


def test_a_champion_of_a_moment_ago_is_not_rated_yet() -> None:
    """Though others of its line are."""
    assert "not rated yet" in _as_text((climb(rated=NOW - 5.0),), ERRORS, None, NOW)


def test_strength_and_pace_are_shown_with_their_bounds() -> None:
    """And since when they are known."""
    one = climb(between(100.0, 140.0), between(-3.0, 25.0), rated=NOW - 90.0)

    text = _as_text((one,), ERRORS, None, NOW)

    assert "+120 (+100 … +140)" in text
    assert "+11 (-3 … +25)" in text
    assert "1 min 30 s ago" in text
    assert "aaaaaaaaaa" in text
    assert "bbbbbbbbbb" in text


@pytest.mark.parametrize(
    ("one", "word"),
    [
        (climb(between(190.0, 220.0)), "reached"),
        (climb(between(100.0, 140.0), between(5.0, 25.0), eta=7200.0), "in 2 h 0 min"),
        (climb(between(100.0, 140.0), between(-5.0, 25.0)), "unknown"),
        (climb(), "unknown"),
    ],
)
def test_a_target_is_reached_at_this_pace_or_is_unknown(one: dict[str, object], word: str) -> None:
    """A pace that may as well be none promises nothing."""
    head, row, *_ = _as_text((one,), ERRORS, 200.0, NOW).splitlines()

    assert head.endswith("at 200 Elo")
    assert row.endswith(word)


def test_the_errors_of_the_run_are_those_of_its_account() -> None:
    """Every test spends its alpha, and so many false promotions are expected at most."""
    budget = Budget()
    account, gate = begin(open_account(budget), Gate())
    account = settle(account, budget, promoted=True)

    errors = _promotion_errors(account, budget)

    assert errors == {
        "tests": 1,
        "promotions": 1,
        "false_at_most": pytest.approx(gate.alpha),
        "share_at_most": pytest.approx(gate.alpha),
        "budget": 0.1,
    }
    assert "1 promotions in 1 tests" in _as_text((), errors, None, NOW)


def test_a_store_without_lines_says_so() -> None:
    """There is nothing to show but the budget."""
    assert _as_text((), ERRORS, None, NOW).startswith("no lines yet")


def test_how_a_line_trains_stands_beside_its_strength() -> None:
    """Losses, speed, positions, window, reuse, games a second and busy cores; dashes for what is not known."""
    point = MetricPoint(variant="hex8_2p", number=3, model=CHAMPION, generation=3, time=0.0, positions=45_000)
    point = changed(point, window=2_560, steps=100, reuse=2.0, seconds=20.0, loss=2.25, held_out_loss=2.5)
    metrics = LineMetrics(
        variant="hex8_2p", training=point, games_per_second=12.345, busy={"selfplay": 0.5, "sync": 0.0}
    )

    with_metrics = _as_text((climb() | {"metrics": metrics},), ERRORS, None, NOW).split("\n\n")[1]
    without = _as_text((climb(),), ERRORS, None, NOW).split("\n\n")[1]

    head, row = with_metrics.splitlines()
    assert " ".join(head.split()) == "variant loss held-out loss steps/s positions window reuse games/s cores busy"
    assert " ".join(row.split()) == "hex8_2p 2.2500 2.5000 5.0 45,000 2,560 games 2.00 12.35 selfplay 50%"
    assert without.splitlines()[1].split() == ["hex8_2p", *("—" * 8)]


def test_every_player_of_a_line_is_listed_with_its_bounds() -> None:
    """Models by their generation, players that never train by their name."""
    model = RatedModel(model=CHAMPION, elo=between(100.0, 140.0), generation=3, since=1.0, blocks=96)
    uct = RatedModel(model="uct:200", elo=between(-10.0, 30.0), blocks=16)

    lines = _players_table((model, uct)).splitlines()

    assert lines[1].split() == ["3", "bbbbbbbbbb", "+120", "(+100", "…", "+140)", "96"]
    assert lines[2].split() == ["—", "uct:200", "+10", "(-10", "…", "+30)", "16"]
