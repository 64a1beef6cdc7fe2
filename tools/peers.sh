#!/bin/sh
# Installs the programs that some tests use, where this may be done; it never fails, and tests name what they miss.
missing=""
for pair in redis-server:redis-server sshd:openssh-server ssh:openssh-client ip:iproute2 tc:iproute2 iptables:iptables \
    rsync:rsync mkfs.xfs:xfsprogs; do
    PATH="$PATH:/usr/sbin:/sbin" command -v "${pair%%:*}" >/dev/null || missing="$missing ${pair##*:}"
done
[ -z "$missing" ] && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "not installed:$missing (needs root and apt): tests that use them are skipped"
    exit 0
fi
echo "set-up:$missing, which some tests use"
# RUNLEVEL=1: none of them is started as a service of this machine.
export RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 - a list of names
{ timeout 120 apt-get update -q && timeout 300 apt-get install -q -y --no-install-recommends $missing; } >/dev/null 2>&1 ||
    echo "cannot install:$missing: tests that use them are skipped"
exit 0
