#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`weir lr` with a disk for checkpoints that hangs at one of its servers. Usage: hanging_disk_test.py PATH-OF-WEIR HANGING-DISK-LIBRARY [CLASS]"""

import contextlib
import functools
import json
import os
import re
import signal
import subprocess
import sys
import unittest
from pathlib import Path

import lr_testing as testing

MANAGER, HANGING, WORKER = 0, 1, 2
SILENT_S = 60  # a checkpoint of which nothing is heard fails after that
FAILED = "there is no new checkpoint, and the job goes on: "


class Hang:
    """A disk that hangs in a folder, for the processes that have its variables."""

    LIBRARY = ""

    def __init__(self, folder, name):
        self.while_there, self.checkpoints = folder / name, folder / "checkpoints"

    def variables(self):
        # A sanitizer's library would be the first one else.
        asan = ":".join(filter(None, (os.environ.get("ASAN_OPTIONS"), "verify_asan_link_order=0")))
        return {"LD_PRELOAD": self.LIBRARY, "HANG_FOLDER": os.path.realpath(self.checkpoints), "HANG_WHILE": str(self.while_there), "ASAN_OPTIONS": asan}

    def begin(self):
        Path(f"{self.while_there}.waits").unlink(missing_ok=True)
        self.while_there.touch()

    def has_begun(self):
        return Path(f"{self.while_there}.waits").exists()

    def end(self):
        self.while_there.unlink()


class Jobs(testing.Folder):
    def job(self, name):
        """An endless training, with the ranks above, in a folder of its own."""
        folder = self.folder / name
        (folder / "checkpoints").mkdir(parents=True)
        train = testing.write(folder / "train", testing.endless())
        command = [self.WEIR, "lr", "--train", train, *testing.ENDLESS, "--servers", "2", "--workers", "1", "--checkpoint", str(folder / "checkpoints")]
        return testing.Ranks(folder, command, 3)

    def begin(self, job, hang):
        for rank in range(3):
            job.start(rank, hang.variables() if rank == HANGING else None)
        self.assertTrue(job.until_training(), job.everything())

    @contextlib.contextmanager
    def joined(self, job, hang):
        """A server that has joined the job, and has taken a part of the tables."""
        contact = f"127.0.0.1:{job.port}"

        def is_at_rest():
            done = testing.run([self.WEIR, "status", "--json", contact], testing.clean_environment({}), testing.LIMIT_S)
            status = json.loads(done.out) if done.code == 0 else None
            return status and len(status["servers"]) == 3 and status["moves"]["segments_to_move"] == 0

        with open(job.folder / "joined.err", "wb") as err, \
             subprocess.Popen([self.WEIR, "server", "--join", contact], stdin=subprocess.DEVNULL, stdout=err, stderr=err,
                              env=testing.clean_environment({**testing.POOL, **hang.variables()})) as process:
            try:
                self.assertTrue(job.until(is_at_rest), job.everything())
                yield process
            finally:
                process.kill()

    def hangs(self, job, *hangs):
        """A checkpoint is asked for, and disks hang in it."""
        for hang in hangs:
            hang.begin()
        os.kill(job.pid(MANAGER), signal.SIGUSR1)
        self.assertTrue(job.until(lambda: all(hang.has_begun() for hang in hangs)), job.everything())

    def trains_on(self, job):
        self.assertTrue(job.trains_on(WORKER), job.everything())

    def says(self, job, rank, text, seconds=testing.LIMIT_S):
        self.assertTrue(job.until(lambda: re.search(text, job.err(rank)), seconds), f"{text}\n{job.everything()}")


class GoesOn(Jobs, unittest.TestCase):
    asked = 0  # the next one is asked for when so many have failed

    def is_written(self, job):
        """Whether there is a checkpoint. Asks for one, and again: one may be refused just before the hang has ended."""
        if job.err(MANAGER).count(FAILED) >= self.asked:
            self.asked = job.err(MANAGER).count(FAILED) + 1
            os.kill(job.pid(MANAGER), signal.SIGUSR1)
        return re.search(r"checkpoint \d+ is in ", job.err(MANAGER))

    def test_the_job_goes_on_and_says_what_hangs_and_writes_checkpoints_when_that_ends(self):
        with self.job("job") as job:
            hang = Hang(job.folder, "hang")
            disk = re.escape(str(hang.checkpoints))
            self.begin(job, hang)
            self.hangs(job, hang)
            self.trains_on(job)
            self.says(job, MANAGER, rf"{FAILED}shard {HANGING} has written nothing to {disk} for 60 s: "
                                    "its disk, or the network to it, hangs", SILENT_S + testing.LIMIT_S)
            self.trains_on(job)
            # One that is asked for now fails at once: it does not wait for the disk.
            os.kill(job.pid(MANAGER), signal.SIGUSR1)
            self.says(job, MANAGER, rf"{FAILED}shard {HANGING}: the disk of {disk}, or the network to it, hangs: "
                                    r"what it was given earlier has not moved for \d+ s", SILENT_S / 2)
            self.trains_on(job)
            self.assertNotIn("is in", job.err(MANAGER))

            hang.end()
            self.assertTrue(job.until(functools.partial(self.is_written, job)), job.everything())
            done = testing.run([self.WEIR, "checkpoint", "verify", hang.checkpoints], testing.clean_environment({}), testing.LIMIT_S)
            self.assertEqual((done.code, done.err), (0, ""))
            self.assertRegex(done.out, r"checkpoint \d+: whole\n")
            self.trains_on(job)


class Ends(Jobs, unittest.TestCase):
    def test_a_job_that_is_stopped_ends_without_a_disk_that_hangs(self):
        """The disks of a rank and of a server that has joined, before anybody knows that they hang."""
        with self.job("stopped") as job:
            hang, at_joined = Hang(job.folder, "hang"), Hang(job.folder, "at-joined")
            self.begin(job, hang)
            with self.joined(job, at_joined) as joined:
                self.hangs(job, hang, at_joined)
                self.trains_on(job)
                for process in (*job.processes.values(), joined):
                    process.send_signal(signal.SIGTERM)
                self.assertEqual([job.wait(rank) for rank in range(3)], [143] * 3, job.everything())
                self.assertEqual(joined.wait(testing.LIMIT_S), 143, job.everything())
            without = rf" ends without the disk of {re.escape(str(hang.checkpoints))}: that, or the network to it, hangs, and has finished nothing for \d+ s"
            self.assertRegex(job.err(HANGING), f"rank {HANGING}{without}")
            self.assertRegex((job.folder / "joined.err").read_text(encoding="utf-8"), f"this server{without}")


if __name__ == "__main__":
    Hang.LIBRARY = os.path.abspath(sys.argv.pop(2))
    testing.main(Jobs, __name__)
