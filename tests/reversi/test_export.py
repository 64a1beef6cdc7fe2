"""Export accepts only games that the rules allow, and describes them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ringrift.workload.api import JobResult, JobSpec, Refused
from ringrift.workload.scratch import Scratch
from ringrift_reversi import export, net, records, samples
from ringrift_reversi.evaluate import Evaluator
from ringrift_reversi.play import Slots
from ringrift_reversi.play_spec import Style
from ringrift_reversi.records import FAST, FULL, OPENING, Games
from ringrift_reversi.topology import VARIANTS, start
from ringrift_reversi.workload import Reversi

VARIANT = "hex8_3p"


def played(variant: str = VARIANT, games: int = 6, seed: int = 1, style: Style | None = None) -> Games:
    """Games of an untrained network."""
    slots = Slots(variant, slots=games, games=games, seed=seed, style=style or Style(sims=4))
    evaluate = Evaluator(net.new_net(variant, 1), rows=games)
    while len(slots.live):
        slots.step(evaluate)
    return records.join([game for _, game in slots.finished])


@pytest.fixture(scope="module")
def games() -> Games:
    """Return valid games."""
    return played()


def changed(array: np.ndarray, place: int | tuple[int, ...], value: float) -> np.ndarray:
    """A copy with one number changed."""
    copy = array.copy()
    copy[place] = value
    return copy


def cut(games: Games) -> Games:
    """The last game without its last move."""
    arrays = {name: getattr(games, name)[:-1] for name in ("moves", "pi_idx", "pi_p", "root_v", "search")}
    return replace(games, **arrays, offsets=changed(games.offsets, -1, games.offsets[-1] - 1))


def merged(games: Games) -> Games:
    """The first two games as one."""
    return replace(games, offsets=np.delete(games.offsets, 1), seed=games.seed[1:], result=games.result[1:])


SPOILT: dict[str, Callable[[Games], Games]] = {
    "an illegal move": lambda games: replace(games, moves=changed(games.moves, 9, games.moves[8])),
    "a wrong result": lambda games: replace(games, result=np.roll(games.result, 1, 1)),
    "no end": cut,
    "moves after its end": merged,
    "a policy target on an illegal cell": lambda games: replace(
        games, pi_idx=changed(games.pi_idx, (len(games.moves) - 1, 0), games.moves[0])
    ),
}


@pytest.mark.parametrize("fault", SPOILT)
def test_games_against_the_rules_are_refused_by_name(games: Games, fault: str) -> None:
    """Every way in which a game may not be one."""
    spoilt = SPOILT[fault](games)

    with pytest.raises(ValueError, match=fault):
        export.replay(spoilt, VARIANT)


@pytest.mark.parametrize("variant", ["square8_2p", "hex8_3p", "hex8_4p"])
def test_positions_are_those_that_the_moves_lead_to(variant: str) -> None:
    """The first position that was searched from the start is the start; the mover is right; openings are left out."""
    board, players = VARIANTS[variant]
    some = played(variant, games=24)

    replayed = export.replay(some, variant)

    assert len(replayed) == (some.search != OPENING).sum()
    from_start = [number for number in range(len(some)) if some.search[some.plies(number)][0] != OPENING]
    for number in from_start:
        first = np.flatnonzero(replayed.game == some.seed[number])[0]
        assert np.array_equal(replayed.board[first], start(board, players))
        assert replayed.to_move[first] == 0
    assert from_start
    assert np.allclose(replayed.result.sum(1), 1)


def test_only_the_newest_positions_are_kept(games: Games) -> None:
    """A limit drops the oldest."""
    whole = export.replay(games, VARIANT)

    newest = export.join([whole, whole], 10)

    assert len(newest) == 10
    assert np.array_equal(newest.board, whole.board[-10:])


def test_coverage_counts(games: Games) -> None:
    """Games, positions, unique ones, draws and how sure the search was."""
    replayed = export.replay(games, VARIANT)

    once, twice = (
        export.coverage([games], replayed),
        export.coverage([games, games], export.join([replayed, replayed], 10**6)),
    )

    assert (once.games, once.positions, once.policy_targets) == (6, len(replayed), len(replayed))
    assert twice.unique_share == pytest.approx(once.unique_share / 2)
    assert 0 <= once.draw_share <= 1
    assert 0 < once.entropy_mean < 3
    assert once.plies_mean == pytest.approx(len(games.moves) / 6)


def test_fast_plies_have_no_policy_target() -> None:
    """With a playout cap, only full searches teach the policy; all of them teach the value."""
    some = played(style=Style(sims=8, fast_sims=2, full_share=0.5, random_plies=0))

    replayed = export.replay(some, VARIANT)

    full = some.search == FULL
    assert 0.3 < full.mean() < 0.7
    assert set(np.unique(some.search)) == {FULL, FAST}
    assert np.array_equal((replayed.pi_p > 0).any(1), full)


def test_samples_come_back_as_they_were(games: Games) -> None:
    """Packed and unpacked, they pack to the same bytes."""
    data = samples.pack(export.replay(games, VARIANT), VARIANT, {})

    assert samples.pack(samples.unpack(data, VARIANT), VARIANT, {}) == data
    with pytest.raises(ValueError, match="hex8_3p"):
        samples.unpack(data, "hex8_2p")


def exported(folder: Path, *batches: bytes) -> tuple[JobResult, list[str]]:
    """The result of an export job, and the names of its batches."""
    ctx = Scratch(folder)
    blobs = [ctx.publish("games", batch, {}).blob for batch in batches]
    job = JobSpec("job", "export", VARIANT, 0, inputs={"batches": tuple(blobs)})
    return Reversi().run(job, ctx), blobs


def test_bad_batches_are_left_out_and_the_rest_goes_on(games: Games, tmp_path: Path) -> None:
    """Each bad batch is refused; the samples are those of the good one alone."""
    good = records.pack(games, VARIANT, {})
    bad = [records.pack(spoil(games), VARIANT, {}) for spoil in SPOILT.values()]
    foreign = records.pack(played("hex8_2p"), "hex8_2p", {})

    alone, _ = exported(tmp_path, good)
    result, blobs = exported(tmp_path, *bad, good, good[:-1], b"", foreign)

    assert result.outputs[0].blob == alone.outputs[0].blob
    assert set(result.refused) == set(blobs) - {blobs[len(bad)]}
    assert result.metrics["games"] == 6


def test_an_export_without_samples_is_refused(games: Games, tmp_path: Path) -> None:
    """Nothing, only bad batches, no games, no policy targets: the reason names each."""
    with pytest.raises(Refused, match="no samples"):
        exported(tmp_path)
    with pytest.raises(Refused, match="no samples"):
        exported(tmp_path, records.pack(records.empty(3), VARIANT, {}))
    with pytest.raises(Refused, match="a wrong result") as refused:
        exported(tmp_path, records.pack(SPOILT["a wrong result"](games), VARIANT, {}))
    assert refused.value.blob is not None
    fast = replace(games, search=np.minimum(games.search * FAST, FAST).astype(np.uint8), pi_p=games.pi_p * 0)
    with pytest.raises(Refused, match="policy target"):
        exported(tmp_path, records.pack(fast, VARIANT, {}))
