#!/bin/bash
# Installs the Debian 12 packages that Millrace is built from; does nothing when they are all there.
#
#   scripts/install-deps.sh [--gates] [--wheel] [--list]
#     --gates  also clang 16 with its sanitizers, clang-format, abigail-tools, nginx, iproute2
#              and Slurm, which .ci/run needs
#     --wheel  also what scripts/pic-deps.sh and scripts/wheel.sh need
#     --list   prints the names of the packages, one per line, and installs nothing
#
# Run it as root, or as a user who may use sudo.
set -euo pipefail

packages=(
  # tools
  git cmake ninja-build g++ pkg-config ccache python3
  # libraries of the input pipeline
  libabsl-dev libtbb-dev libprotobuf-dev protobuf-compiler libjpeg62-turbo-dev
  libturbojpeg0-dev libhwy-dev
  libspng-dev libisal-dev zlib1g-dev libzstd-dev libxxhash-dev libarchive-dev libcurl4-openssl-dev
  # of the trainer and the command
  libdnnl-dev libopenmpi-dev openmpi-bin libcli11-dev nlohmann-json3-dev
  libmicrohttpd-dev
  # of the Python package
  python3-dev python3-numpy
  # tests
  libgmock-dev libjpeg-turbo-progs
  # the data of the quick start
  dataset-fashion-mnist
)
# nginx and Slurm: installing them may start servers, so only where the gates run; without them
# their tests are skipped. So is that of the C interface in Rust without rustc, which takes 260 MB.
gate_packages=(
  clang-16 libclang-rt-16-dev lld-16 llvm-16 clang-format-16 nginx-light
  abigail-tools iproute2 munge slurm-client slurmctld slurmd slurm-wlm-basic-plugins
)
wheel_packages=(dpkg-dev python3-venv)

step() { echo "install-deps: $*"; }
die() {
  echo "install-deps: error: $*" >&2
  exit 1
}

list=0
for argument in "$@"; do
  case "$argument" in
    --gates) packages+=("${gate_packages[@]}") ;;
    --wheel) packages+=("${wheel_packages[@]}") ;;
    --list) list=1 ;;
    *) die "unknown argument '$argument' (known: --gates, --wheel, --list)" ;;
  esac
done
if [ "$list" = 1 ]; then
  printf '%s\n' "${packages[@]}"
  exit 0
fi

# shellcheck disable=SC1091
distribution=$([ -r /etc/os-release ] && . /etc/os-release && echo "${ID:-unknown} ${VERSION_ID:-}")
if [ "$distribution" != "debian 12" ]; then
  die "this is '${distribution:-unknown}', but the package names are those of Debian 12." \
    "Elsewhere install the equivalents of 'scripts/install-deps.sh --list' by hand."
fi

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing+=("$package")
done
if [ "${#missing[@]}" = 0 ]; then
  step "all ${#packages[@]} packages are installed"
  exit 0
fi
step "${#missing[@]} of ${#packages[@]} packages are missing: ${missing[*]}"

as_root=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null ||
    die "not root and no sudo: run as root: apt-get install ${missing[*]}"
  as_root=(sudo)
fi
export DEBIAN_FRONTEND=noninteractive
apt_get() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o Dpkg::Use-Pty=0 "$@"; }

step "reading the package lists (apt-get update)"
apt_get update >/dev/null || die "apt-get update failed: is the network there?"
step "installing (apt-get install --no-install-recommends; a few minutes)"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! apt_get install -y --no-install-recommends "${missing[@]}" >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  die "apt-get install failed (its last lines are above)"
fi
step "installed ${#missing[@]} packages"
