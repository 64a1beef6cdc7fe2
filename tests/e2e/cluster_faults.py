"""Faults of a cluster of real processes: each begins on one host, or on all, and ends."""

import json
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from e2e.cluster_world import CLOCK, COORDINATOR, Cluster, missing_results
from e2e.test_kills import assert_counted_once
from wait import until

FAULT_SECONDS = 13.0  # longer than a lease, so that jobs are taken over meanwhile
BACK_SECONDS_MAX = 30.0
START_SECONDS_MAX = 120.0
VARIANT, VANISHES = "hex8_2p", "it vanishes"

Act = Callable[[Cluster, str], None]


class Fault(NamedTuple):
    """How a fault of one host begins and how it ends."""

    begin: Act
    end: Act


def _heal(cluster: Cluster, name: str) -> None:
    cluster.net.heal(name)


def _restart(cluster: Cluster, name: str) -> None:
    if name == COORDINATOR:
        cluster.start_coordinator(*cluster.options)
    else:
        cluster.rejoin(name)


def _stop_and_start(cluster: Cluster, name: str) -> None:
    """Stop a process in good order and start it again."""
    host = cluster.hosts[name]
    host.process.send_signal(signal.SIGTERM)
    host.process.wait(60)
    _restart(cluster, name)


def _vanish(cluster: Cluster, name: str) -> None:
    """Let a worker lose its disk and its life right after its next result was acknowledged, before it learns that."""
    host = cluster.workers[name]
    (host.path / "vanish").touch()
    host.process.wait(60)
    assert host.process.returncode == -signal.SIGKILL
    (host.path / "vanish").unlink()


def _join_anew(cluster: Cluster, name: str) -> None:
    cluster.join(name, node=name)


FAULTS = {
    VANISHES: Fault(_vanish, _join_anew),
    "kill -9": Fault(lambda cluster, name: cluster.hosts[name].kill(), _restart),
    "SIGSTOP": Fault(
        lambda cluster, name: cluster.hosts[name].signal(signal.SIGSTOP),
        lambda cluster, name: cluster.hosts[name].signal(signal.SIGCONT),
    ),
    "restart": Fault(lambda cluster, name: None, _stop_and_start),
    "partition": Fault(lambda cluster, name: cluster.net.cut(name), _heal),
    "nothing passes to it": Fault(lambda cluster, name: cluster.net.cut(name, back=False), _heal),
    "nothing comes from it": Fault(lambda cluster, name: cluster.net.cut(name, to=False), _heal),
    "10 % loss": Fault(lambda cluster, name: cluster.net.shape(name, loss=0.1), _heal),
    "300 ms delay": Fault(lambda cluster, name: cluster.net.shape(name, delay_seconds=0.3), _heal),
    "clock + 1 h": Fault(
        lambda cluster, name: cluster.hosts[name].step_clock(3600.0),
        lambda cluster, name: cluster.hosts[name].step_clock(0.0),
    ),
    "clock - 1 day": Fault(
        lambda cluster, name: cluster.hosts[name].step_clock(-86_400.0),
        lambda cluster, name: cluster.hosts[name].step_clock(0.0),
    ),
}


def start(cluster: Cluster) -> None:
    """Start the coordinator and let every worker join, until all are at work."""
    cluster.start_coordinator("--variants", VARIANT)
    for name in cluster.names:
        cluster.join(name)
    cluster.work_again(START_SECONDS_MAX)


def assert_alone(cluster: Cluster) -> None:
    """No process sees the home of another one, each has a network of its own, and workers listen nowhere."""
    for name, host in cluster.hosts.items():
        assert host.sees(host.path / "ringrift.toml")
        assert [other for other in cluster.hosts if host.sees(cluster.homes / other)] == [name]
    spaces = [space for host in cluster.hosts.values() for space in host.namespaces()]
    assert len(set(spaces)) == 2 * len(cluster.hosts)
    assert {str(Path(f"/proc/self/ns/{kind}").readlink()) for kind in ("net", "mnt")}.isdisjoint(spaces)
    for host in cluster.workers.values():
        assert list(host.path.rglob("*.db")) == [], "a worker has no store"
        assert host.listens() == []


def suffer(cluster: Cluster, faults: dict[str, str], seconds: float = FAULT_SECONDS) -> None:
    """Let *faults* of hosts begin, last for *seconds* and end."""
    for name, fault in sorted(faults.items(), key=lambda item: item[1] != VANISHES):  # it needs a coordinator for that
        FAULTS[fault].begin(cluster, name)
    end = CLOCK.tick() + seconds
    until(lambda: CLOCK.tick() >= end, seconds + 5.0)
    for name, fault in sorted(faults.items(), key=lambda item: item[0] != COORDINATOR):
        FAULTS[fault].end(cluster, name)


def assert_kept(cluster: Cluster) -> None:
    """Every result that a worker had acknowledged is there with its files, and each batch counts once.

    The coordinator stands still meanwhile, so that all is seen at one moment.
    """
    home = cluster.coordinator
    home.signal(signal.SIGSTOP)
    try:
        answers = {name: host.answered() for name, host in cluster.workers.items()}
        assert missing_results(home, answers) == []
        assert home.unbalanced() == []
        assert_counted_once(home)
        log = home.ask("SELECT body FROM log WHERE name = 'selfplay.batch_finished'")
    finally:
        home.signal(signal.SIGCONT)
    finished = [json.loads(body) for (body,) in log]
    assert [batch for batch, times in Counter(event["batch"] for event in finished).items() if times > 1] == []
    assert {event["node"] for event in finished} == set(cluster.names)
