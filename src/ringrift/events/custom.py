"""What somebody said in words that are not ours."""

from typing import Any

from ringrift.events.base import Event


class Said(Event, tag="custom.said"):
    """An event of somebody else's: a name we do not know, or one we know with too little in it to count."""

    event: str
    """The name it was said under."""
    payload: dict[str, Any] = {}
