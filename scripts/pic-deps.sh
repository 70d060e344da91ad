#!/bin/bash
# Builds abseil, protobuf and Highway as archives of position-independent code with hidden symbols,
# which libmillrace.so.1 can have inside (docs/decisions/0041-dependencies-inside.md). Debian's
# archives cannot be linked into a shared library, and its libhwy measures the processor's clock for
# five milliseconds when it is loaded, for benches that are not ours.
#
#   scripts/pic-deps.sh [DIR]     DIR is build/pic by default; exits 77 where Debian is out of reach
#
# The sources are those of Debian's packages that are installed, so that protoc matches. They are
# fetched with apt-get, which needs neither root nor deb-src lines: its lists and state are kept
# below DIR. Does nothing when DIR has them already.
set -euo pipefail

step() { echo "pic-deps: $*"; }
die() {
  echo "pic-deps: error: $*" >&2
  exit 1
}

dir=$(realpath -m "${1:-$(dirname "$0")/../build/pic}")
log=$dir/log
# The flags of our own libraries besides those of the Release build type. Unique symbols would be
# shared with other copies in the process even when hidden ones are not.
flags="-fvisibility=hidden -fvisibility-inlines-hidden -fno-gnu-unique"
flags+=" -ffunction-sections -fdata-sections"
# Plans and flags are parsed by them, not records: small is better than fast.
optimisation="-Os -DNDEBUG"

source_version() { # a package that is installed
  dpkg-query -W -f '${source:Version}' "$1" 2>/dev/null || die "$1 is not installed:" \
    "scripts/install-deps.sh --wheel does it"
}
abseil=$(source_version libabsl-dev)
protobuf=$(source_version libprotobuf-dev)
highway=$(source_version libhwy-dev)
compiler=$(source_version protobuf-compiler)
[ "$protobuf" = "$compiler" ] ||
  die "protobuf-compiler is of version $compiler, but libprotobuf-dev of $protobuf"

versions="abseil $abseil, protobuf $protobuf, highway $highway"
stamp="$versions, $(c++ --version | head -n 1), $flags $optimisation"
if [ "$(cat "$dir/built" 2>/dev/null)" = "$stamp" ]; then
  step "$dir has $versions"
  exit 0
fi
command -v dpkg-source >/dev/null ||
  die "dpkg-source is not there: scripts/install-deps.sh --wheel installs it"

# apt-get with state of its own, as any user.
apt_get() {
  apt-get -q -o Dir::Etc::SourceList="$dir/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null \
    -o Dir::State="$dir/apt" -o Dir::State::Status=/var/lib/dpkg/status \
    -o Dir::Cache="$dir/apt/cache" -o APT::Sandbox::User= "$@"
}

rm -rf "$dir/built" "$dir/src" "$dir/apt"
mkdir -p "$dir/apt/lists/partial" "$dir/apt/cache/archives/partial" "$dir/src"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
cat >"$dir/apt/sources.list" <<END
deb-src [signed-by=$keyring] http://deb.debian.org/debian bookworm main
deb-src [signed-by=$keyring] http://deb.debian.org/debian bookworm-updates main
deb-src [signed-by=$keyring] http://deb.debian.org/debian-security bookworm-security main
END

step "fetching the sources: $versions"
if ! (apt_get update && cd "$dir/src" &&
  apt_get source "abseil=$abseil" "protobuf=$protobuf" "highway=$highway") >"$log" 2>&1; then
  tail -n 5 "$log" >&2
  echo "pic-deps: the sources cannot be fetched (apt-get's last lines are above). Is the network" \
    "there? If Debian has newer ones, upgrade libabsl-dev, libprotobuf-dev and libhwy-dev." >&2
  exit 77
fi

# ccache finds what another clone has compiled.
export CCACHE_BASEDIR=$dir CCACHE_NOHASHDIR=1
launcher=()
if command -v ccache >/dev/null; then
  launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
fi

build() { # name of the source package, more arguments of cmake
  step "building $1 (minutes; the output is in $log)"
  if ! (cmake -G Ninja -S "$dir/src/$1"-*/ -B "$dir/src/build-$1" "${launcher[@]}" \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_STANDARD=20 -DCMAKE_POSITION_INDEPENDENT_CODE=ON \
    -DCMAKE_CXX_FLAGS="$flags" -DCMAKE_CXX_FLAGS_RELEASE="$optimisation" \
    -DBUILD_SHARED_LIBS=OFF -DCMAKE_INSTALL_PREFIX="$dir" \
    -DCMAKE_INSTALL_LIBDIR=lib "${@:2}" && cmake --build "$dir/src/build-$1" --target install) \
    >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    die "building $1 failed (its last lines are above; all of them are in $log)"
  fi
}

build abseil -DBUILD_TESTING=OFF -DABSL_PROPAGATE_CXX_STD=ON
build protobuf -Dprotobuf_BUILD_TESTS=OFF -Dprotobuf_BUILD_PROTOC_BINARIES=OFF
build highway -DBUILD_TESTING=OFF -DHWY_ENABLE_EXAMPLES=OFF -DHWY_ENABLE_CONTRIB=OFF
rm -rf "$dir/src" "$dir/apt"
echo "$stamp" >"$dir/built"
step "$dir has $versions"
