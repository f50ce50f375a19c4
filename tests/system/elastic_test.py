#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Commands for running jobs: `weir status`, `weir leave` and `weir server --join`. Usage: elastic_test.py PATH-OF-WEIR"""

import contextlib
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

from reserved_port import ReservedPort
from stopping import stop

WEIR = sys.argv[1] if len(sys.argv) > 1 else "weir"
LIMIT_S = 100  # for whatever a test waits for, whatever else the machine does
SHARE_TOLERANCE = 0.0501  # of a server's share: what is promised, and rounding


def weir(*arguments, secret=None):
    """Runs a command to its end; `secret`: the path of its WEIR_SECRET_FILE."""
    return subprocess.run([WEIR, *map(str, arguments)], capture_output=True, text=True, timeout=180, check=False, env=environment(secret))


def environment(secret):
    variables = {name: value for name, value in os.environ.items() if name != "WEIR_SECRET_FILE"}
    return variables | {"WEIR_POOL_MIB": "64"} | ({"WEIR_SECRET_FILE": secret} if secret else {})


def check_learning(status):
    """Whatever the instant, of a job without copies: what its servers learn is all that moves."""
    moves, learning = status["moves"], [server["learning"] for server in status["servers"] if server["learning"]]
    assert sum(one["segments_to_learn"] + one["segments_waiting"] for one in learning) == moves["segments_to_move"], status
    assert sum(one["segments_waiting"] for one in learning) == moves["segments_complete"], status
    for one in learning:
        assert one["copies_to_learn"] == 0 and one["moves_to_learn"] == one["segments_to_learn"], status
        assert one["segments_come"] >= one["segments_waiting"] and 0 < one["since_view"] <= status["epoch"], status


class Job:
    """A job of one process that trains until it is stopped."""

    def __init__(self, folder, *arguments):
        self.contact = os.path.join(folder, "contact")
        train = os.path.join(folder, "train.svm")
        made = weir("synth", "--out", train, "--examples", 20000, "--features", 50000)
        assert made.returncode == 0, made.stderr
        command = [WEIR, "lr", "--train", train, "--l1", "0", "--passes", "1000000", "--tolerance", "0", "--contact", self.contact, *map(str, arguments)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        until = time.monotonic() + LIMIT_S
        while not os.path.exists(self.contact) or weir("status", self.contact).returncode != 0:
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < until, "the job does not begin"
            time.sleep(0.05)

    def stop(self):
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGINT)
        return self.process.communicate(timeout=LIMIT_S)


class OpenJob:
    """Rank 0, a server, and other ranks with two workers each, which met at a rendezvous. They run for minutes."""

    def __init__(self, folder, secret=None, ranks=2, bench="delay", flags=()):
        self.port = ReservedPort()
        self.at, self.secret, self.log = f"127.0.0.1:{self.port.number}", secret, os.path.join(folder, "log")
        command = [WEIR, "bench", bench, "--seconds", "1000", "--workers", "2", "--rendezvous", self.at, "--size", str(ranks), *flags]
        with open(self.log, "w", encoding="utf-8") as log:
            self.ranks = [
                subprocess.Popen([*command, "--rank", str(rank)], stdout=log, stderr=log, env=environment(secret)) for rank in range(ranks)
            ]
        self.wait_until(lambda: self.weir("status").returncode == 0)

    def weir(self, command, *arguments):
        return weir(command, self.at, *arguments, secret=self.secret)

    def status(self):
        for _ in range(4):  # a busy machine may take too long for an answer
            done = self.weir("status", "--json")
            if done.returncode == 0:
                break
        assert done.returncode == 0, done.stderr
        status = json.loads(done.stdout)
        check_learning(status)
        return status

    def servers(self):
        return [server["server"] for server in self.status()["servers"]]

    def text(self):
        with open(self.log, encoding="utf-8") as log:
            return log.read()

    def join(self, *arguments, behind=()):
        command = [*behind, WEIR, "server", "--join", self.at, *map(str, arguments)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(self.secret))

    def wait_until(self, is_so):
        until = time.monotonic() + LIMIT_S
        while not is_so():
            assert all(rank.poll() is None for rank in self.ranks), self.text()
            assert time.monotonic() < until, self.text()
            time.sleep(0.05)

    def wait_until_balanced(self, *servers):
        def is_so():
            status = self.status()
            shares = {server["server"]: server["share"] for server in status["servers"]}
            return set(shares) == set(servers) and all(abs(share * len(servers) - 1) <= SHARE_TOLERANCE for share in shares.values())

        self.wait_until(is_so)

    def is_training(self):
        """Iterations go on."""

        def newest():
            return max(((table["table"], table["iteration"]) for table in self.status()["open_iterations"]), default=None)

        first = newest()
        self.wait_until(lambda: newest() not in (None, first))
        return True

    def stop(self):
        for rank in self.ranks:
            rank.kill()
            rank.wait()
        self.port.close()


class TestCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def start(self, *arguments):
        job = Job(self.folder, *arguments)
        self.addCleanup(job.stop)
        return job

    def start_open(self, **options):
        job = OpenJob(self.folder, **options)
        self.addCleanup(job.stop)
        return job

    def joiner(self, job, *arguments, **options):
        joiner = job.join(*arguments, **options)
        self.addCleanup(joiner.communicate)
        self.addCleanup(joiner.kill)
        return joiner

    @staticmethod
    def read_until(process, word):
        """Reads what the process writes to stderr up to the line with `word`."""
        lines = []
        for line in process.stderr:
            lines.append(line)
            if word in line:
                return
        raise AssertionError(f"no {word!r} in {lines}")

    def assert_fails(self, done, *words):
        self.assertEqual(done.returncode, 1, done)
        self.assertEqual(done.stdout, "")
        for word in words:
            self.assertIn(word, done.stderr)


class Elastic(TestCase):

    def test_status_shows_the_job_and_the_contact_file_goes_with_it(self):
        with unittest.mock.patch.dict(os.environ, WEIR_LEASE_MS="60000"):  # no server of a busy machine is silent for so long
            job = self.start("--servers", 2, "--shards", 2, "--workers", 2)
        self.assertEqual(stat.S_IMODE(os.stat(job.contact).st_mode), 0o600)
        done = weir("status", job.contact, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        status = json.loads(done.stdout)
        self.assertEqual([server["server"] for server in status["servers"]], [0, 1])
        self.assertEqual([worker["worker"] for worker in status["workers"]], [0, 1])
        self.assertAlmostEqual(sum(server["share"] for server in status["servers"]), 1)
        self.assertEqual(sum(len(server["shards"]) for server in status["servers"]), 4)
        self.assertGreater(sum(server["keys"] for server in status["servers"]), 0)
        self.assertEqual(status["moves"]["segments_to_move"], 0)
        for server in status["servers"]:
            self.assertIsNotNone(server["heard_ms"])
            # The manager counts a quarter more than WEIR_LEASE_MS from when it has heard it.
            self.assertAlmostEqual(server["heard_ms"] + server["lease_left_ms"], status["lease_ms"] * 1.25, delta=2)
        text = weir("status", job.contact).stdout
        self.assertIn("2 servers, 2 workers", text)
        self.assertRegex(text, r"(?m)^ *1  .* \d+ ms  +\d+ ms  \S+$")
        self.assertIn("manager: one, in rank 0\n", text)
        job.stop()
        self.assertFalse(os.path.exists(job.contact))
        self.assert_fails(weir("status", job.contact), "contact file", "cannot open it", "--contact")

    def test_a_server_that_is_not_there_and_the_last_one_do_not_leave(self):
        job = self.start()
        self.assert_fails(weir("leave", job.contact, "--server", 5), "no server 5", "weir status")
        self.assert_fails(weir("leave", job.contact, "--server", 0), "server 0 cannot leave", "no other server")
        self.assertIsNone(job.process.poll())

    def test_a_server_joins_a_job_of_one_process_whatever_transports_both_have(self):
        for transport in ("auto", "shm", "tcp"):
            with self.subTest(transport), tempfile.TemporaryDirectory() as folder:
                with unittest.mock.patch.dict(os.environ, WEIR_TRANSPORT=transport):
                    job = Job(folder)
                self.addCleanup(job.stop)
                with subprocess.Popen([WEIR, "server", "--join", job.contact, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as joiner:
                    until = time.monotonic() + LIMIT_S
                    while (shares := self.shares(job.contact)) is None or abs(2 * shares.get(1, 0) - 1) > SHARE_TOLERANCE:
                        self.assertIsNone(joiner.poll())
                        self.assertLess(time.monotonic(), until, shares)
                        time.sleep(0.05)
                    left = weir("leave", "--json", job.contact, "--server", 1)
                    self.assertEqual(left.returncode, 0, left.stderr)
                    self.assertEqual(json.loads(left.stdout), {"server": 1, "left": True})
                    out, err = joiner.communicate(timeout=LIMIT_S)
                    self.assertEqual(joiner.returncode, 0, out + err)
                    self.assertEqual(json.loads(out)["exit_code"], 0)
                self.assertIsNone(job.process.poll())
                job.stop()

    @staticmethod
    def shares(contact):
        status = weir("status", contact, "--json")
        return {server["server"]: server["share"] for server in json.loads(status.stdout)["servers"]} if status.returncode == 0 else None

    def test_a_file_of_the_user_is_not_taken_for_the_contact(self):
        path = os.path.join(self.folder, "notes")
        self.write(path, "notes\n")
        done = weir("bench", "delay", "--local", "--brief", "--contact", path)
        self.assertEqual(done.returncode, 1, done)
        self.assertIn(f"contact file {path}: it is there already", done.stderr)
        with open(path, encoding="ascii") as file:
            self.assertEqual(file.read(), "notes\n")
        done = weir("bench", "delay", "--local", "--brief", "--contact", "")
        self.assertEqual(done.returncode, 2, done)
        self.assertIn("--contact: the name of the file is empty", done.stderr)

    def test_a_contact_that_is_wrong_is_refused_with_what_to_do(self):
        job = self.start()
        with open(job.contact, encoding="ascii") as file:
            text = file.read()
        other = os.path.join(self.folder, "other")
        self.write(other, text)
        os.chmod(other, 0o644)
        self.assert_fails(weir("status", other), "chmod 0600")
        os.chmod(other, 0o600)
        self.write(other, "secrets\n")
        self.assert_fails(weir("status", other), "not the contact of a job")
        head, secret = text.rstrip("\n").rsplit(" ", 1)
        self.write(other, f"{head} {'0' * len(secret)}\n")
        wrong = weir("status", other)
        self.assertEqual(wrong.returncode, 1, wrong)
        self.assertIn("error:", wrong.stderr)
        self.assertIsNone(job.process.poll())

    def test_an_address_that_is_wrong_is_refused_by_its_part(self):
        for address, says in (
            ("nohost:99999", "'99999' is not a port"),
            (":7777", "there is no host before the ':'"),
            ("", "the address of the job is empty"),
            ("fe80::1:4000", "no brackets around it"),
        ):
            for command in (("status", address), ("leave", address, "--server", 0), ("server", "--join", address)):
                done = weir(*command)
                self.assertEqual(done.returncode, 2, done)
                for word in (says, "HOST:PORT", "--contact"):
                    self.assertIn(word, done.stderr)
                self.assertNotIn("contact file", done.stderr)
        self.assert_fails(weir("status", "nofile"), "contact file nofile", "cannot open it")
        odd = os.path.join(self.folder, "a:b")
        self.write(odd, "text")
        self.assert_fails(weir("status", odd), f"contact file {odd}")
        wrong = weir("leave", "host:1", "--server", "x")
        self.assertEqual(wrong.returncode, 2, wrong)
        self.assertIn("--server", wrong.stderr)

    def test_a_rank_0_that_is_stopped_is_named(self):
        job = self.start()
        with open(job.contact, encoding="ascii") as file:
            manager = file.read().splitlines()[1].split(" ", 1)[1].split("@", 1)[1]  # RANK@ADDRESS
        stop(job.process.pid)
        try:
            done = weir("status", job.contact)
        finally:
            job.process.send_signal(signal.SIGCONT)
        self.assert_fails(done, manager, "does not answer")

    def test_nobody_listens_any_more(self):
        job = self.start()
        job.process.kill()
        job.process.wait()
        self.assert_fails(weir("status", job.contact), "error:")
        self.assert_fails(weir("leave", job.contact, "--server", 0), "error:")

    def test_the_contact_of_a_job_that_has_ended_in_order_is_of_no_use(self):
        job = self.start()
        with open(job.contact, encoding="ascii") as file:
            text = file.read()
        job.stop()
        other = os.path.join(self.folder, "other")
        self.write(other, text)
        os.chmod(other, 0o600)
        self.assert_fails(weir("status", other), "error:", "is the job still running?")
        self.assert_fails(weir("leave", other, "--server", 0), "is the job still running?")
        self.assert_fails(weir("server", "--join", other), "error:")

    def test_a_server_that_joined_ends_as_the_ranks_do_when_a_signal_stops_the_training(self):
        for name, code in (("SIGINT", 130), ("SIGTERM", 143)):
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                job = Job(folder)
                self.addCleanup(job.stop)
                with subprocess.Popen([WEIR, "server", "--join", job.contact], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as joiner, \
                        contextlib.ExitStack() as whatever_happens:
                    whatever_happens.callback(joiner.kill)  # it may be stopped, and is waited for
                    until = time.monotonic() + LIMIT_S
                    while len(self.shares(job.contact) or ()) < 2:
                        self.assertLess(time.monotonic(), until)
                        time.sleep(0.05)
                    self.read_until(job.process, "pass ")  # before, the training files are read
                    # Both have the signal before the joiner can do anything about its own, and before the pass can end.
                    stop(joiner.pid)
                    joiner.send_signal(getattr(signal, name))
                    job.process.send_signal(getattr(signal, name))
                    self.read_until(job.process, f"{name} received")
                    joiner.send_signal(signal.SIGCONT)
                    out, err = joiner.communicate(timeout=LIMIT_S)
                    job.process.communicate(timeout=LIMIT_S)
                self.assertEqual((joiner.returncode, job.process.returncode), (code, code), out + err)
                self.assertIn(f"weir: stopped by {name}: the training ended after pass", err)
                self.assertNotIn("error", err)

    @staticmethod
    def write(path, text):
        with open(path, "w", encoding="ascii") as file:
            file.write(text)


class Rendezvous(TestCase):
    """Commands that find the job by HOST:PORT, while it trains."""

    def secret_file(self, name):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(f"a secret of 16 bytes or more, {name}")
        return path

    def test_a_server_joins_another_leaves_and_status_shows_it(self):
        job = self.start_open(secret=self.secret_file("ours"))
        first = self.joiner(job, "--shards", 2)
        job.wait_until_balanced(0, 1)
        status = job.status()
        self.assertEqual([len(server["shards"]) for server in status["servers"]], [1, 2])
        self.assertEqual(len(status["workers"]), 2)
        left = job.weir("leave", "--server", 0)
        self.assertEqual(left.returncode, 0, left)
        self.assertEqual(job.servers(), [1])
        self.assert_fails(job.weir("leave", "--server", 1), "server 1 cannot leave", "no other server")
        self.assert_fails(job.weir("leave", "--server", 0), "server 0 is not in this job")
        self.assert_fails(job.weir("leave", "--server", 7), "no server 7")
        self.assertIsNone(first.poll())
        self.assertTrue(job.is_training())

    def test_who_has_another_secret_or_none_is_told_so_and_the_job_goes_on(self):
        job = self.start_open(secret=self.secret_file("ours"))
        theirs = self.secret_file("theirs")
        for secret, says in ((theirs, "another secret than rank 0"), (None, "has no secret, rank 0 has")):
            self.assert_fails(weir("status", job.at, secret=secret), says, "WEIR_SECRET_FILE")
            self.assert_fails(weir("leave", job.at, "--server", 0, secret=secret), says)
            self.assert_fails(weir("server", "--join", job.at, secret=secret), says)
        self.assertIn("rendezvous: refused 127.0.0.1:", job.text())
        self.assertEqual(job.servers(), [0])
        self.assertTrue(job.is_training())

    def test_a_stopped_rank_0_is_named_with_what_to_do(self):
        job = self.start_open()
        stop(job.ranks[0].pid)
        with unittest.mock.patch.dict(os.environ, WEIR_JOIN_TIMEOUT_S="3"):
            self.assert_fails(job.weir("status"), f"rank 0 at {job.at} took the connection", "SIGSTOP", "WEIR_JOIN_TIMEOUT_S")
        job.ranks[0].send_signal(signal.SIGCONT)
        self.assertEqual(job.servers(), [0])

    def test_a_joined_server_that_is_killed_is_named_as_such_by_every_rank(self):
        job = self.start_open()
        server = self.joiner(job)
        job.wait_until_balanced(0, 1)
        server.kill()
        for rank in job.ranks:
            self.assertEqual(rank.wait(timeout=LIMIT_S), 1)
        # A worker whose request the connection took with it may name the shard, too.
        waits = r"(iteration \d+ cannot begin: task \d+ of client \d+: )?"
        says = rf"error: (worker \d+: )?{waits}(shard 0 of )?server 1 \(rank 2, which joined later\) is gone[:;] it died,? or the network to it is cut; "
        errors = [line for line in job.text().splitlines() if "error:" in line]
        self.assertEqual(len(errors), len(job.ranks), job.text())
        for error in errors:
            self.assertRegex(error, says)

    def test_sigterm_makes_a_server_hand_over_and_end_with_0(self):
        job = self.start_open()
        for behind in ([], ["timeout", "1000"]):  # which sends it twice: to the server, and to their group
            server = self.joiner(job, behind=behind)
            job.wait_until(lambda: len(job.servers()) == 2)
            job.wait_until_balanced(*job.servers())
            server.send_signal(signal.SIGTERM)
            _, errors = server.communicate(timeout=LIMIT_S)
            self.assertEqual(server.returncode, 0, errors)
            self.assertEqual(job.servers(), [0])
            self.assertTrue(job.is_training())

    def test_a_server_that_cannot_leave_ends_when_the_grace_is_over(self):
        job = self.start_open()
        server = self.joiner(job, "--grace", 3)
        job.wait_until_balanced(0, 1)
        self.assertEqual(job.weir("leave", "--server", 0).returncode, 0)
        job.wait_until(lambda: job.servers() == [1])  # now it is the last one
        server.send_signal(signal.SIGTERM)
        _, errors = server.communicate(timeout=LIMIT_S)
        self.assertEqual(server.returncode, 143, errors)
        self.assertRegex(errors, r"--grace is over: this server ends, and has not handed over what it holds \(\d+ of \d+ segments, 100.0 % of the "
                                 r"parameters\): server 1 .*cannot leave")

    def test_a_server_that_cannot_leave_asks_again_and_leaves_when_another_has_joined(self):
        job = self.start_open()
        server = self.joiner(job, "--grace", 60)
        job.wait_until_balanced(0, 1)
        self.assertEqual(job.weir("leave", "--server", 0).returncode, 0)
        job.wait_until(lambda: job.servers() == [1])
        server.send_signal(signal.SIGTERM)
        self.read_until(server, "it serves on, and asks again")
        time.sleep(2.5)  # it asks again and again, and says no more
        self.joiner(job)
        _, errors = server.communicate(timeout=LIMIT_S)
        self.assertEqual(server.returncode, 0, errors)
        self.assertNotIn("cannot leave", errors)
        self.assertEqual(job.servers(), [2])
        self.assertTrue(job.is_training())

    def test_a_joiner_that_cannot_map_the_workers_memory_serves_through_the_kernel(self):
        job = self.start_open()
        limited = ["sh", "-c", 'ulimit -v 300000 && exec "$@"', "sh"]
        if subprocess.run([*limited, WEIR, "--version"], capture_output=True, check=False).returncode != 0:
            self.skipTest("this build needs more address space, such as one with AddressSanitizer")
        server = self.joiner(job, behind=limited)
        self.read_until(server, "memory of a peer is copied through the kernel")
        job.wait_until_balanced(0, 1)
        self.assertTrue(job.is_training())
        server.send_signal(signal.SIGTERM)
        _, errors = server.communicate(timeout=LIMIT_S)
        self.assertEqual(server.returncode, 0, errors)
        self.assertTrue(job.is_training())

    def test_ctrl_c_twice_ends_a_server_at_once(self):
        job = self.start_open()
        server = self.joiner(job)
        job.wait_until_balanced(0, 1)
        self.assertEqual(job.weir("leave", "--server", 0).returncode, 0)  # now it cannot leave, and serves on
        server.send_signal(signal.SIGINT)
        self.read_until(server, "a second SIGINT ends the process at once")
        self.read_until(server, "cannot leave")  # it is told why it stays
        self.assertIsNone(server.poll())
        server.send_signal(signal.SIGINT)
        _, errors = server.communicate(timeout=LIMIT_S)
        self.assertEqual(server.returncode, -signal.SIGINT, errors)

    def test_ctrl_c_twice_ends_a_server_that_hands_over(self):
        job = self.start_open()
        server = self.joiner(job)
        job.wait_until_balanced(0, 1)
        stop(job.ranks[0].pid)  # so that nobody takes what it holds
        try:
            server.send_signal(signal.SIGINT)
            self.read_until(server, "a second SIGINT ends the process at once")
            time.sleep(1.5)  # a second until it asks for its leave
            self.assertIsNone(server.poll())
            server.send_signal(signal.SIGINT)
            _, errors = server.communicate(timeout=LIMIT_S)
            self.assertEqual(server.returncode, -signal.SIGINT, errors)
        finally:
            job.ranks[0].send_signal(signal.SIGCONT)

    def test_a_joiner_that_is_killed_on_the_way_changes_nothing(self):
        job = self.start_open()
        killed = 0
        for step in range(16):
            server = self.joiner(job)
            time.sleep(0.005 * step)
            stop(server.pid)  # so that nothing more comes to it than what is on the way
            time.sleep(0.2)
            for _ in range(3):  # rank 0 is not so busy that it has not looked at what was on the way
                status = job.status()
            holds = [entry for entry in status["servers"] if entry["server"] != 0 and entry["share"] > 0]
            if holds:  # it has all that it gets, and is in the job: it leaves in order
                self.assertAlmostEqual(holds[0]["share"], 0.5, delta=SHARE_TOLERANCE / 2)
                server.send_signal(signal.SIGCONT)
                server.send_signal(signal.SIGTERM)
                self.assertEqual(server.wait(timeout=LIMIT_S), 0)
            else:
                server.kill()
                server.wait()
                killed += 1
            job.wait_until(lambda: job.servers() == [0])
        self.assertGreater(killed, 2)
        self.assertTrue(job.is_training())

    def test_a_joiner_with_too_little_memory_is_told_so_and_not_used(self):
        meminfo = os.path.join(self.folder, "meminfo")
        with open(meminfo, "w", encoding="ascii") as file:
            file.write("MemTotal: 24000000 kB\nMemAvailable: 20000 kB\n")
        poor = ["unshare", "-m" if os.geteuid() == 0 else "-Urm", "sh", "-c", f'mount --bind {meminfo} /proc/meminfo && exec "$@"', "sh"]
        if subprocess.run([*poor, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("this user cannot make a mount namespace, in which the machine has less memory")
        job = self.start_open(bench="push", flags=("--table-mib", "128", "--min-bytes", "4096", "--max-bytes", "4096"))
        server = self.joiner(job, behind=poor)
        _, errors = server.communicate(timeout=LIMIT_S)
        self.assertEqual(server.returncode, 1, errors)
        self.assertIn("this server has room for 20 MiB, but it would hold", errors)
        self.assertIn("give it a lower weight", errors)
        self.assertEqual(job.servers(), [0])
        self.assertIn("cannot join the job: this server has room for 20 MiB", job.text())

    def test_workers_go_on_without_one_that_is_killed_if_the_job_says_so(self):
        job = self.start_open(ranks=3, flags=("--on-worker-loss", "continue"))
        self.assertEqual(len(job.status()["workers"]), 4)
        lost = job.ranks.pop(1)
        lost.kill()
        lost.wait()
        job.wait_until(lambda: len(job.status()["workers"]) == 2)
        self.assertTrue(job.is_training())

    def test_rank_0_fails_with_the_job_also_if_its_own_server_has_left(self):
        for server_dies in (True, False):
            with self.subTest(server_dies=server_dies):
                job = self.start_open()
                server = self.joiner(job)
                job.wait_until_balanced(0, 1)
                self.assertEqual(job.weir("leave", "--server", 0).returncode, 0)
                (server if server_dies else job.ranks[1]).kill()
                self.assertEqual(job.ranks[0].wait(timeout=LIMIT_S), 1)
                self.assertIn("weir: error: server 1 (rank 2" if server_dies else "worker 0 (rank 1) died", job.text())

    def test_the_loss_of_a_server_is_shown_and_ends_the_wait_for_it_to_leave(self):
        job = self.start_open()
        server = self.joiner(job)
        job.wait_until_balanced(0, 1)
        stop(job.ranks[1].pid)  # else its workers fail, and the job ends
        stop(server.pid)
        with subprocess.Popen([WEIR, "leave", job.at, "--server", "1"], stderr=subprocess.PIPE, text=True, env=environment(None)) as leave:
            self.addCleanup(leave.kill)
            job.wait_until(lambda: any(entry["leaving"] for entry in job.status()["servers"]))
            server.kill()
            _, errors = leave.communicate(timeout=LIMIT_S)
        self.assertEqual(leave.returncode, 1, errors)
        self.assertRegex(errors, r"server 1 \(rank 2.*\) is gone; .*; [0-9.]+ % of the parameters are lost, because nobody else has them; start the job again; lost: keys [0-9]+ to .* of table '.*'")
        self.assertNotIn("stays", errors)
        status = job.status()
        self.assertAlmostEqual(status["share_lost"], 0.5, delta=0.1)
        self.assertEqual(status["dead_servers"], [{"server": 1, "rank": 2, "held_parameters": True}])
        self.assertRegex(job.weir("status").stdout, r"\nlost: [0-9.]+ % of the parameters \(server 1, rank 2\)\n")

    def test_nobody_listens(self):
        with ReservedPort() as port:
            at = f"127.0.0.1:{port}"
            for command in (("status", at), ("leave", at, "--server", 0), ("server", "--join", at)):
                self.assert_fails(weir(*command), at, "is the job running")


@unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "needs two cores")
class Load(unittest.TestCase):
    def load(self, *flags):
        """What it says, and its report."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "elastic.json")
            done = weir("bench", "elastic", "--local", "--brief", *flags, "--json", path)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(path, encoding="utf-8") as file:
                result = json.load(file)
        self.assertEqual(result["bench"], "elastic")
        self.assertEqual(result["wrong_values"], 0)
        self.assertIn("none of which failed; 0 wrong values", done.stdout)
        self.assertEqual(sum(row["pushes"] for row in result["rows"]), result["acknowledged"])
        return done, result

    def test_servers_join_and_leave_while_workers_push_and_every_push_counts_once(self):
        done, result = self.load("--rounds", 10, "--workers", 2, "--shards", 2)
        self.assertEqual(result["rounds"], 10)
        self.assertNotIn("loss_seconds", result)
        rows = result["rows"]
        self.assertEqual(len(rows), 25)  # five kinds of pushes, in five phases
        self.assertGreater(sum(row["pushes"] for row in rows if row["when"] in ("join", "leave")), 0)
        self.assertEqual(done.stderr.count("has handed over all that it held"), 10)

    def test_with_copies_some_are_killed_and_every_push_counts_once(self):
        done, result = self.load("--rounds", 3, "--servers", 2, "--replicas", 1)
        rows = result["rows"]
        self.assertEqual(len(rows), 30)
        self.assertGreater(sum(row["pushes"] for row in rows if row["when"] == "loss"), 0)
        self.assertGreater(result["loss_seconds"], 0)
        self.assertIn("s, a loss ", done.stdout)
        self.assertEqual(done.stderr.count("has handed over all that it held"), 3)
        self.assertEqual(done.stderr.count("nothing is lost"), 3)

    def test_what_makes_no_sense_is_refused(self):
        for words, flags in (("--local", ()), ("--rounds: 0: must be", ("--local", "--rounds", 0)), ("unknown flag --in-flight", ("--local", "--in-flight", 4))):
            done = weir("bench", "elastic", *flags)
            self.assertEqual(done.returncode, 2, done)
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have had it ignored, as of what it starts with &
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
