#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What all commands have in common: help, man pages, completion, --json, --version; and `weir doctor`.
Usage: interface_test.py PATH-OF-WEIR FOLDER-OF-MAN-PAGES"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import lr_testing as testing
from reserved_port import ReservedPort

WEIR, FOLDER = "", Path()
LIMIT_S = 60
SUBJECTS = ("launchers", "jobs", "failures", "checkpoints", "signals", "memory", "transports", "plugins", "variables")


def weir(*words, **variables):
    return testing.run([WEIR, *words], testing.clean_environment(variables), LIMIT_S)


def commands_in(text):
    block = text.split("\nSubcommands:\n")[1] if "\nSubcommands:\n" in text else ""
    return re.findall(r"(?m)^  ([a-z-]+) ", block.split("\n\n")[0] + "\n")


def commands():
    """Every command that --help shows, with those of commands, and its help."""
    helps = {}
    todo = [()]
    while todo:
        words = todo.pop()
        helps[words] = weir(*words, "--help").out
        todo += [(*words, name) for name in commands_in(helps[words])]
    return helps


def flags_in(text):
    return set(re.findall(r"(?m)^  (?:-\w,)?(--[a-z][a-z0-9-]*)", text))


class Manual(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.helps = commands()
        cls.folder = FOLDER

    def page(self, words):
        name = "weir.1" if not words else f"weir-{words[0]}.1"
        return (self.folder / name).read_text(encoding="utf-8").replace("\\-", "-").replace("\\fB", "").replace("\\fR", "")

    def test_every_command_and_flag_is_in_its_man_page(self):
        self.assertGreater(len(self.helps), 25)
        for words, text in self.helps.items():
            page = self.page(words)
            self.assertIn("weir " + " ".join(words) if words else "weir", page)
            for flag in flags_in(text) - ({"--help"} if words else set()):  # that of weir(1)
                self.assertRegex(page, rf"(?<![\w-]){flag}(?![\w-])", f"{words}: {flag}")
        for name in commands_in(self.helps[()]):
            self.assertIn(f"weir-{name}(1)", self.page(()))

    def test_arguments_have_the_names_of_the_usage(self):
        for words, text in self.helps.items():
            usage = re.search(r"(?m)^Usage: .*\[OPTIONS\](.*)", text)
            for name in re.findall(r"\b[A-Z]{2,}\b", usage[1] if usage else ""):
                if name not in ("SUBCOMMAND", "SUBCOMMANDS"):
                    self.assertRegex(self.page(words), rf"\\fI([^\n]*\W)?{name}\b", words)

    def test_the_synopsis_has_what_is_needed_and_brackets_round_what_is_not(self):
        for words, synopsis in ((("lr",), r"weir lr --train \\fI\S+\.\.\. \[\\fIFLAGS]"), (("status",), r"weir status \[\\fIFLAGS] \\fIHOST:PORT\|FILE|weir status \[\\fIFLAGS] \\fIJOB\n"),
                                (("help",), r"weir help \[\\fIFLAGS] \[\\fISUBJECT\.\.\.\]"), (("run",), r"weir run --ranks \\fIN \[\\fIFLAGS] \\fI-- PROGRAM ARGUMENTS\.\.\.")):
            self.assertRegex(self.page(words), synopsis)
        for words in (("status",), ("leave",), ("stop",), ("checkpoint", "now")):
            self.assertRegex(self.helps[words], r"(?m)^Usage: .* JOB$", words)
        for words in (("checkpoint", "list"), ("checkpoint", "export")):
            self.assertRegex(self.helps[words], r"(?m)^Usage: .* DIR$", words)

    def test_exit_codes_are_said_once_and_nothing_is_to_be_seen_below(self):
        codes = {}
        for words in ((), *((name,) for name in commands_in(self.helps[()]))):
            page = self.page(words)
            self.assertNotIn("see below", page, words)
            self.assertEqual(page.count("wrong flags or variables"), 1, words)
            codes[words] = page.split(".SH EXIT STATUS\n")[1].splitlines()[0]
        self.assertIn("what the first rank that failed returned", codes[("run",)])
        self.assertEqual(codes[("status",)], "0: done; 1: failed; 2: wrong flags or variables")
        self.assertIn("130, 143: stopped by SIGINT, SIGTERM", codes[("lr",)])
        self.assertIn(codes[()].replace("`", ""), self.helps[()].replace("`", ""))

    def test_every_command_and_flag_is_completed(self):
        script = self.folder / "weir.bash"
        for words, text in self.helps.items():
            wanted = flags_in(text)
            ask = f'. {script}; COMP_WORDS=(weir {" ".join(words)} --); COMP_CWORD={len(words) + 1}; _weir; printf "%s\\n" "${{COMPREPLY[@]}}"'
            found = subprocess.run(["bash", "-eu", "-c", ask], capture_output=True, text=True, check=True, timeout=LIMIT_S).stdout.split()
            self.assertEqual(wanted - set(found), set(), words)
            names = commands_in(text)
            if names:
                ask = ask.replace(" --)", " '')")
                found = subprocess.run(["bash", "-eu", "-c", ask], capture_output=True, text=True, check=True, timeout=LIMIT_S).stdout.split()
                self.assertEqual(set(names) - set(found), set(), words)

    def test_man_reads_the_pages_without_a_warning(self):
        if shutil.which("groff") is None:
            self.skipTest("groff is not installed")
        for page in sorted(self.folder.glob("*.1")):
            done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-P-cbou", page], capture_output=True, text=True, check=False, timeout=LIMIT_S)
            self.assertEqual((done.returncode, done.stderr), (0, ""), page)
            self.assertIn("SYNOPSIS", done.stdout)

    def test_pages_show_every_form_of_a_command(self):
        plain = {page.stem: re.sub(r"\\f[BIR]|\\(?=-)", "", page.read_text()) for page in self.folder.glob("*.1")}
        self.assertIn("weir lr --train TEXT... [FLAGS]\n.br\nweir lr --join HOST:PORT|FILE [FLAGS]\n", plain["weir-lr"])
        forms = plain["weir-checkpoint"].partition(".SH SYNOPSIS\n")[2].partition(".SH ")[0].split(".br\n")
        self.assertEqual([form.split()[2] for form in forms], commands_in(weir("checkpoint", "--help").out))
        self.assertIn("weir-lr(1),", plain["weir"].partition(".SH SEE ALSO\n")[2])


class Help(unittest.TestCase):
    def test_subjects_are_explained_in_lines_that_a_terminal_shows(self):
        for subject in SUBJECTS:
            done = weir("help", subject)
            self.assertEqual(done.code, 0, done)
            self.assertLessEqual(max(map(len, done.out.splitlines())), 100, subject)
            self.assertIn(subject, weir("--help").out)

    def test_alone_it_prints_the_help_of_weir_and_lists_the_subjects(self):
        done = weir("help")
        self.assertEqual(done.code, 0, done)
        self.assertTrue(done.out.startswith(weir("--help").out), done)
        listed = done.out.split("\nSubjects:\n")[1].splitlines()
        self.assertEqual([line.split()[0] for line in listed], list(SUBJECTS))
        self.assertTrue(all(len(line.split()) > 2 for line in listed), listed)

    def test_a_command_that_needs_another_names_those_that_there_are(self):
        for name, some in (("checkpoint", "now, list, "), ("bench", "push, pull, ")):
            done = weir(name)
            self.assertEqual(done.code, 2, done)
            self.assertIn(f"a command is missing; choose one of: {some}", done.err)
            self.assertIn(f"Try `weir {name} --help`", done.err)

    def test_checkpoint_says_by_what_one_is_written(self):
        said = re.sub(r"\s+", " ", weir("lr", "--help").out).split("--checkpoint DIR ")[1].split("--checkpoint-every TIME")[0]
        for what in ("weir checkpoint now", "weir stop", "SIGUSR1"):
            self.assertIn(what, said)

    def test_commands_are_explained_as_by_their_own_flag(self):
        for words in (("lr",), ("bench", "push"), ("checkpoint", "now")):
            self.assertEqual(weir("help", *words).out, weir(*words, "--help").out)

    def test_what_is_neither_is_named(self):
        done = weir("help", "nonsense")
        self.assertEqual(done.code, 2)
        self.assertIn("there is no help for 'nonsense'; name a command, or one of: launchers, ", done.err)

    def test_commands_that_the_subjects_name_exist(self):
        helps = {words[0] for words in commands() if words}
        for subject in SUBJECTS[:-1]:
            for name in re.findall(r"\bweir ([a-z]+)", weir("help", subject).out):
                self.assertIn(name, helps, subject)

    def test_one_flag_means_the_same_everywhere(self):
        meanings = {}
        for words, text in commands().items():
            for flag in ("--json", "--servers", "--shards", "--workers", "--replicas", "--on-worker-loss"):
                found = re.search(rf"(?ms)^  {flag} (.*?)(?=^  -|^\S|\Z)", text)
                if found:
                    meaning = re.sub(r"\s+", " ", re.sub(r"; sets WEIR_\w+|UINT=\d+|^N |default: \w+", "", found[1])).strip()
                    meanings.setdefault(flag, {}).setdefault(meaning, []).append(words)
        for flag, by_meaning in meanings.items():
            self.assertEqual(len(by_meaning), 1, (flag, by_meaning))
        for words, text in commands().items():
            if words and words != ("help",) and not commands_in(text):
                self.assertIn(words, next(iter(meanings["--json"].values())))

    def test_version_names_what_it_was_built_with(self):
        lines = weir("--version").out.splitlines()
        self.assertRegex(lines[0], r"^weir \d+\.\d+\.\d+$")
        self.assertRegex(lines[1], r"^built with .*")
        for part in ("verbs", "rdmacm", "pmix", "jemalloc", "hwloc", "raft"):
            self.assertIn(part, lines[1])
        self.assertRegex(lines[2], r"^by (g\+\+|clang) .*, build type \w+$")


class Errors(unittest.TestCase):
    def test_they_name_the_variable_or_the_flag_that_gave_the_value(self):
        with tempfile.TemporaryDirectory(prefix="weir-errors-") as folder:
            testing.write(f"{folder}/train.svm", testing.text_like())
            train = ("lr", "--train", f"{folder}/train.svm")
            for words, variables, says in (
                ((), {"WEIR_MANAGERS": "2"}, "WEIR_MANAGERS=2: must be 1, 3, 5 or 7"),
                (("--managers", "3"), {"WEIR_MANAGERS": "5"}, "--managers 3 needs at least 3 processes"),
                ((), {"WEIR_REPLICAS": "1"}, "WEIR_REPLICAS=1 needs at least 2 servers"),
                (("--replicas", "1"), {}, "--replicas 1 needs at least 2 servers"),
                ((), {"WEIR_WORK_LEASE_S": "3"}, "WEIR_WORK_LEASE_S=3: must be 0"),
            ):
                done = weir(*train, *words, **variables)
                self.assertEqual(done.code, 2, done)
                self.assertIn(says, done.err)


class Json(unittest.TestCase):
    def test_what_is_not_known_is_shown_as_it_was_given(self):
        for words in (("help", "--json"), ("--json",)):
            done = weir(*words)
            self.assertEqual(done.code, 2, done)
            self.assertIn("unknown flag --json\n", done.err)

    def test_a_written_file_is_told_with_its_size(self):
        with tempfile.TemporaryDirectory(prefix="weir-json-") as folder:
            done = weir("synth", "--out", f"{folder}/some", "--examples", "100", "--json")
            self.assertEqual(done.code, 0, done)
            found = json.loads(done.out)
            self.assertEqual((found["file"], found["examples"], found["bytes"]), (f"{folder}/some", 100, os.path.getsize(f"{folder}/some")))
            done = weir("synth", "--out", f"{folder}/some", "--examples", "100", "--json", f"{folder}/some")
            self.assertEqual(done.code, 2, done)

    def test_with_a_file_it_is_written_there_and_the_text_is_printed(self):
        with tempfile.TemporaryDirectory(prefix="weir-json-") as folder:
            done = weir("info", "--json", f"{folder}/info.json")
            self.assertEqual(done.code, 0, done)
            self.assertIn("Transports\n", done.out)
            self.assertIn("version", testing.read_json(f"{folder}/info.json"))

    def test_without_one_it_is_printed_in_place_of_the_text(self):
        for words in (("info", "--json"), ("info", "--json", "-f"), ("info", "--json", "-"), ("info", "--json=-"), ("doctor", "--json")):
            self.assertIsInstance(json.loads(weir(*words).out), dict, words)

    def test_the_text_of_a_bench_gives_way_to_its_json(self):
        done = weir("bench", "latency", "--local", "--brief", "--json", **testing.POOL)
        self.assertEqual(done.code, 0, done)
        self.assertIsInstance(json.loads(done.out), dict)
        self.assertIn("round trip", done.err)

    def test_a_word_that_the_command_needs_is_no_file(self):
        with tempfile.TemporaryDirectory(prefix="weir-json-") as folder:
            self.assertEqual(weir("checkpoint", "list", "--json", folder).out, weir("checkpoint", "list", folder, "--json").out)
            self.assertEqual(os.listdir(folder), [])
        done = weir("checkpoint", "list", "--json")
        self.assertEqual(done.code, 2)
        self.assertIn("DIR is required", done.err)

    def test_a_file_that_cannot_be_written_is_named(self):
        done = weir("info", "--json", "/nowhere/info.json")
        self.assertEqual(done.code, 1)
        self.assertIn("/nowhere/info.json", done.err)


class OldNames(unittest.TestCase):
    def test_a_variable_of_a_device_is_read_by_its_old_name_with_a_warning(self):
        done = weir("info", "-f", "--json", WEIR_SERVICE_LEVEL="3")
        self.assertIn("WEIR_SERVICE_LEVEL is called WEIR_RDMA_SERVICE_LEVEL now; the next version does not know the old name", done.err)
        self.assertEqual(done.err.count("WEIR_SERVICE_LEVEL"), 1)
        variables = {one["name"]: one for one in json.loads(done.out)["variables"]}
        self.assertEqual(variables["WEIR_RDMA_SERVICE_LEVEL"]["value"], "3")
        self.assertNotIn("WEIR_SERVICE_LEVEL", variables)

    def test_the_new_name_counts_more(self):
        done = weir("info", "-f", "--json", WEIR_SERVICE_LEVEL="3", WEIR_RDMA_SERVICE_LEVEL="4")
        self.assertIn("which is set, too, and counts", done.err)
        variables = {one["name"]: one for one in json.loads(done.out)["variables"]}
        self.assertEqual(variables["WEIR_RDMA_SERVICE_LEVEL"]["value"], "4")

    def test_an_error_names_the_one_that_was_given(self):
        done = weir("synth", "--out", "/dev/null", WEIR_SERVICE_LEVEL="99")
        self.assertEqual(done.code, 2)
        self.assertIn("WEIR_SERVICE_LEVEL=99: must be", done.err)


class Doctor(unittest.TestCase):
    def findings(self, **variables):
        done = weir("doctor", "--json", **variables)
        findings = json.loads(done.out)["findings"]
        self.assertEqual(done.code, 1 if any(one["level"] == "problem" for one in findings) else 0, done)
        return {one["subject"]: one for one in findings}

    def test_each_finding_that_is_not_good_says_what_to_do(self):
        found = self.findings()
        self.assertLessEqual({"versions", "name", "address", "ports", "secret", "shm", "verbs", "tcp", "locked memory", "memory", "open files", "/dev/shm"},
                             set(found))
        for one in found.values():
            self.assertIn(one["level"], ("good", "note", "problem"))
            self.assertTrue(one["level"] == "good" or one["advice"], one)

    def test_the_text_says_the_same(self):
        text = weir("doctor").out
        for one in self.findings().values():
            self.assertIn(one["subject"], text)
        self.assertRegex(text.splitlines()[-1], r"^\d+ problems?, \d+ notes?$")

    def test_wrong_settings_are_problems(self):
        with ReservedPort() as port:
            for name, value, subject in (("WEIR_BIND", "203.0.113.77", "address"), ("WEIR_SECRET_FILE", "/nowhere", "secret"),
                                         ("WEIR_RENDEZVOUS", "here", "rendezvous"), ("WEIR_PIN", "perhaps", "variables"),
                                         ("WEIR_RENDEZVOUS", f"no.such.host.invalid:{port}", "rendezvous")):
                one = self.findings(**{name: value})[subject]
                self.assertEqual(one["level"], "problem", one)
                self.assertTrue(one["advice"], one)

    def problems(self, **variables):
        return [one for one in json.loads(weir("doctor", "--json", **{**testing.POOL, **variables}).out)["findings"] if one["level"] == "problem"]

    def test_what_stops_a_job_is_a_problem_with_what_to_do(self):
        """A problem says what the job's error says, but for the names of flags and variables."""
        rank = {"WEIR_RENDEZVOUS": "127.0.0.1:1", "WEIR_SIZE": "2"}
        with tempfile.TemporaryDirectory(prefix="weir-doctor-") as folder:
            self.assertEqual(weir("synth", "--out", f"{folder}/part.svm", "--examples", "50", "--features", "200").code, 0)
            for variables, words in (
                ({"WEIR_TRANSPORT": "verbs"}, "WEIR_TRANSPORT=verbs: "), ({"WEIR_HUGE_PAGES": "always", "WEIR_POOL_MIB": "16777216"}, "huge pages of"),
                ({"WEIR_CHECKPOINT_DIR": "/nowhere"}, "WEIR_CHECKPOINT_DIR: /nowhere"), ({"WEIR_RESUME": "/nowhere"}, "WEIR_RESUME: /nowhere"),
                ({"WEIR_RESUME": folder}, f"WEIR_RESUME: {folder}"), ({"WEIR_PLUGINS": "/nowhere.so"}, "WEIR_PLUGINS: the plugin /nowhere.so"),
                ({"WEIR_PORT": "65535", "WEIR_SHARDS": "2", "WEIR_TRANSPORT": "tcp"}, "no port left above the first one (WEIR_PORT)"),
                ({**rank, "WEIR_RANK": "0", "WEIR_RENDEZVOUS": "203.0.113.77:7070"}, "203.0.113.77:7070"),
                ({"WEIR_RESUME": "auto"}, "go on from the job's own checkpoints (WEIR_RESUME=auto)"),
                ({"WEIR_CHECKPOINT_EVERY_S": "9"}, "WEIR_CHECKPOINT_EVERY_S: there is no folder"),
                ({"WEIR_CONTACT_FILE": "/nowhere/contact"}, "WEIR_CONTACT_FILE: contact file /nowhere/contact"),
                ({"WEIR_CONTACT_FILE": f"{folder}/part.svm"}, f"WEIR_CONTACT_FILE: contact file {folder}/part.svm"),
                ({**rank, "WEIR_RANK": "0", "WEIR_SECRET_FILE": "/nowhere"}, "WEIR_SECRET_FILE=/nowhere: cannot open it"),
                ({"WEIR_MANAGERS": "2"}, "WEIR_MANAGERS=2: must be 1, 3, 5 or 7"), ({"WEIR_WORK_LEASE_S": "3"}, "WEIR_WORK_LEASE_S=3: must be 0"),
                ({"WEIR_REPLICAS": "2"}, "WEIR_REPLICAS=2 needs at least 3 servers"), ({"WEIR_REPLICAS": "3"}, "WEIR_REPLICAS=3: must be"),
                ({"WEIR_SHARDS": "4096", "WEIR_SERVERS": "17"}, "69632 shards are more than"), ({"WEIR_WORKERS": "x"}, "WEIR_WORKERS=x: must be"),
                ({**rank, "WEIR_RANK": "2"}, "WEIR_RANK=2: ranks of a job of 2 are 0 to 1"), ({**rank, "WEIR_RANK": "x"}, "WEIR_RANK=x: must be"),
                ({**rank, "WEIR_RANK": "0", "WEIR_SERVERS": "3"}, "3 needs at least 4 ranks, but the job has 2"),
                ({"WEIR_RANK": "1"}, "the size of the job is missing"), ({"WEIR_SIZE": "2"}, "ranks started by hand also need"),
            ):
                with self.subTest(**variables):
                    if variables == {"WEIR_TRANSPORT": "verbs"} and self.findings()["verbs"]["level"] == "good":
                        print("skipped: this machine has verbs")
                        continue
                    job = weir("lr", "--train", f"{folder}/part.svm", **{**testing.POOL, **variables})
                    self.assertNotEqual(job.code, 0, job)
                    self.assertIn(words, job.err)
                    problems = self.problems(**variables)
                    self.assertEqual([words in one["says"] for one in problems], [True], problems)
                    self.assertTrue(problems[0]["advice"], problems)

    def test_settings_that_a_job_can_have_are_no_problem(self):
        with tempfile.TemporaryDirectory(prefix="weir-doctor-") as folder:
            self.assertEqual(self.problems(WEIR_CHECKPOINT_DIR=folder, WEIR_RESUME="auto", WEIR_CONTACT_FILE=f"{folder}/contact", WEIR_SERVERS="3",
                                           WEIR_REPLICAS="2", WEIR_TRANSPORT="tcp", WEIR_HUGE_PAGES="never"), [])
            self.assertEqual(os.listdir(folder), [])

    def test_an_address_does_not_matter_to_a_job_of_shared_memory(self):
        self.assertEqual(self.findings(WEIR_BIND="203.0.113.77", WEIR_TRANSPORT="shm", **testing.POOL)["address"]["level"], "note")

    def test_it_does_not_take_the_memory_of_a_job(self):
        doctor = subprocess.Popen([WEIR, "doctor"], stdout=subprocess.DEVNULL, env=testing.clean_environment({"WEIR_PREFAULT": "yes", "WEIR_POOL_MIB": "512"}))
        _, status, used = os.wait4(doctor.pid, 0)
        doctor.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(doctor.returncode, 0)
        self.assertLess(used.ru_maxrss, 256 * 1024)  # KiB

    def test_ranks_of_a_launcher_have_no_problem(self):
        done = weir("run", "-n", "2", "--", WEIR, "doctor", **testing.POOL)
        self.assertEqual(done.code, 0, done)
        self.assertEqual(done.out.count(" 0 problems, "), 2, done.out)

    def test_a_rank_that_is_numbered_later_is_a_note(self):
        with ReservedPort() as port:
            found = self.findings(WEIR_RENDEZVOUS=f"127.0.0.1:{port}", WEIR_SIZE="3", **testing.POOL)
            self.assertEqual(found["ranks"]["level"], "note", found)

    def pair(self, caller=None, listener=None):
        """What the second of two says of the first, and what that printed."""
        with ReservedPort() as port:
            first = subprocess.Popen([WEIR, "doctor", "--listen", f"127.0.0.1:{port}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                     text=True, env=testing.clean_environment({**testing.POOL, **(listener or {})}))
            self.assertIn(f"waits for `weir doctor 127.0.0.1:{port}`", first.stdout.readline())
            done = weir("doctor", f"127.0.0.1:{port}", "--json", **testing.POOL, **(caller or {}))
            out, err = first.communicate(timeout=LIMIT_S)
            return done, first.returncode, out + err

    def test_two_of_them_measure_each_transport_beside_its_limit(self):
        done, code, said = self.pair()
        self.assertEqual((done.code, code), (0, 0), (done, said))
        found = {one["subject"]: one for one in json.loads(done.out)["findings"]}
        self.assertRegex(found["network there"]["says"], r"^[\d.]+ [GM]B/s over a plain TCP stream$")
        self.assertRegex(found["tcp there"]["says"], r"^[\d.]+ [GM]B/s, [\d.]+ of the [\d.]+ [GM]B/s of a plain TCP stream$")
        self.assertRegex(found["shm there"]["says"], r"^[\d.]+ [GM]B/s, [\d.]+ of the [\d.]+ [GM]B/s that one core copies$")
        self.assertTrue("does not work" in found["verbs there"]["says"] or "GB/s" in found["verbs there"]["says"] or "MB/s" in found["verbs there"]["says"])
        self.assertNotIn("unset WEIR_TRANSPORT", done.out)
        self.assertIn("has come", said)

    def test_a_forced_transport_that_does_not_work_between_them_is_a_problem(self):
        done, _, _ = self.pair(caller={"WEIR_TRANSPORT": "verbs"})
        found = {one["subject"]: one for one in json.loads(done.out)["findings"]}["verbs there"]
        self.assertTrue(found["level"] == "problem" if "does not work" in found["says"] else "B/s" in found["says"], found)

    def test_another_version_at_the_other_host_ends_the_talk(self):
        with socket.create_server(("127.0.0.1", 0)) as other:
            caller = subprocess.Popen([WEIR, "doctor", f"127.0.0.1:{other.getsockname()[1]}", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                      text=True, env=testing.clean_environment(testing.POOL))
            other.settimeout(LIMIT_S)
            talk, _ = other.accept()
            with talk, talk.makefile("rw") as lines:
                self.assertRegex(lines.readline(), r"^weir-doctor \d+\.\d+\.\d+ ")
                lines.write("0.999.0 elsewhere file\n")
                lines.flush()
                out, err = caller.communicate(timeout=LIMIT_S)
            self.assertEqual(caller.returncode, 1, err)
            found = {one["subject"]: one for one in json.loads(out)["findings"]}
            self.assertEqual(found["version there"]["level"], "problem")
            self.assertIn("weir 0.999.0, and ", found["version there"]["says"])
            self.assertNotIn("network there", found)

    def test_a_secret_that_only_one_of_them_has_is_named(self):
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"0123456789abcdef0123456789abcdef")
            file.flush()
            done, _, _ = self.pair(listener={"WEIR_SECRET_FILE": file.name})
            self.assertEqual(done.code, 2, done)
            self.assertIn("the other host has a WEIR_SECRET_FILE; set it here, too", done.err)

    def test_nobody_at_the_other_host_is_named(self):
        with ReservedPort() as port:
            done = weir("doctor", f"127.0.0.1:{port}")
            self.assertEqual(done.code, 1)
            self.assertIn(f"127.0.0.1:{port}: cannot be reached; start `weir doctor --listen {port}` there", done.err)
            done = weir("doctor", "--listen", str(port), "--wait", "1")
            self.assertEqual(done.code, 1)
            self.assertIn("nobody has come within 1 s (--wait)", done.err)

    def test_a_port_on_which_somebody_listens_is_a_problem(self):
        with ReservedPort() as port:
            with socket.socket() as listener:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind(("0.0.0.0", port))
                listener.listen()
                self.assertEqual([f"WEIR_PORT={port}" in one["says"] for one in self.problems(WEIR_PORT=str(port), WEIR_TRANSPORT="tcp")], [True])
                self.assertEqual(self.findings(WEIR_RENDEZVOUS=f"127.0.0.1:{port}")["rendezvous"]["level"], "note")
            self.assertEqual(self.problems(WEIR_PORT=str(port), WEIR_TRANSPORT="tcp"), [])


if __name__ == "__main__":
    WEIR = os.path.abspath(sys.argv.pop(1))
    FOLDER = Path(os.path.abspath(sys.argv.pop(1)))
    unittest.main(verbosity=2)
