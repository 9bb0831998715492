// From what ranks hold of a model's parameters, fused, padded and split, to what is stored.
#include "real/checkpoint/stored_weights.h"

#include <catch2/catch.hpp>
#include <map>

#include "models/model.h"

namespace trainyard {

namespace {

ModelConfig config_of(Family family) {
  ModelConfig c;
  c.family = family;
  c.layers = 2;
  c.hidden = 8;
  c.heads = 4;
  c.kv_heads = family == Family::kLlama ? 2 : 4;
  c.head_dim = 2;
  c.ffn = 12;
  c.vocab = 9;
  c.pad_vocab_to = 16;
  c.seq_len = 8;
  if (family == Family::kGpt || family == Family::kBert) c.max_positions = 8;
  if (family == Family::kBert) c.token_types = 2;
  if (family == Family::kT5) {
    c.decoder_layers = 1;
    c.decoder_seq_len = 8;
    c.relative_buckets = 4;
  }
  if (family == Family::kT5 || family == Family::kLlama) c.activation = Activation::kSwiglu;
  return c;
}

std::int64_t local_elements(const Parameter& parameter, int degree) {
  return num_elements(parameter.padded) / (parameter.split == SplitHint::kNone ? 1 : degree);
}

}  // namespace

TEST_CASE("fused parameters are stored as their parts") {
  std::map<std::string, std::int64_t> first_rows;
  for (const StoredWeight& weight : stored_weights(build_model(config_of(Family::kT5), {}))) {
    first_rows[weight.name] = weight.first_row;
  }
  CHECK(first_rows.at("encoder.layers.1.self_attention.q.weight") == 0);
  CHECK(first_rows.at("encoder.layers.1.self_attention.v.weight") == 16);
  CHECK(first_rows.at("decoder.layers.0.cross_attention.q.weight") == 0);
  CHECK(first_rows.at("decoder.layers.0.cross_attention.k.weight") == 0);
  CHECK(first_rows.at("decoder.layers.0.cross_attention.v.weight") == 8);
  CHECK(first_rows.at("decoder.layers.0.mlp.up.weight") == 12);
  CHECK_FALSE(first_rows.contains("encoder.layers.1.self_attention.qkv.weight"));
}

TEST_CASE("a rank's part of a fused parameter is a part of each weight, one behind the other") {
  // Llama, 4 query heads and 2 key-value heads of 2, hidden 8: q has 8 rows, k and v 4. Of two
  // ranks the second holds rows 4 to 7 of q, 2 and 3 of k and v: elements 0 to 31, 32 to 47, 48
  // to 63.
  const Graph graph = build_model(config_of(Family::kLlama), {});
  for (const Parameter& parameter : graph.parameters) {
    if (parameter.name != "decoder.layers.0.attention.qkv.weight") continue;
    const auto pieces = local_pieces(parameter, 1, 2, DType::kFp32, 30, 50);
    REQUIRE(pieces.size() == 3);
    const std::string module = "decoder.layers.0.attention.";
    CHECK(to_string(pieces[0].piece) == module + "q.weight[4:8, 0:8](30:32)");
    CHECK(to_string(pieces[1].piece) == module + "k.weight[2:4, 0:8]");
    CHECK(to_string(pieces[2].piece) == module + "v.weight[2:4, 0:8](0:2)");
    CHECK((pieces[0].offset == 30 && pieces[1].offset == 32 && pieces[2].offset == 48));
    return;
  }
  FAIL("no such parameter");
}

TEST_CASE("rows that pad the vocabulary are not stored") {
  // 9 tokens padded to 16 for four ranks of 4 rows: the third has one real row, the last none.
  const Graph graph = build_model(config_of(Family::kGpt), {});
  const Parameter& table = graph.parameters.front();
  REQUIRE(table.name == "embedding.tokens.weight");
  const auto third = local_pieces(table, 2, 4, DType::kFp32, 0, 32);
  REQUIRE(third.size() == 1);
  CHECK(to_string(third[0].piece) == "embedding.tokens.weight[8:9, 0:8]");
  CHECK(local_pieces(table, 3, 4, DType::kFp32, 0, 32).empty());
}

TEST_CASE("all ranks' parts make up every stored weight") {
  const Family family = GENERATE(Family::kGpt, Family::kBert, Family::kT5, Family::kLlama);
  const int degree = GENERATE(1, 2);
  const int shards = GENERATE(1, 3);  // of the optimizer, each a range of a rank's part
  CAPTURE(to_string(family), degree, shards);
  const Graph graph = build_model(config_of(family), {});
  std::vector<Piece> pieces;
  for (const Parameter& parameter : graph.parameters) {
    if (parameter.tensor < 0) continue;
    const int ranks = parameter.split == SplitHint::kNone ? 1 : degree;
    const std::int64_t elements = local_elements(parameter, degree);
    for (int rank = 0; rank < ranks; ++rank) {
      std::int64_t reached = 0;
      for (int shard = 0; shard < shards; ++shard) {
        const std::int64_t begin = elements * shard / shards;
        const std::int64_t end = elements * (shard + 1) / shards;
        for (const LocalPiece& local :
             local_pieces(parameter, rank, degree, DType::kFp32, begin, end)) {
          CHECK(find_problem(local.piece).empty());
          CHECK(local.offset >= std::max(begin, reached));
          reached = local.offset + num_elements(local.piece);
          CHECK(reached <= end);
          pieces.push_back(local.piece);
        }
      }
    }
  }
  std::map<std::string, std::vector<const Piece*>> by_tensor;
  for (const Piece& piece : pieces) by_tensor[piece.tensor].push_back(&piece);
  const std::vector<StoredWeight> weights = stored_weights(graph);
  CHECK(by_tensor.size() == weights.size());
  for (const StoredWeight& weight : weights) {
    CAPTURE(weight.name);
    REQUIRE(by_tensor.contains(weight.name));
    CHECK(by_tensor.at(weight.name).front()->shape == weight.shape);
    CHECK(find_cover_problem(by_tensor.at(weight.name)).empty());
  }
}

}  // namespace trainyard
