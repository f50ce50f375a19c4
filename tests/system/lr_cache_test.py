#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`weir lr --solver delayed --cache`: examples on disk. Usage: lr_cache_test.py PATH-OF-WEIR"""

import os
import random
import signal
import unittest
from pathlib import Path

import lr_testing as testing

DELAYED = ("--solver", "delayed")
SEVERAL = ("--servers", "1", "--replicas", "0", "--on-worker-loss", "reassign")


def often(examples=1500, features=60, has=600):
    """Features that equally many examples have: nothing but their numbers says which come first."""
    dice = random.Random(testing.seed() + 7)
    rows = [{} for _ in range(examples)]
    for feature in range(1, features + 1):
        for i in dice.sample(range(examples), has):
            rows[i][feature] = 1.0
    return [(dice.choice((-1, 1)), row) for row in rows]


class LrCache(testing.Folder, unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.cache = self.folder / "cache"
        self.cache.mkdir()

    def train(self, *flags, memory="10M", code=0):
        out = self.path("out.json")
        done = self.lr(*DELAYED, *flags, "--cache", str(self.cache), "--memory", memory, "--json", out)
        self.assertEqual(done.code, code, done.err)
        return testing.read_json(out) if code == 0 else done.err

    def text(self):
        return testing.write(self.path("train.svm"), testing.text_like(3000, 2000, 20))

    def test_the_result_is_that_of_examples_in_memory_also_when_few_blocks_fit(self):
        data = self.text()
        for tau in ("0", "8", "63"):
            out = self.path("memory.json")
            done = self.lr(*DELAYED, "--tau", tau, "--train", data, "--tolerance", "1e-4", "--json", out)
            self.assertEqual(done.code, 0, done.err)
            wanted = testing.read_json(out)["objective"]
            for memory in ("10M", "100K"):
                for file in self.cache.iterdir():
                    file.unlink()
                for _ in range(2):  # it makes the file, and finds it
                    result = self.train("--tau", tau, "--train", data, "--tolerance", "1e-4", memory=memory)
                    self.assertAlmostEqual(result["objective"] / wanted, 1, delta=1e-3)

    def test_a_later_job_finds_the_files_whatever_the_order_in_which_workers_spoke(self):
        data = testing.write(self.path("often.svm"), often())
        for _ in range(6):
            self.train("--train", data, "--workers", "3", "--passes", "2", "--tau", "4")
        self.assertEqual(len([name for name in os.listdir(self.cache) if name.endswith(".columns")]), 3)

    def test_what_is_wrong_with_a_file_is_named_and_it_stays(self):
        data = self.text()
        self.train("--train", data, "--passes", "2")
        [file] = self.cache.iterdir()
        whole = file.read_bytes()
        self.assertIn("is a cache for another division of the features", self.train("--train", data, "--seed", "5", code=1))
        other = testing.write(self.path("other.svm"), testing.dense())
        self.assertIn("is a cache of other data", self.train("--train", other, code=1))
        file.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
        err = self.train("--train", data, code=1)
        self.assertIn(str(file), err)
        # Of a block, which is read while it trains; between blocks there are zeros.
        middle = next(i for i in range(len(whole) * 2 // 3, len(whole)) if whole[i] != 0)
        file.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1:])
        self.assertIn("damaged", self.train("--train", data, code=1))
        self.assertEqual(len(file.read_bytes()), len(whole))
        file.write_bytes(whole)
        self.train("--train", data, "--passes", "2")
        os.unlink(data)
        self.assertIn("train.svm: ", self.train("--train", data, code=1))

    def test_flags_that_make_no_sense_are_named(self):
        data = self.text()
        for flags, says in ((("--solver", "prox", "--cache", "c", "--memory", "1M"), "--cache: belongs to --solver delayed"),
                            ((*DELAYED, "--cache", "c"), "--memory"), ((*DELAYED, "--memory", "1M"), "--cache"),
                            ((*DELAYED, "--cache", "", "--memory", "1M"), "give the name of a folder"),
                            ((*DELAYED, "--tau", "64"), "--tau")):
            done = self.lr("--train", data, *flags)
            self.assertEqual(done.code, 2, done.err)
            self.assertIn(says, done.err)
        done = self.lr(*DELAYED, "--train", data, "--cache", data + "/folder", "--memory", "1M")
        self.assertEqual(done.code, 1, done.err)
        self.assertIn("train.svm/folder", done.err)
        self.assertIn("--memory", self.train("--train", data, memory="1K", code=1))

    def test_what_was_trained_is_not_lost_where_the_share_of_a_lost_worker_does_not_fit(self):
        data = testing.write(self.path("train.svm"), testing.endless())
        size = sum(file.stat().st_size for file in self.filled(data)) // 2 * 6 // 5  # more than a share, less than two
        command = [self.WEIR, "lr", *DELAYED, "--train", data, *testing.ENDLESS, *SEVERAL, "--cache", str(self.cache), "--memory", str(size),
                   "--tau", "1", "--json", self.path("out.json")]
        with testing.Ranks(self.folder, command, 3) as job:
            job.start_all()
            self.assertTrue(job.until_training(), job.everything())
            job.kill(1)
            self.assertTrue(job.until(lambda: "workers have come or gone" in job.err(2)), job.everything())
            self.assertTrue(job.trains_on(2), job.everything())
            for rank in (0, 2):
                os.kill(job.pid(rank), signal.SIGTERM)
            self.assertEqual([job.wait(rank) for rank in (0, 2)], [143] * 2, job.everything())
        self.assertLess(testing.read_json(self.path("out.json"))["objective"], 69)

    def filled(self, data):
        """The files of two workers, which are removed again."""
        self.train("--train", data, "--workers", "2", "--passes", "1", "--l1", "0")
        for file in self.cache.iterdir():
            yield file
            file.unlink()

    def test_a_file_of_an_older_job_is_no_end_of_one_that_loses_a_worker(self):
        data = testing.write(self.path("train.svm"), testing.endless())
        common = [self.WEIR, "lr", *DELAYED, "--train", data, *testing.ENDLESS, *SEVERAL, "--cache", str(self.cache), "--memory", "10M"]
        for seed in ("1", "2"):
            for file in self.cache.iterdir():  # but that of what was taken over
                if not file.name.startswith("parts-1-2-3-4-5"):
                    file.unlink()
            self.assertEqual(len(os.listdir(self.cache)), int(seed) - 1)
            with testing.Ranks(self.folder, [*common, "--seed", seed, "--json", self.path(seed)], 3) as job:
                job.start_all()
                self.assertTrue(job.until_training(), job.everything())
                job.kill(1)
                self.assertTrue(job.until(lambda: "workers have come or gone" in job.err(2)), job.everything())
                self.assertTrue(job.trains_on(2), job.everything())
                for rank in (0, 2):
                    os.kill(job.pid(rank), signal.SIGTERM)
                self.assertEqual([job.wait(rank) for rank in (0, 2)], [143] * 2, job.everything())
                self.assertEqual("keeps its examples in memory" in job.err(2), seed == "2", job.everything())
            self.assertTrue(Path(self.path(seed)).exists())


if __name__ == "__main__":
    testing.main(testing.Folder, "__main__")
