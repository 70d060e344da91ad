#!/bin/bash
# mpirun with the settings that one small machine needs (scripts/mpi-env.sh): root, more ranks than
# cores, no binding to cores, no ssh, no /sys. All arguments go to mpirun as they are.
. "$(dirname "$0")/mpi-env.sh"
exec mpirun "$@"
