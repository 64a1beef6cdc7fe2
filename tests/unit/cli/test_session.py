"""A run goes on where the last one on its store was cut short, with the same seed."""

import argparse
from pathlib import Path

import pytest

from ringrift.cli import session
from ringrift.cli.environment import Effective, effective
from ringrift.cli.session import Known, Session
from ringrift.kernel.errors import SettingsError
from ringrift.pipeline.line import Line

LINE = Line(variant="hex8_2p", workload="reversi", players=2)


@pytest.fixture
def found(tmp_path: Path) -> Effective:
    """Settings as they are by default."""
    return effective({"RINGRIFT_HOME": str(tmp_path)})


def options(minutes: float | None = None) -> argparse.Namespace:
    """A command line with *minutes*."""
    return argparse.Namespace(minutes=minutes)


def test_a_new_run_has_a_seed_of_its_own(found: Effective) -> None:
    """Two runs differ, unless somebody says which."""
    seeds = {session.seed_of(None, found, Known(), "reversi") for _ in range(8)}

    assert len(seeds) > 1
    assert session.seed_of(5, found, Known(), "reversi") == 5


def test_what_stands_in_stays_as_settings_say(found: Effective) -> None:
    """Nobody learns from it, and tests want the same every time."""
    assert session.seed_of(None, found, Known(), "fake") == 0


def test_a_store_keeps_its_seed(found: Effective) -> None:
    """Also one that was begun before sessions were kept; another seed is refused by name."""
    begun = Known(lines=(LINE,), session=Session(seed=9))

    assert session.seed_of(None, found, begun, "reversi") == session.seed_of(9, found, begun, "reversi") == 9
    assert session.seed_of(None, found, Known(lines=(LINE,)), "reversi") == 0
    with pytest.raises(SettingsError, match="begun with 9"):
        session.seed_of(5, found, begun, "reversi")


def test_a_seed_in_the_settings_is_a_wish(found: Effective, tmp_path: Path) -> None:
    """As good as one on the command line."""
    given = effective({"RINGRIFT_HOME": str(tmp_path)}, given={"policy.seed": "12"})

    assert session.seed_of(None, given, Known(), "reversi") == 12


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_a_seed_has_63_bits(found: Effective, seed: int) -> None:
    """Others are refused."""
    with pytest.raises(SettingsError, match="--seed"):
        session.seed_of(seed, found, Known(), "reversi")


@pytest.mark.parametrize(
    ("minutes", "workload", "loop", "whole"),
    [(None, "reversi", 540.0, 720.0), (5.0, "reversi", 270.0, 420.0), (30.0, "fake", 1740.0, 1920.0),
     (0.01, "reversi", 1.0, 120.6), (None, "fake", None, None), (0.0, "reversi", None, None)],
)  # fmt: skip
def test_a_part_of_the_minutes_is_kept_for_the_proof(
    minutes: float | None, workload: str, loop: float | None, whole: float | None
) -> None:
    """A tenth, and at most one of them; with it the run ends no more than two minutes late."""
    times = session.times(options(minutes), workload, Known())

    assert (times.loop_seconds, times.all_seconds) == (pytest.approx(loop), pytest.approx(whole))


@pytest.mark.parametrize("spent", [0.0, 240.0, 560.0, 600.0, 1e6])
def test_what_was_cut_short_has_the_rest(spent: float) -> None:
    """Of its ten minutes; one whose minutes are over begins anew."""
    times = session.times(options(), "reversi", Known(session=Session(seed=1, spent_seconds=spent)))

    left = 600.0 - spent if spent < 600.0 else 600.0
    assert times.loop_seconds == pytest.approx(max(left - 60.0, 1.0))


@pytest.mark.parametrize("minutes", [-1.0, float("nan"), float("inf"), 1e9])
def test_minutes_have_a_range(minutes: float) -> None:
    """Others are refused."""
    with pytest.raises(SettingsError, match="--minutes"):
        session.times(options(minutes), "reversi", Known())


def test_a_store_that_is_not_there_says_nothing(found: Effective) -> None:
    """And none is made by asking."""
    assert session.known(found.settings.store) == Known()
    assert not Path(found.settings.store.path).exists()
