"""Net: a small residual network that sees the board from the mover's side, and its safetensors file."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ringrift_reversi import tensors
from ringrift_reversi.topology import VARIANTS, topology

CHANNELS, BLOCKS = 16, 2
CHANNELS_MAX, BLOCKS_MAX = 512, 40
MODEL_BYTES_MAX = 512 * 1024 * 1024
VALUE_PLANES, VALUE_WIDTH = 4, 32
_FORMAT = "reversi-model-1"


class _Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(x + self.second(functional.relu(self.first(x))))


class Net(nn.Module):
    """Planes of discs → a logit per cell and a value logit per seat, counted from the mover.

    A plane marks the places of the grid that are cells.
    Untrained, it values all seats alike: the last layer of the value head starts at zero.
    """

    mask: Tensor
    place: Tensor

    def __init__(self, variant: str, channels: int = CHANNELS, blocks: int = BLOCKS) -> None:
        super().__init__()
        board, self.players = VARIANTS[variant]
        shape = topology(board)
        self.variant, self.channels, self.cells = variant, channels, shape.cells
        self.rows, self.cols = shape.rows, shape.cols
        self.stem = nn.Conv2d(self.players + 1, channels, 3, padding=1)
        self.blocks = nn.ModuleList(_Block(channels) for _ in range(blocks))
        self.policy = nn.Conv2d(channels, 1, 1)
        self.planes = nn.Conv2d(channels, VALUE_PLANES, 1)
        self.hidden = nn.Linear(VALUE_PLANES * self.rows * self.cols, VALUE_WIDTH)
        self.value = nn.Linear(VALUE_WIDTH, self.players)
        nn.init.zeros_(self.value.weight)
        nn.init.zeros_(self.value.bias)
        place = torch.from_numpy(shape.place.astype(np.int64))
        mask = torch.zeros(self.rows * self.cols)
        mask[place] = 1
        self.register_buffer("place", place, persistent=False)
        self.register_buffer("mask", mask.view(1, 1, self.rows, self.cols), persistent=False)

    def encode(self, boards: Tensor, to_move: Tensor) -> Tensor:
        """Planes [B, P+1, rows, cols] in the network's dtype: the discs of the mover, of the next seat …, the mask."""
        count = boards.shape[0]
        seat = torch.arange(self.players, device=boards.device, dtype=torch.int8)
        discs = (to_move.view(-1, 1) + seat) % self.players + 1
        planes = torch.zeros(
            count, self.players + 1, self.rows * self.cols, device=boards.device, dtype=self.stem.weight.dtype
        )
        planes[:, : self.players, self.place] = (boards.view(count, 1, -1) == discs.unsqueeze(2)).to(planes.dtype)
        planes[:, self.players] = self.mask.view(-1).to(planes.dtype)
        return planes.view(count, self.players + 1, self.rows, self.cols)

    def forward(self, planes: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [B, cells] and value logits [B, P] by seat, counted from the mover."""
        x = functional.relu(self.stem(planes))
        for block in self.blocks:
            x = block(x)
        value = functional.relu(self.planes(x)).flatten(1)
        return self.policy(x).flatten(1)[:, self.place], self.value(functional.relu(self.hidden(value)))

    def evaluate(self, boards: Tensor, to_move: Tensor) -> tuple[Tensor, Tensor]:
        """Logits float32 [B, cells] and shares of first place float32 [B, P] by absolute seat."""
        logits, relative = self(self.encode(boards, to_move))
        seat = torch.arange(self.players, device=boards.device)
        turned = (seat.view(1, -1) - to_move.view(-1, 1).long()) % self.players
        return logits.float(), relative.float().softmax(1).gather(1, turned)


def channels_last(net: Net) -> Net:
    """*net* itself, with the channels of a cell side by side: the fastest order for convolutions on a CPU."""
    net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing in torch's own types
    return net


def new_net(variant: str, seed: int, *, channels: int = CHANNELS, blocks: int = BLOCKS) -> Net:
    """An untrained network; its weights depend on *seed* alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Net(variant, channels, blocks)


def save(net: Net, meta: Mapping[str, str]) -> bytes:
    """The bytes of *net* with *meta*; equal weights give equal bytes."""
    weights = {name: weight.detach().float().cpu().numpy() for name, weight in net.state_dict().items()}
    shape = {"channels": str(net.channels), "blocks": str(len(net.blocks)), "variant": net.variant, "format": _FORMAT}
    return tensors.pack(weights, {**meta, **shape})


def load(data: bytes, variant: str) -> Net:
    """The network in *data*.  Raises ValueError with the reason if it is unusable."""
    net, _ = load_with_meta(data, variant)
    return net


def load_with_meta(data: bytes, variant: str) -> tuple[Net, dict[str, str]]:
    """The network in *data* and its metadata.  Raises ValueError with the reason if it is unusable."""
    arrays, meta = tensors.unpack(data)
    if meta.get("format") != _FORMAT:
        raise ValueError(f"not a model file, its format is {meta.get('format')!r:.40}")
    if meta.get("variant") != variant:
        raise ValueError(f"it plays {meta.get('variant')!r:.40}, not {variant}")
    channels, blocks = _size(meta, "channels", CHANNELS_MAX), _size(meta, "blocks", BLOCKS_MAX)
    # The declared size must match the weights before anything is built: a small file cannot claim much memory.
    trunk = (arrays.get(f"blocks.{number}.{part}.weight") for number in range(blocks) for part in ("first", "second"))
    if any(weights is None or weights.shape != (channels, channels, 3, 3) for weights in trunk):
        raise ValueError(f"its weights are not {blocks} blocks of {channels} channels")
    net = Net(variant, channels, blocks)
    expected = {name: tuple(weight.shape) for name, weight in net.state_dict().items()}
    actual = {name: array.shape for name, array in arrays.items()}
    if expected != actual or any(array.dtype != np.float32 for array in arrays.values()):
        odd = sorted(name for name in {*expected, *actual} if expected.get(name) != actual.get(name))
        raise ValueError(f"its weights are of another architecture: {', '.join(odd[:3]) or 'not float32'}")
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise ValueError(f"its weights {name} are not finite")
    net.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in arrays.items()})
    return net, meta


def _size(meta: Mapping[str, str], name: str, limit: int) -> int:
    text = meta.get(name, "")
    if not (text.isascii() and text.isdigit() and len(text) <= 4 and 1 <= int(text) <= limit):
        raise ValueError(f"its {name} are {text!r:.40}, not a number from 1 to {limit}")
    return int(text)
