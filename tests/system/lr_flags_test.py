#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the flags of `weir lr` and `weir predict` promise, and signals. Usage: lr_flags_test.py PATH-OF-WEIR"""

import glob
import gzip
import json
import math
import os
import re
import signal
import subprocess
import time
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path

import lr_testing as testing
from stopping import stop

SHAPES = ((), ("--workers", 3, "--servers", 2))


class Flags(testing.Folder, unittest.TestCase):
    def weir(self, *arguments, stdin=None, **variables):
        done = subprocess.run([self.WEIR, *map(str, arguments)], input=stdin, capture_output=True, timeout=testing.LIMIT_S, check=False,
                              env=testing.clean_environment({**testing.POOL, **variables}))
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def good(self, *arguments, **more):
        code, out, err = self.weir(*arguments, **more)
        self.assertEqual(code, 0, err)
        return out, err

    def refused(self, words, *arguments, **more):
        code, _, err = self.weir(*arguments, **more)
        self.assertEqual(code, 2, err)
        self.assertIn(words, err.splitlines()[0])

    def data(self, name="train.svm", rows=None):
        return testing.write(self.path(name), rows or testing.dense())


class Init(Flags):
    def test_a_model_to_start_from_saves_passes_and_the_optimum_and_its_proof_stay(self):
        rows, model, out = testing.text_like(), self.path("model"), self.path("out.json")
        train, tight = self.data(rows=rows), ("--l1", 0.3, "--tolerance", 1e-5)
        self.good("lr", "--train", train, *tight, "--model", model, "--json", out)
        first, weights = testing.read_json(out), testing.read_model(model)
        for shape in SHAPES:
            again = self.path("again.json")
            self.good("lr", "--train", train, *tight, "--init", model, "--json", again, *shape)
            result = testing.read_json(again)
            self.assertLess(result["passes"], first["passes"])
            self.assertLessEqual(result["history"][0]["objective"], first["objective"] * (1 + 1e-9))
            self.near(result["objective"], first["objective"])
            # The proof holds against a bound computed elsewhere.
            self.assertGreaterEqual(result["objective"] * (1 + 1e-12), testing.bound(rows, weights, 0.3))
            self.assertLessEqual(result["gap"], 1e-5)
            self.good("lr", "--train", train, "--l1", 0.6, "--init", model, "--json", again, *shape)
            self.near(testing.read_json(again)["objective"], testing.solve(rows, 0.6))

    def test_a_model_that_is_worse_than_none_does_no_harm(self):
        rows, model, out = testing.dense(), self.path("model"), self.path("out.json")
        Path(model).write_text("".join(f"{f} {(-1) ** f * 1e6}\n" for f in range(1, 9)), encoding="ascii")
        for shape in SHAPES:
            self.good("lr", "--train", self.data(rows=rows), "--init", model, "--json", out, *shape)
            self.near(testing.read_json(out)["objective"], testing.solve(rows, 1))

    def test_features_that_no_line_has_are_left_out_with_a_word_and_bad_models_are_named(self):
        model, out = self.path("model"), self.path("out.json")
        Path(model).write_text("1 0.5\n77 3\n78 4\n", encoding="ascii")
        for shape in SHAPES:
            _, err = self.good("lr", "--train", self.data(), "--init", model, "--model", self.path("next"), "--json", out, *shape)
            self.assertIn("warning: the model to start from: 2 of 3 features are in no training line; their weights were left out", err)
            self.assertNotIn(77, testing.read_model(self.path("next")))
        Path(model).write_text("1 x\n", encoding="ascii")
        for path, words in ((model, ":1: expected a finite number as weight"), (self.path("none"), "cannot be opened")):
            code, _, err = self.weir("lr", "--train", self.data(), "--init", path, "--workers", 2)
            self.assertEqual(code, 1)
            self.assertIn(f"model {path}{words if words[0] == ':' else ': ' + words}", err)

    def test_ranks_with_different_models_are_told(self):
        for name, weight in (("a", 1), ("b", 2)):
            Path(self.path(name)).write_text(f"1 {weight}\n", encoding="ascii")
        with testing.Ranks(self.folder, [self.WEIR, "lr", "--train", self.data()], 3) as job:
            for rank in range(3):
                job.start(rank, flags=("--init", self.path("ab"[rank == 2])))
            self.assertEqual([job.wait(rank) for rank in (1, 2)], [2, 2], job.everything())
            self.assertIn("different options (init)", job.err(1))


