# SPDX-License-Identifier: Apache-2.0
"""What the phases share: running commands with a log and a time limit, and the build folders."""

import os
import signal
import subprocess
from dataclasses import dataclass


class Failure(Exception):
    """A phase cannot go on; the text says why in one line, the log has the rest."""


@dataclass
class Outcome:
    passed: int = 0
    failed: int = 0
    note: str = ""


# No other build has objects in common with these: ccache need not preprocess every file to find them by what comes out.
CLANG = {"CC": "clang-14", "CXX": "clang++-14", "CCACHE_DEPEND": "1"}
NO_OPTIONAL_PARTS = [f"-D{part}=disabled" for part in ("verbs", "rdmacm", "pmix", "jemalloc", "hwloc")]
# Enough for a report to name file and line, and quicker to compile than all of -g.
LINES = "-gline-tables-only"
# Sanitized code is compiled several files at a time: the library itself is the smaller part of what a compiler sees of a file.
SANITIZED = [
    "-Dbuildtype=debugoptimized", "-Doptimization=1", "-Ddebug=false", "-Db_lundef=false", "-Dbenchmarks=disabled", "-Dprogram=false",
    "-Dunity=on", "-Dunity_size=8",
]

# Each build folder: the compiler, and what meson is told. Every one makes warnings errors.
BUILDS = {
    "release": ({"CXX": "g++"}, ["-Dbuildtype=release"]),
    "asan": (
        CLANG,
        [*SANITIZED, "-Db_sanitize=address,undefined", "-Dfuzz=true", f"-Dcpp_args={LINES} -fsanitize=fuzzer-no-link -fno-sanitize-recover=all"],
    ),
    "tsan": (CLANG, [*SANITIZED, "-Db_sanitize=thread", f"-Dcpp_args={LINES}"]),
    "plain": ({"CXX": "g++"}, ["-Dbuildtype=release", "-Dbenchmarks=disabled", *NO_OPTIONAL_PARTS]),
}

RUNTIME = {
    "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}


class Workshop:
    def __init__(self, root, folder, jobs):
        self.root, self.dir, self.jobs = root, folder, jobs
        self.phase = ""
        self._built = {}
        (self.dir / "logs").mkdir(parents=True, exist_ok=True)

    def log_file(self, name=None):
        return self.dir / "logs" / f"{name or self.phase}.log"

    def begin(self, phase):
        self.phase = phase
        self.log_file().write_text("")

    def log(self, text):
        with self.log_file().open("a") as log:
            log.write(text.rstrip("\n") + "\n")

    def run(self, command, seconds=900, env=None, cwd=None, check=True):
        """Runs a command into the phase's log and returns its exit code; past `seconds` its whole process group is killed."""
        command = [str(word) for word in command]
        with self.log_file().open("ab") as log:
            log.write(f"$ {' '.join(command)}\n".encode())
            log.flush()
            process = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=cwd or self.root,
                env={**os.environ, **RUNTIME, **self._ccache(), **(env or {})}, start_new_session=True,
            )
            try:
                code = process.wait(timeout=seconds)
            except subprocess.TimeoutExpired:
                self._kill(process)
                raise Failure(f"{command[0]} did not end within {seconds} s") from None
            except BaseException:
                self._kill(process)
                raise
        if check and code != 0:
            raise Failure(f"{os.path.basename(command[0])} returned {code}")
        return code

    def build(self, name):
        """Configures and builds one of BUILDS (once per run) and returns its folder."""
        if name not in self._built:
            try:
                self._built[name] = self._build(name)
            except Failure as failure:
                self._built[name] = failure
                raise
        if isinstance(self._built[name], Failure):
            raise Failure(f"needs the {name} build, which failed")
        return self._built[name]

    def _build(self, name):
        compiler, options = BUILDS[name]
        folder = self.dir / f"build-{name}"
        if self._ccache():
            compiler = {**compiler, "CXX": f"ccache {compiler['CXX']}"}
        setup = ["meson", "setup", folder, self.root, "-Dwerror=true", f"--prefix={self.dir / 'installed'}", *options]
        stamp, wanted = folder / ".set-up-as", " ".join(str(word) for word in [*compiler.values(), *setup])
        if not (folder / "build.ninja").exists() or not stamp.exists() or stamp.read_text() != wanted:
            self.run([*setup, "--wipe"] if (folder / "meson-private").exists() else setup, env=compiler)
            stamp.write_text(wanted)
        self.run(["ninja", "-C", folder, f"-j{self.jobs}"], seconds=1800, env=compiler)
        return folder

    def _ccache(self):
        """Settings with which equal files in different build folders and clones share one cached object."""
        if not any(os.access(os.path.join(path, "ccache"), os.X_OK) for path in os.get_exec_path()):
            return {}
        return {"CCACHE_BASEDIR": str(self.root), "CCACHE_NOHASHDIR": "1"}

    @staticmethod
    def _kill(process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
