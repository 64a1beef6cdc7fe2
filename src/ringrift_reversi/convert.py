"""Convert: make a model of a file of weights from outside, or reject it with a reason.

Such a file may be a pickle, and a pickle may be a program.  torch reads it with ``weights_only``, which builds tensors
and plain containers and nothing else, here in a worker; its unpacked size is checked before it is read.
"""

import io
import re
import struct
import warnings
import zipfile
from collections.abc import Mapping

import torch
from torch import Tensor, serialization

from ringrift_reversi import evaluate, net
from ringrift_reversi.net import BLOCKS_MAX, CHANNELS_MAX, MODEL_BYTES_MAX, Net
from ringrift_reversi.workload import VERSION

_WRAPPERS = ("state_dict", "model_state_dict", "model", "net")  # common names of the weights in a checkpoint
_PREFIXES = ("module.", "_orig_mod.")  # before every name of a network that torch trained in parallel or compiled
_ENTRIES_MAX = 10_000
_NESTED_MAX = 4
_GLOBAL = re.compile(r"GLOBAL ([\w.]+)")
_ZIP, _BRACE = b"PK\x03\x04", b"{"
_FLOATS = frozenset({torch.float32, torch.float64, torch.float16, torch.bfloat16})
# Errors that torch raises for bytes that are not a file of weights; a hostile file can choose among them.  The first is
# for a pickle that would do more than hold weights.
_REFUSED: type[Exception] = serialization.pickle.UnpicklingError  # type: ignore[attr-defined]  # its own, not exported
_UNREADABLE = (
    *(_REFUSED, zipfile.BadZipFile, struct.error, ArithmeticError, AssertionError, AttributeError, EOFError),
    *(ImportError, LookupError, NotImplementedError, OSError, RuntimeError, TypeError, ValueError),
)


def convert_model(data: bytes, variant: str) -> bytes:
    """The model file of *variant* made of *data*; a model file stays as it is.  Raises ValueError with the reason."""
    if data[8:9] == _BRACE:
        model = net.load(data, variant)
    else:
        model = _build(_weights(_load(data)), variant)
        data = net.save(model, {"workload": f"reversi {VERSION}", "golden": evaluate.golden(model)})
    if defect := evaluate.find_defect(model):
        raise ValueError(defect)
    return data


def _load(data: bytes) -> object:
    """The content of *data*, unpickled by torch, which may build nothing but tensors."""
    if data[:4] == _ZIP:
        _check_archive(data)
    try:
        with warnings.catch_warnings(action="ignore"):  # torch warns of files that it then rejects
            return torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except _UNREADABLE as error:
        # The message of torch goes on to advise how to load it all the same; only the forbidden name is useful.
        match = _GLOBAL.search(str(error))
        reason = f"it contains {match[1]:.80}" if match else type(error).__name__
        raise ValueError(f"not a file of weights alone ({reason})") from error


def _check_archive(data: bytes) -> None:
    """Raise ValueError if the archive unpacks to more than a model may have."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
    except _UNREADABLE as error:
        raise ValueError(f"a damaged archive ({type(error).__name__})") from error
    size = sum(entry.file_size for entry in entries)
    if len(entries) > _ENTRIES_MAX or size > MODEL_BYTES_MAX:
        raise ValueError(f"it unpacks to {size} bytes in {len(entries)} entries")


def _weights(content: object) -> dict[str, Tensor]:
    """The weights by name, at whatever depth of *content*."""
    for _ in range(_NESTED_MAX):
        if not isinstance(content, Mapping):
            break
        if content and all(isinstance(weight, Tensor) for weight in content.values()):
            return _strip_prefixes({str(name): weight for name, weight in content.items()})
        inner = next((content[name] for name in _WRAPPERS if isinstance(content.get(name), Mapping)), None)
        if inner is None:
            break
        content = inner
    raise ValueError(f"it has no weights by name, only {type(content).__name__!r:.40}")


def _strip_prefixes(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """*weights* without a prefix that all names share."""
    for prefix in _PREFIXES:
        if all(name.startswith(prefix) for name in weights):
            weights = {name.removeprefix(prefix): weight for name, weight in weights.items()}
    return weights


def _build(weights: dict[str, Tensor], variant: str) -> Net:
    """The network with *weights*.  Raises ValueError unless names, shapes and types match and all are finite."""
    channels, blocks = _size(weights)
    model = Net(variant, channels, blocks)
    expected = {name: tuple(weight.shape) for name, weight in model.state_dict().items()}
    actual = {name: tuple(weight.shape) for name, weight in weights.items()}
    if odd := sorted(name for name in {*expected, *actual} if expected.get(name) != actual.get(name)):
        raise ValueError(f"its weights are of another architecture: {', '.join(odd[:3])!s:.200}")
    for name, weight in weights.items():
        if weight.layout is not torch.strided or weight.dtype not in _FLOATS or weight.device.type != "cpu":
            raise ValueError(f"its weights {name} are {weight.dtype} in layout {weight.layout}, not plain numbers")
        # Checked in the type in which they are stored: a number too large for it is not finite.
        if not bool(torch.isfinite(weight.float()).all()):
            raise ValueError(f"its weights {name} are not finite")
    model.load_state_dict({name: weight.float() for name, weight in weights.items()})
    return model


def _size(weights: dict[str, Tensor]) -> tuple[int, int]:
    """Channels and blocks of the weights, checked before anything of that size is built."""
    stem = weights.get("stem.weight")
    blocks = sum(name.startswith("blocks.") and name.endswith(".first.weight") for name in weights)
    if stem is None or stem.dim() != 4 or not 1 <= blocks <= BLOCKS_MAX or not 1 <= stem.shape[0] <= CHANNELS_MAX:
        raise ValueError(f"its weights are of another architecture: {', '.join(sorted(weights)[:3])!s:.200}")
    channels = stem.shape[0]
    trunk = (weights.get(f"blocks.{number}.{part}.weight") for number in range(blocks) for part in ("first", "second"))
    if any(weight is None or tuple(weight.shape) != (channels, channels, 3, 3) for weight in trunk):
        raise ValueError(f"its weights are not {blocks} blocks of {channels} channels")
    return channels, blocks
