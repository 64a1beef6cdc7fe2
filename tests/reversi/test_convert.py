"""A file that comes from elsewhere becomes a model of ours, or is refused by name and does nothing."""

import hashlib
import io
import os
import pickle  # noqa: TID251 - makes the hostile file
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor

from ringrift.workload.api import JobSpec, Refused
from ringrift.workload.scratch import Scratch
from ringrift_reversi import net
from ringrift_reversi.convert import _ENTRIES_MAX, convert_model
from ringrift_reversi.net import Net
from ringrift_reversi.stages import run

V = "hex8_2p"


def weights(variant: str = V, **size: int) -> dict[str, Tensor]:
    """The weights of an untrained network."""
    return dict(net.new_net(variant, 7, **size).state_dict())


def foreign(content: Any, **how: Any) -> bytes:
    """*found* as torch saves it."""
    file = io.BytesIO()
    torch.save(content, file, **how)
    return file.getvalue()


def changed(name: str, value: float) -> dict[str, Tensor]:
    """The weights with one *value* in the middle of *name*."""
    content = {key: weight.clone() for key, weight in weights().items()}
    content[name].view(-1)[0] = value
    return content


class Bomb:
    """Runs a command when it is unpickled without a check."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (self.command,)


@pytest.mark.parametrize(
    "content",
    [
        weights(),
        {"module." + name: weight for name, weight in weights().items()},
        {"_orig_mod." + name: weight for name, weight in weights().items()},
        {"state_dict": weights(), "epoch": 3, "optimizer": {"lr": 0.1}},
        {"model": {"module." + name: weight for name, weight in weights().items()}, "version": "2"},
        {name: weight.double() for name, weight in weights().items()},
    ],
    ids=["plain", "parallel", "compiled", "nested", "nested parallel", "double"],
)
def test_weights_become_the_same_model_however_they_are_wrapped(content: Any) -> None:
    """The same weights give the same bytes of ours, and those load as that network."""
    made = convert_model(foreign(content), V)

    again = net.load(made, V)
    assert made == convert_model(foreign(weights()), V)
    assert all(torch.equal(weight, again.state_dict()[name]) for name, weight in weights().items())


def test_another_size_of_our_network_is_accepted() -> None:
    """Channels and blocks are read off the weights."""
    made = net.load(convert_model(foreign(weights(channels=8, blocks=1)), V), V)

    assert (made.channels, len(made.blocks)) == (8, 1)


def test_an_old_torch_file_is_accepted() -> None:
    """Torch's format from before its archives is accepted."""
    content = foreign(weights(), _use_new_zipfile_serialization=False)

    assert convert_model(content, V) == convert_model(foreign(weights()), V)


def test_a_file_of_ours_stays_unchanged() -> None:
    """Its metadata is kept with it."""
    data = net.save(net.new_net(V, 7), {"generation": "5"})

    assert convert_model(data, V) == data


