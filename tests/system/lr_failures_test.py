#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same failures happen to every solver of `weir lr`. Usage: lr_failures_test.py PATH-OF-WEIR"""

import json
import os
import signal
import subprocess
import unittest

import lr_testing as testing

ENDS_S = 120
LINES = 60000
# So many times the same examples that an online training does not end before it is stopped.
MANY = 40


class LrFailures(testing.Folder, unittest.TestCase):
    """Manager, server and worker are killed, one worker joins and one leaves, a checkpoint is written, all get SIGTERM; and a job of
    another shape goes on."""

    def disturbed(self, solver, learns, last, shows):
        """`learns`: files, and flags with which it trains without an end; `last`: those with which the next job ends."""
        folder = self.folder / "checkpoints"
        folder.mkdir()
        common = [self.WEIR, "lr", "--solver", solver, *learns, "--checkpoint", str(folder), "--resume", "auto", "--json", self.path("out.json"),
                  "--contact", self.path("contact"), "--on-worker-loss", "reassign"]
        shape = ("--servers", "3", "--replicas", "1", "--managers", "3")
        with testing.Ranks(self.folder, [*common, *last[0], *shape], 6, {"WEIR_LEASE_MS": "3000"}, shows=shows) as job:
            job.start_all()
            self.assertTrue(job.until_training(), job.everything())
            self.assertTrue(job.until(self.has_copies), job.everything())
            leader = testing.answer_of(self.leader)
            job.kill(leader)  # and a server with it
            self.assertTrue(job.trains_on(3), job.everything())
            with self.joiner(job) as joiner:
                job.kill(4)
                self.assertTrue(job.trains_on(3), job.everything())
                os.kill(job.pid(3), signal.SIGTERM)  # the worker that shows the progress and writes the results
                self.assertEqual(job.wait(3), 0, job.everything())
                self.assertIn("has left, and the others train on", job.err(3))
                self.assertTrue(job.until(lambda: job.shows in job.err(5)), job.everything())
                done = testing.run([self.WEIR, "checkpoint", "now", self.path("contact")], testing.clean_environment({}), testing.LIMIT_S)
                self.assertEqual(done.code, 0, done.err + job.everything())
                self.assertTrue(job.trains_on(5), job.everything())
                left = [rank for rank in (0, 1, 2, 5) if rank != leader]
                for pid in (*map(job.pid, left), joiner.pid):
                    os.kill(pid, signal.SIGTERM)
                self.assertEqual([job.wait(rank) for rank in left], [143] * 3, job.everything())
                self.assertEqual(joiner.wait(ENDS_S), 143)
        stopped = testing.read_json(self.path("out.json"))
        events = [(event["what"], event["number"]) for event in stopped["events"]]
        for event in (("server lost", leader), ("worker joined", 3), ("worker lost", 1), ("worker left", 0)):
            self.assertIn(event, events)
        self.assertIn("manager leads", [what for what, _ in events])
        self.assertGreaterEqual(len(stopped["restarts"]), 3)
        with testing.Ranks(self.folder, [*common, *last[1], "--workers", "2"], 2, shows=shows) as job:
            job.start_all()
            self.assertEqual([job.wait(rank, ENDS_S) for rank in (0, 1)], [0, 0], job.everything())
        return stopped, testing.read_json(self.path("out.json"))

    def has_copies(self):
        done = testing.run([self.WEIR, "status", self.path("contact"), "--json"], testing.clean_environment({}), testing.LIMIT_S)
        return done.code == 0 and '"segments_to_copy": 0' in done.out

    def leader(self):
        done = testing.run([self.WEIR, "status", self.path("contact"), "--json"], testing.clean_environment({}), testing.LIMIT_S)
        return json.loads(done.out)["managers"]["leader_rank"] if done.code == 0 else None

    def joiner(self, job):
        with open(self.folder / "joiner.err", "wb") as err:
            joiner = subprocess.Popen([self.WEIR, "lr", "--join", self.path("contact")], stdin=subprocess.DEVNULL, stdout=err,  # pylint: disable=consider-using-with
                                      stderr=err, env=testing.clean_environment(testing.POOL))
        self.addCleanup(joiner.kill)
        self.assertTrue(job.until(lambda: "workers have come or gone" in job.err(3)), job.everything())
        self.assertTrue(job.trains_on(3), job.everything())
        return joiner

    def batch(self, solver, *flags):
        data = testing.write(self.path("train.svm"), testing.endless())
        (self.folder / "cache").mkdir()
        endless = ("--tolerance", "0", "--passes", "100000000", *flags)
        stopped, ended = self.disturbed(solver, ("--train", data), (endless, ("--tolerance", "0", "--passes", "20", *flags)), "pass ")
        self.assertLess(stopped["objective"], 69)  # what no weights cost
        self.assertLessEqual(ended["objective"], stopped["objective"] * (1 + 1e-6))
        self.assertEqual(ended["passes"], 20)

    def online(self, solver):
        clicks = self.path("click.svm")
        self.assertEqual(testing.run([self.WEIR, "synth", "--out", clicks, "--examples", str(LINES), "--features", str(LINES)],
                                     testing.clean_environment({}), testing.LIMIT_S).code, 0)
        stopped, ended = self.disturbed(solver, ("--stream", *[clicks] * MANY), (("--batch", "4"), ("--batch", "64")), "examples ")
        self.assertLess(stopped["examples"], LINES * MANY)
        self.assertGreaterEqual(ended["resumed_examples"], stopped["examples"])
        self.assertEqual(ended["examples"], LINES * MANY)

    def test_prox(self):
        self.batch("prox", "--l1", "0")

    def test_delayed(self):
        self.batch("delayed", "--l1", "0")

    def test_delayed_with_a_kkt_filter_and_examples_on_disk(self):
        self.batch("delayed", "--l1", "0.1", "--cache", self.path("cache"), "--memory", "1M")

    def test_lbfgs(self):
        self.batch("lbfgs", "--l1", "0", "--l2", "0")

    def test_ftrl(self):
        self.online("ftrl")

    def test_adagrad(self):
        self.online("adagrad")

    def test_adam(self):
        self.online("adam")


if __name__ == "__main__":
    testing.main(testing.Folder, "__main__")
