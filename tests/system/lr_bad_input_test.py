#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`weir lr` on input that is wrong: it fails soon, and the error names the cause. Usage: lr_bad_input_test.py PATH-OF-WEIR"""

import gzip
import os
import random
import re
import socket
import subprocess
import threading
import unittest

import lr_testing as testing

GOOD = b"+1 1:1 2:0.5\n-1 3:1\n"
# name: content, what the message says, by which --skip-bad helps
BAD_LINES = {
    "a value that is none": (GOOD + b"+1 1:x 2:1\n", r":3:6: expected .*number.*'x'"),
    "a value cut off": (GOOD + b"+1 1:", r":3:6: expected .*number"),
    "no colon": (GOOD + b"+1 12 3:1\n", r":3:\d+: expected "),
    "a wrong label": (b"5 1:1\n" + GOOD, r":1:1: expected a label.*'5'"),
    "a feature that is too large": (GOOD + b"+1 18446744073709551616:1\n", r":3:4: expected a feature number"),
    "a negative feature": (GOOD + b"+1 -1:1\n", r":3:4: expected a feature number"),
    "a feature twice": (GOOD + b"+1 1:1 1:2\n", r":3:8: expected every feature only once"),
    "not a number": (GOOD + b"+1 1:nan\n", r":3:6: expected a finite"),
    "infinity": (GOOD + b"+1 1:1e999\n", r":3:6: expected a finite"),
}
FEW_PASSES = ("--passes", "3")
ONE_ARENA = {"MALLOC_ARENA_MAX": "1"}
NO_LIMIT = "a program with ASan takes terabytes of addresses, so that no limit on them can be set"