def test_a_hostile_pickle_runs_nothing(tmp_path: Path) -> None:
    """Neither alone nor among weights, in the new form and in the old."""
    trace = tmp_path / "was here"
    bomb = Bomb(f"touch '{trace}'")
    for content in (
        foreign(bomb),
        foreign({**weights(), "extra": bomb}),
        foreign({"state_dict": weights(), "hook": bomb}, _use_new_zipfile_serialization=False),
    ):
        with pytest.raises(ValueError, match=r"not a file of weights alone \(it contains posix\.system\)"):
            convert_model(content, V)
    with pytest.raises(ValueError, match="not a file of weights alone"):
        convert_model(pickle.dumps(bomb), V)

    assert not trace.exists()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (foreign(changed("hidden.weight", float("nan"))), "its weights hidden.weight are not finite"),
        (foreign(changed("policy.bias", float("inf"))), "its weights policy.bias are not finite"),
        (
            foreign({name: weight.double() * 1e300 for name, weight in weights().items()}),
            "are not finite",
        ),
        (foreign(weights("hex8_3p")), "of another architecture: stem.weight, value.bias, value.weight"),
        (foreign(weights("square8_2p")), "of another architecture: hidden.weight"),
        (foreign({"fc.weight": torch.zeros(2, 2)}), "of another architecture: fc.weight"),
        (foreign({**weights(), "extra": torch.zeros(1)}), "of another architecture: extra"),
        (foreign({k: v for k, v in weights().items() if k != "value.bias"}), "of another architecture: value.bias"),
        (foreign({**weights(), "stem.weight": torch.zeros(600, 3, 3, 3)}), "of another architecture"),
        (foreign({name: weight.long() for name, weight in weights().items()}), "not plain numbers"),
        (foreign({**weights(), "policy.bias": torch.zeros(1).to_sparse()}), "not plain numbers"),
        (foreign([weights()]), "it has no weights by name, only 'list'"),
        (foreign({"epoch": 3}), "it has no weights by name"),
        (foreign(net.new_net(V, 7)), "it contains ringrift_reversi.net.Net"),
        (net.save(net.new_net("hex8_3p", 7), {}), "it plays 'hex8_3p', not hex8_2p"),
        (b"", "not a file of weights alone"),
        (b"not a model at all", "not a file of weights alone"),
    ],
    ids=[
        "nan",
        "inf",
        "too large",
        "players",
        "board",
        "other",
        "more",
        "fewer",
        "wide",
        "whole",
        "sparse",
        "list",
        "none",
        "module",
        "ours of another",
        "empty",
        "text",
    ],
)
def test_an_invalid_model_is_refused_with_its_reason(content: bytes, reason: str) -> None:
    """The reason names the defect."""
    with pytest.raises(ValueError, match=reason):
        convert_model(content, V)


def test_an_archive_that_unpacks_to_too_much_is_not_unpacked() -> None:
    """The sizes in its table are checked before a byte of it is read."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for number in range(_ENTRIES_MAX + 1):
            archive.writestr(f"archive/data/{number}", b"")

    with pytest.raises(ValueError, match="it unpacks to 0 bytes in 10001 entries"):
        convert_model(file.getvalue(), V)


def test_damaged_files_are_refused_and_nothing_else() -> None:
    """Whatever bytes change, the result is a model of ours or a reason."""
    whole, rng = foreign(weights(channels=4, blocks=1)), Random(7)
    refused = 0
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 8)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        data = data[: rng.choice((len(data), rng.randrange(len(data))))]
        try:
            made = net.load(convert_model(bytes(data), V), V)
        except ValueError:
            refused += 1
        else:
            assert isinstance(made, Net)
    assert refused > 50


def imported(folder: Path, data: bytes) -> tuple[str, Scratch, JobSpec]:
    """*data* as a blob in *folder*, with a job that imports it."""
    context = Scratch(folder)
    blob = hashlib.sha256(data).hexdigest()
    (folder / blob).write_bytes(data)
    return blob, context, JobSpec(job="j", stage="import", variant=V, seed=0, inputs={"file": (blob,)})


def test_the_stage_publishes_one_model(tmp_path: Path) -> None:
    """The model has our format, and the verify stage accepts it."""
    _, context, job = imported(tmp_path, foreign(weights()))

    [made] = run(job, context).outputs

    check = JobSpec(job="k", stage="verify", variant=V, seed=0, inputs={"model": (made.blob,)})
    assert made.kind == "model"
    assert run(check, context).outputs == ()


def test_the_stage_blames_the_file(tmp_path: Path) -> None:
    """A refusal names the blob, and nothing is published."""
    blob, context, job = imported(tmp_path, foreign(changed("hidden.weight", float("nan"))))

    with pytest.raises(Refused, match=r"is refused: its weights hidden\.weight are not finite") as refused:
        run(job, context)

    assert refused.value.blob == blob
    assert [file.name for file in tmp_path.iterdir()] == [blob]
