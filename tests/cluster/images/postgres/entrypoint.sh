#!/bin/bash
# What the official image's entry point does with its variables, as far as a chart relies on it: the first start makes a
# database cluster in PGDATA with a user, a password and a database; every start runs the command.
set -euo pipefail

[ "${1:0:1}" != - ] || set -- postgres "$@"
if [ "$1" = postgres ] && [ "$(id -u)" = 0 ]; then
  mkdir -p "$PGDATA"
  chown -R postgres: "$PGDATA"
  chmod 700 "$PGDATA"
  exec setpriv --reuid postgres --regid postgres --init-groups "${BASH_SOURCE[0]}" "$@"
fi

if [ "$1" = postgres ] && [ ! -s "$PGDATA/PG_VERSION" ]; then
  user=${POSTGRES_USER:-postgres}
  password=${POSTGRES_PASSWORD:-}
  [ -z "${POSTGRES_PASSWORD_FILE:-}" ] || password=$(<"$POSTGRES_PASSWORD_FILE")
  if [ -z "$password" ] && [ "${POSTGRES_HOST_AUTH_METHOD:-}" != trust ]; then
    echo "Error: Database is uninitialized and superuser password is not specified." >&2
    echo "Set POSTGRES_PASSWORD or POSTGRES_PASSWORD_FILE." >&2
    exit 1
  fi
  mkdir -p "$PGDATA"
  chmod 700 "$PGDATA" 2>/dev/null || true
  # By a pipe: a password on a command line or in a file could be read by others.
  # shellcheck disable=SC2086  # several options in one variable, as with the official image
  initdb --username="$user" --pwfile=<(printf '%s\n' "$password") ${POSTGRES_INITDB_ARGS:-} >/dev/null
  printf '\nhost all all all %s\n' "${POSTGRES_HOST_AUTH_METHOD:-scram-sha-256}" >>"$PGDATA/pg_hba.conf"
  database=${POSTGRES_DB:-$user}
  if [ "$database" != postgres ]; then
    printf 'CREATE DATABASE "%s"\n' "$database" | postgres --single -j -D "$PGDATA" postgres >/dev/null
  fi
fi
# As in the official image: a fresh cluster listens on every address.
[ "$1" != postgres ] || set -- "$@" -c listen_addresses='*'
unset POSTGRES_PASSWORD
exec "$@"
