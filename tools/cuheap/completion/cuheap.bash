# Completion of cuheap's command line for bash.
# Options are listed here and not asked of the command, which may be slow to start from a network folder;
# tests/tools/cuheap/documents_test.py compares the lists with --help.

_cuheap_program() {
  # After the program's name its own completion goes on, as with sudo.
  local i
  for ((i = 2; i < COMP_CWORD; ++i)); do
    case "${COMP_WORDS[i]}" in
      --)
        ((++i))
        break
        ;;
      -o | --output | --journal-dir | --stacks | --stack-depth | --python-stack-depth | --event-memory | --pack | --stream-pool | \
        --fill | --free-barrier | --sync-deadline-ms | --quarantine-limit | --simulate-devices | --simulate-memory | \
        --simulate-order | --simulate-seed | --simulate-log)
        ((++i))
        [[ "${COMP_WORDS[i]}" != "=" ]] || ((++i))
        ;;
      =) ((++i)) ;; # bash makes three words of --simulate=h100
      -*) ;;
      *) break ;;
    esac
  done
  ((i < COMP_CWORD || (i == COMP_CWORD && i > 2))) || return 1
  [[ "${COMP_WORDS[i - 1]}" == -- ]] || ((i < COMP_CWORD)) || return 1
  if declare -F _command_offset >/dev/null; then
    _command_offset "$i"
  elif ((i == COMP_CWORD)); then
    mapfile -t COMPREPLY < <(compgen -c -- "${COMP_WORDS[COMP_CWORD]}")
  else
    mapfile -t COMPREPLY < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")
  fi
}

_cuheap() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} words=
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <(compgen -W "run report export diff recover help --help --version" -- "$current")
    return
  fi
  # bash makes words of "--option", "=" and the value.
  if [[ "$current" == = ]]; then
    current=
    previous+='='
  elif [[ "$previous" == = ]]; then
    previous=${COMP_WORDS[COMP_CWORD - 2]}=
  fi
  case "${COMP_WORDS[1]}" in
    run)
      _cuheap_program && return
      words="--output --quiet --observe --pool --journal-dir --stacks --stack-depth --python-stack-depth --event-memory
        --pack --stream-pool --fill --free-barrier --sync-deadline-ms --quarantine-limit --simulate --simulate-devices
        --simulate-memory --simulate-order --simulate-seed --simulate-log --help --"
      ;;
    report) words="--json --html --at --by --top --map --no-stacks --no-source --ignore --color --width --help" ;;
    export) words="--format --output --at --blocks --python --quiet --help" ;;
    diff) words="--json --markdown --fail-on --threshold --no-source --ignore --top --color --width --help" ;;
    recover) words="--output --quiet --help" ;;
    help)
      ((COMP_CWORD > 2)) || mapfile -t COMPREPLY < <(compgen -W "run report export diff recover" -- "$current")
      return
      ;;
    *) return ;;
  esac
  if [[ "$previous" == --simulate= ]]; then # without "=" it takes no value
    words="h100 h100-pcie h200 b200 a100-80g a100-40g a10g a6000 rtx3090 l4 l40s rtx4090 rtx5090 t4 v100 v100-32g p100"
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
    return
  fi
  previous=${previous%=}
  case "$previous" in
    --stacks) words="full native off" ;;
    -f | --format) words="folded speedscope pprof chrome torch-snapshot csv ndjson parquet" ;;
    --by) words="line library lifetime" ;;
    --at) words="peak device-peak end leaked" ;;
    --pack | --stream-pool) words="0 1" ;;
    --free-barrier | --color) words="auto always never" ;;
    --simulate-order) words="late random eager" ;;
    --stack-depth | --python-stack-depth | --event-memory | --sync-deadline-ms | --quarantine-limit | \
      --simulate-devices | --simulate-memory | --simulate-seed | --top | --ignore | --width | --fail-on | --threshold | --blocks) return ;;
    *)
      if [[ "$previous" == @(-o|--output|--simulate-log|--markdown|--python) || "$current" != -* && "${COMP_WORDS[1]}" != run ]]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        compopt -o filenames 2>/dev/null
        return
      elif [[ "$previous" == --journal-dir ]]; then
        mapfile -t COMPREPLY < <(compgen -d -- "$current")
        compopt -o filenames 2>/dev/null
        return
      elif [[ "$current" != -* && -n "$current" ]]; then
        mapfile -t COMPREPLY < <(compgen -c -- "$current")
        return
      fi
      ;;
  esac
  # shellcheck disable=SC2086 # one word each
  mapfile -t COMPREPLY < <(compgen -W "$(echo $words)" -- "$current")
}

complete -F _cuheap cuheap
