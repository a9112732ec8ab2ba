#!/usr/bin/env python3
"""The training job of gpu-check: PyTorch on one GPU, telling what it does.

Prints a line of JSON for each thing that happens. Times are CLOCK_MONOTONIC in
seconds; gpu_s is what the GPU's own events measured. Exits with 3 when it runs
out of GPU memory.
"""
import argparse
import json
import sys
import time

OUT_OF_MEMORY = 3
ITERATION = 0.025  # seconds of GPU work in an iteration


def say(event, **more):
    print(json.dumps(dict(event=event, **more)), flush=True)


class Work:
    """Matrix products on the GPU, as many in an iteration as take its time."""

    def __init__(self, torch):
        self.torch = torch
        n = 4096
        self.a = torch.randn(n, n, device="cuda", dtype=torch.bfloat16)
        self.b = torch.randn(n, n, device="cuda", dtype=torch.bfloat16)
        self.out = torch.empty(n, n, device="cuda", dtype=torch.bfloat16)
        self.products = 1
        self.run(20)  # warms up
        self.products = max(1, int(20 * ITERATION / max(self.run(20), 1e-6)))

    def queue(self, iterations):
        """Queues work and returns the events around it."""
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(iterations * self.products):
            self.torch.matmul(self.a, self.b, out=self.out)
        end.record()
        return begin, end

    def run(self, iterations):
        begin, end = self.queue(iterations)
        end.synchronize()
        return begin.elapsed_time(end) / 1000


def train(work, seconds):
    """Iterations one after the other, each told with its time on the GPU."""
    begin = time.monotonic()
    count, busy = 0, 0.0
    while time.monotonic() - begin < seconds:
        t0 = time.monotonic()
        gpu = work.run(1)
        t1 = time.monotonic()
        say("iteration", t0=t0, t1=t1, gpu_s=gpu)
        count, busy = count + 1, busy + gpu
    say("done", iterations=count, wall_s=time.monotonic() - begin, gpu_s=busy)


def drain(work, seconds):
    """Queues work for some time at once, says so, and waits for it. The GPU's
    own clock tells whether it went on while this process was stopped."""
    t0 = time.monotonic()
    begin, end = work.queue(int(seconds / ITERATION))
    say("queued", t0=t0, t1=time.monotonic())
    end.synchronize()
    say("done", wall_s=time.monotonic() - t0, gpu_s=begin.elapsed_time(end) / 1000)


def learn(torch, steps, pace):
    """A small network trained in a fixed way: its weights are the same after
    each run, wherever its memory was in between."""
    torch.manual_seed(7)
    torch.use_deterministic_algorithms(True)
    net = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 512)).cuda()
    best = torch.optim.SGD(net.parameters(), lr=0.01)
    x = torch.randn(256, 512, device="cuda")
    for step in range(steps):
        best.zero_grad()
        loss = ((net(x) - x) ** 2).mean()
        loss.backward()
        best.step()
        torch.cuda.synchronize()
        if step % 10 == 0:
            say("step", step=step)
        time.sleep(pace)
    total = sum(p.double().sum().item() for p in net.parameters())
    say("done", result=total.hex(), loss=loss.item().hex(), iterations=steps)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("mode", choices=["train", "drain", "learn"])
    p.add_argument("--seconds", type=float, default=10)
    p.add_argument("--steps", type=int, default=200)
    p.add_argument("--pace", type=float, default=0.05, help="seconds between two steps of learn")
    p.add_argument("--memory", type=int, default=0, help="bytes to hold on the GPU beside the work")
    o = p.parse_args()
    import torch

    try:
        held = torch.empty(o.memory, dtype=torch.uint8, device="cuda") if o.memory else None
        if held is not None:
            held.fill_(7)
            torch.cuda.synchronize()
        say("ready", torch=torch.__version__, device=torch.cuda.get_device_name(0))
        if o.mode == "learn":
            learn(torch, o.steps, o.pace)
        else:
            work = Work(torch)
            say("working", t=time.monotonic())
            (train if o.mode == "train" else drain)(work, o.seconds)
        if held is not None and held[-1].item() != 7:
            say("damaged")
            return 1
    except RuntimeError as e:
        if "out of memory" not in str(e):
            raise
        say("out-of-memory", text=str(e).splitlines()[0][:200])
        return OUT_OF_MEMORY
    return 0


if __name__ == "__main__":
    sys.exit(main())
