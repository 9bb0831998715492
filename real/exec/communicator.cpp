#include "real/exec/communicator.h"

namespace trainyard {

std::string group_key(const std::string& name, const std::vector<std::int64_t>& ranks) {
  std::string key = name;
  for (const std::int64_t rank : ranks) key.append(1, '.').append(std::to_string(rank));
  return key;
}

}  // namespace trainyard
