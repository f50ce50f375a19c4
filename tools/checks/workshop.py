# SPDX-License-Identifier: Apache-2.0
"""Shared by the phases: runs commands with a log and a time limit, and makes the build folders."""

import json
import os
import signal
import subprocess
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace


class Failure(Exception):
    """A phase cannot continue. The text is the reason in one line; the log has the details."""


@dataclass
class Outcome:
    passed: int = 0
    failed: int = 0
    note: str = ""


CLANG = {"CC": "clang-14", "CXX": "clang++-14"}
# Most of a compiler's work on one file is its headers: many files are compiled at a time.
TOGETHER = ["-Dunity=on", "-Dunity_size=24"]
# Reports of sanitizers name file and line with it, and it compiles faster than -g.
LINES = "-gline-tables-only"
SANITIZED = [*TOGETHER, "-Dbuildtype=debugoptimized", "-Doptimization=1", "-Ddebug=false", "-Db_lundef=false", "-Dbenchmarks=disabled"]
FUZZED = ["-Db_sanitize=address,undefined", "-Dfuzz=true"]
# ASan finds accesses beyond an object.
ASAN_FLAGS = f"{LINES} -fno-sanitize-recover=all -fno-sanitize=object-size"
NO_OPTIONAL_PARTS = [f"-D{part}=disabled" for part in ("verbs", "rdmacm", "pmix", "jemalloc", "hwloc", "raft")]

# Tests of what has threads, of whole jobs, and of code that stands in for an optional part.
THREADED = ("base", "pool", "shm", "tcp", "transport", "conformance", "checkpoint", "consensus", "bootstrap", "node", "job", "data", "apps", "limits", "worker", "store", "lr")


@dataclass
class Build:
    """A build folder. Warnings are errors in all of them."""

    compiler: dict
    options: list  # of meson
    suites: tuple = ()  # whose programs are built; none: all is built
    names: tuple = ()  # of tests: those of `suites` alone
    targets: tuple = ()  # beside them
    folder: str = ""  # if not that of its own name


ASAN = Build(CLANG, [*SANITIZED, *FUZZED, f"-Dcpp_args={ASAN_FLAGS}"], ("unit", "conformance"), targets=("fuzz-targets",))
BUILDS = {
    "release": Build({"CXX": "g++"}, ["-Dbuildtype=release", *TOGETHER]),
    "asan": ASAN,
    "asan-system": replace(ASAN, suites=("system", "system-long"), targets=(), folder="asan"),
    # Threads, and the code that stands in for optional parts, in one build: the same tests are about both.
    "tsan": Build(
        CLANG, [*SANITIZED, "-Db_sanitize=thread", f"-Dcpp_args={LINES}", *NO_OPTIONAL_PARTS], ("unit", "conformance"), THREADED, ("library", "tools/weir")
    ),
    # Coverage in all of the library guides the fuzzer. The other tests would be slower by it.
    "fuzz": Build(CLANG, [*SANITIZED, *FUZZED, f"-Dcpp_args={ASAN_FLAGS} -fsanitize=fuzzer-no-link"], targets=("fuzz-targets",)),
}

# Background builds use the processor time that the phases leave. Where the kernel schedules whole sessions, autogroup lowers their
# priority; elsewhere nice does.
BEHIND = ["sh", "-c", 'echo 19 2>/dev/null >/proc/self/autogroup; exec nice -n 19 "$@"', "behind"]
# Ends what hangs. No part of a check takes a third of it, also beside other programs on all processors.
HANGS_S = 9000

RUNTIME = {
    # Memory that is given back to the system and taken again costs more than what is looked for in it.
    "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1"
    ":allocator_release_to_os_interval_ms=-1:quarantine_size_mb=64",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}


def introspected(folder, what):
    return json.loads(subprocess.run(["meson", "introspect", f"--{what}", folder], capture_output=True, text=True, check=True).stdout)


def of_suites(folder, suites, names=()):
    """The tests of `suites` in a build folder, or those of them that `names` lists, as meson describes them, with whole paths."""
    wanted = {f"weir:{suite}" for suite in suites}
    tests = [test for test in introspected(folder, "tests") if wanted & set(test["suite"]) and (not names or test["name"] in names)]
    if missing := set(names) - {test["name"] for test in tests}:
        raise Failure(f"no test of {', '.join(suites)} has the name {', '.join(sorted(missing))}")
    return [{**test, "cmd": [whole_path(folder, word) for word in test["cmd"]]} for test in tests]


def whole_path(folder, word):
    """A word of a test's command. Meson gives the programs that a script gets as arguments as paths from the build folder."""
    return os.path.normpath(folder / word) if "/" in word and (folder / word).is_file() else word


def programs_of(folder, build):
    """The targets of ninja that the tests of a build need."""
    needed = {target for test in of_suites(folder, build.suites, build.names) for target in test["depends"]}
    files = [file for target in introspected(folder, "targets") if target["id"] in needed for file in target["filename"]]
    return sorted(os.path.relpath(file, folder) for file in files)


