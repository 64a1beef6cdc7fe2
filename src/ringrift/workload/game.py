"""Game: a whole workload made of boards, a model and a search."""

import json
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Generic, TypeVar

from ringrift.workload import kit
from ringrift.workload.api import Board, JobContext, JobResult, JobSpec, Kind, Refused, VariantSpec

_SIMS_MAX = 100_000
_ACTION_BYTES = 4
B = TypeVar("B", bound=Board)
M = TypeVar("M")


class GameWorkload(Generic[B, M]):
    """A workload of boards B, models M and a search; its author writes the methods from ``board`` to ``baseline``.

    They are pure functions: random numbers come from *random*, and nothing that is passed in changes.
    """

    name: str
    version: str
    specs: Sequence[VariantSpec]
    sims = 32  #: Simulations a move; the params ``sims`` and, in matches, ``match_sims`` are stronger.
    epochs = 4  #: How often training goes through the samples; the param ``epochs`` is stronger.
    games_at_once = 4  #: Games that self-play searches together.  A job stops and is checkpointed between such groups.
    form = 1  #: The version of its files: raise it if earlier ones can no longer be read.

    def board(self, variant: str) -> B:
        """The first position of a game."""
        raise NotImplementedError

    def new_model(self, variant: str, random: Random) -> M:
        """A model that has learnt nothing."""
        raise NotImplementedError

    def dump_model(self, model: M) -> bytes:
        """*model* as bytes; ``load_model`` makes the same model of them, to the last bit."""
        raise NotImplementedError

    def load_model(self, variant: str, data: bytes) -> M:
        """The model of ``dump_model``.  Raises ValueError if it is unusable, e.g. if a weight is not finite."""
        raise NotImplementedError

    def search(
        self, model: M, boards: Sequence[B], sims: int, randoms: Sequence[Random], explore: bool
    ) -> Sequence[tuple[int, bytes]]:
        """For each board an action, and what training needs of the search, e.g. how often each action was tried.

        *explore*: with noise, for self-play; else the best action.  Self-play passes the boards of several games, so
        that a network can evaluate them together.  Matches pass one, whose action thus depends on nothing else.
        """
        raise NotImplementedError

    def sample(self, board: B, target: bytes, scores: Sequence[float]) -> bytes:
        """A row to train on, or several: *target* is the search's, *scores* are those at the end of the game."""
        raise NotImplementedError

    def train(self, model: M, rows: bytes, random: Random) -> tuple[M, Mapping[str, float]]:
        """The model after one epoch over *rows*, all samples joined, and metrics such as ``loss``."""
        raise NotImplementedError

    def baseline(self, name: str, board: B, random: Random) -> int:
        """The action of a player that the variant declares; ``random`` is here; override it for others."""
        if name != "random":
            is_declared = any(name in spec.baselines for spec in self.specs)
            hint = ", though it is declared: override baseline() to return its action" if is_declared else ""
            raise ValueError(f"{self.name} has no player {name!r:.40}{hint}")
        return random.choice(board.legal())

    def variants(self) -> Sequence[VariantSpec]:
        return self.specs

    def run(self, job: JobSpec, ctx: JobContext) -> JobResult:
        return kit.dispatch(self, job, ctx, (self._play, self._export, self._train, self._match, self._verify))

    def choose(self, variant: str, board: B, model: bytes | None, baseline: str | None, sims: int, seed: int) -> int:
        """The action of a model or a baseline, for ``ringrift play``.  Raises ValueError."""
        if model is None:
            return self.baseline(str(baseline), board, kit.random_of(seed))
        return self._best(self._opened(variant, model)[0], sims, board, kit.random_of(seed))

    def _best(self, model: M, sims: int, board: B, random: Random) -> int:
        return self._searched(model, (board,), sims, (random,), False)[0][0]

    def _searched(
        self, model: M, boards: Sequence[B], sims: int, randoms: Sequence[Random], explore: bool
    ) -> list[tuple[int, bytes]]:
        """What ``search`` returns, with plain numbers.  Raises TypeError or ValueError: a defect of the game."""
        results = self.search(model, boards, sims, randoms, explore)
        rule = f"search() of {self.name} must return a whole number and bytes for each of the {len(boards)} boards"
        try:
            pairs = [(operator.index(action), bytes(memoryview(target))) for action, target in results]
        except (TypeError, ValueError) as error:
            raise TypeError(f"{rule}, not {results!r:.80}: {error}") from error
        if len(pairs) != len(boards):
            raise ValueError(f"{rule}, not for {len(pairs)}")
        return pairs

    def _opened(self, variant: str, data: bytes) -> tuple[M, kit.File]:
        """The model in a sealed file.  Raises ValueError."""
        file = kit.unseal(data, "model", variant, form=self._form())
        model = self.load_model(variant, file.payload)
        if self.dump_model(model) != file.payload:
            raise ValueError("its bytes are not those of its model")
        return model, file

    def _form(self) -> str:
        return f"{self.name} {self.form}"

    def _model(self, job: JobSpec, ctx: JobContext, role: str) -> tuple[M, kit.File]:
        return kit.read_input(ctx, role, kit.only_input(job, role), partial(self._opened, job.variant))

    def _result(self, job: JobSpec, ctx: JobContext, kind: Kind, payload: bytes, meta: dict[str, int]) -> JobResult:
        data = kit.seal(kind, job.variant, meta, payload, form=self._form())
        return JobResult((ctx.publish(kind, data, meta),), metrics={name: float(meta[name]) for name in meta})

    def _play(self, job: JobSpec, ctx: JobContext) -> JobResult:
        model, total = self._model(job, ctx, "model")[0], kit.int_param(job, "games", None, 1, kit.COUNT_MAX)
        sims, games, size = kit.int_param(job, "sims", self.sims, 1, _SIMS_MAX), list[bytes](), self.games_at_once
        for group in kit.steps(job, ctx, -(-total // size), games, version=self.version):
            games += self._play_group(job, model, sims, range(group * size, min(total, (group + 1) * size)))
        result = self._result(job, ctx, "games", kit.join(games), {"games": len(games)})
        return replace(result, partial=len(games) < total)

    def _play_group(self, job: JobSpec, model: M, sims: int, numbers: range) -> list[bytes]:
        """Play the games *numbers* side by side.  A record is a part for each ply: the action, then the target."""
        boards = {number: self.board(job.variant) for number in numbers}
        randoms = {number: kit.random_of("play", job.seed, number) for number in numbers}
        records = {number: list[bytes]() for number in numbers}
        while live := [number for number in numbers if not boards[number].is_over]:
            actions = self._searched(model, [boards[n] for n in live], sims, [randoms[n] for n in live], True)
            for number, (action, target) in zip(live, actions, strict=True):
                boards[number] = kit.play_legal(boards[number], action, len(records[number]))
                records[number].append(action.to_bytes(_ACTION_BYTES, "big") + target)
        return [kit.join(record) for record in records.values()]

    def _export(self, job: JobSpec, ctx: JobContext) -> JobResult:
        def replay(data: bytes) -> list[list[bytes]]:
            games = kit.split(kit.unseal(data, "games", job.variant, form=self._form()).payload)
            return [self._replay(job.variant, kit.split(game)) for game in games]

        def write(batches: Sequence[list[list[bytes]]]) -> JobResult:
            games = [rows for batch in batches for rows in batch]
            rows = [row for rows in games for row in rows]
            if not rows:
                raise Refused("the batches hold no samples")
            return self._result(job, ctx, "samples", b"".join(rows), {"samples": len(rows), "games": len(games)})

        return kit.export_batches(job, ctx, lambda blob: kit.read_input(ctx, "batch", blob, replay), write)

    def _replay(self, variant: str, record: Sequence[bytes]) -> list[bytes]:
        """The samples of a game, which is played again by the rules.  Raises ValueError if it breaks them."""
        board, boards = self.board(variant), list[B]()
        for ply in record:
            if (action := int.from_bytes(ply[:_ACTION_BYTES], "big")) not in board.legal():
                raise ValueError(f"a game has the illegal action {action}")
            boards.append(board)
            board = board.play(action)
        if not board.is_over:
            raise ValueError("a game has no end")
        result = board.scores()  # not their shares: a margin teaches more than a win
        plies = zip(boards, record, strict=True)
        return [self.sample(board, ply[_ACTION_BYTES:], result) for board, ply in plies]

    def _train(self, job: JobSpec, ctx: JobContext) -> JobResult:
        blobs, generation, metrics = job.inputs.get("samples", ()), 0, dict[str, float]()
        if job.inputs.get("parent"):
            model, file = self._model(job, ctx, "parent")
            generation = int(file.meta["generation"])
        else:
            model = self.new_model(job.variant, kit.random_of("model", job.seed))
        state = [self.dump_model(model), b"{}"]  # the model and its metrics
        if blobs:
            unsealed = partial(kit.unseal, kind="samples", variant=job.variant, form=self._form())
            rows = b"".join(kit.read_input(ctx, "samples", blob, unsealed).payload for blob in blobs)
            total = kit.int_param(job, "epochs", self.epochs, 1, kit.COUNT_MAX)
            epoch, generation, metrics["reuse"] = total - 1, generation + 1, float(total)
            for epoch in kit.steps(job, ctx, total, state, metrics=metrics, version=self.version):
                parent = self.load_model(job.variant, state[0])
                model, losses = self.train(parent, rows, kit.random_of("train", job.seed, epoch))
                steps = json.loads(state[1]).get("steps", 0) + losses.get("steps", 0)
                metrics |= {**losses, **({"steps": steps} if steps else {})}
                state[:] = self.dump_model(model), json.dumps(metrics).encode()
            if epoch + 1 < total:
                return JobResult(partial=True)
            try:
                self.load_model(job.variant, state[0])
            except ValueError as error:
                raise Refused(f"training ended with a model that is unusable: {error}") from error
        result = self._result(job, ctx, "model", state[0], {"generation": generation})
        return replace(result, metrics={**result.metrics, **json.loads(state[1])})

    def _match(self, job: JobSpec, ctx: JobContext) -> JobResult:
        spec = next(spec for spec in self.specs if spec.name == job.variant)
        sims = kit.int_param(job, "match_sims", kit.int_param(job, "sims", self.sims, 1, _SIMS_MAX), 1, _SIMS_MAX)
        players = {role: self._player(job, ctx, role, spec, sims) for role in ("candidate", "champion")}
        start = self.board(job.variant)
        blocks = kit.play_blocks(job, ctx, start, spec, lambda role, board, random: players[role](board, random))
        partial_ = len(blocks) < kit.int_param(job, "count", None, 1, kit.COUNT_MAX)
        return JobResult(metrics={"blocks": len(blocks)}, blocks=blocks, partial=partial_, settings=f"sims={sims}")

    def _player(
        self, job: JobSpec, ctx: JobContext, role: str, spec: VariantSpec, sims: int
    ) -> Callable[[B, Random], int]:
        """The player in *role*: a model, or one that never trains if a param names it in place of an input."""
        if (name := job.params.get(role)) is None or role in job.inputs:
            return partial(self._best, self._model(job, ctx, role)[0], sims)
        if name not in spec.baselines:
            raise Refused(f"{job.variant} has no player {name!r:.40}; it has {', '.join(spec.baselines) or 'none'}")
        return partial(self.baseline, str(name))

    def _verify(self, job: JobSpec, ctx: JobContext) -> JobResult:
        """A model is usable if it loads and has a legal action in the first position."""
        blob, board = kit.only_input(job, "model"), self.board(job.variant)
        model, _ = self._model(job, ctx, "model")
        ctx.heartbeat(0.5)
        if self._best(model, 1, board, kit.random_of("verify")) not in board.legal():
            raise Refused(f"model {blob[:12]} is refused: it has no legal action in the first position", blob)
        return JobResult()
