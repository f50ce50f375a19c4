#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`weir lr` that writes checkpoints, is killed, and goes on from them. Usage: resume_test.py PATH-OF-WEIR"""

import gzip
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
import unittest

import lr_testing as testing
from stopping import stop


class Resume(testing.Folder, unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.rows = testing.endless()  # with an l1 they have an optimum
        self.data = testing.write(self.path("train"), self.rows)
        self.checkpoints = self.path("checkpoints")
        os.mkdir(self.checkpoints)

    def weir(self, *arguments):
        return testing.run([self.WEIR, *arguments], testing.clean_environment(testing.POOL), testing.LIMIT_S)

    def names(self, ending):
        return sorted(name for name in os.listdir(self.checkpoints) if name.endswith(ending))

    def newest(self):
        """The number of the newest checkpoint, 0 without one."""
        return max((int(name.split(".")[0]) for name in self.names(".manifest")), default=0)

    def damage(self, name, at, flip=1):
        with open(os.path.join(self.checkpoints, name), "r+b") as file:
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ flip]))

    def job(self, *flags, size=1):
        """An endless training of `size` ranks that writes checkpoints."""
        command = [self.WEIR, "lr", "--train", self.data, *testing.ENDLESS, "--checkpoint", self.checkpoints, *flags]
        return testing.Ranks(self.folder, command, size)

    def test_a_job_says_that_its_checkpoints_do_not_come_by_themselves(self):
        for flags, says in (((), 1), (("--checkpoint-every", "10m"), 0), (("--checkpoint-every", "50"), 0)):
            with self.subTest(flags), self.job(*flags, size=2) as ranks:
                ranks.start_all()
                self.assertTrue(ranks.until_training(), ranks.everything())
                self.assertEqual(ranks.err(0).count("checkpoints are written only by `weir checkpoint now`"), says, ranks.everything())
                self.assertNotIn("checkpoints are written only", ranks.err(1))

    def make_checkpoint(self, *flags, size=1, count=1):
        with self.job(*flags, size=size) as ranks:
            ranks.start_all()
            self.assertTrue(ranks.until_training(), ranks.everything())
            for _ in range(count):
                before = len(self.names(".manifest"))
                os.kill(ranks.pid(0), signal.SIGUSR1)
                self.assertTrue(ranks.until(lambda: len(self.names(".manifest")) > before), ranks.everything())
            for rank in range(size):
                ranks.kill(rank)

    def finish(self, *flags, resume=None):
        """Goes on from the checkpoint with an l1, to the end."""
        done = self.lr("--train", self.data, "--l1", "1", "--json", self.path("json"), "--resume", resume or self.checkpoints, *flags)
        self.assertEqual(done.code, 0, done.err)
        result = testing.read_json(self.path("json"))
        self.near(result["objective"], testing.solve(self.rows, 1))
        return done, result

    def first_pass(self):
        """The objective after one pass from weights of 0."""
        fresh = self.lr("--train", self.data, "--l1", "0", "--passes", "1", "--json", self.path("json"))
        self.assertEqual(fresh.code, 0, fresh.err)
        return testing.read_json(self.path("json"))["objective"]

    def test_a_signal_while_files_are_read_writes_what_the_job_before_has_trained(self):
        first_pass = self.first_pass()
        self.make_checkpoint()
        with open(self.data, "rb") as file, gzip.open(self.path("long.svm.gz"), "wb", compresslevel=1) as out:
            out.write(file.read() + b"# it takes seconds to read all of this\n" * 10_000_000)
        self.data = self.path("long.svm.gz")
        with self.job("--resume", self.checkpoints, "--json", self.path("json"), "--model", self.path("model")) as ranks:
            ranks.start(0)
            self.assertTrue(ranks.until(lambda: ranks.running(0) and ranks.takes_signals(0)), ranks.everything())
            os.kill(ranks.pid(0), signal.SIGTERM)
            self.assertEqual(ranks.wait(0), 143, ranks.everything())
            self.assertIn("SIGTERM came while the training files were being read: the results need them", ranks.err(0))
            self.assertIn("stopped by SIGTERM: the training ended after pass 1; the results so far are written", ranks.err(0))
        result = testing.read_json(self.path("json"))
        self.assertEqual(result["examples"], len(self.rows))
        # A slow machine writes the checkpoint after the first pass; the one here is the second then.
        self.assertLess(result["history"][0]["objective"], first_pass * 0.9)
        self.assertTrue(testing.read_model(self.path("model")))

    def test_a_killed_training_goes_on_with_other_numbers_of_servers_and_workers(self):
        first_pass = self.first_pass()
        self.make_checkpoint("--servers", "2", "--shards", "2", "--workers", "2")
        # The weights are those that the killed one had come to.
        done = self.lr("--train", self.data, "--l1", "0", "--passes", "1", "--json", self.path("json"), "--resume", self.checkpoints,
                       "--servers", "3", "--workers", "3")
        self.assertEqual(done.code, 0, done.err)
        self.assertIn("goes on from checkpoint 1 of", done.err)
        self.assertLess(testing.read_json(self.path("json"))["objective"], first_pass * 0.9)
        self.finish("--servers", "1", "--shards", "3")

    def test_a_job_of_several_processes_goes_on_as_one_and_the_other_way_round(self):
        self.make_checkpoint("--servers", "2", "--workers", "1", "--replicas", "1", size=4)
        self.finish("--servers", "3", "--workers", "2")
        self.make_checkpoint("--resume", "auto", "--servers", "3", "--workers", "1", size=5)
        self.assertEqual(self.names(".manifest"), ["000001.manifest", "000002.manifest"])
        self.finish()

    def test_sigterm_writes_a_checkpoint_from_which_the_same_command_goes_on(self):
        flags = ("--servers", "1", "--resume", "auto", "--json", self.path("stopped"), "--plot", self.path("plot.svg"))
        with self.job(*flags, size=2) as ranks:
            ranks.start_all()
            self.assertTrue(ranks.until_training(), ranks.everything())
            for rank in range(2):
                os.kill(ranks.pid(rank), signal.SIGTERM)
            self.assertEqual([ranks.wait(rank) for rank in range(2)], [143, 143], ranks.everything())
        stopped = testing.read_json(self.path("stopped"))
        self.assertGreaterEqual(len(self.names(".manifest")), 1)
        # The results were written before the last one, and show it all the same.
        self.assertEqual([event["number"] for event in stopped["events"] if event["what"] == "checkpoint"], list(range(1, self.newest() + 1)))
        self.assertIn(f"<title>checkpoint {self.newest()}</title>", testing.Path(self.path("plot.svg")).read_text(encoding="utf-8"))
        # The last one has the weights with which the training ended.
        done = self.lr("--train", self.data, "--l1", "0", "--passes", "1", "--json", self.path("json"), "--resume", self.checkpoints)
        self.assertEqual(done.code, 0, done.err)
        self.assertLessEqual(testing.read_json(self.path("json"))["objective"], stopped["objective"] * (1 + 1e-9))

    def test_a_pass_that_does_not_end_within_the_grace_is_given_up(self):
        with self.job("--servers", "1", "--grace", "1", size=2) as ranks:
            ranks.start_all()
            self.assertTrue(ranks.until_training(), ranks.everything())
            stop(ranks.pid(0))
            os.kill(ranks.pid(1), signal.SIGTERM)
            self.assertEqual(ranks.wait(1), 143, ranks.everything())
            self.assertIn("did not end within --grace", ranks.everything())
            os.kill(ranks.pid(0), signal.SIGCONT)
            ranks.kill(0)

    def test_interrupted_at_any_instant_it_can_always_go_on(self):
        dice = random.Random(testing.seed())
        last = 0
        for _ in range(10):
            servers, shards = dice.choice((1, 2, 3)), dice.choice((1, 2))
            with self.job("--checkpoint-every", "50", "--resume", "auto", "--servers", str(servers), "--shards", str(shards)) as ranks:
                ranks.start_all()
                self.assertTrue(ranks.until(lambda: "pass " in ranks.err(0)), ranks.everything())
                newest = last
                self.assertTrue(ranks.until(lambda: self.newest() > newest), ranks.everything())
                time.sleep(dice.uniform(0, 0.2))
                ranks.kill(0)
            shown = self.weir("checkpoint", "verify", self.checkpoints)
            self.assertEqual(shown.code, 0, shown.out + shown.err)
            last = self.newest()
            self.assertGreater(last, newest)
        self.assertLessEqual(len(self.names(".manifest")), 4)  # old ones are removed
        self.finish()

    def test_after_a_time_and_on_a_signal_there_is_one_and_the_status_shows_it(self):
        contact = self.path("contact")
        with self.job("--checkpoint-every", "1s", "--contact", contact) as ranks:
            ranks.start_all()
            self.assertTrue(ranks.until(lambda: self.names(".manifest")), ranks.everything())
            self.assertTrue(ranks.until(lambda: "checkpoint 1 is in" in ranks.err(0)), ranks.everything())
            status = self.weir("status", contact, "--json")
            self.assertEqual(status.code, 0, status.err)
            shown = json.loads(status.out)["checkpoints"]
            self.assertTrue(shown["on"])
            self.assertGreaterEqual(shown["last"], 1)
            self.assertIsNone(shown["last_failure"])
            self.assertIn("checkpoints: the last is ", self.weir("status", contact).out)

    def test_the_plot_marks_checkpoints_failed_ones_lost_servers_and_those_that_come_and_go(self):
        out, plot = self.path("out.json"), self.path("plot.svg")
        with self.job("--servers", "3", "--replicas", "1", "--json", out, "--plot", plot, size=4) as ranks:
            contact = f"127.0.0.1:{ranks.port}"

            def status():
                done = self.weir("status", contact, "--json")
                return json.loads(done.out) if done.code == 0 else None

            def servers():
                shown = status()
                at_rest = shown and shown["copies"]["segments_to_copy"] == 0 and shown["moves"]["segments_to_move"] == 0
                return [server["server"] for server in shown["servers"]] if at_rest else None

            ranks.start_all()
            self.assertTrue(ranks.until_training(), ranks.everything())
            self.assertTrue(ranks.until(lambda: servers() == [0, 1, 2]), ranks.everything())
            os.kill(ranks.pid(0), signal.SIGUSR1)
            self.assertTrue(ranks.until(lambda: (shown := status()) and shown["checkpoints"]["last"] == 1), ranks.everything())
            ranks.kill(2)
            self.assertTrue(ranks.until(lambda: servers() == [0, 1]), ranks.everything())
            command = [self.WEIR, "server", "--join", contact]
            with subprocess.Popen(command, env=testing.clean_environment(testing.POOL)) as joined:
                self.assertTrue(ranks.until(lambda: servers() == [0, 1, 3]), ranks.everything())
                left = self.weir("leave", contact, "--server", "3")
                self.assertEqual(left.code, 0, left.err)
                self.assertEqual(joined.wait(testing.LIMIT_S), 0)
            self.assertTrue(ranks.trains_on(3), ranks.everything())
            os.rename(self.checkpoints, self.path("elsewhere"))
            os.kill(ranks.pid(0), signal.SIGUSR1)
            self.assertTrue(ranks.until(lambda: "there is no new checkpoint" in ranks.err(0)), ranks.everything())
            os.kill(ranks.pid(3), signal.SIGTERM)  # the one of where the training ends fails, too
            self.assertEqual(ranks.wait(3), 143, ranks.everything())
        result = testing.read_json(out)
        happened = [(event["what"], event["number"]) for event in result["events"]]
        self.assertEqual(happened[:4], [("checkpoint", 1), ("server lost", 2), ("server joined", 3), ("server left", 3)])
        self.assertGreaterEqual(len(happened[4:]), 2)
        self.assertEqual(set(happened[4:]), {("checkpoint failed", 0)})
        why = f"{self.checkpoints}: the folder cannot be read"
        self.assertEqual([(event["why"] or "")[:len(why)] for event in result["events"]], [""] * 4 + [why] * len(happened[4:]))
        times = [event["seconds"] for event in result["events"]]
        self.assertEqual(times, sorted(times))
        self.assertGreater(times[0], 0)
        self.assertLessEqual(times[3], result["history"][-1]["seconds"])
        svg = testing.Path(plot).read_text(encoding="utf-8")
        for text in (">server 2 lost<", ">server 3 joined<", ">server 3 left<", "<title>checkpoint 1</title>", f"<title>checkpoint failed: {why}",
                     ">failure<", ">move<", ">checkpoint<", ">failed checkpoint<"):
            self.assertIn(text, svg)

    def test_resume_auto_begins_anew_where_there_is_no_checkpoint(self):
        done, _ = self.finish("--checkpoint", self.checkpoints, resume="auto")
        self.assertNotIn("goes on from", done.err)

    def test_without_what_it_is_to_go_on_from_it_does_not_start(self):
        for flags, wanted, code in ((("--resume", self.path("nowhere")), "nowhere: the folder cannot be read", 1),
                                    (("--resume", self.checkpoints), "there is no checkpoint", 1),
                                    (("--checkpoint", self.path("nowhere")), "nowhere: the folder cannot be read", 1),
                                    (("--checkpoint", self.data), f"{self.data}: the folder cannot be read, because it is no folder", 1),
                                    (("--resume", self.data), f"{self.data}: the folder cannot be read, because it is no folder", 1),
                                    (("--resume", "auto"), "--checkpoint DIR", 2)):
            done = self.lr("--train", self.data, *flags)
            self.assertEqual(done.code, code, done.err)
            self.assertIn(wanted, done.err)
        for flags in (("--checkpoint-every", "10m"), ("--checkpoint", self.checkpoints, "--checkpoint-every", "0"),
                      ("--checkpoint", self.checkpoints, "--checkpoint-every", "1d"), ("--checkpoint", "")):
            self.assertEqual(self.lr("--train", self.data, *flags).code, 2, flags)

    def test_a_folder_that_cannot_be_written_is_noticed_at_the_start(self):
        refused = self.resumed("--checkpoint", "/sys/kernel", code=1)  # nobody can, root neither
        self.assertIn("error: --checkpoint: no checkpoint can be written to /sys/kernel: ", refused)
        self.assertEqual(self.resumed("--checkpoint", self.checkpoints).count("error"), 0)
        self.assertEqual(os.listdir(self.checkpoints), [])  # nothing is left there

    def test_a_folder_belongs_to_one_job_while_that_lives(self):
        flags = ("--checkpoint", self.checkpoints, "--resume", "auto")
        for shape, size in (((), 1), (("--servers", "3", "--managers", "3"), 4)):
            with self.subTest(shape=shape), self.job("--checkpoint-every", "50", *shape, *flags[2:], size=size) as ranks:
                ranks.start_all()
                self.assertTrue(ranks.until_training(), ranks.everything())
                first = self.newest()
                self.assertTrue(ranks.until(lambda first=first: self.newest() > first + 4), ranks.everything())
                refused = self.resumed(*flags, code=1)
                self.assertRegex(refused, f"{self.checkpoints}: the job of process {ranks.pid(0)} on host .* writes its checkpoints there; "
                                          "give each job a folder of its own")
                pruned = self.weir("checkpoint", "prune", self.checkpoints, "--keep", "3", "--unfinished")
                self.assertEqual(pruned.code, 1)
                self.assertIn(f"process {ranks.pid(0)} on host", pruned.err)
                before = self.newest()
                self.assertTrue(ranks.until(lambda before=before: self.newest() > before), ranks.everything())
                for rank in range(size):
                    ranks.kill(rank)
                self.assertIn("goes on from checkpoint", self.resumed(*flags))  # at once
                self.assertNotIn("weir.owner", os.listdir(self.checkpoints))

    def test_a_job_removes_only_what_it_wrote_or_goes_on_with(self):
        self.three_checkpoints()
        flags = ("--resume", self.checkpoints, "--resume-number", "1")
        with self.job(*flags) as ranks:
            ranks.start_all()
            self.assertTrue(ranks.until_training(), ranks.everything())
            for number in range(4, 8):
                os.kill(ranks.pid(0), signal.SIGUSR1)
                self.assertTrue(ranks.until(lambda number=number: f"checkpoint {number} is in" in ranks.err(0)), ranks.everything())
        self.assertEqual([int(name.split(".")[0]) for name in self.names(".manifest")], [2, 3, 5, 6, 7])

    def test_a_damaged_checkpoint_is_refused_and_named(self):
        self.make_checkpoint()
        manifest, kept = self.names(".manifest")[0], self.path("kept")
        shutil.copytree(self.checkpoints, kept)
        for name, at, flip, wanted in ((manifest, 40, 1, manifest), (manifest, 8, 2, "version of Weir"),
                                       *((name, 70, 4, name) for name in self.names(".chunk")[:1])):
            self.damage(name, at, flip)
            done = self.lr("--train", self.data, "--l1", "1", "--resume", self.checkpoints)
            self.assertNotEqual(done.code, 0)
            self.assertIn(wanted, done.err)
            shutil.rmtree(self.checkpoints)
            shutil.copytree(kept, self.checkpoints)
        self.finish()

    def three_checkpoints(self):
        """The names of the manifests of three, the newest of which has chunks of its own."""
        self.make_checkpoint()
        self.make_checkpoint("--resume", "auto")
        self.make_checkpoint("--resume", "auto")
        self.assertEqual(self.names(".manifest"), ["000001.manifest", "000002.manifest", "000003.manifest"])
        return self.names(".manifest")

    def resumed(self, *flags, code=0):
        """What a short training says that goes on from a checkpoint."""
        done = self.lr("--train", self.data, "--l1", "0", "--passes", "1", *flags)
        self.assertEqual(done.code, code, done.err)
        return done.err

    def test_without_the_newest_checkpoint_another_one_is_gone_on_from(self):
        newest = self.three_checkpoints()[-1]
        chunk = next(name for name in self.names(".chunk") if name.startswith("000003"))
        kept, auto = self.path("kept"), ("--checkpoint", self.checkpoints, "--resume", "auto")
        shutil.copytree(self.checkpoints, kept)

        def cut(name):
            os.truncate(os.path.join(self.checkpoints, name), 50)

        for harm, why in ((lambda: self.damage(newest, 40), f"{newest}: the manifest is damaged"),
                          (lambda: cut(newest), f"{newest}: the manifest is damaged"),
                          (lambda: os.remove(os.path.join(self.checkpoints, chunk)), f"{chunk}: the file of a chunk of checkpoint 3 is gone"),
                          (lambda: cut(chunk), f"{chunk}: the chunk has 50 bytes instead of ")):
            harm()
            refused = self.resumed("--resume", self.checkpoints, code=1)
            self.assertIn(why, refused)
            self.assertIn("--resume-number 2 ", refused)
            self.assertIn("goes on from checkpoint 2 of", self.resumed("--resume", self.checkpoints, "--resume-number", "2"))
            went_on = self.resumed(*auto)
            self.assertRegex(went_on, f"does not go on from checkpoint 3 of .*{re.escape(why)}")
            self.assertIn("goes on from checkpoint 2 of", went_on)
            shutil.rmtree(self.checkpoints)
            shutil.copytree(kept, self.checkpoints)
        for name in self.names(".manifest"):
            self.damage(name, 40)
        refused = self.resumed(*auto, code=1)
        self.assertIn(f"{newest}: the manifest is damaged", refused)
        self.assertIn("no other checkpoint", refused)

    def test_a_checkpoint_is_chosen_by_its_number(self):
        self.three_checkpoints()
        self.assertIn("goes on from checkpoint 1 of", self.resumed("--resume", self.checkpoints, "--resume-number", "1"))
        missing = self.resumed("--resume", self.checkpoints, "--resume-number", "7", code=1)
        self.assertIn(f"{self.checkpoints}: there is no checkpoint 7; choose one that is there: 1, 2 and 3", missing)
        self.assertIn("--resume", self.resumed("--resume-number", "1", code=2))
        self.assertIn("--resume DIR", self.resumed("--checkpoint", self.checkpoints, "--resume", "auto", "--resume-number", "1", code=2))

    def test_a_damaged_chunk_names_the_flag_that_goes_on_from_another_checkpoint(self):
        self.three_checkpoints()
        for name in self.names(".chunk"):
            if name.startswith("000003"):
                self.damage(name, 70, 4)
        refused = self.resumed("--resume", self.checkpoints, code=1)
        self.assertRegex(refused, f"{re.escape(self.checkpoints)}/000003.*chunk is damaged.*--resume-number [12] ")

    def test_a_job_that_is_started_again_leaves_out_a_damaged_chunk(self):
        self.three_checkpoints()
        self.damage(next(name for name in self.names(".chunk") if name.startswith("000003")), 70, 4)
        went_on = self.resumed("--checkpoint", self.checkpoints, "--resume", "auto")
        self.assertRegex(went_on, "does not go on from checkpoint 3 of .*/000003.*chunk is damaged")
        self.assertIn("goes on from checkpoint 2 of", went_on)

    def test_several_managers_leave_out_the_same_checkpoint_and_write_new_ones(self):
        newest = self.three_checkpoints()[-1]
        self.damage(newest, 40)
        self.make_checkpoint("--resume", "auto", "--servers", "3", "--managers", "3", "--replicas", "1", size=4)
        self.assertEqual(self.newest(), 4)
        # As long as the damaged one is among those that stay, nothing is removed.
        with self.job("--resume", "auto") as ranks:
            ranks.start_all()
            self.assertTrue(ranks.until_training(), ranks.everything())
            os.kill(ranks.pid(0), signal.SIGUSR1)
            self.assertTrue(ranks.until(lambda: "checkpoint 5 is in" in ranks.err(0)), ranks.everything())
            self.assertIn("goes on from checkpoint 4 of", ranks.err(0))
            warning = f"old ones in .* are not removed: .*remove .*{newest}, and prune again"
            self.assertTrue(ranks.until(lambda: re.search(warning, ranks.err(0))), ranks.everything())  # it comes behind that
            pruned = self.weir("checkpoint", "prune", self.checkpoints, "--keep", "3")
            self.assertEqual(pruned.code, 1)
            self.assertIn(f"remove {self.checkpoints}/{newest}, and prune again", pruned.err)
            os.kill(ranks.pid(0), signal.SIGUSR1)
            self.assertTrue(ranks.until(lambda: "checkpoint 6 is in" in ranks.err(0)), ranks.everything())
            # Old ones go when all managers have agreed that there is this one.
            kept = ["000004.manifest", "000005.manifest", "000006.manifest"]
            self.assertTrue(ranks.until(lambda: self.names(".manifest") == kept), (self.names(".manifest"), ranks.everything()))
        self.assertEqual(self.names(".manifest"), kept)
        self.assertEqual(self.weir("checkpoint", "verify", self.checkpoints).code, 0)

    def mount_small(self, size):
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", self.checkpoints], capture_output=True, check=False)
        if mounted.returncode != 0:
            self.skipTest("this test mounts a small file system, which this user may not")
        self.addCleanup(subprocess.run, ["umount", self.checkpoints], check=False)

    def test_a_failed_checkpoint_takes_no_room_from_the_next_one(self):
        self.mount_small("16m")
        self.make_checkpoint("--shards", "8")
        disk = os.statvfs(self.checkpoints)
        needed = disk.f_blocks - disk.f_bfree
        self.assertGreaterEqual(needed, 9)
        # A job that does not go on from there writes everything anew. It has room for half of that, and later for little more than all.
        foreign = os.path.join(self.checkpoints, "foreign")
        testing.Path(foreign).write_bytes(bytes((disk.f_bfree - needed // 2) * disk.f_frsize))
        with self.job("--shards", "8") as ranks:
            ranks.start_all()
            self.assertTrue(ranks.until_training(), ranks.everything())
            os.kill(ranks.pid(0), signal.SIGUSR1)
            self.assertTrue(ranks.until(lambda: "there is no new checkpoint" in ranks.err(0)), ranks.everything())
            self.assertRegex(ranks.err(0), "make room there.*--unfinished, when no job writes there.*: No space left on device")
            self.assertTrue([name for name in self.names(".chunk") if name.startswith("000002.")])
            os.truncate(foreign, os.path.getsize(foreign) - (needed - needed // 2 + 2) * disk.f_frsize)
            os.kill(ranks.pid(0), signal.SIGUSR1)
            self.assertTrue(ranks.until(lambda: "checkpoint 3 is in" in ranks.err(0)), ranks.everything())
            self.assertEqual(ranks.err(0).count("there is no new checkpoint"), 1, ranks.everything())
        self.assertEqual([name for name in self.names(".chunk") if name.startswith("000002.")], [])
        self.assertEqual(self.weir("checkpoint", "verify", self.checkpoints).code, 0)

    def test_a_full_disk_costs_the_checkpoint_and_not_the_training(self):
        self.mount_small("4k")
        with self.job() as ranks:
            ranks.start_all()
            self.assertTrue(ranks.until_training(), ranks.everything())
            os.kill(ranks.pid(0), signal.SIGUSR1)
            self.assertTrue(ranks.until(lambda: "there is no new checkpoint" in ranks.err(0)), ranks.everything())
            self.assertRegex(ranks.err(0), "make room there.*: No space left on device")
            passes = len(re.findall("pass +", ranks.err(0)))
            self.assertTrue(ranks.until(lambda: len(re.findall("pass +", ranks.err(0))) > passes), ranks.everything())
        self.assertEqual(self.names(".manifest"), [])


if __name__ == "__main__":
    testing.main(Resume, __name__)
