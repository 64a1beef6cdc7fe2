"""The documented client of a cluster: who leads and where, and the queue of events, also without a store."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from compat.cluster_scene import open_line, present
from compat.subscribers import QUICK, home
from ringrift.cluster.served import SERVED
from ringrift.kernel.errors import SettingsError, Unreachable
from ringrift.store.open import only_coordinator
from ringrift_compat.cluster.p2p_backend import P2PBackend, discover_p2p_leader_url
from ringrift_compat.daemons.manager import get_daemon_manager
from ringrift_compat.daemons.types import DaemonType
from ringrift_compat.embedded_node import embedded
from ringrift_compat.events.cross_process_queue import CrossProcessEventQueue
from unit.pipeline.story import VARIANT
from wait import until

__all__ = ["home"]
SECONDS_MAX = 30.0
NOBODY = "http://127.0.0.1:1"
MANAGER = get_daemon_manager()


@pytest.fixture(autouse=True)
def free_port(home: Path) -> None:
    """Any port will do."""
    (home / "ringrift.toml").write_text(QUICK + "\n[wire]\nport = 0\n")


def serve() -> str:
    """Let this program serve other machines; its address."""
    assert asyncio.run(MANAGER.start(DaemonType.P2P_BACKEND))
    until(lambda: discover_p2p_leader_url() is not None, SECONDS_MAX)
    return discover_p2p_leader_url() or ""


@pytest.fixture
def url() -> str:
    """The address of this program, which serves."""
    return serve()


def test_a_program_serves_when_it_is_asked_to_and_names_itself() -> None:
    """Nobody leads before; then it does, at its port; after the end of serving nobody is named any more."""
    assert discover_p2p_leader_url() is None
    address = serve()

    assert address.startswith("http://127.0.0.1:")
    leader = asyncio.run(P2PBackend().get_leader())
    assert (leader.node, leader.addresses) == (embedded.node().settings.node.id, (address,))
    assert MANAGER.is_running(DaemonType.P2P_BACKEND)
    assert asyncio.run(MANAGER.stop(DaemonType.P2P_BACKEND))
    assert not MANAGER.is_running(DaemonType.P2P_BACKEND)
    until(lambda: discover_p2p_leader_url() is None, SECONDS_MAX)


def test_only_the_coordinator_of_a_home_serves() -> None:
    """Beside another coordinator the start is refused, with the reason."""
    settings = embedded.node().settings
    with only_coordinator(settings.store, "another"):
        assert not asyncio.run(MANAGER.start(DaemonType.P2P_BACKEND))

        info = MANAGER.get_daemon_status(DaemonType.P2P_BACKEND)

    assert "another process is the coordinator" in info.reason
    assert discover_p2p_leader_url() is None


def test_the_rows_of_a_dead_coordinator_make_no_leader() -> None:
    """They name a node and its address; but no process leads this home now."""

    async def write() -> None:
        async with embedded.node().store.begin() as tx:
            await tx.hold_role("watch", "dead", 15.0, None)
            await SERVED.put_at(tx, {"dead": NOBODY})

    embedded.call(write())

    assert asyncio.run(P2PBackend().get_leader()).node == "dead"
    assert discover_p2p_leader_url() is None


def test_a_home_without_a_store_has_no_leader(home: Path) -> None:
    """Asking makes no store, and neither does an address where nobody answers."""
    assert discover_p2p_leader_url() is None
    assert not list(home.rglob("*.db"))


def test_no_store_is_made_beside_a_cluster(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that works for a coordinator elsewhere is told which calls work there; a key is needed for those."""
    monkeypatch.setenv("RINGRIFT_P2P_URL", NOBODY)

    with pytest.raises(Unreachable, match="CrossProcessEventQueue"):
        embedded.node()
    with pytest.raises(SettingsError, match="ringrift join"):
        CrossProcessEventQueue().subscribe("far")
    assert discover_p2p_leader_url(timeout=1.0) is None
    assert not list(home.rglob("*.db"))


# -- a program on another machine: a home without a store, which reaches the coordinator by its address alone ----------

