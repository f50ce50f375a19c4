# SPDX-License-Identifier: Apache-2.0
"""Jobs that write checkpoints and are killed as a whole at a random instant; each goes on from what the one before has left."""

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

LIMIT_S = 300  # for a job to begin, and for the last one to end
PAUSE_S = 0.7  # at most, from when a job has gone on to when it is killed


class Failed(Exception):
    """What was wrong, for a person."""


class Restarts:
    """Checkpoints in one folder, and the jobs that write them."""

    def __init__(self, flags, folder):
        self.weir, self.brief = flags.weir, ["--brief"] if flags.brief else []
        self.checkpoints, self.out = Path(folder) / "checkpoints", Path(folder) / "restart.out"
        self.dice, self.seen, self.resumed, self.half_written = random.Random(flags.seed), [], {}, 0
        self.checkpoints.mkdir()

    def command(self, *more):
        """A job of another size than the one before, most likely."""
        servers = self.dice.randint(1, 3)
        size = {"--servers": servers, "--shards": self.dice.randint(1, 2), "--workers": self.dice.randint(1, 2),
                "--replicas": self.dice.randint(0, 1) if servers > 1 else 0}
        words = [str(word) for flag in size.items() for word in flag]
        return [self.weir, "bench", "restart", "--local", "--folder", str(self.checkpoints), *self.brief, *words, *more]

    def tool(self, *words):
        return subprocess.run([self.weir, "checkpoint", *words[:1], str(self.checkpoints), *words[1:]], capture_output=True, text=True,
                              timeout=LIMIT_S, check=False)

    def newest(self):
        """What is listed must be whole."""
        listed = self.tool("list", "--json")
        numbers = [one["checkpoint"] for one in json.loads(listed.stdout)] if listed.returncode == 0 else []
        if not numbers:
            if any(self.checkpoints.glob("*.manifest")):
                raise Failed(f"checkpoints that are there are not listed: {listed.stdout}{listed.stderr}")
            return 0
        verified = self.tool("verify")
        if verified.returncode != 0:
            raise Failed(f"a checkpoint that is listed is not whole: {verified.stdout}{verified.stderr}")
        return max(numbers)

    def lines(self):
        """Whole ones only: the job may have been killed while it wrote one."""
        return [json.loads(line) for line in self.out.read_text(encoding="utf-8").splitlines(True) if line.endswith("}\n")]

    def check_resumed(self, found, newest):
        number = found.pop("resumed")
        if number != newest:
            raise Failed(f"the job goes on from checkpoint {number}, and the newest one is {newest}")
        # When checkpoint L was seen to be complete, L + 1 may have begun, and L + 2 had not: it has what was acknowledged before.
        known = [self.resumed] if self.resumed else []
        known += [seen for seen in self.seen if seen["seen"] <= number - 2]
        for before in known:
            lost = {table: count for table, count in found.items() if count < before[table]}
            if lost:
                raise Failed(f"checkpoint {number} has {lost} pushes; before it was begun there were {before}")
        self.resumed = found

    def run(self, is_patient):
        newest = self.newest()
        with open(self.out, "wb") as out:
            job = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=out,  # pylint: disable=consider-using-with
                                   env={"WEIR_POOL_MIB": "128", "WEIR_LOG": "error", **os.environ}, start_new_session=True)
        try:
            end = time.monotonic() + LIMIT_S
            while len(self.lines()) < (2 if is_patient else 1):
                if job.poll() is not None or time.monotonic() > end:
                    raise Failed(f"the job does not go on from checkpoint {newest}: exit {job.poll()}, see above")
                time.sleep(0.002)
            time.sleep(self.dice.uniform(0, PAUSE_S))
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGKILL)  # all ranks
            job.wait()
        first, *seen = self.lines()
        self.check_resumed(first, newest)
        self.seen = seen  # what was acknowledged later than the newest checkpoint is lost with the job
        left = self.newest()
        if left < max((one["seen"] for one in seen), default=newest):
            raise Failed(f"a checkpoint was complete, and is not there: {seen[-1]}, newest {left}")
        unnamed = [name for name in os.listdir(self.checkpoints) if name.split(".")[0].isdigit() and int(name.split(".")[0]) > left]
        self.half_written += bool(unnamed)
        return left

    def finish(self):
        """The last job ends by itself."""
        done = subprocess.run(self.command("--turns", "3"), stdout=subprocess.DEVNULL, timeout=LIMIT_S, check=False,
                              env={"WEIR_POOL_MIB": "128", "WEIR_LOG": "error", **os.environ})
        if done.returncode != 0:
            raise Failed(f"the last job ended with {done.returncode}, see above")


def interrupt(flags, folder):
    """The report. Raises Failed."""
    restarts = Restarts(flags, folder)
    for i in range(flags.checkpoints):
        left = restarts.run(is_patient=i % 4 != 3)
        print(f"checkpoint {i + 1} of {flags.checkpoints}: killed; number {left} is the newest whole one", flush=True)
    restarts.finish()
    return {"interrupted": flags.checkpoints, "half_written": restarts.half_written, "pushes": sum(restarts.resumed.values()),
            "whole": restarts.newest()}
