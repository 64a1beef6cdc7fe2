"""The fake workload: reproducible, sealed, and faulty only on request."""

import itertools
import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from statistics import mean, stdev
from typing import cast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ringrift.workload import fake, kit
from ringrift.workload.api import Artifact, Block, JobResult, JobSpec, Refused, Scalar, Workload
from ringrift.workload.fake import SAMPLES_PER_GAME, Fake
from ringrift.workload.scratch import Killed, Scratch

VARIANT = "hex8_2p"


class Table:
    """Runs jobs of the fake in one folder."""

    def __init__(self, folder: Path, variant: str = VARIANT) -> None:
        self.folder, self.variant = folder, variant

    def job(
        self,
        stage: str,
        seed: int = 1,
        attempt: int = 1,
        inputs: Mapping[str, Sequence[str]] | None = None,
        **params: Scalar,
    ) -> JobSpec:
        return JobSpec("j", stage, self.variant, seed, inputs=inputs or {}, params=params, attempt=attempt)

    def run(self, job: JobSpec, ctx: Scratch | None = None) -> JobResult:
        return Fake().run(job, ctx or self.scratch())

    def scratch(self) -> Scratch:
        return Scratch(self.folder)

    def birth(self) -> Artifact:
        return self.run(self.job("train")).outputs[0]

    def play(self, games: int = 8, seed: int = 1, **params: Scalar) -> Artifact:
        job = self.job("play", seed, 1, {"model": [self.birth().blob]}, games=games, **params)
        return self.run(job).outputs[0]

    def export(self, *batches: Artifact) -> Artifact:
        return self.run(self.job("export", inputs={"batches": [batch.blob for batch in batches]})).outputs[0]

    def train(self, seed: int, samples: Artifact, parent: Artifact, **params: Scalar) -> Artifact:
        inputs = {"samples": [samples.blob], "parent": [parent.blob]}
        return self.run(self.job("train", seed, 1, inputs, **params)).outputs[0]

    def model(self, strength: float) -> Artifact:
        body = {"generation": 1, "parent": None, "strength": strength}
        return self.scratch().publish("model", kit.seal("model", self.variant, body, form=fake.FORM), {})

    def match(self, candidate: Artifact, champion: Artifact, first: int = 0, count: int = 8) -> Sequence[Block]:
        inputs = {"candidate": [candidate.blob], "champion": [champion.blob]}
        return self.run(self.job("match", inputs=inputs, first=first, count=count)).blocks

    def body(self, artifact: Artifact) -> dict[str, object]:
        fields: dict[str, object] = json.loads((self.folder / artifact.blob).read_bytes().partition(b"\n")[0])
        return fields

    def publish(self, artifact: Artifact, **changes: object) -> Artifact:
        body = {**self.body(artifact), **changes}
        payload = (self.folder / artifact.blob).read_bytes().partition(b"\n")[2][:-32]
        kind, variant, form = (str(body.pop(name)) for name in ("kind", "variant", "form"))
        return self.scratch().publish(artifact.kind, kit.seal(kind, variant, body, payload, form=form), artifact.meta)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def test_the_fake_offers_twelve_variants() -> None:
    """Four boards times two, three and four players, and the class keeps the plug-in interface."""
    boards, players = ("square8", "square19", "hex8", "hexagonal"), (2, 3, 4)

    specs = Fake().variants()

    assert isinstance(Fake(), Workload)
    assert [spec.name for spec in specs] == [f"{board}_{n}p" for board, n in itertools.product(boards, players)]


def test_the_artifacts_of_an_iteration_carry_their_counts(table: Table) -> None:
    """Each artifact's meta carries the counts that the loop decides on, and the model names its parent."""
    batch = table.play(games=8)
    samples = table.export(batch, batch)
    candidate = table.train(2, samples, table.birth())

    assert batch.meta == {"games": 8}
    assert samples.meta == {"games": 8, "samples": 8 * SAMPLES_PER_GAME}
    assert table.body(candidate)["generation"] == 1
    assert table.body(candidate)["parent"] == table.birth().blob


