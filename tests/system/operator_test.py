#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Commands for a running job: `weir stop`, `weir checkpoint now`,
`weir status`, `weir get`.
Usage: operator_test.py PATH-OF-WEIR"""

import gzip
import json
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import lr_testing as testing
from reserved_port import ReservedPort

WEIR = sys.argv[1] if len(sys.argv) > 1 else "weir"
LIMIT_S = 120  # for whatever a test waits for, whatever else the machine does


def weir(*words):
    return testing.run([WEIR, *words], testing.clean_environment(testing.POOL), LIMIT_S)


def wait_for_job(case, at):
    until = time.monotonic() + LIMIT_S
    while weir("status", at).code != 0:
        case.assertLess(time.monotonic(), until, "the job does not begin")
        time.sleep(0.05)


class Training:
    """A `weir lr` of several ranks that trains until it is stopped, started by `weir run`."""

    def __init__(self, case, ranks=2, run=(), lr=()):
        holder = tempfile.TemporaryDirectory(prefix="weir-operator-")
        port = ReservedPort()
        self.folder, self.at = holder.name, f"127.0.0.1:{port.number}"
        testing.write(f"{self.folder}/train.svm", testing.endless())
        command = [WEIR, "run", "-n", str(ranks), "--rendezvous", self.at, *run, "--", WEIR, "lr", "--train", f"{self.folder}/train.svm",
                   *testing.ENDLESS, "--model", f"{self.folder}/model", *(word.format(folder=self.folder) for word in lr)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env=testing.clean_environment(testing.POOL))

        def end():
            if self.process.poll() is None:
                self.process.kill()
            self.process.communicate()
            port.close()
            holder.cleanup()

        case.addCleanup(end)
        until = time.monotonic() + LIMIT_S
        while not self.trains():
            case.assertIsNone(self.process.poll())
            case.assertLess(time.monotonic(), until, "it does not begin to train")
            time.sleep(0.05)

    def trains(self):
        status = weir("status", self.at, "--json")
        return status.code == 0 and json.loads(status.out)["tables"] > 0

    def end(self):
        out, err = self.process.communicate(timeout=LIMIT_S)
        return self.process.returncode, out, err

    def pid_of(self, rank):
        """Of a child of `weir run`."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    environment = file.read().split(b"\0")
                with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                    parent = int(file.read().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
            if parent == self.process.pid and f"WEIR_RANK={rank}".encode() in environment:
                return int(pid)
        raise AssertionError(f"there is no rank {rank}")


class Stop(unittest.TestCase):
    def test_it_ends_a_training_as_sigterm_to_all_ranks_does(self):
        training = Training(self, ranks=3, run=("--servers", "1"))
        done = weir("stop", "--json", training.at)
        self.assertEqual((done.code, json.loads(done.out)), (0, {"stopped": True, "within_grace": True}), done)
        code, out, err = training.end()
        self.assertEqual(code, 143, err)
        self.assertRegex(err, r"weir: rank \d was stopped \(exit code 143\)")
        self.assertNotIn("ended with exit code", err)
        self.assertIn("[1] objective", out)
        self.assertRegex(err, r"stopped by `weir stop`: the training ended after pass \d+; the results so far are written")
        self.assertTrue(os.path.exists(f"{training.folder}/model"))

    def test_it_leaves_a_checkpoint_from_which_the_job_goes_on(self):
        training = Training(self, lr=("--checkpoint", "{folder}"))
        self.assertEqual(weir("stop", training.at).code, 0)
        self.assertEqual(training.end()[0], 143)
        listed = weir("checkpoint", "list", training.folder, "--json")
        self.assertEqual(listed.code, 0, listed)
        self.assertGreater(len(json.loads(listed.out)), 0)
        verified = weir("checkpoint", "verify", training.folder)
        self.assertEqual(verified.code, 0, verified)

    def test_of_several_managers_the_one_that_leads_does_it(self):
        training = Training(self, ranks=4, run=("--servers", "3", "--replicas", "1"), lr=("--managers", "3"))
        self.assertEqual(weir("stop", training.at).code, 0)
        self.assertEqual(training.end()[0], 143)

    def test_a_job_whose_workers_do_not_end_gets_an_error_after_the_grace(self):
        port = ReservedPort()
        self.addCleanup(port.close)
        at = f"127.0.0.1:{port.number}"
        command = [WEIR, "run", "-n", "2", "--rendezvous", at, "--", WEIR, "bench", "delay", "--seconds", "1000"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=testing.clean_environment(testing.POOL))
        wait_for_job(self, at)
        done = weir("stop", at, "--grace", "1")
        self.assertEqual(done.code, 0, done)
        self.assertIn("the job has not ended within --grace", done.err)
        _, err = process.communicate(timeout=LIMIT_S)
        self.assertNotEqual(process.returncode, 0)
        self.assertIn("stopped by `weir stop`, before its workers had ended", err)

    def test_a_training_that_reads_its_files_ends_before_it_has_read_them(self):
        with tempfile.TemporaryDirectory(prefix="weir-operator-") as folder:
            # Two examples, and 40 GB of comments, which take minutes to read and no memory.
            comments = gzip.compress((b"#" + b"x" * 1022 + b"\n") * 4096)
            with open(f"{folder}/long.svm.gz", "wb") as file:
                file.write(gzip.compress(b"1 1:1\n-1 2:1\n"))
                for _ in range(10_000):
                    file.write(comments)
            with ReservedPort() as port:
                at = f"127.0.0.1:{port}"
                command = [WEIR, "run", "-n", "2", "--rendezvous", at, "--", WEIR, "lr", "--train", f"{folder}/long.svm.gz"]
                process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                           env=testing.clean_environment(testing.POOL))
                self.addCleanup(process.kill)
                wait_for_job(self, at)
                self.assertEqual(weir("stop", at, "--grace", "0").code, 0)
                _, err = process.communicate(timeout=LIMIT_S)
        self.assertEqual(process.returncode, 143, err)
        self.assertIn("stopped by `weir stop`: the training files were being read; nothing is written", err)

    def test_a_job_that_is_not_there_is_named(self):
        done = weir("stop", "./nothing")
        self.assertEqual(done.code, 1)
        self.assertIn("./nothing", done.err)
        done = weir("stop")
        self.assertEqual(done.code, 2)
        self.assertIn("JOB is required", done.err)


