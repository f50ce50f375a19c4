# SPDX-License-Identifier: Apache-2.0
"""Stops a process (SIGSTOP) so that it does nothing more."""

import os
import signal
import time


def stop(pid):
    """Returns when all threads of the process stand still: the signal reaches one of them first, and until then the others may still send
    something."""
    os.kill(pid, signal.SIGSTOP)
    while True:
        states = []
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/stat", encoding="utf-8") as file:
                states.append(file.read().rsplit(")", 1)[1].split()[0])
        if set(states) <= {"T", "Z"}:
            return
        time.sleep(0.001)
