"""``cluster_shaper.py``: drop and delay the packets that take the way through our TUN device.

A packet that is read from the device is written back to it after the delay, and goes on its way from there.  Each line
of standard input is ``ADDRESS LOSS DELAY``: what becomes of the packets to and from that address from then on.
"""

import asyncio
import fcntl
import os
import socket
import struct
import subprocess
import sys
from random import Random

_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_PACKET_BYTES_MAX = 65_536


def _open_device(name: str) -> int:
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH", name.encode(), _IFF_TUN | _IFF_NO_PI))
    subprocess.run(["ip", "link", "set", name, "up"], check=True)
    return device


async def shape() -> None:
    """Shape packets until standard input ends."""
    device, rng, loop = _open_device("shape"), Random(7), asyncio.get_running_loop()
    conditions: dict[bytes, tuple[float, float]] = {}
    ended = loop.create_future()

    def read() -> None:
        packet = os.read(device, _PACKET_BYTES_MAX)
        ends = [conditions[end] for end in (packet[12:16], packet[16:20]) if end in conditions]
        if all(rng.random() >= loss for loss, _ in ends):
            loop.call_later(sum(delay for _, delay in ends), os.write, device, packet)

    def obey() -> None:
        line = sys.stdin.readline()
        if not line:
            ended.set_result(None)
            return
        address, loss, delay = line.split()
        conditions[socket.inet_aton(address)] = float(loss), float(delay)
        sys.stdout.write("ready\n")
        sys.stdout.flush()

    loop.add_reader(device, read)
    loop.add_reader(sys.stdin, obey)
    await ended


if __name__ == "__main__":
    asyncio.run(shape())
