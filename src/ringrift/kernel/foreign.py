"""Foreign code: call a plain function of somebody else, which may raise anything or try to end the program."""

from collections.abc import Callable
from typing import Any, TypeVar

from ringrift.kernel.errors import DeliveryError

T = TypeVar("T")


def attempt_sync(call: Callable[..., T], *args: Any) -> tuple[T | None, Exception | None]:
    """Call a foreign plain function; returns its result or its error."""
    try:
        return call(*args), None
    except Exception as error:  # noqa: BLE001 - foreign code may raise anything; the caller handles it
        return None, error
    except BaseException as end:  # noqa: BLE001 - it may end a thread of ours, but not the program
        return None, DeliveryError(f"it tried to exit the program: {type(end).__name__}: {end}")