class Status(unittest.TestCase):
    def test_of_several_managers_the_one_that_leads_answers_though_a_server_is_stopped(self):
        training = Training(self, ranks=4, run=("--servers", "3", "--keep-going"), lr=("--managers", "3"))
        leader = re.search(r"of which rank (\d+) leads", weir("status", training.at).out)
        pid = training.pid_of(next(rank for rank in range(1, 3) if rank != int(leader[1])))
        os.kill(pid, signal.SIGSTOP)
        try:
            done = weir("status", training.at)
        finally:
            os.kill(pid, signal.SIGCONT)
        self.assertEqual(done.code, 0, done)
        self.assertIn("1 shard does not answer", done.out)


class CheckpointNow(unittest.TestCase):
    def test_it_returns_when_the_checkpoint_is_written(self):
        training = Training(self, lr=("--checkpoint", "{folder}"))
        done = weir("checkpoint", "now", training.at, "--json")
        self.assertEqual(done.code, 0, done)
        number = json.loads(done.out)["checkpoint"]
        shown = weir("checkpoint", "verify", training.folder, "-n", str(number))
        self.assertEqual(shown.code, 0, shown)
        done = weir("checkpoint", "now", training.at)
        self.assertEqual((done.code, done.out), (0, f"checkpoint {number + 1} is written\n"), done)

    def test_a_job_without_a_folder_is_told_so(self):
        training = Training(self)
        done = weir("checkpoint", "now", training.at)
        self.assertEqual(done.code, 1)
        self.assertIn("the job writes no checkpoints: give it a folder for them (--checkpoint DIR)", done.err)


