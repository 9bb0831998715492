// Whole tensors, put together from the parts that ranks hold, and the parts taken out of them.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/program/program.h"
#include "engine/sharding/spec_boxes.h"

namespace trainyard {

/// The ranges of the whole tensor that a rank holds, one dim after the other.
struct HeldPart {
  std::vector<IndexRanges> ranges;
  std::vector<std::int64_t> whole;
};

HeldPart held_part(const Program& program, const Value& value, const Coordinate& at);
/// What a rank holds of a whole tensor.
at::Tensor part_of(at::Tensor whole, const HeldPart& part);

/// All elements. Makes no tensor, where an op's allocations may be counted, of what is contiguous.
std::vector<double> vector_of(const at::Tensor& tensor);

/// Puts tensors together from what ranks have: pieces beside each other, summands added. Ranks that
/// have the same are told apart, and compared at the end.
class GatheredTensors {
 public:
  void add(const Program& program, const Value& value, const Coordinate& at,
           const std::string& name, const at::Tensor& local);
  /// Throws std::runtime_error where ranks hold alike what is not alike.
  std::map<std::string, std::vector<double>> finish() const;

 private:
  std::map<std::string, std::map<Coordinate, at::Tensor>> copies_;
};

}  // namespace trainyard
