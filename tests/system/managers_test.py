#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs with several managers, of which some are killed or stopped. Usage: managers_test.py PATH-OF-WEIR"""

import contextlib
import json
import os
import signal
import subprocess
import time
import unittest

import lr_testing as testing
from stopping import stop

SERVERS, SIZE = 3, 5  # ranks 0, 1 and 2 have a server and a manager; ranks 3 and 4 work
LEASE_MS = 3000  # a busy machine must not take a server for silent
# Every rank has all: a server, a manager, and a worker that gives its work back.
COLOCATED = ("--colocate", "--on-worker-loss", "reassign")
# How the error of a worker begins when most managers are gone.
GONE = (r"error: most managers of the job \(of ranks 0, 1, 2\) are gone: their processes have ended, or they take no part any more; "
        "without them the job cannot go on: start it again")
NO_GRACE = ("--grace", "0")  # who has left stays for its manager, however long the rest of a test takes


class Managers(testing.ServersThatDie, testing.Folder, unittest.TestCase):
    def job(self, rows, *flags, replicas=1, size=SIZE, **variables):
        train = testing.write(self.path("train.svm"), rows)
        command = [self.WEIR, "lr", "--train", train, "--servers", str(SERVERS), "--replicas", str(replicas), "--managers", "3",
                   "--contact", self.path("contact"), *flags]
        return testing.Ranks(self.folder, command, size, {"WEIR_LEASE_MS": str(LEASE_MS), **variables})

    def status(self):
        done = self.weir("status", self.path("contact"), "--json")
        return json.loads(done.out) if done.code == 0 else None

    def has_copies(self, servers):
        """Whether each segment has its copy, on so many servers."""
        status = self.status()
        return status is not None and len(status["servers"]) == servers and status["copies"]["segments_to_copy"] == 0

    def ready(self, job):
        job.start_all()
        self.assertTrue(job.until_training(), job.everything())
        self.assertTrue(job.until(lambda: self.has_copies(SERVERS)), job.everything())

    def test_the_first_rank_may_die(self):
        with self.job(testing.endless(), *testing.ENDLESS) as job:
            self.ready(job)
            job.kill(0)
            self.trains_on(job)
            self.assertTrue(job.until(lambda: self.has_copies(2)), job.everything())
            self.trains_on(job)
            self.ends(job, (1, 2, 3, 4))
            # The kernel says that nobody is there, but of a connection that was being made at that moment.
            self.assertNotRegex(job.everything(), r"\d\d+ more like this .*cannot connect")

    def test_status_says_nothing_of_a_dead_manager_while_another_one_answers(self):
        with self.job(testing.endless(), *testing.ENDLESS, WEIR_TRANSPORT="tcp") as job:
            self.ready(job)
            job.kill(0)  # the one that is asked first
            self.trains_on(job)
            done = self.weir("status", self.path("contact"), WEIR_TRANSPORT="tcp")
            self.assertEqual((done.code, done.err), (0, ""))
            self.assertRegex(done.out, r"they have agreed on [1-9][0-9]*\.[0-9] [KM]iB\n")
            self.ends(job, (1, 2, 3, 4))

    def test_a_training_that_lost_its_first_rank_ends_at_the_same_optimum(self):
        rows, out, settings = testing.far_from_zero(), self.path("out.json"), ("--l1", "1", "--tolerance", "1e-7", "--blocks", "8")
        done = self.lr("--train", testing.write(self.path("alone.svm"), rows), "--json", out, *settings)
        self.assertEqual(done.code, 0, done.err)
        wanted = testing.read_json(out)["objective"]
        with self.job(rows, "--json", out, *settings) as job:
            job.start_all()
            self.assertTrue(job.until_training(), job.everything())
            self.assertTrue(job.until(lambda: self.has_copies(SERVERS) or not job.running(3)), job.everything())
            job.kill(0)  # or the training has come to its end just now
            self.assertEqual([job.wait(rank) for rank in (1, 2, 3, 4)], [0] * 4, job.everything())
        self.near(testing.read_json(out)["objective"], wanted)

    def test_checkpoints_are_written_after_the_one_that_wrote_them_is_dead(self):
        folder = self.path("checkpoints")
        os.mkdir(folder)

        def newest():
            return max((int(name.split(".")[0]) for name in os.listdir(folder) if name.endswith(".manifest")), default=0)

        with self.job(testing.endless(), "--checkpoint", folder, "--checkpoint-every", "50", *testing.ENDLESS) as job:
            self.ready(job)
            self.assertTrue(job.until(lambda: newest() > 0), job.everything())
            job.kill(0)
            before = newest()
            self.assertTrue(job.until(lambda: newest() > before + 1), job.everything())
            self.ends(job, (1, 2, 3, 4))
        self.assertEqual(self.weir("checkpoint", "verify", folder).code, 0)

    def test_a_signal_for_a_checkpoint_counts_at_each_manager(self):
        folder = self.path("checkpoints")
        os.mkdir(folder)

        def count():
            return sum(name.endswith(".manifest") for name in os.listdir(folder))

        with self.job(testing.endless(), "--checkpoint", folder, *testing.ENDLESS) as job:
            self.ready(job)
            for rank in range(SERVERS):
                os.kill(job.pid(rank), signal.SIGUSR1)
                self.assertTrue(job.until(lambda wanted=rank + 1: count() == wanted), job.everything())
            self.ends(job, range(SIZE))
        self.assertEqual(self.weir("checkpoint", "verify", folder).code, 0)

    def test_one_that_is_stopped_does_no_harm_when_it_goes_on(self):
        with self.job(testing.endless(), *testing.ENDLESS) as job:
            self.ready(job)
            stop(job.pid(0))
            self.trains_on(job)
            self.assertTrue(job.until(lambda: self.has_copies(2)), job.everything())
            with contextlib.suppress(ProcessLookupError):  # a worker ended it: it was stopped while it wrote into the worker's memory
                os.kill(job.pid(0), signal.SIGCONT)
            stays = "the manager in this process stays until the job is over"
            self.assertTrue(job.until(lambda: stays in job.err(0) or not job.running(0)), job.everything())
            self.trains_on(job)
            self.ends(job, (1, 2, 3, 4))
            ended = job.wait(0)
            self.assertIn(ended, (1, -signal.SIGKILL), job.everything())
            if ended == 1:
                self.assertIn(stays, job.err(0))
                self.assertRegex(job.err(0), r"error: .*the job goes on without")
            else:
                self.assertRegex(job.everything(), r"shm: pid \d+ on this host was replaced, .* was ended \(SIGKILL\)")

    def test_a_worker_that_is_stopped_while_another_one_begins_to_lead_is_waited_for(self):
        with self.job(testing.endless(), *testing.ENDLESS) as job:
            self.ready(job)
            stop(job.pid(4))
            job.kill(0)
            time.sleep(4 * LEASE_MS / 1000)
            os.kill(job.pid(4), signal.SIGCONT)
            self.trains_on(job)
            self.ends(job, (1, 2, 3, 4))

    def test_while_nobody_leads_a_command_says_how_many_answered(self):
        with self.job(testing.endless(), *testing.ENDLESS, WEIR_DEADLINE_MS="300000") as job:
            self.ready(job)
            for rank in (0, 1):
                stop(job.pid(rank))
            told = []

            def is_told():
                told.append(self.weir("status", self.path("contact")))  # which may give up before a busy machine's rank 2 has answered
                return "no manager of the job leads: 1 of 3 answered (rank 2), and 2 must reach each other" in told[-1].err

            self.assertTrue(job.until(is_told), told)
            self.assertEqual(told[-1].code, 1)
            self.assertIn("see whether the others (ranks 0, 1) run", told[-1].err)
            for rank in (0, 1):
                os.kill(job.pid(rank), signal.SIGCONT)
            self.trains_on(job)
            self.ends(job, range(SIZE))

    def test_the_first_rank_leaves_on_sigterm_if_another_one_leads(self):
        for _ in range(30):
            with self.job(testing.endless(), *testing.ENDLESS, *NO_GRACE) as job:
                self.ready(job)
                if testing.answer_of(self.status)["managers"]["leader_rank"] == 0:
                    continue  # who leads first is chance
                os.kill(job.pid(0), signal.SIGTERM)
                self.assertTrue(job.until(lambda: self.has_copies(2)), job.everything())
                self.assertTrue(job.until(lambda: "the manager in this process stays until the job is over" in job.err(0)), job.everything())
                self.trains_on(job)
                return self.ends(job, range(SIZE))
        return self.fail("rank 0 always leads")

    def leader(self):
        status = self.status()
        return None if status is None else status["managers"]["leader_rank"]

    def test_the_rank_that_leads_hands_over_on_sigterm_and_leaves(self):
        out, plot = self.path("out.json"), self.path("plot.svg")
        with self.job(testing.endless(), "--json", out, "--plot", plot, *testing.ENDLESS, *NO_GRACE) as job:
            self.ready(job)
            first = testing.answer_of(self.leader)
            os.kill(job.pid(first), signal.SIGTERM)
            self.assertTrue(job.until(lambda: self.leader() not in (first, None)), job.everything())
            second = testing.answer_of(self.leader)
            self.assertTrue(job.until(lambda: self.has_copies(2)), job.everything())
            self.assertNotIn(first, [server["rank"] for server in testing.answer_of(self.status)["servers"]])
            self.assertTrue(job.until(lambda: "the manager in this process stays until the job is over" in job.err(first)), job.everything())
            self.assertIn("this server hands over what it holds, and ends", job.err(first))
            self.trains_on(job)
            self.ends(job, range(SIZE))
        led = [event for event in testing.read_json(out)["events"] if event["what"] == "manager leads"]
        self.assertIn(second, [event["number"] for event in led])
        svg = testing.Path(plot).read_text(encoding="utf-8")
        for event in led:
            self.assertIn(f">manager of rank {event['number']} leads<", svg)
        self.assertIn(">manager<", svg)

    def has_no_server(self, rank):
        status = self.status()
        return status is not None and rank not in [server["rank"] for server in status["servers"]]

    def leaves_with_its_worker(self, job, rank):
        os.kill(job.pid(rank), signal.SIGTERM)
        self.assertTrue(job.until(lambda: f"worker {rank} has left, and the others train on" in job.err(rank)), job.everything())
        self.assertTrue(job.until(lambda: self.has_no_server(rank)), job.everything())
        before = job.everything().count("pass ")  # by whoever is the first of the workers now
        self.assertTrue(job.until(lambda: job.everything().count("pass ") > before + 1), job.everything())

    def test_ranks_that_lead_and_train_leave_on_sigterm_one_after_the_other(self):
        out = self.path("out.json")
        with self.job(testing.endless(), "--json", out, *testing.ENDLESS, *COLOCATED, *NO_GRACE, replicas=0, size=SERVERS) as job:
            self.ready(job)
            left = []
            for _ in range(2):
                # A busy machine may have made the manager of one that has left lead again.
                left.append(next(rank for rank in (self.leader(), *range(SERVERS)) if rank not in (*left, None)))
                self.leaves_with_its_worker(job, left[-1])
            last = sum(range(SERVERS)) - sum(left)
            os.kill(job.pid(last), signal.SIGTERM)  # nobody else has a worker: the training ends
            self.assertEqual([job.wait(rank) for rank in range(SERVERS)], [143] * SERVERS, job.everything())
        events = [(event["what"], event["number"]) for event in testing.read_json(out)["events"] if event["what"].startswith("worker")]
        self.assertEqual(events, [("worker left", rank) for rank in left])

    def test_sigterm_to_all_ranks_that_lead_and_train_ends_the_training(self):
        folder, out = self.path("checkpoints"), self.path("out.json")
        os.mkdir(folder)
        with self.job(testing.endless(), "--json", out, "--checkpoint", folder, *testing.ENDLESS, *COLOCATED, size=SERVERS) as job:
            self.ready(job)
            for rank in range(SERVERS):
                os.kill(job.pid(rank), signal.SIGTERM)
            self.assertEqual([job.wait(rank) for rank in range(SERVERS)], [143] * SERVERS, job.everything())
            self.assertIn("stopped by SIGTERM: the training ended after pass", job.err(0))
            self.assertNotIn("has left", job.everything())
        self.assertEqual(testing.read_json(out)["examples"], 100)
        self.assertEqual(self.weir("checkpoint", "verify", folder).code, 0)

    def test_a_rank_that_has_left_ends_with_0_when_the_grace_is_over(self):
        with self.job(testing.endless(), *testing.ENDLESS, "--grace", "12", replicas=0) as job:
            self.ready(job)
            first = testing.answer_of(self.leader)
            os.kill(job.pid(first), signal.SIGTERM)
            self.assertEqual(job.wait(first), 0, job.everything())
            self.assertIn("this process ends before the job, and with it one of its 3 managers", job.err(first))
            self.assertEqual(job.err(first).count("error"), 0)
            self.trains_on(job)
            self.ends(job, [rank for rank in range(SIZE) if rank != first])

    def test_the_rank_that_leads_says_why_it_stays_if_no_other_manager_can(self):
        with self.job(testing.endless(), *testing.ENDLESS, *NO_GRACE) as job:
            self.ready(job)
            dead = (testing.answer_of(self.leader) + 1) % SERVERS
            job.kill(dead)
            self.assertTrue(job.until(lambda: self.has_copies(2)), job.everything())
            first = testing.answer_of(self.leader)
            other = 3 - first - dead
            stop(job.pid(other))  # most of them do not reach each other any more
            os.kill(job.pid(first), signal.SIGTERM)
            self.assertTrue(job.until(lambda: "none of the others takes over from it" in job.err(first)), job.everything())
            self.assertIn("it serves on", job.err(first))
            os.kill(job.pid(other), signal.SIGCONT)
            self.trains_on(job)
            self.ends(job, (first, other, 3, 4))

    def test_without_most_of_them_the_job_ends(self):
        with self.job(testing.endless(), *testing.ENDLESS) as job:
            self.ready(job)
            job.kill(0)
            job.kill(1)
            self.assertEqual([job.wait(rank) for rank in (2, 3, 4)], [1] * 3, job.everything())
            self.assertIn("most managers of the job (of ranks 0, 1, 2) are gone, and without them no server may answer", job.err(2))
            for rank in (3, 4):
                self.assertRegex(job.err(rank), GONE)

    def test_ranks_with_other_settings_end_all_of_them_before_the_job_starts(self):
        train = testing.write(self.path("train.svm"), testing.dense())
        command = [self.WEIR, "lr", "--train", train, "--servers", "3"]
        for case, variables, flags, says in (
            (2, {"WEIR_LEASE_MS": "5000"}, (), "WEIR_LEASE_MS: rank 0 has 1000 ms, rank 2 has 5000 ms"),
            (1, {}, ("--on-worker-loss", "reassign"), "--on-worker-loss: rank 0 has stop, rank 1 has reassign"),
            (3, {}, ("--managers", "1"), "--managers: rank 0 has 3, rank 3 has 1"),
            (0, {}, ("--managers", "1"), "--managers: rank 0 has 1, rank 1 has 3 (3 ranks differ)"),
        ):
            with self.subTest(says), testing.Ranks(self.folder, command, 4, {"WEIR_LEASE_MS": "1000"}) as job:
                for rank in range(4):
                    other = rank == case
                    managers = () if other and "--managers" in flags else ("--managers", "3")
                    job.start(rank, extra=variables if other else None, flags=(*managers, *(flags if other else ())))
                self.assertEqual([job.wait(rank) for rank in range(4)], [2] * 4, job.everything())
                for rank in range(4):
                    self.assertIn(says, job.err(rank))
                    self.assertIn("start all ranks with the same options and variables", job.err(rank))

    def test_ranks_of_a_job_with_one_manager_that_were_started_with_something_else_are_named(self):
        train = testing.write(self.path("train.svm"), testing.endless())
        with testing.Ranks(self.folder, [self.WEIR, "lr", "--train", train, "--servers", "2", *testing.ENDLESS], 3) as job:
            for rank, replicas, lease_ms in ((0, "1", "1000"), (1, "0", "1000"), (2, "1", "2000")):
                job.start(rank, extra={"WEIR_LEASE_MS": lease_ms}, flags=("--replicas", replicas))
            self.assertTrue(job.until_training(), job.everything())
            says = "what rank 0 was started with counts: --replicas: rank 0 has 1, rank 1 has 0; WEIR_LEASE_MS: rank 0 has 1000 ms, rank 2 has 2000 ms; "
            self.assertEqual([job.err(rank).count(says) for rank in range(3)], [1, 0, 0], job.everything())

    def test_wrong_numbers_of_them_are_named(self):
        train = testing.write(self.path("train.svm"), testing.dense())
        for words, says in (
            (("--managers", "2"), "--managers: 2: must be 1, 3, 5 or 7"),
            (("--managers", "3", "--servers", "3"), "--managers 3 needs at least 3 processes with servers"),
        ):
            with self.subTest(words):
                done = self.lr("--train", train, *words)
                self.assertEqual(done.code, 2)
                self.assertIn(says, done.err)