class Streams(Flags):
    def test_training_data_come_from_standard_input_piped_packed_or_as_a_file(self):
        rows = testing.dense()
        text = Path(self.data(rows=rows)).read_bytes()
        wanted = testing.solve(rows, 1)
        for shape in (*SHAPES, ("--threads", 3)):
            for stdin in (text, gzip.compress(text)):
                out, err = self.good("lr", "--train", "-", "--json", "-", *shape, stdin=stdin)
                self.near(json.loads(out)["objective"], wanted)
                self.assertIn("objective", err)
        with open(self.path("train.svm"), "rb") as file:
            done = subprocess.run([self.WEIR, "lr", "--train", "-", "--json", "-"], stdin=file, capture_output=True, check=True, timeout=60,
                                  env=testing.clean_environment(testing.POOL))
        self.assertEqual(json.loads(done.stdout)["examples"], len(rows))

    def test_what_is_wrong_with_standard_input_names_it(self):
        for stdin, words in ((b"+1 1:1\n+1 1:x\n", "standard input:2:6: expected a finite decimal number"), (b"", "standard input is empty"),
                             (b"\xfd7zXZ\x00" + bytes(60), "standard input is xz-compressed; pipe it through xz -dc"),
                             (b"1 1:1\n2 2:1\n" * 20, "standard input: the labels are 1 and 2")):
            for command in (("lr", "--train", "-"), ("predict", "-", "--model", self.model())):
                code, _, err = self.weir(*command, stdin=stdin)
                self.assertNotEqual(code, 0)
                self.assertIn(words, err)

    def model(self):
        Path(self.path("m")).write_text("1 0.5\n3 -2\n", encoding="ascii")
        return self.path("m")

    def test_outputs_go_to_standard_output_one_of_them_and_words_elsewhere(self):
        train = self.data()
        out, err = self.good("lr", "--train", train, "--model", "-")
        self.assertTrue(all(re.fullmatch(r"\d+ -?\d\S*", line) for line in out.splitlines()), out)
        self.assertIn("train           accuracy", err)
        out, _ = self.good("lr", "--train", train, "--plot", "-")
        self.assertTrue(xml.fromstring(out).tag.endswith("svg"))
        for flags in (("--model", "-", "--json", "-"), ("--plot", "-", "--json", "/dev/stdout")):
            self.refused("would both go to standard output", "lr", "--train", train, *flags)
        self.refused("standard input can be read only once", "lr", "--train", "-", "--test", "-")
        self.refused("standard input can be read only once", "predict", "--model", "-", "-")
        self.refused("would both go to standard output", "predict", "--model", self.model(), train, "--json", "-")

    def test_ranks_have_no_standard_input(self):
        with testing.Ranks(self.folder, [self.WEIR, "lr", "--train", "-"], 3) as job:
            job.start_all()
            self.assertEqual([job.wait(rank) for rank in (1, 2)], [2, 2], job.everything())
            self.assertIn("the 3 ranks of this job cannot all read the same standard input", job.err(1))


