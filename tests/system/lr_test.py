#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`weir lr` finds the optimum for every shape of job, and reports it. Usage: lr_test.py PATH-OF-WEIR"""

import os
import re
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path

import lr_testing as testing

FIELDS = ("objective", "nonzeros", "train_accuracy", "test_accuracy", "passes", "seconds", "bytes_sent", "bytes_copied", "examples", "features")
SHAPES = {"one of everything": (), "many of everything": ("--servers", 2, "--shards", 2, "--workers", 3),
          "more workers than files": ("--workers", 4), "colocated": ("--colocate", "--workers", 2)}


class Training(testing.Folder, unittest.TestCase):
    def trained(self, *arguments):
        out = self.path("result.json")
        done = self.lr("--json", out, *arguments)
        self.assertEqual(done.code, 0, done.err)
        return testing.read_json(out)

    def same_in_every_shape(self, rows, l1):
        wanted = testing.solve(rows, l1)
        files = [testing.write(self.path(f"part{i}.svm{'.gz' if i == 1 else ''}"), rows[i::3]) for i in range(3)]
        for name, shape in SHAPES.items():
            with self.subTest(name):
                result = self.trained("--train", *files, "--l1", l1, *shape)
                self.near(result["objective"], wanted)
                self.assertEqual(result["examples"], len(rows))
                self.assertEqual(result["features"], len({f for _, row in rows for f in row}))

    def test_dense_small_data_have_the_same_optimum_in_every_shape(self):
        self.same_in_every_shape(testing.dense(), 0.5)

    def test_columns_far_from_zero_reach_the_optimum_in_every_shape(self):
        rows, model = testing.far_from_zero(), self.path("far.model")
        train = testing.write(self.path("far.svm"), rows)
        for name, shape in SHAPES.items():
            with self.subTest(name):
                result = self.trained("--train", train, "--l1", 0.1, "--model", model, *shape)
                weights = testing.read_model(model)
                self.near(result["objective"], testing.objective(rows, weights, 0.1))
                self.near(result["objective"], testing.bound(rows, weights, 0.1))

    def test_text_has_the_same_optimum_in_every_shape(self):
        self.same_in_every_shape(testing.text_like(), 0.3)

    def test_survey_data_have_the_optimum_that_another_solver_proves_by_default_settings(self):
        rows = testing.like_adult()
        wanted, weights = testing.optimum(rows, 1, 300)
        self.assertGreater(testing.bound(rows, weights, 1), 0.9999 * wanted)  # nothing is below
        train, out = testing.write(self.path("survey.svm"), rows), self.path("result.json")
        for servers, shards, workers in ((1, 1, 1), (2, 2, 3), (1, 3, 2)):
            with self.subTest(servers=servers, shards=shards, workers=workers):
                flags = ("--l1", "1", "--servers", servers, "--shards", shards, "--workers", workers)
                done = testing.run([self.WEIR, "lr", "--train", train, "--json", out, *flags], testing.clean_environment({}), testing.LIMIT_S)
                self.assertEqual(done.code, 0, done.err)
                result = testing.read_json(out)
                self.assertEqual(result["examples"], len(rows))
                self.assertLess(result["objective"], 1.001 * wanted)
                self.assertGreater(result["objective"], 0.9999 * wanted)

    def test_one_example_per_worker_and_less_will_do(self):
        rows = testing.dense(3, 2)
        wanted = testing.solve(rows, 0.1)
        self.near(self.trained("--train", testing.write(self.path("few.svm"), rows), "--l1", 0.1, "--workers", 5)["objective"], wanted)

    def test_the_largest_feature_number_and_labels_0_and_1_and_unsorted_lines_are_read(self):
        with open(self.path("odd.svm"), "w", encoding="ascii") as file:
            file.write(f"1 {2**64 - 1}:1 0:0.5\n0 7:1 0:0.25\n" * 20)
        model = self.path("odd.model")
        result = self.trained("--train", file.name, "--l1", 0.1, "--model", model)
        self.assertEqual((result["examples"], result["features"], result["train_accuracy"]), (40, 3, 1))
        weights = testing.read_model(model)
        self.assertGreater(weights[2**64 - 1], 0)
        self.assertLess(weights[7], 0)

    def test_the_model_is_what_the_numbers_say(self):
        rows = testing.text_like()
        train, held_out = rows[:240], rows[240:]
        model = self.path("model.txt")
        result = self.trained("--train", testing.write(self.path("train.svm"), train), "--test", testing.write(self.path("test.svm"), held_out),
                              "--l1", 0.3, "--model", model)
        weights = testing.read_model(model)
        self.assertNotIn(0.0, weights.values())
        self.assertEqual(len(weights), result["nonzeros"])
        self.near(testing.objective(train, weights, 0.3), result["objective"])
        for name, part in (("train_accuracy", train), ("test_accuracy", held_out)):
            scores = [label * sum(weights.get(f, 0) * v for f, v in row.items()) for label, row in part]
            self.assertAlmostEqual(result[name], sum(score > 0 for score in scores) / len(part), delta=1.01 / len(part), msg=name)

    def test_json_has_every_field(self):
        train = testing.write(self.path("train.svm"), testing.dense())
        result = self.trained("--train", train, "--test", train)
        for name in FIELDS:
            self.assertIsInstance(result[name], (int, float), name)
        self.assertEqual(result["passes"], len(result["history"]))
        self.assertEqual(result["test_accuracy"], result["train_accuracy"])
        self.assertGreater(result["bytes_sent"], 0)
        # a store pool and a worker pool at least, or what memory there is for them
        self.assertGreaterEqual(result["registered_bytes"], 2 * (4 << 20))
        falling = [step["objective"] for step in result["history"]]
        self.assertEqual(falling, sorted(falling, reverse=True))
        self.assertIsNone(self.trained("--train", train)["test_accuracy"])

    def test_the_kkt_filter_leaves_features_out_of_most_passes_and_changes_no_optimum(self):
        train = testing.write(self.path("train.svm"), testing.text_like(1500, 4000))
        plot = Path(self.path("plot.svg"))
        for l1 in (0.3, 2):
            flags = ("--train", train, "--l1", l1, "--tolerance", 1e-5)
            without = self.trained(*flags, "--kkt", "off")
            self.assertEqual({step["filtered"] for step in without["history"]}, {0})
            for name, shape in SHAPES.items():
                with self.subTest(name, l1=l1):
                    result = self.trained(*flags, *shape, "--plot", plot)
                    self.assertAlmostEqual(result["objective"] / without["objective"], 1, delta=1e-4)
                    shares = [step["filtered"] for step in result["history"]]
                    self.assertGreater(max(shares), 0.5)
                    self.assertEqual((shares[0], shares[-1]), (0, 0))
                    self.assertIn("features filtered", plot.read_text(encoding="utf-8"))
            self.assertEqual((without["parameters"]["kkt"], result["parameters"]["kkt"]), (False, True))

    def test_filters_change_nothing_but_what_is_sent(self):
        train, model = testing.write(self.path("train.svm"), testing.like_adult()), self.path("model")
        found = {}
        for filters in ("none", "zeros,integers,compress", "significant=0,compress", "auto"):
            result = self.trained("--train", train, "--passes", 6, "--tolerance", 0, "--model", model, "--filters", filters, "--workers", 2)
            self.assertEqual(result["parameters"]["filters"], filters)
            traffic = result["traffic"]
            self.assertEqual(result["bytes_sent"], traffic["server_bytes"] + traffic["worker_bytes"])
            for bytes_ in (*traffic["pushed"].values(), *traffic["pulled"].values(), traffic["key_lists"]):
                self.assertLessEqual(bytes_["after"], bytes_["before"])
            self.assertEqual(traffic["rows_held"], 0)
            found[filters] = (result["objective"], Path(model).read_text(encoding="utf-8"), traffic)
        self.assertEqual(len({text for _, text, _ in found.values()}), 1)
        self.assertEqual(found["none"][2]["pushed"]["compress"], {"before": 0, "after": 0})
        compressed = found["zeros,integers,compress"][2]
        self.assertGreater(compressed["pushed"]["compress"]["before"], 0)
        self.assertLess(compressed["worker_bytes"], found["none"][2]["worker_bytes"])
        selected = found["significant=0,compress"][2]
        self.assertGreater(selected["rows_pushed"], 0)

    def test_passes_are_at_most_what_was_asked_for(self):
        train = testing.write(self.path("train.svm"), testing.dense())
        self.assertEqual(self.trained("--train", train, "--passes", 2, "--tolerance", 1e-12)["passes"], 2)

    def test_the_plot_is_valid_svg(self):
        plot = self.path("plot.svg")
        self.trained("--train", testing.write(self.path("train.svm"), testing.dense()), "--plot", plot)
        root = xml.parse(plot).getroot()
        self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
        self.assertTrue(any(e.tag.endswith(("path", "polyline")) for e in root.iter()))

    def test_a_file_whose_name_is_no_text_is_trained_on_and_named_in_the_results(self):
        train = os.fsencode(self.path("train")) + b"\xff.svm"
        os.rename(testing.write(self.path("train.svm"), testing.dense()), train)
        out, plot = self.path("out.json"), self.path("plot.svg")
        done = self.lr("--train", os.fsdecode(train), "--json", out, "--plot", plot)
        self.assertEqual(done.code, 0, done.err)
        self.assertEqual(testing.read_json(out)["files"]["train"], [self.path("train\ufffd.svm")])
        self.assertIn("train\ufffd.svm, l1 = 1", "".join(xml.parse(plot).getroot().itertext()))

    def test_what_was_trained_is_written_though_a_test_file_is_bad_and_every_rank_says_why(self):
        rows, model, plot, out = testing.dense(), *(self.path(name) for name in ("model", "plot.svg", "out.json"))
        train, good = testing.write(self.path("train.svm"), rows), testing.write(self.path("good.svm"), rows)
        bad = Path(self.path("bad.svm"))
        bad.write_text("+1 1:1\n+1 x\n", encoding="ascii")
        flags = ("--train", train, "--test", good, bad, "--model", model, "--plot", plot, "--json", out)
        reason = "weir: error: .*" + re.escape(f"{bad}:2:4: expected a feature number")

        def written():
            result = testing.read_json(out)
            self.assertIsNone(result["test_accuracy"])
            self.assertGreater(result["bytes_sent"], 0)
            self.near(result["objective"], testing.objective(rows, testing.read_model(model), 1))
            self.assertIn("</svg>", Path(plot).read_text(encoding="utf-8"))
            for path in (model, plot, out):
                Path(path).unlink()

        for shape in ((), ("--workers", 3, "--servers", 2)):
            done = self.lr(*flags, *shape)
            self.assertEqual(done.code, 1, done.err)
            self.assertRegex(done.err, reason)
            written()
        with testing.Ranks(self.folder, [self.WEIR, "lr", "--servers", "2", *flags], 4) as job:
            job.start_all()
            self.assertEqual([job.wait(rank) for rank in range(4)], [1] * 4, job.everything())
            for rank in range(4):
                self.assertRegex(job.err(rank), reason, job.everything())
        written()


if __name__ == "__main__":
    testing.main(testing.Folder, "__main__")
