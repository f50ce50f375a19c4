#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a process gets from its surroundings: limits of open files, standard streams, the environment. Usage: process_test.py
PATH-OF-WEIR PATH-OF-LIBRARY-PROCESS"""

import os
import re
import resource
import sys
import time
import unittest

import lr_testing as testing

LIBRARY = ""  # a program that embeds the library


def shell(command, words):
    """`words`, behind a command of the shell."""
    return ["sh", "-c", f'{command} && exec "$@"', "sh", *words]


class Process(testing.Folder, unittest.TestCase):
    def setUp(self):
        super().setUp()
        rows = testing.text_like(examples=40)
        self.train = testing.write(self.path("train.svm"), rows)
        self.wanted = testing.solve(rows, 0.3)

    def command(self, *flags):
        return [self.WEIR, "lr", "--train", self.train, "--l1", "0.3", "--json", self.path("result.json"), *flags]

    def run_one(self, words, timeout_s=testing.LIMIT_S, **variables):
        return testing.run(words, testing.clean_environment({**testing.POOL, **variables}), timeout_s)

    def trained(self, done):
        self.assertEqual(done.code, 0, done)
        self.near(testing.read_json(self.path("result.json"))["objective"], self.wanted)
        os.unlink(self.path("result.json"))

    # open files

    def test_a_low_soft_limit_of_open_files_is_raised(self):
        self.trained(self.run_one(shell("ulimit -S -n 64", self.command("--workers", "8", "--shards", "4"))))

    def test_a_hard_limit_of_open_files_that_is_too_low_is_an_error_at_once_and_what_it_asks_for_is_enough(self):
        """The number holds for one process and for ranks, whatever the transport is."""
        begin = time.monotonic()
        words = self.command("--workers", "8", "--shards", "4")
        done = self.run_one(shell("ulimit -n 64", words))
        self.assertNotEqual(done.code, 0, done)
        self.assertLess(time.monotonic() - begin, 20)  # WEIR_JOIN_TIMEOUT_S is 30
        needed = re.search(r"this process needs (\d+) open files, and may have 64: run `ulimit -n \1`", done.err)
        self.assertIsNotNone(needed, done)
        self.trained(self.run_one(shell(f"ulimit -n {needed[1]}", words)))

    def ranks(self, transport, limit):
        """What rank 0, with such a limit of open files, and six workers say."""
        extra = {"WEIR_TRANSPORT": transport, "WEIR_JOIN_TIMEOUT_S": "60" if limit > 64 else "5"}
        with testing.Ranks(self.folder, self.command("--servers", "1", "--shards", "4"), 7, extra=extra) as job:
            for rank in range(job.size):
                job.start(rank, within=shell(f"ulimit -n {limit}", []) if rank == 0 else ())
            codes = [job.wait(rank) for rank in range(job.size)]
            return codes, job.err(0), job.everything()

    def test_what_a_rank_that_serves_asks_for_is_enough(self):
        for transport in ("auto", "tcp"):
            with self.subTest(transport):
                codes, error, everything = self.ranks(transport, 64)
                needed = re.search(r"this process needs (\d+) open files, and may have 64", error)
                self.assertIsNotNone(needed, everything)
                codes, _, everything = self.ranks(transport, int(needed[1]))
                self.assertEqual(codes, [0] * 7, everything)

    # standard streams

    def test_closed_standard_streams_get_nothing_of_the_job(self):
        """With a line to log at the start (of an unknown variable) and others at the end."""
        for closed in ("2>&-", "<&- >&- 2>&-", "<&-", ">&-"):
            for transport in ("auto", "tcp"):
                with self.subTest(closed=closed, transport=transport):
                    self.trained(self.run_one(shell(f"exec {closed}", self.command("--workers", "2")), WEIR_UNKNOWN="1",
                                              WEIR_LOG="debug", WEIR_TRANSPORT=transport))

    def test_ranks_with_closed_standard_streams_find_each_other(self):
        with testing.Ranks(self.folder, self.command("--servers", "1"), 3, extra={"WEIR_LOG": "debug", "WEIR_UNKNOWN": "1"}) as job:
            for rank in range(job.size):
                job.start(rank, within=shell("exec <&- >&- 2>&-", []))
            self.assertEqual([job.wait(rank) for rank in range(job.size)], [0] * job.size)
            self.near(testing.read_json(self.path("result.json"))["objective"], self.wanted)

    def test_a_librarys_process_may_have_closed_streams(self):
        for closed in ("2>&-", "<&- 2>&-", "<&- >&- 2>&-"):
            with self.subTest(closed):
                done = self.run_one(shell(f"exec {closed}", [LIBRARY]), WEIR_UNKNOWN="1")
                self.assertEqual(done.code, 0, done)

    # the environment

    def test_a_librarys_process_names_an_unknown_variable_once(self):
        done = self.run_one([LIBRARY], WEIR_DEADLINE_MSEC="5")
        self.assertEqual((done.code, done.out), (0, "job 1: ok\njob 2: ok\n"), done)
        self.assertEqual(done.err.count("WEIR_DEADLINE_MSEC"), 1, done)
        self.assertRegex(done.err, r"^weir: warning: WEIR_DEADLINE_MSEC.*WEIR_DEADLINE_MS\b")
        self.assertEqual(self.run_one([LIBRARY]).err, "")

    def test_the_program_names_an_unknown_variable_once(self):
        done = self.run_one(self.command(), WEIR_DEADLINE_MSEC="5")
        self.assertEqual(done.err.count("WEIR_DEADLINE_MSEC"), 1, done)


if __name__ == "__main__":
    LIBRARY = os.path.abspath(sys.argv.pop(2))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    print(f"open files: hard limit {hard}", flush=True)
    testing.main(testing.Folder, module="__main__")
