// What a rank holds of a layer's tensors, where ZeRO-3 keeps parts of its parameters.
#include "report/layer_sharding.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "tests/support/studies.h"

namespace trainyard::layer_sharding_test {

namespace {

LayerSharding layer_of(const std::string& parallel) {
  const Prepared prepared = prepare_text(
      "model: {family: gpt, layers: 2, hidden: 64, heads: 4, vocab: 96, seq_len: 32}\n"
      "cluster: dgx-a100-80g\nparallel: " +
      parallel + "\ntraining: {global_batch: 8, precision: bf16, dropout: 0}\n");
  return layer_sharding(compiled_program(prepared), prepared.model);
}

/// A layer of width h: 12 h h weights of products, 9 h of their biases, 4 h of its norms.
constexpr Bytes kLayer = 12 * 64 * 64 + 13 * 64;

}  // namespace

TEST_CASE("of a layer that ZeRO-3 gathers a rank keeps its share, and is sent the rest") {
  const LayerSharding layer = layer_of("{data: 8, zero: 3}");
  REQUIRE(layer.rows.size() > 3);
  // fp32 masters are kept, bf16 is gathered.
  const LayerSharding::Row& kept = layer.rows[0];
  CHECK(kept.op == "parameter");
  CHECK(kept.spec == "[dp]");
  CHECK(kept.bytes == 4 * kLayer / 8);
  CHECK(kept.why == "the 1/8 that a rank keeps of 12 parameters");
  const LayerSharding::Row& gathered = layer.rows[1];
  CHECK(gathered.op == "all_gather");
  CHECK(gathered.bytes == 2 * kLayer);
  CHECK(gathered.group == "dp");
  CHECK(gathered.why == "12 parameters are read whole");
  const auto parts = std::count_if(layer.rows.begin(), layer.rows.end(), [&](const auto& row) {
    return row.op == "parameter" && row.why == "part of " + gathered.tensor;
  });
  CHECK(parts == 12);
  CHECK(layer_sharding_text(layer).find(" over dp: 12 parameters are read whole\n") !=
        std::string::npos);
}

TEST_CASE("what ranks hold whole is not gathered") {
  for (const std::string zero : {"0", "1", "2"}) {
    CAPTURE(zero);
    for (const LayerSharding::Row& row : layer_of("{data: 8, zero: " + zero + "}").rows) {
      CHECK(row.group.empty());
      CHECK(row.why.empty());
    }
  }
}

}  // namespace trainyard::layer_sharding_test
