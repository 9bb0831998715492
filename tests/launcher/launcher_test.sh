#!/usr/bin/env bash
# ./trainyard around a program that only says how it was called: what it installs and builds for which call, and whom it
# waits for. Argument: the launcher.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp "$1" "$folder/trainyard"
cd "$folder"
mkdir -p build/release bin
touch build/.installed-run

# Whoever is called to install or build says so. The program leaves --help to nobody and needs the other one for the rest.
for tool in apt-get cmake ninja python3; do
  printf '#!/bin/sh\necho "%s $*" >>"%s/called"\nexit 1\n' "$tool" "$folder" >bin/$tool
done
cat >build/release/trainyard <<'STUB'
#!/bin/sh
for word in "$@"; do [ "$word" = --help ] && { echo "help: $*"; exit 0; }; done
[ "$1" = train ] && [ $# -eq 1 ] && { echo "STUDY is required" >&2; exit 2; }
[ -n "${TRAINYARD_ASK:-}" ] && exit 75
echo "run: $*"
STUB
chmod +x bin/* build/release/trainyard
export PATH=$folder/bin:$PATH

failed=0
expect() {  # WHAT FOUND WANTED
  [ "$2" = "$3" ] && return
  echo "$1: expected '$3', got '$2'"
  failed=1
}
is_in() {  # WHAT TEXT PART
  case $2 in *"$3"*) ;; *) echo "$1: '$3' is not in '$2'"; failed=1 ;; esac
}

soon() {  # COMMAND: until it succeeds
  for _ in $(seq 600); do "$@" 2>/dev/null && return; sleep 0.05; done
  echo "did not come: $*"
  exit 1
}

# Answered without LibTorch: nothing is installed.
for call in "train --help" "emulate --help" "calibrate --device cpu --help"; do
  expect "$call" "$(./trainyard $call)" "help: $call"
done
code=0; said=$(./trainyard train 2>&1) || code=$?
expect "train without a study" "$code $said" "2 STUDY is required"
code=0; said=$(./trainyard help test) || code=$?
expect "help test" "$code" 0
is_in "help test" "$said" "Usage: ./trainyard test"
expect "test --help" "$(./trainyard test --help)" "$said"
expect "what was called" "$(cat called 2>/dev/null || true)" ""

# What needs it goes on to install it.
code=0; said=$(./trainyard train study.yaml 2>&1) || code=$?
expect "train study.yaml" "$code" 3
is_in "train study.yaml" "$said" "install"

# GPUs that the machine does not have are said before anything is installed.
if [ ! -e /dev/nvidiactl ] && [ ! -e /usr/lib/wsl/lib/nvidia-smi ] && ! command -v nvidia-smi >/dev/null; then
  rm -f called
  for call in "train study.yaml --device cuda" "emulate study.yaml --rank 0 --device=cuda" "calibrate --device cuda"; do
    code=0; said=$(./trainyard $call 2>&1) || code=$?
    expect "$call" "$code" 3
    is_in "$call" "$said" "--device cuda: no NVIDIA GPU is to be seen on this machine"
  done
  expect "installed for GPUs that are not there" "$(cat called 2>/dev/null || true)" ""
  expect "help of GPUs" "$(./trainyard train --device cuda --help)" "help: train --device cuda --help"
  for tool in nvidia-smi nvcc; do printf '#!/bin/sh\nexit 0\n' >bin/$tool; chmod +x bin/$tool; done
  code=0; said=$(./trainyard train study.yaml --device cuda 2>&1) || code=$?
  expect "with a GPU" "$code" 3
  is_in "with a GPU" "$said" "install"
  rm bin/nvidia-smi bin/nvcc
fi

# What an interrupted installation of LibTorch had unpacked lies in .deps, and goes with the next one.
touch build/.installed-torch
cp bin/python3 refuses
printf '#!/bin/sh\ntouch "$TMPDIR/gigabytes"\nexec sleep 60\n' >bin/python3
./trainyard train study.yaml >said 2>&1 &
soon test -e .deps/.unpacked/gigabytes
kill -TERM $!
code=0; wait $! || code=$?
expect "SIGTERM while LibTorch is installed" "$code" 143
is_in "SIGTERM while LibTorch is installed" "$(cat said)" "the same command installs LibTorch from the beginning"
cp refuses bin/python3
code=0; said=$(./trainyard train study.yaml 2>&1) || code=$?
expect "LibTorch again" "$code" 3
expect "what was unpacked" "$(ls .deps/.unpacked)" ""

# A call that finds another at work says whose, and goes on when that has ended.
rm -f called
exec 8>>build/.lock
flock 8
echo "process 4711 (./trainyard simulate one.yaml)" >build/.lock
mkdir engine && touch engine/new.cpp  # a source that is newer than the program
./trainyard simulate two.yaml 8>&- >said 2>&1 &
soon grep -q waiting said
is_in "waiting" "$(cat said)" "waiting for process 4711 (./trainyard simulate one.yaml)"
expect "built while waiting" "$(cat called 2>/dev/null || true)" ""
exec 8>&-
wait $! || true
is_in "after waiting" "$(cat said)" "going on"
is_in "after waiting" "$(cat called)" "cmake --preset release"

# SIGTERM while it builds: 143 and one line.
printf '#!/bin/sh\necho started >>"%s/called"\nexec sleep 60\n' "$folder" >bin/ninja
touch build/release/build.ninja
rm -f called
./trainyard simulate three.yaml >said 2>&1 &
soon grep -q started called
kill -TERM $!
code=0; wait $! || code=$?
expect "SIGTERM" "$code" 143
is_in "SIGTERM" "$(cat said)" "interrupted (SIGTERM); what was installed and built is kept"

exit $failed