class Workshop:
    def __init__(self, root, folder, jobs, repeat):
        self.root, self.dir, self.jobs = root, folder, jobs
        self.repeat = repeat  # tests that have passed, too
        self.phase = ""
        self._builds = {}  # name: future folder
        self._builder = ThreadPoolExecutor(1)
        self._running = set()
        self.cpu_s = Counter()  # of the commands of each log
        self.build_s = {}  # how long each build took
        (self.dir / "logs").mkdir(parents=True, exist_ok=True)

    def log_file(self, name=None):
        return self.dir / "logs" / f"{name or self.phase}.log"

    def begin(self, phase):
        self.phase = phase
        self.log_file().write_text("")

    def log(self, text):
        with self.log_file().open("a") as log:
            log.write(text.rstrip("\n") + "\n")

    def run(self, command, seconds=HANGS_S, env=None, cwd=None, check=True, log=None):
        """Runs a command with its output in the phase's log, or in the log named `log`, and returns its exit code. Kills its whole process
        group after `seconds`."""
        command = [str(word) for word in command]
        with self.log_file(log).open("ab") as output:
            output.write(f"$ {' '.join(command)}\n".encode())
            output.flush()
            code = self._end(command, subprocess.DEVNULL, output, {**self._ccache(), **(env or {})}, seconds, log or self.phase, cwd)
        if check and code != 0:
            raise Failure(f"{os.path.basename(command[0])} returned {code}; see the log")
        return code

    def output_of(self, command, text="", seconds=HANGS_S):
        """(exit code, output) of a command that gets `text` as its input; for commands that run beside each other."""
        with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as output:
            source.write(text.encode())
            source.seek(0)
            code = self._end([str(word) for word in command], source, output, {}, seconds, self.phase)
            output.seek(0)
            return code, output.read().decode(errors="replace")

    def _end(self, command, source, output, env, seconds, name, cwd=None):
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, stdin=source, cwd=cwd or self.root, env={**os.environ, **RUNTIME, **env},
            start_new_session=True,
        )
        self._running.add(process)
        try:
            return self._wait(process, seconds, name)
        except subprocess.TimeoutExpired:
            self._kill(process)
            raise Failure(f"{command[0]} did not end within {seconds} s and was killed") from None
        except BaseException:
            self._kill(process)
            raise
        finally:
            self._running.discard(process)

    def _wait(self, process, seconds, name):
        """As process.wait(), and adds the processor time of the command and of its children to that of `name`."""
        start = time.monotonic()
        while True:
            ended, status, used = os.wait4(process.pid, os.WNOHANG)
            if ended:
                self.cpu_s[name] += used.ru_utime + used.ru_stime
                process.returncode = os.waitstatus_to_exitcode(status)
                return process.returncode
            if time.monotonic() - start > seconds:
                raise subprocess.TimeoutExpired(process.args, seconds)
            time.sleep(0.02)

    def build_behind(self, names):
        """Starts these BUILDS in the background, one after the other. The phases mostly wait for clocks and single processes, and leave
        processor time to them."""
        for name in names:
            if name not in self._builds:
                self._builds[name] = self._builder.submit(self._build, name)

    def build(self, name):
        """The folder of one of BUILDS, configured and built (once per run)."""
        self.build_behind([name])
        try:
            while not self._builds[name].done():
                self._hurry()
                wait([self._builds[name]], 0.5)
            return self._builds[name].result()
        except Failure as failure:
            self.log(self.log_file(f"build-{name}").read_text(errors="replace"))
            raise Failure(f"the {name} build failed: {failure}") from None

    def _hurry(self):
        """A phase waits for the builds that run: they get the processor time of other programs, where this user may do so."""
        for process in list(self._running):
            try:
                os.setpriority(os.PRIO_PROCESS, process.pid, 0)
                with open(f"/proc/{process.pid}/autogroup", "w", encoding="ascii") as group:
                    group.write("0")
            except OSError:
                pass

    def close(self):
        """Kills the commands that still run."""
        self._builder.shutdown(wait=False, cancel_futures=True)
        for process in list(self._running):
            self._kill(process)

    def _build(self, name):
        start = time.monotonic()
        build = BUILDS[name]
        folder, log = self.dir / f"build-{build.folder or name}", f"build-{name}"
        self.log_file(log).write_text("")
        compiler = {**build.compiler, "CXX": f"ccache {build.compiler['CXX']}"} if self._ccache() else build.compiler
        setup = ["meson", "setup", folder, self.root, "-Dwerror=true", f"--prefix={self.dir / 'installed'}", *build.options]
        stamp, wanted = folder / ".set-up-as", " ".join(str(word) for word in [*compiler.values(), *setup])
        if not (folder / "build.ninja").exists() or not stamp.exists() or stamp.read_text() != wanted:
            self.run([*BEHIND, *setup, *(["--wipe"] if (folder / "meson-private").exists() else [])], env=compiler, log=log)
            stamp.write_text(wanted)
        self.run([*BEHIND, "ninja", "-C", folder, f"-j{self.jobs}", *build.targets, *programs_of(folder, build)], env=compiler, log=log)
        self.build_s[name] = time.monotonic() - start
        return folder

    def _ccache(self):
        """Settings with which equal files of different build folders and clones share one cached object, without preprocessing."""
        if not any(os.access(os.path.join(path, "ccache"), os.X_OK) for path in os.get_exec_path()):
            return {}
        return {"CCACHE_BASEDIR": str(self.root), "CCACHE_NOHASHDIR": "1", "CCACHE_DEPEND": "1"}

    @staticmethod
    def _kill(process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
