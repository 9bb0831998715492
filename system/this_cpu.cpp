#include "system/this_cpu.h"

#include <fstream>
#include <iterator>
#include <sstream>

namespace trainyard {

std::vector<std::string> cpu_flags_in(const std::string& cpuinfo) {
  std::istringstream lines(cpuinfo);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(':');
    if (!line.starts_with("flags") || colon == std::string::npos) continue;
    std::istringstream words(line.substr(colon + 1));
    return {std::istream_iterator<std::string>(words), {}};
  }
  return {};
}

std::vector<std::string> cpu_flags() {
  std::ifstream file("/proc/cpuinfo");
  return cpu_flags_in({std::istreambuf_iterator<char>(file), {}});
}

}  // namespace trainyard
