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

job=examples/fashion_mnist/job.pbtxt
checkpoints=build/checkpoints/fashion_mnist
millrace=build/release/bin/millrace
min_accuracy=0.90
. scripts/fashion-mnist.sh

scripts/install-deps.sh
run cmake --preset release
run cmake --build build/release --target millrace

convert_fashion_mnist
run "$millrace" records inspect "$data"/*.tfrecord
run "$millrace" explain examples/fashion_mnist/train.pbtxt --var "DATA=$data"

# `train` refuses to write over another run's checkpoints.
if [ -e "$checkpoints" ]; then
  run rm -rf "$checkpoints"
fi
log=build/quickstart-train.log
run scripts/mpirun.sh -np 2 "$millrace" train "$job" | tee "$log"

check_accuracy quickstart "$log" "$min_accuracy"
