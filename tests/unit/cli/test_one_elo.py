"""One Elo: every command shows the same number for a model, and what one match showed is called a gain."""

import re
from pathlib import Path

import pytest

from ringrift.cli.commands.elo import COMMAND
from ringrift.kernel.value import changed
from ringrift.pipeline.line import Stage
from ringrift.pipeline.ratings import LineRatings, with_champion, with_ratings
from unit.cli.command_output import ask, context
from unit.cli.test_models import DECIDED, decide
from unit.pipeline.story import VARIANT, at
from unit.pipeline.test_elo_of import keep as keep_ratings
from unit.pipeline.test_elo_of import rated, strength
from unit.pipeline.test_operator import keep
from unit.work.world import World, play

SOURCE = Path(__file__).parents[3] / "src" / "ringrift"
# Modules that turn the score of one match into Elo: each calls the result a gain, or bounds a test by it.
OF_ONE_MATCH = {
    "cli/commands/match.py",
    "cli/commands/promotions.py",
    "evaluation/interval.py",
    "pipeline/machine.py",
    "pipeline/proof.py",
    "pipeline/review.py",
    "pipeline/signals.py",
}


def test_every_command_shows_the_same_elo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """That of the ratings, with their bounds; the gain of the match that made it champion is called so."""

    async def story(world: World) -> None:
        state = at(Stage.COLLECTING, rounds=1)
        await keep(world, state)
        zero, champion = state.line.previous or "", state.line.champion or ""
        ratings = with_champion(with_champion(LineRatings(variant=VARIANT), zero, 0, 1.0), champion, 1, 2.0)
        strengths = (strength(zero, 0.0), strength(champion, 123.0))
        await keep_ratings(world, with_ratings(ratings, rated(*strengths), 3.0), state.line)
        await decide(world, changed(DECIDED, model=champion, previous=zero), "a")

        text = "+123 (+103 … +143)"
        for words in (("models", "list"), ("models", "show", VARIANT)):
            assert text in (await ask(world.store, *words, clock=world.clock)).text
        assert COMMAND.question is not None
        await COMMAND.question(context(world.store, "elo", clock=world.clock))
        assert text in capsys.readouterr().out
        metrics = (await ask(world.store, "metrics", clock=world.clock)).text
        assert f'ringrift_elo{{variant="{VARIANT}",bound="value"}} 123\n' in metrics
        promotions = (await ask(world.store, "promotions", clock=world.clock)).text
        assert "gain over the predecessor +191" in promotions
        assert "191 Elo" not in promotions

    play(tmp_path, story)


def test_few_modules_turn_the_score_of_one_match_into_elo() -> None:
    """Anything else that shows an Elo takes it from the ratings."""
    names = r"from ringrift\.evaluation\.(?:gate|interval) import .*\b(?:elo|in_elo|of_match)\b"
    pattern = re.compile(rf"{names}|interval\.in_elo")
    paths = [path for path in SOURCE.rglob("*.py") if pattern.search(path.read_text())]

    assert {path.relative_to(SOURCE).as_posix() for path in paths} == OF_ONE_MATCH
