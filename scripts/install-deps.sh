#!/bin/bash
# Installs the Debian 12 packages that Millrace is built from; does nothing when they are all there.
#
#   scripts/install-deps.sh [--gates] [--wheel] [--cuda] [--list]
#     --gates  also clang 16 with its sanitizers, clang-format, abigail-tools, nginx, iproute2
#              and Slurm, which .ci/run needs; with nvcc, what --cuda brings, if it can be had
#     --wheel  also what scripts/pic-deps.sh and scripts/wheel.sh need
#     --cuda   also the headers of cudnn-frontend, from PyPI, into ~/.cache/millrace: without them
#              the cuda preset has no training on a GPU. CUDA and cuDNN are not installed
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
# Headers beside a Python module; any wheel of a version has the same. Its licences are Apache 2.0
# and MIT.
cudnn_frontend=nvidia-cudnn-frontend==1.32.0
cudnn_frontend_hash=sha256:c6006556017a4d1c914c52a556c71b1267f2d6a0500f742e7b4edef539878df0

step() { echo "install-deps: $*"; }
die() {
  echo "install-deps: error: $*" >&2
  exit 1
}

list=0
cuda=no
has_nvcc() { command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; }
for argument in "$@"; do
  case "$argument" in
    --gates)
      packages+=("${gate_packages[@]}")
      [ "$cuda" = asked ] || ! has_nvcc || cuda=wanted
      ;;
    --cuda) cuda=asked ;;
    --wheel) packages+=("${wheel_packages[@]}") ;;
    --list) list=1 ;;
    *) die "unknown argument '$argument' (known: --gates, --wheel, --cuda, --list)" ;;
  esac
done
if [ "$cuda" != no ] && ! python3 -m pip --version >/dev/null 2>&1; then
  packages+=(python3-pip)
fi
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

# Unpacks the headers to where CMake looks for them.
fetch_cudnn_frontend() {
  local folder=${XDG_CACHE_HOME:-$HOME/.cache}/millrace/cudnn-frontend scratch
  if [ "$(cat "$folder/version" 2>/dev/null)" = "$cudnn_frontend" ]; then
    step "the headers of $cudnn_frontend are in $folder"
    return
  fi
  step "fetching the headers of $cudnn_frontend"
  scratch=$(mktemp -d)
  echo "$cudnn_frontend --hash=$cudnn_frontend_hash" >"$scratch/requirements"
  if python3 -m pip -q download --no-deps --require-hashes -r "$scratch/requirements" \
    -d "$scratch" --only-binary :all: --platform manylinux_2_28_x86_64 --python-version 3.11 \
    --implementation cp --abi cp311 && python3 -m zipfile -e "$scratch"/*.whl "$scratch/wheel"; then
    rm -rf "$folder"
    mkdir -p "$folder"
    mv "$scratch"/wheel/include "$scratch"/wheel/*.dist-info/licenses "$folder"
    echo "$cudnn_frontend" >"$folder/version"
    rm -rf "$scratch"
    step "the headers of $cudnn_frontend are in $folder"
    return
  fi
  rm -rf "$scratch"
  [ "$cuda" = wanted ] || die "$cudnn_frontend could not be fetched from PyPI"
  step "warning: $cudnn_frontend could not be fetched from PyPI: no products of cuDNN"
}

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing+=("$package")
done
if [ "${#missing[@]}" = 0 ]; then
  step "all ${#packages[@]} packages are installed"
  [ "$cuda" = no ] || fetch_cudnn_frontend
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
[ "$cuda" = no ] || fetch_cudnn_frontend
