#include "study/memory_error.h"

#include "study/profile_reader.h"
#include "study/yaml_reader.h"

namespace trainyard {

MemoryError read_memory_error(const std::string& root) {
  const YamlNode node = YamlNode::load_file(root + "/calibrate/memory_error.yaml");
  constexpr double kMost = 1;
  node.at("value");
  MemoryError error{read_factor(node, "value", 0, kMost), read_provenance(node)};
  node.finish();
  return error;
}

}  // namespace trainyard
