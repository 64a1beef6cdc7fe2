"""The epoch of a store: which store it is, over all its restorations, and how often it was restored from a backup."""

from random import Random

from ringrift.kernel.value import Value
from ringrift.store.ports import Reads, Store, Tx
from ringrift.store.records import Records

_ID_BITS = 80


class StoreEpoch(Value):
    """Fences and terms of one epoch are above those of every earlier one, so that nothing of an earlier one counts."""

    store: str  #: The id of the store; its restorations have the same.
    number: int = 1
    backup: str = ""  #: The backup that it was restored from.
    time: float = 0.0  #: When that was, for people.


_EPOCHS, _ID = Records("store_epoch", StoreEpoch, checked=True), "store"


async def read_epoch(view: Reads) -> StoreEpoch | None:
    """The epoch of the store; None before its first backup."""
    return await _EPOCHS.get(view, _ID)


async def require_epoch(store: Store, rng: Random) -> StoreEpoch:
    """The epoch of *store*, which gets an id if it has none."""
    async with store.read() as view:
        epoch = await read_epoch(view)
    if epoch is None:
        async with store.begin() as tx:
            epoch = await read_epoch(tx) or StoreEpoch(store=f"{rng.getrandbits(_ID_BITS):020x}")
            await put_epoch(tx, epoch)
    return epoch


async def put_epoch(tx: Tx, epoch: StoreEpoch) -> None:
    """Write the epoch of the store."""
    await _EPOCHS.put_at(tx, {_ID: epoch})