class Predict(Flags):
    def test_a_line_for_each_example_as_the_model_says(self):
        rows, model = testing.text_like(), self.path("model")
        train = self.data(rows=rows)
        self.good("lr", "--train", train, "--l1", 0.3, "--model", model, "--json", self.path("lr.json"))
        weights = testing.read_model(model)
        scores = [sum(weights.get(f, 0) * v for f, v in row.items()) for _, row in rows]
        for form, wanted in (("score", scores), ("probability", [1 / (1 + math.exp(-s)) for s in scores])):
            out, _ = self.good("predict", "--model", model, train, "--as", form)
            found = [float(line) for line in out.splitlines()]
            self.assertEqual(len(found), len(rows))
            for a, b in zip(found, wanted):
                self.assertAlmostEqual(a, b, delta=1e-4)
        out, _ = self.good("predict", "--model", model, "--as", "label", "-", stdin=gzip.compress(Path(train).read_bytes()))
        self.assertEqual(out.split(), ["+1" if score > 0 else "-1" for score in scores])
        self.good("predict", "--model", model, train, train, "--out", self.path("out"), "--json", self.path("p.json"))
        self.assertEqual(len(Path(self.path("out")).read_text(encoding="ascii").splitlines()), 2 * len(rows))
        result, trained = testing.read_json(self.path("p.json")), testing.read_json(self.path("lr.json"))
        self.assertEqual((result["examples"], result["labelled_examples"]), (2 * len(rows), 2 * len(rows)))
        for name in ("accuracy", "auc", "log_loss"):
            self.assertAlmostEqual(result[name], trained[f"train_{name}"], delta=1e-4)

    def test_lines_without_labels_have_predictions_and_no_metrics(self):
        Path(self.path("m")).write_text("1 0.5\n3 -2\n", encoding="ascii")
        out, _ = self.good("predict", "--model", self.path("m"), "-", "--as", "score", "--json", self.path("j"), stdin=b"1:2 3:1\n  3:2\n\n# no\n9:1\n")
        self.assertEqual([float(line) for line in out.split()], [-1, -4, 0])
        result = testing.read_json(self.path("j"))
        self.assertEqual((result["examples"], result["labelled_examples"], result["accuracy"], result["auc"]), (3, 0, None, None))
        out, err = self.good("predict", "--model", self.path("m"), "-", stdin=b"+1 1:2\n3:1\n-1 3:1\n")
        self.assertIn("with labels     accuracy 1.0000  AUC 1.0000", err)
        self.assertIn("(2 examples)", err)

    def test_labels_bad_lines_and_warnings_are_as_in_training(self):
        model = self.path("m")
        Path(model).write_text("1 0.5\n3 -2\n", encoding="ascii")
        out, _ = self.good("predict", "--model", model, "-", "--as", "label", "--labels", "1:-1,2:+1", stdin=b"2 1:2\n1 3:1\n")
        self.assertEqual(out.split(), ["2", "1"])
        bad = b"+1 1:1\n+1 1:x\n+1 3:1\n"
        code, _, err = self.weir("predict", "--model", model, "-", stdin=bad)
        self.assertEqual(code, 1)
        self.assertIn("standard input:2:6: expected a finite decimal number", err)
        out, err = self.good("predict", "--model", model, "-", "--skip-bad", 1, stdin=bad)
        self.assertEqual(len(out.split()), 2)
        self.assertRegex(err, "left out +1 bad line; the first: standard input:2:6")
        kept = Path(self.path("kept"))
        kept.write_text("before", encoding="ascii")
        self.weir("predict", "--model", model, "-", "--out", kept, stdin=bad)
        self.assertEqual(kept.read_text(encoding="ascii"), "before")
        _, err = self.good("predict", "--model", model, "-", stdin=b"+1 7:1\n-1 8:1\n")
        self.assertIn("none of the features has a weight", err)
        Path(model).write_text("# nothing\n", encoding="ascii")
        self.assertIn("has no weights", self.good("predict", "--model", model, "-", stdin=b"+1 7:1\n")[1])
        self.refused("nope: must be probability, label or score", "predict", "--model", model, "x", "--as", "nope")
        code, _, err = self.weir("predict", "--model", self.path("none"), "-", stdin=bad)
        self.assertEqual((code, "cannot be opened" in err), (1, True))


