#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A Slurm of one node on this machine, for tests: no munge, systemd or cgroups, 127.0.0.1 only.
#   slurm.sh start DIR PORT PORT   writes DIR/slurm.conf, starts slurmctld and slurmd on these ports, waits until the node is idle
#   slurm.sh stop DIR              ends what start started, by process id
# Who starts it may reserve the ports for it (reserved_port.py), so that two Slurms on one machine do not meet.
# Then: SLURM_CONF=DIR/slurm.conf srun --mpi=pmix -n 4 PROGRAM
# Exit: 0 done, 1 failed (the logs' ends are on stderr), 77 Slurm is not installed.
set -eu
PATH=$PATH:/usr/sbin:/sbin

usage() {
    sed -n '3,8s/^# //p' "$0" >&2
    exit 2
}
[ $# -ge 2 ] || usage
command=$1
dir=$2
ctld_port=${3:-}
slurmd_port=${4:-}

for program in slurmctld slurmd srun sbatch sinfo scancel scontrol; do
    if ! command -v "$program" >/dev/null; then
        echo "slurm.sh: SKIPPED: $program is not installed (apt-get install --no-install-recommends" \
            "slurm-wlm slurmctld slurmd slurm-client slurm-wlm-basic-plugins)" >&2
        exit 77
    fi
done

alive() { # PIDFILE: is the process of that number still the one we started?
    [ -s "$1" ] && pid=$(cat "$1") && [ -r "/proc/$pid/cmdline" ] &&
        tr '\0' ' ' <"/proc/$pid/cmdline" | grep -q slurm
}

end() { # PIDFILE
    if alive "$1"; then
        pid=$(cat "$1")
        kill "$pid" 2>/dev/null || true
        tries=0
        while alive "$1" && [ $tries -lt 50 ]; do
            sleep 0.1
            tries=$((tries + 1))
        done
        if alive "$1"; then kill -9 "$pid" 2>/dev/null || true; fi
    fi
    rm -f "$1"
}

stop() {
    if [ -f "$dir/slurm.conf" ] && alive "$dir/ctld.started"; then
        SLURM_CONF=$dir/slurm.conf timeout 5 scancel --partition=p --full 2>/dev/null || true
    fi
    end "$dir/slurmd.started"
    end "$dir/ctld.started"
}

start() {
    mkdir -p "$dir"
    dir=$(cd "$dir" && pwd)
    mkdir -p "$dir/state" "$dir/spool" "$dir/log" "$dir/tmp"
    host=$(hostname -s)
    cat >"$dir/slurm.conf" <<END
ClusterName=t
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$ctld_port
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1,builtin_interval=1
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
KillWait=50
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
TmpFS=$dir/tmp
SlurmctldPidFile=$dir/ctld.pid
SlurmdPidFile=$dir/slurmd.%n.pid
SlurmctldLogFile=$dir/log/ctld.log
SlurmdLogFile=$dir/log/slurmd.%n.log
SlurmdParameters=config_overrides
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$slurmd_port CPUs=8 RealMemory=1000 State=UNKNOWN
PartitionName=p Nodes=n1 Default=YES OverSubscribe=YES MaxTime=INFINITE State=UP
END
    SLURM_CONF=$dir/slurm.conf
    export SLURM_CONF
    slurmctld -D -c >"$dir/log/ctld.out" 2>&1 </dev/null &
    echo $! >"$dir/ctld.started"
    slurmd -D -N n1 >"$dir/log/slurmd.out" 2>&1 </dev/null &
    echo $! >"$dir/slurmd.started"
    tries=0
    while [ "$(timeout 5 sinfo -h -t idle -o %D 2>/dev/null || true)" != 1 ]; do
        tries=$((tries + 1))
        if [ $tries -ge 150 ] || ! alive "$dir/ctld.started" || ! alive "$dir/slurmd.started"; then
            echo "slurm.sh: Slurm did not come up in $dir" >&2
            tail -n 15 "$dir"/log/* >&2
            stop
            exit 1
        fi
        sleep 0.1
    done
}

case $command in
    start)
        [ $# -eq 4 ] || usage
        start
        ;;
    stop) stop ;;
    *) usage ;;
esac
