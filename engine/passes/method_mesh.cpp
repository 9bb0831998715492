#include "engine/passes/method_mesh.h"

namespace trainyard {

std::string mesh_text(const std::vector<int>& mesh) {
  std::string out;
  for (const int ranks : mesh) {
    out += out.empty() ? "[" : ", ";
    out += std::to_string(ranks);
  }
  return out + "]";
}

}  // namespace trainyard
