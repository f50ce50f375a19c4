#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`weir bench` between real processes, briefly. Usage: bench_test.py PATH-OF-WEIR"""

import contextlib
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "launchers"))
import launch  # noqa: E402

WEIR = ""
COMMON = {"size_bytes", "in_flight", "operations_per_s", "bytes_per_s", "p50_us", "p99_us", "limit", "ratio",
          "bytes_copied"}


def environment():
    """What a rank touches before it joins is little, and it has time: the kernel may be slow to give out memory."""
    variables = {k: v for k, v in os.environ.items() if not k.startswith("WEIR_")}
    return variables | {"WEIR_POOL_MIB": "256", "WEIR_JOIN_TIMEOUT_S": "90"}


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as numbers:
        return [int(number) for number in numbers.read().split()]


def ranks_below(pid, name):
    """Processes of Weir that a launcher has started, by the launcher's variable for the rank: {rank: pid}."""
    found = {}
    for child in children_of(pid):
        try:
            words = Path(f"/proc/{child}/environ").read_text(encoding="utf-8", errors="replace").split("\0")
            if os.readlink(f"/proc/{child}/exe") == WEIR:
                found[next(int(word.removeprefix(name)) for word in words if word.startswith(name))] = child
            else:
                found.update(ranks_below(child, name))
        except (OSError, StopIteration):  # it has ended, or not begun
            continue
    return found


def bound_to(pid):
    """The CPUs of every thread."""
    return [frozenset(os.sched_getaffinity(int(task))) for task in os.listdir(f"/proc/{pid}/task")]


@unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "needs two cores")
class Bench(unittest.TestCase):
    def bench(self, name, *flags, transport=None):
        """`transport`: None lets the job choose, which is shm on one host."""
        variables = environment() | ({"WEIR_TRANSPORT": transport} if transport else {})
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "result.json")
            done = subprocess.run([WEIR, "bench", name, "--local", "--brief", "--json", path, *flags], env=variables,
                                  capture_output=True, text=True, timeout=100, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn("secret", done.stderr)  # its ranks have one
            with open(path, encoding="utf-8") as file:
                result = json.load(file)
        self.assertEqual(result["bench"], name)
        self.assertEqual(result["transport"], transport or "shm")
        self.assertGreaterEqual(result["machine"]["cpus"], 2)
        self.assertEqual(result["machine"]["memory_bytes"], os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
        self.assertGreaterEqual(result["registered_bytes"], 2 * (4 << 20))  # a store pool and a worker pool
        self.assertTrue(done.stdout.startswith(f"# Weir {name}"), done.stdout)
        self.assertEqual(sum(not line.startswith("#") for line in done.stdout.splitlines()), len(result["rows"]))
        self.assertIn("# Ratio: the share of the limit that is reached", done.stdout)
        self.last_title, self.last_legend = done.stdout.splitlines()[0], self.legend(done.stdout)
        for column in self.columns(done.stdout):
            self.assertIn(column, self.last_legend, done.stdout)
        for column in ("p90", "Ring us", "Payload in", "Copied B"):
            if column not in done.stdout.splitlines()[1]:
                self.assertNotIn(column, self.last_legend, done.stdout)
        for row in result["rows"]:
            self.assertLessEqual(COMMON, set(row))
            for field in ("ratio", "limit", "operations_per_s", "bytes_per_s"):
                self.assertGreater(row[field], 0, row)
            if name not in ("scan", "functions"):  # which are one operation
                self.assertGreater(row["p50_us"], 0, row)
            self.assertLessEqual(row["p50_us"], row["p99_us"])
        return result["rows"]

    @staticmethod
    def columns(output):
        """The names of columns whose meaning no one can guess, as far as the table has them."""
        head = output.splitlines()[1]
        names = ("In flight", "List", "p50", "Limit", "Ratio", "Ring us", "Ring ratio", "Payload in", "Copied B")
        return [name for name in names if name in head]

    @staticmethod
    def legend(output):
        lines = output.splitlines()
        last = max(i for i, line in enumerate(lines) if not line.startswith("#"))
        return "\n".join(lines[last + 1:])

    def test_push_copies_nothing_in_bulk(self):
        rows = self.bench("push")
        for row in rows:
            self.assertRegex(row["payload_in"], "^(L[1-4]|memory)$")
        self.assertEqual([row["size_bytes"] for row in rows], [4096 << i for i in range(7)])
        self.assertEqual([row["bytes_copied"] for row in rows if row["size_bytes"] >= 65536], [0] * 3)

    def test_pull_copies_nothing_in_bulk(self):
        rows = self.bench("pull")
        self.assertEqual([row["bytes_copied"] for row in rows if row["size_bytes"] >= 65536], [0] * 3)

    def test_mixed_is_measured_beside_pushes_and_pulls_alone(self):
        for transport in (None, "tcp"):
            rows = self.bench("mixed", transport=transport)
            self.assertIn("each of the two alone", self.last_title)
            self.assertEqual([row["size_bytes"] for row in rows], [4096 << i for i in range(7)])

    def test_latency_from_one_value_to_a_page(self):
        rows = self.bench("latency")
        self.assertEqual([row["size_bytes"] for row in rows], [4 << i for i in range(11)])
        for row in rows:
            self.assertGreater(row["ring_us"], 0)
            self.assertGreater(row["ring_ratio"], 0)
            self.assertGreater(row["ratio"], 0)  # how much is no matter of a test: on a busy machine two threads wait for each other

    def test_over_tcp_the_limit_is_a_bare_connection(self):
        push = self.bench("push", "--min-bytes", "1048576", "--max-bytes", "1048576", transport="tcp")
        self.assertIn("a bare TCP connection", self.last_title)
        pull = self.bench("pull", "--min-bytes", "1048576", "--max-bytes", "1048576", transport="tcp")
        self.assertIn("a bare TCP connection", self.last_title)
        latency = self.bench("latency", transport="tcp")
        self.assertIn("a bare TCP connection", self.last_title)
        self.assertIn("a bare TCP connection", self.last_legend)
        self.assertEqual((len(push), len(pull), len(latency)), (1, 1, 11))
        self.assertNotEqual(latency[0]["limit"], latency[0]["ring_us"])  # it is measured by itself; which one takes longer is no matter of a test

    def test_checkpoint_says_what_pushes_and_checkpoints_take_beside_each_other(self):
        with tempfile.TemporaryDirectory() as folder:
            path, checkpoints = os.path.join(folder, "result.json"), os.path.join(folder, "checkpoints")
            os.mkdir(checkpoints)
            done = subprocess.run([WEIR, "bench", "checkpoint", "--local", "--brief", "--rounds", "2", "--json", path, "--folder", checkpoints],
                                  env=environment(), capture_output=True, text=True, timeout=100, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(path, encoding="utf-8") as file:
                result = json.load(file)
            # 6 were written, the newest three are kept
            self.assertEqual(sorted(name for name in os.listdir(checkpoints) if name.endswith(".manifest")),
                             [f"00000{number}.manifest" for number in (4, 5, 6)])
        self.assertEqual([row["push"] for row in result["rows"]], ["1 key", "list of 1000 keys", "4 KiB", "256 KiB"])
        for field in ("mib", "plain_mib_per_s", "alone_seconds", "beside_seconds", "alone_share", "beside_share"):
            self.assertGreater(result[field], 0)
        self.assertGreater(result["mib"], 8)

    def test_insert_counts_keys(self):
        rows = self.bench("insert")
        legend = self.last_legend
        for word in ("sized", "known", "unseen", "held"):
            self.assertIn(f"{word}:", legend)
        self.assertEqual([row["work"].split()[0] for row in rows], ["new"] * 4 + ["known"] * 2 + ["unseen"] * 2)
        for row in rows:
            self.assertAlmostEqual(row["keys_per_s"], row["operations_per_s"] * row["keys"],
                                   delta=1e-6 * row["keys_per_s"])

    def test_lookup_pulls_and_pushes_rows_of_three_widths(self):
        rows = self.bench("lookup")
        rules = ("adagrad", "sum", "mean", "count_min", "sgd", "momentum", "nesterov", "row_adagrad", "rmsprop", "adam", "adamw", "lion",
                 "ftrl", "prox_l1")
        self.assertEqual([row["work"] for row in rows],
                         [f"{work}, width {width}{kept}" for width in (16, 64, 128)
                          for kept, some in (("", rules), (", bfloat16", ("sgd",))) for work in ("pull", *(f"{rule} push" for rule in some))])
        for row in rows:
            self.assertEqual(row["keys"], 8192)
            pushed = 2 if row["work"].startswith("prox_l1") else 1  # numbers for each value
            width = int(re.search(r"width (\d+)", row["work"])[1])
            self.assertEqual(row["size_bytes"], 8192 * 4 * pushed * width)

    def test_functions_run_on_both_layouts(self):
        rows = self.bench("functions")
        self.assertEqual([row["work"] for row in rows], [f"{kind} {name}" for kind in ("dense", "sparse") for name in ("sum", "dot", "axpy")])

    def test_scan_reads_out_both_layouts_and_three_widths(self):
        rows = self.bench("scan")
        self.assertEqual([row["work"] for row in rows],
                         [f"{layout}, width {width}" for layout in ("sparse", "dense") for width in (1, 16, 64)])
        for row in rows:
            self.assertEqual(row["size_bytes"], 1 << 20)  # of a pull

    def test_factorization_learns_and_counts_the_rows_of_a_sample(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "factorization.json")
            done = subprocess.run([WEIR, "bench", "factorization", "--local", "--brief", "--seconds", "0.3", "--json", path],
                                  env=environment(), capture_output=True, text=True, timeout=100, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(path, encoding="utf-8") as file:
                result = json.load(file)
        alone, together = result["rows"]
        for row in (alone, together):
            self.assertLess(row["error"], 0.5)  # 1.1 at first
            self.assertAlmostEqual(row["rows_pulled_per_sample"], 1.69, delta=0.01)
            for field in ("samples_per_s", "limit", "ratio", "share_of_core", "share_of_batched"):
                self.assertGreater(row[field], 0)
        self.assertAlmostEqual(alone["rows_applied_per_sample"], 1.69, delta=0.01)
        self.assertAlmostEqual(together["rows_applied_per_sample"], 1.46, delta=0.01)
        for field in ("lookup_pull_keys_per_s", "lookup_push_keys_per_s", "loop_samples_per_s", "batched_samples_per_s",
                      "core_samples_per_s"):
            self.assertGreater(result[field], 0)

    def filters(self, *flags, transport="shm"):
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, name) for name in ("filters.json", "filters.svg")]
            done = subprocess.run([WEIR, "bench", "filters", "--local", "--brief", "--json", paths[0], "--plot", paths[1], *flags],
                                  env=environment() | {"WEIR_TRANSPORT": transport}, capture_output=True, text=True, timeout=100, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(paths[0], encoding="utf-8") as file:
                result = json.load(file)
            with open(paths[1], encoding="utf-8") as file:
                self.assertEqual(len(re.findall("<rect x=", file.read())), len(result["rows"]))
        self.assertEqual((result["bench"], result["transport"]), ("filters", transport))
        self.assertEqual(sum(not line.startswith("#") for line in done.stdout.splitlines()), len(result["rows"]))
        return {(row["call"], row["changed"], row["filters"]): row for row in result["rows"]}

    def test_filters_send_fewer_bytes_and_codecs_change_no_bit(self):
        calls, changes = ("known list", "unseen list", "range", "iteration"), ("1 %", "10 %", "50 %", "gradients")
        lossless = ("none", "zeros", "zeros,compress", "significant=0", "significant=0,compress", "integers", "auto")
        for transport in ("shm", "tcp"):
            rows = self.filters(transport=transport)
            self.assertEqual(set(rows), {(call, changed, filters) for call in calls for changed in changes
                                         for filters in (*lossless, "round=fixed8,integers")})
            for (call, changed, filters), row in rows.items():
                self.assertGreater(row["calls_per_s"], 0)
                self.assertEqual(row["error"] == 0, filters in lossless, row)
                self.assertLess(row["error"], 0.1, row)
                if filters == "none":
                    self.assertEqual(row["speedup"], 1)
                if call == "range" and changed == "10 %" and filters.startswith(("zeros", "significant")):
                    self.assertLess(row["worker_bytes"], rows[call, changed, "none"]["worker_bytes"] / 4, row)

    def test_filters_are_chosen_and_wrong_ones_are_named(self):
        rows = self.filters("--filters", "tail=2,zeros", "--filters", "compress")
        self.assertEqual({filters for _, _, filters in rows}, {"none", "tail=2,zeros", "compress"})
        self.refused("--workers 2: `weir bench filters` measures one that is alone", "filters", "--local", "--workers", "2")
        self.refused("--limit-mbit: only the network of --local is limited", "filters", "--limit-mbit", "10")
        for name in ("filters", "push", "insert"):
            done = subprocess.run([WEIR, "bench", name, "--local", "--filters", "zeros,frob"], env=environment(), capture_output=True, text=True,
                                  timeout=60, check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertRegex(done.stderr, "^weir: error: --filters: filter 'frob': there is none of this name; there are, .*significant=DELTA, .*auto")

    def test_traffic_of_a_training_falls_with_each_filter(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, name) for name in ("traffic.json", "traffic.svg")]
            done = subprocess.run([WEIR, "bench", "traffic", "--local", "--brief", "--l1", "0.5", "--json", paths[0], "--plot", paths[1]],
                                  env=environment(), capture_output=True, text=True, timeout=100, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(paths[0], encoding="utf-8") as file:
                rows = json.load(file)["rows"]
            with open(paths[1], encoding="utf-8") as file:
                self.assertEqual(file.read().count("1 / "), 2 * len(rows))
        self.assertEqual([row["filters"] for row in rows], ["none", "key cache", "+ zeros", "+ compress", "+ KKT"])
        none, cached, zeros, _, kkt = rows
        self.assertLess(cached["worker_bytes"], none["worker_bytes"])  # keys once, not in each pass
        self.assertEqual((cached["objective"], cached["server_bytes"]), (none["objective"], none["server_bytes"]))
        self.assertLess(zeros["server_bytes"], cached["server_bytes"] / 2)
        self.assertEqual(zeros["objective"], cached["objective"])  # no bit is another one
        self.assertLess(kkt["worker_bytes"], cached["worker_bytes"])
        self.assertEqual([max(row["filtered"]) > 0 for row in rows], [False] * 4 + [True])

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("tc"), "needs root and tc")
    def test_filters_are_worth_more_over_a_slow_network(self):
        rows = self.filters("--limit-mbit", "100", "--filters", "zeros,compress", transport="tcp")
        self.assertGreater(rows["range", "10 %", "zeros,compress"]["speedup"], 1.5)

    def test_pushes_and_pulls_are_measured_through_filters_too(self):
        for name in ("push", "latency", "insert"):
            self.assertGreater(len(self.bench(name, "--filters", "zeros,compress", transport="tcp")), 0)

    def delay(self, *flags):
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, name) for name in ("delay.json", "delay.svg")]
            done = subprocess.run([WEIR, "bench", "delay", "--local", "--json", paths[0], "--plot", paths[1], *flags],
                                  env=environment(), capture_output=True, text=True, timeout=100, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(paths[0], encoding="utf-8") as file:
                result = json.load(file)
            with open(paths[1], encoding="utf-8") as file:
                self.assertEqual(len(re.findall("<rect x=", file.read())), 6)
        self.assertEqual(result["bench"], "delay")
        self.assertTrue(done.stdout.startswith("# Weir delay"), done.stdout)
        rows = {row["tau"]: row for row in result["rows"]}
        self.assertEqual(list(rows), [0, 1, 2, 4, 8, -1])
        for tau, row in rows.items():
            self.assertGreater(row["iterations_per_s"], 0)
            self.assertTrue(0 <= row["waiting_share"] <= 1, row)
            self.assertLessEqual(row["staleness_mean"], row["staleness_max"])
            if tau >= 0:
                self.assertLessEqual(row["staleness_max"], tau)
        return rows

    def comes_true(self, test):
        """Runs test(seconds), which compares times: again and for longer if something else has kept the processors busy."""
        for seconds in ("0.6", "1.5"):
            try:
                return test(seconds)
            except AssertionError as error:
                print(f"again, for longer: {error}", flush=True)
        return test("4")

    def test_the_figures_of_the_papers_are_drawn_in_one_run(self):
        with tempfile.TemporaryDirectory(prefix="weir-bench-") as folder:
            out = os.path.join(folder, "paper.json")
            done = subprocess.run([WEIR, "bench", "paper", "--local", "--brief", "--l1", "0.5", "--json", out, "--plot", folder],
                                  capture_output=True, text=True, timeout=300, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(out, encoding="utf-8") as file:
                result = json.load(file)
            for name, says in (("objective", ">lbfgs<"), ("delay", "% waiting"), ("traffic", "sent by")):
                with open(os.path.join(folder, name + ".svg"), encoding="utf-8") as file:
                    svg = file.read()
                self.assertTrue(svg.startswith("<svg") and says in svg, svg[:300])
        self.assertEqual([run["solver"] for run in result["objective"]], ["prox", "delayed", "lbfgs", "ftrl"])
        for run in result["objective"]:
            self.assertEqual(len(run["seconds"]), len(run["objectives"]))
            self.assertLess(min(run["objectives"]), 1000 * math.log(2))  # what no weights cost
        self.assertEqual([row["tau"] for row in result["delay"]["rows"]], [0, 1, 2, 4, 8, 16])
        for row in result["delay"]["rows"]:
            self.assertGreater(row["seconds"], 0)
            self.assertGreater(row["passes"], 1)
        self.assertGreater(result["delay"]["rows"][0]["waiting_share"], result["delay"]["rows"][-1]["waiting_share"])
        self.assertEqual([row["filters"] for row in result["traffic"]], ["none", "key cache", "+ zeros", "+ compress", "+ KKT"])

    def test_a_folder_for_figures_that_is_not_there_is_named_before_the_first_one(self):
        self.refused("/no/such/folder", "paper", "--local", "--plot", "/no/such/folder")

    def test_workers_that_are_slowed_by_turns_hold_up_each_other_less_with_a_delay(self):
        def test(seconds):
            rows = self.delay("--seconds", seconds)
            self.assertGreaterEqual(rows[4]["iterations_per_s"], 1.3 * rows[0]["iterations_per_s"], rows)
            self.assertLess(rows[4]["waiting_share"], rows[0]["waiting_share"], rows)
            self.assertGreater(rows[4]["staleness_max"], 0, rows)

        self.comes_true(test)

    def test_one_that_is_always_slow_holds_up_all(self):
        def test(seconds):
            rows = self.delay("--seconds", seconds, "--steady", "--factor", "4")
            for tau in (0, 1, 2, 4, 8):  # the others compute for a quarter of its time
                self.assertGreater(rows[tau]["waiting_share"], 0.3, rows)
            self.assertLess(rows[-1]["waiting_share"], rows[8]["waiting_share"], rows)

        self.comes_true(test)

    def test_a_rank_that_dies_ends_it_and_nothing_is_left(self):
        with subprocess.Popen([WEIR, "bench", "push", "--local", "--table-mib", "8", "--max-bytes", "4096",
                               "--seconds", "600"], env=environment(), stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True) as process:
            ranks = []
            for _ in range(5000):
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

    def test_its_ranks_write_the_contact_file(self):
        for name in ("delay", "push", "latency"):
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                contact = os.path.join(folder, "contact")
                with subprocess.Popen([WEIR, "bench", name, "--local", "--seconds", "600", "--contact", contact], env=environment(),
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
                    try:
                        until = time.monotonic() + 60
                        while subprocess.run([WEIR, "status", contact], env=environment(), capture_output=True, check=False).returncode != 0:
                            self.assertIsNone(process.poll())
                            self.assertLess(time.monotonic(), until)
                            time.sleep(0.05)
                    finally:
                        process.kill()

    def test_a_result_that_cannot_be_written_is_told_before_the_work(self):
        done = subprocess.run([WEIR, "bench", "push", "--local", "--seconds", "3600", "--json", "/nowhere/push.json"], env=environment(),
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("/nowhere/push.json", done.stderr)

    def test_alone_and_without_local_it_says_what_to_do(self):
        done = subprocess.run([WEIR, "bench", "push", "--brief"], env=environment(), capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--local", done.stderr)

    def refused(self, words, *arguments):
        """Before anything is started, and as what it is: a wrong command line."""
        done = subprocess.run([WEIR, "bench", *arguments], env=environment(), capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(done.stderr.count("error: "), 1, done.stderr)
        self.assertRegex(done.stderr, "^weir: error: .*" + words)
        self.assertLess(max(map(len, done.stderr.splitlines())), 200)

    def test_wrong_sizes_are_refused(self):
        self.refused("--min-bytes 5000: must be a power of two", "push", "--local", "--min-bytes", "5000")
        self.refused("--min-bytes 65536: must not be above --max-bytes 4096", "push", "--local", "--min-bytes", "65536", "--max-bytes", "4096")
        self.refused("--max-bytes 2097152: must not be above the size of the table, 1 MiB", "push", "--local", "--max-bytes", "2097152", "--table-mib", "1")

    def test_seconds_that_are_no_time_to_measure_in_are_refused(self):
        for seconds in ("nan", "inf", "1e300", "1e-9", "0", "-1", "3601"):
            for name in ("push", "pull", "latency", "delay"):
                self.refused(f"--seconds: {re.escape(seconds)}: must be a number from 0.001 to 3600", name, "--local", "--seconds", seconds)

    def test_however_little_time_there_is_every_limit_is_measured(self):
        rows = self.bench("push", "--seconds", "0.001", "--max-bytes", "8192")
        self.assertEqual(len(rows), 2)

    def test_flags_that_would_mean_nothing_are_refused(self):
        for name, flags in (("latency", ("--min-bytes", "--max-bytes", "--table-mib", "--in-flight")),
                            ("insert", ("--min-bytes", "--max-bytes", "--table-mib", "--seconds")),
                            ("lookup", ("--min-bytes", "--max-bytes", "--table-mib", "--seconds")),
                            ("push", ("--factor", "--plot")), ("delay", ("--min-bytes", "--in-flight"))):
            for flag in flags:
                self.refused(f"unknown flag {flag}", name, "--local", flag, "4096")
        for flag in ("--rank", "--size", "--rendezvous"):
            self.refused(f"--local excludes {flag}|{flag} excludes --local", "push", "--local", flag, "2")
        for flag in ("--servers", "--shards", "--workers"):
            self.refused(f"{flag}: 0: must be a whole number", "push", "--local", flag, "0")
        self.refused("--colocate", "push", "--local", "--colocate", "--cpus", "0,1")
        self.refused("--factor: 0.5: must be a number from 1 to 1000", "delay", "--local", "--factor", "0.5")

    def test_cores_that_cannot_be_used_are_refused(self):
        first = min(os.sched_getaffinity(0))
        self.refused("CPU 8000", "push", "--local", "--cpus", f"{first},8000")
        self.refused("CPU -1", "push", "--local", "--cpus", f"{first},-1")
        self.refused("needs two cores", "push", "--local", "--cpus", f"{first},{first}")

    def test_more_memory_than_there_is_is_refused(self):
        self.refused("need .*TiB of memory on this host, and .* are available",
                     "push", "--local", "--in-flight", "1024", "--table-mib", "1048576", "--max-bytes", str(1 << 30))

    def test_a_bench_that_there_is_not_is_named(self):
        self.refused("'frob'; choose one of: push, pull, mixed, latency, insert, lookup, scan, functions, delay, filters, traffic, paper, factorization, elastic, failover, checkpoint\n", "frob")

    def launched(self, path, rank_variable):
        """Ranks that a launcher has put anywhere: 0 serves, 1 measures, and both stay on the cores that were asked for."""
        worker, server = sorted(os.sched_getaffinity(0))[:2]
        command = [*path, "-n", "2", WEIR, "bench", "latency", "--brief", "--seconds", "0.2", "--cpus", f"{server},{worker}"]
        seen = {}
        with tempfile.TemporaryFile("w+") as output, \
             subprocess.Popen(command, env=launch.clean_environment({"WEIR_LOG": "debug"}), stdin=subprocess.DEVNULL, stdout=output,
                              stderr=output) as process:
            while process.poll() is None:
                for rank, pid in ranks_below(process.pid, rank_variable).items():
                    with contextlib.suppress(OSError):  # it has ended
                        threads = bound_to(pid)
                        if len(threads) > 1:  # the job has started; hwloc goes from core to core at first, so the last look counts
                            seen[rank] = set(threads)
                time.sleep(0.002)
            output.seek(0)
            words = output.read()
        self.assertEqual(process.returncode, 0, words)
        self.assertIn("# Weir latency", words)
        self.assertEqual(set(seen), {0, 1}, words)
        self.assertEqual(seen[0], {frozenset({server})}, words)
        seen[1].discard(frozenset({server}))  # the limit's other side
        self.assertEqual(seen[1], {frozenset({worker})}, words)

    def test_ranks_that_open_mpi_has_bound_are_pinned_as_asked(self):
        try:
            path = launch.find_openmpi()
        except launch.Missing as missing:
            self.skipTest(str(missing))
        self.launched([path, "--oversubscribe", "--bind-to", "core"], "PMIX_RANK=")

    def test_ranks_that_open_mpi_has_bound_to_a_core_each_measure_there(self):
        try:
            path = launch.find_openmpi()
        except launch.Missing as missing:
            self.skipTest(str(missing))
        for name in ("latency", "push"):
            command = [path, "--oversubscribe", "--bind-to", "core", "-n", "2", WEIR, "bench", name, "--brief", "--seconds", "0.1"]
            done = subprocess.run(command, env=launch.clean_environment({}), capture_output=True, text=True, timeout=100, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"# Weir {name}", done.stdout)

    def test_ranks_that_share_one_core_are_refused(self):
        try:
            path = launch.find_openmpi()
        except launch.Missing as missing:
            self.skipTest(str(missing))
        first = str(min(os.sched_getaffinity(0)))
        command = [path, "--oversubscribe", "--bind-to", "none", "-n", "2", "taskset", "-c", first, WEIR, "bench", "latency", "--brief"]
        done = subprocess.run(command, env=launch.clean_environment({}), capture_output=True, text=True, timeout=100, check=False)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertIn("needs two cores", done.stderr)

    def test_ranks_of_pmi_1_are_pinned_as_asked(self):
        try:
            path = launch.find("mpich", "mpiexec.hydra")
        except launch.Missing as missing:
            self.skipTest(str(missing))
        self.launched([path], "PMI_RANK=")


if __name__ == "__main__":
    WEIR = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)  # names every case, and why one is skipped
