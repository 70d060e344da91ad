#!/bin/bash
# Ranks in two network namespaces with a link in between, which reach each other as two hosts do: by
# an address that leads there, never by the loopback interface.
#
#   two_hosts_test.sh PROGRAM      PROGRAM: tests/collectives/connect/connect_rank.cc
#
# Exit code 77, which ctest counts as skipped, where namespaces cannot be made.
set -uo pipefail

program=$1
first=millrace-$$-a
second=millrace-$$-b
folder=$(mktemp -d)
stop() {
  ip netns del "$first" 2>/dev/null
  ip netns del "$second" 2>/dev/null
  rm -rf "$folder"
}
trap stop EXIT

# The first interface of the first host leads nowhere else: that of a bridge, or of a network for
# administrators.
# An interface name has at most 15 characters.
make_link() {
  ip netns add "$first" && ip netns add "$second" &&
    ip -n "$first" link add "mrc$$" type veth peer name "mrd$$" &&
    ip -n "$first" addr add 10.78.0.1/24 dev "mrc$$" && ip -n "$first" link set "mrc$$" up &&
    ip link add "mra$$" netns "$first" type veth peer name "mrb$$" netns "$second" &&
    ip -n "$first" addr add 10.77.0.1/24 dev "mra$$" && ip -n "$first" link set "mra$$" up &&
    ip -n "$second" addr add 10.77.0.2/24 dev "mrb$$" && ip -n "$second" link set "mrb$$" up &&
    ip -n "$first" link set lo up && ip -n "$second" link set lo up
}
if ! command -v ip >/dev/null || ! make_link 2>"$folder/error"; then
  echo "SKIPPED: no network namespaces here: $(cat "$folder/error" 2>/dev/null)"
  exit 77
fi

# Three ranks, the first on a host of its own, that meet at `place`. Each has a /dev/shm of its own
# where that can be mounted, so that their watchdogs take them for ranks of three hosts.
check() {
  local place=$1 rank host
  for rank in 0 1 2; do
    host=$second
    [ "$rank" = 0 ] && host=$first
    ip netns exec "$host" sh -c 'mount -t tmpfs none /dev/shm; exec "$@"' sh \
      timeout 60 "$program" --rank "$rank" --world-size 3 --rendezvous "$place" --watchdog yes \
      >"$folder/rank-$rank.out" 2>&1 &
  done
  wait
  cat "$folder"/rank-*.out
  for rank in 0 1 2; do
    grep -q "^rank $rank of 3 sum 6, tcp: " "$folder/rank-$rank.out" || exit 1
  done
}
check 10.77.0.1:29500
check "file:$folder/meet"
echo PASSED
