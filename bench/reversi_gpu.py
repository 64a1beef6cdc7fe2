"""Probe: net ceiling, search rate, profile."""
import argparse, json, sys, time
import torch
from ringrift.reversi import net as nets, torch_net, torch_rules, torch_search
from ringrift.reversi.topology import VARIANTS, start, topology

def timed(f, n=10):
    for _ in range(3): f()
    torch.cuda.synchronize()
    ts = []
    for _ in range(3):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        for _ in range(n): f()
        b.record(); torch.cuda.synchronize(); ts.append(a.elapsed_time(b) / n / 1e3)
    return sorted(ts)[1]

def graphed(f, n=5):
    s = torch.cuda.Stream(); s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        f(); f()
    torch.cuda.current_stream().wait_stream(s)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        for _ in range(n): f()
    return timed(g.replay) / n

def main():
    p = argparse.ArgumentParser(); p.add_argument("--games", type=int, default=16384); p.add_argument("--sims", type=int, default=32)
    p.add_argument("--variant", default="square8_2p"); p.add_argument("--parts", default="net,search,profile"); o = p.parse_args()
    torch.backends.cudnn.benchmark = True
    torch.set_grad_enabled(False)
    torch.manual_seed(0)
    board, P = VARIANTS[o.variant]; t = topology(board); B = o.games
    rules = torch_rules.lay(t, P, "cuda")
    net = nets.birth(o.variant, 0, channels=64, blocks=6)
    torch.nn.init.normal_(net.value.weight, std=0.1)
    # random positions
    boards = torch.as_tensor(start(board, P))[None].expand(B, -1).cuda()
    discs, mover = torch_rules.pack(rules, boards).contiguous(), torch.zeros(B, dtype=torch.long, device="cuda")
    step = torch.compile(lambda d, m, a: (lambda e: (e, *torch_rules.following(rules, e, m)))(torch_rules.apply(rules, d, m, a)))
    plies = torch.arange(B, device="cuda") % 40
    t0 = time.time()
    for i in range(40):
        moves = torch_rules.spread(rules, torch_rules.of_seat(torch_rules.legal(rules, discs), mover)).float()
        a = torch.where(moves > 0, torch.rand_like(moves), -1.0).argmax(1)
        d2, m2, _ = step(discs, mover, a)
        go = (i < plies) & (mover >= 0) & (m2 >= 0)
        discs = torch.where(go[:, None, None], d2, discs); mover = torch.where(go, m2, mover)
    torch.cuda.synchronize(); print("random positions + step compile", round(time.time() - t0, 1), "s", flush=True)
    print("step graphed us", round(1e6 * graphed(lambda: step(discs, mover, a)), 1), flush=True)
    boards = torch_rules.unpack(rules, discs); tm = mover.clamp(min=0).to(torch.int8)
    ev = torch_net.evaluator(net, device="cuda", dtype=torch.bfloat16)
    if "net" in o.parts:
        copy = nets.Net(o.variant, 64, 6); copy.load_state_dict(net.state_dict())
        copy = copy.to("cuda", torch.bfloat16, memory_format=torch.channels_last).eval()
        planes = copy.encode(boards, tm).contiguous(memory_format=torch.channels_last)
        print("net eager", B / graphed(lambda: copy(planes)) / 1e6, "M/s", flush=True)
        t0 = time.time(); c = torch.compile(copy); c(planes); print("compile", round(time.time() - t0, 1))
        print("net compiled (3 planes)", B / graphed(lambda: c(planes)) / 1e6, "M/s", flush=True)
        e = torch.compile(ev)
        print("evaluator compiled (8 planes, encode+decode)", B / graphed(lambda: e(boards, tm)) / 1e6, "M/s", flush=True)
    if "search" in o.parts:
        s = torch_search.Search(rules, ev, games=B, sims=o.sims, compiled=True, graphed=True)
        t0 = time.time(); roots = s.look(discs, mover); noise = -torch.log(-torch.log(torch.rand(B, t.cells, device="cuda")))
        s.run(roots, noise); torch.cuda.synchronize(); print("search compile+capture", round(time.time() - t0, 1), flush=True)
        sec = timed(lambda: s.run(roots, noise), 5)
        print("search", B * o.sims / sec / 1e6, "M sims/s", sec / o.sims * 1e3, "ms/sim", torch.cuda.max_memory_allocated() / 2**30, "GiB", flush=True)
        if "profile" in o.parts:
            from torch.profiler import ProfilerActivity, profile
            with profile(activities=[ProfilerActivity.CUDA]) as prof:
                s.run(roots, noise); torch.cuda.synchronize()
            rows = sorted(prof.key_averages(), key=lambda e: -e.self_device_time_total)
            tot = sum(e.self_device_time_total for e in rows)
            print("total ms", tot / 1e3)
            for e in rows[:28]: print(f"{e.self_device_time_total/tot:6.1%} {e.self_device_time_total/1e3:8.2f} ms x{e.count:5d} {e.key[:110]}")
main()
