#!/bin/sh
# As the official image's entry point: options alone are redis-server's, and root gives up its rights. There, protected
# mode is switched off by the build, since a container's network is its own; here by an option.
set -eu
case ${1:-} in -* | *.conf) set -- redis-server "$@" ;; esac
[ "$1" != redis-server ] || set -- "$@" --protected-mode no
if [ "$1" = redis-server ] && [ "$(id -u)" = 0 ]; then
  exec setpriv --reuid redis --regid redis --init-groups "$@"
fi
exec "$@"
