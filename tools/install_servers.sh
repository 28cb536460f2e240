#!/usr/bin/env bash
# Install the servers that the tests start for themselves, where this can be done without asking.
set -euo pipefail

have_postgres() { command -v postgres >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null; }
have() { PATH="$PATH:/usr/sbin" command -v "$1" >/dev/null; }

missing=()
have_postgres || missing+=(postgresql)
have redis-server || missing+=(redis-server)
have pgbouncer || missing+=(pgbouncer)
have promtool || missing+=(prometheus)    # judges the chart's alerts, and watches the running system in a test
builders=()    # of container images, and what runs them: programs without a service
for program in buildah debootstrap runc; do have "$program" || builders+=("$program"); done
# Of a Kubernetes node, which runs as root where there is no other cluster.
for program in containerd conntrack iptables; do have "$program" || builders+=("$program"); done
have ip || builders+=(iproute2)
[ -e /usr/lib/cni/bridge ] || builders+=(containernetworking-plugins)
have chromium || builders+=(chromium fonts-dejavu-core)    # opens the web page
[ ${#missing[@]} = 0 ] && [ ${#builders[@]} = 0 ] && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  packages="${missing[*]} ${builders[*]}"
  echo "not installed: $packages; their tests will be skipped (sudo apt-get install $packages)." >&2
  exit 0
fi
echo "installing ${missing[*]} ${builders[*]} for the tests"
# The tests start instances of their own; the packages' services are not wanted, now or after a reboot.
mkdir -p /etc/postgresql-common
[ -e /etc/postgresql-common/createcluster.conf ] || echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  trap 'rm -f "$policy"' EXIT
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod 755 "$policy"
fi
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" "${builders[@]}" >/dev/null
if [ ${#missing[@]} -gt 0 ] && command -v systemctl >/dev/null; then
  systemctl disable --quiet "${missing[@]}" 2>/dev/null || true
fi
