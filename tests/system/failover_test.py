#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs with copies of their parameters, whose servers are killed, stopped or told to leave. Usage: failover_test.py PATH-OF-WEIR"""

import contextlib
import json
import os
import re
import signal
import subprocess
import time
import unittest

import lr_testing as testing
from stopping import stop

SERVERS, SIZE = 3, 5  # rank 0 is the manager's; ranks 3 and 4 work
LEASE_MS = 3000  # a busy machine must not take a server for silent
# A kill takes some 20 ms, and 1.7 s on a very busy machine. If the death is not proved, it takes a lease or more until the server is
# replaced, and if nobody replaces it, the deadline of a call. The limit is far from all of these.
KILL_MS_MAX, KILL_LEASE_MS = 20000, 60000
NEVER_MS = "3600000"  # a deadline that no test waits for


class Failover(testing.ServersThatDie, testing.Folder, unittest.TestCase):
    def job(self, rows, *flags, replicas=1, **variables):
        train = testing.write(self.path("train.svm"), rows)
        command = [self.WEIR, "lr", "--train", train, "--servers", str(SERVERS), "--replicas", str(replicas), *flags]
        return testing.Ranks(self.folder, command, SIZE, {"WEIR_LEASE_MS": str(LEASE_MS), **variables})

    def status(self, job):
        done = self.weir("status", f"127.0.0.1:{job.port}", "--json")
        return json.loads(done.out) if done.code == 0 else None

    def has_copies(self, job, servers):
        """Whether each segment has its copy, on so many servers."""
        status = self.status(job)
        return status is not None and len(status["servers"]) == servers and status["copies"]["segments_to_copy"] == 0

    def ready(self, job):
        job.start_all()
        self.assertTrue(job.until_training(), job.everything())
        self.assertTrue(job.until(lambda: self.has_copies(job, SERVERS)), job.everything())

    def test_a_training_goes_on_when_its_servers_are_killed_one_after_the_other(self):
        out = self.path("out.json")
        with self.job(testing.endless(), "--json", out, *testing.ENDLESS) as job:
            self.ready(job)
            job.kill(2)
            self.trains_on(job)
            self.assertTrue(job.until(lambda: self.has_copies(job, 2)), job.everything())
            job.kill(1)
            self.trains_on(job)
            self.assertIn("the job goes on without server 2 (rank 2): nothing is lost", job.err(0))
            self.assertIn("the job goes on without server 1 (rank 1): nothing is lost", job.err(0))
            status = testing.answer_of(lambda: self.status(job))
            self.assertEqual([server["server"] for server in status["servers"]], [0])
            self.assertEqual([dead["server"] for dead in status["dead_servers"]], [2, 1])
            self.assertEqual(status["share_lost"], 0)
            self.assertEqual(status["copies"]["segments_to_copy"], status["copies"]["segments"])
            text = self.weir("status", f"127.0.0.1:{job.port}").out
            self.assertRegex(text, r"copies: 1 of each segment is wanted; (\d+) of \1 have none: one server is left, let another join\n")
            self.assertIn("replaced, because it died or was out of reach; nothing is lost with it: server 2, rank 2; server 1, rank 1", text)
            self.ends(job, (0, 3, 4))
        result = testing.read_json(out)
        self.assertLess(result["objective"], result["history"][0]["objective"])
        objectives = [p["objective"] for p in result["history"]]
        self.assertEqual(objectives, sorted(objectives, reverse=True))  # no step was lost, and none done twice

    def test_the_rank_with_the_only_manager_ends_with_the_job_when_its_grace_is_over(self):
        with self.job(testing.endless(), *testing.ENDLESS, "--grace", "2") as job:
            self.ready(job)
            os.kill(job.pid(0), signal.SIGTERM)
            self.assertEqual([job.wait(rank) for rank in range(SIZE)], [143] + [1] * (SIZE - 1), job.everything())
            self.assertIn("rank 0 has the manager, and serves until the workers have ended", job.err(0))
            self.assertRegex(job.err(0), r"--grace is over: this server ends, and has not handed over what it holds .*; the job ends with it, because the manager is in this process")
            for rank in range(1, SIZE):
                self.assertRegex(job.err(rank), r"error: the manager \(rank 0\) is gone.*with --managers 3, .*, it would have gone on")

    def test_a_lease_that_is_too_long_for_the_deadline_is_warned_of(self):
        words = "WEIR_LEASE_MS=11000 is more than a third of WEIR_DEADLINE_MS=30000"
        for replicas, warns in ((1, True), (0, False)):
            with self.subTest(replicas=replicas), self.job(testing.endless(), "--passes", "1", replicas=replicas, WEIR_LEASE_MS="11000") as job:
                job.start_all()
                self.assertEqual([job.wait(rank) for rank in range(SIZE)], [0] * SIZE, job.everything())
                self.assertEqual(words in job.err(0), warns, job.err(0))
                self.assertEqual(job.everything().count(words), int(warns))  # once in a job

    def test_with_two_copies_two_servers_may_die_at_once(self):
        with self.job(testing.endless(), *testing.ENDLESS, replicas=2) as job:
            self.ready(job)
            for rank in (1, 2):
                os.kill(job.pid(rank), signal.SIGKILL)
            self.trains_on(job)
            status = testing.answer_of(lambda: self.status(job))
            self.assertEqual([server["server"] for server in status["servers"]], [0])
            self.assertEqual(status["share_lost"], 0)
            self.ends(job, (0, 3, 4))

    def test_when_more_servers_die_than_there_are_copies_all_ranks_end_and_say_what_is_lost(self):
        # Both deaths are seen at once, or one after the other; no call ends by its deadline.
        for seen_at_once in (True, False):
            with self.subTest(seen_at_once=seen_at_once), self.job(testing.endless(), *testing.ENDLESS, WEIR_DEADLINE_MS=NEVER_MS) as job:
                self.ready(job)
                # One that is stopped takes no copies of what the one before had.
                for rank in (0, 1, 2) if seen_at_once else (1, 2):
                    stop(job.pid(rank))
                for rank in (1, 2):
                    job.kill(rank)
                os.kill(job.pid(0), signal.SIGCONT)
                self.assertEqual([job.wait(rank) for rank in (0, 3, 4)], [1] * 3, job.everything())
                for rank in (0, 3, 4):
                    self.assertRegex(job.err(rank), r"[0-9.]+ % of the parameters are lost, .*: keys [0-9]+ to .* of table ")

    def test_a_training_that_lost_a_server_ends_at_the_same_optimum(self):
        rows, out, settings = testing.far_from_zero(), self.path("out.json"), ("--l1", "1", "--tolerance", "1e-7", "--blocks", "8")
        done = self.lr("--train", testing.write(self.path("alone.svm"), rows), "--json", out, *settings)
        self.assertEqual(done.code, 0, done.err)
        wanted = testing.read_json(out)["objective"]
        with self.job(rows, "--json", out, *settings) as job:
            job.start_all()
            self.assertTrue(job.until_training(), job.everything())
            self.assertTrue(job.until(lambda: self.has_copies(job, SERVERS) or not job.running(3)), job.everything())
            job.kill(1)  # or the training has come to its end just now
            self.assertEqual([job.wait(rank) for rank in (0, 2, 3, 4)], [0] * 4, job.everything())
        self.near(testing.read_json(out)["objective"], wanted)

    def test_the_training_of_a_click_log_that_loses_a_server_and_then_a_worker_ends_at_the_same_optimum(self):
        clicks, alone, out, plot = (self.path(name) for name in ("clicks.svm", "alone.json", "out.json", "plot.svg"))
        done = self.weir("synth", "--out", clicks, "--examples", 4000, "--features", 20000, "--per-example", 10)
        self.assertEqual(done.code, 0, done.err)
        settings = ("--train", clicks, "--l1", "1", "--blocks", "4", "--tolerance", "1e-10")  # some 200 passes
        done = self.lr(*settings, "--json", alone)
        self.assertEqual(done.code, 0, done.err)
        command = [self.WEIR, "lr", *settings, "--servers", "3", "--replicas", "1", "--on-worker-loss", "reassign", "--work-lease", "0",
                   "--json", out, "--plot", plot]
        with testing.Ranks(self.folder, command, 6, {"WEIR_LEASE_MS": str(LEASE_MS)}) as job:
            job.start_all()
            self.assertTrue(job.until(lambda: "pass " in job.err(3)), job.everything())
            with self.held(job, 5):
                self.assertTrue(job.until(lambda: self.has_copies(job, SERVERS)), job.everything())
            job.kill(2)
            self.assertTrue(job.until(lambda: "the job goes on without server 2 (rank 2)" in job.err(0)), job.everything())
            with self.held(job, 5):
                time.sleep(0.2)  # the next pass is shown at once then
                shown = job.err(3).count("pass ")
            self.assertTrue(job.until(lambda: job.err(3).count("pass ") > shown), job.everything())
            job.kill(4)
            self.assertEqual([job.wait(rank) for rank in (0, 1, 3, 5)], [0] * 4, job.everything())
            self.assertIn("worker 1 (rank 4) is lost", job.err(0))
        wanted, result = testing.read_json(alone), testing.read_json(out)
        for one in (wanted, result):
            self.assertEqual((one["examples"], one["ended_because"]), (4000, "the gap is within the tolerance"))
            self.assertLessEqual(one["gap"], 1e-10)
        # No further from the optimum than the gap, either of them, but for what is lost in sums of doubles.
        self.assertAlmostEqual(result["objective"] / wanted["objective"], 1, delta=2e-10)
        self.check_losses_while_it_trained(result, testing.Path(plot).read_text(encoding="utf-8"))

    def test_a_server_and_a_worker_die_at_once_and_the_next_checkpoint_has_what_the_others_go_on_with(self):
        out, folder, train = self.path("out.json"), self.path("checkpoints"), testing.write(self.path("train.svm"), testing.endless())
        os.mkdir(folder)
        command = [self.WEIR, "lr", "--train", train, *testing.ENDLESS, "--servers", "3", "--replicas", "1", "--on-worker-loss", "reassign",
                   "--checkpoint", folder, "--json", out]
        with testing.Ranks(self.folder, command, 6, {"WEIR_LEASE_MS": str(LEASE_MS)}) as job:
            self.ready(job)
            subprocess.run(["kill", "-9", str(job.pid(2)), str(job.pid(4))], check=True)
            self.assertEqual([job.wait(rank) for rank in (2, 4)], [-signal.SIGKILL] * 2)
            os.kill(job.pid(0), signal.SIGUSR1)  # maybe before the deaths are known: then it is tried again
            self.assertTrue(job.until(lambda: re.search(r"checkpoint \d+ is in ", job.err(0))), job.everything())
            self.assertTrue(job.until(lambda: "the job goes on without server 2 (rank 2): nothing is lost" in job.err(0)), job.everything())
            self.assertTrue(job.until(lambda: "worker 1 (rank 4) is lost" in job.err(0)), job.everything())
            self.trains_on(job)
            by_signal = max(map(int, re.findall(r"checkpoint (\d+) is in ", job.err(0))))
            for rank in (0, 1, 3, 5):
                os.kill(job.pid(rank), signal.SIGTERM)
            self.assertEqual([job.wait(rank) for rank in (0, 1, 3, 5)], [143] * 4, job.everything())
        done = self.weir("checkpoint", "verify", folder)
        self.assertEqual((done.code, done.err), (0, ""))
        self.assertIn(f"checkpoint {by_signal}: whole\n", done.out)
        tables = [table["table"] for table in json.loads(self.weir("checkpoint", "show", folder, "--json").out)["tables"]]
        self.assertIn("lr2.weights", tables)  # of the round that began when the worker was lost
        stopped = testing.read_json(out)
        self.assertEqual(len(stopped["restarts"]), 1)
        done = self.lr("--train", train, "--l1", "0", "--passes", "1", "--json", out, "--resume", folder)
        self.assertEqual(done.code, 0, done.err)
        self.assertLessEqual(testing.read_json(out)["objective"], stopped["objective"] * (1 + 1e-9))

    @contextlib.contextmanager
    def held(self, job, rank):
        """The other workers wait for this one: the training does not end meanwhile, however fast it is."""
        stop(job.pid(rank))
        try:
            yield
        finally:
            os.kill(job.pid(rank), signal.SIGCONT)

    def check_losses_while_it_trained(self, result, svg):
        """A server and then a worker, with passes before, between and after; the plot shows both where they were."""
        losses = [event for event in result["events"] if event["what"].endswith("lost")]
        self.assertEqual([(event["what"], event["number"]) for event in losses], [("server lost", 2), ("worker lost", 1)], losses)
        passes, (server, worker) = [one["seconds"] for one in result["history"]], (event["seconds"] for event in losses)
        self.assertEqual([one["pass"] for one in result["history"]], list(range(1, result["passes"] + 1)))
        for begin, end in ((0, server), (server, worker), (worker, result["seconds"])):
            self.assertTrue([seconds for seconds in passes if begin < seconds < end], (begin, end, passes))
        marks = re.findall(r'<line x1="([0-9.]+)" x2="\1" [^\n]*\n<text [^>]*>(server 2|worker 1) lost<', svg)
        self.assertEqual([name for _, name in marks], ["server 2", "worker 1"])
        ticks = [tuple(map(float, tick)) for tick in re.findall(r'<text x="([0-9.]+)" y="421" [^>]*>([0-9.]+)<', svg)]
        (left, first), (right, last) = ticks[0], ticks[-1]
        for (x, name), seconds in zip(marks, (server, worker)):
            self.assertAlmostEqual(float(x), left + (seconds - first) / (last - first) * (right - left), delta=0.2, msg=name)

    def test_a_server_that_is_stopped_is_replaced_and_does_no_harm_when_it_goes_on(self):
        with self.job(testing.endless(), *testing.ENDLESS) as job:
            self.ready(job)
            stop(job.pid(1))
            self.trains_on(job)
            self.assertRegex(job.err(0), rf"server 1 \(rank 1\) is out of reach for \d+ ms \(WEIR_LEASE_MS is {LEASE_MS}\)")
            with contextlib.suppress(ProcessLookupError):  # a worker ended it: it was stopped while it wrote into the worker's memory
                os.kill(job.pid(1), signal.SIGCONT)
            ended = job.wait(1)
            self.assertIn(ended, (1, -signal.SIGKILL), job.everything())
            if ended == 1:
                self.assertRegex(job.err(1), r"error: .*server 1 \(rank 1\) is out of reach .*and the job goes on without it")
            else:
                self.assertRegex(job.err(3) + job.err(4), r"shm: pid \d+ on this host was replaced, .* was ended \(SIGKILL\)")
            self.trains_on(job)
            self.ends(job, (0, 2, 3, 4))

    def test_the_death_of_the_manager_ends_the_job_before_any_deadline(self):
        with self.job(testing.endless(), *testing.ENDLESS, WEIR_DEADLINE_MS=NEVER_MS) as job:
            self.ready(job)
            job.kill(0)
            self.assertEqual([job.wait(rank) for rank in (1, 2, 3, 4)], [1] * 4, job.everything())
            for rank in (1, 2):
                self.assertIn("the manager (rank 0) is gone", job.err(rank))
            for rank in (3, 4):
                self.assertRegex(job.err(rank), rf"error: {testing.MANAGER_GONE}: start it again; its copies keep a job only as long as a manager lives: with --managers 3, ")

    def test_the_death_of_the_only_server_of_a_job_without_copies_is_that_of_its_manager(self):
        train, folder = testing.write(self.path("train.svm"), testing.endless()), self.path("checkpoints")
        os.mkdir(folder)
        command = [self.WEIR, "lr", "--train", train, *testing.ENDLESS]
        for flags, says in ((("--checkpoint", folder), f", with --resume {folder} if a checkpoint is there"), ((), "")):
            with self.subTest(flags), testing.Ranks(self.folder, [*command, *flags], 2, {"WEIR_DEADLINE_MS": NEVER_MS}) as job:
                job.start_all()
                self.assertTrue(job.until_training(), job.everything())
                job.kill(0)
                self.assertEqual(job.wait(1), 1, job.everything())
                lost = "100 % of the parameters at least are lost with its server, because nobody else has them: keys 0 to [0-9]+ of table '"
                self.assertRegex(job.err(1), rf"error: {testing.MANAGER_GONE}: start it again{says}; shard 0 of server 0 \(rank 0\) is gone.*; {lost}")

    def test_a_server_may_not_leave_when_its_copies_would_have_no_place(self):
        with self.job(testing.endless(), *testing.ENDLESS) as job:
            self.ready(job)
            done = self.weir("leave", f"127.0.0.1:{job.port}", "--server", 2)
            self.assertEqual(done.code, 0, done.err)
            self.assertEqual(job.wait(2), 0, job.everything())
            done = self.weir("leave", f"127.0.0.1:{job.port}", "--server", 1)
            self.assertEqual(done.code, 1)
            self.assertIn("each segment has 2 copies", done.err)
            self.trains_on(job)
            self.assertTrue(self.has_copies(job, 2), job.everything())
            self.ends(job, (0, 1, 3, 4))

    def test_without_copies_the_job_says_what_the_death_of_a_server_means(self):
        with self.job(testing.endless(), *testing.ENDLESS, replicas=0) as job:
            job.start_all()
            self.assertTrue(job.until_training(), job.everything())
            self.assertIn("no parameter has a copy (--replicas 0): the death of a server ends this job", job.err(0))
            self.assertIn("copies: none", self.weir("status", f"127.0.0.1:{job.port}").out)
            job.kill(1)
            self.assertEqual([job.wait(rank) for rank in (3, 4)], [1, 1], job.everything())
            self.assertRegex(job.err(3), r"error: .*server 1 \(rank 1\) is gone.*; [0-9.]+ % of the parameters are lost, .*; start the job again; lost: keys [0-9]+ to .* of table ")
            self.assertNotRegex(job.err(0), r"worker [0-9]+ \(rank [0-9]+\) is lost")  # they have ended because of that
            for line in job.err(0).splitlines() + job.err(3).splitlines():
                self.assertLess(len(line), 600)

    def test_copies_in_one_process_are_said_to_protect_nothing(self):
        train, says = testing.write(self.path("train.svm"), testing.dense()), "copies protect nothing when it dies: its death ends this job"
        one_process = ("--servers", "3", "--workers", "3")
        done = self.lr("--train", train, *one_process, "--replicas", "1")
        self.assertEqual(done.code, 0, done.err)
        self.assertEqual(done.err.count(f"--replicas 1: all servers are in one process, so {says}"), 1, done.err)
        self.assertNotIn("copies", self.lr("--train", train, *one_process).err)  # nobody has asked for any
        with self.job(testing.endless(), *testing.ENDLESS) as job:
            self.ready(job)
            self.assertNotIn("all servers are in one process", job.err(0))
            self.ends(job, (0, 3, 4))

    def test_wrong_numbers_of_copies_are_named(self):
        train = testing.write(self.path("train.svm"), testing.dense())
        for words, says in (
            (("--replicas", "1"), "--replicas 1 needs at least 2 servers"),
            (("--replicas", "3", "--servers", "4"), "--replicas"),
            (("--replicas", "some"), "--replicas"),
        ):
            with self.subTest(words):
                done = self.lr("--train", train, *words)
                self.assertEqual(done.code, 2)
                self.assertIn(says, done.err)
        with self.subTest("started by bench --local"):
            done = self.weir("bench", "delay", "--local", "--brief", "--replicas", 1)
            self.assertEqual(done.code, 2)
            self.assertIn("--replicas 1 needs at least 2 servers", done.err)

    def test_servers_that_are_killed_or_stopped_at_random_lose_no_push(self):
        for how, variables in (((), {"WEIR_LEASE_MS": str(KILL_LEASE_MS), "WEIR_DEADLINE_MS": NEVER_MS}), (("--stop",), {"WEIR_LEASE_MS": str(LEASE_MS)})):
            with self.subTest(how):
                out = self.path("failover.json")
                words = ("bench", "failover", "--local", "--brief", "--rounds", 3, "--seconds", 0.2, "--seed", testing.seed(), "--json", out, *how)
                done = self.weir(*words, **variables)
                self.assertEqual(done.code, 0, done.err + done.out)
                result = testing.read_json(out)
                self.assertEqual((result["wrong_values"], result["rounds"]), (0, 3))
                self.assertEqual(len(result["rows"]), 3)
                self.assertGreater(result["acknowledged"], 0)
                if not how:
                    self.assertLess(result["max_ms"], KILL_MS_MAX, result["rows"])


if __name__ == "__main__":
    testing.main(testing.Folder, "__main__")
