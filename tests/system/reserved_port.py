#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""TCP ports of 127.0.0.1 for programs that are yet to listen there.

    with ReservedPort() as port:                # a number
        subprocess.run([program, "--rendezvous", f"127.0.0.1:{port}"])

A socket is bound to the port and never listens. As long as it is there, the kernel gives the port to nobody who asks for any port, and to
no outgoing connection; but a program whose listening socket has SO_REUSEADDR, as those of Weir and Slurm have, can listen on it, and
do so again. A connection to a reserved port on which nobody listens is refused.

As a program, for shell scripts: prints a port, and reserves it until the end of its standard input.
"""

import socket
import sys


class ReservedPort:
    def __init__(self):
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(("127.0.0.1", 0))
        self.number = self.socket.getsockname()[1]

    def __enter__(self):
        return self.number

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()


if __name__ == "__main__":
    with ReservedPort() as reserved:
        print(reserved, flush=True)
        sys.stdin.read()
