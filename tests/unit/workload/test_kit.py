"""The kit: sealed files, chunks of work, exports, openings and blocks."""

import hashlib
import itertools
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringrift.workload import kit
from ringrift.workload.api import Block, JobContext, JobResult, JobSpec, Refused, Scalar, VariantSpec
from ringrift.workload.fake import Fake
from ringrift.workload.scratch import Killed, Scratch
from unit.workload.nim import Heap

SPEC = VariantSpec("nim_2p", 2, 3, 1e-4, opening_plies=3)
SEALED = kit.seal("model", "nim_2p", {"generation": 3}, b"payload\n\0", form="nim 1")


def job(
    stage: str = "play", seed: int = 1, inputs: dict[str, Sequence[str]] | None = None, **params: Scalar
) -> JobSpec:
    """A job of Nim."""
    return JobSpec("j", stage, "nim_2p", seed, inputs=inputs or {}, params=params)


def test_a_sealed_file_gives_its_contents_back() -> None:
    """The order of its fields changes nothing: the same contents are the same bytes."""
    assert kit.unseal(SEALED, "model", "nim_2p", form="nim 1") == ({"generation": 3}, b"payload\n\0")
    fields = {"b": [1, None], "a": "x"}
    assert kit.seal("games", "v", fields, form="f") == kit.seal("games", "v", {"a": "x", "b": [1, None]}, form="f")


def test_one_flipped_bit_anywhere_is_refused() -> None:
    """In the header, the payload and the checksum itself."""
    for place, bit in itertools.product(range(len(SEALED)), range(8)):
        bad = SEALED[:place] + bytes([SEALED[place] ^ 1 << bit]) + SEALED[place + 1 :]
        with pytest.raises(ValueError, match="checksum"):
            kit.unseal(bad, "model", "nim_2p", form="nim 1")


@pytest.mark.parametrize(
    ("expected", "reason"),
    [
        (("games", "nim_2p", "nim 1"), "its kind is 'model', not games"),
        (("model", "nim_3p", "nim 1"), "its variant is 'nim_2p', not nim_3p"),
        (("model", "nim_2p", "nim 2"), "its form is 'nim 1', not nim 2"),
    ],
)
def test_a_file_of_another_kind_variant_or_form_is_refused(expected: tuple[str, str, str], reason: str) -> None:
    """The reason says what the file is."""
    kind, variant, form = expected
    with pytest.raises(ValueError, match=reason):
        kit.unseal(SEALED, kind, variant, form=form)


@pytest.mark.parametrize(
    "line", [b"", b"[]", b"{", b"[" * 100_000, b'{"kind":"model","form":"f","variant":"v"}', b'{"form":"f", "kind":1}']
)
def test_a_first_line_that_we_would_not_write_is_refused(line: bytes) -> None:
    """Also where the checksum is right."""
    data = line + b"\n"
    with pytest.raises(ValueError, match="its first line is"):
        kit.unseal(data + hashlib.sha256(data).digest(), "model", "v", form="f")


def test_a_file_that_is_too_large_is_neither_written_nor_read(tmp_path: Path) -> None:
    """Its refusal names the blob."""
    ctx = Scratch(tmp_path)
    blob = ctx.publish("model", SEALED, {}).blob

    with pytest.raises(ValueError, match="is larger than"):
        kit.seal("model", "nim_2p", {"generation": 3}, bytes(kit.BYTES_MAX), form="nim 1")
    with pytest.raises(Refused, match=f"model {blob[:12]} is refused: it has more than") as caught:
        kit.read_input(ctx, "model", blob, bytes, len(SEALED) - 1)

    assert caught.value.blob == blob
    assert kit.read_input(ctx, "model", blob, bytes, len(SEALED)) == SEALED


@given(st.lists(st.binary(max_size=20), max_size=10))
def test_parts_are_joined_and_split(parts: list[bytes]) -> None:
    """Empty ones too."""
    assert kit.split(kit.join(parts)) == parts


