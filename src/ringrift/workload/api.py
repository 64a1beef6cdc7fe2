"""The plug-in interface: what a game must offer so that the loop can train it.

Standard library only, so that a workload runs where nothing but the source of this package is installed.
A job is a pure function: (spec, content-addressed inputs, seed) → content-addressed outputs.  It can be restarted,
it can be stopped between games, and whatever it published before the stop is valid.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Protocol, Self, runtime_checkable

STAGES = ("play", "export", "train", "match", "verify", "tune", "import", "ingest")
KINDS = ("games", "samples", "model", "report")
Kind = Literal["games", "samples", "model", "report"]
SETTINGS_LENGTH_MAX = 200
Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class VariantSpec:
    """One variant that a workload can play, e.g. ``hex8_2p``."""

    name: str
    players: int
    actions: int
    cpu_seconds_per_game: float  #: A hint for placement and time limits, at the workload's default settings.
    # What the variant offers beyond the five stages.  Nothing is requested of a variant that it does not declare.
    baselines: tuple[str, ...] = ()  #: Players that never train and that a match takes by name, the weakest first.
    opening_plies: int = 0  #: The length of a match's openings unless the job says otherwise; 0: none is declared.
    games_per_batch: int = 0  #: Games that one play job should have; 0: no opinion.
    slots: int = 0  #: Jobs that one node should run at once at most; 0: no opinion, as many as it has cores.
    can_render: bool = False  #: Positions can be drawn as text (needs ``HasBoard``).
    can_parse: bool = False  #: Typed actions can be read, so a person can play (needs ``HasBoard``).


@dataclass(frozen=True, slots=True)
class Artifact:
    """A blob, identified by its content, never by a path."""

    kind: Kind
    blob: str
    size: int
    meta: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One job.  *attempt* is for fault injection and logs: results must not depend on it."""

    job: str
    stage: str
    variant: str
    seed: int
    inputs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Role → blob ids, in order: ``{"model": ("ab…",), "batches": ("cd…", "ef…")}``."""
    params: Mapping[str, Scalar] = field(default_factory=dict)
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class Block:
    """One numbered opening played from every seat: the candidate's score from each seat, in [0, 1]."""

    number: int
    scores: tuple[float, ...]  #: The candidate's share of first place.
    ranks: tuple[float, ...] = ()
    """The share of opponents that it finished ahead of, ties count half: finer with more than two players."""


def find_block_error(blocks: Sequence[Block], players: int, numbers: range) -> str:
    """What is wrong with *blocks*, which are evidence and should be those of *numbers*; empty if nothing is."""
    if [block.number for block in blocks] != list(numbers):
        return f"blocks {numbers[0]} … {numbers[-1]} are needed, not {[block.number for block in blocks[:8]]}"
    for block in blocks:
        for name, values in (("scores", block.scores), ("ranks", block.ranks or block.scores)):  # ranks may be left out
            if len(values) != players or not all(isinstance(x, int | float) and 0 <= x <= 1 for x in values):
                return f"block {block.number} needs {players} {name} from 0 to 1, not {list(values)[:8]}"
    return ""


@dataclass(frozen=True, slots=True)
class JobResult:
    """The result of a job.  *partial*: it stopped early, but everything listed is whole."""

    outputs: Sequence[Artifact] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    blocks: Sequence[Block] = ()
    partial: bool = False
    settings: str = ""
    """How the players of a match searched, e.g. ``sims=16``: the same model is another player with other settings."""
    refused: Sequence[str] = ()  #: Bad inputs that were left out; the outputs do not depend on them.
    version: str = ""  #: The version of the workload's code; filled in by the worker, not by the workload.


class Refused(Exception):
    """Raised by a workload for bad inputs that no retry can fix.  *blob* is the bad input, if it can be named."""

    def __init__(self, reason: str, blob: str | None = None) -> None:
        self.reason, self.blob = reason, blob
        super().__init__(reason)


class JobContext(Protocol):
    """The services of the node for a running job."""

    @property
    def traceparent(self) -> str:
        """The job's place in its trace in W3C form, to pass on to programs it calls; "" without a trace."""

    def open_input(self, blob: str) -> Path:
        """A verified local copy of *blob*.  Read only."""

    def publish(self, kind: Kind, data: bytes, meta: Mapping[str, Scalar]) -> Artifact:
        """Store *data* durably under its hash.  The same bytes twice are one blob."""

    def heartbeat(self, done: float, **metrics: float) -> None:
        """Report that the share *done* (0…1) is done.  A job that sends none during its lease loses it."""

    def should_stop(self) -> bool:
        """True once the job should end early with what it has."""

    def checkpoint(self, data: bytes) -> None:
        """Store *data* so that the next attempt of this job can continue from here."""

    def resume(self) -> bytes | None:
        """The last checkpoint of an earlier attempt, if there is one."""


@runtime_checkable
class Workload(Protocol):
    """A family of games.  *version* is recorded with every result."""

    name: str
    version: str

    def variants(self) -> Sequence[VariantSpec]:
        """Every variant this workload can play."""

    def run(self, job: JobSpec, ctx: JobContext) -> JobResult:
        """Do *job*.

        play    inputs model            params games            → one games artifact, meta games
        export  inputs batches          params —                → one samples artifact, meta samples, games;
                                                                  bad batches are left out and listed as refused
        train   inputs samples, parent  params —                → one model artifact; without samples: generation 0
        match   inputs candidate, champion  params first, count → blocks numbered first … first+count-1
                                                                  (a param candidate or champion in its input's place
                                                                  names a player that never trains; opening_plies: the
                                                                  length of openings)
        verify  inputs model                                    → nothing; raises Refused if the model is unusable
        tune    params vector: numbers separated by commas      → the metric fitness; this stage is optional
        import  inputs file, from outside                       → one model artifact; raises Refused unless it is a
                                                                  sound model of the variant; this stage is optional
        ingest  inputs file, history    params replay           → games artifacts, meta games, and a report artifact,
                                                                  meta games, repeated, refused, other, errors;
                                                                  declared by ``HasGameFiles``, and done by
                                                                  ``ringrift.workload.ingest`` but for the rules
        """


