#!/usr/bin/env bash
# A base image with Python from Debian's packages, where no image registry can be reached: tools/debian_base.sh NAME.
# Needs root, debootstrap and buildah. Use it by BASE=NAME tools/build_images.sh.
set -euo pipefail
name=$1
root=$(mktemp -d)
trap 'rm -rf --one-file-system "$root" "$root.log"' EXIT

debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates bookworm "$root" >"$root.log" ||
  { tail -20 "$root.log" >&2; exit 1; }
rm -rf "$root"/usr/share/{locale,man} "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/*
find "$root/usr/share/doc" -type f ! -name copyright -delete
container=$(buildah from scratch)
buildah add --quiet "$container" "$root" / >/dev/null
buildah config --cmd python3 "$container"
buildah commit --quiet --rm "$container" "$name" >/dev/null
