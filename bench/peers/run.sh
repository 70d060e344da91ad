#!/bin/bash
# Runs the same work on Millrace and on its peers, turn by turn, and prints one table.
#
#   bench/peers/run.sh [train_path] [--data FOLDER] [--batch N] [--repeats N] [--seconds S]
#                      [--only LOADER]... [--publish]
#       JPEG in TFRecords to batches for training: DALI, tf.data, PyTorch with torchvision.io and
#       Pillow
#   bench/peers/run.sh records [--repeats N] [--seconds S] [--row NAME]...
#       records of other kinds: tf.data
#   bench/peers/run.sh allreduce [--repeats N]
#       the gradients of a ResNet-50 over two ranks: PyTorch's Gloo
#   bench/peers/run.sh ddp [--steps N]
#       backward and the sums of its gradients over two ranks: DistributedDataParallel with Gloo
#   bench/peers/run.sh goals [--repeats N] [--row NAME]... [--publish]
#       all goals of the Python package, with and without the peers
#
# Builds what it needs of the release preset and makes a virtual environment with the pinned
# packages of requirements/ in build/peers (about 3.5 GB, the only part that needs the network).
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
here=$root/bench/peers
venv=$root/build/peers/venv
work=train_path
case ${1:-} in
  train_path | records | allreduce | ddp | goals) work=$1; shift ;;
esac
for word in "$@"; do
  case $word in
    -h | --help) exec python3 "$here/$work.py" --help ;;
  esac
done
# Before anything is installed.
[ "$work" != train_path ] || python3 "$here/$work.py" --check-only "$@"
case $work in
  train_path) peers="dali tensorflow pytorch" targets="millrace millrace_python bench_raw_jpeg" ;;
  records) peers=tensorflow targets=millrace ;;
  allreduce) peers=pytorch targets=bench_collective_rows ;;
  ddp) peers=pytorch targets=millrace_python ;;
  goals)
    peers="dali tensorflow pytorch"
    targets="millrace millrace_python bench_raw_jpeg bench_make_records bench_stream_rows"
    ;;
esac
if [ ! -x "$venv/bin/pip" ]; then
  python3 -c 'import ensurepip' 2>/dev/null || {
    echo "run.sh: python3-venv is missing: apt-get install python3-venv" >&2
    exit 1
  }
  python3 -m venv "$venv"
fi
# shellcheck disable=SC2086
"$venv/bin/python" "$here/install.py" $peers
[ -f "$root/build/release/build.ninja" ] || (cd "$root" && cmake --preset release >/dev/null)
# shellcheck disable=SC2086
ninja -C "$root/build/release" $targets >&2
exec "$venv/bin/python" "$here/$work.py" "$@"
