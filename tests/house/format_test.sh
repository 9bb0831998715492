#!/usr/bin/env bash
# Every C++ file is as .clang-format says. Another release would break lines elsewhere, so it is Debian 12's.
set -euo pipefail
cd "$1"
find engine models sim study report calibrate system app real cli tests bench \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' \) -print0 |
  xargs -0 clang-format-14 --dry-run --Werror
