"""Checkpoints: partial outputs of a job, registered under its fence, from which its next holder goes on."""

import msgspec

from ringrift.kernel.value import Value
from ringrift.store.records import Records

CHECKPOINTS = Records("checkpoint", str)  # by blob: the job that needs it; retention deletes both when that has ended


class Checkpoint(Value):
    """Where an earlier holder of a job stopped."""

    blob: str
    node: str


def decode_checkpoints(outputs: bytes | None) -> list[Checkpoint]:
    """The checkpoints in the partial *outputs* of a lease or a renewal, the newest last."""
    return msgspec.json.decode(outputs, type=list[Checkpoint]) if outputs else []
