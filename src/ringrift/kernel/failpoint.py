"""Failpoints: named places where a test can end this process at once, as a power cut would.

The names are shared by the real kills of ``tests/e2e`` and by documentation.  Nothing in the product arms one: there is
no setting and no environment variable, only :func:`arm`, which a test calls before it starts the command line.
"""

import os

_NAMES = """
    store.before_commit store.after_commit blobs.before_write blobs.before_fsync blobs.before_rename
    blobs.before_folder_fsync blobs.after_write bus.before_effect bus.before_advance bus.after_advance
    desk.before_finish desk.after_finish work.after_claim work.before_renew
    sync.before_copy sync.after_copy
    pipeline.before_step pipeline.after_step link_champions.before_link link_champions.after_link
    sweep.before_delete packs.before_unlink packs.before_replace
    backup.after_copy backup.before_note backup.before_prune restore.before_rename
"""
NAMES = tuple(_NAMES.split())

_armed: dict[str, int] = {}


def arm(name: str, nth: int = 1) -> None:
    """End the process without any clean-up the *nth* time it passes *name*."""
    assert name in NAMES
    _armed[name] = nth


def failpoint(name: str) -> None:
    """Go on, or end the process here if a test armed this place."""
    if _armed and name in _armed:
        _armed[name] -= 1
        if _armed[name] <= 0:
            os._exit(137)
