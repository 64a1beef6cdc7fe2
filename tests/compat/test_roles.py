"""The documented orchestrator roles: one process holds each, several by one process, freed at its end."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from compat.ears import home, on_a_loop
from ringrift.kernel.errors import NotLeader
from ringrift_compat import roles
from ringrift_compat.admitting import admitting
from ringrift_compat.ambient import ambient
from ringrift_compat.roles import (
    OrchestratorRole,
    acquire_orchestrator_role,
    get_registry,
    get_role_holder,
    has_orchestrator_role,
    is_orchestrator_role_available,
    orchestrator_role,
    release_orchestrator_role,
)

__all__ = ["home"]

HOLD = """
import sys
from app.coordination.orchestrator_registry import OrchestratorRole, acquire_orchestrator_role
print(acquire_orchestrator_role(OrchestratorRole.P2P_LEADER), flush=True)
sys.stdin.readline()
"""


def holder(path: Path) -> "subprocess.Popen[str]":
    """Another program on the same home that asks for a role and waits."""
    environ = os.environ | {"RINGRIFT_HOME": str(path)}
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", HOLD], env=environ, stdin=pipe, stdout=pipe, text=True)


def said(program: "subprocess.Popen[str]") -> str:
    """Its next line."""
    assert program.stdout is not None
    return program.stdout.readline().strip()


def test_there_are_thirteen_roles() -> None:
    """Every role of the documents has a member."""
    assert len(OrchestratorRole) == 13
    assert OrchestratorRole("unified_loop") is OrchestratorRole.UNIFIED_LOOP


def test_a_process_may_hold_several() -> None:
    """Each by itself; releasing one leaves the others, releasing without a name all."""
    assert acquire_orchestrator_role(OrchestratorRole.DATA_SYNC, metadata={"why": "test"})
    assert acquire_orchestrator_role("model_sync")
    assert acquire_orchestrator_role("model_sync")

    assert not is_orchestrator_role_available("model_sync")
    assert is_orchestrator_role_available("p2p_leader")
    told = get_role_holder("data_sync")
    assert told is not None
    assert (told.role, told.pid, told.metadata) == (OrchestratorRole.DATA_SYNC, os.getpid(), {"why": "test"})
    assert len(get_registry().get_active_orchestrators()) == 2
    assert get_registry().heartbeat()
    assert release_orchestrator_role("model_sync")
    assert not release_orchestrator_role("model_sync")
    assert (has_orchestrator_role("data_sync"), has_orchestrator_role("model_sync")) == (True, False)
    assert release_orchestrator_role()
    assert get_role_holder("data_sync") is None
    with pytest.raises(ValueError, match="king"):
        acquire_orchestrator_role("king")


def test_another_process_is_kept_out_until_the_holder_ends(home: Path) -> None:
    """Who comes second is refused; when the first is killed its role is free at once."""
    first = holder(home)
    assert said(first) == "True"
    second = holder(home)
    assert said(second) == "False"

    assert not acquire_orchestrator_role("p2p_leader")
    told = get_role_holder("p2p_leader")
    assert told is not None
    assert told.pid == first.pid
    with pytest.raises(NotLeader, match=str(first.pid)), orchestrator_role("p2p_leader"):
        raise AssertionError("it is another's")
    for program in (first, second):
        program.kill()
        program.communicate()
    assert acquire_orchestrator_role("p2p_leader")


def test_a_role_can_be_taken_by_force(home: Path) -> None:
    """Then the first one has lost it, and knows so at its next renewal."""
    assert acquire_orchestrator_role("p2p_leader")
    code = HOLD.replace("P2P_LEADER)", "P2P_LEADER, force=True)").replace("sys.stdin.readline()", "")
    environ = os.environ | {"RINGRIFT_HOME": str(home)}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"

    ambient.call(admitting().look_after())

    assert not has_orchestrator_role("p2p_leader")
    assert acquire_orchestrator_role("p2p_leader"), "it gave its role back when it ended"


@on_a_loop
async def test_a_body_holds_a_role_while_it_runs() -> None:
    """It is given back whatever the body does; who held it before holds it after."""
    with pytest.raises(AssertionError), orchestrator_role(OrchestratorRole.UNIFIED_LOOP):
        assert not has_orchestrator_role("unified_loop")
    assert is_orchestrator_role_available("unified_loop")

    acquire_orchestrator_role("unified_loop")
    with orchestrator_role("unified_loop") as role:
        assert role is OrchestratorRole.UNIFIED_LOOP
    assert has_orchestrator_role("unified_loop")


def test_a_shutdown_frees_roles(home: Path) -> None:
    """Nobody has to wait for a program that has closed its node, though its process lives."""
    acquire_orchestrator_role("p2p_leader")
    ambient.shutdown()

    other = holder(home)
    assert said(other) == "True"
    other.kill()
    other.communicate()


def test_when_nobody_can_tell_no_role_is_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """A home that cannot be used gives no role, and says of none that it is free."""
    monkeypatch.setenv("RINGRIFT_COORDINATOR_DB", "/dev/null/store.db")

    assert not roles.acquire_orchestrator_role("p2p_leader")
    assert not roles.is_orchestrator_role_available("p2p_leader")
