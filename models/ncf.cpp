// Neural collaborative filtering, NeuMF (He et al. 2017, arXiv:1708.05031, figure 3): what a user
// makes of an item, from factors of both that are multiplied, beside a tower of layers over other
// embeddings of both, each half as wide as the one before it, down to as many factors. A layer is
// one of the tower; the tower's tables are the beginning, those of the factors the end.
//
// Shapes: B = pairs of a user and an item, f = factors, L = layers of the tower.
#include <cmath>
#include <string>

#include "models/blocks.h"
#include "models/families.h"

namespace trainyard {

namespace {

constexpr double kTableDeviation = 0.01;  // section 4.1

/// A row of `features` numbers for each of the users, or of the items: [B] -> [B, features].
TensorId rows_of(ModelBuilder& m, const std::string& module, TensorId ids, std::int64_t rows,
                 std::int64_t features) {
  const TensorId table = m.graph.parameter(module + ".weight", {rows, features}, SplitHint::kNone,
                                           /*decay=*/true, 0, {.deviation = kTableDeviation});
  return m.graph.embedding(module, ids, table);
}

/// Weights as Glorot and Bengio 2010 start them.
TensorId dense(ModelBuilder& m, const std::string& module, TensorId x, std::int64_t out) {
  const auto both = static_cast<double>(m.graph.shape(x).back() + out);
  return m.graph.linear(module, x, out, /*bias=*/true, SplitHint::kNone,
                        {.deviation = std::sqrt(2 / both)});
}

}  // namespace

Graph build_ncf(const ModelConfig& config, const BuildOptions& options) {
  ModelBuilder m(config, options);
  const std::int64_t pairs = options.microbatch;
  const TensorId users = m.graph.input("users", {pairs}, DType::kInt64);
  const TensorId items = m.graph.input("items", {pairs}, DType::kInt64);

  std::int64_t width = config.hidden << config.layers;  // f 2^L
  const TensorId both[] = {rows_of(m, "tower.users", users, config.users, width / 2),
                           rows_of(m, "tower.items", items, config.items, width / 2)};
  TensorId x = m.graph.concat("tower", both, 1);
  for (std::int32_t i = 0; i < config.layers; ++i) {
    m.graph.set_layer(i);
    const std::string layer = "tower.layers." + std::to_string(i);
    x = m.graph.activation(layer, OpKind::kRelu, dense(m, layer, x, width /= 2));
  }
  m.graph.set_layer(-1);
  const TensorId factors =
      m.graph.mul("factors", rows_of(m, "factors.users", users, config.users, config.hidden),
                  rows_of(m, "factors.items", items, config.items, config.hidden));
  const TensorId ends[] = {factors, x};
  x = dense(m, "head", m.graph.concat("head", ends, 1), 1);
  const TensorId labels = m.graph.input("labels", {pairs}, options.compute);
  return m.graph.finish(m.graph.bce("loss", m.graph.view("head", x, {pairs}), labels));
}

}  // namespace trainyard
