// What the fuzzers read: for each kind of file that a user hands over, examples of it, and the way
// through our code that one such file takes.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace trainyard {

/// Input that was taken, and led to something that cannot be: reported as a finding.
class Finding : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct FuzzTarget {
  std::string name = {};  // "config"
  std::string file = {};  // how refusals have to call the input, in front of their place; "": they
                          // may name another file
  bool lines = true;      // refusals say line and column, too
  bool json = false;      // half of the inputs stay JSON
  std::vector<std::string> examples = {};
  /// Half of the inputs are an example that this changed; empty: text is changed.
  std::string (*mutate)(const std::string& example, std::uint64_t seed) = nullptr;
  std::function<void(const std::string& text)> read =
      {};  // throws ConfigError, PlanError or Finding
};

std::vector<std::string> fuzz_target_names();
/// Target of one name; all for "". Throws std::runtime_error where there is no such target.
FuzzTarget make_fuzz_target(const std::string& name);

}  // namespace trainyard
