#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`weir lr --solver ftrl --stream` and its models. Usage: lr_stream_test.py PATH-OF-WEIR"""

import gzip
import math
import os
import random
import signal
import subprocess
import unittest
from pathlib import Path

import lr_testing as testing

FTRL = ("--solver", "ftrl")
# So many times the same examples that a training can be disturbed before it ends.
MANY = 60
SLOW = ("--batch", "4")
END_S = 200  # how long such a training may take on a busy machine


def lines(rows):
    return "".join(f"{label} {' '.join(f'{f}:{v}' for f, v in row.items())}\n" for label, row in rows)


def ftrl_alone(rows, batch, alpha=0.1, beta=1.0, l1=1.0):
    """The mean progressive log loss, and the weights: each mini-batch is predicted with the weights before the last one."""
    weights, z, n, total, late = {}, {}, {}, 0.0, None
    for begin in range(0, len(rows), batch):
        gradient = {}
        for label, row in rows[begin:begin + batch]:
            score = label * sum(weights.get(f, 0) * v for f, v in row.items())
            total += testing.loss(score)
            for f, v in row.items():
                gradient[f] = gradient.get(f, 0) - label * v / (1 + math.exp(score))
        for f, g in (late or {}).items():
            old = n.get(f, 0)
            z[f] = z.get(f, 0) + g - (math.sqrt(old + g * g) - math.sqrt(old)) / alpha * weights.get(f, 0)
            n[f] = old + g * g
            weights[f] = 0 if abs(z[f]) <= l1 else -(z[f] - math.copysign(l1, z[f])) / ((beta + math.sqrt(n[f])) / alpha)
        late = gradient
    return total / len(rows)


def classes(examples=4000, features=30, count=4):
    dice = random.Random(testing.seed() + 5)
    weights = [[dice.gauss(0, 1) for _ in range(features)] for _ in range(count)]
    rows = []
    for _ in range(examples):
        row = {dice.randrange(features): round(dice.gauss(0, 1), 3) for _ in range(6)}
        scores = [sum(of_class[f] * v for f, v in row.items()) for of_class in weights]
        rows.append((3 + scores.index(max(scores)), row))
    return rows


def numbers(examples=4000, features=30):
    dice = random.Random(testing.seed() + 6)
    weights = [dice.gauss(0, 1) for _ in range(features)]
    rows = []
    for _ in range(examples):
        row = {dice.randrange(features): round(dice.gauss(0, 1), 3) for _ in range(6)}
        rows.append((round(sum(weights[f] * v for f, v in row.items()), 3), row))
    return rows


def read_wide_model(path):
    head, *rest = Path(path).read_text(encoding="ascii").splitlines()
    return head, {int(line.split()[0]): [float(w) for w in line.split()[1:]] for line in rest}


