"""Reversi on one GPU: the network alone, the search, whole games, and whether the visits are those of the CPU.

PYTHONPATH=src:tests:. python3 -m bench.reversi_gpu speed      # torch, numpy and safetensors are enough
PYTHONPATH=src:tests:. python3 -m bench.reversi_gpu check      # … against bench/reversi_visits.safetensors
.venv/bin/python -m bench.reversi_gpu record                   # needs numba: writes that file with the CPU's search
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from reversi.stub_net import StubNet
from ringrift_reversi import net as nets
from ringrift_reversi import records, tensors, torch_net, torch_play, torch_rng, torch_rules
from ringrift_reversi.play_spec import Style
from ringrift_reversi.topology import VARIANTS, start, topology
from ringrift_reversi.torch_search import Roots, Search

VISITS = Path(__file__).with_name("reversi_visits.safetensors")
SIMS = 32
RECORDED = {f"{board}_{players}p": 32 for board in ("square8", "hex8") for players in (2, 3, 4)}
RECORDED |= {"square19_3p": 4, "hexagonal_4p": 4}
ROUNDS, REPLAYS = 5, 5
ERROR_MAX = 0.05  # bfloat16 has eight bits


def positions(rules: torch_rules.Rules, count: int, plies_most: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Positions behind 0 … *plies_most* - 1 random plies where a player can move."""
    board = torch.as_tensor(start(rules.board, rules.players)).to(rules.device)
    discs = torch_rules.pack(rules, board.expand(count, -1))
    number = torch.arange(count, device=rules.device)
    mover = torch.zeros_like(number)
    for ply in range(plies_most):
        legal = torch_rules.spread(rules, torch_rules.of_seat(torch_rules.legal(rules, discs), mover)) > 0
        lot = torch_rng.noise(number, torch.full_like(number, ply), rules.cells)
        played = torch_rules.apply(rules, discs, mover, torch.where(legal, lot, -torch.inf).argmax(1))
        mover_then, _ = torch_rules.next_mover(rules, played, mover)
        goes = (ply < number % plies_most) & (mover_then >= 0)
        discs, mover = torch.where(goes[:, None, None], played, discs), torch.where(goes, mover_then, mover)
    return discs, mover


