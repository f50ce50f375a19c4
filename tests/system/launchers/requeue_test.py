#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Slurm job that is requeued goes on from its checkpoint by itself. Usage: requeue_test.py PATH-OF-WEIR

Exit 77 if Slurm is not installed.
"""

import os
import sys
import time
import unittest
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent.parent)]
import launch as launchers  # noqa: E402
import lr_testing as testing  # noqa: E402

GRACE_S = 40  # no pass of a busy machine takes longer; below the KillWait of slurm.sh
SETTINGS = ("--l1", "1", "--passes", "100000000")

# As on tools/weir/running.md, but the first start trains until a signal ends it. Slurm does not requeue a job by itself that ends
# before its time limit, so the script asks for it.
SCRIPT = """#!/bin/bash
#SBATCH --requeue
#SBATCH --ntasks=3
#SBATCH --output={folder}/log
#SBATCH --open-mode=append
echo "start number ${{SLURM_RESTART_COUNT:-0}}"
[ -n "$SLURM_RESTART_COUNT" ] || endless="--tolerance 0"
srun --mpi=pmix {weir} lr --servers 2 --train {data} {settings} $endless --json {folder}/json \\
    --checkpoint {folder}/checkpoints --checkpoint-every 50 --resume auto --grace {grace}
code=$?
echo "srun ended with $code"
if [ $code -eq 143 ]; then scontrol requeue "$SLURM_JOB_ID" && sleep 60; fi
exit $code
"""


class Requeue(testing.Folder, unittest.TestCase):
    SLURM = {}

    def setUp(self):
        super().setUp()
        data = testing.write(self.path("train"), testing.dense(10000, 40))
        os.mkdir(self.path("checkpoints"))
        alone = self.lr("--train", data, "--l1", "1", "--json", self.path("alone"))
        self.assertEqual(alone.code, 0, alone.err)
        self.optimum = testing.read_json(self.path("alone"))["objective"]
        script = SCRIPT.format(folder=self.folder, weir=self.WEIR, data=data, settings=" ".join(SETTINGS), grace=GRACE_S)
        Path(self.path("script")).write_text(script, encoding="ascii")

    def slurm(self, *words, may_fail=False):
        done = testing.run(words, testing.clean_environment({**testing.POOL, **self.SLURM}), testing.LIMIT_S)
        self.assertTrue(may_fail or done.code == 0, f"{words}: {done}")
        return done.out.strip()

    def log(self):
        path = Path(self.path("log"))
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def until(self, true):
        end = time.monotonic() + testing.LIMIT_S
        while not true():
            if time.monotonic() >= end:
                self.fail(f"not within {testing.LIMIT_S} s\n{self.slurm('squeue', '-t', 'all')}\n{self.log()}\n{self.slurm_logs()}")
            time.sleep(0.05)

    def slurm_logs(self):
        """What Slurm's daemons wrote, the last lines: slurm.sh keeps it beside its slurm.conf."""
        folder = Path(self.SLURM["SLURM_CONF"]).parent / "log"
        return "\n".join(f"{path.name}: {line}" for path in sorted(folder.glob("*.log"))
                         for line in path.read_text(encoding="utf-8", errors="replace").splitlines()[-40:])

    def newest(self):
        """The number of the newest checkpoint, 0 without one."""
        return max((int(name.split(".")[0]) for name in os.listdir(self.path("checkpoints")) if name.endswith(".manifest")), default=0)

    def state(self, job):
        """Empty when Slurm has forgotten the job."""
        return self.slurm("squeue", "-h", "-t", "all", "-j", job, "-o", "%T", may_fail=True)

    def start(self):
        job = self.slurm("sbatch", "--parsable", self.path("script"))
        self.until(lambda: self.newest() >= 1)
        return job

    def check_drained(self, job, began):
        """The first start has ended as it should. Returns the objective to which it had come."""
        self.until(lambda: self.state(job) == "PENDING")
        self.assertLess(time.monotonic() - began, GRACE_S, self.log())
        self.assertRegex(self.log(), r"weir: stopped by SIGTERM: the training ended after pass \d+; the results so far are written")
        # srun ends first if its job script is killed, and then does not name the others.
        self.assertRegex(self.log(), r"srun: error: n1: tasks? .*: Exited with exit code 143")
        stopped = testing.read_json(self.path("json"))
        self.assertEqual(stopped["ended_because"], "stopped by SIGTERM")
        return stopped["objective"]

    def check_resumed(self, job, stopped):
        """It starts again, and ends where an undisturbed one does."""
        newest = self.newest()
        # By itself Slurm waits for two minutes. A start in the second in which the first one was revoked is refused: slurmd
        # counts whole seconds, and takes the new start's credential for the old one's ("Job credential revoked").
        self.slurm("scontrol", "update", f"JobId={job}", "StartTime=now+2")
        self.until(lambda: "srun ended with 0" in self.log())
        self.assertIn("start number 1", self.log())
        second = self.log().split("start number 1")[1]
        self.assertIn(f"weir: the job goes on from checkpoint {newest} of {self.path('checkpoints')}", second)
        result = testing.read_json(self.path("json"))
        self.assertLessEqual(result["history"][0]["objective"], stopped * (1 + 1e-9))
        self.near(result["objective"], self.optimum)
        self.until(lambda: self.state(job) in ("COMPLETED", ""))

    def test_who_requeues_a_job_sees_it_drain_and_go_on(self):
        job, began = self.start(), time.monotonic()
        self.slurm("scontrol", "requeue", job)
        stopped = self.check_drained(job, began)
        self.check_resumed(job, stopped)

    def test_a_job_that_gets_sigterm_before_its_time_limit_requeues_itself(self):
        job, began = self.start(), time.monotonic()
        self.slurm("scancel", "--signal=TERM", job)  # as --signal=TERM@300 does
        stopped = self.check_drained(job, began)
        self.assertIn("srun ended with 143", self.log())
        self.check_resumed(job, stopped)

    def test_who_cancels_a_job_ends_it_for_good(self):
        job = self.start()
        self.slurm("scancel", job)
        self.until(lambda: self.state(job) in ("CANCELLED", ""))
        self.assertRegex(self.log(), r"weir: stopped by SIGTERM: the training ended after pass \d+; the results so far are written")
        self.assertNotIn("start number 1", self.log())


if __name__ == "__main__":
    try:
        with launchers.slurm() as Requeue.SLURM:
            testing.main(Requeue, "__main__")
    except launchers.Missing as missing:
        print(f"SKIPPED: {missing}")
        sys.exit(77)