def test_blobs_are_the_same_everywhere(table: Table) -> None:
    """The hashes are pinned: they may depend on nothing but the job, and do depend on its seed."""
    batch, other = table.play(games=3, seed=7), table.play(games=3, seed=8)
    model = table.train(7, table.export(batch), table.birth())

    assert batch.blob != other.blob
    assert batch.blob[:16] == "4d47d4742cf86192"
    assert model.blob[:16] == "28ccd249b553b354"


def test_training_drifts_as_promised(table: Table) -> None:
    """Gains are about N(40, 30) Elo, and some candidates are weaker than their parent."""
    samples, parent = table.export(table.play()), table.birth()

    gains = [float(str(table.body(table.train(seed, samples, parent))["strength"])) for seed in range(150)]

    assert mean(gains) == pytest.approx(40, abs=7)
    assert stdev(gains) == pytest.approx(30, abs=6)
    assert any(gain < 0 for gain in gains)


@pytest.mark.parametrize("artifact", ["batch", "model"])
def test_a_flipped_bit_anywhere_is_refused(table: Table, artifact: str) -> None:
    """Whichever byte is hit, export and verify refuse and name the blob."""
    good = table.play(games=2) if artifact == "batch" else table.birth()
    data = (table.folder / good.blob).read_bytes()
    ctx = _Loose(table.folder)

    for place in range(len(data)):
        ctx.data = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        stage, role = ("export", "batches") if artifact == "batch" else ("verify", "model")

        with pytest.raises(Refused) as caught:
            table.run(table.job(stage, inputs={role: [good.blob]}), ctx)

        assert caught.value.blob == good.blob


class _Loose(Scratch):
    """Hands out *data* for every blob, unchecked and from memory."""

    data = b""

    def open_input(self, blob: str) -> Path:
        return cast("Path", self)

    def open(self, mode: str) -> BytesIO:
        return BytesIO(self.data)


@settings(max_examples=50, deadline=None)
@example(b"[" * 100_000)
@given(
    st.binary(max_size=64) | st.recursive(st.none() | st.integers(), st.lists).map(lambda it: json.dumps(it).encode())
)
def test_no_bytes_crash_the_fake(data: bytes) -> None:
    """Bytes that are no blob of ours are refused, never an error of another kind."""
    ctx = _Loose(Path())
    ctx.data = data

    for stage, role in (("export", "batches"), ("verify", "model")):
        with pytest.raises(Refused):
            Fake().run(JobSpec("j", stage, VARIANT, 1, inputs={role: ["0" * 64]}), ctx)


LIES: tuple[Mapping[str, object], ...] = (
    *({"variant": "hex8_3p"}, {"games": 9}, {"games": True}, {"games": "8"}, {"games": 0}, {"games": -1}),
    *({"model": None}, {"extra": 1}, {"kind": "model"}, {"form": "fake 1"}, {"form": "chess 2"}),
)


@pytest.mark.parametrize("changes", LIES)
def test_an_inconsistent_batch_is_refused(table: Table, changes: Mapping[str, object]) -> None:
    """A wrong variant, count, kind, format, type or field is detected, and so is a batch without games."""
    bad = table.publish(table.play(), **changes)

    with pytest.raises(Refused):
        table.export(bad)


@pytest.mark.parametrize(
    ("stage", "variant"),
    [("play", VARIANT), ("export", VARIANT), ("verify", VARIANT), ("play", "go_2p"), ("nap", VARIANT)],
)
def test_a_job_that_makes_no_sense_is_refused(tmp_path: Path, stage: str, variant: str) -> None:
    """A missing input, or an unknown variant or stage, cannot be mended by a retry."""
    with pytest.raises(Refused):
        Fake().run(JobSpec("j", stage, variant, 1, params={"games": 1}), Scratch(tmp_path))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("games", value) for value in (0, 10**7, True, "8", None)),
        *(("fake_slow_seconds", value) for value in (-1, math.inf, math.nan, 10**400, "1")),
        *(("fake_crash", "sometimes"), ("fake_every", 0), ("fake_stage", "trian")),
    ],
)
def test_a_param_out_of_range_is_refused(table: Table, name: str, value: Scalar) -> None:
    """Counts and knobs are checked before anything is played."""
    job = table.job("play", 1, 1, {"model": [table.birth().blob]}, **{"games": 4, name: value})

    with pytest.raises(Refused):
        table.run(job)


