"""A network of members in one process: packets are delayed, lost and cut off by a seed, and time jumps."""

import heapq
from collections.abc import Callable
from random import Random
from typing import Any

from ringrift.cluster.swim import Swim, SwimLimits
from ringrift.cluster.swim_packets import Address, MemberState, Send, Update

_DELAY_SECONDS = (0.005, 0.05)


class GossipNet:
    """Members that know each other from the start, unless *alone*."""

    def __init__(self, count: int, *, loss: float = 0.0, seed: int = 1, alone: bool = False) -> None:
        self.rng, self.loss, self.now = Random(seed), loss, 0.0
        self.names = [f"n{number}" for number in range(count)]
        self.addresses: dict[str, Address] = {name: ("10.0.0.1", 1 + n) for n, name in enumerate(self.names)}
        self._by_address = {address: name for name, address in self.addresses.items()}
        self.swims = {name: Swim(name, Random(f"{seed}{name}"), self.rng.random(), SwimLimits()) for name in self.names}
        self.down, self._due = set[str](), dict[str, float]()
        self.is_cut: Callable[[str, str], bool] = lambda a, b: False
        self.sent, self._heap, self._count = 0, list[Any](), 0
        rows = [Update(name=n, state=MemberState.ALIVE, incarnation=0, address=a) for n, a in self.addresses.items()]
        for name, swim in self.swims.items():
            if not alone:
                swim.members = {row.name: row for row in rows if row.name != name}
                swim._order = [other for other in self.names if other != name]
                swim._rng.shuffle(swim._order)
            self.start(name, swim)

    def _push(self, at: float, name: str, what: Any) -> None:
        self._count += 1
        heapq.heappush(self._heap, (at, self._count, name, what))

    def send(self, sender: str, sends: list[Send]) -> None:
        """Put *sends* on their way; some never arrive."""
        for send in sends:
            self.sent += 1
            target = self._by_address[send.address]
            if self.rng.random() >= self.loss and not self.is_cut(sender, target):
                self._push(self.now + self.rng.uniform(*_DELAY_SECONDS), target, (send.packet, self.addresses[sender]))

    def run(self, seconds: float) -> None:
        """Let so much time pass."""
        end = self.now + seconds
        while self._heap and self._heap[0][0] <= end:
            self.now, _, name, what = heapq.heappop(self._heap)
            if name in self.down:
                continue
            swim, due = self.swims[name], self._due[name]
            if what is not None:
                self.send(name, swim.receive(*what, self.now))
            elif self.now < due:
                continue  # another event is on its way
            if self.now >= due:
                self.send(name, swim.tick(self.now))
                due = float("inf")
            if swim.next_due() < due:
                self._due[name] = swim.next_due()
                self._push(self._due[name], name, None)
        self.now = end

    def start(self, name: str, swim: Swim) -> None:
        """Let *name* run, again or for the first time."""
        self.down.discard(name)
        self.swims[name], self._due[name] = swim, self.now
        self._push(self.now, name, None)

    def opinions(self, about: str) -> list[MemberState]:
        """What the members that run think of *about*."""
        rows = [swim.members.get(about) for name, swim in self.swims.items() if name not in self.down and name != about]
        return [row.state for row in rows if row is not None]
