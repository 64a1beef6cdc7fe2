"""A whole workload made of boards, a model and a search: it conforms, learns, and refuses what is bad."""

import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ringrift.workload import kit
from ringrift.workload.api import Artifact, HasBoard, JobResult, JobSpec, Refused, Scalar, Workload
from ringrift.workload.conformance import check
from ringrift.workload.game import GameWorkload
from ringrift.workload.scratch import Killed, Scratch
from unit.workload.nim import MATCHES, Heap, Model, Nim

VARIANT = "nim_2p"


class Loop:
    """Runs jobs of Nim in one folder."""

    def __init__(self, folder: Path, nim: Nim | None = None) -> None:
        self.folder, self.nim = folder, nim or Nim()

    def job(self, stage: str, seed: int = 1, params: Mapping[str, Scalar] | None = None, **inputs: Artifact) -> JobSpec:
        blobs = {role: [artifact.blob] for role, artifact in inputs.items()}
        return JobSpec("j", stage, VARIANT, seed, inputs=blobs, params=params or {})

    def run(self, job: JobSpec, ctx: Scratch | None = None) -> JobResult:
        return self.nim.run(job, ctx or Scratch(self.folder))

    def birth(self) -> Artifact:
        return self.run(self.job("train")).outputs[0]

    def play(self, games: int = 7, seed: int = 1) -> Artifact:
        return self.run(self.job("play", seed, {"games": games}, model=self.birth())).outputs[0]

    def train_job(self, games: int = 40) -> JobSpec:
        samples = self.run(self.job("export", batches=self.play(games))).outputs[0]
        return self.job("train", samples=samples, parent=self.birth())

    def match(self, candidate: Artifact, champion: Artifact, **params: Scalar) -> JobResult:
        return self.run(
            self.job("match", 1, {"first": 0, "count": 8, **params}, candidate=candidate, champion=champion)
        )

    def publish(self, kind: str, payload: bytes, **meta: Scalar) -> Artifact:
        data = kit.seal(kind, VARIANT, meta, payload, form="nim 1")
        return Scratch(self.folder).publish(kind, data, {})  # type: ignore[arg-type]  # the tests' own kinds


@pytest.fixture
def loop(tmp_path: Path) -> Loop:
    return Loop(tmp_path)


@pytest.mark.parametrize("variant", ["nim_2p", "nim_3p"])
def test_a_game_on_the_kit_conforms(tmp_path: Path, variant: str) -> None:
    """With all that it declares, for two players and for three."""
    assert isinstance(Nim(), Workload)
    assert isinstance(Nim(), HasBoard)
    assert check(Nim(), variant, tmp_path, seed=5) == []


def test_training_makes_it_stronger(loop: Loop) -> None:
    """It beats generation 0, and its meta and metrics say what it is."""
    result = loop.run(loop.train_job(games=200))
    trained = result.outputs[0]

    blocks = loop.match(trained, loop.birth(), count=40).blocks

    assert trained.meta == {"generation": 1}
    assert result.metrics["generation"] == 1.0
    assert 0 < result.metrics["loss"] < 1
    assert sum(sum(block.scores) for block in blocks) > 48  # of 80


def test_steps_are_those_of_every_epoch(loop: Loop) -> None:
    """A game counts the steps of one call; the training has them all."""
    samples = loop.run(loop.job("export", batches=loop.play(40))).outputs[0].meta["samples"]

    assert loop.run(loop.train_job(games=40)).metrics["steps"] == Nim.epochs * int(samples or 0)


def test_params_are_stronger_than_the_classes_defaults(loop: Loop) -> None:
    """Simulations and epochs reach the search and the training; a match names its simulations."""
    sims: list[int] = []

    class Counting(Nim):
        def search(
            self, model: Model, boards: Sequence[Heap], sims_: int, randoms: Sequence[Random], explore: bool
        ) -> Sequence[tuple[int, bytes]]:
            sims.append(sims_)
            return super().search(model, boards, sims_, randoms, explore)

    model = loop.birth()
    loop.nim = Counting()
    ctx = Scratch(loop.folder)

    loop.run(loop.job("play", 1, {"games": 2, "sims": 9}, model=model))
    settings = [
        loop.match(model, model, **params).settings for params in ({}, {"sims": 6}, {"sims": 6, "match_sims": 5})
    ]
    job = loop.train_job()
    loop.run(JobSpec("j", "train", VARIANT, 1, inputs=job.inputs, params={"epochs": 2}), ctx)

    assert {9, 4, 6, 5} == set(sims)
    assert settings == ["sims=4", "sims=6", "sims=5"]
    assert [beat.done for beat in ctx.beats] == [0.5, 1.0]
    assert all(beat.metrics["loss"] > 0 for beat in ctx.beats)