class Get(unittest.TestCase):
    def table(self, at):
        """That of the weights."""
        done = weir("get", at, "no such table", "0")
        self.assertEqual(done.code, 1)
        named = re.search(r"the job has no table 'no such table'; it has (.*)", done.err)[1].split(", ")
        return next(name for name in named if name.endswith(".weights"))

    def test_values_are_shown_while_the_job_trains(self):
        training = Training(self, ranks=3, run=("--servers", "2"))
        table = self.table(training.at)
        done = weir("get", training.at, table, "0", "0-2")
        self.assertEqual((done.code, done.err), (0, ""), done)
        self.assertRegex(done.out, rf"^table {table}: float64, \d+ values? for each key\n0  \S.*\n0  \S.*\n1  \S.*\n2  \S.*\n$")
        done = weir("get", training.at, table, "18446744073709551615", "1", "--json")
        self.assertEqual(done.code, 0, done)
        found = json.loads(done.out)
        self.assertEqual((found["table"], found["type"], found["unanswered"]), (table, "float64", 0))
        self.assertEqual([one["key"] for one in found["keys"]], [2**64 - 1, 1])
        self.assertFalse(found["keys"][0]["there"])
        self.assertIn("(not there: initial value)", weir("get", training.at, table, str(2**64 - 1)).out)
        self.assertEqual(weir("stop", training.at).code, 0)
        self.assertEqual(training.end()[0], 143)

    def test_keys_that_cannot_be_are_named_before_the_job_is_asked(self):
        for words, says in ((("abc",), "key 'abc': must be a number from 0 to 18446744073709551615"), (("1", "5-3"), "'5-3': ends before it begins"),
                            (("0-1000",), "more than 1000 keys")):
            done = weir("get", "./nothing", "table", *words)
            self.assertEqual(done.code, 2, done)
            self.assertIn(says, done.err)
        self.assertIn("KEY is required", weir("get", "./nothing", "table").err)
        self.assertIn("TABLE is required", weir("get", "./nothing").err)

    def test_of_several_managers_the_one_that_leads_answers(self):
        training = Training(self, ranks=4, run=("--servers", "3", "--replicas", "1"), lr=("--managers", "3"))
        table = self.table(training.at)
        done = weir("get", training.at, table, "0-9")
        self.assertEqual((done.code, len(done.out.splitlines())), (0, 11), done)
        self.assertEqual(weir("stop", training.at).code, 0)

    def test_a_server_that_is_stopped_is_named_and_what_the_others_have_is_shown(self):
        training = Training(self, ranks=3, run=("--servers", "2", "--keep-going"))
        table = self.table(training.at)
        servers = json.loads(weir("status", training.at, "--json").out)["servers"]
        rank = next(server["rank"] for server in servers if server["rank"] != 0)
        pid = training.pid_of(rank)
        os.kill(pid, signal.SIGSTOP)
        try:
            done = weir("get", training.at, table, "0-99", "--json")
        finally:
            os.kill(pid, signal.SIGCONT)
        self.assertEqual(done.code, 1, done)
        found = json.loads(done.out)
        self.assertEqual(len(found["keys"]), 100)
        self.assertGreater(found["unanswered"], 0)
        self.assertLess(found["unanswered"], 100)
        self.assertIn(f"{found['unanswered']} of 100 keys without an answer: ", done.err)


class Watch(unittest.TestCase):
    def test_where_nobody_looks_it_prints_plain_text_until_the_job_is_over(self):
        training = Training(self, run=("--shards", "2"))
        watch = subprocess.Popen([WEIR, "status", training.at, "--watch", "--every", "0.2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        lines = []
        until = time.monotonic() + LIMIT_S
        while sum("pushes/s, " in line for line in lines) < 2:
            lines.append(watch.stdout.readline())
            self.assertLess(time.monotonic(), until, lines)
        self.assertEqual(weir("stop", training.at).code, 0)
        out, err = watch.communicate(timeout=LIMIT_S)
        text = "".join(lines) + out
        self.assertNotIn("\x1b", text)
        self.assertRegex(text, r"view \d+: 1 server, 1 worker, \d+ tables; [\d.]+( [kM])? pushes/s, [\d.]+( [kM])? pulls/s")
        self.assertRegex(text, r"(?m)^ +1 +0 +\d+\.\d % ")  # shard 1 of server 0
        self.assertIn("workers: 0 (rank 1)", text)
        if watch.returncode == 0:
            self.assertRegex(text.splitlines()[-1], "the job is over|stopped by `weir stop`")
        else:  # it came to look when the job was gone
            self.assertRegex(err, "the connection to the manager|does not answer")

    def test_on_a_terminal_each_look_replaces_the_one_before_and_sigint_ends_it(self):
        training = Training(self)
        mine, other = pty.openpty()
        with subprocess.Popen([WEIR, "status", training.at, "--watch", "--every", "0.2"], stdout=other, stderr=subprocess.PIPE, text=True) as watch:
            os.close(other)
            seen = b""
            until = time.monotonic() + LIMIT_S
            while seen.count(b"\x1b[H") < 3:
                seen += os.read(mine, 65536)
                self.assertLess(time.monotonic(), until, seen)
            watch.send_signal(signal.SIGINT)
            self.assertEqual(watch.wait(timeout=LIMIT_S), 0)
        os.close(mine)
        screens = seen.decode().split("\x1b[H")
        for screen in screens[1:-1]:
            lines = screen.replace("\r", "").split("\n")
            self.assertLess(len(lines), 25)
            self.assertTrue(all(len(re.sub(r"\x1b\[[A-Z0-9]+", "", line)) <= 80 for line in lines), lines)


if __name__ == "__main__":
    WEIR = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
