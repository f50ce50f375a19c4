#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Measures the verbs backend and perftest on the same RDMA device.
#
#   verbs_perf.sh VERBS_PERF [ADDRESS [ROUNDS]]
#
# Runs where the device is: in the guest of tests/rxe, or on a machine with an adapter. Take the
# best of the rounds: other load on the host of a guest can only slow them down.
set -eu
perf=$1 address=${2:-127.0.0.1} rounds=${3:-3}

listening() { grep -qs ':4853 0*:0000 0A' /proc/net/tcp /proc/net/tcp6; } # perftest's port, 18515

pair() { # name of a perftest program, its options
  "$@" -F >/dev/null & server=$!
  for _ in $(seq 100); do listening && break; sleep 0.1; done
  "$@" -F "$address" | awk -v name="$1" '/^ *[0-9]+ +[0-9]+/ { print name ": " $0 }'
  wait "$server"
}

for _ in $(seq "$rounds"); do
  "$perf" 1000 2000
  pair ib_read_bw -s 65536 -n 1000
  for size in 64 128; do pair ib_send_lat -s "$size" -n 2000; done
done
