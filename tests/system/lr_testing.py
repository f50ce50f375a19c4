# SPDX-License-Identifier: Apache-2.0
"""What the tests of `weir lr` share: data sets, a solver to compare with, and starting the program."""

import contextlib
import gzip
import json
import math
import os
import pty
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tty
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "launchers"))
from launch import Done, ReservedPort, clean_environment, run  # noqa: E402, F401

LIMIT_S = 60  # no run of these tests may take longer, whatever else the machine does
POOL = {"WEIR_POOL_MIB": "32"}
# Flags of a training that ends when it is stopped. The objective of endless() falls all the time.
ENDLESS = ("--l1", "0", "--passes", "100000000", "--tolerance", "0")
# How the error of a worker begins whose only manager was killed: a regular expression.
MANAGER_GONE = r"the manager \(rank 0\) is gone: its process has ended; without it the job cannot go on"


def seed():
    return int(os.environ.get("WEIR_SEED", "20141006"))


def dense(examples=200, features=8):
    """Examples (label, {feature: value}) in which every feature is there; feature numbers from 1."""
    dice = random.Random(seed())
    weights = [dice.gauss(0, 1) for _ in range(features)]
    rows = []
    for _ in range(examples):
        values = [round(dice.gauss(0, 1), 3) for _ in range(features)]
        score = sum(w * v for w, v in zip(weights, values)) + dice.gauss(0, 1)
        rows.append((1 if score > 0 else -1, {f + 1: v for f, v in enumerate(values)}))
    return rows


