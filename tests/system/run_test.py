#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`weir run`: ranks on this host without a launcher. Usage: run_test.py PATH-OF-WEIR"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import lr_testing as testing
from reserved_port import ReservedPort

WEIR = sys.argv[1] if len(sys.argv) > 1 else "weir"
LIMIT_S = 120  # for whatever a test waits for, whatever else the machine does


def run(*words, **variables):
    return testing.run([WEIR, "run", *words], testing.clean_environment({**testing.POOL, **variables}), LIMIT_S)


def begin(*words, **more):
    return subprocess.Popen([WEIR, "run", *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=testing.clean_environment(testing.POOL), **more)


def lives(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Run(unittest.TestCase):
    def wait_until(self, is_so, what):
        until = time.monotonic() + LIMIT_S
        while not is_so():
            self.assertLess(time.monotonic(), until, what)
            time.sleep(0.02)

    def test_each_rank_gets_its_number_and_the_shape_of_the_job(self):
        script = "echo $WEIR_RANK of $WEIR_SIZE: $WEIR_SERVERS $WEIR_SHARDS $WEIR_WORKERS $WEIR_REPLICAS; echo no >&2"
        done = run("-n", "3", "--servers", "2", "--shards", "3", "--workers", "4", "--replicas", "1", "--", "sh", "-c", script)
        self.assertEqual(done.code, 0, done)
        self.assertEqual(sorted(done.out.splitlines()), [f"[{rank}] {rank} of 3: 2 3 4 1" for rank in range(3)])
        self.assertEqual(sorted(done.err.splitlines()), [f"[{rank}] no" for rank in range(3)])

    def test_lines_stay_whole_and_one_without_an_end_gets_one(self):
        done = run("-n", "4", "--", "sh", "-c", "for i in $(seq 500); do printf 'line '; printf \"$i\\n\"; done; printf 'the last'")
        for rank in range(4):
            own = [line[4:] for line in done.out.splitlines() if line.startswith(f"[{rank}] ")]
            self.assertEqual(own, [f"line {i}" for i in range(1, 501)] + ["the last"])

    def test_a_training_runs_on_several_ranks_and_takes_the_shape_from_variables(self):
        with tempfile.TemporaryDirectory(prefix="weir-run-") as folder:
            testing.write(f"{folder}/train.svm", testing.text_like())
            done = run("-n", "4", "--servers", "2", "--shards", "2", "--workers", "2", "--", WEIR, "lr", "--train", f"{folder}/train.svm",
                       "--json", f"{folder}/result.json")
            self.assertEqual(done.code, 0, done)
            result = testing.read_json(f"{folder}/result.json")
            self.assertIn("[2] objective", done.out)
            self.assertEqual((result["servers"], result["workers"]), (2, 4), result)

    def test_a_flag_counts_more_than_a_variable(self):
        with tempfile.TemporaryDirectory(prefix="weir-run-") as folder:
            testing.write(f"{folder}/train.svm", testing.text_like())
            done = run("-n", "1", "--workers", "2", "--", WEIR, "lr", "--workers", "1", "--train", f"{folder}/train.svm", "--json", f"{folder}/result.json")
            self.assertEqual(done.code, 0, done)
            self.assertEqual(testing.read_json(f"{folder}/result.json")["workers"], 1)

    def test_the_others_are_ended_when_one_fails_and_its_code_is_returned(self):
        with tempfile.TemporaryDirectory(prefix="weir-run-") as folder:
            script = f"echo $$ > {folder}/$WEIR_RANK; [ $WEIR_RANK = 1 ] && exit 7; exec sleep 1000"
            done = run("-n", "3", "--", "sh", "-c", script)
            self.assertEqual(done.code, 7, done)
            self.assertIn("rank 1 ended with exit code 7; the others are ended", done.err)
            for rank in (0, 2):
                self.assertFalse(lives(int(Path(f"{folder}/{rank}").read_text(encoding="ascii"))))

    def test_who_ignores_sigterm_is_killed(self):
        script = "trap '' TERM; [ $WEIR_RANK = 1 ] && exit 3; while :; do sleep 0.1; done"
        done = run("-n", "2", "--grace", "1", "--", "bash", "-c", script)
        self.assertEqual(done.code, 3, done)
        self.assertIn("1 s after SIGTERM: the ranks that are left are killed", done.err)

    def test_a_signal_that_ends_a_rank_is_named_and_returned_as_a_shell_does(self):
        done = run("-n", "2", "--", "bash", "-c", "[ $WEIR_RANK = 0 ] && kill -9 $$; exec sleep 1000")
        self.assertEqual(done.code, 128 + signal.SIGKILL, done)
        self.assertIn("rank 0 was ended by SIGKILL", done.err)

    def test_keep_going_lets_the_others_go_on(self):
        done = run("-n", "2", "--keep-going", "--", "sh", "-c", "[ $WEIR_RANK = 0 ] && exit 4; sleep 3; echo here")
        self.assertEqual((done.code, done.out), (4, "[1] here\n"), done)
        self.assertIn("the others go on (--keep-going)", done.err)

    def test_signals_reach_all_ranks(self):
        script = "trap 'echo stops; exit 5' TERM; trap 'echo user' USR1; echo ready; while :; do sleep 0.05; done"
        process = begin("-n", 2, "--", "bash", "-c", script)
        lines = [process.stdout.readline() for _ in range(2)]
        self.assertEqual(sorted(lines), ["[0] ready\n", "[1] ready\n"])
        process.send_signal(signal.SIGUSR1)
        lines = [process.stdout.readline() for _ in range(2)]
        self.assertEqual(sorted(lines), ["[0] user\n", "[1] user\n"])
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=LIMIT_S)
        self.assertEqual((sorted(out.splitlines()), process.returncode), (["[0] stops", "[1] stops"], 5), err)

    def test_json_tells_how_each_rank_ended(self):
        script = "echo here; [ $WEIR_RANK = 0 ] && exit 0; [ $WEIR_RANK = 1 ] && kill -9 $$; exit 4"
        done = run("-n", "3", "--keep-going", "--json", "--", "bash", "-c", script)
        found = json.loads(done.out)
        self.assertEqual(found["ranks"], [{"rank": 0, "exit_code": 0}, {"rank": 1, "exit_code": 137, "signal": "SIGKILL"}, {"rank": 2, "exit_code": 4}])
        self.assertEqual((found["exit_code"], found["was_stopped"]), (done.code, False))
        self.assertIn("[0] here\n", done.err)
        with tempfile.TemporaryDirectory(prefix="weir-run-") as folder:
            done = run("-n", "1", "--json", f"{folder}/result", "--", "echo", "here")
            self.assertEqual((done.code, done.out, testing.read_json(f"{folder}/result")["exit_code"]), (0, "[0] here\n", 0))

    def test_the_ranks_end_with_it(self):
        process = begin("-n", 2, "--", "sh", "-c", "echo $$; exec sleep 1000")
        pids = [int(process.stdout.readline().split()[1]) for _ in range(2)]
        process.kill()
        process.communicate(timeout=LIMIT_S)
        for pid in pids:
            self.wait_until(lambda pid=pid: not lives(pid), f"{pid} lives")

    def test_the_ranks_end_when_nobody_reads_their_output(self):
        process = begin("-n", 2, "--", "sh", "-c", "echo $$; while :; do echo more; done")
        pid = int(process.stdout.readline().split()[1])
        process.stdout.close()
        self.assertEqual(process.wait(timeout=LIMIT_S), 1)
        self.assertIn("standard output: Broken pipe", process.stderr.read())
        process.stderr.close()
        self.assertFalse(lives(pid))

    def test_it_ends_though_who_started_it_ignores_that_children_end(self):
        process = begin("-n", 2, "--", "sh", "-c", "exit 3", preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        self.addCleanup(process.kill)
        _, err = process.communicate(timeout=LIMIT_S)
        self.assertEqual(process.returncode, 3, err)

    def test_it_ends_though_processes_that_a_rank_left_behind_write_on(self):
        process = begin("-n", 1, "--", "sh", "-c", "echo $$; for i in 1 2 3 4; do setsid yes & done; read word; exit 0", stdin=subprocess.PIPE)
        self.addCleanup(process.kill)
        out = process.stdout.fileno()
        first = b""
        while b"y\n" not in first:  # the four write
            first += os.read(out, 16)
        rank = int(first.split()[1])
        process.stdin.write("\n")
        process.stdin.close()
        self.wait_until(lambda: not Path(f"/proc/{rank}").exists(), "the rank ends")
        written, most = 0, 20_000_000  # it prints 64 pieces of 64 KiB, whose lines become three times as long
        while written < most:
            piece = os.read(out, 65536)
            if not piece:
                break
            written += len(piece)
            time.sleep(0.005)  # meanwhile there is more from the four
        self.assertLess(written, most)
        self.assertEqual(process.wait(timeout=LIMIT_S), 0)
        process.stdout.close()
        process.stderr.close()

    def test_rank_0_reads_standard_input(self):
        process = begin("-n", 2, "--", "sh", "-c", "cat", stdin=subprocess.PIPE)
        out, _ = process.communicate("for the first\n", timeout=LIMIT_S)
        self.assertEqual((out, process.returncode), ("[0] for the first\n", 0))

    def test_commands_find_the_job_at_its_rendezvous(self):
        with ReservedPort() as port, tempfile.TemporaryDirectory(prefix="weir-run-") as folder:
            testing.write(f"{folder}/train.svm", testing.endless())
            process = begin("-n", 2, "--rendezvous", f"127.0.0.1:{port}", "--", WEIR, "lr", "--train", f"{folder}/train.svm", *testing.ENDLESS)
            status = [WEIR, "status", f"127.0.0.1:{port}", "--json"]

            def trains():
                done = subprocess.run(status, capture_output=True, text=True, check=False, timeout=LIMIT_S)
                return done.returncode == 0 and json.loads(done.stdout)["tables"] > 0

            self.wait_until(trains, "no job")
            process.terminate()
            _, err = process.communicate(timeout=LIMIT_S)
            self.assertEqual(process.returncode, 143, err)
            self.assertIn("[1] weir: stopped by SIGTERM", err)

    def test_without_a_rendezvous_the_job_has_a_secret_which_is_removed(self):
        with tempfile.TemporaryDirectory(prefix="weir-run-") as folder:
            done = run("-n", "2", "--", "sh", "-c", "stat -c %a $WEIR_SECRET_FILE; wc -c < $WEIR_SECRET_FILE; echo $WEIR_SECRET_FILE", TMPDIR=folder)
            self.assertEqual(done.code, 0, done)
            self.assertEqual(done.out.count("] 600"), 2, done)
            self.assertTrue(re.search(r"] 64\n", done.out), done)
            self.assertEqual(os.listdir(folder), [])

    def test_what_cannot_be_started_is_named(self):
        for words, code, says in (
            (("-n", "2", "--", "./nothing-here"), 1, "./nothing-here: cannot be started; name a program that is in PATH"),
            (("-n", "2", "--", "/etc/passwd"), 1, "/etc/passwd: cannot be started; name a program that this user may run: Permission denied"),
            (("-n", "2"), 2, "no program to start: name one"),
            (("-n", "0", "--", "true"), 2, "must be a whole number from 1 to 1024"),
            (("--", "true"), 2, "--ranks is required"),
            (("-n", "2", "--replicas", "3", "--", "true"), 2, "must be a whole number from 0 to 2"),
            (("-n", "2", "--rendezvous", "here", "--", "true"), 2, "--rendezvous: 'here' is not HOST:PORT"),
            (("-n", "2", "true", "--flag"), 2, "unknown flag --flag; if the program is to get it, write -- before the program"),
            (("-n", "2", "sh", "-c", "true"), 2, "unknown flag -c; if the program is to get it, write -- before the program"),
            (("-n", "2", "sh", "-n", "3"), 2, "write -- before the program: `weir run -n 2 -- PROGRAM ARGUMENTS`"),
        ):
            with self.subTest(words):
                done = run(*words)
                self.assertEqual(done.code, code, done)
                self.assertIn(says, done.err)


if __name__ == "__main__":
    WEIR = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
