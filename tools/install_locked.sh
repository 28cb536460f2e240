#!/bin/sh
# In the build of an image: a virtual environment with what some extras of samjobs need, but not samjobs itself.
# tools/install_locked.sh FOLDER EXTRA,EXTRA…  in a folder with pyproject.toml and requirements.lock; UV_VERSION is set.
#
# Every file that is installed must have its hash in the lock. Two secrets of the build are used where they are given:
# `ca`, certificates to trust in place of the base image's, and `index`, the address of a package index.
set -eu
folder=$1 extras=$2

if [ -s /run/secrets/ca ]; then
  export SSL_CERT_FILE=/run/secrets/ca PIP_CERT=/run/secrets/ca
fi
if [ -s /run/secrets/index ]; then
  PIP_INDEX_URL=$(cat /run/secrets/index)
  export PIP_INDEX_URL UV_DEFAULT_INDEX="$PIP_INDEX_URL"
fi

python3 -m venv /opt/uv
/opt/uv/bin/pip install --quiet --disable-pip-version-check --no-cache-dir "uv==$UV_VERSION"

# Bytecode that is checked by its source's hash holds when a builder changes the files' times.
export PYC_INVALIDATION_MODE=CHECKED_HASH
/opt/uv/bin/uv venv --quiet --no-project --python python3 "$folder"
# shellcheck disable=SC2046  # one option per extra
/opt/uv/bin/uv pip install --quiet --no-cache --compile-bytecode --python "$folder/bin/python" \
  --require-hashes --constraints requirements.lock --requirements pyproject.toml \
  $(printf -- '--extra %s ' $(echo "$extras" | tr ',' ' '))
# uv's lock is a file that everyone may write.
rm -f "$folder/.lock"
