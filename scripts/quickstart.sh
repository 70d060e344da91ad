#!/bin/bash
# From a bare clone to a trained model: installs what is missing, builds, converts Fashion-MNIST to
# TFRecord shards, shows them and the pipeline's plan, trains on two ranks, and checks that the
# model reaches 0.90 test accuracy (exit code 1 if not).
#
#   scripts/quickstart.sh
#
# Every command is printed before it runs and can be run again by hand from the repository's root.
# The script may be run again: converted data stay, the checkpoints of an earlier run are removed.
set -euo pipefail
cd "$(dirname "$0")/.."

run() {
  echo
  echo "\$ $*"
  "$@"
}

images=/usr/share/datasets/fashion-mnist
data=build/fashion_mnist
job=examples/fashion_mnist/job.pbtxt
checkpoints=build/checkpoints/fashion_mnist
millrace=build/release/bin/millrace
min_accuracy=0.90

scripts/install-deps.sh
run cmake --preset release
run cmake --build build/release --target millrace

# Writes the shards of one split, unless they are all there: a shard is renamed into place when it
# is whole, so a name that exists is a whole file.
convert() { # split, files' prefix, number of shards
  local found
  found=$(find "$data" -maxdepth 1 -name "$1-*.tfrecord" 2>/dev/null | wc -l)
  if [ "$found" = "$3" ]; then
    echo
    echo "# $data holds the $3 shards of '$1' already"
    return
  fi
  rm -f "$data/$1"-*.tfrecord
  run "$millrace" records convert --from idx --images "$images/$2-images-idx3-ubyte.gz" \
    --labels "$images/$2-labels-idx1-ubyte.gz" --out "$data" --prefix "$1" --shards "$3"
}

mkdir -p "$data"
convert train train 8
convert test t10k 2
run "$millrace" records inspect "$data"/*.tfrecord
run "$millrace" explain examples/fashion_mnist/train.pbtxt --var "DATA=$data"

# `train` refuses to write over another run's checkpoints.
if [ -e "$checkpoints" ]; then
  run rm -rf "$checkpoints"
fi
log=build/quickstart-train.log
run scripts/mpirun.sh -np 2 "$millrace" train "$job" | tee "$log"

# The last epoch's. Seed and data are fixed, so a lower figure means that something is broken.
accuracy=$(sed -n 's/.*test accuracy \([0-9.]*\) .*/\1/p' "$log" | tail -n 1)
if ! awk -v accuracy="$accuracy" -v bound="$min_accuracy" \
  'BEGIN { exit !(accuracy != "" && accuracy + 0 >= bound + 0) }'; then
  echo "quickstart: FAILED: test accuracy is ${accuracy:-not printed}," \
    "expected $min_accuracy or more" >&2
  exit 1
fi
echo
echo "quickstart: test accuracy $accuracy, $min_accuracy or more as expected"