class LrStream(testing.Folder, unittest.TestCase):
    def file(self, name, text):
        data = gzip.compress(text.encode()) if name.endswith(".gz") else text.encode()
        (self.folder / name).write_bytes(data)
        return self.path(name)

    def clicks(self, examples=20000):
        done = testing.run([self.WEIR, "synth", "--out", self.path("click.svm"), "--examples", str(examples), "--features", str(examples)],
                           testing.clean_environment({}), testing.LIMIT_S)
        self.assertEqual(done.code, 0, done.err)
        return self.path("click.svm")

    def learn(self, *flags, **variables):
        out = self.path("learned.json")
        done = self.lr(*FTRL, "--json", out, *flags, **variables)
        self.assertEqual(done.code, 0, done.err)
        return testing.read_json(out)

    def predict(self, *flags):
        return testing.run([self.WEIR, "predict", *flags], testing.clean_environment({}), testing.LIMIT_S)

    def fails(self, *flags, code=1, says=()):
        done = self.lr(*flags)
        self.assertEqual(done.code, code, done.err)
        for text in says:
            self.assertIn(text, done.err)

    def test_one_worker_takes_the_steps_of_ftrl_and_says_the_loss_before_them(self):
        rows = testing.dense(2000)
        stream = self.file("a.svm", lines(rows))
        result = self.learn("--stream", stream, "--batch", "4", "--model", self.path("m.txt"))
        self.assertAlmostEqual(result["loss"], ftrl_alone(rows, 4), places=3)
        values = sum(value != 0 for _, row in rows for value in row.values())
        self.assertEqual((result["examples"], result["values"], result["bad_lines"]), (2000, values, 0))
        self.assertEqual(result["nonzeros"], len(testing.read_model(self.path("m.txt"))))
        self.assertTrue(0.5 < result["auc"] < 1, result["auc"])
        self.assertEqual(result["ended_because"], "the stream is at its end")

    def test_several_workers_learn_a_click_log_about_as_well_as_one(self):
        stream = self.clicks()
        losses = [self.learn("--stream", stream, "--workers", str(workers))["loss"] for workers in (1, 2, 4)]
        for loss in losses:
            self.assertLess(abs(loss / losses[0] - 1), 0.01, losses)
        self.assertLess(losses[0], 0.6)

    def test_other_solvers_learn_too(self):
        stream = self.clicks()
        for solver in ("adagrad", "adam"):
            done = self.lr("--solver", solver, "--stream", stream, "--json", self.path("o.json"))
            self.assertEqual(done.code, 0, done.err)
            self.assertLess(testing.read_json(self.path("o.json"))["loss"], math.log(2))

    def test_files_plain_or_packed_are_read_once_by_all_workers_together(self):
        rows = testing.text_like(3000)
        text = lines(rows)
        some = [self.file("a.svm", text), self.file("b.svm.gz", text), self.file("c.svm", text.rstrip("\n"))]
        many = [self.file(f"{i}.gz", lines(rows[i::20])) for i in range(20)]
        for workers in ("1", "3"):
            self.assertEqual(self.learn("--stream", *some, "--workers", workers)["examples"], 9000)
            self.assertEqual(self.learn("--stream", *many, "--workers", workers)["examples"], 3000)

    def test_a_pipe_is_learned_from_as_it_comes_and_a_signal_writes_what_there_is(self):
        rows = testing.dense(3000)
        words = [self.WEIR, "lr", *FTRL, "--stream", "-", "--model", self.path("m.txt"), "--plot", self.path("p.svg")]
        terminal = testing.Terminal(self.folder / "err")
        with terminal as err, subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err,
                                               env=testing.clean_environment(testing.POOL)) as process:
            self.addCleanup(process.kill)
            process.stdin.write(lines(rows).encode())
            process.stdin.flush()  # and it stays open
            waiting = testing.Ranks.until
            self.assertTrue(waiting(self, lambda: "3000 examples" in (self.folder / "err").read_text()),
                            (self.folder / "err").read_text())
            process.send_signal(signal.SIGINT)
            out = process.stdout.read().decode()
            self.assertEqual(process.wait(testing.LIMIT_S), 130, out)
        terminal.thread.join()
        self.assertIn("(3000 examples)", out)
        self.assertIn("the training ended after 3000 examples; the results so far are written", (self.folder / "err").read_text())
        self.assertEqual(len(testing.read_model(self.path("m.txt"))), 8)
        self.assertIn("progressive log loss", (self.folder / "p.svg").read_text())

    def test_standard_input_is_for_one_worker(self):
        done = testing.run([self.WEIR, "lr", *FTRL, "--stream", "-", "--workers", "2"], testing.clean_environment(testing.POOL),
                           testing.LIMIT_S)
        self.assertEqual(done.code, 2, done.err)
        self.assertIn("standard input", done.err)

    def test_a_softmax_tells_classes_and_predict_follows(self):
        rows = classes()
        stream = self.file("c.svm", lines(rows))
        result = self.learn("--stream", stream, "--loss", "softmax", "--classes", "3-6", "--l1", "0", "--model", self.path("m.txt"))
        self.assertGreater(result["accuracy"], 0.8)
        self.assertIsNone(result["auc"])
        head, model = read_wide_model(self.path("m.txt"))
        self.assertEqual(head, "weir-model 2 softmax 3-6")
        wanted = []
        for _, row in rows:
            scores = [sum(model[f][k] * v for f, v in row.items() if f in model) for k in range(4)]
            wanted.append(3 + scores.index(max(scores)))
        told = self.predict("--model", self.path("m.txt"), stream, "--as", "label", "--json", self.path("p.json"))
        self.assertEqual(told.code, 0, told.err)
        self.assertEqual([int(word) for word in told.out.split()], wanted)
        right = sum(label == told_label for (label, _), told_label in zip(rows, wanted))
        self.assertAlmostEqual(testing.read_json(self.path("p.json"))["accuracy"], right / len(rows), places=6)
        told = self.predict("--model", self.path("m.txt"), stream)
        for line in told.out.splitlines()[:20]:
            self.assertAlmostEqual(sum(map(float, line.split())), 1, places=6)

    def test_a_squared_loss_learns_numbers_and_predict_follows(self):
        rows = numbers()
        stream = self.file("n.svm", lines(rows))
        result = self.learn("--stream", stream, stream, stream, stream, "--loss", "squared", "--l1", "0", "--alpha", "0.5",
                            "--model", self.path("m.txt"))
        self.assertEqual((result["accuracy"], result["auc"]), (None, None))
        head, model = read_wide_model(self.path("m.txt"))
        self.assertEqual(head, "weir-model 2 squared")
        told = self.predict("--model", self.path("m.txt"), stream, "--json", self.path("p.json"))
        self.assertEqual(told.code, 0, told.err)
        error = 0
        for (label, row), score in zip(rows, map(float, told.out.split())):
            self.assertAlmostEqual(score, sum(model[f][0] * v for f, v in row.items() if f in model), places=6)
            error += (score - label) ** 2
        self.assertAlmostEqual(testing.read_json(self.path("p.json"))["squared_error"], error / len(rows), places=5)
        self.assertLess(error / len(rows), 0.1)
        done = self.predict("--model", self.path("m.txt"), stream, "--as", "label")
        self.assertEqual(done.code, 2)
        self.assertIn("which has no classes; take --as score", done.err)
        done = self.lr("--train", self.file("t.svm", "+1 1:1\n-1 2:1\n"), "--init", self.path("m.txt"))
        self.assertEqual(done.code, 2)
        self.assertIn("a model of the squared loss", done.err)

    def test_bad_lines_are_counted_named_and_bounded(self):
        rows = lines(testing.dense(50))
        stream = self.file("b.svm", rows + "+1 x:1\n" + rows + "-1 3\n" + rows)
        self.fails(*FTRL, "--stream", stream, says=("b.svm:51:4: expected a feature number", "--skip-bad 1"))
        self.fails(*FTRL, "--stream", stream, "--skip-bad", "1", says=("b.svm:102:5", "bad line number 2, and 1 may be skipped"))
        done = self.lr(*FTRL, "--stream", stream, "--skip-bad", "2", "--json", self.path("o.json"))
        self.assertEqual(done.code, 0, done.err)
        self.assertIn("a bad line is left out: " + stream + ":51:4", done.err)
        self.assertRegex(done.out, r"left out +2 bad lines; one of them: .*b.svm:51:4")
        result = testing.read_json(self.path("o.json"))
        self.assertEqual((result["examples"], result["bad_lines"]), (150, 2))

    def test_what_one_worker_cannot_read_ends_all(self):
        rows = lines(testing.dense(2000))
        stream = self.file("b.svm", rows + "+1 x:1\n")
        self.fails(*FTRL, "--stream", stream, "--workers", "3", says=("b.svm:2001:4: expected a feature number",))

    def test_labels_that_do_not_fit_the_loss_are_named(self):
        stream = self.file("c.svm", lines(classes(100)))
        self.fails(*FTRL, "--stream", stream, says=("c.svm: the labels are 3, 4, 5 and 6", "a softmax has as many as there are labels"))
        softmax = (*FTRL, "--loss", "softmax", "--stream", stream)
        self.fails(*softmax, "--classes", "3-5", says=("expected a label of one of the classes, found '6', which --classes 3-5 does not name",))
        self.fails(*softmax, code=2, says=("--classes, the labels of the softmax",))
        self.fails(*softmax, "--classes", "3", code=2, says=("there must be two at least",))
        self.fails(*FTRL, "--loss", "squared", "--stream", self.file("w.svm", "high 1:1\n"), says=("w.svm:1:1: expected a label: a number",))

    def test_flags_that_do_not_go_together_are_named(self):
        stream = self.file("a.svm", lines(testing.dense(10)))
        for flags, text in (
                (("--stream", stream), "--stream: belongs to --solver ftrl, adagrad or adam"),
                ((*FTRL, "--train", stream), "--train: belongs to --solver prox"),
                (FTRL, "--stream is required"),
                (("--solver", "adam", "--stream", stream, "--l1", "1"), "--l1: belongs to --solver prox, delayed, lbfgs or ftrl"),
                (("--solver", "newton", "--stream", stream), "must be prox, delayed, lbfgs, ftrl, adagrad or adam"),
                ((*FTRL, "--stream", stream, "--classes", "1-3"), "--classes requires --loss softmax"),
                ((*FTRL, "--stream", stream, "--test", stream), "--test: belongs to --solver prox")):
            self.fails(*flags, code=2, says=(text,))
        self.fails(*FTRL, "--stream", self.path("none"), says=("none: no such file",))

    def job(self, *flags, size, times=MANY, **variables):
        command = [self.WEIR, "lr", *FTRL, *SLOW, "--json", self.path("out.json"), "--contact", self.path("contact"), *flags,
                   "--stream", *[self.clicks()] * times]
        return testing.Ranks(self.folder, command, size, variables, shows="examples ")

    def begin(self, job):
        job.start_all()
        self.assertTrue(job.until_training(), job.everything())

    def result(self):
        return testing.read_json(self.path("out.json"))

    def test_without_reassign_the_death_of_a_worker_ends_the_job(self):
        with self.job(size=3) as job:
            self.begin(job)
            job.kill(2)
            # The other one learns its own part first, and hears of it at the end.
            self.assertEqual([job.wait(rank, END_S) for rank in (0, 1)], [1, 1], job.everything())
            self.assertIn("worker 1 (rank 2)", job.err(1))

    def test_a_training_that_was_stopped_or_killed_goes_on_from_its_checkpoint(self):
        folder = self.folder / "checkpoints"
        folder.mkdir()
        flags = ("--checkpoint", str(folder), "--resume", "auto")
        with self.job(*flags, size=2) as job:
            self.begin(job)
            for rank in (0, 1):
                os.kill(job.pid(rank), signal.SIGTERM)
            self.assertEqual([job.wait(rank) for rank in (0, 1)], [143] * 2, job.everything())
            self.assertIn("the training ended after", job.err(1))
        learned = self.result()["examples"]
        self.assertLess(learned, 20000 * MANY)
        with self.job(*flags, "--workers", "2", size=2) as job:
            self.begin(job)
            done = testing.run([self.WEIR, "checkpoint", "now", self.path("contact")], testing.clean_environment({}), testing.LIMIT_S)
            self.assertEqual(done.code, 0, done.err)
            for rank in (0, 1):
                job.kill(rank)
        with self.job(*flags, size=3) as job:
            job.start_all()
            self.assertEqual([job.wait(rank, END_S) for rank in range(3)], [0] * 3, job.everything())
        result = self.result()
        self.assertGreater(result["resumed_examples"], learned)
        self.assertEqual(result["examples"], 20000 * MANY)
        clicks = self.path("click.svm")
        for other, text in ((("--alpha", "0.7"), "the same options of the solver"), (("--loss", "squared"), "has no table ftrl.squared.weights")):
            self.fails(*FTRL, "--stream", clicks, *flags, *other, code=2, says=(text,))
        for day in (1, 2):  # other files: all of them, on top
            result = self.learn("--stream", self.file(f"day{day}.svm", lines(testing.dense(100))), *flags)
            self.assertEqual(result["resumed_examples"], 20000 * MANY + 100 * (day - 1))
            self.assertEqual(result["examples"], 20000 * MANY + 100 * day)


if __name__ == "__main__":
    testing.main(testing.Folder, "__main__")
