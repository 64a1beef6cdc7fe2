"""Declared: checks of what a variant declares beyond the five stages: its baselines, openings and boards."""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from random import Random

from ringrift.workload.api import Block, Board, HasBoard, HasGameFiles, find_block_error
from ringrift.workload.trial import DEFECTS, Broken, Loop, Trial, attempt

_NUMBERS = range(2)  # the blocks of a match with a baseline: the strongest may be slow
_BASELINE = "no-such-player"
_BAD_TEXT, _BAD_FILE = "no such action", b"no such games"
_PLIES_MAX = 10_000
_TRIAL_PLIES = 20  # positions of a game in which every action's text is tried
_SIMS = 4
_SUM_TOLERANCE = 1e-9


def check_blocks(trial: Trial, blocks: Sequence[Block], mirror: Sequence[Block], numbers: range) -> Iterator[str]:
    """The blocks of two players, and those after they have changed places, add up."""
    players = trial.spec.players
    if error := find_block_error(blocks, players, numbers) or find_block_error(mirror, players, numbers):
        yield f"match: {error}"
    elif players == 2:
        for number, there, back in zip(numbers, blocks, mirror, strict=True):
            if abs(sum(there.scores) + sum(back.scores) - 2) > _SUM_TOLERANCE:
                yield f"match gives block {number} scores that do not mirror when the two players change places"


def check_baselines(trial: Trial, loop: Loop) -> Iterator[str]:
    """Every baseline plays in both roles, and no other name is accepted."""
    model = loop.champion
    for name in trial.spec.baselines:
        try:
            there, back = trial.blocks(model, name, _NUMBERS), trial.blocks(name, model, _NUMBERS)
            yield from (f"baseline {name}: {error}" for error in check_blocks(trial, there, back, _NUMBERS))
        except Broken as broken:
            yield f"baseline {name}: {broken}"
    yield from trial.refusal(trial.match(model, _BASELINE, _NUMBERS), "a champion that is no baseline")


def check_game_files(trial: Trial, loop: Loop) -> Iterator[str]:
    """A workload that declares files of games refuses what is none."""
    workload = trial.workload
    if isinstance(workload, HasGameFiles) and workload.game_files:
        for data, damage in ((_BAD_FILE, "a file that is none of games"), (trial.read(loop.champion), "a model")):
            bad = trial.scratch().publish("report", data, {})
            yield from trial.refusal(trial.job("ingest", file=bad), damage, bad.blob)


def check_openings(trial: Trial, loop: Loop) -> Iterator[str]:
    """A match has openings of the declared length unless its params say otherwise."""
    match, plies = partial(trial.blocks, loop.champion, loop.champion, _NUMBERS), trial.spec.opening_plies
    if plies and match() != match(opening_plies=plies):
        yield f"match does not have openings of {plies} plies, as declared, if the job requests no other length"


def check_board(trial: Trial) -> Iterator[str]:
    """A random game by the rules, in which every text of an action names it."""
    workload, spec = trial.workload, trial.spec
    if isinstance(workload, HasBoard):
        try:
            yield from _check_game(trial, workload.board(spec.name))
        except DEFECTS as error:
            yield trial.failure(f"the board of {spec.name} raises {type(error).__name__}: {error}", error)
    elif spec.can_render or spec.can_parse:
        yield f"{spec.name} declares can_render or can_parse, but {workload.name} has no board and choose"


def check_players(trial: Trial, loop: Loop) -> Iterator[str]:
    """Every player of ``choose`` has a legal action, and what is none is an error for people."""
    workload, spec, model = trial.workload, trial.spec, loop.champion
    if not isinstance(workload, HasBoard):
        return
    board = workload.board(spec.name)
    choose = partial(workload.choose, spec.name, board, sims=_SIMS, seed=trial.seed)
    players = {"the model": partial(choose, model=trial.read(model), baseline=None)}
    players |= {f"baseline {name}": partial(choose, model=None, baseline=name) for name in spec.baselines}
    for title, player in players.items():
        action = attempt(player)
        if isinstance(action, Exception):
            yield trial.failure(f"choose raises {type(action).__name__} for {title}: {action}", action)
        elif action not in board.legal():
            yield f"choose gives {action!r} for {title}, which is no legal action"
        elif attempt(player) != action:
            yield f"choose gives another action for {title} the second time"
    unusable = {"an unknown baseline": partial(choose, model=None, baseline=_BASELINE)}
    unusable |= {damage: partial(choose, model=trial.read(bad), baseline=None) for damage, bad in trial.damaged(model)}
    for title, player in unusable.items():
        yield from trial.value_error(player, f"choose should raise ValueError for {title}")


def _check_game(trial: Trial, board: Board) -> Iterator[str]:
    """Play *board* to its end with random actions."""
    spec, random = trial.spec, Random(trial.seed)
    for ply in range(_PLIES_MAX):
        actions, place = tuple(board.legal()), f"at ply {ply} of a random game"
        scores = board.scores()
        if len(scores) != spec.players or not all(math.isfinite(score) for score in scores):
            yield f"scores are {scores!r:.80} instead of {spec.players} numbers {place}"
        if spec.can_render and not (isinstance(drawn := board.render(), str) and drawn.strip()):
            yield f"render gives no text {place}"
        if board.is_over:
            if actions:
                yield "there are legal actions after the end of a game"
            return
        if not actions or len(set(actions)) != len(actions) or not all(0 <= a < spec.actions for a in actions):
            yield f"the legal actions {place} are {actions!r:.80} instead of some from 0 to {spec.actions - 1}"
            return
        if not 0 <= board.seat < spec.players:
            yield f"seat {board.seat!r:.40} is to move {place}, not one from 0 to {spec.players - 1}"
        if spec.can_parse and ply < _TRIAL_PLIES:
            yield from _check_texts(trial, board, actions, place)
        action = random.choice(actions)
        position = board.play(action)
        if tuple(board.legal()) != actions or tuple(board.scores()) != tuple(scores):
            yield f"play changes the position that it is called on {place}"
        if position != board.play(action) or hash(position) != hash(board.play(action)):
            yield f"the same action makes positions that are not equal {place}: openings could come twice"
        board = position
    yield f"a random game has not ended after {_PLIES_MAX} plies"


def _check_texts(trial: Trial, board: Board, actions: Sequence[int], place: str) -> Iterator[str]:
    for action in actions:
        text = board.text(action)
        result = attempt(board.parse, text)
        if isinstance(result, Exception):
            yield trial.failure(f"parse refuses {text!r}, the text of action {action}, {place}: {result}", result)
        elif result != action:
            yield f"parse reads {text!r}, the text of action {action}, as another action {place}"
    for text in ("", _BAD_TEXT):
        yield from trial.value_error(partial(board.parse, text), f"parse should raise ValueError for {text!r} {place}")
