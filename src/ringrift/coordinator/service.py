"""Everything that a coordinator can be asked for, and the parts that it is answered from."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from ringrift.cluster.keys import KeyCache
from ringrift.coordinator import (
    blob_verbs,
    event_verbs,
    key_verbs,
    node_verbs,
    peer_verbs,
    read_verbs,
    roster_verbs,
    work_verbs,
)
from ringrift.coordinator.desks import Desks
from ringrift.coordinator.sessions import Sessions
from ringrift.coordinator.verbs import Parts, Stream, Verb

_OF_WORKERS: tuple[Verb, ...] = (*work_verbs.VERBS, *roster_verbs.VERBS, *blob_verbs.VERBS, *peer_verbs.VERBS)
_OF_ALL: tuple[Verb, ...] = (*key_verbs.VERBS, *event_verbs.VERBS, *read_verbs.VERBS, *node_verbs.VERBS)
VERBS: dict[str, Verb] = {verb.name: verb for verb in (*_OF_ALL, *_OF_WORKERS)}
STREAMS: dict[str, Stream] = {stream.name: stream for stream in event_verbs.STREAMS}


def make_parts(parts: Mapping[str, Any]) -> Parts:
    """What verbs need, from the *parts* of a node by name."""
    store, blobs, clock, envelopes = (parts[name] for name in ("store", "blobs", "clock", "envelopes"))
    desks = Desks(store, blobs, clock, envelopes, parts["settings"].work, parts["rng"])
    keys, sessions = KeyCache(parts["store"], parts["clock"]), Sessions(parts["clock"], parts["rng"])
    by_name = {"transfer": None, **parts, "desks": desks, "keys": keys, "sessions": sessions}
    return Parts(**{field.name: by_name[field.name] for field in fields(Parts)})
