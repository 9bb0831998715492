// Which part of which weight a rank holds: worked by hand, and as a law over layouts.
#include "real/parameters/parameter_layout.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/program/rank_places.h"
#include "real/checkpoint/piece.h"
#include "real/checkpoint/stored_weights.h"
#include "real/parameters/initial_values.h"
#include "tests/support/studies.h"

namespace trainyard::parameter_layout_test {

namespace {

std::string study(const std::string& model) {
  return "model: " + model +
         "\ncluster: {preset: local, ranks: 1}\ntraining: {global_batch: 8, precision: fp32}\n";
}

const WeightPiece& find_piece(const std::vector<BucketState>& buckets, const std::string& weight) {
  for (const BucketState& bucket : buckets) {
    for (const WeightPiece& piece : bucket.pieces) {
      if (piece.weight == weight) return piece;
    }
  }
  throw std::runtime_error("no piece of " + weight);
}

std::vector<BucketState> buckets_of(const Prepared& prepared, const Program& program,
                                    std::int64_t rank) {
  return bucket_states(program, prepared.model, coordinate_of(program, rank));
}

}  // namespace

TEST_CASE("a rank's part of a fused weight is a part of each weight in it") {
  // 4 query heads and 2 key-value heads of 4: q has 16 rows, k and v 8. Of two ranks the second
  // holds rows 8 to 15 of q and 4 to 7 of k and v, one behind the other: 8 + 4 + 4 rows of 16
  // columns.
  const Prepared prepared = prepare_text(study("{family: llama, layers: 1, hidden: 16, heads: 4, "
                                               "kv_heads: 2, ffn: 24, vocab: 10, seq_len: 8}"),
                                         {"cluster.ranks=2", "parallel.tensor=2"});
  const Program program = compiled_program(prepared);
  const auto buckets = buckets_of(prepared, program, 1);
  const std::string module = "decoder.layers.0.attention.";
  const WeightPiece& q = find_piece(buckets, module + "q.weight");
  const WeightPiece& k = find_piece(buckets, module + "k.weight");
  const WeightPiece& v = find_piece(buckets, module + "v.weight");
  CHECK((q.first_row == 8 && q.rows == 8 && q.columns == 16));
  CHECK((k.first_row == 4 && k.rows == 4 && k.offset == q.offset + 8 * 16));
  CHECK((v.first_row == 4 && v.rows == 4 && v.offset == k.offset + 4 * 16));
  // The output projection is split by columns: the second 8 of 16.
  const WeightPiece& proj = find_piece(buckets, module + "proj.weight");
  CHECK((proj.first_row == 0 && proj.rows == 16 && proj.first_column == 8 && proj.columns == 8));
  CHECK(proj.global_columns == 16);
}

TEST_CASE("rows that pad the vocabulary belong to no weight") {
  // 9 tokens padded to 12 for four ranks of 3: the last has none.
  const Prepared prepared =
      prepare_text(study("{family: gpt, layers: 1, hidden: 16, heads: 4, vocab: 9, seq_len: 8}"),
                   {"cluster.ranks=4", "parallel.tensor=4"});
  const Program program = compiled_program(prepared);
  CHECK(find_piece(buckets_of(prepared, program, 2), "embedding.tokens.weight").rows == 3);
  CHECK_THROWS(find_piece(buckets_of(prepared, program, 3), "embedding.tokens.weight"));
}

TEST_CASE("over all ranks every element of every weight is owned once") {
  const std::vector<std::string> models = {
      "{family: gpt, layers: 4, hidden: 16, heads: 4, vocab: 9, seq_len: 8}",
      "{family: bert, layers: 4, hidden: 16, heads: 4, vocab: 30, seq_len: 8, next_sentence: true}",
      "{family: t5, layers: 2, hidden: 16, heads: 4, head_dim: 4, ffn: 24, vocab: 30, seq_len: 8, "
      "decoder_seq_len: 8}",
      "{family: llama, layers: 4, hidden: 16, heads: 4, kv_heads: 2, ffn: 24, vocab: 10, seq_len: "
      "8}"};
  const std::vector<std::vector<std::string>> layouts = {
      {},
      {"cluster.ranks=2", "parallel.tensor=2", "parallel.sequence_parallel=true"},
      {"cluster.ranks=4", "parallel.pipeline=4"},
      {"cluster.ranks=4", "parallel.data=4", "parallel.zero=1"},
      {"cluster.ranks=8", "parallel.data=2", "parallel.tensor=2", "parallel.pipeline=2",
       "parallel.zero=1", "training.bucket_elements=500"},
      {"cluster.ranks=8", "parallel.data=2", "parallel.tensor=2", "parallel.pipeline=2",
       "parallel.zero={stage: 1, by: parameter}"}};
  for (const std::string& model : models) {
    for (const auto& sets : layouts) {
      CAPTURE(model, sets);
      const Prepared prepared = prepare_text(study(model), sets);
      const Program program = compiled_program(prepared);
      std::vector<Piece> pieces;
      for (std::int64_t rank = 0; rank < program.mesh.num_ranks(); ++rank) {
        const std::int64_t replica = replica_at(program, coordinate_of(program, rank));
        for (const BucketState& bucket : buckets_of(prepared, program, rank)) {
          const bool sharded = bucket.own_end - bucket.own_begin < bucket.elements;
          if (bucket.owner >= 0 ? bucket.owner != replica : !sharded && replica != 0) continue;
          for (const WeightPiece& weight : bucket.pieces) {
            if (!weight.owned) continue;
            std::vector<std::int64_t> start = {weight.first_row}, extent = {weight.rows};
            if (weight.shape.size() > 1)
              start.push_back(weight.first_column), extent.push_back(weight.columns);
            Piece piece = rectangle(weight.weight, DType::kFp32, weight.shape, start, extent);
            const std::int64_t size = piece.flat_end;
            piece.flat_begin = std::clamp<std::int64_t>(bucket.own_begin - weight.offset, 0, size);
            piece.flat_end = std::clamp<std::int64_t>(bucket.own_end - weight.offset, 0, size);
            if (num_elements(piece) > 0) pieces.push_back(piece);
          }
        }
      }
      std::map<std::string, std::vector<const Piece*>> by_weight;
      for (const Piece& piece : pieces) {
        CHECK(find_problem(piece).empty());
        by_weight[piece.tensor].push_back(&piece);
      }
      const auto weights = stored_weights(prepared.model);
      CHECK(by_weight.size() == weights.size());
      for (const StoredWeight& weight : weights) {
        CAPTURE(weight.name);
        REQUIRE(by_weight.contains(weight.name));
        CHECK(by_weight.at(weight.name).front()->shape == weight.shape);
        CHECK(find_cover_problem(by_weight.at(weight.name)) == "");
      }
    }
  }
}

TEST_CASE("initial values are draws, and functions of seed, name and element alone") {
  const Init init = GENERATE(Init::kNormal, Init::kUniform);
  const PhiloxKey key = philox_key("weight", "w", 1);
  std::vector<float> all(20000);
  fill_draws(init, key, 0, 0.02F, all);
  double sum = 0, squares = 0;
  for (const float x : all) sum += x, squares += double{x} * x;
  // The mean of n draws scatters by deviation / sqrt(n), the variance by sqrt(2 / n) of itself: 4
  // times that.
  const auto n = static_cast<double>(all.size());
  CHECK(std::abs(sum / n) < 4 * 0.02 / std::sqrt(n));
  CHECK(squares / n == Approx(0.0004).epsilon(4 * std::sqrt(2 / n)));
  // Uniform numbers deviate by their bound / sqrt(3), and of 20,000 some are within 1 % of it.
  const float largest = std::abs(*std::max_element(all.begin(), all.end()));
  const double bound = 0.02 * std::sqrt(3.0);
  CHECK((largest <= bound) == (init == Init::kUniform));
  CHECK(largest > 0.99 * bound);
  for (const std::int64_t begin : {1, 2, 3, 4, 1001}) {
    std::vector<float> part(37);
    fill_draws(init, key, begin, 0.02F, part);
    CHECK(std::equal(part.begin(), part.end(), all.begin() + begin));
  }
  std::vector<float> other(20000);
  fill_draws(init, philox_key("weight", "w", 2), 0, 0.02F, other);
  CHECK(other != all);
  CHECK(philox_key("weight", "v", 1) != key);
  CHECK(philox_key("dropout", "w", 1) != key);
}

}  // namespace trainyard::parameter_layout_test
