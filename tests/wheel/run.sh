#!/bin/bash
# Checks a wheel: what it holds, and that a user's first steps work in a fresh environment of each
# Python from 3.10 on that is here.
#
#   tests/wheel/run.sh WHEEL
#
# Where MILLRACE_TEST_DATA names a folder, the images are its photographs.
set -euo pipefail
wheel=$(realpath "$1")
photographs=()
[ -z "${MILLRACE_TEST_DATA:-}" ] ||
  photographs=("$(realpath "$MILLRACE_TEST_DATA")/imagenet-sample.tar")
cd "$(dirname "$0")"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PYTHONDONTWRITEBYTECODE=1
MILLRACE_WHEEL=$wheel python3 -m unittest contents_test
python3 -m zipfile -e "$wheel" "$work/unpacked"
(cd ../capi && MILLRACE_C_LIBRARY=$work/unpacked/millrace/libmillrace.so.1 \
  python3 -m unittest exports_test)

cp first_steps.py "$work/"
count=0
for python in /usr/bin/python3 "$HOME"/.pyenv/versions/3.*/bin/python3; do
  [ -x "$python" ] && "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || continue
  venv=$work/venv-$count
  folder=$work/empty-$count
  count=$((count + 1))
  "$python" -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check "$wheel"
  mkdir "$folder"
  said=$(cd "$folder" && env -i "$venv/bin/python" -I "$work/first_steps.py" "${photographs[@]}")
  (cd "$folder" && env -i "$venv/bin/millrace" --version) | grep -q '^millrace ' ||
    { echo "the command millrace does not run" >&2 && exit 1; }
  echo "$("$venv/bin/python" --version): $said"
done
echo "the wheel of $(stat -c %s "$wheel") bytes works with $count versions of Python"
