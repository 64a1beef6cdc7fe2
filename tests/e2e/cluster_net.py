"""A network of our own: hosts in network namespaces around a router, whose rules part them and shape what passes.

Needs root and iproute2, no firewall of the kernel's: policy rules drop (``blackhole``), and what should be lost or
late takes a way through a TUN device, where :mod:`e2e.cluster_shaper` drops and delays packets.
"""

import os
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest

PORT = 8770
_NUMBERS = count(1)
# Rules of the router, by preference: cuts, then the way through the shaper, then firewalls (also behind the shaper).
_CUT, _SHAPE, _FIREWALL = 50, 60, 100


def ip(*words: str) -> None:
    """Run ``ip``.  Raises RuntimeError with what it said."""
    ended = subprocess.run(["ip", *words], capture_output=True, text=True)
    if ended.returncode:
        raise RuntimeError(f"ip {' '.join(words)}: {ended.stderr.strip()}")


def require_namespaces() -> None:
    """Skip the test where no namespaces can be made, but not in CI."""
    name = f"rr-try-{os.getpid()}"
    try:
        ip("netns", "add", name)
        ip("-n", name, "link", "add", "v1", "type", "veth", "peer", "name", "v2")
        ip("-n", name, "rule", "add", "pref", "9", "to", "10.9.9.9", "ipproto", "tcp", "sport", "9", "blackhole")
        subprocess.run(["unshare", "--mount", "true"], check=True, capture_output=True)
        os.close(os.open("/dev/net/tun", os.O_RDWR))
    except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
        reason = f"NO CLUSTER: this machine makes no network and mount namespaces (root and iproute2 needed): {error}"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True)


class Net:
    """The router and its hosts.  Each host has the address ``10.77.N.2`` in a network that only the router joins."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._id = f"rr{os.getpid()}-{next(_NUMBERS)}"
        self._numbers = {name: number for number, name in enumerate(names, 1)}
        self._shaper: subprocess.Popen[str] | None = None
        self._rules: dict[str, list[tuple[str, ...]]] = {}
        router = self.namespace("router")
        try:
            ip("netns", "add", router)
            ip("-n", router, "link", "set", "lo", "up")
            self._sysctl(router, "net/ipv4/ip_forward", "1")
            for name, number in self._numbers.items():
                self._add_host(router, name, number)
            self._sysctl(router, "net/ipv4/conf/all/rp_filter", "0")
        except BaseException:
            self.clear()
            raise

    def _add_host(self, router: str, name: str, number: int) -> None:
        host = self.namespace(name)
        ip("netns", "add", host)
        ip("link", "add", f"v{number}", "netns", router, "type", "veth", "peer", "name", "eth0", "netns", host)
        ip("-n", router, "addr", "add", f"10.77.{number}.1/24", "dev", f"v{number}")
        ip("-n", host, "addr", "add", f"10.77.{number}.2/24", "dev", "eth0")
        for namespace, device in ((router, f"v{number}"), (host, "eth0"), (host, "lo")):
            ip("-n", namespace, "link", "set", device, "up")
        ip("-n", host, "route", "add", "default", "via", f"10.77.{number}.1")

    def _sysctl(self, namespace: str, name: str, value: str) -> None:
        script = f"echo {value} > /proc/sys/{name}"
        subprocess.run(["ip", "netns", "exec", namespace, "sh", "-c", script], check=True)

    def namespace(self, name: str) -> str:
        return f"{self._id}-{name}"

    def address(self, name: str) -> str:
        return f"10.77.{self._numbers[name]}.2"

    def pids(self, name: str) -> list[int]:
        """The processes of a host."""
        listed = subprocess.run(["ip", "netns", "pids", self.namespace(name)], capture_output=True, text=True)
        return list(map(int, listed.stdout.split()))

    def cut(self, name: str, *, to: bool = True, back: bool = True) -> None:
        """Part a host from all others: nothing passes *to* it, nothing comes *back* from it."""
        self.heal(name)
        if to:
            self._rule(name, _CUT, "to", self.address(name), "blackhole")
        if back:
            self._rule(name, _CUT, "iif", f"v{self._numbers[name]}", "blackhole")

    def shape(self, name: str, *, loss: float = 0.0, delay_seconds: float = 0.0) -> None:
        """Lose a share of all packets to and from a host, and delay the others."""
        self.heal(name)
        self._tell_shaper(name, loss, delay_seconds)
        for number in self._numbers.values():
            self._rule(name, _SHAPE, "iif", f"v{number}", "to", self.address(name), "lookup", "77")
        self._rule(name, _SHAPE + 1, "iif", f"v{self._numbers[name]}", "lookup", "77")

    def heal(self, name: str) -> None:
        """End every cut and shape of a host; its firewall stays."""
        for rule in self._rules.pop(name, []):
            ip("-n", self.namespace("router"), "rule", "del", *rule)

    def let_out_only(self, name: str) -> None:
        """Put a host behind a firewall: it opens connections to the wire's port elsewhere, and none to it passes."""
        router, address = self.namespace("router"), self.address(name)
        for number, rule in enumerate((("sport", f"{PORT}", "lookup", "main"), ("blackhole",))):
            protocol = ("ipproto", "tcp") if number == 0 else ()
            ip("-n", router, "rule", "add", "pref", f"{_FIREWALL + number}", "to", address, *protocol, *rule)

    def _rule(self, name: str, preference: int, *words: str) -> None:
        rule = ("pref", f"{preference}", *words)
        ip("-n", self.namespace("router"), "rule", "add", *rule)
        self._rules.setdefault(name, []).append(rule)

    def _tell_shaper(self, name: str, loss: float, delay_seconds: float) -> None:
        """Tell the process behind the TUN device of the router, which starts with the first shape."""
        if self._shaper is None:
            router = self.namespace("router")
            line = ["ip", "netns", "exec", router, sys.executable, "-m", "e2e.cluster_shaper"]
            self._shaper = subprocess.Popen(
                line, cwd=Path(__file__).parents[1], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            self._order(name, loss, delay_seconds)
            ip("-n", router, "route", "replace", "default", "dev", "shape", "table", "77")
            self._sysctl(router, "net/ipv4/conf/shape/rp_filter", "0")
        self._order(name, loss, delay_seconds)

    def _order(self, name: str, loss: float, delay_seconds: float) -> None:
        assert self._shaper is not None
        assert self._shaper.stdin is not None
        assert self._shaper.stdout is not None
        self._shaper.stdin.write(f"{self.address(name)} {loss} {delay_seconds}\n")
        self._shaper.stdin.flush()
        assert self._shaper.stdout.readline() == "ready\n"

    def _stop_shaper(self) -> None:
        if self._shaper is not None:
            self._shaper.kill()
            self._shaper.communicate()
            self._shaper = None

    def clear(self) -> None:
        """Remove everything; the processes of the hosts have ended before."""
        self._stop_shaper()
        for name in ("router", *self._numbers):
            subprocess.run(["ip", "netns", "del", self.namespace(name)], capture_output=True)
