#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`weir synth` and the file it writes: the whole file, or the old one. Usage: synth_test.py PATH-OF-WEIR"""

import contextlib
import os
import resource
import stat
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

WEIR = ""
SMALL = ("--examples", "300", "--features", "1000", "--per-example", "5")


def synth(out, *arguments, prepare=None, stdout=subprocess.PIPE):
    return subprocess.run([WEIR, "synth", "--out", out, *SMALL, *arguments], stdout=stdout, stderr=subprocess.PIPE, text=True,
                          timeout=60, check=False, preexec_fn=prepare)


def small_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))


class Synth(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="weir-synth-")
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def names(self):
        return sorted(path.name for path in self.folder.iterdir())

    def test_a_file_that_was_there_is_replaced_by_the_whole_new_one_alone(self):
        out = self.folder / "out"
        out.write_text("old")
        done = synth(out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(out.read_text().splitlines()), 300)
        self.assertEqual(self.names(), ["out"])

    def test_without_room_the_old_file_stays_as_it_was(self):
        out = self.folder / "out"
        out.write_text("old")
        done = synth(out, prepare=small_files)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "out: cannot be written: File too large")
        self.assertEqual((out.read_text(), self.names()), ("old", ["out"]))

    def test_a_full_device_is_a_failure_and_stays_a_device(self):
        full = self.folder / "full"
        try:
            os.mknod(full, stat.S_IFCHR | 0o666, os.makedev(1, 7))
            with open(full, "wb"):
                pass
        except PermissionError:
            self.skipTest("devices cannot be made here")
        done = synth(full)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "full: cannot be written: No space left")
        self.assertTrue(full.is_char_device())
        self.assertTrue(Path("/dev/full").is_char_device())

    def test_numbers_that_are_none_are_refused_before_anything_is_written(self):
        for flag in ("--examples", "--features", "--per-example", "--seed"):
            for value in ("-1", "99999999999999999999", "1.5", ""):
                done = subprocess.run([WEIR, "synth", "--out", self.folder / "out", f"{flag}={value}"], capture_output=True, text=True,
                                      timeout=60, check=False, preexec_fn=small_files)
                self.assertEqual((done.returncode, self.names()), (2, []), f"{flag} {value}: {done.stderr}")
                self.assertIn(flag, done.stderr)

    def test_a_pipe_gets_the_bytes_and_stays_one(self):
        pipe, copy = self.folder / "pipe", self.folder / "copy"
        os.mkfifo(pipe)
        with contextlib.ExitStack() as stack:
            reader = stack.enter_context(subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE))
            self.assertEqual(synth(pipe).returncode, 0)
            piped = reader.communicate()[0]
        self.assertTrue(pipe.is_fifo())
        self.assertEqual(synth(copy).returncode, 0)
        self.assertEqual(piped, copy.read_bytes())

    def test_standard_output_that_goes_to_a_file_is_added_to(self):
        log = self.folder / "log"
        log.write_text("before\n")
        with open(log, "a", encoding="ascii") as file:
            self.assertEqual(synth("/dev/stdout", stdout=file).returncode, 0)
        self.assertEqual(log.read_text().splitlines()[0], "before")
        self.assertGreater(len(log.read_text().splitlines()), 300)

    def test_a_summary_that_nobody_gets_is_a_failure(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            done = synth(self.folder / "out", stdout=full)
        self.assertEqual(done.returncode, 1)
        self.assertIn("standard output", done.stderr)


if __name__ == "__main__":
    WEIR = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)  # names every case, and why one is skipped
