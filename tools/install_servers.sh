#!/usr/bin/env bash
# Install the servers that the tests start for themselves, where this can be done without asking.
set -euo pipefail

have_postgres() { command -v postgres >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null; }

have_postgres && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "PostgreSQL is not installed: its tests will be skipped (sudo apt-get install postgresql)." >&2
  exit 0
fi
echo "installing PostgreSQL for the tests"
# The tests start an instance of their own; the package's own cluster is not wanted.
mkdir -p /etc/postgresql-common
[ -e /etc/postgresql-common/createcluster.conf ] || echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq postgresql >/dev/null
