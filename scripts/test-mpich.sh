#!/bin/bash
# Builds the collectives against MPICH and runs their MPI tests under its mpiexec, beside a tree
# that is built with Open MPI.
#
#   scripts/test-mpich.sh [ctest arguments]
#
# Takes Debian's mpich and libmpich-dev, installed (they do not get in Open MPI's way), or unpacked
# somewhere and named by MPICH_ROOT:
#
#   apt-get download mpich libmpich12 libmpich-dev libslurm38
#   for package in *.deb; do dpkg -x "$package" "$PWD/mpich"; done
#   MPICH_ROOT=$PWD/mpich scripts/test-mpich.sh
#
# After an abort mpiexec may end with the 9 of a rank that it has killed instead of MPI_Abort's 1;
# then collectives_mpi_abort_ends_the_job fails.
set -euo pipefail
cd "$(dirname "$0")/.."

root=${MPICH_ROOT:-}
triplet=$(gcc -dumpmachine)
libraries=$root/usr/lib/$triplet
mpiexec=$root/usr/bin/mpiexec.mpich
for needed in "$mpiexec" "$libraries/libmpich.so" "$root/usr/include/$triplet/mpich/mpi.h"; do
  if [ ! -e "$needed" ]; then
    echo "test-mpich: no $needed: install mpich and libmpich-dev, or set MPICH_ROOT" >&2
    exit 2
  fi
done
if [ -n "$root" ]; then  # what mpiexec is linked with
  export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  export PATH=$root/usr/bin:$PATH
fi

# CMake asks pkg-config for "mpi-c", which is the MPI that the machine has chosen.
mkdir -p build/mpich/pkgconfig
cat >build/mpich/pkgconfig/mpi-c.pc <<END
Name: mpi-c
Description: MPICH, for this tree
Version: 0
Libs: -L$libraries -lmpich
Cflags: -I$root/usr/include/$triplet/mpich
END
PKG_CONFIG_PATH=$PWD/build/mpich/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH} \
  cmake --preset dev -B build/mpich -DMPI_SKIP_COMPILER_WRAPPER=ON \
  -DMPI_mpich_LIBRARY="$libraries/libmpich.so" -DMPIEXEC_EXECUTABLE="$mpiexec"
cmake --build build/mpich --target collectives_mpi_test collectives_mpi_late_rank \
  collectives_mpi_init_rank collectives_mpi_abort_rank collectives_mpi_reducer_rank
ctest --test-dir build/mpich --output-on-failure -R '^collectives_mpi_' "$@"
