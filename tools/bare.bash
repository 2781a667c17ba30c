# For scripts that try things in a bare Debian: source it, then call `make_bare SUITE` and `in_bare COMMAND...`. A root made
# by debootstrap, without a compiler, in a chroot; none of its folders, processes and mounts are left when the script ends.

skip() {
  printf 'skipped: bare Debian: %s\n0 passed, 0 failed\n' "$1"
  exit 0
}

# debian_mirror: the first one of this machine. Some systems have no sources.list.
debian_mirror() {
  local mirror
  mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
    sed -nE 's/^(deb|URIs:) *(\[[^]]*\] *)?(http[^ ]*\/debian)\/?( .*)?$/\3/p' | head -1) || true
  echo "${mirror:-http://deb.debian.org/debian}"
}

# make_bare SUITE [PACKAGES [OPTION...]]: the root is $bare then. Exits if this system cannot have one; no other failure is
# expected. The options are debootstrap's.
make_bare() {
  local script=/usr/share/debootstrap/scripts
  [ "$(id -u)" -eq 0 ] || skip "chroot needs root"
  [ -x /usr/sbin/debootstrap ] || tools/setup --bare || skip "no debootstrap"
  unshare --mount --pid --fork true 2>/dev/null || skip "this system permits no namespaces"
  bare=$(mktemp -d -p /var/tmp)
  trap 'rm -rf --one-file-system "$bare"' EXIT
  # A debootstrap that is older than the suite does not know its name.
  if [ -e "$script/$1" ]; then script=$script/$1; else script=$script/sid; fi
  debootstrap --variant=minbase --include="ca-certificates${2:+,$2}" "${@:3}" "$1" "$bare" "$(debian_mirror)" "$script" \
    >"$bare.log" 2>&1 || {
    tail -3 "$bare.log" >&2
    skip "debootstrap failed"
  }
  rm -f "$bare.log"
  # The root uses this machine's network configuration.
  mkdir -p "$bare/etc/apt"
  cp /etc/resolv.conf /etc/hosts "$bare/etc/"
  cp -r /etc/apt/apt.conf.d "$bare/etc/apt/"
}

# in_bare FOLDER COMMAND...: runs it there in the root, in namespaces that end with it. $mounted, if it is set, is a folder
# of this machine that the root has as /mounted.
in_bare() {
  printf '\n== %s\n' "${*:2}"
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    unshare --mount --pid --fork --kill-child bash -euc '
      bare=$1 mounted=$2 folder=$3 && shift 3
      if [ -n "$mounted" ]; then mkdir -p "$bare/mounted" && mount --bind "$mounted" "$bare/mounted"; fi
      mount -t proc proc "$bare/proc"
      mount --rbind /dev "$bare/dev"
      mount --rbind /sys "$bare/sys"
      mount -t tmpfs -o mode=1777 tmpfs "$bare/tmp"
      exec chroot "$bare" bash -c "cd \"\$1\" && shift && exec \"\$@\"" bash "$folder" "$@"' \
    bash "$bare" "${mounted-}" "$@"
}
