"""Reversi: games, simulations and steps of training per CPU second of one core, against the network alone."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench.measure import Contest, Line, Metrics, Side

GAMES, SIMS, ROWS = 512, 16, 256
EVALUATIONS, STEPS = 100, 60
CHILD_SECONDS_MAX = 120
_START = """
import json, resource, sys, time
from pathlib import Path
from ringrift_reversi.workload import Reversi
from ringrift.workload.api import JobSpec
from ringrift.workload.scratch import Scratch
ctx = Scratch(Path(sys.argv[1]))
model = Reversi().run(JobSpec("job", "train", "square8_2p", 1), ctx).outputs[0].blob
job = JobSpec("job", "play", "square8_2p", 1, inputs={"model": (model,)}, params={"games": int(sys.argv[2])})
Reversi().run(job, ctx)
times = {"ready": time.monotonic(), "cpu": time.process_time()}
print(json.dumps({**times, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""


def _child(folder: Path, games: int) -> Metrics:
    """A fresh process that plays: its time and its peak memory."""
    begun = time.monotonic()
    ran = subprocess.run(
        [sys.executable, "-c", _START, str(folder), str(games)],
        capture_output=True,
        text=True,
        check=True,
        timeout=CHILD_SECONDS_MAX,
    )
    printed: dict[str, float] = json.loads(ran.stdout)
    return {**printed, "seconds": printed["ready"] - begun}


@contextmanager
def _play(variant: str, _: Path) -> Iterator[Mapping[str, Side]]:
    import numpy as np
    import torch

    from ringrift.workload.api import JobSpec
    from ringrift.workload.scratch import Scratch
    from ringrift_reversi import net, records
    from ringrift_reversi.evaluate import Evaluator, fastest_dtype
    from ringrift_reversi.workload import Reversi

    torch.set_num_threads(1)
    model, dtype = net.new_net(variant, 1), fastest_dtype(variant)
    evaluate = Evaluator(model, rows=ROWS, dtype=dtype)
    boards = np.zeros((ROWS, model.cells), np.int8)
    movers = np.zeros(ROWS, np.int8)

    def ours(folder: Path) -> Metrics:
        ctx = Scratch(folder)
        blob = ctx.publish("model", net.save(model, {}), {}).blob
        params = {"games": GAMES, "sims": SIMS, "slots": ROWS, "dtype": dtype, "random_plies": 0}
        begun = time.process_time()
        made = Reversi().run(JobSpec("job", "play", variant, 1, {"model": (blob,)}, params), ctx).outputs[0]
        spent = time.process_time() - begun
        games, _ = records.unpack(ctx.open_input(made.blob).read_bytes(), variant)
        return {"games": len(games) / spent, "sims": len(games.moves) * SIMS / spent}

    def raw(_: Path) -> Metrics:
        begun = time.process_time()
        for _ in range(EVALUATIONS):
            evaluate.network(ROWS)
        return {"sims": ROWS * EVALUATIONS / (time.process_time() - begun)}

    evaluate(boards, movers)
    yield {"ours": ours, "raw": raw}


@contextmanager
def _train(_: Path) -> Iterator[Mapping[str, Side]]:
    import numpy as np
    import torch

    from ringrift_reversi import export, net, records
    from ringrift_reversi.evaluate import Evaluator
    from ringrift_reversi.play import Slots
    from ringrift_reversi.play_spec import Style
    from ringrift_reversi.train import TrainConfig, Trainer

    torch.set_num_threads(1)
    variant = "square8_2p"
    slots = Slots(variant, slots=64, games=64, seed=1, style=Style(sims=2))
    evaluate = Evaluator(net.new_net(variant, 1), rows=64)
    while len(slots.live):
        slots.step(evaluate)
    samples = export.replay(records.join([game for _, game in slots.finished]), variant)
    trainer = Trainer(net.new_net(variant, 1), samples, TrainConfig(steps=10**6), 0)
    planes = torch.from_numpy(np.random.default_rng(0).random((256, 3, 8, 8), np.float32))
    planes = planes.contiguous(memory_format=torch.channels_last)
    model = net.channels_last(net.new_net(variant, 1).train())
    optimiser = torch.optim.AdamW(model.parameters(), fused=True)

    def ours(_: Path) -> Metrics:
        begun = time.process_time()
        for _ in range(STEPS):
            trainer.advance()
        return {"steps": STEPS / (time.process_time() - begun)}

    def raw(_: Path) -> Metrics:
        begun = time.process_time()
        for _ in range(STEPS):
            logits, values = model(planes)
            optimiser.zero_grad(set_to_none=True)
            (logits.square().mean() + values.square().mean()).backward()
            optimiser.step()
        return {"steps": STEPS / (time.process_time() - begun)}

    yield {"ours": ours, "raw": raw}


@contextmanager
def _start(shared: Path) -> Iterator[Mapping[str, Side]]:
    _child(shared, 1)  # compiles functions that are not compiled yet
    yield {"one": partial(_child, games=1), "many": partial(_child, games=GAMES)}


def _lines(variant: str, games_min: float) -> tuple[Line, ...]:
    what = f"{variant}, {SIMS} simulations, one core"
    return (
        Line(
            f"{variant}, simulations", f"{what}; raw: the network alone", "sims/s", "sims", ratio_min=0.8, recorded=True
        ),
        Line(f"{variant}, games", what, "games/s", "games", raw=None, ours_min=games_min),
    )


PLAYS = tuple(
    Contest(name=f"play-{variant}", open=partial(_play, variant), lines=_lines(variant, games_min))
    for variant, games_min in (("square8_2p", 48.0), ("hex8_2p", 35.0))
)
TRAINING = Contest(
    name="train",
    open=_train,
    lines=(
        Line("training", "batches of 256, CPU; raw: the network and AdamW alone", "steps/s", "steps", ours_min=46.0),
    ),
)
PLAYER = Contest(
    name="player",
    open=_start,
    lines=(
        Line("player, start", "from exec to its first game, compiled before", "s", "seconds", "one", None),
        Line("player, start, CPU", "the same in CPU time", "s", "cpu", "one", None, ours_max=5.0),
        Line("player, memory", f"the most it has in {GAMES} games", "MB", "peak", "many", None, ours_max=1200.0),
    ),
)