def on_host(name):
    """A command that runs another one on a host of that name, as far as Weir can tell."""
    return ("unshare", "--uts", "sh", "-c", f'hostname {name} && exec "$0" "$@"')


@unittest.skipIf(subprocess.run([*on_host("node"), "true"], check=False, capture_output=True).returncode, "this user may not name hosts (unshare --uts)")
class ManagersOnHosts(testing.ServersThatDie, testing.Folder, unittest.TestCase):
    SERVERS, WORKERS = 4, (4,)  # rank 4 works

    def job(self, hosts, *flags):
        """`hosts`: of each rank, a letter."""
        train = testing.write(self.path("train.svm"), testing.endless())
        command = [self.WEIR, "lr", "--train", train, "--servers", str(self.SERVERS), "--contact", self.path("contact"), *testing.ENDLESS, *flags]
        job = testing.Ranks(self.folder, command, len(hosts), {"WEIR_LEASE_MS": str(LEASE_MS), "WEIR_TRANSPORT": "tcp"})
        for rank, letter in enumerate(hosts):
            job.start(rank, within=on_host(f"node-{letter}"))
        return job

    def status(self):
        done = self.weir("status", self.path("contact"), "--json", WEIR_TRANSPORT="tcp")
        return json.loads(done.out) if done.code == 0 else None

    def has_copies(self, servers):
        status = self.status()
        return status is not None and len(status["servers"]) == servers and status["copies"]["segments_to_copy"] == 0

    def test_a_host_with_several_servers_may_die_if_the_servers_are_on_as_many_hosts_as_there_are_managers(self):
        with self.job("aabcc", "--replicas", "1", "--managers", "3") as job:
            self.assertTrue(job.until_training(), job.everything())
            self.assertTrue(job.until(lambda: self.has_copies(self.SERVERS)), job.everything())
            status = testing.answer_of(self.status)
            self.assertEqual([server["host"] for server in status["servers"]], ["node-a", "node-a", "node-b", "node-c"])
            self.assertIn(status["managers"]["leader_rank"], (0, 2, 3))
            self.assertEqual((status["managers"]["count"], status["managers"]["heard"]), (3, 3))
            self.assertIn("node-b", self.weir("status", self.path("contact"), WEIR_TRANSPORT="tcp").out)
            self.assertNotIn("spread the servers", job.everything())
            for rank in (0, 1):
                job.processes[rank].kill()
            self.trains_on(job)
            self.assertTrue(job.until(lambda: self.has_copies(2)), job.everything())
            self.assertIn(testing.answer_of(self.status)["managers"]["leader_rank"], (2, 3))
            self.assertTrue(job.until(lambda: testing.answer_of(self.status)["managers"]["heard"] == 2), self.status())
            self.assertRegex(self.weir("status", self.path("contact"), WEIR_TRANSPORT="tcp").out, r"managers: 3, of which rank \d leads, .*2 of them heard of")
            job.kill(2)
            self.assertEqual([job.wait(rank) for rank in (3, 4)], [1] * 2, job.everything())
            self.assertIn("most managers of the job (of ranks 0, 2, 3) are gone", job.err(3))

    def test_servers_on_too_few_hosts_are_told_so_once(self):
        says = ("--managers 3: 3 of them (ranks 0, 1, 2) are on one host, node-a", "--replicas 1: all servers are on 1 host")
        for hosts, is_said in (("aaaab", True), ("aaaaa", False)):
            with self.subTest(hosts), self.job(hosts, "--replicas", "1", "--managers", "3") as job:
                self.assertTrue(job.until_training(), job.everything())
                self.assertEqual([job.everything().count(text) for text in says], [int(is_said)] * 2, job.everything())
                self.assertEqual([job.err(0).count(text) for text in says], [int(is_said)] * 2, job.everything())
                self.ends(job, range(5))


if __name__ == "__main__":
    testing.main(testing.Folder, "__main__")
