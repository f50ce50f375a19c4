#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`weir lr --solver lbfgs`, beside Newton's method of NumPy. Usage: lr_lbfgs_test.py PATH-OF-WEIR"""

import math
import os
import random
import signal
import subprocess
import unittest
from pathlib import Path

import lr_testing as testing

try:
    import numpy
except ImportError:
    numpy = None

LBFGS = ("--solver", "lbfgs")
EXACT = ("--tolerance", "1e-12")
# A training that ends when it is stopped.
UNENDING = ("--tolerance", "0", "--passes", "100000000")
REASSIGN = ("--on-worker-loss", "reassign")


def lines(rows):
    return "".join(f"{label} {' '.join(f'{f}:{v}' for f, v in row.items())}\n" for label, row in rows)


def drawn(loss, examples=400, features=8):
    """Dense examples; their labels are -1 and +1, classes 3 to 5, or numbers."""
    dice = random.Random(testing.seed() + 7)
    weights = [[dice.gauss(0, 1) for _ in range(features)] for _ in range(3)]
    rows = []
    for _ in range(examples):
        values = [round(dice.gauss(0, 1), 3) for _ in range(features)]
        scores = [sum(w * v for w, v in zip(of, values)) + dice.gauss(0, 1) for of in weights]
        label = {"logistic": 1 if scores[0] > 0 else -1, "softmax": 3 + scores.index(max(scores)), "squared": round(scores[0], 3)}[loss]
        rows.append((label, {f + 1: v for f, v in enumerate(values)}))
    return rows


class Reference:
    """The objective of dense examples and its least value."""

    def __init__(self, loss, rows, l1, l2):
        self.x = numpy.array([list(row.values()) for _, row in rows], dtype=numpy.float32).astype(float)
        self.y = numpy.array([label for label, _ in rows], dtype=numpy.float32).astype(float)
        self.loss, self.l1, self.l2 = loss, l1, l2
        self.width = 3 if loss == "softmax" else 1

    def probabilities(self, w):
        scores = self.x @ w
        of = numpy.exp(scores - scores.max(axis=1, keepdims=True))
        return of / of.sum(axis=1, keepdims=True)

    def objective(self, w):
        scores = self.x @ w
        if self.loss == "logistic":
            value = numpy.logaddexp(0, -self.y * scores[:, 0]).sum()
        elif self.loss == "squared":
            value = ((scores[:, 0] - self.y) ** 2).sum() / 2
        else:
            value = -numpy.log(self.probabilities(w)[numpy.arange(len(self.y)), self.y.astype(int) - 3]).sum()
        return value + self.l2 / 2 * (w ** 2).sum() + self.l1 * abs(w).sum()

    def gradient(self, w):
        """Without l1."""
        scores = self.x @ w
        if self.loss == "logistic":
            slopes = (-self.y / (1 + numpy.exp(self.y * scores[:, 0])))[:, None]
        elif self.loss == "squared":
            slopes = scores - self.y[:, None]
        else:
            slopes = self.probabilities(w)
            slopes[numpy.arange(len(self.y)), self.y.astype(int) - 3] -= 1
        return self.x.T @ slopes + self.l2 * w

    def curvature(self, w):
        features = self.x.shape[1]
        if self.loss == "logistic":
            p = 1 / (1 + numpy.exp(-self.x @ w))
            bend = (self.x * (p * (1 - p))).T @ self.x
        elif self.loss == "squared":
            bend = self.x.T @ self.x
        else:
            p = self.probabilities(w)
            bend = numpy.zeros((features, 3, features, 3))
            for a in range(3):
                for b in range(3):
                    bend[:, a, :, b] = (self.x * (p[:, a] * ((a == b) - p[:, b]))[:, None]).T @ self.x
            bend = bend.reshape(3 * features, 3 * features)
        return bend + self.l2 * numpy.eye(len(bend))

    def optimum(self):
        w = numpy.zeros((self.x.shape[1], self.width))
        return self.newton(w) if self.l1 == 0 else self.proximal(w)

    def newton(self, w):
        for _ in range(50):
            step = -numpy.linalg.solve(self.curvature(w), self.gradient(w).ravel()).reshape(w.shape)
            length = 1.0
            while self.objective(w + length * step) > self.objective(w) and length > 1e-12:
                length /= 2
            w = w + length * step
        return self.objective(w)

    def proximal(self, w):
        size = 1 / (numpy.linalg.norm(self.x, 2) ** 2 + self.l2)
        at, speed, best = w, 1.0, self.objective(w)
        for _ in range(5000):
            moved = at - size * self.gradient(at)
            before, w = w, numpy.sign(moved) * numpy.maximum(abs(moved) - size * self.l1, 0)
            rises = self.objective(w) > best
            following = 1.0 if rises else (1 + math.sqrt(1 + 4 * speed * speed)) / 2
            at = w + (0 if rises else (speed - 1) / following) * (w - before)
            speed, best = following, min(best, self.objective(w))
        return best


