"""SWIM with Lifeguard as a state machine: members probe each other and spread what they find, without I/O of its own.

Each period a member pings one other; if no answer comes, a few helpers ping it as well.  A member that none of them
reaches is suspected, and dead unless it refutes that in time with a higher incarnation of itself.  Lifeguard: a member
whose own probes fail doubts itself first and suspects others more slowly; a suspicion shortens as others confirm it; a
suspect gets to know of it with the next packet; a helper without an answer reports that.  The result is an opinion: no
safety rests on it.
"""

import math
from collections.abc import Iterable
from random import Random
from typing import NamedTuple

from ringrift.cluster.swim_packets import (
    SENT_MAX,
    UPDATES_MAX,
    Address,
    Kind,
    MemberState,
    Packet,
    Send,
    Update,
    UpdateQueue,
)
from ringrift.kernel.value import Value, changed

_MEMBERS_MAX = 20_000
_RELAYS_MAX = 256  # probes for others that are under way
_SELF_DOUBT_MAX = 8  # how much slower at most a member probes that doubts itself
_RETELL = 4  # times the logarithm of the members: how often an update is sent
_CONFIRMATIONS = 3  # after so many a suspicion is as short as it gets
_RETRY_PERIODS = 8  # of so many periods one goes to a dead member, which may be back
_NUMBER_MAX = 2**32
_INCARNATION_MAX = 2**48


class SwimLimits(Value):
    """Times of the protocol."""

    period_seconds: float = 1.0
    timeout_seconds: float = 0.5  # until helpers are asked
    helpers: int = 3
    suspicion_periods: float = 4.0  # times the logarithm of the members: the shortest suspicion
    suspicion_stretch: float = 6.0  # how much longer it is without confirmations


class _Probe:
    """The probe of this period."""

    def __init__(self, target: str, number: int, timeout_at: float) -> None:
        self.target, self.number, self.timeout_at = target, number, timeout_at
        self.helpers = self.nacks = 0  # asked helpers, -1 if there were none; those that answered in vain
        self.has_answer = False


class _Suspicion:
    """Since when a member is suspected, by whom, and until when it may refute that."""

    def __init__(self, began: float, by: str, seconds: float) -> None:
        self.began, self.by, self.ends = began, {by}, began + seconds


class _Relay(NamedTuple):
    asker: Address
    number: int
    nack_at: float


