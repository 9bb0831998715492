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

std::vector<int> even_mesh(int ranks) {
  int first = 1;
  for (int d = 1; d <= ranks / d; ++d) {
    if (ranks % d == 0) first = d;
  }
  return {first, ranks / first};
}

}  // namespace trainyard
