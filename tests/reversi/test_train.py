"""Training lowers the losses, sees every symmetry, and ends the same however often it was interrupted."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from ringrift.workload.api import JobSpec, Refused
from ringrift.workload.scratch import Killed, Scratch
from ringrift_reversi import export, net, records, samples, stages
from ringrift_reversi.evaluate import Evaluator
from ringrift_reversi.play import Slots
from ringrift_reversi.play_spec import Style
from ringrift_reversi.samples import Samples
from ringrift_reversi.topology import topology
from ringrift_reversi.train import _HELD_OUT, _RECENT_STEPS, TrainConfig, Trainer

VARIANT = "square8_2p"


class Quick:
    """A clock on which everything takes a second."""

    def __init__(self) -> None:
        self._now = 0.0

    def now(self) -> float:
        return self._now

    def tick(self) -> float:
        self._now += 1.0
        return self._now


@pytest.fixture(scope="module")
def positions() -> Samples:
    """Positions of games of an untrained network."""
    slots = Slots(VARIANT, slots=64, games=64, seed=1, style=Style(sims=4))
    evaluate = Evaluator(net.new_net(VARIANT, 1), rows=64)
    while len(slots.live):
        slots.step(evaluate)
    return export.replay(records.join([game for _, game in slots.finished]), VARIANT)


def test_losses_fall(positions: Samples) -> None:
    """After some steps, the network fits its training targets better."""
    trainer = Trainer(net.new_net(VARIANT, 1), positions, TrainConfig(steps=120, batch=64), 0)
    trainer.advance()
    before = trainer.losses()
    while trainer.step < 120:
        trainer.advance()

    after = trainer.finish()

    assert after["policy_loss"] < before["policy_loss"]
    assert after["value_loss"] < before["value_loss"]


def test_the_learning_rate_stays_until_the_last_fifth() -> None:
    """Up over the first steps, then level, then down to a tenth."""
    config = TrainConfig(steps=1000, lr=1.0)

    assert config.lr_at(0) == pytest.approx(0.05)
    assert {config.lr_at(step) for step in range(20, 801)} == {1.0}
    assert config.lr_at(900) == pytest.approx(0.55)
    assert config.lr_at(999) == pytest.approx(0.1045)


def test_held_out_games_are_never_trained_on(positions: Samples) -> None:
    """By the game's own seed, so that a game held out once is held out always."""
    games = positions.game.copy()
    games[:200] = _HELD_OUT
    mixed = Samples(**{name: getattr(positions, name) for name in Samples.__slots__ if name != "game"}, game=games)
    trainer = Trainer(net.new_net(VARIANT, 1), mixed, TrainConfig(steps=100, batch=64), 0)

    trained = {int(row) for step in range(100) for row in trainer.rows(step)}

    assert trained == set(np.flatnonzero(games % _HELD_OUT != 0).tolist())
    assert "held_out_value_loss" in trainer.finish()