@given(st.binary(max_size=30))
def test_bytes_that_are_no_parts_are_a_value_error(data: bytes) -> None:
    """Whatever is not an error is what would be written."""
    try:
        parts = kit.split(data)
    except ValueError:
        return
    assert kit.join(parts) == data


def test_random_numbers_depend_on_their_parts_alone() -> None:
    """They are pinned, so that every machine draws the same."""
    assert kit.random_of("play", 7, 1).random() == kit.random_of("play", 7, 1).random()
    assert kit.random_of("play", 7, 1).random() != kit.random_of("play", 71).random()
    assert kit.random_of("play", 7).getrandbits(32) == 355321014


def count(ctx: JobContext, total: int, spec: JobSpec | None = None, **options: Any) -> tuple[list[int], list[bytes]]:
    """The steps of a job whose state is a line for each of them."""
    state: list[bytes] = []
    numbers = []
    for step in kit.steps(spec or job(), ctx, total, state, **options):
        numbers.append(step)
        state.append(b"%d" % step)
    return numbers, state


@pytest.mark.parametrize("total", [1, 5, 64, 1000])
def test_steps_send_heartbeats_in_moderation(tmp_path: Path, total: int) -> None:
    """After every step or, of many, after every sixty-fourth part; the last one says that all is done."""
    ctx = Scratch(tmp_path)

    numbers, _ = count(ctx, total, metrics={"loss": 0.5})

    assert numbers == list(range(total))
    assert len(ctx.beats) == min(total, 64)
    assert ctx.beats[-1] == (1.0, {"loss": 0.5})


def test_a_stop_request_ends_the_steps_after_the_next_one(tmp_path: Path) -> None:
    """The first step is always done, and the next attempt goes on with what is left."""
    at_once, later = Scratch(tmp_path).stop_after(0), Scratch(tmp_path).stop_after(3)

    assert count(at_once, 10)[0] == [0]
    assert count(later, 10)[0] == [0, 1, 2]
    assert count(later.again(), 10) == (list(range(3, 10)), [b"%d" % step for step in range(10)])


@pytest.mark.parametrize("total", [1, 3, 8, 100])
def test_resumed_steps_end_with_the_same_state(tmp_path: Path, total: int) -> None:
    """Killed after any checkpoint, and at most an eighth is done twice."""
    whole = count(Scratch(tmp_path), total)[1]
    for checkpoints in range(1, min(total, 8) + 1):
        dying = Scratch(tmp_path).kill_after(checkpoints)
        with pytest.raises(Killed):
            count(dying, total)

        numbers, state = count(dying.again(), total)

        assert state == whole
        assert len(numbers) == total + -total * checkpoints // min(total, 8)


@pytest.mark.parametrize(
    ("other", "options"),
    [
        *((job(seed=2), {}), (job(games=5), {}), (job("train"), {}), (job(inputs={"model": ["a" * 64]}), {})),
        (job(), {"version": "2"}),
    ],
)
def test_the_checkpoint_of_another_job_is_ignored(tmp_path: Path, other: JobSpec, options: dict[str, str]) -> None:
    """Another seed, stage, input, param or version of the workload: the job starts over."""
    ctx = Scratch(tmp_path).stop_after(2)
    count(ctx, 4)

    assert count(ctx.again(), 4)[0] == [2, 3]
    assert count(ctx.again(), 4, other, **options)[0] == [0, 1, 2, 3]
    ctx.checkpoint(b"damaged")
    assert count(ctx.again(), 4)[0] == [0, 1, 2, 3]


def export(ctx: JobContext, *batches: str, bad: Sequence[str] = ()) -> JobResult:
    """An export whose samples are the names of its batches."""

    def read(blob: str) -> str:
        if blob in bad:
            raise Refused(f"{blob} is bad", blob)
        return blob

    def write(names: Sequence[str]) -> JobResult:
        return JobResult(outputs=(ctx.publish("samples", "".join(names).encode(), {}),))

    return kit.export_batches(job("export", inputs={"batches": batches}), ctx, read, write)


