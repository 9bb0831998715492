#include "engine/passes/mesh_forms.h"

namespace trainyard {

namespace {

using Mesh = std::vector<int>;

/// [q, q], q of at least 2.
bool is_square(const Mesh& mesh) { return mesh.size() == 2 && mesh[0] == mesh[1] && mesh[0] > 1; }
std::optional<Mesh> square_of(int ranks) {
  int q = 2;
  while (q * q < ranks) ++q;
  return q * q == ranks ? std::optional(Mesh{q, q}) : std::nullopt;
}

/// [d, q, q], d of 2 to q, as Wang et al. have it.
bool is_layered(const Mesh& mesh) {
  return mesh.size() == 3 && mesh[1] == mesh[2] && mesh[0] > 1 && mesh[0] <= mesh[1];
}
/// The fewest layers: d larger, q smaller gathers less of weights and more of activations.
std::optional<Mesh> layers_of(int ranks) {
  for (int d = 2; d * d * d <= ranks; ++d) {
    if (ranks % d != 0) continue;
    const auto square = square_of(ranks / d);
    if (square && d <= square->front()) return Mesh{d, square->front(), square->front()};
  }
  return std::nullopt;
}

bool is_cube(const Mesh& mesh) {
  return mesh.size() == 3 && mesh[0] == mesh[1] && mesh[1] == mesh[2] && mesh[0] > 1;
}
std::optional<Mesh> cube_of(int ranks) {
  int p = 2;
  while (p * p * p < ranks) ++p;
  return p * p * p == ranks ? std::optional(Mesh{p, p, p}) : std::nullopt;
}

int all_but_last(const Mesh& mesh) {
  int ranks = 1;
  for (std::size_t i = 0; i + 1 < mesh.size(); ++i) ranks *= mesh[i];
  return ranks;
}
int last(const Mesh& mesh) { return mesh.back(); }

}  // namespace

const MeshForm kSquareMeshes = {"q x q", square_of, is_square, all_but_last, last};
const MeshForm kLayeredMeshes = {"d x q x q with d of 2 to q", layers_of, is_layered, all_but_last,
                                 last};
const MeshForm kCubeMeshes = {"p x p x p", cube_of, is_cube, all_but_last, last};

}  // namespace trainyard
