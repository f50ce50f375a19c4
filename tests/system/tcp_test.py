#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs over TCP: on one host, and on three hosts without RDMA, which are network namespaces. Usage: tcp_test.py PATH-OF-WEIR"""

import os
import shutil
import signal
import subprocess
import sys
import unittest
from pathlib import Path

import lr_testing as testing

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "tools/torture.d"))
from hosts import Hosts, ip, why_no_namespaces  # noqa: E402


def break_connections(within):
    """Resets the TCP connections of a namespace. Returns those that were broken, one a line; none where the kernel cannot."""
    done = subprocess.run([*within, "ss", "-K", "-H", "-t", "state", "established"], capture_output=True, text=True, timeout=30, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


class Tcp(testing.Folder, unittest.TestCase):
    def setUp(self):
        super().setUp()
        rows = testing.text_like()
        self.wanted = testing.solve(rows, 0.3)
        self.train = [testing.write(self.path(f"part{i}.svm"), rows[i::2]) for i in range(2)]

    def check(self, job):
        codes = [job.wait(rank) for rank in range(job.size)]
        self.assertEqual(codes, [0] * job.size, job.everything())
        self.near(testing.read_json(self.path("result.json"))["objective"], self.wanted)

    def command(self):
        return [self.WEIR, "lr", "--servers", "1", "--train", *self.train, "--l1", "0.3", "--json", self.path("result.json")]

    def test_ranks_of_one_host_may_use_it(self):
        with testing.Ranks(self.folder, self.command(), 3, extra={"WEIR_TRANSPORT": "tcp"}) as job:
            job.start_all()
            self.check(job)

    @unittest.skipIf(why_no_namespaces(), why_no_namespaces())
    def test_hosts_without_rdma_train_together(self):
        with Hosts(3) as hosts, testing.Ranks(self.folder, self.command(), 3, host=hosts.address(0)) as job:
            for rank in range(3):
                job.start(rank, within=hosts.within(rank))
            self.check(job)

    @unittest.skipIf(why_no_namespaces(), why_no_namespaces())
    def test_a_host_that_goes_is_noticed(self):
        with Hosts(3) as hosts:
            endless = [self.WEIR, "lr", "--servers", "1", "--train", *self.train, *testing.ENDLESS]
            with testing.Ranks(self.folder, endless, 3, host=hosts.address(0)) as job:
                for rank in range(3):
                    job.start(rank, within=hosts.within(rank))
                self.assertTrue(job.until_training(), job.everything())
                ip("-n", hosts.names[2], "link", "set", "eth0", "down")
                codes = [job.wait(rank) for rank in range(2)]  # the third tries to reach the first for two minutes
                self.assertNotIn(None, codes, job.everything())
                self.assertNotEqual(codes[1], 0, job.everything())
                self.assertIn("worker 1 ", job.err(1), job.everything())
                self.assertIn("worker 1 (rank 2)", job.err(0), job.everything())

    @unittest.skipIf(why_no_namespaces() or shutil.which("ss") is None, why_no_namespaces() or "no ss command (iproute2)")
    def test_connections_that_break_between_living_processes_are_made_anew(self):
        with Hosts(3) as hosts:
            # It goes on after the optimum, until it is stopped.
            with testing.Ranks(self.folder, [*self.command(), *testing.ENDLESS[2:]], 3, host=hosts.address(0)) as job:
                for rank in range(3):
                    job.start(rank, within=hosts.within(rank))
                self.assertTrue(job.until_training(), job.everything())
                for turn in range(5):
                    broken = [break_connections(hosts.within(rank)) for rank in (1, 2)]
                    if turn == 0 and not all(broken):
                        self.skipTest("this kernel breaks no connections for `ss -K` (CONFIG_INET_DIAG_DESTROY)")
                    passes = job.err(1).count("pass ")
                    self.assertTrue(job.until(lambda: job.err(1).count("pass ") > passes or not job.running(1)), job.everything())  # pylint: disable=cell-var-from-loop
                for rank in (1, 2):
                    os.kill(job.pid(rank), signal.SIGTERM)
                codes = [job.wait(rank) for rank in range(3)]
                self.assertEqual(codes, [143] * 3, job.everything())
                self.near(testing.read_json(self.path("result.json"))["objective"], self.wanted)


if __name__ == "__main__":
    testing.main(Tcp, "__main__")
