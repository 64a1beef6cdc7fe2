"""Join a cluster as a worker until Ctrl-C or SIGTERM: dial its coordinator, do its jobs, store nothing but files."""

import asyncio
import os
import re
import sys
from argparse import Namespace
from pathlib import Path
from random import Random, SystemRandom

from ringrift.cli.command import Command, Context, Output, Parser, parse_overrides
from ringrift.cli.commands.run import stop_on_signal
from ringrift.cli.live import Live
from ringrift.cli.logs import log_events, start_logs
from ringrift.cli.worker_home import Membership, WorkerHome
from ringrift.cluster.leadership import Leader
from ringrift.cluster.remote_roster import FindLeader
from ringrift.environment import EffectiveSettings, read_settings, take_token
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import NodeAway, SettingsError
from ringrift.kernel.settings import PROFILES, Settings
from ringrift.kernel.value import changed
from ringrift.kernel.wire_errors import KeyRefused
from ringrift.wire import connection
from ringrift.wire.address import parse_address
from ringrift.wire.connection import JoinAnswer
from ringrift.wire.keys import SigningKey
from ringrift.wire.open import open_wire
from ringrift.worker import Worker

_TOKEN = re.compile(r"rr-[0-9A-Za-z]+-[0-9A-Za-z]+")
_TOKEN_BYTES_MAX = 4096
_JOIN_SECONDS_MAX = 20.0
_FIRST_SECONDS_MAX = 5.0  # how long it waits for a first answer, before it says that none comes
_PROFILES = [profile for profile in PROFILES if profile != "coordinator"]
_HOW = "on the coordinator run  ringrift nodes token  and give it by --token-file FILE, by --token-file - (standard "
_HOW += "input) or by RINGRIFT_CLUSTER_AUTH_TOKEN"


def _arguments(parser: Parser) -> None:
    add = parser.add_argument
    add("urls", nargs="*", metavar="URL", help="where coordinators are (default: where this home joined before)")
    add("--token-file", metavar="FILE", help="file with the token, - for standard input; only the first join needs one")
    add("--profile", choices=_PROFILES, metavar="P", help=f"what it does: {', '.join(_PROFILES)} (default: full)")
    add("--label", action="append", default=[], metavar="K=V", help="a word about this machine (may be repeated)")
    add("--serve", metavar="ADDR", help="also serve files to other workers at HOST:PORT, e.g. 0.0.0.0:8771")
    add("--program", action="store_true", help="only store a key with which programs of this home connect, and end")


def _read_token(options: Namespace) -> str:
    """The token; empty if there is none.  Raises SettingsError, without the token."""
    token, file = take_token().strip(), options.token_file
    if any(map(_TOKEN.fullmatch, (*options.urls, file or ""))):
        reason = "every user of this machine can read a command line: " + _HOW
        raise SettingsError("token", "(not shown)", f"it is refused on the command line: {reason}")
    if file == "-":
        return sys.stdin.readline(_TOKEN_BYTES_MAX).strip()
    if file is None:
        return token
    try:
        with Path(file).open(encoding="utf-8") as text:
            return text.read(_TOKEN_BYTES_MAX).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError("--token-file", file, getattr(error, "strerror", None) or "is not text") from error


def _labels(pairs: list[str]) -> dict[str, str]:
    for pair in pairs:
        if pair.find("=") < 1:
            raise SettingsError("--label", pair, "must be KEY=VALUE")
    return {key: value for key, _, value in (pair.partition("=") for pair in pairs)}


def _read_settings(options: Namespace, home: WorkerHome, before: Membership | None) -> EffectiveSettings:
    """The settings of this worker: what was typed, else as it joined before, else as files and variables say."""
    key, overrides = home.key(), parse_overrides(options.set)
    preset: dict[str, object] = {"work.slots": len(os.sched_getaffinity(0))}
    if before is not None:
        preset |= {"node.coordinators": before.addresses, "node.profile": before.profile, "node.labels": before.labels}
        preset |= {"wire.ca": str(home.ca)} if before.ca else {}
    typed: dict[str, object] = {"node.profile": options.profile, "node.labels": _labels(options.label) or None}
    typed["node.serve"] = options.serve
    typed["node.coordinators"] = tuple(options.urls) or None
    typed = {name: value for name, value in typed.items() if value is not None} | overrides
    if key is not None:
        typed = {"node.id": key.node, **typed}  # whatever the host is called today
    effective = read_settings(file=options.settings, preset=preset, overrides=typed)
    addresses = [str(parse_address(text)) for text in effective.settings.node.coordinators]
    if not addresses:
        raise SettingsError("URL", "", "give the address of a coordinator:  ringrift join http://HOST:8770")
    if effective.settings.node.profile not in _PROFILES:
        raise SettingsError("--profile", effective.settings.node.profile, f"a worker is one of {', '.join(_PROFILES)}")
    return effective.overlaid({"node.coordinators": tuple(addresses), "wire.serve": False}, "command line")


