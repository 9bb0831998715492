// What a graph reads of a sample, and what a sample's values may be: found in the graph, so that it
// is the same for every family and for imported models.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/graph/graph.h"

namespace trainyard {

struct SampleInput {
  enum class Kind : std::uint8_t {
    kNumbers,    // real ones
    kIds,        // whole ones: rows of a table, or classes
    kOnes,       // a mask that hides nothing
    kPositions,  // 0, 1, ...
    kZeros       // token types
  };
  enum class Role : std::uint8_t { kRead, kTarget };

  TensorId tensor;
  std::string name;
  Kind kind = Kind::kNumbers;
  Role role = Role::kRead;  // kTarget: what the loss compares with
  Shape shape;              // of one sample
  bool whole = false;       // of an integer type
  std::int64_t below = 0;   // of whole ones: they lie in [0, below); 0: nothing says so
  bool shares = false;      // targets of a binary cross entropy lie in [0, 1]
  OpId loss;                // kTarget: that reads it

  std::int64_t elements() const { return num_elements(shape); }
  /// Whether their values follow from what they are called.
  bool is_made() const { return kind != Kind::kNumbers && kind != Kind::kIds; }
};

/// The losses that `graph` adds up.
std::vector<OpId> losses_of(const Graph& graph);

/// The inputs of `graph`, in its order, but for constants of the model.
std::vector<SampleInput> sample_inputs(const Graph& graph);

/// The values of an input that is_made().
template <class Numbers>
void fill_made(const SampleInput& input, Numbers out) {
  std::int64_t position = 0;
  for (auto& value : out) {
    const std::int64_t made = input.kind == SampleInput::Kind::kPositions ? position++
                              : input.kind == SampleInput::Kind::kOnes    ? 1
                                                                          : 0;
    value = static_cast<std::remove_reference_t<decltype(value)>>(made);
  }
}

}  // namespace trainyard