# Optional hooks: a workload offers one by having its method or attributes; the functions below give the defaults.


@dataclass(frozen=True, slots=True)
class Preset:
    """How ``ringrift run`` runs a workload on a local cluster; whatever a person sets is stronger."""

    settings: Mapping[str, Scalar] = field(default_factory=dict)
    """By dotted name: ``{"policy.games_per_batch": 256, "work.lease_seconds": 60.0}``."""
    nodes: int = 3
    minutes: float = 0.0  #: How long a run lasts; 0: it ends after a number of promotions.
    baselines: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Variant → players that never train and that the champion must have beaten at the end of a run."""


@runtime_checkable
class HasPreset(Protocol):
    """A workload with suggested settings."""

    def preset(self, *, cores: int, nodes: int | None) -> Preset:
        """The preset for *cores* shared by *nodes* nodes; with None the workload chooses how many nodes there are."""


@runtime_checkable
class HasRequirements(Protocol):
    """A workload that runs only where certain modules are installed.  Making it must not import them."""

    requirements: Sequence[str]  #: Top-level modules by import name.
    install_command: str  #: The command that installs them, e.g. ``pip install 'ringrift[train]'``.


@runtime_checkable
class HasGameFiles(Protocol):
    """A workload with the stage ``ingest``: it makes batches of games that were played elsewhere."""

    game_files: Sequence[str]  #: The formats that it reads: see ``ringrift.workload.game_files``.


@runtime_checkable
class HasNpz(Protocol):
    """A workload whose samples others may use as ``.npz`` files."""

    def write_npz(self, variant: str, source: Path, target: Path) -> None:
        """Write the samples in the file *source* to *target*, which does not exist; all arrays have as many rows.

        Called in a process of its own; it may import anything.  Raises ValueError for what are no samples of *variant*.
        """


@runtime_checkable
class HasMeasuredParams(Protocol):
    """A workload that measures once per run how this machine does its jobs best."""

    def measured_params(self) -> Mapping[str, Scalar]:
        """Params that all jobs of a run get, so that the same job makes the same blob on every node.

        Called in a process of its own (``python -m ringrift.workload.measure NAME``); it may import anything.
        """


class Board(Protocol):
    """A position.  It never changes, and two equal positions are equal and have the same hash."""

    @property
    def seat(self) -> int:
        """The seat to move, from 0; any number once the game is over."""

    @property
    def is_over(self) -> bool:
        """Whether the game has ended."""

    def legal(self) -> Sequence[int]:
        """The actions of the seat to move, from 0 to the variant's ``actions`` - 1; none once the game is over."""

    def play(self, action: int) -> Self:
        """The position after a legal *action*.  The same seat may move again."""

    def scores(self) -> Sequence[float]:
        """Each seat's points as the board stands.  At the end the most points win, and equal points share a place."""

    def render(self) -> str:
        """The position for people: several lines of text (with ``can_render``)."""

    def text(self, action: int) -> str:
        """*action* as people type it, e.g. ``d3`` (with ``can_parse``)."""

    def parse(self, text: str) -> int:
        """The legal action that *text* names, also as ``text`` writes it (with ``can_parse``).

        Raises ValueError with a message for people.
        """


@runtime_checkable
class HasBoard(Protocol):
    """A workload whose positions others may draw and play; ``ringrift play`` needs it."""

    def board(self, variant: str) -> Board:
        """The first position of a game of one of its variants."""

    def choose(self, variant: str, board: Any, model: bytes | None, baseline: str | None, sims: int, seed: int) -> int:
        """The action of *model*, or else of *baseline*, on a *board* of its own; *sims* is how many simulations a
        model makes.  The same arguments choose alike: a new *seed* for each move makes games differ.

        Raises ValueError if the player is unusable: an unknown baseline, a model that is none or of another variant.
        """


@dataclass(frozen=True, slots=True)
class ParamSpec:
    """A job parameter that a person may set: ``--set work.params.NAME=VALUE``.  The type is that of *default*."""

    name: str
    default: Scalar
    meaning: str
    low: float | None = None  #: With *high* the range of a number; both ends belong to it.
    high: float | None = None
    choices: tuple[str, ...] = ()  #: The words that are allowed; none: any.
    unit: str = ""
    change: str = ""  #: When to change it.


@runtime_checkable
class HasParams(Protocol):
    """A workload that declares its parameters: others are refused before a run begins."""

    params: Sequence[ParamSpec]


def params_of(workload: Workload) -> Sequence[ParamSpec]:
    """The parameters that *workload* declares."""
    return workload.params if isinstance(workload, HasParams) else ()


def missing_requirements(workload: Workload) -> tuple[str, ...]:
    """The modules that *workload* needs and that are not installed."""
    needs = workload.requirements if isinstance(workload, HasRequirements) else ()
    return tuple(name for name in needs if find_spec(name) is None)
