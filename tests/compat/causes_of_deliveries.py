"""What can happen to the delivery of an event, and to what users publish."""

import asyncio
from collections.abc import Callable
from typing import Any

from compat.scene import Scene
from ringrift.bus import dead_letters
from ringrift.events.alert import Raised
from ringrift.events.base import Event
from ringrift.events.custom import Published
from ringrift.kernel.backoff import Backoff
from wait import wait_until


async def _handle(scene: Scene, function: Callable[..., Any], tries: int, state: str, **options: Any) -> None:
    """A handler gets one event, until its delivery is in *state*."""
    router, store = scene.world.router, scene.world.store
    retry = Backoff(first_seconds=0.01, seconds_max=0.01, tries=tries)
    router.handle({"custom.published"}, function, name="shaky", retry=retry, **options)
    await router.publish(Published(event="SOMETHING"))

    async def is_there() -> bool:
        scene.world.clock.seconds += 1.0
        async with store.read() as view:
            return bool(await view.deliveries((state,), 9))

    await wait_until(is_there)


async def _raise(event: Event, envelope: object, key: str) -> None:
    raise ValueError("no")


async def _dawdle(event: Event, envelope: object, key: str) -> None:
    await asyncio.Event().wait()


async def a_handler_fails(scene: Scene) -> None:
    """A delivery is parked."""
    await scene.listen()
    await _handle(scene, _raise, 99, "parked")


async def a_handler_takes_too_long(scene: Scene) -> None:
    """A delivery is parked because its call took too long."""
    await scene.listen()
    await _handle(scene, _dawdle, 99, "parked", timeout_seconds=0.05)


async def a_delivery_dies(scene: Scene) -> None:
    """The last attempt fails."""
    await scene.listen()
    await _handle(scene, _raise, 1, "dead")


async def a_dead_letter_is_discarded(scene: Scene) -> None:
    """An operator gives it up."""
    await _handle(scene, _raise, 1, "dead")
    await scene.listen()
    async with scene.world.store.read() as view:
        [delivery] = await view.deliveries(("dead",), 9)
    await dead_letters.discard(
        scene.world.store, scene.world.envelopes, "shaky", delivery.position, "old", scene.world.clock.now()
    )


async def a_retry_succeeds(scene: Scene) -> None:
    """A parked delivery is delivered after all."""
    count = 0

    async def once(event: Event, envelope: object, key: str) -> None:
        nonlocal count
        count += 1
        if count == 1:
            raise ValueError("no")

    await scene.listen()
    await _handle(scene, once, 99, "done")


async def a_user_publishes(scene: Scene) -> None:
    """A program publishes under names of its own."""
    await scene.listen()
    for name in ("CUSTOM_EVENT", "YOUR_EVENT"):
        await scene.publish(Published(event=name))


async def a_user_publishes_something_else(scene: Scene) -> None:
    """A program publishes under another name."""
    await scene.listen()
    await scene.publish(Raised(kind="mine", subject="x", level="info"))
    await scene.publish(Published(event="MY_OWN"))