class Words(Flags):
    def test_json_has_the_version_the_parameters_and_the_files(self):
        train, out = self.data(), self.path("out.json")
        self.good("lr", "--train", train, "--test", train, "--l1", 0.25, "--passes", 9, "--json", out, "--labels", "-1:-1,1:1")
        result = testing.read_json(out)
        version = self.good("--version")[0].split()[1]
        self.assertEqual((result["version"], result["files"]["train"], result["files"]["test"]), (version, [train], [train]))
        self.assertEqual((result["files"]["json"], result["files"]["model"]), (out, None))
        found = result["parameters"]
        self.assertEqual((found["l1"], found["passes"], found["seed"], found["workers"], found["labels"], found["filters"]),
                         (0.25, 9, 1, 1, "-1:-1,1:+1", "auto"))

    def test_filters_that_are_wrong_are_named_with_what_there_is(self):
        self.refused("error: --filters: filter 'frob': there is none of this name; there are, ", "lr", "--train", "t", "--filters", "frob")
        self.refused("error: --filters: filter 'zeros': it is zeros, not zeros=1", "lr", "--train", "t", "--filters", "zeros=1")
        self.refused("error: --filters: filter 'auto': it is there twice", "lr", "--train", "t", "--filters", "auto,compress")

    def test_variables_give_the_job_its_shape_and_a_flag_counts_more(self):
        train, out = self.data(), self.path("out.json")
        for flags, workers in (((), 3), (("--workers", 2), 2)):
            self.good("lr", "--train", train, "--json", out, *flags, WEIR_SERVERS="2", WEIR_SHARDS="2", WEIR_WORKERS="3")
            result = testing.read_json(out)
            self.assertEqual((result["servers"], result["workers"]), (2, workers))
        self.refused("WEIR_ON_WORKER_LOSS=continue: this command can do stop and reassign", "lr", "--train", train, WEIR_ON_WORKER_LOSS="continue")
        self.refused("WEIR_WORKERS=none: must be a whole number from 1 to 4096", "lr", "--train", train, WEIR_WORKERS="none")

    def test_an_unknown_argument_is_complained_about_first(self):
        for arguments in (("lr", "--frob", 1), ("lr", "--frob", "--l1", "x"), ("lr", "--l1", "x", "--train", "t", "--frob"), ("synth", "--frob"),
                          ("predict", "--frob"), ("bench", "--frob"), ("bench", "push", "--frob", "--seconds", 0)):
            with self.subTest(arguments):
                self.refused("unknown flag --frob", *arguments)
        self.refused("--train is required", "lr")
        self.refused("--model is required", "predict")

    def test_a_flag_without_its_value_is_named(self):
        self.refused("error: --train: a value is missing", "lr", "--train")
        self.refused("error: --l1: a value is missing", "lr", "--train", "t", "--l1")
        self.refused("error: --out: a value is missing", "synth", "--out")

    def test_a_flag_that_is_given_twice_is_named(self):
        for flag, value in (("--replicas", 1), ("--checkpoint", "a"), ("--on-worker-loss", "stop"), ("--checkpoint-every", 5), ("--labels", "1:-1,2:+1")):
            again = ("--checkpoint", "d") if flag == "--checkpoint-every" else ()
            self.refused(f"error: {flag}: it is given more than once; give it once", "lr", "--train", "t", *again, flag, value, flag, value)
        self.refused("error: --out: it is given more than once", "synth", "--out", "a", "-o", "b")
        self.refused("error: --seconds: it is given more than once", "bench", "push", "--seconds", 1, "--seconds", 2)

    def test_what_happens_when_a_worker_dies_has_words_that_depend_on_the_command(self):
        self.refused("--on-worker-loss: foo: must be stop or reassign", "lr", "--train", "t", "--on-worker-loss", "foo")
        self.refused("--on-worker-loss: foo: must be stop or continue", "bench", "push", "--on-worker-loss", "foo")
        self.refused("--on-worker-loss: continue: the model would lack", "lr", "--train", "t", "--on-worker-loss", "continue")
        self.refused("--on-worker-loss: reassign: a benchmark has no data", "bench", "push", "--on-worker-loss", "reassign")
        words = "`weir lr` takes stop and reassign, `weir bench` stop and continue"
        for command in (("lr",), ("bench", "push")):
            self.assertIn(words, " ".join(self.good(*command, "--help")[0].split()))

    def test_flags_without_an_effect_are_named(self):
        train = self.data()
        self.assertIn("warning: --colocate has no effect", self.good("lr", "--train", train, "--colocate", "--workers", 2)[1])
        self.assertIn("warning: --rank and --size have no effect", self.good("lr", "--train", train, "--rank", 0, "--size", 1)[1])
        self.assertNotIn("effect", self.good("lr", "--train", train, "--workers", 2, "--shards", 2, "--servers", 2)[1])

    def test_a_plot_is_an_svg_with_a_name_of_one_and_says_what_it_shows(self):
        train = self.data("mine & yours.svm")
        for name in ("plot.png", "plot.pdf", "plot.svg.gz"):
            self.refused("a plot is written as SVG only; let the name end in .svg", "lr", "--train", train, "--plot", self.path(name))
        for name in ("plot.svg", "plot.SVG", "plot"):
            self.good("lr", "--train", train, "--l1", 0.5, "--plot", self.path(name), "--workers", 2)
            words = [element.text for element in xml.parse(self.path(name)).getroot().iter() if element.tag.endswith("text")]
            self.assertIn("mine & yours.svm, l1 = 0.5, 1 rank: 1 server, 2 workers", words)
            self.assertIn("objective \u2212 best", words)

    def test_more_threads_than_the_processors_get_round_to_are_refused_at_once(self):
        cpus = len(os.sched_getaffinity(0))
        for flags in (("--shards", 1000), ("--workers", 1000), ("--servers", 50 * cpus, "--shards", 2)):
            if 100 * cpus > 1000:
                self.skipTest("so many processors do get round to 1,000 threads")
            start = time.monotonic()
            self.refused(f"are more than 100 for each of its {cpus} CPUs", "lr", "--train", self.data(), *flags)
            self.assertLess(time.monotonic() - start, 30)  # it does not try


