#!/usr/bin/env bash
# The GPU kit: what only a real GPU can prove, in one go. usage: run.sh [OPTIONS]; --help tells them.
#
# In a packed folder (pack.py makes one, which needs nothing but a driver, libc and python3) it runs what is there. In a
# checkout it builds the release preset, packs it into build/gpu_kit and runs that.
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
command -v python3 >/dev/null || { echo "run.sh: python3 is needed to run the kit" >&2; exit 1; }
if [ ! -f "$here/manifest.json" ]; then
  root=$(cd -- "$here/../.." && pwd)
  if [ ! -d "$root/build/gpu_kit" ]; then
    command -v cmake >/dev/null || {
      echo "run.sh: no packed kit in $root/build/gpu_kit, and no cmake to build one: carry one here (tests/gpu/pack.py)" >&2
      exit 1
    }
    (cd -- "$root" && cmake --preset release && cmake --build --preset release)
    python3 -B "$here/pack.py" "$root/build/release" "$root/build/gpu_kit"
  fi
  here=$root/build/gpu_kit
fi
exec python3 -B "$here/kit.py" "$@"
