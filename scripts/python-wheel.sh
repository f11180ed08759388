#!/usr/bin/env bash
# Makes a wheel of the Python package that carries the program and the libraries that it was linked with, all but the C
# library's: `pip install` of it needs nothing of this repository, on any Linux of this processor whose glibc is as new.
#   scripts/python-wheel.sh [FOLDER]     into FOLDER [dist]; of RIVULET_BINARY [build/release/rivulet]
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-dist}
program=${RIVULET_BINARY:-build/release/rivulet}
python=${PYTHON:-python3}
[ -x "$program" ] || { echo "$0: there is no program '$program'; build it with ./quickstart.sh" >&2; exit 1; }
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r python "$work/source"
inside=$work/source/rivulet/_bin
mkdir -p "$inside/lib"
cp "$program" "$inside/program"
strip "$inside/program" 2>/dev/null || true
# glibc is the system's: its parts and the kernel's must fit each other.
ldd "$program" | awk '$2 == "=>" && $3 ~ "^/" { print $1, $3 }' |
  grep -vE '^(libc|libm|libdl|librt|libpthread|libresolv|ld-linux[^ ]*)\.so' |
  while read -r name path; do cp -L "$path" "$inside/lib/$name"; done
cat >"$inside/rivulet" <<'PROGRAM'
#!/bin/sh
# The program, with the libraries that it was linked with.
here=$(dirname "$(readlink -f "$0")")
LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} exec "$here/program" "$@"
PROGRAM
chmod +x "$inside/rivulet" "$inside/program"
"$python" -m venv "$work/tools"
"$work/tools/bin/pip" install -q --disable-pip-version-check "setuptools>=61" "wheel>=0.40"
"$work/tools/bin/pip" wheel -q --no-deps --no-build-isolation -w "$work/dist" "$work/source"
glibc=$(getconf GNU_LIBC_VERSION | cut -d' ' -f2 | tr . _)
"$work/tools/bin/python" -m wheel tags --remove --platform-tag "manylinux_${glibc}_$(uname -m)" "$work"/dist/*.whl >/dev/null
mv "$work"/dist/*.whl "$folder/"
ls "$folder"/rivulet-*.whl