JOIN = """
import sys
from ringrift.cli import main as cli
sys.exit(cli.call(["join", sys.argv[1], "--program", "--token-file", sys.argv[2]]))
"""
REMOTE = """
import asyncio, json, sys
from app.coordination.p2p_backend import P2PBackend, discover_p2p_leader_url
from app.coordination.cross_process_events import CrossProcessEventQueue, publish_event
async def inside():
    status = await P2PBackend().get_cluster_status()
    return {"nodes": sorted(status["nodes"]), "jobs": status["jobs"], "variants": status["variants"],
            "leader": discover_p2p_leader_url()}
queue, answer = CrossProcessEventQueue(), {}
queue.subscribe("far")
print("subscribed", flush=True)
sys.stdin.readline()
first = queue.poll("far", ["CUSTOM_EVENT"])
answer["first"] = [event.payload for event in first]
answer["origin"] = first[0].origin
answer["again"] = [event.payload for event in queue.poll("far", ["CUSTOM_EVENT"], limit=1)]
queue.ack("far", first[0].event_id)
answer["rest"] = [event.payload for event in queue.poll("far", ["CUSTOM_EVENT"])]
publish_event("YOUR_EVENT", {"from": "far"})
answer |= asyncio.run(inside())
print(json.dumps(answer))
"""


def other_home(folder: Path, url: str, *scopes: str) -> dict[str, str]:
    """The environment of a program that has joined as such with these *scopes*."""
    token = folder.with_suffix(".token")
    options = [part for scope in scopes for part in ("--scope", scope)]
    subprocess.run([_ringrift(), "nodes", "token", *options, "--out", str(token)], check=True, capture_output=True)
    folder.mkdir()
    environ = {
        **os.environ,
        "RINGRIFT_HOME": str(folder),
        "RINGRIFT_COORDINATOR_URL": url,
        "RINGRIFT_NODE_ID": folder.name,
    }
    joining = subprocess.run([sys.executable, "-c", JOIN, url, str(token)], env=environ, capture_output=True, text=True)
    assert joining.returncode == 0, joining.stderr
    return environ


def _ringrift() -> str:
    return str(Path(sys.executable).with_name("ringrift"))


def test_the_queue_and_the_leader_reach_a_program_on_another_machine(tmp_path: Path, url: str) -> None:
    """It has no store: it hears what is published here once it subscribed, keeps its place, and is heard here."""
    open_line()
    present("n7")
    environ = other_home(tmp_path / "far", url, "read", "publish")
    queue = CrossProcessEventQueue()
    queue.subscribe("near")
    far = subprocess.Popen(
        [sys.executable, "-c", REMOTE], env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert far.stdout is not None
    assert far.stdout.readline() == "subscribed\n"
    for number in (1, 2):
        queue.publish("CUSTOM_EVENT", {"n": number})

    out, _ = far.communicate("go\n", timeout=60)

    answer = json.loads(out)
    assert (answer["first"], answer["again"], answer["rest"]) == ([{"n": 1}, {"n": 2}], [{"n": 1}], [{"n": 2}])
    assert answer["origin"] == "cross_process"
    assert answer["leader"] == url
    assert "n7" in answer["nodes"]
    assert answer["variants"] == {VARIANT: "collecting"}
    assert [event.payload for event in queue.poll("near", ["YOUR_EVENT"])] == [{"from": "far"}]
    assert not list((tmp_path / "far").rglob("*.db"))


def test_any_machine_can_ask_who_leads(tmp_path: Path, url: str) -> None:
    """No store and no key is needed; of several addresses the one that leads is named, and none if none does."""
    (tmp_path / "far").mkdir()
    environ = {**os.environ, "RINGRIFT_HOME": str(tmp_path / "far"), "RINGRIFT_COORDINATOR_URL": f"{NOBODY},{url}"}
    code = "from app.coordination.p2p_backend import discover_p2p_leader_url as find; print(find(), find([%r], 1.0))"

    line = [sys.executable, "-c", code % NOBODY]
    out = subprocess.run(line, env=environ, capture_output=True, text=True, check=True).stdout

    assert out.split() == [url, "None"]
    assert not list((tmp_path / "far").rglob("*.db"))
