#!/usr/bin/env bash
# Completion in bash, from the script that `trainyard completion bash` prints.
#   completion_test.sh trainyard
set -euo pipefail

eval "$("$1" completion bash)"

# What bash offers for these words, the last of them unfinished.
offered() {
  COMP_WORDS=("$@")
  COMP_CWORD=$(($# - 1))
  _trainyard
  printf '%s\n' "${COMPREPLY[@]}"
}
expect() {
  local word=$1
  shift
  # Read to its end: a writer that is cut off fails the pipe.
  if ! offered "$@" | grep -xF -- "$word" > /dev/null; then
    echo "expected $word for: $*; got: $(offered "$@" | tr '\n' ' ')" >&2
    exit 1
  fi
}

expect simulate trainyard sim
expect test trainyard te
expect schedules trainyard list sched
expect keys trainyard list k
expect simulate trainyard help sim
expect --no-fold trainyard simulate --no-f
expect --leave-one-out trainyard calibrate --leave
expect parallel.tensor= trainyard simulate study.yaml --set parallel.t
expect tp= trainyard simulate study.yaml --set tp
expect parallel.tp= trainyard simulate study.yaml --set parallel.t
expect cluster.gpus= trainyard simulate study.yaml --set cluster.g
expect cluster.intra.bandwidth= trainyard simulate study.yaml --set cluster.intra.b
expect cluster.inter.point_to_point.latency= trainyard simulate study.yaml --set cluster.inter.po
expect dualpipe-v trainyard simulate study.yaml --set schedule = dual
expect selective trainyard simulate study.yaml --set recompute = s
expect true trainyard simulate study.yaml --set parallel.sequence_parallel =
expect true trainyard simulate study.yaml --set parallel.sp =
expect roce trainyard simulate study.yaml --set cluster.inter.kind = r
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
touch "$folder/study.yaml"
expect "$folder/study.yaml" trainyard simulate "$folder/st"
[ -z "$(offered trainyard list nothing)" ] || { echo "nothing has no completion" >&2; exit 1; }
