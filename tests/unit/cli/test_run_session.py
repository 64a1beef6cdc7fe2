"""A run goes on where the last one on its store was cut short, with the same seed."""

import asyncio
from pathlib import Path

import apsw
import pytest

from ringrift.cli import run_plan
from ringrift.cli.run_plan import _Previous, _RunSession
from ringrift.environment import EffectiveSettings, read_settings
from ringrift.kernel.errors import SettingsError
from ringrift.pipeline.line import Line
from ringrift.store.sqlite.connect import _MIGRATIONS, SCHEMA_FIRST

LINE = Line(variant="hex8_2p", workload="reversi", players=2)


@pytest.fixture
def effective(tmp_path: Path) -> EffectiveSettings:
    """Settings as they are by default."""
    return read_settings({"RINGRIFT_HOME": str(tmp_path)})


def test_a_new_run_has_a_seed_of_its_own(effective: EffectiveSettings) -> None:
    """Two runs differ, unless somebody says which."""
    seeds = {run_plan._choose_seed(None, effective, _Previous(), is_drawn=True) for _ in range(8)}

    assert len(seeds) > 1
    assert run_plan._choose_seed(5, effective, _Previous(), is_drawn=True)[0] == 5


def test_a_run_of_the_fake_has_the_seed_of_the_settings(effective: EffectiveSettings) -> None:
    """Nobody learns from it, and tests want the same every time."""
    assert run_plan._choose_seed(None, effective, _Previous(), is_drawn=False)[0] == 0


def test_a_store_keeps_its_seed(effective: EffectiveSettings) -> None:
    """Also one that was begun before sessions were kept; another seed is refused by name."""
    begun = _Previous(lines=(LINE,), session=_RunSession(seed=9))

    assert run_plan._choose_seed(None, effective, begun, is_drawn=True)[0] == 9
    assert run_plan._choose_seed(9, effective, begun, is_drawn=True)[0] == 9
    assert run_plan._choose_seed(None, effective, _Previous(lines=(LINE,)), is_drawn=True)[0] == 0
    with pytest.raises(SettingsError, match="begun with 9"):
        run_plan._choose_seed(5, effective, begun, is_drawn=True)


def test_a_seed_in_the_settings_is_a_wish(effective: EffectiveSettings, tmp_path: Path) -> None:
    """As good as one on the command line."""
    chosen = read_settings({"RINGRIFT_HOME": str(tmp_path)}, overrides={"policy.seed": "12"})

    assert run_plan._choose_seed(None, chosen, _Previous(), is_drawn=True)[0] == 12


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_a_seed_has_63_bits(effective: EffectiveSettings, seed: int) -> None:
    """Others are refused."""
    with pytest.raises(SettingsError, match="--seed"):
        run_plan._choose_seed(seed, effective, _Previous(), is_drawn=True)


@pytest.mark.parametrize(
    ("minutes", "loop", "whole"),
    [(10.0, 540.0, 720.0), (5.0, 270.0, 420.0), (30.0, 1740.0, 1920.0), (0.01, 1.0, 120.6), (0.0, None, None)],
)
def test_a_part_of_the_minutes_is_kept_for_the_proof(minutes: float, loop: float | None, whole: float | None) -> None:
    """A tenth, and at most one of them; with it the run ends no more than two minutes late."""
    session, notes = run_plan._run_times(None, minutes, _RunSession())

    assert notes == []
    assert run_plan._loop_times(session) == (pytest.approx(loop), pytest.approx(whole))


CUT_SHORT = _RunSession(seed=1, seconds=600.0, spent_seconds=240.0)


def test_a_run_that_was_cut_short_has_the_rest_of_its_minutes() -> None:
    """Of its own, whatever the default is, and a line says so."""
    session, [note] = run_plan._run_times(None, 3.0, CUT_SHORT)

    assert session == CUT_SHORT
    assert run_plan._loop_times(session)[0] == pytest.approx(360.0 - 60.0)
    assert "6.0 of its 10 minutes left" in note


@pytest.mark.parametrize("typed", [5.0, 10.0, 60.0, 0.0])
def test_minutes_that_are_typed_mean_what_they_say(typed: float) -> None:
    """Whatever the run before has left, which a line says."""
    session, [note] = run_plan._run_times(typed, 3.0, CUT_SHORT)

    assert (session.seconds, session.spent_seconds, session.seed) == (60.0 * typed, 0.0, 1)
    assert "6.0 of its 10 minutes left" in note
    assert f"the {typed:g} minutes of --minutes" in note


@pytest.mark.parametrize(
    "before", [_RunSession(), _RunSession(seconds=600.0), _RunSession(seconds=600.0, spent_seconds=1e6)]
)
def test_after_a_run_that_ended_the_next_begins_anew(before: _RunSession) -> None:
    """With the default minutes and without a note."""
    session, notes = run_plan._run_times(None, 3.0, before)

    assert (session.seconds, session.spent_seconds, notes) == (180.0, 0.0, [])


@pytest.mark.parametrize("minutes", [-1.0, float("nan"), float("inf"), 1e9])
def test_minutes_have_a_range(minutes: float) -> None:
    """Others are refused."""
    with pytest.raises(SettingsError, match="--minutes"):
        run_plan._run_times(minutes, 3.0, _RunSession())


def test_a_store_that_is_not_there_says_nothing(effective: EffectiveSettings) -> None:
    """And none is made by asking."""
    assert asyncio.run(run_plan.read_previous(effective.settings.store)) == _Previous()
    assert not Path(effective.settings.store.path).exists()


@pytest.mark.parametrize("version", [0, SCHEMA_FIRST])
def test_a_run_begins_on_a_store_that_is_not_finished(effective: EffectiveSettings, version: int) -> None:
    """A node was killed while it created the file, or it is of an earlier version: the run opens it as a node does."""
    path = Path(effective.settings.store.path)
    path.parent.mkdir(parents=True)
    db = apsw.Connection(str(path))
    db.execute(dict(_MIGRATIONS)[version] if version else "PRAGMA journal_mode = WAL")
    db.pragma("user_version", version)
    db.close()

    assert asyncio.run(run_plan.read_previous(effective.settings.store)) == _Previous()
