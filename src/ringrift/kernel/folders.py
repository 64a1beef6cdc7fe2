"""Folders that RingRift makes belong to their owner alone."""

from pathlib import Path


def make_folder(folder: Path) -> None:
    """Create *folder* and what it lies in for their owner alone; those that exist stay as they are."""
    for missing in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