def text_like(examples=300, words=400, per_example=12):
    """Examples with a few of many words, frequent ones more often; words are 64-bit hashes."""
    dice = random.Random(seed() + 1)
    hashes = [dice.getrandbits(64) for _ in range(words)]
    frequency = [1 / (rank + 1) for rank in range(words)]
    telling = {word: dice.gauss(0, 2) for word in dice.sample(hashes, words // 4)}
    rows = []
    for _ in range(examples):
        found = set(dice.choices(hashes, frequency, k=per_example))
        row = {word: round(dice.uniform(0.1, 1), 3) for word in found}
        score = sum(telling.get(word, 0) * value for word, value in row.items()) + dice.gauss(0, 0.3)
        rows.append((1 if score > 0 else -1, row))
    return rows


def far_from_zero(examples=250, features=8, offset=1000):
    """Examples whose values differ by little beside what they have in common; exact in float32."""
    dice = random.Random(seed() + 3)
    weights = [dice.gauss(0, 1) for _ in range(features)]
    rows = []
    for _ in range(examples):
        values = [round(dice.gauss(0, 64)) / 64 for _ in range(features)]
        score = sum(w * v for w, v in zip(weights, values)) + dice.gauss(0, 1)
        rows.append((1 if score > 0 else -1, {f + 1: offset + v for f, v in enumerate(values)}))
    return rows


def endless():
    dice = random.Random(seed() + 2)
    return [(dice.choice((-1, 1)), {dice.randrange(300): round(dice.uniform(0.1, 1), 3) for _ in range(12)} | {1000 + i: 1.0})
            for i in range(100)]


def write(path, rows):
    text = "".join(f"{label:+d} {' '.join(f'{f}:{v}' for f, v in row.items())}\n" for label, row in rows)
    path = Path(path)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return str(path)


def loss(margin):
    return math.log1p(math.exp(-margin)) if margin > 0 else math.log1p(math.exp(margin)) - margin


def objective(rows, model, l1):
    scores = (label * sum(model.get(f, 0) * v for f, v in row.items()) for label, row in rows)
    return sum(map(loss, scores)) + l1 * sum(map(abs, model.values()))


def bound(rows, model, l1):
    """No weights have a lower objective than this; near that of the model if the model is good. (The dual problem's value.)"""
    parts = [1 / (1 + math.exp(label * sum(model.get(f, 0) * v for f, v in row.items()))) for label, row in rows]
    slopes = {}
    for part, (label, row) in zip(parts, rows):
        for feature, value in row.items():
            slopes[feature] = slopes.get(feature, 0) + part * label * value
    scale = min(1.0, l1 / max(map(abs, slopes.values())))
    return -sum(p * math.log(p) for part in parts for p in (scale * part, 1 - scale * part) if p > 0)


def like_adult(examples=1000):
    """Examples as surveys give them: one feature with the value 1 out of each of 14 questions' answers, common ones more often, and
    a rarer class +1."""
    dice = random.Random(seed() + 4)
    answers = (5, 8, 5, 16, 7, 7, 14, 6, 5, 2, 2, 2, 5, 40)  # to each question
    first = [1 + sum(answers[:question]) for question in range(len(answers))]
    weights = {feature: dice.gauss(0, 0.7) for feature in range(1, 1 + sum(answers))}
    rows = []
    for _ in range(examples):
        row = {}
        for begin, count in zip(first, answers):
            if dice.random() < 0.97:  # some do not answer
                row[begin + dice.choices(range(count), [1 / (1 + i) for i in range(count)])[0]] = 1.0
        rows.append(row)
    scores = [sum(weights[feature] for feature in row) for row in rows]
    middle = sorted(scores)[examples * 3 // 4]
    return [(1 if dice.random() < 1 / (1 + math.exp(middle - score)) else -1, row) for score, row in zip(scores, rows)]


def solve(rows, l1, sweeps=60):
    """The objective's optimum; see optimum()."""
    return optimum(rows, l1, sweeps)[0]


def optimum(rows, l1, sweeps=60):
    """The objective's optimum and its weights by Newton steps in one coordinate after the other; it shares no code with Weir."""
    columns = {}
    for i, (label, row) in enumerate(rows):
        for feature, value in row.items():
            columns.setdefault(feature, []).append((i, label * value))
    weights = dict.fromkeys(columns, 0.0)
    margins = [0.0] * len(rows)
    for _ in range(sweeps):
        largest = 0.0
        for feature, column in columns.items():
            gradient = curvature = 0.0
            for i, x in column:
                p = 1 / (1 + math.exp(min(margins[i], 700)))
                gradient -= x * p
                curvature += x * x * p * (1 - p)
            old, curvature = weights[feature], curvature + 1e-12
            target = old - gradient / curvature
            new = math.copysign(max(abs(target) - l1 / curvature, 0), target)
            before = sum(loss(margins[i]) for i, _ in column) + l1 * abs(old)
            while new != old and sum(loss(margins[i] + x * (new - old)) for i, x in column) + l1 * abs(new) > before:
                new = old + (new - old) / 2 if abs(new - old) > 1e-12 else old
            if new != old:
                largest = max(largest, abs(new - old))
                for i, x in column:
                    margins[i] += x * (new - old)
                weights[feature] = new
        if largest < 1e-6:
            break
    return objective(rows, weights, l1), weights


def patiently(test):
    """Runs test(join_timeout_s), which waits for a time limit of the program: first a short one, and if a busy machine was too
    slow for that, longer ones."""
    for join_timeout_s in ("2", "8"):
        try:
            return test(join_timeout_s)
        except AssertionError as error:
            print(f"again, with more time: {error}", flush=True)
    return test("30")


def answer_of(ask):
    """What ask() returns, which is None as long as nobody answers: a job that runs is asked again if its machine is too busy."""
    return next((answer for answer in (ask() for _ in range(4)) if answer is not None), None)


def sanitized():
    """Whether the program is one with ASan, for which an address space has no limit that would mean anything."""
    return os.environ.get("WEIR_TEST_SANITIZED") == "1"


def read_model(path):
    lines = Path(path).read_text(encoding="ascii").splitlines()
    return {int(feature): float(value) for feature, value in (line.split(" ") for line in lines)}


def read_json(path):
    return json.loads(Path(path).read_text(encoding="utf-8"))


def takes_sigterm(pid):
    """Whether a process has a handler of SIGTERM."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        caught = next(int(line.split()[1], 16) for line in file if line.startswith("SigCgt:"))
    return caught >> (signal.SIGTERM - 1) & 1 == 1


class Terminal:
    """A terminal for one program: what is written to it goes to a file, too. A program shows its progress here ten times a
    second; in a file it would become less and less, down to once in five seconds, which tests would wait for."""

    def __init__(self, path):
        self.ours, self.programs = pty.openpty()
        tty.setraw(self.programs)
        self.path = path
        self.path.touch()
        self.thread = threading.Thread(target=self.copy)
        self.thread.start()

    def copy(self):
        with open(self.path, "wb") as file, contextlib.suppress(OSError):  # the program has ended
            while written := os.read(self.ours, 1 << 16):
                file.write(written.replace(b"\r", b"\n"))
                file.flush()
        os.close(self.ours)

    def __enter__(self):
        return self.programs

    def __exit__(self, *_):
        os.close(self.programs)


class Ranks:
    """Processes of one job started by hand, with terminals. Processes that still run at the end are killed."""

    def __init__(self, folder, command, size, extra=None, host="127.0.0.1", shows="pass "):
        """`shows`: what the lines of progress have."""
        self.shows = shows
        self.reserved = ReservedPort()
        self.folder, self.size, self.host, self.port = Path(folder), size, host, self.reserved.number
        self.command, self.extra, self.processes, self.terminals = command, {**POOL, **(extra or {})}, {}, {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        for rank in self.processes:
            self.wait(rank)
        self.reserved.close()

    def start(self, rank, extra=None, flags=(), within=()):
        """`within`: a command that runs the rank's."""
        words = [*within, *self.command, "--rendezvous", f"{self.host}:{self.port}", "--rank", str(rank), "--size", str(self.size), *flags]
        self.terminals[rank] = Terminal(self.folder / f"{rank}.err")
        with open(self.folder / f"{rank}.out", "wb") as out, self.terminals[rank] as err:
            self.processes[rank] = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=err,  # pylint: disable=consider-using-with
                                                    env=clean_environment({**self.extra, **(extra or {})}), start_new_session=True)

    def start_all(self):
        for rank in range(self.size):
            self.start(rank)

    def pid(self, rank):
        return self.processes[rank].pid

    def running(self, rank):
        return self.processes[rank].poll() is None

    def kill(self, rank):
        self.processes[rank].kill()
        self.wait(rank)

    def err(self, rank):
        return (self.folder / f"{rank}.err").read_text(errors="replace")

    def everything(self):
        return "\n".join(f"rank {rank}: exit {process.poll()}\n{self.err(rank)}" for rank, process in self.processes.items())

    def until(self, true, seconds=LIMIT_S):
        """Waits until true() returns a true value; False if it did not in time."""
        end = time.monotonic() + seconds
        while not true():
            if time.monotonic() > end:
                return False
            time.sleep(0.02)
        return True

    def takes_signals(self, rank):
        """Whether the rank has a handler of SIGTERM. A rank that only serves may install it after the others have begun to train."""
        return takes_sigterm(self.pid(rank))

    def until_training(self):
        """Waits until the ranks train, and a signal that comes now is remembered by each of them."""
        return self.until(lambda: any(self.shows in self.err(rank) for rank in self.processes) and
                          all(self.takes_signals(rank) for rank in self.processes if self.running(rank)))

    def wait(self, rank, seconds=LIMIT_S):
        """The exit code, or None if the process does not end."""
        try:
            code = self.processes[rank].wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        self.terminals[rank].thread.join()
        return code

    def trains_on(self, rank):
        """Waits until the rank has shown its progress three times."""
        before = self.err(rank).count(self.shows)
        return self.until(lambda: self.err(rank).count(self.shows) > before + 2)


class ServersThatDie:
    """For unittest: jobs by Ranks, of which the ranks WORKERS train without an end, and the others serve."""

    WORKERS = (3, 4)

    def weir(self, *words, **variables):
        return run([self.WEIR, *map(str, words)], clean_environment({**POOL, **variables}), LIMIT_S)

    def trains_on(self, job):
        self.assertTrue(job.trains_on(self.WORKERS[0]), job.everything())

    def ends(self, job, ranks):
        for rank in self.WORKERS:
            os.kill(job.pid(rank), signal.SIGTERM)
        self.assertEqual([job.wait(rank) for rank in ranks], [143] * len(ranks), job.everything())


class Folder:
    """For unittest: self.path(name) in a temporary folder, self.lr(...) in one process."""

    WEIR = ""

    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="weir-lr-")
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def path(self, name):
        return str(self.folder / name)

    def lr(self, *arguments, timeout_s=LIMIT_S, **variables):
        return run([self.WEIR, "lr", *arguments], clean_environment({**POOL, **variables}), timeout_s)

    def near(self, found, wanted):
        self.assertAlmostEqual(found / wanted, 1, delta=1e-3, msg=f"objective {found}, but it is {wanted}")


def main(folder_class, module):
    import unittest  # pylint: disable=import-outside-toplevel
    folder_class.WEIR = os.path.abspath(sys.argv.pop(1))
    print(f"seed {seed()} (WEIR_SEED sets it)", flush=True)
    unittest.main(module=module, verbosity=2)  # names every case, and why one is skipped
