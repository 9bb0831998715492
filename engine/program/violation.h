// How the checks of verify.h say that a Program cannot run.
#pragma once

#include <stdexcept>
#include <string>

#include "engine/program/program.h"

namespace trainyard {

/// Caught by verify.cpp.
struct Violation : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws a Violation that says all `parts`, one behind the other.
template <typename... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  std::string text;
  ((text += parts), ...);
  throw Violation(text);
}

}  // namespace trainyard
