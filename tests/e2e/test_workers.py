"""Jobs that crash, hang, lie or run on, in real child processes: each costs a try, never the loop."""

import json
import os
import signal

import psutil
import pytest

from e2e.processes import FAKE, PATIENCE_SECONDS, QUICK, Home, reached
from ringrift.kernel.clock import SystemClock


def _run(home: Home, params: str, iterations: str = "1") -> str:
    (home.path / "ringrift.toml").write_text(f"{QUICK}[work.params]\n{params}\n")
    code, output = home.run("run", "--iterations", iterations, "--variants", "hex8_2p", seconds=80)
    assert code == 0, output[-3000:]
    return output


def test_a_crashing_worker_costs_one_try(home: Home) -> None:
    """Jobs whose first try kills its process are done by the second."""
    _run(home, "fake_crash = 'first'\nfake_every = 3")

    tried = home.ask("SELECT max(attempts), sum(attempts > 1) FROM jobs WHERE state = 'done'")[0]
    assert tried[0] == 2
    assert tried[1] > 0


def test_a_hanging_worker_loses_its_lease(home: Home) -> None:
    """A job that stops reporting progress is killed and done again, and no worker is left behind."""
    _run(home, "fake_hang = 'first'\nfake_stage = 'train'")

    errors = home.ask("SELECT max(attempts) FROM jobs WHERE kind = 'train' AND state = 'done'")
    assert errors[0][0] >= 2
    assert home.orphans() == []


def test_a_corrupt_batch_is_removed_and_reported(home: Home) -> None:
    """An export refuses a batch whose games do not check, names it, and continues without it."""
    _run(home, "fake_corrupt = 'always'\nfake_every = 7\nfake_stage = 'play'", iterations="2")

    lost = [json.loads(body) for (body,) in home.ask("SELECT body FROM log WHERE name = 'data.lost'")]
    counts = home.lines()["hex8_2p"].counts
    assert counts.lost == len(lost) > 0
    assert counts.batches == counts.stored + counts.lost + len(home.lines()["hex8_2p"].pending)


def test_a_model_with_nan_weights_is_never_promoted(home: Home) -> None:
    """Verification refuses a model that is not finite, the candidate is rejected for it, and the loop continues."""
    _run(home, "fake_nan = 'always'\nfake_every = 2\nfake_stage = 'train'", iterations="2")

    decisions = json.loads((home.path / "report.json").read_text())["decisions"]["hex8_2p"]
    refused = [decision for decision in decisions if decision["reason"].startswith("verify failed")]
    assert refused
    assert not any(decision["promoted"] for decision in refused)


def test_a_poisoned_job_is_buried_with_its_reason(home: Home) -> None:
    """A job that always crashes ends as dead after the tries of two nodes, and self-play continues beside it."""
    output = _run(home, "fake_crash = 'always'\nfake_every = 2\nfake_stage = 'play'", iterations="2")

    dead = home.ask("SELECT attempts, error FROM jobs WHERE state = 'dead'")
    buried = home.ask("SELECT count(*) FROM log WHERE name = 'work.buried'")[0][0]
    assert len(dead) == buried > 0
    assert all(attempts == 8 and "exit 13" in error for attempts, error in dead), dead
    assert "gave up play after 8 attempts" in output


def halfway(home: Home) -> bool:
    """Whether a worker has stored the first half of its games: the accidents of a job come right after that."""
    query = """SELECT json_extract(body, '$.games'), json_extract(outputs, '$[#-1].blob') FROM jobs
        WHERE kind = 'play' AND state = 'claimed' AND outputs <> '[]'"""
    rows = home.ask(query) if home.has(query) else []
    paths = [(games, path) for games, blob in rows for path in home.path.glob(f"blobs/*/*/{blob}")]
    return any(json.loads(path.read_bytes().partition(b"\n")[0])["done"] == games // 2 for games, path in paths)


@pytest.mark.parametrize("grace", [1.0])
def test_a_job_that_will_not_stop_is_killed_after_the_grace_period(home: Home, grace: float) -> None:
    """SIGTERM, then SIGKILL after RINGRIFT_JOB_GRACE_PERIOD: the node ends in time and the job is ready again."""
    settings = FAKE + "lease_seconds = 60.0\n[work.params]\nfake_hang = 'always'\nfake_stage = 'play'\n"
    (home.path / "ringrift.toml").write_text(settings)
    os.environ["RINGRIFT_JOB_GRACE_PERIOD"] = str(grace)
    try:
        process = home.start("run", "--iterations", "0", "--variants", "hex8_2p")
    finally:
        del os.environ["RINGRIFT_JOB_GRACE_PERIOD"]
    reached(process, lambda: halfway(home))
    assert home.orphans()
    clock = SystemClock()
    began = clock.tick()

    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE_SECONDS)

    assert process.returncode == 143
    assert clock.tick() - began >= grace
    assert home.orphans() == []
    assert home.ask("SELECT count(*) FROM jobs WHERE state = 'claimed'") == [(0,)]
    assert home.ask("SELECT count(*) FROM jobs WHERE kind = 'play' AND state = 'ready' AND attempts = 0")[0][0] > 0


def test_workers_die_with_their_node(home: Home) -> None:
    """SIGKILL to the node ends its busy workers and their guards by itself."""
    (home.path / "ringrift.toml").write_text(FAKE + "[work.params]\nfake_slow_seconds = 60.0\nfake_stage = 'play'\n")
    process = home.start("run", "--iterations", "0", "--variants", "hex8_2p")
    reached(process, lambda: home.has("SELECT 1 FROM jobs WHERE kind = 'play' AND state = 'claimed'"))
    workers = [psutil.Process(pid) for pid in home.orphans()]
    assert workers

    process.kill()
    process.communicate()

    _, alive = psutil.wait_procs(workers, timeout=5)
    assert [process for process in alive if process.status() != psutil.STATUS_ZOMBIE] == []
