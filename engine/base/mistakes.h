// All that is wrong with one input, for people.
#pragma once

#include <functional>
#include <vector>

#include "engine/base/error.h"

namespace trainyard {

/// What is wrong with the parts of an input, kept until all have been read.
class Mistakes {
 public:
  /// Keeps what `read` throws.
  void attempt(const std::function<void()>& read);
  /// Throws all that was kept together, if anything was.
  void settle() const;

 private:
  std::vector<ConfigError> found_;
};

/// The mistakes of `error` as their file has them; what has no line there comes first.
std::vector<Mistake> mistakes_in_order(const ConfigError& error);

}  // namespace trainyard