def searching(change: Callable[[list[tuple[int, bytes]]], Any]) -> Nim:
    """Nim, with what its search returns put through *change*."""

    class Changed(Nim):
        def search(
            self, model: Model, boards: Sequence[Heap], sims: int, randoms: Sequence[Random], explore: bool
        ) -> Sequence[tuple[int, bytes]]:
            pairs: Sequence[tuple[int, bytes]] = change(list(super().search(model, boards, sims, randoms, explore)))
            return pairs

    return Changed()


class Number:
    """A whole number that is no int, as those of numpy."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


def test_an_action_may_be_any_whole_number(loop: Loop) -> None:
    """Such as numpy's: the board gets a plain one, and the blob is the same."""
    batch = loop.play()

    loop.nim = searching(lambda pairs: [(Number(action), bytearray(target)) for action, target in pairs])

    assert loop.play() == batch


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda pairs: pairs[1:], "for 1"),
        (lambda pairs: None, "None: .*not iterable"),
        (lambda pairs: [(0.5, target) for _, target in pairs], ".*float"),
        (lambda pairs: [(action, "text") for action, _ in pairs], ".*'text'"),
        (lambda pairs: [action for action, _ in pairs], ".*unpack"),
    ],
)
def test_a_search_that_returns_something_else_is_named(
    loop: Loop, change: Callable[[list[tuple[int, bytes]]], Any], fault: str
) -> None:
    """With the method, the game and what it must return."""
    model = loop.birth()
    loop.nim = searching(change)

    with pytest.raises((TypeError, ValueError), match=rf"search\(\) of nim must return .* the 2 boards, not {fault}"):
        loop.run(loop.job("play", 1, {"games": 2}, model=model))


def test_self_play_searches_games_together_in_fixed_groups(loop: Loop) -> None:
    """So that a network can evaluate many positions at once, and a resumed job has the same groups."""
    sizes: list[int] = []

    class Counting(Nim):
        games_at_once = 3

        def search(
            self, model: Model, boards: Sequence[Heap], sims: int, randoms: Sequence[Random], explore: bool
        ) -> Sequence[tuple[int, bytes]]:
            sizes.append(len(boards) if boards[0].left == MATCHES else 0)
            return super().search(model, boards, sims, randoms, explore)

    model = loop.birth()
    loop.nim = Counting()
    loop.run(loop.job("play", 1, {"games": 7}, model=model))
    assert [size for size in sizes if size] == [3, 3, 1]

    sizes.clear()
    loop.match(model, model)
    assert set(sizes) <= {0, 1}


@pytest.mark.parametrize("stage", ["play", "train"])
def test_a_resumed_job_makes_the_blob_of_an_uninterrupted_one(loop: Loop, stage: str) -> None:
    """Killed after every checkpoint; the metrics of the training come back as well."""
    job = loop.train_job() if stage == "train" else loop.job("play", 1, {"games": 9}, model=loop.birth())
    whole = loop.run(job)
    for checkpoints in range(1, 4):
        dying = Scratch(loop.folder).kill_after(checkpoints)
        with pytest.raises(Killed):
            loop.run(job, dying)

        assert loop.run(job, dying.again()) == whole


def test_a_stopped_training_is_partial_and_goes_on_later(loop: Loop) -> None:
    """It returns nothing, and the next attempt does only the epochs that are left."""
    job = loop.train_job()
    stopping = Scratch(loop.folder).stop_after(1)

    assert loop.run(job, stopping) == JobResult(partial=True)
    later = stopping.again()
    assert loop.run(job, later) == loop.run(job)
    assert len(later.beats) == 2


def test_a_game_that_breaks_the_rules_is_refused(loop: Loop) -> None:
    """An illegal action, one too many, or no end: the whole batch, by name."""

    def game(*actions: int) -> Artifact:
        return loop.publish("games", kit.join([kit.join([a.to_bytes(4, "big") for a in actions])]), games=1)

    good = game(*[2] * 7)
    for bad in (game(*[2] * 6), game(*[2] * 7, 0), game(3, *[2] * 6), game(), loop.publish("games", b"\0\0", games=1)):
        with pytest.raises(Refused) as caught:
            loop.run(loop.job("export", batches=bad))
        assert caught.value.blob == bad.blob
        both = JobSpec("j", "export", VARIANT, 1, inputs={"batches": [bad.blob, good.blob]})
        assert loop.run(both).refused == (bad.blob,)
    assert loop.run(loop.job("export", batches=good)).outputs[0].meta == {"samples": 7, "games": 1}
    with pytest.raises(Refused, match="no samples"):
        loop.run(loop.job("export", batches=loop.publish("games", b"", games=0)))


