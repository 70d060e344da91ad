#!/bin/sh
# Compiles through ccache, so that presets and clones in any folder share what it keeps:
#
#   cached_compiler.sh SOURCE_DIR CCACHE COMPILER ARGUMENTS...
#
# A header that clang precompiles (-o FILE.pch) holds the paths of its folder and the times of its
# files, so nothing that uses it would be found from another clone. It is therefore compiled where
# it is used, and FILE.pch.sum, which ccache takes for its content, is the checksum of the compiler,
# the flags and the preprocessed header with the paths below SOURCE_DIR made relative.
set -eu
source_dir=$1
ccache=$2
shift 2

# Without the first two it keeps nothing that uses precompiled headers.
export CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_PCH_EXTSUM=1
export CCACHE_BASEDIR="$source_dir" CCACHE_NOHASHDIR=1

# ccache leaves paths behind -Xclang as they are; they lie in the build folder, where this runs.
for argument; do
  shift
  set -- "$@" "${argument#"$PWD/"}"
done

case " $* " in
  *.pch\ *) ;;
  *) exec "$ccache" "$@" ;;
esac
output=
previous=
for argument; do
  [ "$previous" != -o ] || output=$argument
  previous=$argument
done
case "$output" in
  *.pch) ;;
  *) exec "$ccache" "$@" ;; # uses one
esac
"$@"
# The last -o counts.
preprocessed=$output.ii
"$@" -Xclang -E -dD -o "$preprocessed"
{
  "$1" --version
  shift
  printf '%s\n' "$@"
  cat "$preprocessed"
} | sed "s#$source_dir##g" | sha256sum >"$output.sum"
rm -f "$preprocessed"
