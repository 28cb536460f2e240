#!/usr/bin/env bash
# Build the container images with docker, podman or buildah, whichever is there.
# tools/build_images.sh [controller|worker …]: both, where none is named. Variables:
#   BUILDER         docker, podman or buildah; left out: the first of them that works
#   BASE            base image of both; left out: the Dockerfiles' own
#   WORKER_EXTRAS   what the worker has, comma-separated; `worker,s3` is small and has no model
#   TAG             left out: dev
#   SSL_CERT_FILE   certificates to trust while packages are fetched; PIP_INDEX_URL: from where. Neither stays in the image
set -euo pipefail
cd "$(dirname "$0")/.."

builder=${BUILDER:-}
if [ -z "$builder" ]; then
  if docker info >/dev/null 2>&1; then builder=docker
  elif command -v podman >/dev/null; then builder=podman
  elif command -v buildah >/dev/null; then builder=buildah
  else echo "Nothing here builds images: install docker, podman or buildah." >&2; exit 1
  fi
fi

options=(--build-arg "VERSION=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' samjobs/__init__.py)"
  --build-arg "REVISION=$(git rev-parse HEAD 2>/dev/null || echo unknown)")
case $builder in
  docker) export DOCKER_BUILDKIT=1 ;;
  # Layers are kept for the next build, as docker does.
  *) options+=(--format docker --layers) ;;
esac
[ -z "${BASE:-}" ] || options+=(--build-arg "BASE=$BASE")
[ -z "${SSL_CERT_FILE:-}" ] || options+=(--secret "id=ca,src=$SSL_CERT_FILE")
if [ -n "${PIP_INDEX_URL:-}" ]; then
  # By a file: an address may hold a password, and other users can read command lines.
  index=$(mktemp)
  trap 'rm -f "$index"' EXIT
  printf '%s' "$PIP_INDEX_URL" >"$index"
  options+=(--secret "id=index,src=$index")
fi

[ $# -gt 0 ] || set -- controller worker
for name in "$@"; do
  extras=()
  [ "$name" != worker ] || [ -z "${WORKER_EXTRAS:-}" ] || extras=(--build-arg "EXTRAS=$WORKER_EXTRAS")
  echo "building samjobs-$name:${TAG:-dev} with $builder"
  "$builder" build "${options[@]}" "${extras[@]}" --file "Dockerfile.$name" --tag "samjobs-$name:${TAG:-dev}" .
done
