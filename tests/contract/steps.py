"""Steps: how much every statement does, counted by SQLite itself, so that a busy machine makes no difference."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import apsw

VERBS = ("SELECT", "INSERT", "UPDATE", "DELETE")
Steps = dict[tuple[str, str], list[int]]  # by statement and kind of record: what each of its executions took


@contextmanager
def traced() -> Iterator[Steps]:
    """The steps of every statement that any connection of this process executes meanwhile; of records by their kind."""
    steps: Steps = defaultdict(list)

    def watch(db: apsw.Connection) -> None:
        kinds: dict[str, str] = {}

        def begin(_: apsw.Cursor, sql: str, bindings: Any) -> bool:
            if "record" in sql and bindings:
                kinds[sql] = bindings[0]
            return True

        def end(event: dict[str, Any]) -> None:
            sql = event["sql"]
            if sql.startswith(VERBS):
                steps[sql, kinds.get(sql, "")].append(event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"])

        db.set_exec_trace(begin)
        db.trace_v2(apsw.SQLITE_TRACE_PROFILE, end)

    apsw.connection_hooks.append(watch)
    try:
        yield steps
    finally:
        apsw.connection_hooks.remove(watch)