def test_an_export_leaves_bad_batches_out(tmp_path: Path) -> None:
    """They are listed, a batch that comes twice counts once, and the rest is in order."""
    ctx = Scratch(tmp_path)

    result = export(ctx, "b", "x", "a", "b", "y", bad="xy")

    assert result.refused == ("x", "y")
    assert not result.partial
    assert ctx.open_input(result.outputs[0].blob).read_bytes() == b"ba"


def test_an_export_without_a_good_batch_is_refused(tmp_path: Path) -> None:
    """With the reason of the first one, or because there is none."""
    with pytest.raises(Refused, match="x is bad") as caught:
        export(Scratch(tmp_path), "x", "y", bad="xy")
    assert caught.value.blob == "x"
    with pytest.raises(Refused, match="there are no samples"):
        export(Scratch(tmp_path))


def test_a_stopped_export_returns_nothing(tmp_path: Path) -> None:
    """Unless it was done already."""
    assert export(Scratch(tmp_path).stop_after(1), "a", "b") == JobResult(partial=True)
    assert not export(Scratch(tmp_path).stop_after(2), "a", "b").partial


def test_an_unknown_variant_or_stage_is_refused(tmp_path: Path) -> None:
    """By name; a stage is the function of its name."""

    def _play(spec: JobSpec, ctx: JobContext) -> JobResult:
        return JobResult(settings="played")

    def run(stage: str, variant: str) -> JobResult:
        return kit.dispatch(Fake(), JobSpec("j", stage, variant, 1), Scratch(tmp_path), (_play,))

    assert run("play", "hex8_2p").settings == "played"
    with pytest.raises(Refused, match="fake does not play 'go_2p'"):
        run("play", "go_2p")
    with pytest.raises(Refused, match="fake has no stage 'nap'"):
        run("nap", "hex8_2p")


def test_openings_differ_and_are_the_same_for_the_same_seed() -> None:
    """They have the plies that are requested, or a few more where those are all drawn; number n is always the same."""
    first = list(itertools.islice(kit.openings(Heap(), 2, 5), 8))

    assert first == list(itertools.islice(kit.openings(Heap(), 2, 5), 8))
    assert first != list(itertools.islice(kit.openings(Heap(), 2, 6), 8))
    assert len(set(first)) == 8
    assert {board.left for board in first[:2]} <= set(range(15, 20))
    assert all(not board.is_over for board in first)


def test_a_game_with_few_positions_runs_out_of_openings_without_an_error() -> None:
    """Then they come twice, and one that would be over is the first position."""
    many = list(itertools.islice(kit.openings(Heap(left=2), 1, 0), 20))

    assert set(many) == {Heap(left=1, seat=1), Heap(left=2)}


def take(role: str, board: Heap, random: Random) -> int:
    """The candidate plays perfectly, the champion at random."""
    if role == "candidate" and board.left % (board.players + 2):
        return min(2, (board.left - 1) % 4)
    return random.choice(board.legal())


def swap(role: str, board: Heap, random: Random) -> int:
    """The same two players in each other's role."""
    return take("champion" if role == "candidate" else "candidate", board, random)


def test_blocks_are_numbered_and_mirror(tmp_path: Path) -> None:
    """Two players that change places change their scores; chunks change nothing; the perfect one wins."""
    whole = kit.play_blocks(job("match", first=3, count=10), Scratch(tmp_path), Heap(), SPEC, take)
    mirror = kit.play_blocks(job("match", first=3, count=10), Scratch(tmp_path), Heap(), SPEC, swap)
    chunk = kit.play_blocks(job("match", first=8, count=2), Scratch(tmp_path), Heap(), SPEC, take)
    declared = kit.play_blocks(job("match", first=3, count=10, opening_plies=3), Scratch(tmp_path), Heap(), SPEC, take)
    longer = kit.play_blocks(job("match", first=3, count=10, opening_plies=9), Scratch(tmp_path), Heap(), SPEC, take)

    assert [block.number for block in whole] == list(range(3, 13))
    assert [block.scores[0] + other.scores[1] for block, other in zip(whole, mirror, strict=True)] == [1.0] * 10
    assert whole[5:7] == chunk
    assert declared == whole != longer
    assert sum(sum(block.scores) for block in whole) > 12


