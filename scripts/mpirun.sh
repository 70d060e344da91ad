#!/bin/bash
# mpirun with the settings that one small machine needs (scripts/mpi-env.sh): root, more ranks than
# cores, no binding to cores, no ssh, no /sys. All arguments go to mpirun as they are.
#
# SIGTERM lets the job end by itself: Open MPI kills its ranks about a second after a SIGTERM, too
# soon for a checkpoint, but passes SIGUSR1 on, which `millrace train` takes in the same way. So the
# one becomes the other here. The exit code is mpirun's, which is that of the first rank to fail: 75
# after such a stop.
. "$(dirname "$0")/mpi-env.sh"

# A process group of its own, so that what is sent to this whole group (by timeout, or by a terminal
# at Ctrl-C) reaches mpirun through this script alone. Such a group cannot read from a terminal.
set -m
if [ -t 0 ]; then exec </dev/null; fi
mpirun "$@" <&0 &
child=$!
trap 'kill -USR1 "$child" 2>/dev/null' TERM USR1
trap 'kill -INT "$child" 2>/dev/null' INT
trap 'kill -HUP "$child" 2>/dev/null' HUP
# A signal ends a wait early, with a code above 128.
while wait "$child"; code=$?; [ "$code" -gt 128 ] && kill -0 "$child" 2>/dev/null; do :; done
exit "$code"
