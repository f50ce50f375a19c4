#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`weir lr` on data that would train to nonsense: an error with the cure, or a warning. Usage: lr_data_test.py PATH-OF-WEIR"""

import math
import re
import unittest
from pathlib import Path

import lr_testing as testing

SHAPES = ((), ("--threads", 3), ("--workers", 3, "--servers", 2))
FEW_PASSES = ("--passes", "20")


def relabelled(rows, names):
    return "".join(f"{names[label]} {' '.join(f'{f}:{v}' for f, v in row.items())}\n" for label, row in rows)


def metrics(rows, model):
    """Accuracy, log loss and AUC, the last by looking at every pair."""
    scores = [(label, sum(model.get(f, 0) * v for f, v in row.items())) for label, row in rows]
    positive, negative = ([s for label, s in scores if label == side] for side in (1, -1))
    above = sum(p > n or 0.5 * (p == n) for p in positive for n in negative)
    return (sum((s > 0) == (label > 0) for label, s in scores) / len(rows), sum(testing.loss(label * s) for label, s in scores) / len(rows),
            above / (len(positive) * len(negative)))


class Data(testing.Folder, unittest.TestCase):
    def text(self, name, text):
        Path(self.path(name)).write_text(text, encoding="ascii")
        return self.path(name)

    def trained(self, *arguments):
        out = self.path("out.json")
        done = self.lr(*arguments, "--json", out)
        self.assertEqual(done.code, 0, done.err)
        return testing.read_json(out), done

    def test_labels_1_and_2_are_an_error_that_names_them_and_the_flag(self):
        rows = testing.dense()
        mixed = self.text("mixed.svm", relabelled(rows, {-1: "1", 1: "2"}))
        in_order = self.text("sorted.svm", relabelled(sorted(rows, key=lambda row: row[0]), {-1: "1", 1: "2"}))
        for train in (mixed, in_order):
            for skip in (0, 10, 1000000):
                for shape in SHAPES:
                    with self.subTest(train=train, skip=skip, shape=shape):
                        done = self.lr("--train", train, "--skip-bad", skip, *shape)
                        self.assertEqual(done.code, 1, done.err)
                        self.assertIn(f"{train}: the labels are 1 and 2, but only -1, 0 and +1 are understood; say which class each stands for, "
                                      "like --labels 1:-1,2:+1", done.err)

    def test_the_flag_that_it_names_gives_the_same_as_labels_that_are_understood(self):
        rows = testing.dense()
        plain, _ = self.trained("--train", testing.write(self.path("plain.svm"), rows))
        train = self.text("named.svm", relabelled(rows, {-1: "1", 1: "2"}))
        for shape in SHAPES:
            named, _ = self.trained("--train", train, "--test", train, "--labels", "1:-1,2:+1", *shape)
            self.near(named["objective"], plain["objective"])
            self.assertAlmostEqual(named["test_auc"], plain["train_auc"], delta=1e-3)
            self.assertEqual(named["bad_lines"], 0)
        turned, _ = self.trained("--train", train, "--labels", "2:-1,1:+1")
        self.near(turned["objective"], plain["objective"])

    def test_ranks_of_which_one_reads_only_the_one_class_know_it_together(self):
        train = self.text("sorted.svm", "1 1:1\n" * 300 + "2 2:1\n" * 300)
        for skip in ("0", "1000"):
            with testing.Ranks(self.folder, [self.WEIR, "lr", "--servers", "1", "--train", train, "--skip-bad", skip], 3) as job:
                job.start_all()
                self.assertEqual([job.wait(rank) for rank in range(3)], [1, 1, 1], job.everything())
                for rank in (1, 2):
                    self.assertIn("like --labels 1:-1,2:+1", job.err(rank))

    def test_many_classes_and_labels_that_the_flag_leaves_out_are_errors_and_test_files_are_no_exception(self):
        digits = self.text("digits.svm", "".join(f"{i % 10} {i + 1}:1\n" for i in range(500)))
        done = self.lr("--train", digits, "--skip-bad", 500)
        self.assertIn("the labels are 0, 1, 2, 3, 4, 5, 6, 7 and 2 more", done.err)
        self.assertIn("a model has two classes: several labels may stand for one class", done.err)
        chosen = ("--train", digits, "--labels", "3:+1,4:-1")
        self.assertIn("digits.svm:1:1: expected a label of the label map, found '0'", self.lr(*chosen).err)
        self.assertEqual(self.trained(*chosen, "--skip-bad", 400, *FEW_PASSES)[0]["examples"], 100)
        done = self.lr("--train", digits, "--skip-bad", 500, "--labels", "3:+1,12:-1")
        self.assertIn("--labels 3:+1,12:-1 has no class for 0, 1, 2, 4, 5, 6, 7, 8 and 1 more", done.err)
        train = testing.write(self.path("train.svm"), testing.dense())
        test = self.text("test.svm", relabelled(testing.dense(), {-1: "1", 1: "2"}))
        model = self.path("model")
        done = self.lr("--train", train, "--test", test, "--skip-bad", 1000, "--model", model)
        self.assertEqual(done.code, 1)
        self.assertIn(f"{test}: the labels are 1 and 2", done.err)
        self.assertGreater(len(testing.read_model(model)), 0)
        for text in ("1:-1", "x", "1:-1,1:1", "1:2,2:1"):
            done = self.lr("--train", train, "--labels", text)
            self.assertEqual(done.code, 2)
            self.assertIn("write it like 1:-1,2:+1", done.err)

    def test_one_class_alone_is_warned_of(self):
        for label, sign in (("1", "+1"), ("0", "-1"), ("-1", "-1")):
            train = self.text("one.svm", f"{label} 1:1\n" * 40)
            for shape in SHAPES:
                result, done = self.trained("--train", train, *FEW_PASSES, *shape)
                self.assertIn(f"warning: {train}: all 40 examples are of the class {sign}: a model needs examples of both classes", done.err)
                self.assertEqual((len(result["warnings"]), result["train_auc"]), (1, None))
        train = self.text("both.svm", "-1 1:1\n0 2:1\n1 3:1\n" * 10)
        self.assertIn("both -1 and 0 stand for the class -1", self.trained("--train", train, *FEW_PASSES)[1].err)

    def test_more_lines_left_out_than_kept_are_warned_of(self):
        train = self.text("half.svm", "+1 1:1\n-1 2:1\noops\noops\noops\n" * 10)
        for shape in SHAPES:
            _, done = self.trained("--train", train, "--skip-bad", 30, *FEW_PASSES, *shape)
            self.assertRegex(done.err, rf"warning: {re.escape(train)}: more than half of the lines were left out, 30 of 50; the first: .*half\.svm:\d+:1: ")
        train = self.text("less.svm", "+1 1:1\n-1 2:1\noops\noops\n" * 10)
        self.assertNotIn("warning", self.trained("--train", train, "--skip-bad", 20, *FEW_PASSES)[1].err)

    def test_test_features_that_no_training_line_has_are_counted(self):
        train, known = self.text("train.svm", "+1 1:1 5:1\n-1 2:1 6:1\n" * 20), self.text("known.svm", "+1 1:1 6:1\n-1 2:1\n" * 20)
        odd = self.text("odd.svm", "+1 0:1 1:1\n-1 2:1 9:1\n" * 20)
        for shape in SHAPES:
            result, done = self.trained("--train", train, "--test", known, *FEW_PASSES, *shape)
            self.assertEqual((result["test_features"], result["test_features_unseen"], result["warnings"]), (3, 0, []))
            self.assertNotIn("warning", done.err)
            result, done = self.trained("--train", train, "--test", known, odd, *FEW_PASSES, *shape)
            self.assertEqual((result["test_features"], result["test_features_unseen"]), (5, 2))
            self.assertIn(f"warning: {known} and 1 more file: 2 of 5 features (40 %) are in no training line, and have no weight", done.err)

    def test_a_model_without_weights_is_warned_of(self):
        train = testing.write(self.path("train.svm"), testing.dense())
        result, done = self.trained("--train", train, "--l1", 1e6)
        self.assertEqual(result["nonzeros"], 0)
        self.assertIn("warning: the model has no weights: with l1 = 1000000 all weights are 0; give a smaller l1", done.err)

    def test_accuracy_log_loss_and_auc_are_what_the_model_says_in_every_shape(self):
        rows, model = testing.text_like(), self.path("model")
        train, held_out = rows[:200], rows[200:]
        files = ("--train", testing.write(self.path("train.svm"), train), "--test", testing.write(self.path("test.svm"), held_out))
        for shape in SHAPES:
            result, done = self.trained(*files, "--l1", 0.3, "--model", model, *shape)
            weights = testing.read_model(model)
            for name, part in (("train", train), ("test", held_out)):
                accuracy, log_loss, auc = metrics(part, weights)
                self.assertAlmostEqual(result[f"{name}_accuracy"], accuracy, delta=1.01 / len(part))
                self.assertTrue(math.isclose(result[f"{name}_log_loss"], log_loss, rel_tol=1e-6), (result, log_loss))
                self.assertAlmostEqual(result[f"{name}_auc"], auc, delta=1e-4)
                self.assertRegex(done.out, rf"{name} +accuracy {result[f'{name}_accuracy']:.4f}  AUC {result[f'{name}_auc']:.4f}  log loss "
                                           rf"{result[f'{name}_log_loss']:.4f}  \({len(part)} examples\)")


if __name__ == "__main__":
    testing.main(testing.Folder, "__main__")
