# Shared by tools/deps and its parts (POSIX sh; sourced, never run). Needs: set -eu.

# Everything that cuheap puts on a machine by itself lies under one folder, so that one rm -r takes it away again.
cuheap_cache_dir() {
  if [ -n "${CUHEAP_CACHE:-}" ]; then
    printf '%s\n' "$CUHEAP_CACHE"
  elif [ -n "${XDG_CACHE_HOME:-}" ]; then
    printf '%s\n' "$XDG_CACHE_HOME/cuheap"
  else
    printf '%s\n' "${HOME:?neither HOME nor CUHEAP_CACHE is set}/.cache/cuheap"
  fi
}

say() { printf '%s: %s\n' "${CUHEAP_SELF:-deps}" "$*" >&2; }
die() {
  say "$*"
  exit 1
}

# A folder to build in. Autotools refuse paths with spaces, so such a TMPDIR is passed over.
make_work_dir() {
  case "${TMPDIR:-/tmp}" in
    *[[:space:]]*) mktemp -d /tmp/cuheap.XXXXXX ;;
    *) mktemp -d "${TMPDIR:-/tmp}/cuheap.XXXXXX" ;;
  esac
}

# publish_dir FROM TO: makes FROM (complete, on any file system) appear as TO in one step. Someone else's finished TO
# is replaced; a half-written TO is never visible.
publish_dir() {
  mkdir -p "$(dirname "$2")"
  staged=$(mktemp -d "$(dirname "$2")/.staged.XXXXXX")
  cp -R "$1/." "$staged/"
  chmod 755 "$staged"
  if [ -e "$2" ]; then
    retired=$(mktemp -d "$(dirname "$2")/.retired.XXXXXX")
    mv "$2" "$retired/old"
    mv "$staged" "$2"
    rm -rf "$retired"
  else
    mv "$staged" "$2"
  fi
}

# The comment at the top of a script is its help.
show_usage() { sed -n '2,/^[^#]/{s/^# \{0,1\}//p;}' "$1"; }

use_ccache() {
  if [ -d /usr/lib/ccache ]; then
    PATH=/usr/lib/ccache:$PATH
    # Debug information names the build folder. A cache told to ignore that would hand out objects whose lines lead into
    # another checkout, and the report shows them.
    unset CCACHE_NOHASHDIR
    CCACHE_HASHDIR=1
    export PATH CCACHE_HASHDIR
  fi
}

# logged COMMAND...: silent when it succeeds, everything it printed when it fails. On a terminal it is not silenced: a
# person wants to see a build move.
logged() {
  if [ -t 2 ]; then
    "$@" >&2
    return
  fi
  log=$(mktemp)
  if "$@" >"$log" 2>&1; then
    rm -f "$log"
  else
    logged_status=$?
    cat "$log" >&2
    rm -f "$log"
    say "failed: $*"
    return "$logged_status"
  fi
}

# built COMMAND...: as logged, for a long build with ninja: elsewhere than on a terminal a line each 10 % shows that it
# moves.
built() {
  if [ -t 2 ]; then
    "$@" >&2
    return
  fi
  log=$(mktemp)
  echo 0 >"$log.status"
  { NINJA_STATUS='[%p] ' "$@" 2>&1 || echo $? >"$log.status"; } | {
    next=10
    while IFS= read -r line; do
      printf '%s\n' "$line" >>"$log"
      case "$line" in '['*'%] '*) ;; *) continue ;; esac
      percent=${line%%\%*}
      percent=${percent#[}
      percent=${percent##* }
      case "$percent" in '' | *[!0-9]*) continue ;; esac
      if [ "$percent" -ge "$next" ] && [ "$percent" -lt 100 ]; then say "built $percent %"; fi
      while [ "$percent" -ge "$next" ]; do next=$((next + 10)); done
    done
  }
  built_status=$(cat "$log.status")
  if [ "$built_status" != 0 ]; then
    cat "$log" >&2
    say "failed: $*"
  fi
  rm -f "$log" "$log.status"
  return "$built_status"
}