class Swim:
    """The view of one member.  It is driven by :meth:`tick` and :meth:`receive`, whose packets the caller sends."""

    def __init__(self, name: str, rng: Random, tick: float, limits: SwimLimits | None = None) -> None:
        self.name, self.incarnation, self.self_doubt = name, 0, 0
        self._rng, self._limits, self._next_period = rng, limits or SwimLimits(), tick
        self.members: dict[str, Update] = {}  # without this one
        self._order: list[str] = []  # in which members are probed; shuffled when it is used up
        self._place = self._periods = 0
        self._queue = UpdateQueue()
        self._probe: _Probe | None = None
        self._relays: dict[int, _Relay] = {}
        self._suspicions: dict[str, _Suspicion] = {}

    def dead(self) -> frozenset[str]:
        """The members that this one holds for dead."""
        return frozenset(name for name, row in self.members.items() if row.state is MemberState.DEAD)

    def join(self, seeds: Iterable[Address]) -> list[Send]:
        """Ask *seeds* for the members."""
        return [Send(seed, self._packet("ping", "", is_joining=True)) for seed in seeds]

    def leave(self) -> list[Send]:
        """Tell some members that this one leaves in good order."""
        update = Update(name=self.name, state=MemberState.LEFT, incarnation=self.incarnation, address=("", 0))
        packet = Packet(kind="members", sender=self.name, incarnation=self.incarnation, updates=(update,))
        return [Send(self.members[name].address, packet) for name in self._pick_helpers("", _RETELL * 2)]

    def learn(self, updates: Iterable[Update], tick: float) -> None:
        """Take *updates* into account."""
        for update in updates:
            self._learn(update, tick)

    def next_due(self) -> float:
        """When :meth:`tick` has something to do."""
        times = [self._next_period, *(relay.nack_at for relay in self._relays.values())]
        if self._probe is not None and not self._probe.helpers and not self._probe.has_answer:
            times.append(self._probe.timeout_at)
        return min(times)

    def tick(self, tick: float) -> list[Send]:
        """Do what is due."""
        sends = []
        for number, relay in [row for row in self._relays.items() if tick >= row[1].nack_at]:
            del self._relays[number]
            sends.append(Send(relay.asker, self._packet("nack", "", relay.number)))
        probe = self._probe
        if probe is not None and not probe.has_answer and not probe.helpers and tick >= probe.timeout_at:
            helpers = self._pick_helpers(probe.target, self._limits.helpers)
            probe.helpers = len(helpers) or -1
            for to in (*helpers, probe.target):  # which is pinged once more: one packet is soon lost
                packet = self._packet("ping" if to == probe.target else "ask", to, probe.number, probe.target)
                sends.append(Send(self.members[to].address, packet))
        if tick >= self._next_period:
            for name in [name for name, suspicion in self._suspicions.items() if tick >= suspicion.ends]:
                self._set(changed(self.members[name], state=MemberState.DEAD, by=self.name), tick)
            self._end_probe(tick)
            sends += self._begin_probe(tick)
        return sends

    def receive(self, packet: Packet, address: Address, tick: float) -> list[Send]:
        """Take *packet* from *address* into account; the packets that answer it."""
        if packet.sender == self.name:
            return []
        before = self.members.get(packet.sender)
        if before is None or packet.incarnation > before.incarnation:
            state = MemberState.ALIVE
            self._learn(Update(name=packet.sender, state=state, incarnation=packet.incarnation, address=address), tick)
        elif before.address != address:
            self.members[packet.sender] = changed(before, address=address)
        self.learn(packet.updates[:UPDATES_MAX], tick)
        match packet.kind:
            case "ping" if packet.target in ("", self.name):
                ack = Send(address, self._packet("ack", packet.sender, packet.number))
                return [ack, *(self._list_members(address) if packet.is_joining else ())]
            case "ask" if packet.target in self.members and len(self._relays) < _RELAYS_MAX:
                number, target = self._rng.randrange(1, _NUMBER_MAX), self.members[packet.target]
                nack_at = tick + self._limits.timeout_seconds * 0.8
                self._relays[number] = _Relay(address, packet.number, nack_at)
                return [Send(target.address, self._packet("ping", target.name, number, target.name))]
            case "ack" if packet.number in self._relays:
                relay = self._relays.pop(packet.number)
                return [Send(relay.asker, self._packet("ack", "", relay.number))]
            case "ack" | "nack" if self._probe is not None and packet.number == self._probe.number:
                self._probe.has_answer |= packet.kind == "ack"
                self._probe.nacks += packet.kind == "nack"
        return []

    # -- probes ---------------------------------------------------------------------------------------------------

    def _begin_probe(self, tick: float) -> list[Send]:
        slow = 1 + self.self_doubt
        self._next_period = tick + self._limits.period_seconds * slow
        target = self._next_target()
        self._probe = None
        if target is None:
            return []
        number = self._rng.randrange(1, _NUMBER_MAX)
        self._probe = _Probe(target, number, tick + self._limits.timeout_seconds * slow)
        return [Send(self.members[target].address, self._packet("ping", target, number, target))]

    def _end_probe(self, tick: float) -> None:
        probe = self._probe
        if probe is None:
            return
        if probe.has_answer:
            self._doubt_self(-1)
            return
        row = self.members.get(probe.target)
        if row is None or row.state >= MemberState.DEAD:
            return
        # Helpers that are alive say that they got no answer: if they do not, the fault may be here.
        self._doubt_self(max(0, probe.helpers - probe.nacks) if probe.helpers > 0 else 1)
        self._learn(changed(row, state=MemberState.SUSPECT, by=self.name), tick)

    def _doubt_self(self, step: int) -> None:
        self.self_doubt = min(max(self.self_doubt + step, 0), _SELF_DOUBT_MAX)

    def _next_target(self) -> str | None:
        """The next member to probe: each once in a round; now and then a dead one, which may be back."""
        self._periods += 1
        if self._periods % _RETRY_PERIODS == 0 and (dead := self.dead()):
            return self._rng.choice(sorted(dead))
        for _ in range(len(self._order) + 1):
            if self._place >= len(self._order):
                self._forget()
                self._rng.shuffle(self._order)
                self._place = 0
                if not self._order:
                    return None
            name = self._order[self._place]
            self._place += 1
            if self.members[name].state < MemberState.DEAD:
                return name
        return None

    def _forget(self) -> None:
        """Forget members that have left; dead ones too where there are many."""
        least = MemberState.DEAD if len(self.members) > _MEMBERS_MAX // 2 else MemberState.LEFT
        for name in [name for name in self._order if self.members[name].state >= least]:
            del self.members[name]
            self._queue.drop(name)
        self._order = [name for name in self._order if name in self.members]

    def _pick_helpers(self, target: str, count: int) -> list[str]:
        """Up to *count* members that are alive, without *target*."""
        names = self._rng.sample(self._order, min(len(self._order), 2 * count + 1))
        rows = [self.members[name] for name in names if name != target]
        return [row.name for row in rows if row.state is MemberState.ALIVE][:count]

    # -- updates --------------------------------------------------------------------------------------------------

    def _learn(self, update: Update, tick: float) -> None:
        if not 0 <= update.incarnation <= _INCARNATION_MAX:
            return
        if update.name == self.name:
            self._refute(update)
            return
        before = self.members.get(update.name)
        if before is None:
            if update.state < MemberState.DEAD and update.address[1] and len(self.members) < _MEMBERS_MAX:
                self._set(update, tick)
            return
        rank, rank_before = (update.incarnation, update.state), (before.incarnation, before.state)
        if rank > rank_before:
            self._set(update, tick)
        elif rank == rank_before and update.state is MemberState.SUSPECT and update.name in self._suspicions:
            self._confirm(update)

    def _set(self, update: Update, tick: float) -> None:
        """Hold *update* for true and spread it."""
        name, before = update.name, self.members.get(update.name)
        if before is None:
            self._order.insert(self._rng.randrange(len(self._order) + 1), name)
        elif update.state is not MemberState.ALIVE:
            update = changed(update, address=before.address)  # as this member reaches it
        self.members[name] = update
        self._queue.add(name)
        self._suspicions.pop(name, None)
        if update.state is MemberState.SUSPECT:
            self._suspicions[name] = _Suspicion(tick, update.by, self._suspicion_seconds(1))

    def _confirm(self, update: Update) -> None:
        """Count another member that suspects the same, and spread that it does."""
        suspicion = self._suspicions[update.name]
        if update.by not in suspicion.by and len(suspicion.by) <= _CONFIRMATIONS:
            suspicion.by.add(update.by)
            suspicion.ends = suspicion.began + self._suspicion_seconds(len(suspicion.by))
            self.members[update.name] = update
            self._queue.add(update.name)

    def _refute(self, update: Update) -> None:
        """Contradict what is not true of this member: it is alive."""
        if update.state is MemberState.ALIVE and update.incarnation <= self.incarnation:
            return
        if update.incarnation >= self.incarnation:
            self._doubt_self(update.state is not MemberState.ALIVE)
            self.incarnation = min(update.incarnation + 1, _INCARNATION_MAX)  # every packet from here shows it

    def _suspicion_seconds(self, confirmations: int) -> float:
        """How long a suspicion lasts that so many members share, at least one."""
        count, limits = len(self.members) + 1, self._limits
        shortest = limits.suspicion_periods * max(1.0, math.log10(count)) * limits.period_seconds
        needed = _CONFIRMATIONS if count - 2 >= _CONFIRMATIONS else 0
        if not needed:
            return shortest
        share = min(1.0, math.log(confirmations) / math.log(needed + 1))
        return shortest * (limits.suspicion_stretch - (limits.suspicion_stretch - 1) * share)

    # -- packets --------------------------------------------------------------------------------------------------

    def _packet(self, kind: Kind, to: str, number: int = 0, target: str = "", *, is_joining: bool = False) -> Packet:
        packet = Packet(kind=kind, sender=self.name, incarnation=self.incarnation, number=number, target=target)
        return changed(packet, is_joining=is_joining, updates=self._take_updates(to))

    def _take_updates(self, to: str) -> tuple[Update, ...]:
        """The updates that were sent least; first what *to* must know about itself, and last one member at random."""
        names = [to] if (row := self.members.get(to)) is not None and row.state is not MemberState.ALIVE else []
        most = math.ceil(_RETELL * math.log10(len(self.members) + 2))
        names += self._queue.take(UPDATES_MAX - len(names), min(most, SENT_MAX))
        if len(names) < UPDATES_MAX and self._order:
            names.append(self._rng.choice(self._order))
        return tuple(self.members[name] for name in dict.fromkeys(names))

    def _list_members(self, address: Address) -> list[Send]:
        """Packets with every member that is not dead, for one that joins."""
        rows = [row for row in self.members.values() if row.state < MemberState.DEAD]
        parts = [tuple(rows[first : first + UPDATES_MAX]) for first in range(0, len(rows), UPDATES_MAX)]
        packet = Packet(kind="members", sender=self.name, incarnation=self.incarnation)
        return [Send(address, changed(packet, updates=part)) for part in parts]
