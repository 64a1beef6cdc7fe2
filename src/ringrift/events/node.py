"""Events about nodes."""

from ringrift.events.base import Event, LineEvent
from ringrift.events.evaluation import Block


class Joined(Event, tag="node.joined"):
    """A node started and is ready for work."""

    node: str
    profile: str


class Left(Event, tag="node.left"):
    """A node shut down in good order; it holds no leases."""

    node: str
    profile: str = ""
    roles: tuple[str, ...] = ()  #: Roles that it released.


class Suspected(Event, tag="node.suspected", for_people=True):
    """A node missed heartbeats, but not yet as many as a lost one."""

    node: str
    seconds: float


class DiskPressureChanged(Event, tag="node.disk_pressure_changed"):
    """The disk of a node is in another tier: none, low, high or critical."""

    node: str
    level: str
    before: str
    free_bytes: int
    total_bytes: int


class Lost(Event, tag="node.lost"):
    """A node missed several heartbeats."""

    node: str
    seconds: float
    ephemeral: bool = False  #: Whether it is a rented machine, which is not expected back.


class Recovered(Event, tag="node.recovered"):
    """A lost node sends heartbeats again."""

    node: str


class KeyChanged(Event, tag="node.key_changed"):
    """The key of a node or a program was *added*, *rotated* or *revoked*."""

    node: str
    change: str
    by: str = ""  #: The operator or token, or the node itself.


class KeyShared(Event, tag="node.key_shared"):
    """Two processes use the key of one node: it gets no work until the key is replaced."""

    node: str
    processes: str


class CanaryPlayed(LineEvent, tag="node.canary_played", evidence=True, keep="detail"):
    """A node played blocks whose outcome is the same on every sound machine."""

    seed: int
    blocks: tuple[Block, ...]
    node: str


class Quarantined(Event, tag="node.quarantined", evidence=True):
    """A node gives wrong results: it gets no more games to play, and its results are not evidence."""

    node: str
    reason: str
    by: str = ""  #: The operator, if it was done by hand.


class Released(Event, tag="node.released", evidence=True):
    """A quarantined node may play again."""

    node: str
    by: str = ""
