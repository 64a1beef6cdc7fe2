"""Convert: a file of weights that comes from elsewhere into a model of ours, or a reason why it is none.

Such a file may be a pickle, and a pickle may be a program.  torch reads it with ``weights_only``, which builds tensors
and plain containers and nothing else, here in a worker; what it may unpack to is looked at before it is read.
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

WRAPPERS = ("state_dict", "model_state_dict", "model", "net")
"""Under which names others keep the weights, beside what else they keep."""
PREFIXES = ("module.", "_orig_mod.")
"""What torch puts before every name of a network that was trained in parallel or compiled."""
ENTRIES_MAX = 10_000
NESTED_MAX = 4
_ASKED_FOR = re.compile(r"GLOBAL ([\w.]+)")
_ZIP, _BRACE = b"PK\x03\x04", b"{"
_FLOATS = frozenset({torch.float32, torch.float64, torch.float16, torch.bfloat16})
# What torch raises for bytes that are no file of weights; a hostile one chooses among them.  The first is what it says
# of a pickle that would do more than hold weights.
_REFUSED: type[Exception] = serialization.pickle.UnpicklingError  # type: ignore[attr-defined]  # its own, not exported
_UNREADABLE = (
    _REFUSED, zipfile.BadZipFile, struct.error, ArithmeticError, AssertionError, AttributeError, EOFError,
    ImportError, LookupError, NotImplementedError, OSError, RuntimeError, TypeError, ValueError,
)  # fmt: skip


def converted(data: bytes, variant: str) -> bytes:
    """The model of *variant* in *data* in our form; one of ours stays as it is.  Raises ValueError: what is wrong."""
    if data[8:9] == _BRACE:
        model = net.load(data, variant)
    else:
        model = _built(_weights(_loaded(data)), variant)
        data = net.save(model, {"workload": f"reversi {VERSION}", "golden": evaluate.golden(model)})
    if wrong := evaluate.unsound(model):
        raise ValueError(wrong)
    return data


def _loaded(data: bytes) -> object:
    """What torch unpickles from *data* if it is let to build nothing but tensors."""
    if data[:4] == _ZIP:
        _check_archive(data)
    try:
        with warnings.catch_warnings(action="ignore"):  # torch warns of what it then refuses
            return torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except _UNREADABLE as bad:
        # torch goes on to advise how to load it all the same; only what the file asks for is worth telling.
        named = _ASKED_FOR.search(str(bad))
        why = f"it asks for {named[1]:.80}" if named else type(bad).__name__
        raise ValueError(f"it is no file of weights alone ({why})") from bad


def _check_archive(data: bytes) -> None:
    """Raise ValueError if the archive unpacks to more than a model may have."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
    except _UNREADABLE as bad:
        raise ValueError(f"it is a damaged archive ({type(bad).__name__})") from bad
    size = sum(entry.file_size for entry in entries)
    if len(entries) > ENTRIES_MAX or size > MODEL_BYTES_MAX:
        raise ValueError(f"it unpacks to {size} bytes in {len(entries)} entries")


def _weights(found: object) -> dict[str, Tensor]:
    """The weights by name, wherever they lie in what was *found*."""
    for _ in range(NESTED_MAX):
        if not isinstance(found, Mapping):
            break
        if found and all(isinstance(one, Tensor) for one in found.values()):
            return _bare({str(name): weight for name, weight in found.items()})
        inner = next((found[name] for name in WRAPPERS if isinstance(found.get(name), Mapping)), None)
        if inner is None:
            break
        found = inner
    raise ValueError(f"it holds no weights by name but {type(found).__name__!r:.40}")


def _bare(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """*weights* without what every name begins with."""
    for prefix in PREFIXES:
        if all(name.startswith(prefix) for name in weights):
            weights = {name.removeprefix(prefix): weight for name, weight in weights.items()}
    return weights


def _built(weights: dict[str, Tensor], variant: str) -> Net:
    """Our network with *weights*.  Raises ValueError unless they are of its names, shapes and kind, and finite."""
    channels, blocks = _size(weights)
    model = Net(variant, channels, blocks)
    wanted = {name: tuple(weight.shape) for name, weight in model.state_dict().items()}
    found = {name: tuple(weight.shape) for name, weight in weights.items()}
    if odd := sorted(name for name in {*wanted, *found} if wanted.get(name) != found.get(name)):
        raise ValueError(f"its weights are of another architecture: {', '.join(odd[:3])!s:.200}")
    for name, weight in weights.items():
        if weight.layout is not torch.strided or weight.dtype not in _FLOATS or weight.device.type != "cpu":
            raise ValueError(f"its weights {name} are {weight.dtype} in layout {weight.layout}, no plain numbers")
        # Looked at as they will be kept: what is too large for our numbers is not finite in them.
        if not bool(torch.isfinite(weight.float()).all()):
            raise ValueError(f"its weights {name} are not finite")
    model.load_state_dict({name: weight.float() for name, weight in weights.items()})
    return model


def _size(weights: dict[str, Tensor]) -> tuple[int, int]:
    """Channels and blocks as the weights have them, which must be there before anything is built of that size."""
    stem = weights.get("stem.weight")
    blocks = sum(name.startswith("blocks.") and name.endswith(".first.weight") for name in weights)
    if stem is None or stem.dim() != 4 or not 1 <= blocks <= BLOCKS_MAX or not 1 <= stem.shape[0] <= CHANNELS_MAX:
        raise ValueError(f"its weights are of another architecture: {', '.join(sorted(weights)[:3])!s:.200}")
    channels = stem.shape[0]
    trunk = (weights.get(f"blocks.{at}.{part}.weight") for at in range(blocks) for part in ("first", "second"))
    if any(one is None or tuple(one.shape) != (channels, channels, 3, 3) for one in trunk):
        raise ValueError(f"its weights are of another architecture than {blocks} blocks of {channels} channels")
    return channels, blocks
