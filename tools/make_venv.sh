#!/usr/bin/env bash
# Make a virtual environment with uv in it: tools/make_venv.sh FOLDER UV_VERSION. PYTHON names the interpreter.
set -euo pipefail
folder=$1 uv_version=$2 python=${PYTHON:-python3}

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
  echo "samjobs needs Python 3.11 or newer, and '$python' is $("$python" --version 2>&1 || echo missing)." >&2
  echo "Install one and name it: make PYTHON=python3.12 …" >&2
  exit 1
fi
if ! "$python" -c 'import ensurepip' 2>/dev/null; then
  # Debian and Ubuntu keep the venv module's other half in a package of its own.
  package=$("$python" -c 'import sys; print(f"python{sys.version_info[0]}.{sys.version_info[1]}-venv")')
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "'$python' cannot make virtual environments: install the package $package (sudo apt-get install $package)." >&2
    exit 1
  fi
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$package" >/dev/null
fi
[ -x "$folder/bin/python" ] || "$python" -m venv "$folder"
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check "uv==$uv_version"
