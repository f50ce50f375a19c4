#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`weir bench` between real processes, briefly. Usage: bench_test.py PATH-OF-WEIR"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

WEIR = ""
COMMON = {"size_bytes", "in_flight", "operations_per_s", "bytes_per_s", "p50_us", "p99_us", "limit", "ratio",
          "bytes_copied"}


def environment():
    return {k: v for k, v in os.environ.items() if not k.startswith("WEIR_")}


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as numbers:
        return [int(number) for number in numbers.read().split()]


@unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "needs two cores")
class Bench(unittest.TestCase):
    def bench(self, name):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "result.json")
            done = subprocess.run([WEIR, "bench", name, "--local", "--brief", "--json", path], env=environment(),
                                  capture_output=True, text=True, timeout=100, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(path, encoding="utf-8") as file:
                result = json.load(file)
        self.assertEqual(result["bench"], name)
        self.assertEqual(result["transport"], "shm")
        self.assertGreaterEqual(result["machine"]["cpus"], 2)
        self.assertGreaterEqual(result["registered_bytes"], 2 * (4 << 20))  # a store pool and a worker pool
        self.assertTrue(done.stdout.startswith(f"# Weir {name}"), done.stdout)
        self.assertEqual(len(done.stdout.splitlines()), 2 + len(result["rows"]))
        for row in result["rows"]:
            self.assertLessEqual(COMMON, set(row))
            for field in ("ratio", "limit", "operations_per_s", "bytes_per_s", "p50_us"):
                self.assertGreater(row[field], 0, row)
            self.assertLessEqual(row["p50_us"], row["p99_us"])
        return result["rows"]

    def test_push_copies_nothing_in_bulk(self):
        rows = self.bench("push")
        self.assertEqual([row["size_bytes"] for row in rows], [4096 << i for i in range(7)])
        self.assertEqual([row["bytes_copied"] for row in rows if row["size_bytes"] >= 65536], [0] * 3)

    def test_pull_copies_nothing_in_bulk(self):
        rows = self.bench("pull")
        self.assertEqual([row["bytes_copied"] for row in rows if row["size_bytes"] >= 65536], [0] * 3)

    def test_latency_from_one_value_to_a_page(self):
        rows = self.bench("latency")
        self.assertEqual([row["size_bytes"] for row in rows], [4 << i for i in range(11)])
        for row in rows:
            self.assertAlmostEqual(row["ratio"], row["p50_us"] / row["limit"], delta=0.01 * row["ratio"])

    def test_insert_counts_keys(self):
        rows = self.bench("insert")
        self.assertEqual([row["work"].split()[0] for row in rows], ["new", "known", "known", "unseen"])
        for row in rows:
            self.assertAlmostEqual(row["keys_per_s"], row["operations_per_s"] * row["keys"],
                                   delta=1e-6 * row["keys_per_s"])

    def test_a_rank_that_dies_ends_it_and_nothing_is_left(self):
        with subprocess.Popen([WEIR, "bench", "push", "--local", "--table-mib", "8", "--max-bytes", "4096",
                               "--seconds", "60"], env=environment(), stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True) as process:
            ranks = []
            for _ in range(500):
                ranks = children_of(process.pid)
                if len(ranks) == 2:
                    break
                time.sleep(0.01)
            self.assertEqual(len(ranks), 2)
            os.kill(ranks[0], signal.SIGKILL)
            _, errors = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 1)
        self.assertIn("rank ", errors)
        for rank in ranks:
            self.assertFalse(os.path.exists(f"/proc/{rank}"))

    def test_a_result_that_cannot_be_written_is_told_before_the_work(self):
        begin = time.monotonic()
        done = subprocess.run([WEIR, "bench", "push", "--local", "--seconds", "30", "--json", "/nowhere/push.json"], env=environment(),
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("/nowhere/push.json", done.stderr)
        self.assertLess(time.monotonic() - begin, 20)

    def test_alone_and_without_local_it_says_what_to_do(self):
        done = subprocess.run([WEIR, "bench", "push", "--brief"], env=environment(), capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--local", done.stderr)

    def test_sizes_that_make_no_sense_are_refused(self):
        for arguments in (["--min-bytes", "5000"], ["--min-bytes", "65536", "--max-bytes", "4096"], ["--cpus", "0,0"]):
            done = subprocess.run([WEIR, "bench", "push", "--local", *arguments], env=environment(),
                                  capture_output=True, text=True, timeout=20, check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("weir: error: ", done.stderr)


if __name__ == "__main__":
    WEIR = os.path.abspath(sys.argv.pop(1))
    unittest.main()
