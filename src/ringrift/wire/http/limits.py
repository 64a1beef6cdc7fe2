"""What one side of the HTTP engine lets the other take of it, in bytes and seconds."""

from ringrift.kernel.value import Value

HEAD_BYTES_MAX = 16 * 1024  #: Of a request or a reply, without its body.


class Limits(Value):
    """Limits that nobody has to set."""

    request_seconds_max: float = 60.0  #: From the end of a request's head to its last byte.
    idle_seconds_max: float = 90.0  #: Between two requests: longer than any pause between two heartbeats.
    stall_seconds_max: float = 30.0  #: How long a peer may leave what was sent to it unread.
    beacon_seconds: float = 5.0  #: Of silence in a stream, after which it says that it is still there.
    silence_seconds_max: float = 15.0  #: After which its reader gives up.
    sweep_seconds: float = 1.0  #: Between two looks at the times of all connections.
    receiving_bytes_max: int = 256 * 1024 * 1024  #: Of unfinished requests, over all connections, but for small ones.
