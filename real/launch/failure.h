// What a rank's failure is to the user: the command's exit code, and why.
#pragma once

#include <string>

namespace trainyard {

struct Failure {
  int exit = 0;
  std::string message;
};

/// Describes the exception being handled: to be called in a catch block.
Failure current_failure();

}  // namespace trainyard
