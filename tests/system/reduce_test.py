#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Workers that are killed while all of them are in allreduce(). Usage: reduce_test.py PATH-OF-WEIR PATH-OF-LIBRARY-PROCESS"""

import os
import sys
import time
import unittest

import lr_testing as testing

LIBRARY = ""  # a program that embeds the library
DEADLINE_S = 5
SLOW_S = 20  # on top of it, for a busy machine
VICTIM, OTHERS = 2, (1, 3)


class Reduce(testing.Folder, unittest.TestCase):
    def codes_after_a_death(self, job):
        job.start_all()
        self.assertTrue(job.until(lambda: all("they count" in job.err(rank) for rank in (VICTIM, *OTHERS))), job.everything())
        job.kill(VICTIM)
        until = time.monotonic() + DEADLINE_S + SLOW_S
        return [job.wait(rank, max(0.1, until - time.monotonic())) for rank in (0, *OTHERS)]

    def job(self, loss):
        return testing.Ranks(self.folder, [LIBRARY, "reduce", loss], 4, {"WEIR_DEADLINE_MS": str(DEADLINE_S * 1000)})

    def test_the_others_end_with_an_error_that_names_the_worker(self):
        with self.job("stop") as job:
            self.assertEqual(self.codes_after_a_death(job), [1, 1, 1], job.everything())
            for rank in OTHERS:
                self.assertRegex(job.err(rank), r"error: .*: worker 1 (died|\(rank 2\) is lost)", job.everything())

    def test_the_others_go_on_without_it(self):
        for loss in ("continue", "reassign"):
            with self.subTest(loss), self.job(loss) as job:
                self.assertEqual(self.codes_after_a_death(job), [0, 0, 0], job.everything())
                for rank in OTHERS:
                    self.assertIn("2 workers count", job.err(rank))
                    self.assertNotIn("error: ", job.err(rank))


if __name__ == "__main__":
    LIBRARY = os.path.abspath(sys.argv.pop(2))
    testing.main(testing.Folder, module="__main__")
