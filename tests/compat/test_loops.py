"""The documented loops run as daemons of the program's node, at least as often as documented, and two are not built."""

from pathlib import Path

import pytest

from compat.subscribers import QUICK, async_test, home
from ringrift_compat.cluster.loops import AutoScalingLoop, IdleDetectionLoop, JobReaperLoop, LoopManager
from ringrift_compat.daemons.duties import NotYet
from ringrift_compat.embedded_host import get_host
from ringrift_compat.embedded_node import embedded

__all__ = ["home"]
BUILT = {
    "EloSyncLoop": "rate",
    "JobReaperLoop": "rescue",
    "QueuePopulatorLoop": "fill",
    "ValidationLoop": "import_models",
}
INTERVALS = {
    "EloSyncLoop": 60.0,
    "IdleDetectionLoop": 30.0,
    "AutoScalingLoop": 120.0,
    "JobReaperLoop": 60.0,
    "QueuePopulatorLoop": 30.0,
    "ValidationLoop": 300.0,
}


def running() -> set[str]:
    """The daemons of the loops that run in this program."""
    host = get_host(embedded.node())
    assert host is not None
    return {report.name for report in host.supervisor.statuses() if report.should_run} & set(BUILT.values())


@async_test
async def test_four_loops_run_and_two_are_not_yet() -> None:
    """The status names the interval of each and why one does not run; stopping ends the four."""
    manager = LoopManager()

    started = await manager.start()

    assert started == {name: name in BUILT for name in INTERVALS}
    assert running() == set(BUILT.values())
    status = manager.get_status()
    assert {name: row["interval"] for name, row in status.items()} == INTERVALS
    assert {name: row["running"] for name, row in status.items()} == started
    assert "not yet" in status["IdleDetectionLoop"]["reason"]
    assert "not yet" in status["AutoScalingLoop"]["reason"]
    assert all((await manager.stop()).values())
    assert running() == set()


@async_test
async def test_a_loop_ticks_at_least_as_often_as_documented(home: Path) -> None:
    """A longer time of the settings is shortened, a shorter one stays."""
    (home / "ringrift.toml").write_text(QUICK + "\n[work]\nrescue_seconds = 400\n[policy]\nrate_seconds = 7\n")

    await LoopManager().start()

    host = get_host(embedded.node())
    assert host is not None
    assert host.supervisor.spec("rescue").every == 60.0
    assert host.supervisor.spec("rate").every == "policy.rate_seconds"
    assert JobReaperLoop().is_running


@async_test
async def test_loops_that_are_switched_off_do_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """With RINGRIFT_EXTRACTED_LOOPS=false only the expiry of leases runs."""
    monkeypatch.setenv("RINGRIFT_EXTRACTED_LOOPS", "false")

    started = await LoopManager().start()

    assert {name for name, runs in started.items() if runs} == {"JobReaperLoop"}
    assert running() == {"rescue"}


@pytest.mark.parametrize("loop", [IdleDetectionLoop, AutoScalingLoop])
@async_test
async def test_a_loop_that_is_not_built_raises_when_it_is_run(loop: type[IdleDetectionLoop]) -> None:
    """Running it by itself names the work that brings it."""
    with pytest.raises(NotYet):
        await loop().run()
