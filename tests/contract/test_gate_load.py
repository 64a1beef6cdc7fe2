"""The gate under load: what goes first, what is told to wait, and that one node cannot keep out the others."""

import asyncio
from pathlib import Path

from contract.coordinator_rig import Coordinator, tell
from contract.gate_rig import Ledger, caller
from ringrift.kernel.value import changed
from ringrift.wire.connection import Nothing
from wait import wait_until


def test_heartbeats_and_results_are_admitted_before_claims(tmp_path: Path) -> None:
    """With every place taken, what is urgent and came last is carried out before all claims that wait."""

    async def story(coordinator: Coordinator) -> None:
        ledger = Ledger()
        nodes = [await caller(coordinator, node=f"w{number}") for number in range(1, 11)]
        nodes.append(await caller(coordinator, ledger, "last", running_max=4))
        ledger.go.clear()
        tasks = [asyncio.ensure_future(node.ask("write", 1)) for node in nodes[:-1]]
        await wait_until(lambda: len(ledger.runs) == 3)
        tasks += [asyncio.ensure_future(nodes[-1].ask("urgent", number)) for number in range(101, 105)]
        await wait_until(lambda: 101 in ledger.runs)  # a place is kept for them
        ledger.go.set()
        await asyncio.gather(*tasks)

        assert ledger.runs[:3] == [1, 1, 1]
        assert ledger.runs[3:7] == [101, 102, 103, 104]
        assert ledger.runs[7:] == [1] * 7

    tell(tmp_path, story)


def test_what_cannot_wait_is_told_when_to_come_back(tmp_path: Path) -> None:
    """No queue grows without limit: a claim too many is refused with a time, a heartbeat still gets in."""

    async def story(coordinator: Coordinator) -> None:
        wire = changed(coordinator.parts.settings.wire, waiting_max=8)
        parts = coordinator.parts
        object.__setattr__(parts, "settings", changed(parts.settings, wire=wire))
        ledger = Ledger()
        node = await caller(coordinator, ledger, running_max=2)
        ledger.go.clear()
        tasks = [asyncio.ensure_future(node.ask("write", number)) for number in range(1, 6)]
        await wait_until(lambda: len(ledger.runs) == 1)
        await asyncio.sleep(0)
        reply = await node.ask("write", 6)
        assert reply.error == "Backpressure"
        assert reply.wait_seconds > 0
        tasks.append(asyncio.ensure_future(node.ask("urgent", 7)))
        await wait_until(lambda: 7 in ledger.runs)
        ledger.go.set()
        assert not any(reply.error for reply in await asyncio.gather(*tasks))

    tell(tmp_path, story)


def test_one_node_has_a_limit_of_its_own(tmp_path: Path) -> None:
    """A node that sends without end fills its own places, and others are answered."""

    async def story(coordinator: Coordinator) -> None:
        ledger = Ledger()
        flood = await caller(coordinator, ledger)
        other = await caller(coordinator, node="w2")
        ledger.go.clear()
        tasks = [asyncio.ensure_future(flood.ask("urgent", number)) for number in range(1, 101)]
        await wait_until(lambda: sum(task.done() for task in tasks) >= 60)
        assert all(task.result().error == "Backpressure" for task in tasks if task.done())
        assert not (await other.ask("leader", 1, Nothing())).error
        ledger.go.set()
        await asyncio.gather(*tasks)

    tell(tmp_path, story)
