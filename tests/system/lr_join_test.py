#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Workers that join a running `weir lr`, and leave it again. Usage: lr_join_test.py PATH-OF-WEIR"""

import gzip
import json
import os
import re
import signal
import stat
import subprocess
import time
import unittest

import lr_testing as testing
from stopping import stop

REASSIGN = ("--on-worker-loss", "reassign")
SETTINGS = ("--l1", "1", "--blocks", "8")
PRECISE = ("--tolerance", "1e-7", *SETTINGS)
# It ends when it is stopped, and near its optimum.
UNENDING = ("--tolerance", "0", "--passes", "100000000")
SERVER, WORKERS = 0, (1, 2)


class Joiner:
    """A process that joins a job; its output goes to files."""

    def __init__(self, folder, words, secret=None):
        self.log = folder / f"joiner{Joiner.count}.err"
        Joiner.count += 1
        variables = testing.clean_environment({**testing.POOL, **({"WEIR_SECRET_FILE": secret} if secret else {})})
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=variables)  # pylint: disable=consider-using-with

    count = 0

    def text(self):
        return self.log.read_text(errors="replace")

    def wait(self):
        return self.process.wait(testing.LIMIT_S)


class LrJoin(testing.Folder, unittest.TestCase):
    def job(self, rows, *flags, size=3, reassign=True, **variables):
        train = testing.write(self.path("train.svm"), rows)
        command = [self.WEIR, "lr", "--train", train, "--json", self.path("out.json"), "--contact", self.path("contact")]
        return testing.Ranks(self.folder, [*command, *(REASSIGN if reassign else ()), *flags], size, variables)

    def begin(self, job):
        job.start_all()
        self.assertTrue(job.until_training(), job.everything())

    def join(self, job, *flags, at=None, secret=None):
        joiner = Joiner(self.folder, [self.WEIR, "lr", "--join", at or f"127.0.0.1:{job.port}", *flags], secret)

        def end():
            joiner.process.kill()
            joiner.process.wait()

        self.addCleanup(end)
        return joiner

    def status(self, job, secret=None):
        variables = testing.clean_environment({"WEIR_SECRET_FILE": secret} if secret else {})
        done = testing.run([self.WEIR, "status", "--json", f"127.0.0.1:{job.port}"], variables, testing.LIMIT_S)
        return json.loads(done.out) if done.code == 0 else None

    def shown(self, job):
        """The status of a job that runs."""
        status = testing.answer_of(lambda: self.status(job))
        self.assertIsNotNone(status, job.everything())
        return status

    def until_sharing(self, job, workers):
        """Waits until these workers, and no others, share the work."""
        def share():
            status = self.status(job)
            return status and {w["worker"] for w in status["workers"]} == set(workers) and all(w["has_work"] for w in status["workers"])
        self.assertTrue(job.until(share), f"{self.status(job)}\n{job.everything()}")

    def until_more_workers(self, job, count):
        """Waits until there are more workers than that, and returns them."""
        self.assertTrue(job.until(lambda: len((self.status(job) or {"workers": ()})["workers"]) > count), job.everything())
        return self.shown(job)["workers"]

    def trains_on(self, job, rank):
        self.assertTrue(job.trains_on(rank), job.everything())

    def stop_training(self, job):
        """As a launcher does."""
        for rank in job.processes:
            if job.running(rank):
                os.kill(job.pid(rank), signal.SIGTERM)

    def result(self):
        return testing.read_json(self.path("out.json"))

    def alone(self, rows):
        out = self.path("alone.json")
        done = self.lr("--train", testing.write(self.path("alone.svm"), rows), "--json", out, *PRECISE)
        self.assertEqual(done.code, 0, done.err)
        return testing.read_json(out)["objective"]

    def refused(self, joiner, *texts):
        self.assertNotEqual(joiner.wait(), 0, joiner.text())
        for text in texts:
            self.assertIn(text, joiner.text())

    def test_who_joins_trains_along_to_the_same_optimum(self):
        rows = testing.far_from_zero()
        wanted = self.alone(rows)
        with self.job(rows, *UNENDING, *SETTINGS) as job:
            self.begin(job)
            joiners = [self.join(job), self.join(job, "--workers", "2", at=self.path("contact"))]
            self.until_sharing(job, range(5))
            self.trains_on(job, WORKERS[0])
            self.stop_training(job)
            self.assertEqual([job.wait(rank) for rank in range(3)], [143] * 3, job.everything())
            for joiner in joiners:  # the training has ended as the job's ranks say
                self.assertEqual(joiner.wait(), 143, joiner.text())
        result = self.result()
        self.assertEqual(result["examples"], len(rows))
        self.near(result["objective"], wanted)
        joined = [event["number"] for event in result["events"] if event["what"] == "worker joined"]
        self.assertEqual(sorted(joined), [2, 3, 4])

    def test_a_training_that_ends_by_itself_ends_for_all_that_joined(self):
        rows = testing.far_from_zero()
        wanted = self.alone(rows)
        with self.job(rows, *PRECISE) as job:
            self.begin(job)
            joiner = self.join(job)  # it may come too late
            self.assertEqual([job.wait(rank) for rank in range(3)], [0] * 3, job.everything())
            code = joiner.wait()
            self.assertTrue(code == 0 or "error:" in joiner.text(), joiner.text())
        self.assertEqual(self.result()["examples"], len(rows))
        self.near(self.result()["objective"], wanted)

    def test_a_joiner_that_is_killed_or_gets_sigterm_is_not_missed(self):
        with self.job(testing.endless(), *testing.ENDLESS) as job:
            self.begin(job)
            for number, end in ((2, signal.SIGKILL), (3, signal.SIGTERM)):
                joiner = self.join(job)
                self.until_sharing(job, (0, 1, number))
                self.assertTrue(job.until(lambda joiner=joiner: testing.takes_sigterm(joiner.process.pid)), joiner.text())
                joiner.process.send_signal(end)
                self.assertEqual(joiner.wait(), 0 if end == signal.SIGTERM else -end, joiner.text())
                self.until_sharing(job, (0, 1))
                self.trains_on(job, WORKERS[0])
            self.assertIn("worker 3 has left, and the others train on", joiner.text())
            self.stop_training(job)
            self.assertEqual([job.wait(rank) for rank in range(3)], [143] * 3, job.everything())
        self.assertEqual(self.result()["examples"], 100)
        events = [(event["what"], event["number"]) for event in self.result()["events"]]
        self.assertEqual(events, [("worker joined", 2), ("worker lost", 2), ("worker joined", 3), ("worker left", 3)])

    def test_who_joined_goes_on_alone_when_all_others_have_left(self):
        rows = testing.far_from_zero(20000)
        wanted = self.alone(rows)
        with self.job(rows, *UNENDING, *SETTINGS) as job:
            self.begin(job)
            joiner = self.join(job)
            self.until_sharing(job, (0, 1, 2))
            for left, rank in enumerate(WORKERS, 1):
                os.kill(job.pid(rank), signal.SIGTERM)
                self.assertEqual(job.wait(rank), 0, job.everything())
                self.assertIn(f"worker {rank - 1} has left, and the others train on", job.err(rank), job.everything())
                self.until_sharing(job, range(left, 3))
            joiner.process.send_signal(signal.SIGTERM)  # the last one: the training ends
            self.assertEqual(joiner.wait(), 143, joiner.text())
            self.assertEqual(job.wait(SERVER), 143, job.everything())
            self.assertEqual(joiner.text().count("stopped by SIGTERM: the training ended after pass"), 1, joiner.text())
            self.assertNotIn("stopped by", job.everything())
        result = self.result()  # written by the joiner
        self.assertEqual(result["examples"], len(rows))
        self.near(result["objective"], wanted)
        self.assertEqual(result["parameters"]["l1"], 1)

    def sigterm_to_all_workers(self, apart_s):
        """All leave but the last one, which is left without the files of the others, and writes the results all the same."""
        rows, model, saved = testing.far_from_zero(20000), self.path("model.txt"), self.path("saved")
        wanted, workers = self.alone(rows), (1, 2, 3)
        os.mkdir(saved)
        with self.job(rows, *UNENDING, *SETTINGS, "--servers", "1", "--model", model, "--plot", self.path("plot.svg"), "--checkpoint", saved, size=4) as job:
            self.begin(job)
            for _ in range(3):
                self.trains_on(job, workers[0])
            if apart_s == 0:  # all have the signal before one of them can do anything about it
                for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGCONT):
                    for rank in workers:
                        os.kill(job.pid(rank), number)
            else:
                for rank in workers:
                    os.kill(job.pid(rank), signal.SIGTERM)
                    time.sleep(apart_s)
            codes = {rank: job.wait(rank) for rank in workers}
            self.assertEqual(sorted(codes.values()), [0, 0, 143], job.everything())
            self.assertEqual(job.wait(SERVER), 143, job.everything())
            last = next(rank for rank, code in codes.items() if code == 143)
            self.assertEqual(job.err(last).count("stopped by SIGTERM: the training ended after pass"), 1, job.everything())
            self.assertEqual(job.everything().count("stopped by"), 1, job.everything())
            self.assertEqual(job.everything().count("has left, and the others train on"), 2, job.everything())
            if apart_s == 0:  # else it may have read them before it was told to stop
                self.assertIn("SIGTERM came while the training files were being read: the results need them", job.err(last))
            self.assertNotIn("no checkpoint of", job.everything())
        result = self.result()
        self.assertEqual(result["examples"], len(rows))
        self.assertGreaterEqual(len(result["restarts"]), 1)
        self.near(result["objective"], wanted)
        self.near(testing.objective(rows, testing.read_model(model), 1), result["objective"])
        self.assertTrue(os.path.exists(self.path("plot.svg")))
        verified = testing.run([self.WEIR, "checkpoint", "verify", saved], testing.clean_environment({}), testing.LIMIT_S)
        self.assertEqual(verified.code, 0, verified.err)
        self.assertIn("whole", verified.out)

    def test_sigterm_to_all_workers_at_one_instant_loses_nothing(self):
        self.sigterm_to_all_workers(0)

    def test_sigterm_to_one_worker_shortly_after_the_other_loses_nothing(self):
        self.sigterm_to_all_workers(0.1)

    def test_sigterm_to_all_workers_before_anything_is_trained_is_said_by_the_last_one(self):
        big = [self.path(f"{number}.svm.gz") for number in range(16)]  # both workers read some of them, for seconds
        with gzip.open(big[0], "wb", compresslevel=1) as out:
            out.write(b"+1 1:1 2:1 3:1\n-1 2:1 4:1 5:1\n" * 2_000_000)
        for path in big[1:]:
            os.link(big[0], path)
        with self.job(testing.dense(), "--model", self.path("model.txt")) as job:
            at = job.command.index("--train") + 1
            job.command[at:at + 1] = big
            job.start_all()
            self.assertTrue(job.until(lambda: all(job.takes_signals(rank) for rank in WORKERS)), job.everything())
            self.until_sharing(job, (0, 1))
            os.kill(job.pid(WORKERS[0]), signal.SIGTERM)  # the first one, which speaks for all as a rule, leaves first
            self.assertEqual(job.wait(WORKERS[0]), 0, job.everything())
            os.kill(job.pid(WORKERS[1]), signal.SIGTERM)
            self.assertEqual([job.wait(rank) for rank in (SERVER, WORKERS[1])], [143, 143], job.everything())
            self.assertEqual(job.err(WORKERS[1]).count("stopped by SIGTERM: the training files were being read; nothing is written"), 1, job.everything())
            self.assertEqual(job.everything().count("stopped by"), 1, job.everything())
        self.assertFalse(os.path.exists(self.path("model.txt")))

    def test_a_rank_with_server_and_worker_leaves_with_both(self):
        with self.job(testing.endless(), "--colocate", "--servers", "2", *testing.ENDLESS, size=2) as job:
            self.begin(job)
            os.kill(job.pid(1), signal.SIGTERM)
            self.assertEqual(job.wait(1), 0, job.everything())
            self.assertIn("worker 1 has left, and the others train on", job.err(1))
            self.assertIn("this server hands over what it holds", job.err(1))
            self.assertEqual([server["server"] for server in self.shown(job)["servers"]], [0])
            self.until_sharing(job, (0,))
            self.trains_on(job, 0)
            os.kill(job.pid(0), signal.SIGTERM)
            self.assertEqual(job.wait(0), 143, job.everything())

    def test_the_pieces_of_a_stopped_worker_go_to_the_others(self):
        with self.job(testing.endless(), *testing.ENDLESS, "--work-lease", "5") as job:
            self.begin(job)
            self.until_sharing(job, (0, 1))
            shown = self.shown(job)
            workers = shown["workers"]
            self.assertEqual(sorted(workers[0]["pieces"] + workers[1]["pieces"]), list(range(shown["work"]["pieces"])))

            def both_were_heard():
                nonlocal workers
                workers = self.shown(job)["workers"]
                return all(worker["heard_ms"] < 2000 for worker in workers)

            self.assertTrue(job.until(both_were_heard), workers)
            for worker in workers:  # a quarter more than asked for, as the manager counts
                self.assertAlmostEqual(worker["heard_ms"] + worker["lease_left_ms"], 6250, delta=2)
            stop(job.pid(2))
            self.until_sharing(job, (0,))

            def told():
                return testing.run([self.WEIR, "status", f"127.0.0.1:{job.port}"], testing.clean_environment({}), testing.LIMIT_S).out

            line = r"work: \d+ pieces, given out 2 times; worker 0: 0-\d+ \(lease: [56]\.\d s\)\n"
            self.assertTrue(job.until(lambda: re.search(line, told())), told())
            self.assertIn("worker 1 (rank 2) has shown no sign of life for 6 s (--work-lease) and counts as lost", job.err(SERVER))
            self.trains_on(job, 1)
            os.kill(job.pid(2), signal.SIGCONT)
            self.assertEqual(job.wait(2), 1, job.everything())
            self.assertIn("the job goes on without this process, which was out of reach for too long", job.err(2))
            self.trains_on(job, 1)
            self.stop_training(job)
            self.assertEqual(job.wait(1), 143, job.everything())
        for wrong in ("4", "86401", "-1", "1e9", "x"):
            done = self.lr("--train", self.path("train.svm"), *REASSIGN, "--work-lease", wrong)
            self.assertEqual(done.code, 2, done.err)
            self.assertIn(f"--work-lease: {wrong}: must be 0 (a worker is waited for without end), or a whole number of seconds from 5 to 86400", done.err)
        done = self.lr("--train", self.path("train.svm"), "--work-lease", "5")
        self.assertEqual(done.code, 2, done.err)
        self.assertIn("--work-lease requires --on-worker-loss reassign", done.err)

    def test_who_joins_as_all_others_die_goes_on_from_their_weights(self):
        with self.job(testing.endless(), *testing.ENDLESS) as job:
            self.begin(job)
            for _ in range(3):
                self.trains_on(job, WORKERS[0])
            joiner = self.join(job)
            self.until_more_workers(job, 2)
            for rank in WORKERS:
                job.kill(rank)
            self.until_sharing(job, (2,))
            self.assertTrue(job.until(lambda: "objective" in joiner.text()), joiner.text())
            joiner.process.send_signal(signal.SIGTERM)
            self.assertEqual(joiner.wait(), 143, joiner.text())
            self.assertNotIn("the model to start from", joiner.text())  # there is none
        self.assertLess(self.result()["history"][0]["objective"], 1)  # of weights of 0 it is 69, and after a pass from there 10

    def test_servers_have_the_tables_of_one_share_however_often_the_work_is_dealt_out(self):
        """Weights, four tables of sums and lists, and that of allreduce()."""
        os.mkdir(self.path("saved"))
        with self.job(testing.endless(), *testing.ENDLESS, "--checkpoint", self.path("saved")) as job:
            self.begin(job)
            for _ in range(3):
                joiner = self.join(job)
                self.until_sharing(job, (0, 1, max(w["worker"] for w in self.until_more_workers(job, 2))))
                self.trains_on(job, WORKERS[0])
                joiner.process.kill()
                self.until_sharing(job, (0, 1))
            self.assertTrue(job.until(lambda: self.shown(job)["tables"] == 6), f"{self.status(job)}\n{job.everything()}")
            self.trains_on(job, WORKERS[0])
            os.kill(job.pid(SERVER), signal.SIGUSR1)
            self.assertTrue(job.until(lambda: "checkpoint 1 is in" in job.err(SERVER)), job.everything())
            shown = testing.run([self.WEIR, "checkpoint", "show", "--json", self.path("saved")], testing.clean_environment({}), testing.LIMIT_S)
            names = [table["table"] for table in json.loads(shown.out)["tables"]]
            self.assertEqual(names, [f"lr{self.shown(job)['work']['round']}.weights"])
            self.stop_training(job)
            self.assertEqual([job.wait(rank) for rank in range(3)], [143] * 3, job.everything())

    def test_a_signal_for_a_checkpoint_ends_no_process(self):
        no_manager = "SIGUSR1 received: this process has no manager"
        with self.job(testing.endless(), *testing.ENDLESS) as job:
            self.begin(job)
            worker = self.join(job)
            server = Joiner(self.folder, [self.WEIR, "server", "--join", f"127.0.0.1:{job.port}"])
            self.addCleanup(server.process.kill)
            self.until_sharing(job, (0, 1, 2))
            self.assertTrue(job.until(lambda: [one["server"] for one in self.shown(job)["servers"]] == [0, 1]), job.everything())
            for rank in (SERVER, *WORKERS):
                os.kill(job.pid(rank), signal.SIGUSR1)
                wanted = "SIGUSR1 received: the job has no folder for checkpoints (--checkpoint DIR)" if rank == SERVER else no_manager
                self.assertTrue(job.until(lambda at=rank, text=wanted: text in job.err(at)), job.everything())
            for joiner in (worker, server):
                for _ in range(2):
                    joiner.process.send_signal(signal.SIGUSR1)
                self.assertTrue(job.until(lambda of=joiner: no_manager in of.text()), joiner.text())
            self.trains_on(job, 1)
            self.assertEqual([joiner.process.poll() for joiner in (worker, server)], [None, None])
            self.assertEqual([joiner.text().count("SIGUSR1") for joiner in (worker, server)], [1, 1])
            self.stop_training(job)
            for rank in (SERVER, *WORKERS):
                self.assertEqual(job.wait(rank), 143, job.everything())

    def test_jobs_that_take_no_workers_say_so(self):
        with self.job(testing.endless(), *testing.ENDLESS, reassign=False) as job:
            self.begin(job)
            self.refused(self.join(job), "--on-worker-loss stop", "must be reassign")
            self.assertEqual(len(self.shown(job)["workers"]), 2)
            self.trains_on(job, WORKERS[0])
        bench = [self.WEIR, "bench", "delay", "--seconds", "1000", "--on-worker-loss", "continue"]
        with testing.Ranks(self.folder, bench, 2) as other:
            other.start_all()
            self.assertTrue(other.until(lambda: self.status(other)), other.everything())
            self.refused(self.join(other), "--on-worker-loss continue", "must be reassign")

    def test_a_wrong_contact_or_secret_is_named(self):
        self.refused(Joiner(self.folder, [self.WEIR, "lr", "--join", self.path("none")]), self.path("none"))
        with testing.ReservedPort() as port:
            self.refused(Joiner(self.folder, [self.WEIR, "lr", "--join", f"127.0.0.1:{port}"]), str(port))
        secrets = [self.path(name) for name in ("ours", "theirs")]
        for byte, secret in zip("ab", secrets):
            with open(secret, "w", encoding="ascii") as file:
                file.write(byte * 44)
            os.chmod(secret, stat.S_IRUSR)
        with self.job(testing.endless(), *testing.ENDLESS, WEIR_SECRET_FILE=secrets[0]) as job:
            self.begin(job)
            self.refused(self.join(job, secret=secrets[1]), "another secret than rank 0")
            self.trains_on(job, WORKERS[0])
            joiner = self.join(job, secret=secrets[0])
            self.assertTrue(job.until(lambda: len((self.status(job, secrets[0]) or {"workers": ()})["workers"]) == 3), joiner.text())

    def test_files_that_are_not_here_are_named_before_anybody_waits(self):
        with self.job(testing.endless(), *testing.ENDLESS) as job:
            self.begin(job)
            moved = self.path("moved.svm")
            os.rename(self.path("train.svm"), moved)
            self.refused(self.join(job), self.path("train.svm"), "--train")
            self.refused(self.join(job, "--train", moved, moved), "--train names 2 files, and that of the job 1")
            self.assertEqual(self.shown(job)["work"]["round"], 1)
            self.join(job, "--train", moved)
            os.symlink(moved, self.path("train.svm"))  # the others read anew, too
            self.until_sharing(job, (0, 1, 2))

    def test_names_that_are_too_long_to_be_told_are_given(self):
        rows, names = testing.endless(), []
        for number in range(25):
            names.append(testing.write(self.path(f"{number}{'x' * 200}.svm"), rows[4 * number:4 * number + 4]))
        with self.job(rows, "--train", *names[1:], *testing.ENDLESS) as job:
            job.command[job.command.index("--train") + 1] = names[0]
            self.begin(job)
            self.refused(self.join(job), "the names of the job's 25 --train files are too long to be told: give --train")
            self.join(job, "--train", *names)
            self.until_sharing(job, (0, 1, 2))
            self.trains_on(job, WORKERS[0])
            self.stop_training(job)
            self.assertIn(job.wait(SERVER), (0, 143), job.everything())  # 0: the workers were faster than its signal
        self.assertEqual(self.result()["examples"], len(rows))

    def test_flags_of_the_job_cannot_be_given(self):
        for flags in (("--l1", "2"), ("--servers", "1"), ("--json", "x"), ("--rank", "0"), REASSIGN):
            done = self.lr("--join", "127.0.0.1:1", *flags)
            self.assertEqual(done.code, 2)
            self.assertIn(f"{flags[0]}: cannot be given with --join", done.err)


if __name__ == "__main__":
    testing.main(testing.Folder, "__main__")