class BadInput(testing.Folder, unittest.TestCase):
    def file(self, name, content=GOOD):
        path = self.path(name)
        with open(path, "wb") as file:
            file.write(content)
        return path

    def fails(self, message, *arguments, **more):
        """Ends by itself with an exit code of failure and one line of error that says so."""
        done = self.lr(*arguments, **more)
        self.assertIn(done.code, (1, 2), f"{arguments}: exit {done.code}: {done.err}")
        errors = [line for line in done.err.splitlines() if line.startswith("weir: error: ")]
        self.assertTrue(errors, done.err)
        self.assertRegex(errors[-1], message)
        self.assertNotIn("\x00", done.err)
        return done

    def test_a_bad_line_is_named_by_file_line_and_column_and_can_be_left_out(self):
        for name, (content, message) in BAD_LINES.items():
            with self.subTest(name):
                path = self.file("bad.svm", content)
                self.fails(re.escape(path) + message, "--train", path)
                out = self.path("out.json")
                done = self.lr("--train", path, "--skip-bad", 1, "--json", out, *FEW_PASSES)
                self.assertEqual(done.code, 0, done.err)
                self.assertEqual((testing.read_json(out)["bad_lines"], testing.read_json(out)["examples"]), (1, 2))
                self.assertIn(path, done.out)

    def test_one_bad_line_more_than_allowed_is_an_error(self):
        path = self.file("bad.svm", GOOD + b"+1 1:x\n+1 2:x\n")
        self.fails(re.escape(path) + r":4:6: .*bad line number 2, and 1 may be skipped", "--train", path, "--skip-bad", 1)

    def test_bytes_that_are_no_text_are_shown_harmlessly(self):
        dice = random.Random(testing.seed())
        for size in (1, 100, 100_000):
            path = self.file("binary.svm", b"\x1b\xff" + bytes(dice.randrange(256) for _ in range(size)))
            done = self.fails(re.escape(path) + r":1:1: expected a label", "--train", path)
            self.assertNotIn("\x1b", done.err)

    def test_files_that_are_none(self):
        self.fails(r"empty\.svm is empty", "--train", self.file("empty.svm", b""))
        self.fails(r"missing\.svm: no such file", "--train", self.path("missing.svm"))
        self.fails("is a directory", "--train", str(self.folder))
        packed = self.file("data.svm.xz", b"\xfd7zXZ\x00" + bytes(60))
        self.fails(r"data\.svm\.xz is xz-compressed; .*xz -dk", "--train", packed)
        cut = testing.write(self.path("cut.svm.gz"), testing.dense())
        os.truncate(cut, os.path.getsize(cut) // 2)
        self.fails(r"cut\.svm\.gz: the gzip stream is cut off", "--train", cut)
        self.fails(r"missing\.svm: no such file", "--train", self.file("ok.svm"), self.path("missing.svm"))
        self.fails(r"missing\.svm: no such file", "--train", self.file("ok.svm"), "--test", self.path("missing.svm"))

    def test_gzip_files_end_to_end_are_one_but_junk_between_them_is_an_error(self):
        packed = gzip.compress(GOOD * 40)
        out, whole = self.path("out.json"), self.file("whole.svm.gz", packed + packed)
        self.assertEqual(self.lr("--train", whole, "--json", out, "--workers", 2, *FEW_PASSES).code, 0)
        self.assertEqual(testing.read_json(out)["examples"], 160)
        for name, junk in (("between", b"junk" + packed), ("after", b"junk")):
            with self.subTest(name):
                path = self.file("junk.svm.gz", packed + junk)
                self.fails(rf"junk\.svm\.gz: the bytes from {len(packed)} on, after the end of a gzip stream", "--train", path)

    def test_a_file_that_only_one_of_many_workers_reads_fails_them_all(self):
        good, bad = self.file("good.svm", GOOD * 50), self.file("bad.svm", GOOD + b"+1 1:x\n")
        self.fails(re.escape(bad) + ":3:6", "--train", good, bad, "--workers", 4, "--servers", 2)

    def many_examples(self):
        """A click log that takes a worker about 100 MB."""
        path = self.path("many.svm")
        subprocess.run([self.WEIR, "synth", "--out", path, "--examples", "250000"], check=True, capture_output=True, timeout=60)
        return path

    def limited(self, kib, *arguments):
        """`weir lr` with so much address space; one malloc arena makes that the same everywhere."""
        words = ["sh", "-c", f'ulimit -v {kib} && exec "$0" "$@"', self.WEIR, "lr", *arguments]
        return testing.run(words, testing.clean_environment({**testing.POOL, **ONE_ARENA, "WEIR_JOIN_TIMEOUT_S": "3"}), testing.LIMIT_S)

    @unittest.skipIf(testing.sanitized(), NO_LIMIT)
    def test_data_that_do_not_fit_into_memory_end_it_with_advice(self):
        train = self.many_examples()
        for shape in (("--threads", "1"), ("--threads", "3"), ("--workers", "2")):
            with self.subTest(shape):
                done = self.limited(190_000, "--train", train, "--passes", "1", *shape)
                self.assertEqual(done.code, 1, done.err)
                self.assertRegex(done.err, "weir: error: not enough memory: .*more workers")

    @unittest.skipIf(testing.sanitized(), NO_LIMIT)
    def test_threads_that_cannot_start_end_it_with_advice(self):
        train = self.file("ok.svm")
        self.assertEqual(self.limited(1_000_000, "--train", train, "--threads", "2").code, 0)
        many = str(min(190, 95 * len(os.sched_getaffinity(0))))  # 100 for each processor are refused before
        for arguments in (("--threads", "200"), ("--workers", many), ("--shards", many)):
            with self.subTest(arguments):
                done = self.limited(300_000, "--train", train, *arguments)
                self.assertEqual(done.code, 1, done.err)
                self.assertRegex(done.err, "weir: error: no more threads can be started: .*reading threads")

    @unittest.skipIf(testing.sanitized(), NO_LIMIT)
    def test_a_worker_without_memory_ends_the_job_for_all_of_them_with_the_reason(self):
        command = ["sh", "-c", 'ulimit -v ${LIMIT_KIB:-unlimited} && exec "$0" "$@"', self.WEIR, "lr", "--train", self.many_examples(), "--passes", "2"]
        with testing.Ranks(self.folder, command, 3, ONE_ARENA) as job:
            for rank in range(3):
                job.start(rank, {"LIMIT_KIB": "100000"} if rank == 2 else None)
            for rank in range(3):
                self.assertEqual(job.wait(rank), 1, job.everything())
                # Rank 1 may hear of the connection's end before the reason comes round.
                words = "not enough memory: every worker" + ("|worker 1 died" if rank == 1 else "")
                self.assertRegex(job.err(rank), words, job.everything())

    def test_flags_out_of_range(self):
        train = self.file("ok.svm")
        for flag, value in (("--servers", 0), ("--shards", 0), ("--workers", 0), ("--servers", -1), ("--servers", 5000), ("--l1", -1), ("--l1", "x"),
                            ("--passes", "many"), ("--tolerance", -1), ("--threads", 0), ("--skip-bad", -1), ("--passes", -1), ("--blocks", -1),
                            ("--kkt", "maybe"), ("--frobnicate", 1)):
            with self.subTest(f"{flag} {value}"):
                self.assertEqual(self.fails(re.escape(flag.lstrip("-")), "--train", train, flag, value).code, 2)
        for flag, value, words in (("--l1", "nan", "a finite number of at least 0"), ("--l1", "inf", "a finite number of at least 0"),
                                   ("--l1", "1e999", "a finite number"), ("--tolerance", "nan", "a finite number of at least 0"),
                                   ("--tolerance", "-inf", "a finite number of at least 0"), ("--tolerance", "-1e-9", "a finite number of at least 0"),
                                   ("--passes", "0", "a whole number from 1 to"), ("--passes", "1.5", "a whole number from 1 to")):
            with self.subTest(f"{flag} {value}"):
                done = self.fails(f"{flag}: {re.escape(value)}: must be {words}", "--train", train, flag, value)
                self.assertEqual(done.code, 2)
                self.assertLess(max(map(len, done.err.splitlines())), 120, done.err)
        self.assertEqual(self.lr("--train", train, "--l1", "+1", *FEW_PASSES).code, 0)
        self.fails("--train", "--servers", 1)

    def test_variables_out_of_range(self):
        train = self.file("ok.svm")
        for name, value in (("WEIR_DEADLINE_MS", "soon"), ("WEIR_DEADLINE_MS", "0"), ("WEIR_POOL_MIB", "-5"), ("WEIR_TRANSPORT", "pigeon"),
                            ("WEIR_SPIN_US", "99999999999999999999"), ("WEIR_RANK", "first"), ("WEIR_EAGER_BYTES", "4k")):
            with self.subTest(f"{name}={value}"):
                self.assertRegex(self.fails(name, "--train", train, **{name: value}).err, re.escape(value))
        done = self.lr("--train", train, WEIR_DEADLIN_MS="7", *FEW_PASSES)
        self.assertEqual(done.code, 0, done.err)
        self.assertRegex(done.err, "warning: .*WEIR_DEADLIN_MS.*WEIR_DEADLINE_MS")

    def test_outputs_that_cannot_be_written(self):
        train = testing.write(self.path("train.svm"), testing.dense())
        for flag in ("--model", "--json", "--plot"):
            with self.subTest(flag):
                self.fails(r"cannot write .*nowhere/out", "--train", train, flag, self.path("nowhere/out"))
                self.fails("cannot write", "--train", train, flag, str(self.folder))
                self.fails("/dev/full", "--train", train, flag, "/dev/full")
                self.fails("/proc/nobody", "--train", train, flag, "/proc/nobody")

    def test_outputs_that_are_inputs_or_each_other(self):
        train, test = self.file("train.svm"), self.file("test.svm")
        os.symlink("train.svm", self.path("link"))
        files = ("--train", train, "--test", test)
        for flag in ("--model", "--json", "--plot"):
            for path, other in ((train, "--train"), (test, "--test"), (self.path("link"), "--train"), (str(self.folder / "." / "test.svm"), "--test")):
                with self.subTest(f"{flag} {path}"):
                    self.assertEqual(self.fails(f"{flag} .* is also the file of {other}", *files, flag, path).code, 2)
        self.fails("--json .* is also the file of --model", *files, "--model", self.path("out"), "--json", self.path("./out"))
        self.fails("--plot .* is also the file of --json", *files, "--json", self.path("out"), "--plot", self.path("out"))
        for path in (train, test):
            with open(path, "rb") as file:
                self.assertEqual(file.read(), GOOD)
        self.assertEqual(self.lr(*files, "--model", "/dev/null", "--json", "/dev/null", *FEW_PASSES).code, 0)

    def test_outputs_are_looked_at_before_the_training_and_only_where_they_are_written(self):
        train = testing.write(self.path("train.svm"), testing.endless())
        self.fails("cannot write .*nowhere/out", "--train", train, "--model", self.path("nowhere/out"), *testing.ENDLESS)
        self.fails("/proc/nobody", "--train", train, "--model", "/proc/nobody", *testing.ENDLESS)
        # Every rank sees a folder of its own under the same name, as on different hosts.
        for rank in range(3):
            (self.folder / str(rank)).mkdir()
        (self.folder / "1" / "results").mkdir()
        command = ["sh", "-c", 'cd "$0/$RANK" && exec "$@"', str(self.folder), self.WEIR, "lr", "--train", train, "--json", "results/out.json", *FEW_PASSES]
        with testing.Ranks(self.folder, command, 3) as job:
            for rank in range(3):
                job.start(rank, {"RANK": str(rank)})
            self.assertEqual([job.wait(rank) for rank in range(3)], [0, 0, 0], job.everything())
        self.assertEqual(os.listdir(self.folder / "1" / "results"), ["out.json"])

    def test_a_result_that_nobody_can_read_is_a_failure(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([self.WEIR, "lr", "--train", self.file("ok.svm"), *FEW_PASSES], env=testing.clean_environment(testing.POOL),
                                  stdout=full, stderr=subprocess.PIPE, text=True, timeout=testing.LIMIT_S, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("standard output", done.stderr)

    def test_bad_lines_alone_are_no_examples_and_are_counted(self):
        bad, empty = self.file("bad.svm", b"oops\n" * 30), self.file("empty.svm", b"# nothing\n\n")
        self.fails(r"30 bad lines were left out.*bad\.svm:1:1: ", "--train", bad, "--skip-bad", 30)
        self.fails(r"30 bad lines were left out", "--train", bad, "--skip-bad", 30, "--workers", 3)
        self.fails("only comments and empty lines", "--train", empty)

    def test_bad_lines_may_be_skipped_by_every_worker_and_in_train_and_test(self):
        bad = self.file("bad.svm", GOOD * 30 + b"oops\n" + GOOD * 30 + b"oops\n")
        self.fails("may be skipped", "--train", bad, "--skip-bad", 1, "--threads", 4)
        self.assertEqual(self.lr("--train", bad, "--skip-bad", 1, "--workers", 2, *FEW_PASSES).code, 0)
        test, out = self.file("test.svm", GOOD * 10 + b"oops\n"), self.path("out.json")
        done = self.lr("--train", bad, "--test", test, "--skip-bad", 2, "--threads", 4, "--json", out, *FEW_PASSES)
        self.assertEqual(done.code, 0)
        self.assertEqual([testing.read_json(out)[name] for name in ("bad_lines", "test_bad_lines")], [2, 1])
        self.assertRegex(done.out, r"left out +2 bad lines; the first: .*bad\.svm:61:1: ")
        self.assertRegex(done.out, r"left out +1 bad line; the first: .*test\.svm:21:1: ")

    def test_a_bad_line_is_named_whichever_worker_left_it_out(self):
        good, bad = self.file("good.svm", GOOD * 30), self.file("bad.svm", GOOD * 30 + b"oops\n")
        for files in ((good, bad), (bad, good)):
            done = self.lr("--train", *files, "--skip-bad", 1, "--workers", 2, *FEW_PASSES)
            self.assertRegex(done.out, r"left out +1 bad line; the first: .*bad\.svm:61:1: ")

    def test_test_files_of_nothing_but_bad_lines_say_so(self):
        good, bad = self.file("good.svm", GOOD * 30), self.file("bad.svm", b"oops\n" * 3)
        self.fails(r"no examples.*3 bad lines were left out.*bad\.svm:1:1: ", "--train", good, "--test", bad, "--skip-bad", 3)
        self.assertIn("up to N bad lines of its share of the --train files", " ".join(self.lr("--help").out.split()))

    def test_how_close_it_is_to_the_optimum_is_a_percentage(self):
        train, out = testing.write(self.path("train.svm"), testing.dense()), self.path("out.json")
        done = self.lr("--train", train, "--json", out)
        found = re.search(r"\(proven within (\S+) % of the optimum\)", done.out)
        self.assertTrue(found, done.out)
        self.assertAlmostEqual(float(found[1]) / 100, testing.read_json(out)["gap"], delta=float(found[1]) * 1e-3)
        self.assertRegex(done.err, r"gap \S+ %")

    def test_a_bound_that_says_nothing_is_not_shown_as_a_proof(self):
        train, out = testing.write(self.path("train.svm"), testing.text_like()), self.path("out.json")
        done = self.lr("--train", train, "--l1", 0.01, "--passes", 1, "--json", out)
        self.assertGreater(testing.read_json(out)["gap"], 0.1)
        self.assertIn("(the distance to the optimum is not proven)", done.out)
        self.assertNotIn("gap", done.err)

    def test_more_servers_than_ranks(self):
        with testing.Ranks(self.folder, [self.WEIR, "lr", "--train", self.file("ok.svm"), "--servers", "2"], 2) as job:
            job.start_all()
            self.assertEqual([job.wait(rank) for rank in range(2)], [2, 2], job.everything())
            for rank in range(2):
                self.assertIn("--servers 2 needs at least 3 ranks, but the job has 2", job.err(rank))

    def test_a_rank_that_never_shows_up_is_named(self):
        def test(join_timeout_s):
            command = [self.WEIR, "lr", "--train", self.file("ok.svm"), "--servers", "2"]
            with testing.Ranks(self.folder, command, 4, {"WEIR_JOIN_TIMEOUT_S": join_timeout_s}) as job:
                for rank in (0, 1, 3):
                    job.start(rank)
                for rank in (0, 1, 3):
                    self.assertEqual(job.wait(rank), 1, job.everything())
                    self.assertIn("rank 2 of 4", job.err(rank))

        testing.patiently(test)

    def test_ranks_that_disagree_on_the_job_end_with_a_word(self):
        def test(join_timeout_s):
            with testing.Ranks(self.folder, [self.WEIR, "lr", "--train", self.file("ok.svm")], 4, {"WEIR_JOIN_TIMEOUT_S": join_timeout_s}) as job:
                for rank in range(4):
                    job.start(rank, flags=("--servers", "1" if rank == 3 else "2"))
                for rank in range(4):
                    self.assertEqual(job.wait(rank), 1, job.everything())
                    self.assertIn("rank 3", job.err(rank))

        testing.patiently(test)

    def test_a_file_that_is_missing_on_one_rank_is_named_there_and_the_rank_by_the_others(self):
        good = self.file("ok.svm")
        with testing.Ranks(self.folder, [self.WEIR, "lr", "--servers", "2"], 4) as job:
            for rank in range(4):
                job.start(rank, flags=("--train", self.path("missing.svm") if rank == 3 else good))
            for rank in range(4):
                self.assertEqual(job.wait(rank), 1, job.everything())
            self.assertIn("missing.svm: no such file", job.err(3))
            self.assertRegex(job.err(2), r"error: .*worker 1 \(rank 3\) gave up: .*missing\.svm: no such file")
            self.assertNotIn("is lost", job.err(0))

    def test_a_wrong_secret_on_one_rank_is_told_to_it(self):
        secrets = [self.file(name, name[-1].encode() * 32) for name in ("secret-a", "secret-b")]
        for secret in secrets:
            os.chmod(secret, 0o600)

        def test(join_timeout_s):
            with testing.Ranks(self.folder, [self.WEIR, "lr", "--train", self.file("ok.svm")], 3, {"WEIR_JOIN_TIMEOUT_S": join_timeout_s}) as job:
                for rank in range(3):
                    job.start(rank, {"WEIR_SECRET_FILE": secrets[rank == 2]})
                for rank in range(3):
                    self.assertEqual(job.wait(rank), 1, job.everything())
                self.assertIn("WEIR_SECRET_FILE", job.err(2))
                self.assertIn("rank 2 of 3", job.err(0))

        testing.patiently(test)

    def test_a_port_in_use_is_named(self):
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            held.listen()
            port = held.getsockname()[1]
            self.fails(f"127.0.0.1:{port}: the port is in use", "--train", self.file("ok.svm"), "--rank", 0, "--size", 2, "--rendezvous",
                       f"127.0.0.1:{port}", WEIR_JOIN_TIMEOUT_S="2")

    def test_ranks_by_hand_that_do_not_know_where_to_meet(self):
        train = self.file("ok.svm")
        self.fails("--rendezvous", "--train", train, "--rank", 0, "--size", 2)
        for alone in ({"WEIR_RANK": "0"}, {}):
            done = self.fails("RANK=0|--rank=0.*--size N", "--train", train, *(() if alone else ("--rank", 0)), **alone)
            self.assertEqual(done.code, 2)
        self.fails("'nowhere'", "--train", train, "--rank", 0, "--size", 2, "--rendezvous", "nowhere")
        self.fails("--rank=3: ranks of a job of 2 are 0 to 1", "--train", train, "--rank", 3, "--size", 2, "--rendezvous", "127.0.0.1:7777")

    def test_two_jobs_on_one_host_do_not_mix(self):
        data = {"dense": testing.dense(), "text": testing.text_like()}
        found = {}

        def train(name):
            folder = self.folder / name
            folder.mkdir()
            out = str(folder / "out.json")
            command = [self.WEIR, "lr", "--train", testing.write(folder / "train.svm", data[name]), "--servers", "1", "--json", out]
            with testing.Ranks(folder, command, 3) as job:
                job.start_all()
                codes = [job.wait(rank) for rank in range(3)]
                found[name] = testing.read_json(out) if codes == [0, 0, 0] else job.everything()

        threads = [threading.Thread(target=train, args=(name,)) for name in data]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for name, rows in data.items():
            self.assertIsInstance(found[name], dict, found[name])
            self.assertEqual(found[name]["examples"], len(rows))
            self.near(found[name]["objective"], testing.solve(rows, 1))


if __name__ == "__main__":
    testing.main(testing.Folder, "__main__")
