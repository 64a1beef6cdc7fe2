"""The network: its inputs, its outputs, and the files it is made from."""

from pathlib import Path

import numpy as np
import pytest
import torch

from ringrift.workload.api import JobSpec, Refused
from ringrift.workload.scratch import Scratch
from ringrift_reversi import stages, tensors
from ringrift_reversi.evaluate import DTYPES, Evaluator, find_defect
from ringrift_reversi.net import Net, load, load_with_meta, new_net, save
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
    net = new_net(variant, 1)
    with torch.no_grad():
        net.value.weight.normal_(generator=torch.Generator().manual_seed(2))
    return net.eval()


def test_an_untrained_network_values_all_seats_alike() -> None:
    """Generation 0 has no opinion."""
    boards, movers = positions(VARIANT, 5)

    _, values = new_net(VARIANT, 3).evaluate(torch.from_numpy(boards), torch.from_numpy(movers))

    assert torch.allclose(values, torch.full((5, 3), 1 / 3))


def test_the_seed_alone_decides_the_first_weights() -> None:
    """Equal seeds give equal bytes, others do not; no other random state is touched."""
    torch.manual_seed(5)
    before = torch.rand(1)
    torch.manual_seed(5)
    first = save(new_net(VARIANT, 1), {})

    assert torch.rand(1) == before
    assert save(new_net(VARIANT, 1), {}) == first
    assert save(new_net(VARIANT, 2), {}) != first


@pytest.mark.parametrize("variant", ["square8_2p", "hex8_3p", "hexagonal_4p", "square19_2p"])
def test_the_network_is_equivariant_to_seats(variant: str) -> None:
    """If every player moves one seat on, the outputs move along."""
    net = lively(variant)

    assert find_defect(net) == ""


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_evaluator_equals_the_network(dtype: str) -> None:
    """Encoding, fused kernels and number formats change nothing but the last digits."""
    net = lively()
    boards, movers = positions(VARIANT, 40)

    logits, values = Evaluator(net, rows=40, dtype=dtype)(boards, movers)

    with torch.inference_mode():
        expected, shares = net.evaluate(torch.from_numpy(boards), torch.from_numpy(movers))
    close = {"float32": 1e-4, "bfloat16": 0.08}[dtype]
    assert np.abs(logits - expected.numpy()).max() < close
    assert np.abs(values - shares.numpy()).max() < close
    assert np.abs(values.sum(1) - 1).max() < 1e-6


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_evaluation_does_not_depend_on_the_batch(dtype: str) -> None:
    """Alone, in a batch of any size, at any index: the very same bits."""
    boards, movers = positions(VARIANT, 200)
    evaluate = Evaluator(lively(), rows=200, dtype=dtype)
    logits, values = (array.copy() for array in evaluate(boards, movers))

    for count in (1, 5, 31, 32, 33, 100):
        some = np.random.default_rng(count).choice(200, count, replace=False)
        again, shares = evaluate(boards[some], movers[some])
        assert np.array_equal(again, logits[some])
        assert np.array_equal(shares, values[some])


def test_a_model_survives_saving_and_loading() -> None:
    """Saved and loaded, it is the same bytes."""
    data = save(lively(), {"generation": "3"})

    assert save(load(data, VARIANT), {"generation": "3"}) == data


def altered(name: str, array: np.ndarray | None, **meta: str) -> bytes:
    """Return a model with another array of that name, or without it, and with other metadata."""
    arrays, stored = tensors.unpack(save(lively(), {}))
    arrays = {key: value for key, value in arrays.items() if key != name}
    return tensors.pack(arrays if array is None else {**arrays, name: array}, {**stored, **meta})


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "not a safetensors file"),
        (altered("value.bias", np.full(3, np.nan, np.float32)), "value.bias are not finite"),
        (altered("value.bias", np.full(3, np.inf, np.float32)), "value.bias are not finite"),
        (altered("value.bias", np.zeros(4, np.float32)), "another architecture: value.bias"),
        (altered("value.bias", np.zeros(3, np.float16)), "another architecture: not float32"),
        (altered("value.bias", None), "another architecture: value.bias"),
        (altered("extra", np.zeros(3, np.float32)), "another architecture: extra"),
        (altered("", None, channels="512", blocks="40"), "its weights are not 40 blocks of 512 channels"),
        (altered("", None, channels="0"), "channels are '0'"),
        (altered("", None, blocks="99999"), "blocks are '99999'"),
        (altered("", None, blocks="²"), "blocks are"),
        (altered("", None, format="reversi-games-1"), "not a model file, its format is 'reversi-games-1'"),
        (altered("", None, variant="hex8_2p"), "plays 'hex8_2p'"),
    ],
)
def test_a_bad_model_is_refused_by_name(data: bytes, complaint: str) -> None:
    """The reason names the defect, and nothing is built from it."""
    with pytest.raises(ValueError, match=complaint):
        load(data, VARIANT)


def test_overflowing_weights_are_detected_on_positions() -> None:
    """Finite weights may still give outputs that are not finite."""
    net = lively()
    with torch.no_grad():
        for weight in net.parameters():
            weight.fill_(1e30)

    assert "not finite" in find_defect(net)


def test_the_start_is_seen_from_the_mover() -> None:
    """The first plane holds the mover's own discs."""
    board = start("square8", 2)
    net = new_net("square8_2p", 0)

    planes = net.encode(torch.from_numpy(np.stack([board, board])), torch.tensor([0, 1], dtype=torch.int8))

    assert torch.equal(planes[0, 0], planes[1, 1])
    assert torch.equal(planes[0, 1], planes[1, 0])
    assert planes[0, 0].sum() == 2
    assert planes[:, 2].sum() == 128


@pytest.mark.parametrize("variant", ["square8_2p", "hex8_4p"])
def test_a_model_must_repeat_its_recorded_output(variant: str, tmp_path: Path) -> None:
    """Verification repeats a forward pass whose outcome the file keeps: other weights under it are refused."""
    ctx = Scratch(tmp_path)
    made = stages.run(JobSpec("job", "train", variant, 3), ctx).outputs[0].blob
    model, meta = load_with_meta(ctx.open_input(made).read_bytes(), variant)
    with torch.no_grad():
        model.policy.weight[0, 0] += 1.0
    other = ctx.publish("model", save(model, meta), {}).blob
    odd = ctx.publish("model", save(model, {**meta, "golden": "1.0 two"}), {}).blob

    stages.run(JobSpec("job", "verify", variant, 0, inputs={"model": (made,)}), ctx)
    for blob, complaint in ((other, "off from its golden output"), (odd, "its golden output is not a list of numbers")):
        with pytest.raises(Refused, match=complaint):
            stages.run(JobSpec("job", "verify", variant, 0, inputs={"model": (blob,)}), ctx)
