"""The only place that knows which engine serves blobs."""

from ringrift.blobs.folder import FolderBlobs
from ringrift.blobs.ports import Blobs


def open_blobs(address: str) -> Blobs:
    """The blobs at *address*: a folder on this machine."""
    return FolderBlobs(address)
