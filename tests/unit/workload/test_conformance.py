"""The conformance suite finds every defect, and none in a workload that conforms."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ringrift.kernel.errors import Corrupt, InvalidId, NoRoute
from ringrift.workload.api import Artifact, Block, JobContext, JobResult, JobSpec, Preset, Refused, VariantSpec
from ringrift.workload.conformance import check, main
from ringrift.workload.fake import Fake
from ringrift.workload.scratch import Scratch


class Spoilt(Fake):
    """The fake, with its results put through *spoil*."""

    def __init__(self, spoil: Callable[[JobSpec, JobContext, JobResult], JobResult]) -> None:
        self._spoil = spoil

    def run(self, job: JobSpec, ctx: JobContext) -> JobResult:
        return self._spoil(job, ctx, super().run(job, ctx))


def blocks(change: Callable[[JobSpec, Block], Block]) -> Spoilt:
    """The fake, with every block changed."""

    def spoil(job: JobSpec, _: JobContext, result: JobResult) -> JobResult:
        return dataclasses.replace(result, blocks=tuple(change(job, block) for block in result.blocks))

    return Spoilt(spoil)


def stage(name: str, result: Callable[[JobSpec, JobContext, JobResult], JobResult]) -> Spoilt:
    """The fake, with the results of one stage changed."""
    return Spoilt(lambda job, ctx, right: result(job, ctx, right) if job.stage == name else right)


class Trusting(Fake):
    """Accepts every blob."""

    def run(self, job: JobSpec, ctx: JobContext) -> JobResult:
        try:
            return replace(super().run(job, ctx), refused=())
        except Refused:
            return JobResult()


class Crashing(Fake):
    """Raises ValueError for a bad blob instead of refusing it."""

    def run(self, job: JobSpec, ctx: JobContext) -> JobResult:
        try:
            result = super().run(job, ctx)
        except Refused as refused:
            raise ValueError("bad blob") from refused
        if result.refused:
            raise ValueError("bad blob")
        return result


class Forgetful(Fake):
    """Takes a checkpoint for the whole job."""

    def run(self, job: JobSpec, ctx: JobContext) -> JobResult:
        if job.stage == "play" and (checkpoint := ctx.resume()):
            return JobResult(outputs=(ctx.publish("games", checkpoint, {"games": 8}),))
        return super().run(job, ctx)


def republished(job: JobSpec, ctx: JobContext, result: JobResult) -> JobResult:
    return JobResult(outputs=(ctx.publish("games", b"attempt %d" % job.attempt, {"games": job.params["games"]}),))


def miscounted(job: JobSpec, _: JobContext, result: JobResult) -> JobResult:
    outputs = [dataclasses.replace(output, meta={"games": 1000}) for output in result.outputs]
    return dataclasses.replace(result, outputs=outputs)


def invented(job: JobSpec, _: JobContext, result: JobResult) -> JobResult:
    return JobResult(outputs=(Artifact("games", "0" * 64, 1, {"games": 8}),))


def overdone(job: JobSpec, ctx: JobContext, result: JobResult) -> JobResult:
    ctx.heartbeat(1.5)
    return result


@pytest.mark.parametrize("variant", ["square8_2p", "hex8_3p", "hexagonal_4p"])
def test_the_fake_conforms(tmp_path: Path, variant: str) -> None:
    """Two, three and four players, with another seed than the default."""
    assert check(Fake(), variant, tmp_path, seed=11) == []


class Misnamed(Fake):
    """Offers a variant that no run takes."""

    def variants(self) -> Sequence[VariantSpec]:
        return (*super().variants(), VariantSpec("chess", 2, 64, 1.0))


class Overstated(Fake):
    """Its preset promises a proof against a player that nobody knows."""

    def preset(self, *, cores: int, nodes: int | None) -> Preset:
        return Preset(baselines={"hex8_2p": ("nobody",)})


@pytest.mark.parametrize(
    ("workload", "finding"),
    [
        (Misnamed(), "variant of workload 'fake' 'chess'"),
        (Overstated(), "preset of workload 'fake' is not valid: unknown baseline of hex8_2p 'nobody'"),
        (stage("play", republished), "export refuses good inputs"),
        (stage("train", lambda job, ctx, _: republished(job, ctx, JobResult())), "train raises KeyError"),
        (stage("play", lambda *_: JobResult()), "play returns [] instead of one games artifact"),
        (stage("play", invented), "a games artifact was never published"),
        (stage("play", miscounted), "its meta has games = 1000"),
        (stage("export", miscounted), "export has samples = None"),
        (stage("verify", overdone), "verify sends a heartbeat outside of 0 to 1"),
        (Trusting(), "verify accepts a model blob"),
        (Trusting(), "export accepts a games blob"),
        (Crashing(), "export raises ValueError instead of Refused"),
        (Forgetful(), "play, resumed from checkpoint 1, makes another blob"),
        (
            blocks(lambda job, block: Block(block.number + 1, block.scores)),
            "match: blocks 3 … 8 are needed, not [4, 5, 6, 7, 8, 9]",
        ),
        (blocks(lambda job, block: Block(block.number, block.scores[:1])), "match: block 3 needs 2 scores from 0 to 1"),
        (blocks(lambda job, block: Block(block.number, (1.0, 1.5))), "needs 2 scores from 0 to 1, not [1.0, 1.5]"),
        (blocks(lambda job, block: Block(block.number, (1.0, 1.0))), "do not mirror"),
        (
            blocks(lambda job, block: Block(block.number, (job.params["count"] == 6) * (1.0, 1.0) or (0.0, 0.0))),
            "chunks",
        ),
    ],
)
def test_every_defect_is_reported(tmp_path: Path, workload: Fake, finding: str) -> None:
    """Each defect has its message."""
    findings = check(workload, "hex8_2p", tmp_path)

    assert any(finding in sentence for sentence in findings), findings


def test_a_result_that_depends_on_the_attempt_is_reported(tmp_path: Path) -> None:
    """Fault knobs aside, a second attempt must give the result of the first."""

    def fickle(job: JobSpec, ctx: JobContext, result: JobResult) -> JobResult:
        return super(Spoilt, workload).run(dataclasses.replace(job, seed=job.attempt, attempt=1), ctx)

    workload = stage("play", fickle)

    findings = check(workload, "hex8_2p", tmp_path)

    assert any("makes another games blob the second time" in sentence for sentence in findings), findings


def test_a_variant_that_is_not_offered_is_the_only_finding(tmp_path: Path) -> None:
    """No job is run."""
    assert check(Fake(), "chess_2p", tmp_path) == ["fake does not offer chess_2p"]


def test_the_command_prints_and_exits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """0 and a line if all is well, 1 and the findings if not, 2 if there is no such workload."""
    good = main(["fake", "hex8_2p", "--games", "4"])
    bad = main(["fake", "chess_2p"])

    with pytest.raises(SystemExit) as caught:
        main(["absent", "hex8_2p", "--command", str(tmp_path / "gone"), "--flag"])

    assert (good, bad, caught.value.code) == (0, 1, 2)
    assert capsys.readouterr().out.splitlines() == [
        "fake hex8_2p: conforms",
        "fake does not offer chess_2p",
        "fake chess_2p: 1 findings",
    ]


def test_scratch_keeps_blobs_by_their_content(tmp_path: Path) -> None:
    """The same bytes are one file; a wrong, missing or misnamed blob is an error with a name."""
    ctx = Scratch(tmp_path)
    first, two = ctx.publish("games", b"data", {"games": 1}), ctx.publish("report", b"data", {})
    read = ctx.open_input(first.blob).read_bytes()
    (tmp_path / first.blob).write_bytes(b"Data")

    assert first.blob == two.blob
    assert read == b"data"
    assert [path.name for path in tmp_path.iterdir()] == [first.blob]
    with pytest.raises(Corrupt):
        ctx.open_input(first.blob)
    with pytest.raises(NoRoute):
        ctx.open_input("0" * 64)
    with pytest.raises(InvalidId):
        ctx.open_input("../secret")
    with pytest.raises(ValueError, match="gossip"):
        ctx.publish("gossip", b"", {})  # type: ignore[arg-type]  # the wrong kind is the point
