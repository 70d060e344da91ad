# shellcheck shell=bash
# Sourced by the scripts. Settings without which Open MPI refuses, warns or slows down on one small
# machine; a value that is already set stays.

# Open MPI refuses root, as one is in a container, until told twice.
if [ "$(id -u)" = 0 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT="${OMPI_ALLOW_RUN_AS_ROOT:-1}"
  export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="${OMPI_ALLOW_RUN_AS_ROOT_CONFIRM:-1}"
fi
# It refuses more ranks than cores ("--oversubscribe") ...
export OMPI_MCA_rmaps_base_oversubscribe="${OMPI_MCA_rmaps_base_oversubscribe:-1}"
# ... and binds each rank to one core, with all its threads ("--bind-to none").
export OMPI_MCA_hwloc_base_binding_policy="${OMPI_MCA_hwloc_base_binding_policy:-none}"
# It looks for ssh, even when every rank is on this machine.
if ! command -v ssh >/dev/null && ! command -v rsh >/dev/null; then
  export OMPI_MCA_plm="${OMPI_MCA_plm:-isolated}"
fi
# hwloc warns where /sys is not mounted, as in a chroot.
export HWLOC_HIDE_ERRORS="${HWLOC_HIDE_ERRORS:-2}"
