"""The network as the torch search calls it: on its device, in its number type, channels last, with fused steps."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from ringrift_reversi.net import VALUE_PLANES, Net
from ringrift_reversi.torch_search import Evaluate

_CHANNELS_STEP = 8  # tensor cores take channels by eight; the rest are zeros
_TRIAL_ROWS, _TOLERANCE = 64, 0.1
_UNIT = (1, 1)  # stride, padding, dilation
_Trunk = Callable[[Tensor], Tensor]


def evaluator(net: Net, *, device: torch.device | str, dtype: torch.dtype) -> Evaluate:
    """The evaluator of *net*, whose weights it copies; it may be compiled into its caller."""
    players, cells, grid = net.players, net.cells, net.rows * net.cols
    planes = _even(players + 1)
    trunk = _trunk(net, planes, torch.device(device), dtype)
    heads = _heads(net, torch.device(device), dtype)
    place, seats = net.place.to(device), torch.arange(players, device=device)
    constant = torch.zeros(grid, planes - players, dtype=dtype, device=device)
    constant[place, 0] = 1
    cell_of = torch.full((grid,), cells, device=device)
    cell_of[place] = torch.arange(cells, device=device)

    def evaluate(boards: Tensor, to_move: Tensor) -> tuple[Tensor, Tensor]:
        count, mover = len(boards), to_move.long()[:, None]
        onto = boards if cells == grid else functional.pad(boards, (0, 1))[:, cell_of]
        discs = onto[..., None] == ((mover + seats) % players + 1)[:, None]
        inputs = torch.cat((discs.to(dtype), constant.expand(count, -1, -1)), 2)
        logits, relative = heads(trunk(inputs.view(count, net.rows, net.cols, planes).permute(0, 3, 1, 2)))
        return logits[:, place].float(), relative.float().softmax(1).gather(1, (seats - mover) % players)

    return evaluate


def _even(channels: int) -> int:
    return channels + -channels % _CHANNELS_STEP


def _trunk(net: Net, planes: int, device: torch.device, dtype: torch.dtype) -> _Trunk:
    """Planes → channels.  On a GPU, cuDNN fuses bias, addition and ReLU into the convolution if it can."""

    def prepare(layer: nn.Module) -> tuple[Tensor, Tensor]:
        assert isinstance(layer, nn.Conv2d)
        assert layer.bias is not None
        weight = layer.weight.detach().to(device, dtype, copy=True).contiguous(memory_format=torch.channels_last)
        return weight, layer.bias.detach().to(device, dtype, copy=True)

    weight, bias = prepare(net.stem)
    padding = planes - weight.shape[1]
    stem = functional.pad(weight, (0, 0, 0, 0, 0, padding)).contiguous(memory_format=torch.channels_last), bias
    blocks = [(prepare(block.first), prepare(block.second)) for block in net.blocks]  # type: ignore[arg-type]  # of our blocks

    def plain(x: Tensor) -> Tensor:
        x = functional.conv2d(x, *stem, padding=1).relu()
        for first, second in blocks:
            x = (x + functional.conv2d(functional.conv2d(x, *first, padding=1).relu(), *second, padding=1)).relu()
        return x

    def fused(x: Tensor) -> Tensor:
        x = torch.cudnn_convolution_relu(x, *stem, _UNIT, _UNIT, _UNIT, 1)
        for first, (weight, bias) in blocks:
            inner = torch.cudnn_convolution_relu(x, *first, _UNIT, _UNIT, _UNIT, 1)
            x = torch.cudnn_convolution_add_relu(inner, weight, x, 1.0, bias, _UNIT, _UNIT, _UNIT, 1)
        return x

    trial = torch.rand(_TRIAL_ROWS, planes, net.rows, net.cols, generator=torch.Generator().manual_seed(0))
    if not _agree(plain, fused, trial.to(device, dtype, memory_format=torch.channels_last)):
        return plain
    # The compiler does not know these operators and must leave them as they are.
    uncompiled: _Trunk = torch.compiler.disable(fused)  # type: ignore[no-untyped-call]  # torch leaves it untyped
    return uncompiled


def _agree(plain: _Trunk, fused: _Trunk, trial: Tensor) -> bool:
    """Whether this machine supports the fused form with the same results."""
    if trial.device.type != "cuda":
        return False
    try:
        expected, actual = plain(trial), fused(trial)
    except RuntimeError:
        return False
    return bool((expected - actual).abs().max() <= _TOLERANCE * expected.abs().max())


def _heads(net: Net, device: torch.device, dtype: torch.dtype) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """Channels → logits by place and value logits: both heads read the channels with one matrix."""

    def on_device(weight: Tensor | None) -> Tensor:
        assert weight is not None
        return weight.detach().to(device, dtype)

    weights = torch.cat((on_device(net.policy.weight), on_device(net.planes.weight))).flatten(1)
    rest = _even(len(weights)) - len(weights)
    matrix = functional.pad(weights, (0, 0, 0, rest)).t().contiguous()
    offset = functional.pad(torch.cat((on_device(net.policy.bias), on_device(net.planes.bias))), (0, rest))
    hidden = on_device(net.hidden.weight).view(-1, VALUE_PLANES, net.rows * net.cols)
    hidden = hidden.transpose(1, 2).flatten(1).contiguous()
    hidden_bias, value, value_bias = on_device(net.hidden.bias), on_device(net.value.weight), on_device(net.value.bias)

    def heads(x: Tensor) -> tuple[Tensor, Tensor]:
        outputs = x.permute(0, 2, 3, 1).flatten(1, 2) @ matrix + offset
        inner = functional.linear(outputs[..., 1 : 1 + VALUE_PLANES].relu().flatten(1), hidden, hidden_bias).relu()
        return outputs[..., 0], functional.linear(inner, value, value_bias)

    return heads
