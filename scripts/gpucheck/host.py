"""What gpu-check stands on: the driver's library, jobs under gimbal run, and
processes."""
import ctypes
import json
import os
import signal
import statistics
import subprocess
import threading
import time
from pathlib import Path


class Failed(Exception):
    """A step went wrong."""


class Impossible(Exception):
    """A step cannot be done on this machine; that is no failure."""


class NVML:
    """The few calls of the driver's library that the check needs."""

    def __init__(self, library):
        try:
            self.lib = ctypes.CDLL(library)
            self.handle = ctypes.c_void_p()
            self.call("nvmlInit_v2")
            self.call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(0), ctypes.byref(self.handle))
        except (OSError, Failed) as e:
            raise Impossible(f"no GPU: {e}") from None

    def call(self, name, *args):
        code = getattr(self.lib, name)(*args)
        if code:
            raise Failed(f"{name} returns {code}")

    def text(self, name):
        buf = ctypes.create_string_buffer(96)
        args = (self.handle, buf, 96) if "Device" in name else (buf, 96)
        self.call(name, *args)
        return buf.value.decode()

    def memory(self):
        m = (ctypes.c_ulonglong * 3)()  # total, free, used
        self.call("nvmlDeviceGetMemoryInfo", self.handle, ctypes.byref(m))
        return {"total": m[0], "free": m[1], "used": m[2]}

    def utilisation(self):
        u = (ctypes.c_uint * 2)()  # gpu, memory
        self.call("nvmlDeviceGetUtilizationRates", self.handle, ctypes.byref(u))
        return u[0] / 100

    def pids(self):
        count, room = ctypes.c_uint(64), (ctypes.c_uint64 * (3 * 64))()  # pid, memory, instances
        self.call("nvmlDeviceGetComputeRunningProcesses_v3", self.handle, ctypes.byref(count), room)
        return {room[3 * i] & 0xFFFFFFFF for i in range(count.value)}


class Sampler:
    """Reads the GPU's utilisation while it is entered."""

    def __init__(self, nvml):
        self.nvml, self.values, self.stop = nvml, [], threading.Event()

    def __enter__(self):
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()
        return self

    def read(self):
        while not self.stop.wait(0.1):
            try:
                self.values.append((time.monotonic(), self.nvml.utilisation()))
            except Failed:
                return

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join(2)

    def mean(self, begin, end):
        inside = [v for t, v in self.values if begin <= t <= end]
        return statistics.mean(inside) if inside else None


class Job:
    """A training job, under gimbal run unless it is plain."""

    def __init__(self, check, mode, *args, plain=False, memory=None, policy="check", name="job"):
        self.events, self.check, self.name = [], check, name
        command = [*check.trainer, mode, *map(str, args)]
        if not plain:
            options = [f"--policy={policy}", f"--name={name}", "--gpus=0"]
            if memory:
                options.append(f"--memory={memory >> 20}MiB")
            command = [str(check.gimbal), "run", *options, "--", *command]
        self.started = time.monotonic()
        self.errors = open(check.dir / f"{name}.err", "w")
        self.proc = subprocess.Popen(command, env=check.env, stdout=subprocess.PIPE, stderr=self.errors,
                                     text=True, start_new_session=True)
        self.changed = threading.Condition()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        check.jobs.append(self)

    def read(self):
        for line in self.proc.stdout:
            try:
                event = json.loads(line)
            except ValueError:
                continue
            with self.changed:
                self.events.append(dict(event, seen=time.monotonic()))
                self.changed.notify_all()

    def find(self, name):
        with self.changed:
            return [e for e in self.events if e["event"] == name]

    def await_event(self, name, limit, after=0.0):
        """Returns the first such event that was seen after a moment."""
        end = min(time.monotonic() + limit, self.check.end)
        with self.changed:
            while True:
                for e in self.events:
                    if e["event"] == "impossible":
                        raise Impossible(e["text"])
                found = [e for e in self.events if e["event"] == name and e["seen"] > after]
                if found:
                    return found[0]
                if self.proc.poll() is not None and not self.reader.is_alive():
                    raise Failed(f"{self.name} ended with {self.proc.returncode} before '{name}': {self.said()}")
                left = end - time.monotonic()
                if left <= 0:
                    raise Failed(f"{self.name}: no '{name}' within {limit:.0f} s: {self.said()}")
                self.changed.wait(min(left, 0.2))

    def said(self):
        return Path(self.errors.name).read_text().strip()[-300:]

    def wait(self, limit):
        try:
            code = self.proc.wait(max(0.1, min(limit, self.check.end - time.monotonic())))
        except subprocess.TimeoutExpired:
            raise Failed(f"{self.name} does not end within {limit:.0f} s") from None
        self.reader.join(5)
        return code

    def pid(self):
        """The trainer's process: the child of gimbal run."""
        for task in Path(f"/proc/{self.proc.pid}/task").iterdir():
            found = (task / "children").read_text().split()
            if found:
                return int(found[0])
        raise Failed(f"{self.name}: gimbal run has no child")

    def kill(self):
        if self.proc.poll() is None:
            try:
                os.killpg(self.proc.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.proc.wait(10)
        self.errors.close()


def stopped(pid):
    """Whether a process is stopped."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        raise Failed("it ended before it was stopped or continued") from None
    return text[text.rindex(")") + 2] in "Tt"


def poll(what, limit, ok):
    """Waits until ok() and returns how long that took."""
    begin = time.monotonic()
    while not ok():
        if time.monotonic() - begin > limit:
            raise Failed(f"{what}: not within {limit} s")
        time.sleep(0.001)
    return time.monotonic() - begin


def poll_pid(nvml, job):
    """Whether the driver shows a job's process under the pid that it has here."""
    for _ in range(20):
        try:
            if job.proc.pid in nvml.pids():
                return True
        except Failed:
            return False
        time.sleep(0.1)
    return False


def overlap(a, b):
    """For how long spans of two lists lie over each other."""
    total, i, k = 0.0, 0, 0
    while i < len(a) and k < len(b):
        total += max(0.0, min(a[i][1], b[k][1]) - max(a[i][0], b[k][0]))
        if a[i][1] < b[k][1]:
            i += 1
        else:
            k += 1
    return total


def spread(values):
    return {"median": statistics.median(values), "max": max(values), "n": len(values)}


def words(value):
    """A figure as the table shows it."""
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return f"median {value['median']:.1f}, at most {value['max']:.1f} (of {value['n']})"
    if isinstance(value, list):
        return ", ".join(map(words, value))
    return f"{value:.3g}" if isinstance(value, float) else str(value)
