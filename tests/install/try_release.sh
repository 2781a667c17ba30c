#!/bin/bash
# Tries in a bare Debian what tools/release has made: /mounted holds it, and a stranger's project. Prints "tried NAME" after
# each part (tools/test_install). There is no clone: it installs by itself what tools/setup --install would.
set -euo pipefail

install_packages() { apt-get -qq -o Dpkg::Use-Pty=0 install -y --no-install-recommends "$@" >/dev/null; }
apt-get -qq update

# The root has no compiler yet.
if command -v g++ cc python3; then exit 1; fi
mkdir /opt/ringrad
tar -C /opt/ringrad --strip-components=1 -xzf ringrad-*-linux-x86_64.tar.gz
/opt/ringrad/bin/ringrad-info --ranks 2
/opt/ringrad/bin/ringrun -n 2 /opt/ringrad/bin/ringrad-info --version
/opt/ringrad/bin/ringrad-draw ring --ranks 3 --output /tmp/ring.html
echo tried programs

install_packages python3-venv
python3 -m venv /opt/python
/opt/python/bin/pip --quiet --disable-pip-version-check install --no-index --find-links . ringrad
/opt/python/bin/python train.py
/opt/python/bin/ringrun -n 2 /opt/python/bin/python ranks.py
/opt/python/bin/ringrad-plan --model resnet20 --devices 8 --topology nvlink8 >/dev/null
echo tried wheel

# This system's own compiler, against what Debian 12's has made.
install_packages cmake g++ make pkg-config
export PKG_CONFIG_PATH=/opt/ringrad/lib/pkgconfig
cmake -S . -B /tmp/build -DCMAKE_PREFIX_PATH=/opt/ringrad >/dev/null
cmake --build /tmp/build
/tmp/build/app | diff - expected.txt
sed -i s/ringrad::ringrad/ringrad::static/ CMakeLists.txt
cmake -S . -B /tmp/static -DCMAKE_PREFIX_PATH=/opt/ringrad >/dev/null
cmake --build /tmp/static
/tmp/static/app | diff - expected.txt
sed -i s/ringrad::static/ringrad::ringrad/ CMakeLists.txt
for name in ringrad ringrad_static; do
  g++ $(pkg-config --cflags $name) -o /tmp/$name app.cc $(pkg-config --libs $name)
  /tmp/$name | diff - expected.txt
done
echo tried archive

unset PKG_CONFIG_PATH
rm -rf /opt/ringrad
install_packages ./ringrad_*.deb
g++ $(pkg-config --cflags ringrad) -o /tmp/packaged app.cc $(pkg-config --libs ringrad)
/tmp/packaged | diff - expected.txt
ringrad-info --ranks 2 >/dev/null
echo tried package
