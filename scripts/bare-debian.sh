#!/usr/bin/env bash
# The packages in a bare Debian, as root: both are installed with what they ask for, run, and purged, and then nothing of them is left
# but what a site would not want to lose; and the images of deploy/Containerfile, put together by hand from the same root and run as
# their user from a file system that cannot be written. Wants a built tree, debootstrap and Debian's mirror; takes minutes.
# docs/internals/results.md has the result.
#   scripts/bare-debian.sh [FOLDER]     FOLDER (600 MB; made when it is not there) keeps the bare root for the next time
set -euo pipefail
cd "$(dirname "$0")/.."
build=$PWD/build/release
work=$(realpath -m "${1:-$(mktemp -d)}")
bare=$work/bare root=$work/root packages=$work/packages
mkdir -p "$work"

say() { printf '%-46s %s\n' "$1" "$2"; }
fail() { echo "$0: $*" >&2; exit 1; }
# A copy of the bare root, entered with a /proc and a /dev of its own, which are gone with the command: what packages run as root when
# they are configured finds none of this machine's devices.
enter() { unshare --mount --pid --fork bash -c 'root=$1; shift
  mount -t proc proc "$root/proc" && mount -t tmpfs tmpfs "$root/dev" && ln -s /proc/self/fd "$root/dev/fd" || exit
  for node in null zero full random urandom; do
    touch "$root/dev/$node" && mount --bind "/dev/$node" "$root/dev/$node" || exit
  done
  exec chroot "$root" "$@"' _ "$root" "$@"; }
fresh() { rm -rf "$root"; cp -a "$bare" "$root"; cp /etc/resolv.conf "$root/etc/"; cp "$packages"/*.deb "$root/tmp/"; }
files() { (cd "$root" && find etc usr var opt srv root home -xdev ! -path 'var/cache/*' ! -path 'var/lib/apt/*' ! -path 'var/log/*' \
  ! -path 'var/lib/dpkg/*' ! -path '*/ld.so.cache' | sort); }

if [ ! -e "$bare/usr/bin/dpkg" ]; then debootstrap --variant=minbase bookworm "$bare" >"$work/debootstrap.log"; fi
rm -rf "$packages"
mkdir -p "$packages"
(cd "$packages" && cpack -G DEB --config "$build/CPackConfig.cmake" -B "$packages/made" >"$work/cpack.log" 2>&1) ||
  fail "cpack: $(tail -n 20 "$work/cpack.log")"
cp "$packages"/made/rivulet_*.deb "$packages"/made/rivulet-client_*.deb "$packages"

for package in rivulet rivulet-client; do
  fresh
  enter apt-get update -qq
  # What it asks for first, so that `dpkg -i` alone has to do the rest; systemd is there as on a machine, and not running.
  depends=$(dpkg-deb --field "$packages/$package"_*.deb Depends | sed 's/([^)]*)//g; s/,/ /g')
  enter env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $depends systemd >"$work/apt.log" 2>&1
  files >"$work/before"
  enter sh -c "dpkg -i /tmp/${package}_*.deb" >"$work/dpkg.log" 2>&1 || fail "dpkg -i: $(cat "$work/dpkg.log")"
  say "$package: dpkg -i" "$(enter dpkg-query -W -f '${db:Status-Status} ${Version}, ${Installed-Size} kB' "$package")"
  say "$package: --version" "$(enter "$package" --version)"
  say "$package: its user" "$(enter getent passwd rivulet)"
  say "$package: systemd-analyze verify" "$(enter systemd-analyze verify --man=no "/usr/lib/systemd/system/$package@.service" 2>&1 |
    grep -v 'is not executable' || echo clean)"
  if [ "$package" = rivulet ]; then
    enter sh -c 'cd /tmp && rivulet new a.toml >/dev/null && rivulet simulate a.toml --rounds 1 --quiet --json' | tail -1 | cut -c1-100
  else
    enter sh -c 'rivulet-client --coordinator 127.0.0.1:1 --insecure --name a --data train=/none 2>&1 || true' | head -1
  fi
  enter dpkg --purge "$package" >"$work/dpkg.log" 2>&1 || fail "dpkg --purge: $(cat "$work/dpkg.log")"
  files >"$work/after"
  say "$package: left after dpkg --purge" "$(diff "$work/before" "$work/after" | sed -n 's/^[<>] //p' | grep -v '^etc/.*-$' | tr '\n' ' ')"
done

# As the Containerfile's last stages do it: the package with what it asks for, the user, the folder.
for package in rivulet-client rivulet; do
  fresh
  enter apt-get update -qq
  enter sh -c "DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends /tmp/${package}_*.deb" >"$work/apt.log" 2>&1
  rm -rf "$root"/tmp/* "$root"/var/lib/apt/lists/*
  enter useradd --system --uid 10001 --home-dir /var/lib/rivulet --create-home --shell /usr/sbin/nologin rivulet
  enter chmod 0700 /var/lib/rivulet
  tar -C "$root" --one-file-system -cf "$work/$package.tar" .
  rm -rf "$root" && mkdir "$root" && tar -C "$root" -xf "$work/$package.tar"
  say "image $package" "$(($(stat -c %s "$work/$package.tar") / 1000000)) MB"
  command="$package --version"
  [ "$package" != rivulet ] || command="$command && cp /usr/share/rivulet/scenarios/*.toml . && rivulet scenarios | head -3"
  unshare --mount --pid --fork bash -c 'root=$1
    mount --bind "$root" "$root" && mount -o remount,bind,ro "$root" && mount -t proc proc "$root/proc" && mount -t tmpfs tmpfs "$root/tmp"
    mount -t tmpfs -o uid=10001,gid=10001,mode=0700 tmpfs "$root/var/lib/rivulet"
    exec chroot --userspec=10001:10001 "$root" sh -c "cd /var/lib/rivulet && id -u && ! touch /etc/x 2>/dev/null && $2"' _ "$root" "$command"
  rm -f "$work/$package.tar"
done
rm -rf "$root" "$packages"
[ $# -gt 0 ] || rm -rf "$work"