def test_a_stopped_play_keeps_whole_games(table: Table) -> None:
    """Stopped from the first moment, it still plays one game and reports that there is more to do."""
    job = table.job("play", inputs={"model": [table.birth().blob]}, games=8)

    at_once = table.run(job, table.scratch().stop_after(0))
    later = table.run(job, table.scratch().stop_after(2))

    assert (at_once.partial, at_once.outputs[0].meta) == (True, {"games": 1})
    assert (later.partial, later.outputs[0].meta) == (True, {"games": 4})
    assert table.export(later.outputs[0]).meta["games"] == 4


@pytest.mark.parametrize("games", [1, 3, 4, 10])
def test_a_resumed_play_gives_the_blob_of_an_uninterrupted_one(table: Table, games: int) -> None:
    """Killed after any quarter and taken up again, the games come out the same, and none is played twice."""
    whole = table.play(games=games)
    job = table.job("play", inputs={"model": [table.birth().blob]}, games=games)
    for quarters in range(1, min(games, 4) + 1):
        dying = table.scratch().kill_after(quarters)
        with pytest.raises(Killed):
            table.run(job, dying)
        next_attempt = dying.again()

        resumed = table.run(job, next_attempt)

        assert resumed.outputs[0].blob == whole.blob
        assert len(next_attempt.beats) == min(games, 4) - quarters


def test_a_block_has_its_scores_for_ever(table: Table) -> None:
    """Chunks, seeds and attempts change nothing; the numbers are those requested."""
    strong, other = table.model(50.0), table.model(0.0)
    inputs = {"candidate": [strong.blob], "champion": [other.blob]}

    whole = table.match(strong, other, first=5, count=20)
    chunks = [block for first in range(5, 25, 4) for block in table.match(strong, other, first, 4)]
    elsewhere = table.run(table.job("match", seed=99, attempt=3, inputs=inputs, first=5, count=20)).blocks

    assert [block.number for block in whole] == list(range(5, 25))
    assert list(whole) == chunks == list(elsewhere)


def test_two_players_mirror_exactly(table: Table) -> None:
    """A from seat s and B from the other seat share one game, so their scores add up to 1."""
    strong, other = table.model(120.0), table.model(0.0)

    there, back = table.match(strong, other, count=200), table.match(other, strong, count=200)

    assert {score for block in there for score in block.scores} == {0.0, 0.5, 1.0}
    for a, b in zip(there, back, strict=True):
        assert (a.scores[0] + b.scores[1], a.scores[1] + b.scores[0]) == (1.0, 1.0)


@pytest.mark.parametrize("players", [2, 3, 4])
@pytest.mark.parametrize("difference", [-150.0, 0.0, 150.0, 1e308])
def test_the_score_follows_the_difference_in_strength(tmp_path: Path, players: int, difference: float) -> None:
    """Over many blocks the mean score is the Plackett–Luce chance, from every seat."""
    table = Table(tmp_path, f"square8_{players}p")
    strong, other = table.model(difference), table.model(0.0 if difference else 1e-6)
    chance = 1 / (1 + (players - 1) * 10 ** (-difference / 400))

    blocks = table.match(strong, other, count=1500)

    for seat in range(players):
        assert mean(block.scores[seat] for block in blocks) == pytest.approx(chance, abs=0.05)


def test_a_corrupt_batch_is_detected_by_export(table: Table) -> None:
    """fake_corrupt spoils the batch on the first attempt; export leaves it out and names it, or refuses it alone."""
    good, bad = table.play(), table.play(fake_corrupt="first")

    result = table.run(table.job("export", inputs={"batches": [good.blob, bad.blob]}))
    with pytest.raises(Refused) as caught:
        table.export(bad)

    assert result.refused == (bad.blob,)
    assert result.outputs[0].blob == table.export(good).blob
    assert caught.value.blob == bad.blob


