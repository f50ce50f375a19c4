#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`weir checkpoint`: what it shows, refuses, exports and removes.

Usage: checkpoint_test.py PATH-OF-WEIR PATH-OF-SMALL-CHECKPOINT"""

import json
import os
import resource
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import numpy
except ImportError:
    numpy = None

WEIR = ""
WRITER = ""
MASK = (1 << 64) - 1


def small_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, 16))


def mix(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def value(key, index, stamp):
    """As tests/checkpoint/small_checkpoint.h has it."""
    return key % 1000 * 16 + index + stamp * 100_000


class Checkpoint(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="weir-checkpoint-")
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        self.dir = self.folder / "saved"
        self.dir.mkdir()

    def write(self, number, stamp, shards, *before):
        subprocess.run([WRITER, self.dir, *map(str, (number, stamp, shards, *before))], check=True, timeout=60)

    def weir(self, what, *arguments, code=0, prepare=None):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("WEIR_")}  # it warns of unknown ones
        done = subprocess.run([WEIR, "checkpoint", what, self.dir, *arguments], capture_output=True, text=True, timeout=60, check=False,
                              env=environment, preexec_fn=prepare)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def json(self, what, *arguments, code=0):
        return json.loads(self.weir(what, "--json", *arguments, code=code).stdout)

    def chunk(self, number):
        return min(self.dir.glob(f"{number:06}.t0.*.chunk"))

    def test_checkpoints_are_listed_and_shown(self):
        self.write(1, 7, 2)
        self.write(2, 9, 3)
        listed = self.json("list")
        self.assertEqual([(one["checkpoint"], one["iteration"], one["rows"], one["chunks"]) for one in listed], [(1, 7, 100, 4), (2, 9, 100, 6)])
        text = self.weir("list").stdout
        self.assertIn("iteration 9", text)
        self.assertIn("2023-11-14T22:13:20Z", text)
        shown = self.json("show")
        self.assertEqual(shown["checkpoint"], 2)
        self.assertEqual([table["table"] for table in shown["tables"]], ["weights", "counts"])
        self.assertEqual(self.json("show", "-n", "1")["iteration"], 7)
        for what in ("show", "verify", "export"):
            self.assertIn(f"{self.dir}: there is no checkpoint 99; choose one that is there: 1 and 2", self.weir(what, "-n", "99", code=1).stderr)
        self.assertIn("table 'counts': sparse, 1 x int64, rule adagrad; 60 rows in 3 chunks", self.weir("show").stdout)

    def test_what_was_written_anew_is_shown_and_what_is_named_again_stays(self):
        self.write(1, 7, 2)
        self.write(2, 7, 2, 1)
        first, second = self.json("list")
        self.assertEqual(first["new_bytes"], first["bytes"])
        self.assertEqual(second["bytes"], first["bytes"])
        again = sum(path.stat().st_size for path in self.dir.glob("000001.t0.*.chunk"))
        self.assertEqual(second["new_bytes"], second["bytes"] - again)
        self.assertIn("of it written for this one", self.weir("show").stdout)
        self.assertEqual(self.weir("prune", "--keep", "1").stdout, "removed 1 checkpoint and 2 chunks\n")
        self.assertEqual(self.weir("verify").stdout, "checkpoint 2: whole\n")
        self.assertEqual(len(self.weir("export", "-t", "weights").stdout.splitlines()), 40)
        self.chunk(1).unlink()
        self.assertRegex(self.weir("verify", code=1).stdout, "000001.t0.*No such file")

    def test_damage_is_found_and_named(self):
        self.write(1, 7, 2)
        self.write(2, 9, 2)
        self.assertEqual(self.weir("verify").stdout, "checkpoint 1: whole\ncheckpoint 2: whole\n")
        path = self.chunk(2)
        good = path.read_bytes()
        path.write_bytes(good[:50] + bytes([good[50] ^ 16]) + good[51:])
        verified = self.json("verify", code=1)
        self.assertTrue(verified[0]["whole"])
        self.assertIn(path.name, verified[1]["faults"][0])
        self.assertIn("damaged", verified[1]["faults"][0])
        path.write_bytes(good[:-1])
        self.assertRegex(self.weir("verify", code=1).stdout, f"{path.name}: the chunk has .* bytes instead of")
        self.assertIn(path.name, self.weir("export", "-t", "weights", code=1).stderr)
        path.unlink()
        self.assertRegex(self.weir("verify", "-n", "2", code=1).stdout, f"{path.name}.*No such file")
        self.weir("verify", "-n", "1")
        manifest = self.dir / "000002.manifest"
        manifest.write_bytes(manifest.read_bytes()[:-3])
        self.assertRegex(self.weir("show", code=1).stderr, "000002.manifest: the manifest is damaged.*use another")
        self.assertEqual(len(json.loads(self.weir("list", "--json", code=1).stdout)), 1)
        self.assertIn("000002.manifest", self.weir("prune", "--keep", "1", code=1).stderr)
        self.weir("verify", "-n", "1")

    def test_a_manifest_of_a_newer_version_is_refused(self):
        self.write(1, 7, 2)
        manifest = self.dir / "000001.manifest"
        content = bytearray(manifest.read_bytes())
        content[8:12] = struct.pack("<I", 3)
        manifest.write_bytes(content)
        self.assertRegex(self.weir("show", code=1).stderr, "000001.manifest: the manifest has version 3 .* use the version of Weir that wrote it")

    def test_a_folder_that_is_missing_or_empty_is_an_error_that_names_it(self):
        self.assertRegex(self.weir("show", code=1).stderr, f"{self.dir}: there is no checkpoint.*check the name")
        self.assertEqual(self.json("list"), [])
        self.dir.rmdir()
        for what in ("list", "show", "verify"):
            self.assertRegex(self.weir(what, code=1).stderr, f"{self.dir}: .*check the name.*No such file")

    def test_old_ones_are_removed(self):
        for number in (1, 2, 3):
            self.write(number, number, 2)
        self.assertEqual(self.json("prune", "--keep", "2"), {"checkpoints": [1], "chunks": 4})
        self.assertEqual([one["checkpoint"] for one in self.json("list")], [2, 3])
        self.weir("verify")
        self.weir("prune", "--keep", "0", code=2)
        self.weir("prune", code=2)

    def test_what_is_left_of_unfinished_ones_is_removed_only_when_asked_for(self):
        for whole in (False, True):
            with self.subTest(whole):
                if whole:
                    self.write(1, 7, 2)
                left = [self.dir / name for name in ("000002.t0.0000000000000000.s0.chunk", "000003.manifest.part")]
                for path in left:
                    path.touch()
                kept = self.weir("prune", "--keep", "1")
                self.assertEqual(kept.stdout, "removed 0 checkpoints and 0 chunks\n")
                self.assertRegex(kept.stderr, f"{self.dir}: 2 files of unfinished checkpoints.* stay: .*when no job writes there, --unfinished removes them")
                self.assertTrue(all(path.exists() for path in left))
                gone = self.weir("prune", "--keep", "1", "--unfinished")
                self.assertEqual(gone.stdout, "removed 0 checkpoints and 0 chunks\nremoved 2 files of unfinished checkpoints\n")
                self.assertEqual(gone.stderr, "")
                self.assertFalse(any(path.exists() for path in left))
                self.assertEqual(self.json("prune", "--keep", "1", "--unfinished"), {"checkpoints": [], "chunks": 0, "unfinished_files": 0})
        self.weir("verify")

    def test_nothing_is_removed_if_the_newest_one_is_damaged(self):
        for number in (1, 2, 3):
            self.write(number, number, 2)
        path = self.chunk(3)
        good = path.read_bytes()
        for damaged in (None, good[:-1], good[:50] + bytes([good[50] ^ 16]) + good[51:]):
            path.unlink(missing_ok=True)
            if damaged:
                path.write_bytes(damaged)
            files = sorted(self.dir.iterdir())
            self.assertRegex(self.weir("prune", "--keep", "1", code=1).stderr,
                             f"nothing was removed.*{path.name}.*remove {self.dir}/000003.manifest, and prune again")
            self.assertEqual(sorted(self.dir.iterdir()), files)
        (self.dir / "000003.manifest").unlink()
        self.assertEqual(self.json("prune", "--keep", "1")["checkpoints"], [1])
        self.assertEqual(self.weir("verify").stdout, "checkpoint 2: whole\n")

    def test_tables_are_exported_as_text(self):
        self.write(1, 0, 3)
        self.assertRegex(self.weir("export", code=2).stderr, "choose one by --table: 'weights', 'counts'")
        self.assertRegex(self.weir("export", "-t", "cousins", code=2).stderr, "no table 'cousins'; choose one of: 'weights', 'counts'")
        lines = self.weir("export", "-t", "weights").stdout.splitlines()
        self.assertEqual(lines[:2], ["0 1:1", "1 0:16 1:17"])
        self.assertEqual(len(lines), 40)
        counts = dict(map(int, line.split()) for line in self.weir("export", "-t", "counts").stdout.splitlines())
        keys = [mix(i * 7919) % 1_000_000_007 for i in range(60)]
        self.assertEqual(counts, {key: value(key, 0, 0) for key in keys if value(key, 0, 0)})
        self.weir("export", "-t", "counts", "--state", code=2)
        self.assertIn("--format: tar: must be text, npz or safetensors", self.weir("export", "--format", "tar", code=2).stderr)

    def test_without_room_there_is_no_half_file(self):
        self.write(1, 0, 2)
        out = self.folder / "out"
        for form in ("text", "npz", "safetensors"):
            done = self.weir("export", "-t", "weights", "-f", form, "-o", out, code=1, prepare=small_files)
            self.assertRegex(done.stderr, "out: cannot be written: File too large")
            self.assertFalse(out.exists())
        self.assertRegex(self.weir("export", "-t", "weights", "-o", "/dev/full", code=1).stderr, "/dev/full: cannot be written: No space left")

    def test_json_tells_what_was_written(self):
        self.write(1, 0, 2)
        out = self.folder / "out"
        found = json.loads(self.weir("export", "-t", "weights", "-o", out, "--json").stdout)
        self.assertEqual(found, {"checkpoint": 1, "file": str(out), "format": "text", "bytes": out.stat().st_size, "names": ["weights"]})
        self.assertIn("--json", self.weir("export", "-t", "weights", "--json", code=2).stderr)

    def test_a_sparse_table_has_no_array(self):
        self.write(1, 0, 2)
        self.assertRegex(self.weir("export", "-t", "counts", "-f", "npz", code=2).stderr, "'counts' is sparse.*--format text")

    @unittest.skipUnless(numpy, "NumPy is not installed: exported arrays are not read back")
    def test_numpy_reads_what_rules_keep(self):
        self.write(1, 3, 3, "state")

        def rows(stamp):
            return [[value(key, index, stamp) for index in range(2)] for key in range(40)]

        expected = {"weights": rows(3), "slopes": rows(3), "slopes.state": rows(4)}
        out = self.folder / "out"
        self.weir("export", "-f", "npz", "-o", out, "--state")
        with numpy.load(out) as arrays:
            self.assertEqual({name: arrays[name].tolist() for name in arrays.files}, expected)
            self.assertEqual({arrays[name].dtype for name in arrays.files}, {numpy.dtype(numpy.float32)})
        self.weir("export", "-f", "safetensors", "-o", out, "--state")
        content = out.read_bytes()
        body = 8 + struct.unpack("<Q", content[:8])[0]
        read = {}
        for name, one in json.loads(content[8:body]).items():
            self.assertEqual(one["dtype"], "F32")
            begin, end = one["data_offsets"]
            read[name] = numpy.frombuffer(content[body + begin:body + end], dtype="<f4").reshape(one["shape"]).tolist()
        self.assertEqual(read, expected)
        self.weir("export", "-f", "npz", "-t", "slopes", "-o", out)
        with numpy.load(out) as arrays:
            self.assertEqual(arrays.files, ["slopes"])

    @unittest.skipUnless(numpy, "NumPy is not installed: exported arrays are not read back")
    def test_narrow_values_are_exported_as_the_floats_that_they_are(self):
        self.write(1, 0, 3, "narrow")  # as of stamp 0 they are below 2048; bfloat16 has the first 8 bits

        def rounded(number, bits):
            last = 1 << max(0, number.bit_length() - bits)
            return round(number / last) * last  # to even, as they are

        def rows(bits, stamp=0):
            return [[rounded(value(key, index, stamp), bits) for index in range(2)] for key in range(40)]

        state = rows(24, 1)
        expected = {"brains": rows(8), "brains.state": state, "halves": rows(11), "halves.state": state}
        self.assertEqual([line.split() for line in self.weir("export", "-t", "brains").stdout.splitlines()[-1:]], [["39", "0:624", "1:624"]])
        out = self.folder / "out"
        self.weir("export", "-f", "npz", "-o", out, "--state")
        with numpy.load(out) as arrays:
            self.assertEqual({name: arrays[name].tolist() for name in arrays.files}, expected)
            self.assertEqual((arrays["brains"].dtype, arrays["halves"].dtype), (numpy.float32, numpy.float16))
        self.weir("export", "-f", "safetensors", "-o", out, "--state")
        content = out.read_bytes()
        body = 8 + struct.unpack("<Q", content[:8])[0]
        head = json.loads(content[8:body])
        self.assertEqual({name: one["dtype"] for name, one in head.items()},
                         {"brains": "BF16", "brains.state": "F32", "halves": "F16", "halves.state": "F32"})
        begin, end = head["brains"]["data_offsets"]
        bits = numpy.frombuffer(content[body + begin:body + end], dtype="<u2").astype("<u4") << 16
        self.assertEqual(bits.view("<f4").reshape(40, 2).tolist(), expected["brains"])

    @unittest.skipUnless(numpy, "NumPy is not installed: exported arrays are not read back")
    def test_numpy_reads_dense_tables(self):
        self.write(1, 3, 3)
        expected = [[value(key, index, 3) for index in range(2)] for key in range(40)]
        out = self.folder / "out.npz"
        self.weir("export", "-f", "npz", "-o", out, "--state")
        with numpy.load(out) as arrays:
            self.assertEqual(arrays.files, ["weights"])
            self.assertEqual(arrays["weights"].dtype, numpy.float32)
            self.assertEqual(arrays["weights"].tolist(), expected)
        out = self.folder / "out.safetensors"
        self.weir("export", "-f", "safetensors", "-o", out)
        content = out.read_bytes()
        size = struct.unpack("<Q", content[:8])[0]
        self.assertEqual(size % 8, 0)
        head = json.loads(content[8:8 + size])
        self.assertEqual(list(head), ["weights"])
        self.assertEqual((head["weights"]["dtype"], head["weights"]["shape"]), ("F32", [40, 2]))
        begin, end = head["weights"]["data_offsets"]
        self.assertEqual(8 + size + end, len(content))
        read = numpy.frombuffer(content[8 + size + begin:8 + size + end], dtype="<f4").reshape(40, 2)
        self.assertEqual(read.tolist(), expected)


if __name__ == "__main__":
    WEIR, WRITER = sys.argv.pop(1), sys.argv.pop(1)
    unittest.main(verbosity=2)
