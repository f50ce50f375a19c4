#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/checks/speed, beside a program that only writes what a test gives it. Usage: speed_test.py"""

import json
import subprocess
import tempfile
import unittest
from pathlib import Path

SPEED = Path(__file__).resolve().parents[2] / "tools/checks/speed"
# Writes what a test gives it for a bench; or the next of the results that lie beside it, and the last one again and again.
FAKE = """#!/usr/bin/env python3
import os
import shutil
import sys
from pathlib import Path
here = Path(__file__).parent
given = here / (os.environ.get("WEIR_TRANSPORT", "") + sys.argv[2] + ".json")
if given.exists():
    shutil.copy(given, sys.argv[sys.argv.index("--json") + 1])
    sys.exit()
count = here / "count"
number = int(count.read_text()) if count.exists() else 0
count.write_text(str(number + 1))
results = sorted(here.glob("result-*.json"))
Path(sys.argv[sys.argv.index("--json") + 1]).write_text(results[min(number, len(results) - 1)].read_text())
"""


class Speed(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.weir = self.folder / "weir"
        self.weir.write_text(FAKE)
        self.weir.chmod(0o755)

    def measured(self, *runs):
        """Each run: the ratios of the rows of 4 and of 8 bytes."""
        (self.folder / "count").unlink(missing_ok=True)
        for old in self.folder.glob("result-*.json"):
            old.unlink()
        for number, run in enumerate(runs):
            rows = [{"size_bytes": size, "ratio": ratio} for size, ratio in zip((4, 8), run)]
            result = {"bench": "latency", "machine": {"processor": "P"}, "rows": rows}
            (self.folder / f"result-{number}.json").write_text(json.dumps(result))

    def speed(self, *flags):
        return subprocess.run([SPEED, "latency", "--weir", self.weir, "--file", self.folder / "recorded.json", *flags],
                              capture_output=True, text=True, timeout=60, check=False)

    def recorded(self):
        self.measured((0.50, 0.8), (0.40, 0.8), (0.45, 0.8))
        done = self.speed("--record", "--runs", "3")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads((self.folder / "recorded.json").read_text())

    def test_a_record_has_the_median_and_the_range_of_every_row(self):
        record = self.recorded()
        self.assertEqual(record["runs"], 3)
        self.assertEqual(record["rows"], {"latency: 4 bytes": {"median": 0.45, "least": 0.4, "most": 0.5},
                                          "latency: 8 bytes": {"median": 0.8, "least": 0.8, "most": 0.8}})

    def test_rows_of_the_same_size_are_told_apart_by_their_work(self):
        rows = [{"work": work, "keys": 8192, "ratio": ratio} for work, ratio in (("pull, width 16", 0.6), ("adagrad push, width 16", 0.5))]
        (self.folder / "result-0.json").write_text(json.dumps({"bench": "lookup", "machine": {"processor": "P"}, "rows": rows}))
        done = subprocess.run([SPEED, "lookup", "--weir", self.weir, "--file", self.folder / "recorded.json", "--record", "--runs", "1"],
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        medians = [row["median"] for row in json.loads((self.folder / "recorded.json").read_text())["rows"].values()]
        self.assertEqual(medians, [0.6, 0.5])

    def test_what_is_within_the_noise_is_not_worse(self):
        self.recorded()
        self.measured((0.36, 0.77))
        done = self.speed()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "0 of 2 rows got worse by more than their noise\n")

    def test_what_is_worse_in_most_runs_is_named_and_no_error(self):
        self.recorded()
        self.measured((0.2, 0.6), (0.2, 0.8), (0.2, 0.8))
        done = self.speed()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("worse    latency: 4 bytes: 0.20 of the limit, recorded 0.45 (0.40 to 0.50): 56 % less", done.stdout)
        self.assertNotIn("8 bytes", done.stdout)  # a slow moment
        self.assertIn("1 of 2 rows", done.stdout)

    def test_a_row_that_is_not_recorded_is_named(self):
        self.recorded()
        record = json.loads((self.folder / "recorded.json").read_text())
        del record["rows"]["latency: 8 bytes"]
        (self.folder / "recorded.json").write_text(json.dumps(record))
        self.measured((0.45, 0.8))
        self.assertIn("new      latency: 8 bytes: 0.80 of the limit", self.speed().stdout)

    def built(self, **measured):
        """What is measured as in this, and else as is promised; --built looks at it."""
        is_measured = {"plan_ms": 120.5, "clock_ns": 3.61, "move_sparse": 0.9, "copied": 0.5, "tcp": 0.7, "mixed": 0.95, "median_ms": 17.1, "max_ms": 41, "beside": 0.6, "p99": 1.9, "loss": 1.9, **measured}
        moves = [("move_dense/16000000", 0.91), ("move_sparse/1000000", is_measured["move_sparse"]), ("copy_dense/16000000", 0.91), ("copy_sparse/1000000", 0.4),
                 ("copy_dense_beside_pushes/16000000", 0.8), ("copy_sparse_beside_pushes/1000000", 0.35)]
        copied = [("copied_push_dense/keys:1", is_measured["copied"]), ("copied_push_dense/keys:262144", 0.45), ("copied_push_sparse/keys:100000", 0.48)]

        def of(rows):
            return json.dumps({"benchmarks": [{"name": f"{name}/manual_time", "share": share} for name, share in rows]})

        plan = f"1000 servers x 8 shards: a join moves 1.02 of the least in 63 segments, a leave 1 in 64; longest plan {is_measured['plan_ms']} ms"
        for name, says in (("tests/ring/ring_test", plan), ("bench/clock_bench", json.dumps({"benchmarks": [{"cpu_time": is_measured["clock_ns"]}]})),
                           ("bench/move_bench", of(moves)), ("bench/push_bench", of(copied))):
            program = self.folder / name
            program.parent.mkdir(parents=True, exist_ok=True)
            program.write_text(f"#!/bin/sh\necho '{says}'\n")
            program.chmod(0o755)
        p99 = [{"push": push, "p99_ratio": is_measured["p99"]} for push in ("1 key", "1,000 keys", "4 KiB", "256 KiB")]
        elastic = [{"push": push, "when": when, "p99_ratio": is_measured["loss"] if when == "loss" else 1.9}
                   for push in ("1 key", "list", "4 KiB", "256 KiB", "iteration") for when in ("usual", "join", "leave", "loss")]
        mixed = [(4096, 1.0), (262144, is_measured["mixed"]), (4 << 20, 1.0)]
        for name, result in (*((name, {"rows": [{"size_bytes": size, "ratio": 0.9} for size in (4096, 1 << 20)]}) for name in ("tcppush", "tcppull")),
                             ("shmmixed", {"rows": [{"size_bytes": size, "ratio": 1.0} for size, _ in mixed]}),
                             ("tcpmixed", {"rows": [{"size_bytes": size, "ratio": ratio} for size, ratio in mixed]}), ("tcplatency", {"rows": [{"size_bytes": 4, "ratio": is_measured["tcp"]}]}),
                             ("failover", {"median_ms": is_measured["median_ms"], "max_ms": is_measured["max_ms"]}), ("elastic", {"rows": elastic}),
                             ("checkpoint", {"alone_share": 0.55, "beside_share": is_measured["beside"], "rows": p99})):
            (self.folder / f"{name}.json").write_text(json.dumps(result))
        done = self.speed("--built", self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_what_keeps_all_promises_is_called_so(self):
        self.recorded()
        told = self.built()
        self.assertNotIn("slow ", told)
        self.assertIn("kept     a plan for 1,000 servers of 8 shards: 0.12 s, promised 1\n", told)
        self.assertIn("kept     until a killed server is replaced, longest of ten: 41 ms, promised 500\n", told)
        self.assertEqual(told.count("kept     "), 55, told)
        self.assertIn("0 promises are not kept here\n", told)

    def test_a_promise_that_is_not_kept_is_named_and_no_error(self):
        self.recorded()
        for measured, told in (({"plan_ms": 1.2e3}, "a plan for 1,000 servers of 8 shards: 1.2 s, promised 1"),
                               ({"clock_ns": 51}, "a clock that a push raises in all segments: 51 ns, promised 50"),
                               ({"move_sparse": 0.42}, "moving a sparse segment: 0.42 of the limit, promised 0.5"),
                               ({"copied": 0.31}, "a push of one key with a copy: 0.31 of the limit, promised 0.45"),
                               ({"tcp": 0.6}, "a push of one key over TCP: 0.6 of the limit, promised 0.667"),
                               ({"mixed": 0.8}, "256 KiB pushes and pulls at once over tcp: 0.8 of the limit, promised 0.9"),
                               ({"median_ms": 20.1}, "until a killed server is replaced, median of ten: 20.1 ms, promised 20"),
                               ({"beside": 0.34}, "writing a checkpoint beside pushes: 0.34 of the limit, promised 0.5")):
            with self.subTest(told):
                done = self.built(**measured)
                self.assertIn(f"slow     {told}\n", done)
                self.assertEqual(done.count("slow "), 1, done)
                self.assertIn("1 promises are not kept here\n", done)

    def test_promises_of_copies_that_are_not_kept_are_named(self):
        self.recorded()
        done = self.built(loss=4)
        self.assertIn("slow     99 of 100 pushes (256 KiB) while copies are made after a loss: 0.25 of the limit, promised 0.5\n", done)
        self.assertEqual(done.count("slow "), 5, done)

    def test_what_cannot_be_compared_says_why(self):
        done = self.speed()
        self.assertEqual(done.returncode, 2)
        self.assertIn("--record", done.stderr)
        done = self.speed("--weir", "/nowhere/weir")
        self.assertEqual(done.returncode, 2)
        self.assertIn("/nowhere/weir does not exist", done.stderr)
        self.weir.write_text("#!/bin/sh\necho no memory >&2\nexit 1\n")
        done = self.speed("--record")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no memory", done.stderr)


if __name__ == "__main__":
    unittest.main()
