#!/usr/bin/env bash
# An installed tree runs wherever it is moved, from anywhere, without the sources: install_test.sh CMAKE BUILD_FOLDER.
set -uo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "install_test: $*" >&2; exit 1; }

"$1" --install "$2" --prefix "$folder/first" >"$folder/log" 2>&1 || { cat "$folder/log" >&2; fail "cmake --install failed"; }
mv "$folder/first" "$folder/moved"
tree=$folder/moved
cd / || exit 1

# --no-reuse asks SimGrid: the module of this tree.
out=$(LD_DEBUG=files LD_DEBUG_OUTPUT=$folder/loaded "$tree/bin/trainyard" simulate \
  "$tree/share/trainyard/configs/gpt3-small-16.yaml" --no-reuse) || fail "simulate ended with $?"
grep -q "step time" <<<"$out" || fail "no step time in: $out"
grep -hq "$tree/lib/trainyard/libtrainyard_simgrid.so" "$folder"/loaded.* || fail "not the tree's own SimGrid module"
"$tree/bin/trainyard" list profiles | grep h100 > /dev/null || fail "no profiles"

if [ -e "$tree/lib/trainyard/trainyard-real" ]; then
  "$tree/bin/trainyard" train --help | grep -e --out > /dev/null || fail "no help of train"
  rm "$tree/lib/trainyard/trainyard-real"
fi
message=$("$tree/bin/trainyard" train "$tree/share/trainyard/configs/gpt3-175b-dgx-a100.yaml" 2>&1)
code=$?
[ $code -eq 3 ] || fail "train without trainyard-real ended with $code: $message"
grep -q "no trainyard-real" <<<"$message" || fail "train without trainyard-real says: $message"
echo "install_test: passed"