AGAIN = {"SIGINT": "a second SIGINT ends", "SIGTERM": "another SIGTERM after a second ends"}


class Signals(Flags):
    """SIGINT and SIGTERM end the training after a pass, on all ranks."""

    def started(self, *flags, behind=()):
        train = self.data(rows=testing.endless())
        process = subprocess.Popen([*behind, self.WEIR, "lr", "--train", train, *testing.ENDLESS, *map(str, flags)], stderr=subprocess.PIPE,
                                   stdout=subprocess.PIPE, env=testing.clean_environment(testing.POOL))
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertIn(b"pass ", process.stderr.readline())
        return process

    def test_what_there_is_is_written_and_the_exit_code_says_why(self):
        for name, code in (("SIGINT", 130), ("SIGTERM", 143)):
            for shape in SHAPES:
                with self.subTest(name=name, shape=shape):
                    model, out, plot = (self.path(word) for word in ("model", "out.json", "plot.svg"))
                    process = self.started("--model", model, "--json", out, "--plot", plot, *shape)
                    process.send_signal(getattr(signal, name))
                    words, err = process.communicate(timeout=testing.LIMIT_S)
                    self.assertEqual(process.returncode, code, err)
                    result = testing.read_json(out)
                    self.assertRegex(err.decode(), f"weir: {name} received: a training that has begun ends after this pass, and the results so far are written; {AGAIN[name]} the process at once")
                    self.assertIn(f"weir: stopped by {name}: the training ended after pass {result['passes']}; the results so far are written", err.decode())
                    self.assertNotIn("error", err.decode())
                    self.assertEqual(result["ended_because"], f"stopped by {name}")
                    self.assertIn(f"stopped by {name}", words.decode())
                    self.assertGreater(len(testing.read_model(model)), 0)
                    for path in (model, out, plot):
                        os.unlink(path)

    def test_a_file_that_cannot_be_written_after_a_signal_is_an_error_of_its_own(self):
        process = self.started("--model", "/dev/full")
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=testing.LIMIT_S)
        self.assertEqual(process.returncode, 1, err)
        self.assertIn("/dev/full", err.decode())
        self.assertNotIn("stopped by", err.decode())

    def test_a_signal_that_comes_twice_at_once_is_one(self):
        """As timeout(1) sends it on: to its child, and then to their group."""
        for name, code in (("SIGINT", 130), ("SIGTERM", 143)):
            for round_ in range(5):
                with self.subTest(name=name, round=round_):
                    model = self.path(f"{name}{round_}")
                    process = self.started("--model", model, behind=("timeout", "1000"))
                    process.send_signal(getattr(signal, name))
                    _, err = process.communicate(timeout=testing.LIMIT_S)
                    self.assertEqual(process.returncode, code, err)
                    self.assertGreater(len(testing.read_model(model)), 0)

    def test_a_signal_behind_the_other_one_is_not_the_second_one(self):
        """Ctrl-C reaches a whole group, of which one process may send the others SIGTERM."""
        for first, second in ((signal.SIGINT, signal.SIGTERM), (signal.SIGTERM, signal.SIGINT)):
            with self.subTest(first=first):
                process = self.started("--model", self.path("model"))
                process.send_signal(first)
                process.send_signal(second)
                _, err = process.communicate(timeout=testing.LIMIT_S)
                self.assertIn(process.returncode, (130, 143), err)  # the kernel may deliver either one first
                self.assertGreater(len(testing.read_model(self.path("model"))), 0)

    @staticmethod
    def send_twice(pid, number):
        os.kill(pid, number)
        time.sleep(1.2 if number == signal.SIGTERM else 0.3)
        os.kill(pid, number)

    def test_the_same_signal_again_ends_it_at_once(self):
        command = [self.WEIR, "lr", "--servers", "1", "--train", self.data(rows=testing.endless()), *testing.ENDLESS]
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number=number), testing.Ranks(self.folder, command, 2) as job:
                job.start_all()
                self.assertTrue(job.until_training(), job.everything())
                stop(job.pid(0))  # so that the pass does not end
                self.send_twice(job.pid(1), number)
                self.assertEqual(job.wait(1), -number, job.everything())
                os.kill(job.pid(0), signal.SIGCONT)

    def test_a_signal_ends_all_ranks_together_and_one_of_them_says_so_once(self):
        out, train = self.path("out.json"), self.data(rows=testing.endless())
        for victims in ((2,), (3,), (0, 1, 2, 3)):  # one of the two workers; everybody, as a launcher does
            command = [self.WEIR, "lr", "--servers", "2", "--train", train, "--json", out, *testing.ENDLESS]
            with testing.Ranks(self.folder, command, 4) as job:
                job.start_all()
                self.assertTrue(job.until_training(), job.everything())
                for rank in victims:
                    os.kill(job.pid(rank), signal.SIGTERM)
                self.assertEqual([job.wait(rank) for rank in range(4)], [143] * 4, job.everything())
                said = {rank: job.err(rank).count("stopped by SIGTERM: the training ended after pass") for rank in range(4)}
                self.assertEqual(said, {0: 0, 1: 0, 2: 1, 3: 0}, job.everything())
                for rank in range(4):
                    self.assertNotIn("error", job.err(rank), job.everything())
            self.assertEqual(testing.read_json(out)["ended_because"], "stopped by SIGTERM")
            os.unlink(out)

    def test_a_server_that_alone_gets_a_signal_leaves_and_the_training_goes_on(self):
        out, train = self.path("out.json"), self.data(rows=testing.endless())
        command = [self.WEIR, "lr", "--servers", "3", "--train", train, "--json", out, *testing.ENDLESS]
        for name, code in (("SIGTERM", 143), ("SIGINT", 130)):
            with testing.Ranks(self.folder, command, 4) as job:
                job.start_all()
                self.assertTrue(job.until_training(), job.everything())
                os.kill(job.pid(1), getattr(signal, name))
                self.assertEqual(job.wait(1), 0, job.everything())
                self.assertIn("this server hands over what it holds, and ends", job.err(1))
                self.assertTrue(job.trains_on(3), job.everything())
                os.kill(job.pid(0), getattr(signal, name))  # the manager is there: it stays, and so does everybody
                os.kill(job.pid(2), getattr(signal, name))
                time.sleep(2)
                self.assertEqual([job.processes[rank].poll() for rank in (0, 2, 3)], [None] * 3, job.everything())
                stays = f"{name} received: rank 0 has the manager, and serves until the workers have ended; {AGAIN[name]}"
                self.assertEqual([job.err(rank).count(stays) for rank in (0, 2)], [1, 0], job.everything())
                os.kill(job.pid(3), getattr(signal, name))
                self.assertEqual([job.wait(rank) for rank in (0, 2, 3)], [code] * 3, job.everything())
                for rank in range(4):
                    self.assertNotIn("error", job.err(rank), job.everything())
                self.assertNotIn("hands over", job.err(2), job.everything())
            self.assertEqual(testing.read_json(out)["ended_because"], f"stopped by {name}")

    def test_the_same_signal_again_ends_a_server_at_once(self):
        command = [self.WEIR, "lr", "--servers", "2", "--train", self.data(rows=testing.endless()), *testing.ENDLESS]
        with testing.Ranks(self.folder, command, 3) as job:
            job.start_all()
            self.assertTrue(job.until_training(), job.everything())
            stop(job.pid(0))  # so that nobody takes what it holds
            try:
                self.send_twice(job.pid(1), signal.SIGTERM)
                self.assertEqual(job.wait(1), -signal.SIGTERM)
            finally:
                os.kill(job.pid(0), signal.SIGCONT)

    @staticmethod
    def has_open(pid, path):
        for descriptor in glob.glob(f"/proc/{pid}/fd/*"):
            try:
                if os.readlink(descriptor) == path:
                    return True
            except FileNotFoundError:
                pass  # the process closed it since the folder was listed
        return False

    def readers(self, job, path):
        """The ranks of the job that have the file open."""
        return [rank for rank in range(3) if self.has_open(job.pid(rank), path)]

    def test_a_signal_while_one_rank_reads_stops_all_of_them(self):
        """Only that rank gets the signal: the others learn from the manager what ended the job, and which signal it was."""
        big, small = self.path("big.svm.gz"), self.data()  # only one worker can read a gzip file
        with gzip.open(big, "wb", compresslevel=1) as out:
            out.write(b"+1 1:1 2:1 3:1\n-1 2:1 4:1 5:1\n" * 3_000_000)
        for name, code in (("SIGINT", 130), ("SIGTERM", 143)):
            command = [self.WEIR, "lr", "--servers", "1", "--train", small, big, "--model", self.path("model")]
            with testing.Ranks(self.folder, command, 3) as job:
                job.start_all()
                self.assertTrue(job.until(lambda job=job: self.readers(job, big)), job.everything())
                os.kill(job.pid(self.readers(job, big)[0]), getattr(signal, name))
                self.assertEqual([job.wait(rank) for rank in range(3)], [code] * 3, job.everything())
                said = [job.err(rank).count(f"stopped by {name}: the training files were being read; nothing is written") for rank in range(3)]
                self.assertEqual(said, [0, 1, 0], job.everything())
                self.assertFalse(os.path.exists(self.path("model")))

    def test_an_ignored_signal_stays_ignored(self):
        command = ["sh", "-c", 'trap "" INT; exec "$0" "$@"', self.WEIR, "lr", "--train", self.data(rows=testing.endless()), *testing.ENDLESS]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, env=testing.clean_environment(testing.POOL))
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertIn(b"pass ", process.stderr.readline())
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        self.assertEqual((process.communicate(timeout=testing.LIMIT_S), process.returncode)[1], 143)


if __name__ == "__main__":
    testing.main(testing.Folder, "__main__")
