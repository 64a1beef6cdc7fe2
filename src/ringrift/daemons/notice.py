"""Watches for the notice of a provider that this machine is about to be taken away, and lets its jobs end early."""

from contextlib import suppress
from pathlib import Path

from ringrift.bus.router import Router
from ringrift.events.alert import Cleared, Raised
from ringrift.kernel.errors import TRANSIENT, printable
from ringrift.kernel.settings import Settings
from ringrift.supervision.spec import Daemon
from ringrift.threads import to_its_end
from ringrift.work.runner import Runner

_EVACUATION = "evacuation"  #: The kind of the alert.
_TEXT_CHARACTERS_MAX = 200


def _read_notice(path: str) -> str:
    """Why the machine goes, if the file at *path* is there: its first line, else that there is a notice; or empty."""
    try:
        with Path(path).open("rb") as file:
            text = file.read(_TEXT_CHARACTERS_MAX).decode(errors="replace").strip()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:  # it is there: a notice that cannot be read is one all the same
        text = error.strerror or "it cannot be read"
    line = printable(text.split("\n")[0], _TEXT_CHARACTERS_MAX)
    return f"this machine is about to be taken away: {line or path}"


async def notice(*, runner: Runner, router: Router, settings: Settings, node_id: str, memory: dict[str, str]) -> None:
    """Look once; a notice that is taken back lets the node work on.  *memory* has what was published."""
    path, before = settings.node.notice_file, memory.get(_EVACUATION, "")
    reason = await to_its_end(None, _read_notice, path) if path else ""
    runner.notice = reason
    if bool(reason) == bool(before):
        return
    raised = Raised(kind=_EVACUATION, subject=node_id, level="warning", detail=reason)
    with suppress(*TRANSIENT):  # the next look tries again; what matters is done without anybody to be told
        await router.publish(raised if reason else Cleared(kind=_EVACUATION, subject=node_id), source="notice")
        memory[_EVACUATION] = reason


_SECONDS = 1.0  # a provider gives half a minute or more
SPEC = Daemon(name="notice", run=notice, every=_SECONDS, store=False, memory=dict, after=("beat",), category="sync")