async def _join(settings: Settings, home: WorkerHome, token: str, profile: str) -> tuple[JoinAnswer, Membership]:
    """Join by *token* at the first coordinator that answers, and store what this home needs from then on."""
    key = home.new_key(settings.node.id, SystemRandom())
    wire = open_wire(settings.wire, trust_any=not settings.wire.ca)
    try:
        for address in settings.node.coordinators:
            try:
                seconds = _JOIN_SECONDS_MAX
                answer = await connection.join(wire, address, token, key, profile=profile, seconds_max=seconds)
                break
            except NodeAway as error:
                last = error
        else:
            raise last
    finally:
        wire.close()
    node = settings.node
    membership = Membership(addresses=node.coordinators, profile=profile, labels=node.labels, ca=bool(answer.ca))
    home.save(membership, answer.ca)
    return answer, membership


async def _is_accepted(settings: Settings, key: SigningKey, clock: Clock) -> bool:
    """Whether the coordinator still accepts the key of this home; also if none can be asked now."""
    wire = open_wire(settings.wire)
    try:
        boot = f"{os.getpid()}-{clock.now():.0f}"
        client = connection.Connection(wire, settings.node.coordinators, key, Random(os.getpid()), boot=boot)
        await client.call("leader", FindLeader(), Leader, seconds_max=_FIRST_SECONDS_MAX)
    except KeyRefused:
        return False
    except NodeAway:
        return True
    finally:
        wire.close()
    return True


async def _work(settings: Settings, home: WorkerHome, live: Live, clock: Clock) -> str:
    """Work until a signal comes or the coordinator says so; what is to be said at the end.  Raises KeyRefused."""
    stop: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    stop_on_signal(stop, live)
    rng = Random(SystemRandom().getrandbits(64))
    async with Worker.open(settings, clock, rng, key_path=home.key_path) as worker:
        log_events([worker])
        try:
            await worker.connection.call("leader", FindLeader(), Leader, seconds_max=_FIRST_SECONDS_MAX)
            live.line(f"works for {worker.connection.coordinator} at {worker.connection.address}")
        except NodeAway as away:
            live.line(f"{away}; it goes on trying")
        ends = (stop, worker.ended, worker.supervisor.broken)
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if not stop.done():
            next(end for end in ends if end.done()).result()
    end = "has left" if worker.connection.has_left else "has stopped; no coordinator was there to be told"
    number = len(worker.spool.results)
    waiting = f"; results that wait in its spool until it joins again: {number}" if number else ""
    return f"worker {settings.node.id} {end}{waiting}"


def _prepare(context: Context) -> Output:
    """Exit code 0 after a signal, which is its normal end; a second one ends it at once."""
    options, home = context.options, WorkerHome(context.effective.home)
    token = _read_token(options)
    with home.alone():
        before, key = home.membership(), home.key()
        effective = _read_settings(options, home, before)
        settings, clock = effective.settings, context.clock
        if key is not None and key.node != settings.node.id:
            remedy = "use another RINGRIFT_HOME, or run  ringrift leave --forget  first"
            raise SettingsError("node.id", settings.node.id, f"this home joined as {key.node}: {remedy}")
        if key is None or before is None or (token and not asyncio.run(_is_accepted(settings, key, clock))):
            if not token:
                raise SettingsError("token", "", f"this home has not joined a cluster yet: {_HOW}")
            profile = "" if options.program else settings.node.profile
            answer, before = asyncio.run(_join(settings, home, token, profile))
            settings = settings.overlaid({"wire.ca": str(home.ca)} if before.ca else {})
            print(f"joined {answer.coordinator} as {settings.node.id}: may {', '.join(answer.scopes)}", flush=True)
        else:
            home.write(changed(before, addresses=settings.node.coordinators, profile=settings.node.profile))
        if options.program or not before.profile:
            return Output(value=None, text=f"the key is in {home.key_path}: ringrift.connect(URL) uses it")
        trace = settings.trace.debug
        start_logs(effective.home, settings.sweep, debug=effective.debug, trace=trace, node=settings.node.id)
        live = Live(sys.stdout, settings.policy, clock, table=False)
        slots = f"{settings.work.slots} slot{'s' * (settings.work.slots > 1)}"
        live.line(f"worker {settings.node.id} ({settings.node.profile}), {slots}; until Ctrl-C or SIGTERM")
        return Output(value=None, text=asyncio.run(_work(settings, home, live, clock)))


COMMAND = Command(arguments=_arguments, prepare=_prepare, json_help=None, starts_node=True)
