// What one input costs this process, and what is said of it should it end the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace trainyard {

struct InputCost {
  double seconds = 0;          // of CPU
  std::size_t peak_bytes = 0;  // allocated at once, beyond what was before; 0 without a sanitizer
};

class InputWatch {
 public:
  InputWatch();

  /// From here on whatever ends the process prints target and seed first. A hang of a minute does.
  void begin(const std::string& target, std::uint64_t seed);
  InputCost end();
};

}  // namespace trainyard
