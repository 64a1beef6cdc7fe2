"""The network: what it sees, what it says, and which files it is made from."""

from pathlib import Path

import numpy as np
import pytest
import torch

from ringrift.workload.api import JobSpec, Refused
from ringrift.workload.scratch import Scratch
from ringrift_reversi import stages, tensors
from ringrift_reversi.evaluate import DTYPES, Evaluator, unsound
from ringrift_reversi.net import Net, birth, load, load_with_meta, save
from ringrift_reversi.topology import VARIANTS, start, topology

VARIANT = "hex8_3p"


def positions(variant: str, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Boards with any discs at all."""
    board, players = VARIANTS[variant]
    random = np.random.default_rng(seed)
    boards = random.integers(0, players + 1, (count, topology(board).cells)).astype(np.int8)
    return boards, random.integers(0, players, count).astype(np.int8)


def lively(variant: str = VARIANT) -> Net:
    """A network that does not value all seats alike."""
    net = birth(variant, 1)
    with torch.no_grad():
        net.value.weight.normal_(generator=torch.Generator().manual_seed(2))
    return net.eval()


def test_untrained_it_values_all_seats_alike() -> None:
    """Generation 0 has no opinion."""
    boards, movers = positions(VARIANT, 5)

    _, values = birth(VARIANT, 3).evaluate(torch.from_numpy(boards), torch.from_numpy(movers))

    assert torch.allclose(values, torch.full((5, 3), 1 / 3))


def test_the_seed_alone_decides_the_first_weights() -> None:
    """Equal seeds give equal bytes, others do not; nobody else's chance is touched."""
    torch.manual_seed(5)
    before = torch.rand(1)
    torch.manual_seed(5)
    first = save(birth(VARIANT, 1), {})

    assert torch.rand(1) == before
    assert save(birth(VARIANT, 1), {}) == first
    assert save(birth(VARIANT, 2), {}) != first


@pytest.mark.parametrize("variant", ["square8_2p", "hex8_3p", "hexagonal_4p", "square19_2p"])
def test_it_does_not_know_seats_by_their_names(variant: str) -> None:
    """If everybody moves one seat on, what it says of them moves along."""
    net = lively(variant)

    assert unsound(net) == ""


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_evaluator_says_what_the_network_says(dtype: str) -> None:
    """Encoding, fused kernels and number formats change nothing but the last digits."""
    net = lively()
    boards, movers = positions(VARIANT, 40)

    logits, values = Evaluator(net, rows=40, dtype=dtype)(boards, movers)

    with torch.inference_mode():
        wanted, shares = net.evaluate(torch.from_numpy(boards), torch.from_numpy(movers))
    close = {"float32": 1e-4, "bfloat16": 0.08}[dtype]
    assert np.abs(logits - wanted.numpy()).max() < close
    assert np.abs(values - shares.numpy()).max() < close
    assert np.abs(values.sum(1) - 1).max() < 1e-6


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_said_of_a_position_does_not_hang_on_its_company(dtype: str) -> None:
    """Alone, in a batch of any size, at any place: the very same bits."""
    boards, movers = positions(VARIANT, 200)
    evaluate = Evaluator(lively(), rows=200, dtype=dtype)
    logits, values = (array.copy() for array in evaluate(boards, movers))

    for count in (1, 5, 31, 32, 33, 100):
        some = np.random.default_rng(count).choice(200, count, replace=False)
        again, shares = evaluate(boards[some], movers[some])
        assert np.array_equal(again, logits[some])
        assert np.array_equal(shares, values[some])


def test_a_model_comes_back_as_it_was() -> None:
    """Saved and loaded, it is the same bytes."""
    data = save(lively(), {"generation": "3"})

    assert save(load(data, VARIANT), {"generation": "3"}) == data


def altered(name: str, array: np.ndarray | None, **words: str) -> bytes:
    """A model with another array of that name, or without it, and with other words."""
    arrays, said = tensors.unpack(save(lively(), {}))
    arrays = {key: value for key, value in arrays.items() if key != name}
    return tensors.pack(arrays if array is None else {**arrays, name: array}, {**said, **words})


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "no safetensors"),
        (altered("value.bias", np.full(3, np.nan, np.float32)), "value.bias are not finite"),
        (altered("value.bias", np.full(3, np.inf, np.float32)), "value.bias are not finite"),
        (altered("value.bias", np.zeros(4, np.float32)), "another architecture: value.bias"),
        (altered("value.bias", np.zeros(3, np.float16)), "another architecture: not float32"),
        (altered("value.bias", None), "another architecture: value.bias"),
        (altered("extra", np.zeros(3, np.float32)), "another architecture: extra"),
        (altered("", None, channels="512", blocks="40"), "another architecture than 40 blocks of 512"),
        (altered("", None, channels="0"), "channels are '0'"),
        (altered("", None, blocks="99999"), "blocks are '99999'"),
        (altered("", None, blocks="²"), "blocks are"),
        (altered("", None, format="reversi-games-1"), "no model but 'reversi-games-1'"),
        (altered("", None, variant="hex8_2p"), "plays 'hex8_2p'"),
    ],
)
def test_a_bad_model_is_refused_by_name(data: bytes, complaint: str) -> None:
    """What is wrong is said in words, and nothing is built from it."""
    with pytest.raises(ValueError, match=complaint):
        load(data, VARIANT)


def test_weights_that_overflow_are_found_by_looking_at_positions() -> None:
    """Finite weights may still say what is not finite."""
    net = lively()
    with torch.no_grad():
        for weight in net.parameters():
            weight.fill_(1e30)

    assert "not finite" in unsound(net)


def test_the_start_is_seen_from_the_mover() -> None:
    """The first plane holds the mover's own discs."""
    board = start("square8", 2)
    net = birth("square8_2p", 0)

    planes = net.encode(torch.from_numpy(np.stack([board, board])), torch.tensor([0, 1], dtype=torch.int8))

    assert torch.equal(planes[0, 0], planes[1, 1])
    assert torch.equal(planes[0, 1], planes[1, 0])
    assert planes[0, 0].sum() == 2
    assert planes[:, 2].sum() == 128


@pytest.mark.parametrize("variant", ["square8_2p", "hex8_4p"])
def test_a_model_must_say_what_it_said_when_it_was_made(variant: str, tmp_path: Path) -> None:
    """Verification repeats a forward pass whose outcome the file keeps: other weights under it are refused."""
    ctx = Scratch(tmp_path, durable=False)
    made = stages.run(JobSpec("job", "train", variant, 3), ctx).outputs[0].blob
    model, words = load_with_meta(ctx.open_input(made).read_bytes(), variant)
    with torch.no_grad():
        model.policy.weight[0, 0] += 1.0
    other = ctx.publish("model", save(model, words), {}).blob
    odd = ctx.publish("model", save(model, {**words, "golden": "1.0 two"}), {}).blob

    stages.run(JobSpec("job", "verify", variant, 0, inputs={"model": (made,)}), ctx)
    for blob, complaint in ((other, "off from when it was made"), (odd, "not written in numbers")):
        with pytest.raises(Refused, match=complaint):
            stages.run(JobSpec("job", "verify", variant, 0, inputs={"model": (blob,)}), ctx)