def test_every_sample_comes_once_before_any_comes_again(positions: Samples) -> None:
    """An epoch is a permutation, also across the edges of batches."""
    trainer = Trainer(net.new_net(VARIANT, 1), positions, TrainConfig(steps=100, batch=100), 3)
    count = int((positions.game % _HELD_OUT != 0).sum())

    stream = np.concatenate([trainer.rows(step) for step in range(2 * count // 100)])

    assert len(set(stream[:count].tolist())) == count
    assert not np.array_equal(stream[:100], stream[count : count + 100])


def test_a_turned_position_has_the_loss_of_the_position_to_a_network_that_is_turned_too(positions: Samples) -> None:
    """Discs, legal cells and policy target are turned together: a network without position inputs has the same loss."""
    model = net.new_net(VARIANT, 1)
    with torch.no_grad():  # the same weight in all directions, and a value that does not look where
        for layer in model.modules():
            if isinstance(layer, torch.nn.Conv2d) and layer.kernel_size == (3, 3):
                layer.weight.copy_(layer.weight.mean((2, 3), keepdim=True).expand_as(layer.weight))
    trainer = Trainer(model, positions, TrainConfig(steps=1), 0)
    rows = np.arange(50)

    losses = [trainer.loss(rows, np.full(50, turn))[0].item() for turn in range(len(topology("square8").symmetries))]

    assert max(losses) - min(losses) < 1e-5


def train_job(positions: Samples, folder: Path, **params: float | int) -> JobSpec:
    """A training of 30 steps."""
    ctx = Scratch(folder)
    parent = ctx.publish("model", net.save(net.new_net(VARIANT, 1), {"generation": "4"}), {})
    data = ctx.publish("samples", samples.pack(positions, VARIANT, {}), {})
    inputs = {"samples": (data.blob,), "parent": (parent.blob,)}
    return JobSpec("job", "train", VARIANT, 5, inputs=inputs, params={"steps": 30, "batch": 32, **params})


def test_a_training_reports_what_curves_are_drawn_from(positions: Samples, tmp_path: Path) -> None:
    """Losses with their parts, on what it learnt from and on what it did not; steps, positions, reuse and speed."""
    games = positions.game.copy()
    games[:50] = _HELD_OUT
    mixed = Samples(**{name: getattr(positions, name) for name in Samples.__slots__ if name != "game"}, game=games)

    metrics = stages.run(train_job(mixed, tmp_path), Scratch(tmp_path)).metrics

    for prefix in ("", "held_out_"):
        parts = metrics[f"{prefix}policy_loss"], metrics[f"{prefix}value_loss"]
        assert metrics[f"{prefix}loss"] == pytest.approx(sum(parts))
    assert (metrics["steps"], metrics["batch"], metrics["positions"]) == (30, 32, len(mixed))
    assert metrics["reuse"] == pytest.approx(30 * 32 / len(mixed))
    assert metrics["steps_per_second"] > 0


def test_the_loss_is_the_mean_of_the_last_steps(positions: Samples) -> None:
    """A single step is mostly noise; before the first there is none."""
    trainer = Trainer(net.new_net(VARIANT, 1), positions, TrainConfig(steps=40, batch=32), 0)
    assert trainer.losses() == {}
    values = []
    while trainer.step < 40:
        trainer.advance()
        values.append(trainer._recent[-1])

    policy, value = (sum(column) / _RECENT_STEPS for column in zip(*values[-_RECENT_STEPS:], strict=True))

    assert trainer.losses() == pytest.approx({"loss": policy + value, "policy_loss": policy, "value_loss": value})


@pytest.mark.parametrize("average", [0.0, 0.9])
def test_a_training_that_died_ends_with_the_same_weights(positions: Samples, tmp_path: Path, average: float) -> None:
    """Killed after each of its checkpoints in turn, it makes the very blob that it makes in one go."""
    job = train_job(positions, tmp_path, average=average)
    whole = stages.run(job, Scratch(tmp_path))

    ctx, deaths = Scratch(tmp_path), 0
    while True:
        try:
            result = stages.run(job, ctx.kill_after(1), Quick())
            break
        except Killed:
            ctx, deaths = ctx.again(), deaths + 1

    assert deaths >= 3
    assert result.outputs[0].blob == whole.outputs[0].blob
    assert whole.outputs[0].meta["generation"] == 5


def test_a_stopped_training_keeps_its_checkpoint(positions: Samples, tmp_path: Path) -> None:
    """Nothing is published; the next attempt goes on."""
    job = train_job(positions, tmp_path)
    whole = stages.run(job, Scratch(tmp_path))
    ctx = Scratch(tmp_path).stop_after(3)

    stopped = stages.run(job, ctx, Quick())
    ended = stages.run(job, ctx.again())

    assert stopped.partial
    assert not stopped.outputs
    assert ended.outputs[0].blob == whole.outputs[0].blob


def test_a_training_stopped_before_its_first_step_starts_over(positions: Samples, tmp_path: Path) -> None:
    """There is nothing to continue from yet, and that is no failure."""
    job = train_job(positions, tmp_path)
    ctx = Scratch(tmp_path).stop_after(0)

    stopped = stages.run(job, ctx, Quick())

    assert stopped.partial
    assert ctx.resume() is None


def test_a_checkpoint_of_another_job_is_not_believed(positions: Samples, tmp_path: Path) -> None:
    """Nor is one that is torn: the training begins anew."""
    job, other = train_job(positions, tmp_path), train_job(positions, tmp_path, lr=0.01)
    whole = stages.run(job, Scratch(tmp_path))
    foreign = Scratch(tmp_path).stop_after(3)
    stages.run(other, foreign, Quick())
    torn = Scratch(tmp_path)
    torn.checkpoint(b"torn")

    for ctx in (foreign.again(), torn.again()):
        assert stages.run(job, ctx).outputs[0].blob == whole.outputs[0].blob


def test_a_training_sends_heartbeats(positions: Samples, tmp_path: Path) -> None:
    """Every step is followed by a heartbeat if one is due."""
    ctx = Scratch(tmp_path)

    stages.run(train_job(positions, tmp_path), ctx, Quick())

    assert len(ctx.beats) >= 30
    assert "policy_loss" in ctx.beats[-1].metrics


def test_another_shape_is_trained_from_scratch(positions: Samples, tmp_path: Path) -> None:
    """A job may ask for a network that is not its parent's."""
    result = stages.run(train_job(positions, tmp_path, channels=8, blocks=1), Scratch(tmp_path))

    data = Scratch(tmp_path).open_input(result.outputs[0].blob).read_bytes()
    assert net.load(data, VARIANT).channels == 8


def test_training_that_runs_away_is_refused(positions: Samples, tmp_path: Path) -> None:
    """A model that is not finite is never published."""
    parent = net.new_net(VARIANT, 1)
    with torch.no_grad():
        for weight in parent.parameters():
            weight.fill_(1e30)
    ctx = Scratch(tmp_path)
    job = train_job(positions, tmp_path)
    wild = ctx.publish("model", net.save(parent, {}), {})

    with pytest.raises(Refused, match="not finite"):
        stages.run(replace(job, inputs={**job.inputs, "parent": (wild.blob,)}), ctx)
