// Numbers that ranks do not divide, in a Program: the spec says the whole, extents are of the
// largest piece, and collectives take as long as what the busiest rank receives.
#include <algorithm>
#include <catch2/catch.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/exec/op_work.h"
#include "engine/program/own_extents.h"
#include "engine/program/program_text.h"
#include "engine/program/rank_places.h"
#include "engine/program/verify.h"
#include "engine/sharding/spec_text.h"
#include "tests/support/studies.h"

namespace trainyard::uneven_pieces_test {

namespace {

const std::string kStudy =
    "model: {family: gpt, layers: 2, hidden: 16, heads: 4, ffn: 50, vocab: 61, pad_vocab_to: 61, "
    "seq_len: 9}\n"
    "cluster: {preset: local, ranks: 4}\n"
    "parallel: {tensor: 4, sequence_parallel: true}\n"
    "training: {global_batch: 2, microbatch: 1, precision: bf16}\n";
const std::string kSharding = "sharding: {'*.mlp.fc1': {weight: [tp, R]}}\n";

const Value& value_named(const Program& program, const std::string& name) {
  for (const Value& value : program.values) {
    if (value.name == name) return value;
  }
  throw std::runtime_error("no value " + name);
}

/// The first extent on each rank.
std::vector<std::int64_t> rows(const Program& program, const std::string& name) {
  std::vector<std::int64_t> out;
  for (std::int64_t rank = 0; rank < program.mesh.num_ranks(); ++rank) {
    const Coordinate at = coordinate_of(program, rank);
    out.push_back(own_extents(program, value_named(program, name), at).front());
  }
  return out;
}

/// The first collective of a kind within a layer's forward.
const ProgramOp& collective(const Program& program, OpKind kind) {
  for (const Segment& segment : program.segments) {
    for (const ProgramOp& op : segment.ops) {
      const bool of_layer = program.modules[op.module].starts_with("decoder.layers.0");
      if (segment.phase == Phase::kForward && op.kind == kind && of_layer) return op;
    }
  }
  throw std::runtime_error("no such collective");
}

std::string refusal(const std::string& text) {
  try {
    compiled_program(prepare_text(text));
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a Program's specs say the whole of what ranks have pieces of unlike size of") {
  const Program program = compiled_program(prepare_text(kStudy + kSharding));
  const Value& weight = value_named(program, "decoder.layers.0.mlp.fc1.weight");
  CHECK(to_text(spec_of(program, weight), program.mesh) == "[50x1:tp, R]");
  CHECK(weight.dims[0].expected == 13);
  CHECK(rows(program, "decoder.layers.0.mlp.fc1.weight") ==
        std::vector<std::int64_t>{13, 13, 12, 12});
  CHECK(rows(program, "embedding.tokens.weight") == std::vector<std::int64_t>{16, 15, 15, 15});
  CHECK(find_violation(program) == std::nullopt);
  CHECK(parse_program(to_text(program), "program.txt") == program);
}

TEST_CASE("collectives of uneven pieces take as long as what the busiest rank receives") {
  // Ranks have 3 2 2 2 of the 9 tokens, each of 16 features of 2 bytes.
  const Program program = compiled_program(prepare_text(kStudy + kSharding));
  const ProgramOp& gather = collective(program, OpKind::kAllGather);
  const ProgramOp& scatter = collective(program, OpKind::kReduceScatter);
  std::vector<double> gathered, scattered;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    const Coordinate at = coordinate_of(program, rank);
    gathered.push_back(received_bytes(program, gather, at));
    scattered.push_back(received_bytes(program, scatter, at));
  }
  // What is not there yet: 6 or 7 tokens. The others' summands: 3 times 3 tokens, or 2.
  CHECK(gathered == std::vector<double>{192, 224, 224, 224});
  CHECK(scattered == std::vector<double>{288, 192, 192, 192});
  // Even pieces of a message of n bytes bring 3/4 of it to each rank.
  CHECK(message_bytes(program, gather) == 299);
  CHECK(message_bytes(program, scatter) == 384);
}

TEST_CASE("what ranks count is divided evenly or refused") {
  // Without a sharding of its own a study has Megatron's pieces alone.
  CHECK(refusal(kStudy).find("4 ranks do not divide") != std::string::npos);
  CHECK(refusal(kStudy + "sharding: {'*.mlp.fc1': {input: '[tp, R, R]'}}\n")
            .find("does not divide its dim 0 of 1") != std::string::npos);
}

}  // namespace trainyard::uneven_pieces_test