def test_a_model_that_is_unusable_is_refused(loop: Loop) -> None:
    """A weight that is not finite, another size, bytes that its own model would not write."""
    weights = struct.pack(f">{MATCHES + 1}d", *[0.5] * MATCHES, float("nan"))

    class Careless(Nim):
        def load_model(self, variant: str, data: bytes) -> Model:
            return super().load_model(variant, data[: 8 * (MATCHES + 1)])

    cases = ((Nim(), weights, "not finite"), (Nim(), b"", "another size"), (Careless(), bytes(200), "not those of its"))
    for nim, payload, reason in cases:
        loop.nim, bad = nim, loop.publish("model", payload, generation=1)
        with pytest.raises(Refused, match=reason) as caught:
            loop.run(loop.job("verify", model=bad))
        assert caught.value.blob == bad.blob


def test_a_model_without_a_legal_action_is_refused(loop: Loop) -> None:
    """Verify tries it on the first position."""

    class Confused(Nim):
        def search(
            self, model: Model, boards: Sequence[Heap], sims: int, randoms: Sequence[Random], explore: bool
        ) -> Sequence[tuple[int, bytes]]:
            return [(7, b"")] * len(boards)

    model = loop.birth()
    loop.nim = Confused()
    with pytest.raises(Refused, match="no legal action") as caught:
        loop.run(loop.job("verify", model=model))
    assert caught.value.blob == model.blob
    with pytest.raises(RuntimeError, match="illegal action 7"):
        loop.run(loop.job("play", 1, {"games": 1}, model=model))


def test_training_that_ends_with_an_unusable_model_is_refused(loop: Loop) -> None:
    """No model is published that verify would refuse."""

    class Diverging(Nim):
        epochs = 1

        def train(self, model: Model, rows: bytes, random: Random) -> tuple[Model, Mapping[str, float]]:
            return (float("inf"),) * (MATCHES + 1), {"loss": 1.0}

    job = loop.train_job()
    loop.nim = Diverging()
    with pytest.raises(Refused, match="training ended with a model that is unusable: it has a weight"):
        loop.run(job)


def test_baselines_play_by_name_and_others_are_refused(loop: Loop) -> None:
    """In either role; a name that is not declared is refused with those that are."""
    model, params = loop.birth(), {"first": 0, "count": 20}

    perfect = loop.run(loop.job("match", 1, {**params, "candidate": "perfect"}, champion=model)).blocks
    both = loop.run(loop.job("match", 1, {**params, "candidate": "perfect", "champion": "random"})).blocks

    assert sum(sum(block.scores) for block in perfect) > 24
    assert sum(sum(block.scores) for block in both) > 24
    with pytest.raises(Refused, match="nim_2p has no player 'greedy'; it has random, perfect"):
        loop.run(loop.job("match", 1, {**params, "champion": "greedy"}, candidate=model))


def test_a_player_for_people_chooses_a_legal_action(loop: Loop) -> None:
    """A model in its file, or a baseline; the same seed chooses alike."""
    nim, data = Nim(), Scratch(loop.folder).open_input(loop.birth().blob).read_bytes()
    board = nim.board(VARIANT)

    assert nim.choose(VARIANT, board, data, None, 4, 7) in board.legal()
    assert {nim.choose(VARIANT, board, None, "random", 4, seed) for seed in range(50)} == {0, 1, 2}
    assert nim.choose(VARIANT, Heap(left=7), None, "perfect", 4, 7) == 2
    with pytest.raises(ValueError, match=r"nim has no player 'greedy'$"):
        nim.choose(VARIANT, board, None, "greedy", 4, 7)
    with pytest.raises(ValueError, match="nim has no player 'perfect', though it is declared: override baseline"):
        GameWorkload.baseline(nim, "perfect", board, Random(7))
    with pytest.raises(ValueError, match="its variant is 'nim_2p', not nim_3p"):
        nim.choose("nim_3p", board, data, None, 4, 7)
