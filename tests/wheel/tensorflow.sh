#!/bin/bash
# Proves that libmillrace.so.1 and TensorFlow, each with a protobuf of its own, work in one process:
# whichever is loaded first, and also where both show their symbols to all.
#
#   tests/wheel/tensorflow.sh LIBRARY     exits 77 where TensorFlow can be neither found nor fetched
#
# TensorFlow (1.6 GB) is kept in ~/.cache/millrace/tensorflow.
set -euo pipefail
library=$(realpath "$1")
cd "$(dirname "$0")"

venv=$HOME/.cache/millrace/tensorflow
find="from importlib.util import find_spec; raise SystemExit(not find_spec('tensorflow'))"
if ! "$venv/bin/python" -c "$find" 2>/dev/null; then
  /usr/bin/python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check tensorflow-cpu==2.21.0 || {
    echo "skipped: tensorflow-cpu 2.21.0 cannot be fetched from PyPI"
    exit 77
  }
fi
export TF_CPP_MIN_LOG_LEVEL=3 TF_ENABLE_ONEDNN_OPTS=0 # fewer messages
for order in first second; do
  for scope in local global; do
    "$venv/bin/python" beside.py "$library" $order $scope
  done
done
