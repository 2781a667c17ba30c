#!/bin/bash
# Tries in an emulator what tools/release has made for 64-bit Arm, as try_release.sh does on this machine's own processor:
#
#   try_arm64.sh RELEASE ROOT
#
# ROOT is where `debootstrap --foreign` has put packages of Debian 12. The emulator looks there for what a program needs, and
# then on this machine, whose own libraries for Arm are out of sight meanwhile. Calls what tools/setup --arm64 and
# tools/setup --install install.
set -euo pipefail
release=$1 root=$2
for package in "$root"/var/cache/apt/archives/*.deb; do
  dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$root"
done
on_arm() {
  unshare --mount bash -euc '
    for folder in /usr/lib/aarch64-linux-gnu /usr/aarch64-linux-gnu/lib; do mount -t tmpfs tmpfs "$folder"; done
    exec qemu-aarch64 -L "$@"' bash "$root" "$@"
}

work=$root/work
mkdir "$work" "$work/ringrad" "$work/python"
tar -C "$work/ringrad" --strip-components=1 -xzf "$release"/ringrad-*-linux-aarch64.tar.gz
on_arm "$work/ringrad/bin/ringrad-info" --ranks 2
on_arm "$work/ringrad/bin/ringrad-draw" ring --ranks 3 --output "$work/ring.html"
echo tried programs

python3 -m zipfile -e "$release"/ringrad-*_aarch64.whl "$work/python"
PYTHONPATH=$work/python on_arm "$root/usr/bin/python3" "$release/train.py"
echo tried wheel

export PKG_CONFIG_LIBDIR=$work/ringrad/lib/pkgconfig
for name in ringrad ringrad_static; do
  aarch64-linux-gnu-g++ $(pkg-config --cflags $name) -o "$work/$name" "$release/app.cc" $(pkg-config --libs $name)
  on_arm "$work/$name" | diff - "$release/expected.txt"
done
echo tried archive