def record() -> None:
    """Record the visits of the CPU search."""
    from ringrift_reversi import search  # needs numba

    arrays = {}
    for variant, count in RECORDED.items():
        board, players = VARIANTS[variant]
        rules = torch_rules.make_rules(topology(board), players)
        discs, mover = positions(rules, count, rules.cells * 3 // 4)
        boards, movers = torch_rules.unpack(rules, discs).numpy(), mover.to(torch.int8).numpy()
        results = search.Search(variant, games=count, sims=SIMS)
        for game in range(count):
            results.put(game, boards[game], int(movers[game]))
        noise = np.random.default_rng(count).gumbel(size=boards.shape).astype(np.float16)
        results.noise[:] = noise
        every = np.arange(count)
        results.run(every, StubNet(players, rules.cells).on_host, np.full(count, SIMS, np.int32))
        visits = results.visits(every).astype(np.uint8)
        arrays |= {
            f"{variant}.{name}": array
            for name, array in (("boards", boards), ("movers", movers), ("noise", noise), ("visits", visits))
        }
    VISITS.write_bytes(tensors.pack(arrays, {"sims": str(SIMS)}))


def check(device: str) -> int:
    """Compare with the visits of the CPU search; the number of positions that differ."""
    arrays, _ = tensors.unpack(VISITS.read_bytes())
    fault_count = 0
    for variant, count in RECORDED.items():
        board, players = VARIANTS[variant]
        rules = torch_rules.make_rules(topology(board), players, device)
        boards, movers, noise, visits = (
            torch.as_tensor(arrays[f"{variant}.{name}"].copy()).to(device)
            for name in ("boards", "movers", "noise", "visits")
        )
        on_gpu = device == "cuda"
        began = time.perf_counter()
        torch.compiler.reset()
        stub_net = StubNet(players, rules.cells, device)
        search = Search(rules, stub_net, games=count, sims=SIMS, compiled=on_gpu, graphed=on_gpu)
        roots = search.look(torch_rules.pack(rules, boards), movers.long())
        differ = 0
        for _ in range(2):
            differ += int((search.run(roots, noise.float()).visits != visits).any(1).sum())
        print(f"{variant:14} {count:3} positions, {differ} differ, {time.perf_counter() - began:.1f} s", flush=True)
        fault_count += differ
    return fault_count


def timed(work: Callable[[], object], repeats: int) -> float:
    """Seconds for one *work*: the median of some rounds, after two that do not count."""
    spent = []
    for _ in range(ROUNDS + 2):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(repeats):
            work()
        end.record()
        torch.cuda.synchronize()
        spent.append(begin.elapsed_time(end) / 1e3 / repeats)
    return sorted(spent[2:])[ROUNDS // 2]


def captured(work: Callable[[], object]) -> Callable[[], object]:
    """*work* as a CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        work()
        work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(REPLAYS):
            work()
    return graph.replay


def profile(search: Search, roots: Roots, noise: torch.Tensor) -> None:
    """Print the kernels of one search by time."""
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as trace:
        search.run(roots, noise)
        torch.cuda.synchronize()
    rows = sorted(trace.key_averages(), key=lambda row: -row.self_device_time_total)
    whole = sum(row.self_device_time_total for row in rows)
    print(f"kernels of one search: {whole / 1e3:.1f} ms in {sum(row.count for row in rows)} launches")
    for row in rows[:18]:
        share = row.self_device_time_total / whole
        print(f"{share:6.1%} {row.self_device_time_total / 1e3:7.2f} ms ×{row.count:4} {row.key[:100]}")


def measure_search(options: argparse.Namespace, net: nets.Net) -> None:
    """The network alone, and the search, over positions of all phases."""
    board, players = VARIANTS[options.variant]
    rules = torch_rules.make_rules(topology(board), players, "cuda")
    discs, mover = positions(rules, options.slots, rules.cells * 3 // 4)
    evaluate = torch_net.evaluator(net, device="cuda", dtype=torch.bfloat16)
    boards, to_move = torch_rules.unpack(rules, discs), mover.to(torch.int8)
    compiled_network = torch.compile(evaluate)
    alone = options.slots * REPLAYS / timed(captured(lambda: compiled_network(boards, to_move)), 2)
    print(f"network alone: {alone / 1e6:.2f} M evaluations/s", flush=True)
    began = time.perf_counter()
    search = Search(rules, evaluate, games=options.slots, sims=options.sims, compiled=True, graphed=True)
    roots = search.look(discs, mover)
    noise = torch_rng.noise(torch.arange(options.slots, device="cuda"), mover, rules.cells)
    search.run(roots, noise)
    torch.cuda.synchronize()
    print(f"search: ready after {time.perf_counter() - began:.1f} s", flush=True)
    rate = options.slots * options.sims / timed(lambda: search.run(roots, noise), 2)
    memory = torch.cuda.max_memory_allocated() / 2**30
    print(
        f"search: {rate / 1e6:.2f} M simulations/s, {rate / alone:.1%} of the network alone, {memory:.1f} GiB",
        flush=True,
    )
    if options.profile:
        profile(search, roots, noise)


def measure_games(options: argparse.Namespace, net: nets.Net) -> None:
    """Whole games: from the first ply to the last, and over some whole rounds of games with every slot in use."""
    style = Style(sims=options.sims, full_share=options.full_share)
    marks, ended, plies = list[tuple[float, int]](), 0, 0
    for finished in torch_play.play(net, games=options.games, seed=1, style=style, slots=options.slots):
        ended, plies = ended + len(finished.numbers), plies + len(finished.games.moves)
        marks.append((time.perf_counter(), ended))
    (at, _), (then, _) = marks[0], marks[-1]
    print(f"games: {ended} of {plies / ended:.1f} plies at {ended / (then - at):.0f} games/s, in {len(marks)} rounds")
    # All begin together and so tend to end together: count from the middle of one such wave to that of another.
    first, waves = options.slots // 2, int(options.games / options.slots - 1.5)
    if waves > 0:
        at, since = next(mark for mark in marks if mark[1] >= first)
        then, until = next(mark for mark in marks if mark[1] >= first + waves * options.slots)
        print(
            f"games: {(until - since) / (then - at):.0f} games/s over {until - since} games while every slot is in use"
        )


def check_games(device: str) -> int:
    """Play some games twice and replay them on the CPU; the number of faults."""
    net, style = nets.new_net("hex8_3p", 0), Style(sims=8, fast_sims=4, full_share=0.5)
    packed = list[bytes]()
    for _ in range(2):
        results = list(torch_play.play(net, games=96, seed=5, style=style, slots=64, device=device))
        games = records.join([finished.games for finished in results])
        packed.append(records.pack(games, net.variant, {}))
    rules = torch_rules.make_rules(topology("hex8"), 3)
    fault_count = int(packed[0] != packed[1])
    for game in range(len(games)):
        discs = torch_rules.pack(rules, torch.from_numpy(start("hex8", 3))[None])
        mover = torch.zeros(1, dtype=torch.int64)
        for cell in games.moves[games.plies(game)].tolist():
            legal = torch_rules.spread(rules, torch_rules.of_seat(torch_rules.legal(rules, discs), mover))
            fault_count += int(mover) < 0 or not int(legal[0, cell])
            discs = torch_rules.apply(rules, discs, mover, torch.tensor([cell]))
            mover, _ = torch_rules.next_mover(rules, discs, mover)
        result = torch_rules.outcome(rules, discs)[0].numpy()
        fault_count += int(mover) >= 0 or not (result == games.result[game]).all()
    print(f"{len(games)} games of hex8_3p played twice and replayed: {fault_count} faults")
    return fault_count


def check_network(device: str) -> int:
    """Compare the network as the search calls it with the network itself in float32 on the CPU; 1 if it is another."""
    net = nets.new_net("hex8_3p", 0, channels=64, blocks=6)
    torch.nn.init.normal_(net.value.weight, std=0.1, generator=torch.Generator().manual_seed(0))
    boards = torch.randint(0, 4, (512, net.cells), dtype=torch.int8, generator=torch.Generator().manual_seed(1))
    to_move = torch.arange(512, dtype=torch.int8) % 3
    expected = net.evaluate(boards, to_move)
    results = torch_net.evaluator(net, device=device, dtype=torch.bfloat16)(boards.to(device), to_move.to(device))
    errors = [
        ((actual.cpu() - reference).norm() / reference.norm()).item()
        for actual, reference in zip(results, expected, strict=True)
    ]
    print(f"network in bfloat16: logits off by {errors[0]:.1e}, values by {errors[1]:.1e}")
    return int(max(errors) > ERROR_MAX)


def main(words: Sequence[str]) -> int:
    """Measure, check or record."""
    parser = argparse.ArgumentParser(prog="python3 -m bench.reversi_gpu")
    parser.add_argument("what", choices=("speed", "check", "record"))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--variant", default="square8_2p")
    parser.add_argument("--slots", type=int, default=16384)
    parser.add_argument("--sims", type=int, default=SIMS)
    parser.add_argument("--games", type=int, default=81920)
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--blocks", type=int, default=6)
    parser.add_argument("--full-share", type=float, default=1.0)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--benchmark", action="store_true", help="let cuDNN try its algorithms; then bytes may differ")
    options = parser.parse_args(words)
    torch.set_grad_enabled(False)
    torch.backends.cudnn.benchmark = options.benchmark
    if options.what == "record":
        record()
    if options.what == "check":
        faults = check_network(options.device) + check_games(options.device) + check(options.device)
        return 1 if faults else 0
    if options.what == "speed":
        net = nets.new_net(options.variant, 0, channels=options.channels, blocks=options.blocks)
        # A value head that begins at zero would make all games alike.
        torch.nn.init.normal_(net.value.weight, std=0.1, generator=torch.Generator().manual_seed(0))
        measure_search(options, net)
        if options.games:
            measure_games(options, net)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
