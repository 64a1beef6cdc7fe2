"""Preset: settings with which a local cluster learns reversi within minutes on a few cores."""

from ringrift.workload.api import Preset, Scalar

_NODES = 2  # they share the cores between them
_MINUTES = 10.0  # enough to prove the claims of a run with a margin, short enough to wait for
_BASELINES = {"square8_2p": ("uct:200",)}

GAMES_PER_BATCH = 256
_SETTINGS: dict[str, Scalar] = {
    # A batch fills the network: 64 games at once reach two thirds of the speed.  It takes about 6 s on one core, and a
    # stage that becomes ready waits for no longer than that.
    "policy.games_per_batch": GAMES_PER_BATCH,
    # About 45,000 new positions of square8 before the next training: 8 to 10 rounds in ten minutes on two cores.
    "policy.games_per_export": 768,
    # The newest 2,560 games, 150,000 positions: older games were played by much weaker models.
    "policy.window_batches_max": 10,
    # One running and one queued for each variant: more would be played with a model that is no longer champion.
    "policy.play_jobs_open": 2,
    # 64 games at once; two jobs, so that both cores can evaluate a candidate.
    "policy.blocks_per_job": 32,
    "policy.match_jobs_open": 2,
    # A round gains 50 Elo and more for as long as a run of minutes lasts; a test for 60 needs half the games of a test
    # for 35, and never more than 400 games.
    "policy.gate.elo_1": 60.0,
    "policy.gate.blocks_max": 200,
    # A worker sends no heartbeat while numba compiles, which takes 11 s of a core the first time and longer on a busy
    # machine.  The death of a worker is noticed at once all the same.
    "work.lease_seconds": 60.0,
    # Play and training stop between two plies or steps; a job that takes longer is stuck.
    "work.grace_seconds": 15.0,
}


def preset(*, cores: int, nodes: int | None) -> Preset:
    """As many workers as cores, shared by *nodes* nodes (default two), and at least one on each."""
    nodes = _NODES if nodes is None else nodes
    settings = {"work.slots": max(cores // nodes, 1), **_SETTINGS}
    return Preset(settings=settings, nodes=nodes, minutes=_MINUTES, baselines=_BASELINES)
