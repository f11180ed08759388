#!/usr/bin/env bash
# The tests in worlds in which nobody develops: as a user who is not root (what root's rights hide fails there, and tests
# that are skipped for root run), in a tree that is read-only, without HOME, under a locale with a decimal comma, and with a
# wall clock that jumps forth and back by hours. Needs root, to give its rights away; what it makes lies in one
# folder under /tmp. docs/internals/results.md has results.
#   scripts/hostile_environments.sh [WORLD…] [-- CTEST ARGUMENTS]
#     WORLD: plain-user, read-only, no-home, comma, clock [the first four at once, then clock by itself]
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh
tree=$PWD
known='plain-user read-only no-home comma clock'
worlds=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  case " $known " in *" $1 "*) worlds+=("$1") ;; *) echo "no world '$1'; there are: $known" >&2; exit 2 ;; esac
  shift
done
[ $# = 0 ] || shift
[ "$(id -u)" = 0 ] || { echo "run it as root: the worlds are made with mounts and other users" >&2; exit 2; }
[ -x build/release/rivulet ] || { echo "build the tests first: ./test.sh" >&2; exit 2; }

room=$(mktemp -d /tmp/hostile-environments.XXXXXX)
jumper=
trap '[ -z "$jumper" ] || kill "$jumper"; rm -rf "$room"' EXIT
chmod 755 "$room"
mkdir -m 1777 "$room/tmp" "$room/testing"

# The locale is made for these tests alone, and in no folder of the system.
make_comma() {
  install_packages locales
  mkdir -p "$room/locales"
  localedef -i de_DE -f UTF-8 "$room/locales/de_DE.UTF-8"
}

# Three hours ahead, then an hour behind, then right, two seconds each; the monotonic clock goes on as it does when somebody sets
# a machine's time.
make_clock() {
  install_packages faketime
  echo '+0' >"$room/now"
  while :; do for offset in +3h -1h +0; do echo "$offset" >"$room/now.new"; mv "$room/now.new" "$room/now"; sleep 2; done; done &
  jumper=$!
}

# run_in WORLD… : ctest with its own place for logs, since the tree may refuse them.
run_in() {
  local all=" $* " variables=(TMPDIR="$room/tmp") unset=() user=() labels=()
  case $all in *' comma '*) make_comma; variables+=(LOCPATH="$room/locales" LC_ALL=de_DE.UTF-8 LANG=de_DE.UTF-8) ;; esac
  case $all in *' no-home '*) unset+=(-u HOME) ;; esac
  case $all in *' plain-user '*) user=(setpriv --reuid=65534 --regid=65534 --clear-groups) ;; esac
  case $all in
    *' clock '*)
      make_clock
      # Python's own sleeps do not bear it, so the clock jumps for the program that the tests of whole processes start.
      variables+=(RIVULET_WRAPPER="env FAKETIME_TIMESTAMP_FILE=$room/now FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1
        LD_PRELOAD=$(find /usr/lib -name libfaketimeMT.so.1 | head -1)")
      labels=(-L e2e)
      ;;
  esac
  echo "World:$all"
  local mounts=("$tree" "$room/testing" "$all")
  unshare --mount bash -c '
    tree=$1 testing=$2 all=$3; shift 3
    mkdir -p "$tree/build/release/Testing"
    case $all in *" read-only "*) mount --bind "$tree" "$tree" && mount -o remount,bind,ro "$tree" ;; esac
    mount --bind "$testing" "$tree/build/release/Testing"
    cd "$tree"
    exec "$@"' _ "${mounts[@]}" env "${unset[@]}" "${variables[@]}" "${user[@]}" \
    ctest --test-dir build/release -j "$(nproc)" --output-on-failure --no-tests=error "${labels[@]}" "${ctest_arguments[@]}"
  [ -z "$jumper" ] || { kill "$jumper"; jumper=; }
}

ctest_arguments=("$@")
status=0
if [ ${#worlds[@]} -gt 0 ]; then
  run_in "${worlds[@]}" || status=1
else
  run_in plain-user read-only no-home comma || status=1
  run_in clock || status=1
fi
exit $status