def test_players_that_draw_lots_mirror_too(tmp_path: Path) -> None:
    """Chance depends on the block and the ply, not on the role."""

    def hasty(board: Heap, random: Random) -> int:
        return random.choice(board.legal()[-2:])

    def careful(board: Heap, random: Random) -> int:
        return random.choice(board.legal()[:2])

    def play(first: Any, second: Any) -> Sequence[Block]:
        players = {"candidate": first, "champion": second}

        def move(role: str, board: Heap, random: Random) -> int:
            return int(players[role](board, random))

        return kit.play_blocks(job("match", first=0, count=30), Scratch(tmp_path), Heap(), SPEC, move)

    there, back = play(hasty, careful), play(careful, hasty)

    assert len({block.scores for block in there}) > 2
    for block, other in zip(there, back, strict=True):
        assert (block.scores[0] + other.scores[1], block.scores[1] + other.scores[0]) == (1.0, 1.0)


def test_a_stopped_match_returns_its_first_blocks(tmp_path: Path) -> None:
    """As many as are done."""
    whole = kit.play_blocks(job("match", first=0, count=9), Scratch(tmp_path), Heap(), SPEC, take)

    for beats in range(9):
        stopped = Scratch(tmp_path).stop_after(beats)
        blocks = kit.play_blocks(job("match", first=0, count=9), stopped, Heap(), SPEC, take)
        assert blocks == whole[: max(1, beats)]


def test_more_players_have_ranks_and_every_seat_once(tmp_path: Path) -> None:
    """The candidate sits in each seat; its rank is the share of opponents with fewer points, ties count half."""
    seats: list[int] = []

    class Points(Heap):
        def scores(self) -> Sequence[float]:
            return [5.0, 3.0, 3.0]

        def play(self, action: int) -> "Points":
            return Points(0, 0, 3)

    def move(role: str, board: Heap, random: Random) -> int:
        seats.append(board.seat) if role == "candidate" else None
        return 0

    spec = VariantSpec("nim_3p", 3, 3, 1e-4)
    starts = [Points(21, seat, 3) for seat in range(3)]
    [block] = kit.play_blocks(job("match", first=0, count=1), Scratch(tmp_path), starts[1], spec, move)

    assert seats == [1]
    assert block.scores == (1.0, 0.0, 0.0)
    assert block.ranks == (1.0, 0.25, 0.25)
    assert kit.shares([2.0, 2.0, 1.0]) == [0.5, 0.5, 0.0]


@pytest.mark.parametrize("action", [-1, 3, None])
def test_an_illegal_action_of_a_player_is_an_error_that_names_it(tmp_path: Path, action: Any) -> None:
    """It is a defect of the game, not a bad input: no blob is to blame."""
    with pytest.raises(RuntimeError, match=f"illegal action {action} at ply 0"):
        kit.play_blocks(job("match", first=0, count=1), Scratch(tmp_path), Heap(), SPEC, lambda *_: action)


def test_a_game_without_end_is_an_error(tmp_path: Path) -> None:
    """After ten thousand plies."""

    class Endless(Heap):
        def play(self, action: int) -> "Endless":
            return self

    with pytest.raises(RuntimeError, match="not ended after 10000 plies"):
        kit.play_blocks(job("match", first=0, count=1), Scratch(tmp_path), Endless(), SPEC, lambda *_: 0)


@pytest.mark.parametrize(
    "params", [{}, {"first": 0, "count": 0}, {"first": -1, "count": 1}, {"first": 0, "count": "4"}]
)
def test_a_match_with_bad_numbers_is_refused(tmp_path: Path, params: dict[str, Scalar]) -> None:
    """Before anything is played."""
    with pytest.raises(Refused):
        kit.play_blocks(job("match", **params), Scratch(tmp_path), Heap(), SPEC, take)


def test_the_kit_imports_nothing_but_the_standard_library() -> None:
    """A plug-in that uses it decides itself what it loads, and when."""
    script = "import sys, ringrift.workload.game; print(*(m for m in ('numpy', 'msgspec', 'apsw') if m in sys.modules))"

    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)

    assert output.stdout.strip() == ""
