#!/usr/bin/env python3
"""Stands in for scripts/gpucheck/train.py where there is a simulated GPU and no
PyTorch: the simulated trainer, whose lines a child of this process turns into
events. What only a real GPU can tell is said to be impossible."""
import argparse
import json
import os
import sys
import time

GPU_MS, CPU_MS = 20, 5


def say(event, **more):
    print(json.dumps(dict(event=event, **more)), flush=True)


def translate(lines):
    """Reads the trainer's lines: "iter N" now and then, and "done ..." at its end."""
    begin = last = time.monotonic()
    count = 0
    for line in lines:
        now, word = time.monotonic(), line.split()
        if word[:1] == ["iter"]:
            now_at = int(word[1].partition("/")[0])  # "5/150" where the end is known
            made = now_at - count
            say("iteration", t0=last, t1=now, gpu_s=made * GPU_MS / 1000)
            last, count = now, now_at
        elif word[:1] == ["done"]:
            count = int(word[1].partition("=")[2])
            say("done", iterations=count, wall_s=now - begin, gpu_s=count * GPU_MS / 1000, result=f"{count} iterations")
        elif "out of memory" in line:
            say("out-of-memory", text=line.strip())


def main():
    p = argparse.ArgumentParser()
    p.add_argument("mode")
    p.add_argument("--seconds", default="10")
    p.add_argument("--steps", default="200")
    p.add_argument("--pace")
    p.add_argument("--memory", default="0")
    o = p.parse_args()
    if o.mode == "drain":
        say("impossible", text="the simulated trainer has no clock on the GPU")
        return
    read, write = os.pipe()
    if os.fork() == 0:
        os.close(write)
        translate(os.fdopen(read))
        os._exit(0)
    end = ["--iterations", o.steps] if o.mode == "learn" else ["--seconds", o.seconds]
    say("ready")
    say("working", t=time.monotonic())
    os.dup2(write, 1)
    os.dup2(write, 2)
    trainer = os.environ["SIMGPU_TRAINER"]
    memory = str(max(int(o.memory) >> 20, 64)) + "MiB"
    os.execv(trainer, [trainer, "--memory", memory, "--report", "0.1", "--gpu-ms", str(GPU_MS), "--cpu-ms", str(CPU_MS), *end])


if __name__ == "__main__":
    sys.exit(main())
