// What a command answers when a shell runs it.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <string>

#include "tests/support/scratch_folder.h"

namespace trainyard {

struct Answer {
  int exit = 0;
  std::string out, err;
};

/// The answer passes through files of `folder`.
inline Answer answer_of(const std::string& command, const ScratchFolder& folder) {
  const std::string out = folder / "out.txt", err = folder / "err.txt";
  const int status = std::system((command + " > " + out + " 2> " + err).c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_text(out), read_text(err)};
}

}  // namespace trainyard
