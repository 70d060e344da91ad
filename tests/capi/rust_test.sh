#!/bin/bash
# Compiles tests/capi/embed.rs against libmillrace.so, and runs it:
#
#   rust_test.sh FOLDER_OF_LIBRARY     exits 77 where there is no Rust compiler
set -euo pipefail
cd "$(dirname "$0")"
if ! command -v rustc >/dev/null; then
  echo "skipped: there is no rustc"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rustc --edition 2021 -L "$1" -o "$work/embed" embed.rs
LD_LIBRARY_PATH="$1" "$work/embed"
