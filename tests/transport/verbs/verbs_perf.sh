#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The verbs backend beside perftest on the same RDMA device: verbs_perf.sh VERBS_PERF [ADDRESS]
# To be run where the device is (in the guest of tests/rxe, or on a machine with an adapter).
set -eu
perf=$1 address=${2:-127.0.0.1}

pair() { # name of a perftest program, its options
  "$@" -F >/dev/null & sleep 2
  "$@" -F "$address" | awk -v name="$1" '/^ *[0-9]+ +[0-9]+/ { print name ": " $0 }'
  wait
}

"$perf" 2000 2000
pair ib_read_bw -s 65536 -n 2000
for size in 64 128; do pair ib_send_lat -s "$size" -n 2000; done
