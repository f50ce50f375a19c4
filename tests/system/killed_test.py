#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks of `weir lr` that are killed, and strangers on their ports, while they train. Usage: killed_test.py PATH-OF-WEIR"""

import contextlib
import os
import random
import re
import signal
import socket
import struct
import time
import unittest

import lr_testing as testing
from stopping import stop

DEADLINE_S = 5
SLOW_S = 20  # on top of a deadline, for a busy machine: in all still less than the default deadline of 30 s
SERVERS, WORKERS = (0, 1), (2, 3)
VARIABLES = {"WEIR_DEADLINE_MS": str(DEADLINE_S * 1000)}


def children():
    """This process's children that nobody has waited for."""
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


def sockets_of(pid):
    """The inodes of a process's sockets."""
    inodes = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            found = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{name}"))
            inodes.update(found.groups() if found else ())
    return inodes


def holdings(pid):
    """(open descriptors, mappings of memory that other processes gave) of a process."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
        return len(os.listdir(f"/proc/{pid}/fd")), sum("memfd:" in line for line in file)


def listening(pids):
    """The listening sockets of processes: abstract Unix names, then TCP ports."""
    inodes = set().union(*map(sockets_of, pids))
    names, ports = {}, set()
    with open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as file:
        for line in file.read().splitlines()[1:]:
            words = line.split(maxsplit=7)
            if len(words) == 8 and words[6] in inodes and words[7].startswith("@") and int(words[3], 16) & 0x10000:
                names["\0" + words[7][1:]] = int(words[4], 16)
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table, encoding="ascii") as file:
            for words in map(str.split, file.read().splitlines()[1:]):
                if words[9] in inodes and words[3] == "0A":
                    ports.add(int(words[1].rsplit(":", 1)[1], 16))
    return names, ports


class Hostile:
    """Strangers that connect, send garbage, and hang up or stay."""

    def __init__(self, dice):
        self.dice, self.staying, self.sent = dice, [], 0

    def messages(self):
        size = self.dice.choice((1, 16, 100, 5000))
        noise = bytes(self.dice.randrange(256) for _ in range(size))
        return (b"", noise, b"GET / HTTP/1.0\r\n\r\n", b"\0" * 64, b"\xff" * 4096, b"weir", b"WEIR\x01\0\0\0" + noise, struct.pack("<IIQ", 0xFFFFFFFF, 1, 2**64 - 1))

    def talk(self, family, kind, address):
        for message in self.messages():
            stranger = socket.socket(family, kind)
            stranger.settimeout(1)
            with contextlib.suppress(OSError):
                stranger.connect(address)
                greeting = b""
                if self.dice.random() < 0.5:
                    stranger.settimeout(0.02)
                    with contextlib.suppress(OSError):
                        greeting = stranger.recv(4096)  # half a handshake: its own greeting is sent back
                    stranger.settimeout(1)
                stranger.sendall(message + greeting)
                self.sent += 1
            if self.dice.random() < 0.3:
                self.staying.append(stranger)
            else:
                stranger.close()

    def leave(self):
        for stranger in self.staying:
            stranger.close()


class Killed(testing.Folder, unittest.TestCase):
    def setUp(self):
        super().setUp()
        shared = set(os.listdir("/dev/shm"))

        def nothing_left():
            self.assertEqual(children(), [])
            self.assertEqual({name for name in set(os.listdir("/dev/shm")) - shared if "weir" in name}, set())

        self.addCleanup(nothing_left)

    def job(self, *flags, rows=None, **variables):
        train = testing.write(self.path("train.svm"), rows or testing.endless())
        command = [self.WEIR, "lr", "--train", train, "--servers", "2", *flags]
        return testing.Ranks(self.folder, command, 4, {**VARIABLES, **variables})

    def kill(self, job, victim):
        self.assertTrue(job.until_training(), job.everything())
        time.sleep(0.3)
        self.assertTrue(all(job.running(rank) for rank in range(4)), job.everything())
        job.kill(victim)

    def ends(self, job, ranks):
        """Waits for ranks; all must end within the deadline, and by themselves."""
        until = time.monotonic() + DEADLINE_S + SLOW_S
        codes = {rank: job.wait(rank, max(0.1, until - time.monotonic())) for rank in ranks}
        self.assertTrue(all(code is not None and code >= 0 for code in codes.values()), f"{codes}\n{job.everything()}")
        return codes

    def test_workers_name_the_server_that_was_killed(self):
        for victim in SERVERS:
            with self.subTest(f"server {victim}"), self.job(*testing.ENDLESS) as job:
                job.start_all()
                self.kill(job, victim)
                codes = self.ends(job, set(range(4)) - {victim})
                for rank in WORKERS:
                    self.assertEqual(codes[rank], 1, job.everything())
                    self.assertRegex(job.err(rank), rf"error: .*server {victim} \(rank {victim}\) is gone", job.everything())

    def test_a_worker_that_hangs_on_a_stopped_server_gives_up_at_the_deadline(self):
        for server in SERVERS:  # with the first one the manager has stopped, too
            with self.subTest(f"server {server}"), self.job(*testing.ENDLESS) as job:
                job.start_all()
                self.assertTrue(job.until_training(), job.everything())
                stop(job.pid(server))
                for rank in WORKERS:  # the deadline, and 2 s for an answer to leave()
                    self.assertEqual(job.wait(rank, DEADLINE_S + 2 + SLOW_S), 1, job.everything())
                    self.assertRegex(job.err(rank), rf"error: .*(server {server}|rank {server}|shard)", job.everything())
                    self.assertNotIn("without leave()", job.err(rank))

    def test_the_other_worker_names_the_one_that_was_killed_and_servers_end_in_order(self):
        with self.job(*testing.ENDLESS) as job:
            job.start_all()
            self.kill(job, 3)
            codes = self.ends(job, (0, 1, 2))
            self.assertEqual(codes[2], 1, job.everything())
            self.assertRegex(job.err(2), r"error: .*(worker 1|rank 3)", job.everything())
            for rank in SERVERS:  # they served to the end, which no worker reached
                self.assertEqual(codes[rank], 1, job.everything())
            self.assertRegex(job.err(0), r"error: no worker finished its work: worker 1 \(rank 3\) died")

    def test_the_death_of_a_worker_names_the_checkpoint_to_go_on_from(self):
        folder = os.path.realpath(self.path("checkpoints"))
        os.mkdir(folder)
        as_given = os.path.relpath(folder)
        with self.job(*testing.ENDLESS, "--checkpoint", as_given) as job:
            job.start_all()
            self.assertTrue(job.until_training(), job.everything())
            os.kill(job.pid(0), signal.SIGUSR1)
            self.assertTrue(job.until(lambda: "checkpoint 1 is in" in job.err(0)), job.everything())
            self.kill(job, 3)
            self.ends(job, (0, 1, 2))
            for rank in SERVERS:
                self.assertIn(f"or the network to it is cut; start the job again, with --resume {folder} (checkpoint 1)\n", job.err(rank))
            self.assertIn(f"start the job again, with --resume {folder} ", job.err(2))

    def test_the_death_of_the_manager_names_the_folder_of_checkpoints_wherever_a_rank_was_started(self):
        folder = os.path.realpath(self.path("checkpoints"))
        os.mkdir(folder)
        with self.job(*testing.ENDLESS, "--checkpoint", os.path.relpath(folder)) as job:
            job.start_all()
            self.assertTrue(job.until_training(), job.everything())
            self.kill(job, 0)
            self.ends(job, (1, 2, 3))
            self.assertIn(f"so are all workers; look for their output; start the job again, with --resume {folder} if a checkpoint is there", job.err(1))
            for rank in WORKERS:
                self.assertIn(f": start it again, with --resume {folder} if a checkpoint is there; ", job.err(rank))

    def reassigning(self, rows, *flags):
        train = testing.write(self.path("train.svm"), rows)
        command = [self.WEIR, "lr", "--train", train, "--servers", "2", "--on-worker-loss", "reassign", *flags]
        return testing.Ranks(self.folder, command, 5, VARIABLES)

    def test_the_others_take_over_the_examples_of_workers_that_are_killed(self):
        out, model, plot = (self.path(name) for name in ("out.json", "model", "plot.svg"))
        with self.reassigning(testing.endless(), "--json", out, "--model", model, "--plot", plot, *testing.ENDLESS) as job:
            job.start_all()
            self.assertTrue(job.until_training(), job.everything())
            for victim, speaker in ((2, 3), (3, 4)):  # each time the one that speaks
                job.kill(victim)
                self.assertTrue(job.until(lambda speaker=speaker: job.err(speaker).count("pass ") > 2), job.everything())
            os.kill(job.pid(4), signal.SIGTERM)
            self.assertEqual([job.wait(rank) for rank in (0, 1, 4)], [143] * 3, job.everything())
        result = testing.read_json(out)
        self.assertEqual(result["examples"], 100)
        self.assertEqual(len(result["restarts"]), 2)
        self.assertEqual([p["pass"] for p in result["history"]], list(range(1, result["passes"] + 1)))
        self.assertLess(result["objective"], result["history"][0]["objective"])
        self.assertEqual(len(testing.read_model(model)), result["nonzeros"])
        self.assertEqual([event["number"] for event in result["events"] if event["what"] == "worker lost"][:2], [0, 1])
        svg = testing.Path(plot).read_text(encoding="utf-8")
        for text in (">worker 0 lost<", ">worker 1 lost<", ">failure<"):
            self.assertEqual(svg.count(text), 1)

    def test_a_training_that_lost_a_worker_ends_at_the_same_optimum(self):
        rows, out = testing.far_from_zero(), self.path("out.json")
        wanted = testing.read_json(self.trained_undisturbed(rows))["objective"]
        for victim in (2, 4):
            with self.reassigning(rows, "--json", out, "--l1", "1", "--tolerance", "1e-7", "--blocks", "8") as job:
                job.start_all()
                self.assertTrue(job.until_training(), job.everything())
                job.kill(victim)  # or it has come to its end just now
                left = [rank for rank in range(5) if rank != victim]
                self.assertEqual([job.wait(rank) for rank in left], [0] * 4, job.everything())
            result = testing.read_json(out)
            self.assertEqual(result["examples"], len(rows))
            self.near(result["objective"], wanted)

    def test_the_others_choose_anew_which_features_they_leave_out_when_a_worker_is_killed(self):
        rows, out = testing.text_like(1000, 3000), self.path("out.json")
        with self.reassigning(rows, "--json", out, "--l1", "1", "--tolerance", "0", "--passes", "100000000") as job:
            job.start_all()
            self.assertTrue(job.until(lambda: "% filtered" in job.err(2)), job.everything())
            job.kill(2)
            self.assertTrue(job.until(lambda: "% filtered" in job.err(3)), job.everything())
            self.assertTrue(job.trains_on(3), job.everything())
            for rank in (0, 1, 3, 4):
                os.kill(job.pid(rank), signal.SIGTERM)
            self.assertEqual([job.wait(rank) for rank in (0, 1, 3, 4)], [143] * 4, job.everything())
        result = testing.read_json(out)
        self.near(result["objective"], testing.solve(rows, 1))
        [restart] = result["restarts"]
        behind = [step["filtered"] for step in result["history"] if step["seconds"] > restart]
        self.assertEqual(behind[0], 0)
        self.assertGreater(max(behind), 0.5)

    def test_a_rank_that_gets_sigterm_alone_leaves_and_the_others_go_on(self):
        rows, out = testing.far_from_zero(20000), self.path("out.json")
        wanted = testing.read_json(self.trained_undisturbed(rows))["objective"]
        unending = ("--tolerance", "0", "--passes", "100000000")
        with self.reassigning(rows, "--json", out, "--l1", "1", "--blocks", "8", *unending) as job:
            job.start_all()
            self.assertTrue(job.until_training(), job.everything())
            os.kill(job.pid(2), signal.SIGTERM)  # the one that speaks
            self.assertEqual(job.wait(2), 0, job.everything())
            self.assertIn("SIGTERM came to this rank alone: worker 0 has left", job.err(2))
            self.assertTrue(job.until(lambda: job.err(3).count("pass ") > 2), job.everything())
            for rank in (0, 1, 3, 4):  # as a launcher does
                os.kill(job.pid(rank), signal.SIGTERM)
            self.assertEqual([job.wait(rank) for rank in (0, 1, 3, 4)], [143] * 4, job.everything())
        result = testing.read_json(out)
        self.assertEqual(result["examples"], len(rows))
        self.assertEqual(len(result["restarts"]), 1)
        self.near(result["objective"], wanted)

    def trained_undisturbed(self, rows):
        out = self.path("undisturbed.json")
        train = testing.write(self.path("undisturbed.svm"), rows)
        done = self.lr("--train", train, "--json", out, "--l1", "1", "--tolerance", "1e-7")
        self.assertEqual(done.code, 0, done.err)
        return out

    def test_only_words_that_there_are_say_what_happens_when_a_worker_is_lost(self):
        done = self.lr("--train", testing.write(self.path("train.svm"), testing.dense()), "--on-worker-loss", "continue")
        self.assertNotEqual(done.code, 0)
        self.assertIn("the model would lack the part of the data that the dead worker had; take reassign", done.err)
        done = self.lr("--train", self.path("train.svm"), "--on-worker-loss", "hope")
        self.assertIn("hope: must be stop or reassign", done.err)

    def test_servers_stay_up_while_a_stopped_worker_is_there(self):
        with self.job(*testing.ENDLESS) as job:
            job.start_all()
            self.assertTrue(job.until_training(), job.everything())
            stop(job.pid(2))  # it is alive and silent
            held = [holdings(job.pid(rank)) for rank in SERVERS]
            job.kill(3)
            self.assertTrue(job.until(lambda: "worker 1 (rank 3) is lost" in job.err(0)), job.everything())
            for rank, before in zip(SERVERS, held):  # the memory and descriptors of the dead rank are released
                released = job.until(lambda rank=rank, before=before: all(now < then for now, then in zip(holdings(job.pid(rank)), before)))
                self.assertTrue(released, f"{before}, {holdings(job.pid(rank))}\n{job.everything()}")
            time.sleep(0.5)
            self.assertTrue(all(job.running(rank) for rank in SERVERS), job.everything())
            os.kill(job.pid(2), signal.SIGCONT)
            self.assertEqual(self.ends(job, (0, 1, 2))[2], 1)

    def test_strangers_on_every_socket_do_not_disturb_the_job(self):
        rows = testing.text_like(600, 2000, 20)
        out, settings = self.path("out.json"), ("--l1", "0.1", "--tolerance", "1e-4", "--blocks", "8")
        done = self.lr("--train", testing.write(self.path("alone.svm"), rows), "--json", out, *settings)
        self.assertEqual(done.code, 0, done.err)
        wanted = testing.read_json(out)["objective"]
        strangers = Hostile(random.Random(testing.seed()))
        with self.job("--json", out, *settings, rows=rows) as job:
            job.start(0)
            self.assertTrue(job.until(lambda: job.port in listening([job.pid(0)])[1]), job.everything())
            strangers.talk(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", job.port))
            for rank in (1, 2, 3):
                job.start(rank)
            self.assertTrue(job.until_training(), job.everything())
            names, ports = listening([job.pid(rank) for rank in range(4) if job.running(rank)])
            self.assertTrue(names, "no listening socket was found")
            before = strangers.sent
            for name, kind in names.items():
                strangers.talk(socket.AF_UNIX, kind, name)
            for port in ports:
                strangers.talk(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", port))
            self.assertGreater(strangers.sent, before, "nobody listened to strangers")
            self.assertEqual([job.wait(rank) for rank in range(4)], [0] * 4, job.everything())
        strangers.leave()
        self.near(testing.read_json(out)["objective"], wanted)


if __name__ == "__main__":
    testing.main(testing.Folder, "__main__")