def test_a_nan_model_is_detected_by_verify(table: Table) -> None:
    """fake_nan spoils the trained model; verify and match refuse it, and generation 0 is spared."""
    samples, parent = table.export(table.play()), table.birth()
    bad = table.train(2, samples, parent, fake_nan="always")

    with pytest.raises(Refused) as caught:
        table.run(table.job("verify", inputs={"model": [bad.blob]}))
    with pytest.raises(Refused):
        table.match(bad, parent)

    assert caught.value.blob == bad.blob
    assert table.run(table.job("train", fake_nan="always")).outputs[0].blob == parent.blob
    table.run(table.job("verify", inputs={"model": [parent.blob]}))


@pytest.mark.parametrize(
    ("when", "aim", "seed", "attempt", "hit"),
    [
        *(("first", {}, 1, 1, True), ("first", {}, 1, 2, False), ("always", {}, 1, 2, True)),
        *(("always", {"fake_every": 3}, 4, 1, False), ("always", {"fake_every": 3}, 6, 1, True)),
        *(("always", {"fake_stage": "train"}, 1, 1, False), ("always", {"fake_stage": "play"}, 1, 1, True)),
    ],
)
def test_faults_can_be_aimed(
    table: Table, when: str, aim: dict[str, Scalar], seed: int, attempt: int, hit: bool
) -> None:
    """Attempt, seed and stage decide whether a fault bites."""
    sound = table.play(seed=seed)

    params: dict[str, Scalar] = {"games": 8, "fake_corrupt": when, **aim}
    played = table.run(table.job("play", seed, attempt, {"model": [table.birth().blob]}, **params))

    assert (played.outputs[0].blob != sound.blob) == hit


def test_a_slow_job_beats_and_can_be_stopped(table: Table) -> None:
    """The extra time is spent with heartbeats; a stop ends it early, and the result is partial."""
    model = [table.birth().blob]
    batches = [table.play().blob]
    whole = table.scratch()

    slow = table.run(table.job("play", inputs={"model": model}, games=2, fake_slow_seconds=0.2), whole)
    play = table.job("play", inputs={"model": model}, games=2, fake_slow_seconds=3600)
    export = table.job("export", inputs={"batches": batches}, fake_slow_seconds=3600)

    assert not slow.partial
    assert [beat.done for beat in whole.beats] == sorted(beat.done for beat in whole.beats)
    assert len(whole.beats) >= 4
    assert table.run(play, table.scratch().stop_after(1)).outputs[0].meta["games"] == 1
    assert table.run(export, table.scratch().stop_after(1)) == JobResult(partial=True)


SCRIPT = """
import sys
from pathlib import Path
from ringrift.workload.api import JobSpec
from ringrift.workload.fake import Fake
from ringrift.workload.scratch import Scratch

class Loud(Scratch):
    def heartbeat(self, done, **metrics):
        print(done, flush=True)

    def checkpoint(self, data):
        (self._folder / "checkpoint").write_bytes(data)

    def resume(self):
        file = self._folder / "checkpoint"
        return file.read_bytes() if file.is_file() else None

folder, model, knob, attempt = sys.argv[1:]
job = JobSpec("j", "play", "hex8_2p", 1, {"model": [model]}, {"games": 4, knob: "first"}, int(attempt))
Fake().run(job, Loud(Path(folder)))
"""


def _start(table: Table, knob: str, attempt: int) -> "subprocess.Popen[str]":
    argv = [sys.executable, "-c", SCRIPT, str(table.folder), table.birth().blob, knob, str(attempt)]
    path = str(Path(fake.__file__).parents[2])
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path})


def test_a_crash_comes_halfway_and_the_next_attempt_goes_on(table: Table) -> None:
    """The process exits with 13 after half of the games; the second attempt plays only the other half."""
    with _start(table, "fake_crash", 1) as first:
        before = first.communicate()[0]
    with _start(table, "fake_crash", 2) as second:
        after = second.communicate()[0]

    assert (first.returncode, before.split()) == (13, ["0.25", "0.5"])
    assert (second.returncode, after.split()) == (0, ["0.75", "1.0"])
    assert (table.folder / table.play(games=4).blob).is_file()


def test_a_hang_sends_no_heartbeat(table: Table) -> None:
    """After half of the games no line comes any more, and only a kill ends it."""
    with _start(table, "fake_hang", 1) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline(), process.stdout.readline()]

        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.15)
        process.kill()
        lines.append(process.stdout.read())

    assert lines == ["0.25\n", "0.5\n", ""]
