// The processor of this machine, as far as its profile depends on it.
#pragma once

#include <string>
#include <vector>

namespace trainyard {

/// The flags of the first processor in the text of /proc/cpuinfo; none where it lists none.
std::vector<std::string> cpu_flags_in(const std::string& cpuinfo);

/// Those of this machine: what its processor has and its kernel lets programs use.
std::vector<std::string> cpu_flags();

}  // namespace trainyard
