"""A serving daemon with a role runs only where the role is held, and passes on with it."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from ringrift.kernel.health import Status
from unit.supervision.watched import LIFE_SECONDS, PARTS, health, loop_clock, serving, supervisor
from unit.work.world import World, play

ROLE = "webhook"


def test_it_serves_only_while_its_role_is_held(tmp_path: Path) -> None:
    """Without the role it rests and is healthy; it begins with the role, ends with it and begins again: no failure."""

    async def story(world: World) -> None:
        roles, states = set[str](), list[str]()

        async def post(*, alive: Callable[[], None]) -> None:
            states.append("began")
            try:
                while True:
                    alive()
                    await asyncio.sleep(LIFE_SECONDS)
            finally:
                states.append("ended")

        sup = supervisor(world, roles, clock=loop_clock())
        async with sup.run([serving("post", post, role=ROLE)], PARTS, "full"):
            await asyncio.sleep(LIFE_SECONDS)
            assert (states, health(sup, "post").status) == ([], Status.HEALTHY)
            roles.add(ROLE)
            await asyncio.sleep(LIFE_SECONDS)
            assert states == ["began"]
            roles.clear()
            await asyncio.sleep(LIFE_SECONDS)
            assert states == ["began", "ended"]
            roles.add(ROLE)
            await asyncio.sleep(LIFE_SECONDS)
            assert states == ["began", "ended", "began"]
            status = sup.status("post")
            assert (status.failures, status.restarts, status.last_error) == (0, 0, "")
        assert states[-1] == "ended"

    play(tmp_path, story, simulated=True)


def test_a_body_that_ends_by_itself_while_it_holds_the_role_has_failed(tmp_path: Path) -> None:
    """Serving is for ever, with a role too: it is started again, and its error says why."""

    async def story(world: World) -> None:
        async def over() -> None:
            return None

        sup = supervisor(world, {ROLE}, clock=loop_clock())
        async with sup.run([serving("over", over, role=ROLE)], PARTS, "full"):
            await asyncio.sleep(LIFE_SECONDS)
            assert "ended by itself" in sup.status("over").last_error or "ended by itself" in health(sup, "over").reason

    play(tmp_path, story, simulated=True)


def test_a_body_that_does_not_let_go_is_never_joined_by_a_second_one(tmp_path: Path) -> None:
    """A body that ignores the end of its role is waited for: when the role is back, it still runs alone."""

    async def story(world: World) -> None:
        roles, running, most = {ROLE}, 0, 0
        release = asyncio.Event()

        async def cling(*, alive: Callable[[], None]) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            alive()
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue
            running -= 1

        sup = supervisor(world, roles, clock=loop_clock())
        async with sup.run([serving("cling", cling, role=ROLE)], PARTS, "full"):
            await asyncio.sleep(LIFE_SECONDS)
            roles.clear()
            await asyncio.sleep(LIFE_SECONDS)
            roles.add(ROLE)
            await asyncio.sleep(LIFE_SECONDS)
            assert (running, most) == (1, 1)
            release.set()
            await asyncio.sleep(LIFE_SECONDS)
        assert most == 1

    play(tmp_path, story, simulated=True)
