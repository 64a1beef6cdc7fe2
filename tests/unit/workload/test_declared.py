"""Conformance tries what a variant declares, and what a refusal, an error of the node and a stop do."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pytest

from ringrift.workload.api import JobContext, JobResult, JobSpec, Refused, VariantSpec
from ringrift.workload.conformance import check, main
from ringrift.workload.executable import Executable
from ringrift.workload.fake import Fake
from unit.workload.nim import Heap, Model, Nim

DRAWN = Random(1)


def declaring(base: type[Nim], **fields: object) -> Nim:
    """Nim, which declares other things than it does."""

    class Boasting(base):  # type: ignore[misc, valid-type]  # a class made for one test
        def variants(self) -> Sequence[VariantSpec]:
            return [dataclasses.replace(spec, **fields) for spec in self.specs]

    return Boasting()


def on(heap: type[Heap], **fields: object) -> Nim:
    """Nim with another board."""

    class Other(Nim):
        def board(self, variant: str) -> Heap:
            return heap()

    return declaring(Other, **fields)


class _Gullible(Fake):
    """It makes a batch of any file."""

    def run(self, job: JobSpec, ctx: JobContext) -> JobResult:
        if job.stage == "ingest":
            return JobResult((ctx.publish("report", b"", {}),))
        return super().run(job, ctx)


def test_a_workload_that_declares_game_files_refuses_others(tmp_path: Path) -> None:
    """The fake does; one that takes any file is found out."""
    findings = check(_Gullible(), "hex8_2p", tmp_path)

    assert findings == ["ingest accepts a file that is none of games", "ingest accepts a model"]


class Playing(Heap):
    """Every position is of the same class."""

    def play(self, action: int) -> "Heap":
        position = super().play(action)
        return type(self)(position.left, position.seat, position.players)


class Mute(Playing):
    def render(self) -> str:
        return " "


class Misread(Playing):
    def parse(self, text: str) -> int:
        return super().parse(text) and 0


class Picky(Playing):
    def parse(self, text: str) -> int:
        if text == "3":
            raise ValueError("three is too many")
        return super().parse(text)


class Lenient(Playing):
    def parse(self, text: str) -> int:
        return super().parse(text) if text.isdigit() else 0


class Terse(Playing):
    def parse(self, text: str) -> int:
        if not text.isdigit():
            raise ValueError
        return super().parse(text)


class Crashing(Playing):
    def parse(self, text: str) -> int:
        return int(text) - 1 if text else [0][1]


class Wide(Playing):
    def legal(self) -> Sequence[int]:
        return range(4 * (self.left > 0))


class Restless(Playing):
    def legal(self) -> Sequence[int]:
        return range(3) if self.left == 0 else super().legal()


class Homeless(Playing):
    @property
    def is_over(self) -> bool:
        return self.left <= 0

    def play(self, action: int) -> "Heap":
        return type(self)(self.left - action - 1, self.seat + 1)


class Unequal(Playing):
    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


class Changing(Playing):
    def play(self, action: int) -> "Heap":
        position = super().play(action)
        object.__setattr__(self, "left", 1)
        return position


class Scoreless(Playing):
    def scores(self) -> Sequence[float]:
        return super().scores() if self.is_over else []


class Raising(Playing):
    def render(self) -> str:
        raise LookupError("no pencil")


class Endless(Playing):
    """Its game ends in jobs, which never begin with so many matches."""

    def play(self, action: int) -> "Heap":
        return type(self)(22, 1 - self.seat) if self.left == 22 else super().play(action)


class EndlessNim(Nim):
    """The first position of people has one match more."""

    def board(self, variant: str) -> Heap:
        return Endless(22)

    def run(self, job: JobSpec, ctx: JobContext) -> JobResult:
        return Nim().run(job, ctx)

    def choose(self, variant: str, board: Heap, model: bytes | None, baseline: str | None, sims: int, seed: int) -> int:
        return super().choose(variant, Heap(), model, baseline, sims, seed)


class Weak(Nim):
    """One of its players raises."""

    def baseline(self, name: str, board: Heap, random: Random) -> int:
        return {"random": 0}[name]


class Fickle(Nim):
    """A baseline that depends on its role: it does not mirror."""

    def run(self, job: JobSpec, ctx: JobContext) -> JobResult:
        result = super().run(job, ctx)
        if job.params.get("champion") == "perfect":
            return dataclasses.replace(
                result, blocks=[dataclasses.replace(block, scores=(0.5, 0.25)) for block in result.blocks]
            )
        return result


class Choosy(Nim):
    """Chooses what *action* makes of its own choice."""

    def __init__(self, action: Callable[[int], int]) -> None:
        self._action = action

    def choose(self, variant: str, board: Heap, model: bytes | None, baseline: str | None, sims: int, seed: int) -> int:
        return self._action(super().choose(variant, board, model, baseline, sims, seed))


class Credulous(Nim):
    """Chooses for anybody."""

    def choose(self, variant: str, board: Heap, model: bytes | None, baseline: str | None, sims: int, seed: int) -> int:
        return 0


class Obliging(Nim):
    """Does something else in place of a refusal."""

    def run(self, job: JobSpec, ctx: JobContext) -> JobResult:
        try:
            return super().run(job, ctx)
        except Refused:
            return JobResult()


class Mistaken(Nim):
    """Takes every error for a bad input."""

    def run(self, job: JobSpec, ctx: JobContext) -> JobResult:
        try:
            return super().run(job, ctx)
        except Exception as error:  # the defect that is looked for
            raise Refused(str(error)) from error


class Swallowing(Nim):
    """Goes on without what it could not publish."""

    def run(self, job: JobSpec, ctx: JobContext) -> JobResult:
        try:
            return super().run(job, ctx)
        except Refused:
            raise
        except Exception:  # noqa: BLE001  # the defect that is looked for
            return JobResult()


class Stubborn(Nim):
    """Says that a stopped job is done."""

    def run(self, job: JobSpec, ctx: JobContext) -> JobResult:
        return dataclasses.replace(super().run(job, ctx), partial=False)


class Hasty(Nim):
    """Publishes what a stopped training has."""

    def run(self, job: JobSpec, ctx: JobContext) -> JobResult:
        result = super().run(job, ctx)
        if job.stage == "train" and result.partial:
            return JobResult(outputs=(ctx.publish("model", b"half", {}),), partial=True)
        return result


class Silent(Nim):
    """Sends no heartbeat."""

    def run(self, job: JobSpec, ctx: JobContext) -> JobResult:
        class Quiet:
            def __getattr__(self, name: str) -> object:
                return (lambda *_, **__: None) if name == "heartbeat" else getattr(ctx, name)

        return super().run(job, Quiet())  # type: ignore[arg-type]  # it has every method of a context


@pytest.mark.parametrize(
    ("workload", "finding"),
    [
        (Weak(), "baseline perfect: match raises KeyError"),
        (Fickle(), "baseline perfect: match gives block 0 scores that do not mirror"),
        (declaring(Nim, baselines=("random", "greedy")), "baseline greedy: match refuses good inputs: nim_2p has no"),
        (declaring(Nim, opening_plies=6), "match does not have openings of 6 plies, as declared"),
        (on(Mute), "render gives no text at ply 0"),
        (on(Misread), "parse reads '2', the text of action 1, as another action at ply 0"),
        (on(Picky), "parse refuses '3', the text of action 2, at ply 0 of a random game: three is too many"),
        (on(Lenient), "parse should raise ValueError for 'no such action' at ply 0 of a random game, but it does not"),
        (on(Terse), "but its ValueError has no message"),
        (on(Crashing), "parse should raise ValueError for '' at ply 0 of a random game, but it raises IndexError"),
        (on(Wide), "the legal actions at ply 0 of a random game are (0, 1, 2, 3) instead of some from 0 to 2"),
        (on(Restless), "there are legal actions after the end of a game"),
        (on(Homeless), "seat 2 is to move at ply 2 of a random game, not one from 0 to 1"),
        (on(Unequal), "the same action makes positions that are not equal at ply 0"),
        (on(Changing), "play changes the position that it is called on at ply 0"),
        (on(Scoreless), "scores are [] instead of 2 numbers at ply 0"),
        (on(Raising), "the board of nim_2p raises LookupError: no pencil"),
        (EndlessNim(), "a random game has not ended after 10000 plies"),
        (Choosy(lambda action: action + 3), "for the model, which is no legal action"),
        (Choosy(lambda _: DRAWN.choice((0, 1, 2))), "the second time"),
        (Weak(), "choose raises KeyError for baseline perfect"),
        (Weak(), "choose should raise ValueError for an unknown baseline, but it raises KeyError"),
        (Credulous(), "choose should raise ValueError for an unknown baseline, but it does not"),
        (Credulous(), "choose should raise ValueError for a model blob of"),
        (Obliging(), "no-such-stage accepts a stage that does not exist"),
        (Obliging(), "play accepts a variant of another game"),
        (Obliging(), "play accepts a job without its model"),
        (Obliging(), "match accepts a champion that is no baseline"),
        (Mistaken(), "train raises Refused in place of the error that publishing raised"),
        (Swallowing(), "play returns a result although publishing raised an error"),
        (Stubborn(), "play, stopped after 0 heartbeats, has 2 of 8 games and partial = False"),
        (Stubborn(), "train, stopped after 0 heartbeats, returns another artifact than at its end"),
        (Stubborn(), "match, stopped after 1 heartbeats, does not return the first of its blocks, marked as partial"),
        (Hasty(), "train, stopped after 1 heartbeats, returns another artifact than at its end"),
        (Silent(), "match sends no heartbeat"),
        (Silent(), "train sends no heartbeat"),
    ],
)
def test_every_broken_promise_is_reported(tmp_path: Path, workload: Nim, finding: str) -> None:
    """Each has its message."""
    findings = check(workload, "nim_2p", tmp_path)

    assert any(finding in sentence for sentence in findings), findings


def test_what_is_not_declared_is_not_tried(tmp_path: Path) -> None:
    """Without can_parse and can_render no text is asked for, and without baselines no player."""
    assert check(on(Mute, can_render=False), "nim_2p", tmp_path / "1") == []
    assert check(on(Crashing, can_parse=False), "nim_2p", tmp_path / "2") == []
    findings = check(declaring(Weak, baselines=("random",)), "nim_2p", tmp_path / "3")
    assert not any("perfect" in finding for finding in findings)


def test_a_drawing_that_nobody_can_ask_for_is_reported(tmp_path: Path) -> None:
    """A variant that can be drawn belongs to a workload with boards."""

    class Drawn(Fake):
        def variants(self) -> Sequence[VariantSpec]:
            return [dataclasses.replace(spec, can_render=True) for spec in super().variants()]

    sentence = "hex8_2p declares can_render or can_parse, but fake has no board and choose"
    assert check(Drawn(), "hex8_2p", tmp_path) == [sentence]


class Buggy(Nim):
    """Training has a bug, and so has every match."""

    def train(self, model: Model, rows: bytes, random: Random) -> tuple[Model, dict[str, float]]:
        return [][len(rows)]

    def baseline(self, name: str, board: Heap, random: Random) -> int:
        return 1 // (len(name) - 6)


def test_the_first_failure_is_shown_with_its_traceback(tmp_path: Path) -> None:
    """The file, the line and the source of every frame down to the bug."""
    [finding] = check(Buggy(), "nim_2p", tmp_path)

    first, *lines, last = finding.splitlines()
    assert first == "train raises IndexError: list index out of range"
    assert f'File "{__file__}", line ' in finding
    assert "    return [][len(rows)]" in lines
    assert last == "IndexError: list index out of range"


def test_later_failures_are_shown_with_file_and_line(tmp_path: Path) -> None:
    """One traceback is enough to begin with."""

    class Sane(Buggy):
        train = Nim.train

    findings = check(Sane(), "nim_2p", tmp_path)

    assert sum("Traceback" in finding or "\n" in finding for finding in findings) == 1
    assert any(f"({__file__}:" in finding and "ZeroDivisionError" in finding for finding in findings)


def test_the_command_prints_the_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A program's failure ends with what it wrote to stderr."""
    script = tmp_path / "broken"
    offer = '{"version": "1", "variants": [{"name": "a_2p", "players": 2, "actions": 2, "cpu_seconds_per_game": 1}]}'
    script.write_text(f"#!/bin/sh\n[ $1 = variants ] && echo '{offer}' && exit\necho 'out of luck' >&2\nexit 3\n")
    script.chmod(0o700)

    code = main(["broken", "a_2p", "--command", str(script)])

    output = capsys.readouterr().out
    assert code == 1
    assert "train raises RuntimeError: workload 'broken' ended with 3: out of luck" in output
    assert "executable.py" in output


def test_a_program_declares_what_it_offers(tmp_path: Path) -> None:
    """By the names of VariantSpec; a number below 0 breaks the contract."""
    script = tmp_path / "program"
    fields = '"name": "a_2p", "players": 2, "actions": 2, "cpu_seconds_per_game": 1'
    offer = f'{fields}, "baselines": ["random"], "opening_plies": 4, "games_per_batch": 64, "slots": 1'

    def program(text: str) -> Executable:
        script.write_text(f'#!/bin/sh\necho \'{{"version": "1", "variants": [{{{text}}}]}}\'\n')
        script.chmod(0o700)
        return Executable("program", [str(script)])

    [spec] = program(offer).variants()

    assert spec == VariantSpec("a_2p", 2, 2, 1.0, ("random",), opening_plies=4, games_per_batch=64, slots=1)
    for number in ("opening_plies", "games_per_batch", "slots"):
        with pytest.raises(RuntimeError, match="too small"):
            program(f'{fields}, "{number}": -1')
