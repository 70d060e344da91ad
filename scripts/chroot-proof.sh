#!/bin/bash
# The newcomer's proof: a bare Debian 12, a clone, the two commands of the README, and training once
# more as a user without rights on one core.
#
#   scripts/chroot-proof.sh [options] FOLDER     as root; FOLDER becomes the root of the new system
#     --mirror URL       Debian mirror (default http://deb.debian.org/debian)
#     --apt-from-host    copies /etc/apt/apt.conf.d of this machine (a proxy, relaxed dates)
#     --bare             mounts nothing inside: no /proc, /sys, /dev/pts
#     --keep             uses a root that an earlier call made
#     --wheel            runs scripts/wheel.sh last; it needs PyPI
#     --only-install     stops after scripts/install-deps.sh
set -euo pipefail
repository=$(cd "$(dirname "$0")/.." && pwd)

die() {
  echo "chroot-proof: error: $*" >&2
  exit 1
}
step() { echo "chroot-proof: $*"; }

mirror=http://deb.debian.org/debian
apt_from_host=0 bare=0 keep=0 wheel=0 only_install=0 root=""
while [ $# -gt 0 ]; do
  case "$1" in
    --mirror)
      mirror=${2:?"--mirror needs a URL"}
      shift
      ;;
    --apt-from-host) apt_from_host=1 ;;
    --bare) bare=1 ;;
    --keep) keep=1 ;;
    --wheel) wheel=1 ;;
    --only-install) only_install=1 ;;
    -*) die "unknown option $1" ;;
    *) root=$1 ;;
  esac
  shift
done
[ -n "$root" ] || die "which folder? scripts/chroot-proof.sh FOLDER"
[ "$(id -u)" = 0 ] || die "debootstrap and chroot need root"
command -v debootstrap >/dev/null || die "debootstrap is missing: apt-get install debootstrap"

if [ -e "$root/etc/debian_version" ]; then
  [ "$keep" = 1 ] || die "$root holds a system already: remove it or say --keep"
  step "using the root in $root"
else
  step "making a minimal Debian 12 in $root"
  debootstrap --variant=minbase bookworm "$root" "$mirror" >/dev/null
fi
if [ "$apt_from_host" = 1 ]; then cp /etc/apt/apt.conf.d/* "$root/etc/apt/apt.conf.d/"; fi
if [ -r /etc/resolv.conf ]; then cp /etc/resolv.conf "$root/etc/resolv.conf"; fi

mounts=()
leave() {
  local i
  for ((i = ${#mounts[@]} - 1; i >= 0; --i)); do umount "$root/${mounts[i]}"; done
}
trap leave EXIT
if [ "$bare" = 0 ]; then
  mount -t proc proc "$root/proc" && mounts+=(proc)
  mount --bind /dev "$root/dev" && mounts+=(dev)
fi

inside() {
  chroot "$root" /usr/bin/env -i HOME=/root TERM=dumb LANG=C.UTF-8 \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin /bin/bash -euc "$1"
}
step "installing git and ca-certificates"
inside 'apt-get -q update >/dev/null
  DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends git ca-certificates \
    >/dev/null 2>&1'

# One file carries the whole history, so nothing of this machine need be visible inside.
step "cloning $(git -C "$repository" rev-parse --short HEAD)"
git -C "$repository" bundle create "$root/root/millrace.bundle" HEAD >/dev/null 2>&1
rm -rf "$root/root/millrace"
inside 'git -c advice.detachedHead=false clone -q /root/millrace.bundle /root/millrace'

if [ "$only_install" = 1 ]; then
  inside 'cd /root/millrace && scripts/install-deps.sh'
  exit
fi
step "scripts/quickstart.sh"
inside 'cd /root/millrace && scripts/quickstart.sh'
# The user nobody owns nothing there: program, data and examples are only read, and what is written
# goes to a folder of its own.
core=$(taskset -pc $$ | grep -oE '[0-9]+([-,][0-9]+)*$' | grep -oE '^[0-9]+')
step "training as nobody on core $core, two ranks"
inside 'cd /root/millrace && chmod a+x /root && set -o pipefail
  work=$(mktemp -d) && chown nobody "$work"
  setpriv --reuid=nobody --regid=nogroup --clear-groups env HOME="$work" \
    taskset -c '"$core"' scripts/mpirun.sh -np 2 build/release/bin/millrace train \
    examples/fashion_mnist/job.pbtxt --var DATA=build/fashion_mnist \
    --var CHECKPOINTS="$work/checkpoints" | tee "$work/log"
  grep -q "^cores  *1 usable" "$work/log"
  grep -qE "^epoch 4: test accuracy 0\.9" "$work/log"
  rm -rf "$work"'
step "scripts/test.sh"
inside 'cd /root/millrace && scripts/test.sh'
if [ "$wheel" = 1 ]; then
  step "scripts/wheel.sh"
  inside 'cd /root/millrace && scripts/wheel.sh' ||
    die "scripts/wheel.sh ended with $?; 77: Debian or PyPI is out of reach"
fi
step "proved"
