"""Events that users define."""

from typing import Any

from ringrift.events.base import Event


class Published(Event, tag="custom.published", for_people=True):
    """A user published an event under a name of their own; the loop does not act on it."""

    event: str  #: The user's name for it.
    payload: dict[str, Any] = {}