def read_model(path, loss):
    text = Path(path).read_text(encoding="ascii").splitlines()
    rest = text if loss == "logistic" else text[1:]
    return {int(line.split()[0]): [float(w) for w in line.split()[1:]] for line in rest}


class LrLbfgs(testing.Folder, unittest.TestCase):
    def file(self, name, text):
        (self.folder / name).write_text(text, encoding="ascii")
        return self.path(name)

    def weir(self, *words):
        return testing.run([self.WEIR, *map(str, words)], testing.clean_environment({}), testing.LIMIT_S)

    def train(self, *flags):
        out = self.path("trained.json")
        done = self.lr(*LBFGS, "--json", out, *map(str, flags))
        self.assertEqual(done.code, 0, done.err)
        return testing.read_json(out)

    def fails(self, *flags, says, code=2):
        done = self.lr(*map(str, flags))
        self.assertEqual(done.code, code, done.err)
        self.assertIn(says, done.err)

    def loss_flags(self, loss):
        return ("--loss", loss, *(("--classes", "3-5") if loss == "softmax" else ()))

    @unittest.skipUnless(numpy, "NumPy is not installed: there is nothing to compare with")
    def test_the_objective_is_the_least_of_each_loss_with_each_penalty(self):
        for loss in ("logistic", "softmax", "squared"):
            rows = drawn(loss)
            train, model = self.file(f"{loss}.svm", lines(rows)), self.path(f"{loss}.txt")
            for l1, l2 in ((0, 0.5), (8, 0), (5, 0.5)):
                with self.subTest(loss=loss, l1=l1, l2=l2):
                    reference = Reference(loss, rows, l1, l2)
                    wanted = reference.optimum()
                    flags = (*self.loss_flags(loss), "--train", train, "--l1", l1, "--l2", l2, *EXACT, "--model", model)
                    alone, together = self.train(*flags), self.train(*flags, "--workers", 3, "--servers", 2)
                    self.assertLess(abs(alone["objective"] / wanted - 1), 1e-8)
                    self.assertLess(abs(together["objective"] / alone["objective"] - 1), 1e-9)
                    found = read_model(model, loss)
                    w = numpy.array([found.get(f, [0] * reference.width) for f in range(1, 9)])
                    self.assertLess(abs(reference.objective(w) / wanted - 1), 1e-8)
                    if l2 > 0:
                        self.assertLess(alone["gap"], 1e-8)

    def test_by_default_it_is_the_penalty_l2_and_the_end_is_proven(self):
        train = self.file("a.svm", lines(drawn("logistic")))
        result = self.train("--train", train)
        parameters = result["parameters"]
        self.assertEqual((parameters["solver"], parameters["l1"], parameters["l2"], parameters["history"]), ("lbfgs", 0, 1, 10))
        self.assertEqual(result["ended_because"], "the gap is within the tolerance")
        self.assertLessEqual(result["gap"], 1e-7)

    def test_metrics_are_those_of_predict_also_on_other_files(self):
        for loss, names in (("logistic", ("accuracy", "auc", "log_loss")), ("softmax", ("accuracy", "log_loss")),
                            ("squared", ("squared_error",))):
            rows = drawn(loss)
            train, test = self.file("a.svm", lines(rows[:300])), self.file("b.svm", lines(rows[300:]))
            model, told = self.path("m.txt"), self.path("p.json")
            result = self.train(*self.loss_flags(loss), "--train", train, "--test", test, "--model", model, "--workers", 2)
            for prefix, path in (("train_", train), ("test_", test)):
                self.assertEqual(self.weir("predict", "--model", model, path, "--out", self.path("p.txt"), "--json", told).code, 0)
                predicted = testing.read_json(told)
                for name in ("accuracy", "auc", "log_loss", "squared_error"):
                    if name in names:
                        self.assertAlmostEqual(result[prefix + name], predicted[name], places=5)
                    else:
                        self.assertIsNone(result[prefix + name], name)

    def test_what_travels_does_not_grow_with_the_history(self):
        train = self.path("click.svm")
        self.assertEqual(self.weir("synth", "--out", train, "--examples", 20000, "--features", 20000).code, 0)
        flags = ("--train", train, "--tolerance", 0, "--passes", 30, "--servers", 2, "--workers", 2)
        few, many = self.train(*flags, "--history", 3), self.train(*flags, "--history", 20)
        self.assertLess(many["objective"], few["objective"])
        self.assertLess(abs(many["bytes_sent"] / few["bytes_sent"] - 1), 0.05)
        first, all_steps = (self.train("--train", train, "--tolerance", 0, "--passes", passes) for passes in (30, 90))
        vectors = 8 * (90 - 30) * first["features"]
        # Gradients go up and steps come down, and little else once the servers know the lists of keys.
        for side in ("worker_bytes", "server_bytes"):
            self.assertLess(all_steps["traffic"][side] - first["traffic"][side], 1.1 * vectors)

    def test_it_goes_on_from_a_model(self):
        train, model = self.file("a.svm", lines(drawn("softmax"))), self.path("m.txt")
        flags = ("--train", train, "--loss", "softmax", "--classes", "3-5")
        first = self.train(*flags, "--model", model)
        again = self.train(*flags, "--init", model)
        self.assertLess(again["passes"], first["passes"] / 2)
        self.fails(*LBFGS, "--train", train, "--loss", "softmax", "--classes", "2-5", "--init", model, says="a model of the classes 3-5, not of 2-5")
        self.fails(*LBFGS, "--train", train, "--init", model, says="a model of the softmax loss, which is no start for a logistic one")

    def test_flags_and_labels_that_do_not_go_together_are_named(self):
        train = self.file("a.svm", lines(drawn("softmax", 20)))
        for flags, text in (
                (("--l2", 1), "--l2: belongs to --solver lbfgs or ftrl"),
                (("--history", 5), "--history: belongs to --solver lbfgs"),
                ((*LBFGS, "--history", 31), "--history"),
                ((*LBFGS, "--blocks", 4), "--blocks: belongs to --solver prox"),
                ((*LBFGS, "--alpha", 1), "--alpha: belongs to --solver ftrl, adagrad or adam"),
                ((*LBFGS, "--loss", "softmax"), "--classes, the labels of the softmax"),
                ((*LBFGS, "--loss", "squared", "--labels", "3:-1,4:+1"), "--labels: belongs to --loss logistic")):
            self.fails(*flags, "--train", train, says=text)
        self.fails(*LBFGS, "--train", train, says="the labels are 3, 4 and 5", code=1)
        self.fails(*LBFGS, "--train", train, "--loss", "softmax", "--classes", "3-4", says="which --classes 3,4 does not name", code=1)

    def job(self, *flags, size, ends=UNENDING):
        rows = drawn("logistic", 2000, 20)
        self.file("job.svm", lines(rows))
        command = [self.WEIR, "lr", *LBFGS, *ends, "--train", self.path("job.svm"), "--l2", "0.5", "--json", self.path("out.json"),
                   "--contact", self.path("contact"), *flags]
        return testing.Ranks(self.folder, command, size, {})

    def wanted(self):
        return self.train("--train", self.path("job.svm"), "--l2", "0.5", *EXACT)["objective"]

    def begin(self, job):
        job.start_all()
        self.assertTrue(job.until_training(), job.everything())

    def stop(self, job, ranks):
        for rank in ranks:
            os.kill(job.pid(rank), signal.SIGTERM)
        self.assertEqual([job.wait(rank) for rank in ranks], [143] * len(ranks), job.everything())
        return testing.read_json(self.path("out.json"))

    def test_workers_are_killed_and_join_and_the_others_reach_the_optimum(self):
        with self.job(*REASSIGN, size=4) as job:
            self.begin(job)
            job.kill(1)  # the worker that decides
            self.assertTrue(job.trains_on(2), job.everything())
            job.kill(3)
            self.assertTrue(job.trains_on(2), job.everything())
            words = [self.WEIR, "lr", "--join", self.path("contact")]
            with open(self.folder / "joiner.err", "wb") as err, subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=err, stderr=err, env=testing.clean_environment(testing.POOL)) as joiner:
                self.addCleanup(joiner.kill)
                self.assertTrue(job.until(lambda: job.err(2).count("workers have come or gone") >= 3), job.everything())
                self.assertTrue(job.trains_on(2), job.everything())
                os.kill(joiner.pid, signal.SIGTERM)
                result = self.stop(job, (0, 2))
                self.assertEqual(joiner.wait(testing.LIMIT_S), 143, (self.folder / "joiner.err").read_text())
        self.assertEqual(result["examples"], 2000)
        self.assertLess(abs(result["objective"] / self.wanted() - 1), 1e-7)
        self.assertEqual(len(result["restarts"]), 3)

    def test_a_server_is_killed_and_its_copies_go_on(self):
        with self.job("--servers", "2", "--replicas", "1", size=4) as job:
            self.begin(job)
            self.assertTrue(job.until(lambda: '"segments_to_copy": 0' in self.weir("status", self.path("contact"), "--json").out), job.everything())
            job.kill(1)
            self.assertTrue(job.trains_on(2), job.everything())
            result = self.stop(job, (0, 2, 3))
        self.assertIn(("server lost", 1), [(event["what"], event["number"]) for event in result["events"]])
        self.assertLess(abs(result["objective"] / self.wanted() - 1), 1e-7)

    def test_a_training_goes_on_from_its_checkpoint(self):
        saved = self.folder / "saved"
        saved.mkdir()
        flags = ("--checkpoint", str(saved), "--resume", "auto")
        with self.job(*flags, size=3) as job:
            self.begin(job)
            self.assertTrue(job.trains_on(1), job.everything())
            self.assertEqual(self.weir("checkpoint", "now", self.path("contact")).code, 0)
            for rank in range(3):
                job.kill(rank)
        wanted = self.wanted()
        with self.job(*flags, size=2, ends=("--passes", "3")) as job:
            job.start_all()
            self.assertEqual([job.wait(rank) for rank in range(2)], [0] * 2, job.everything())
        result = testing.read_json(self.path("out.json"))
        self.assertLess(abs(result["objective"] / wanted - 1), 1e-6)
        for other in (("softmax", "--classes=-1,1"), ("squared",)):
            done = self.lr(*LBFGS, "--train", self.path("job.svm"), "--loss", *other, *flags)
            self.assertEqual(done.code, 2, done.err)
            self.assertIn("has the weights of another loss, of other classes", done.err)


if __name__ == "__main__":
    testing.main(LrLbfgs, __name__)
