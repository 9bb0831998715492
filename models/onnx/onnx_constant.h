// Values of an ONNX graph that depend on no input and no parameter: shapes that were computed,
// masks, tables of indices or angles. They are computed when the graph is read.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "models/onnx/onnx_model.h"

namespace trainyard {

struct OnnxConstant {
  OnnxType type = OnnxType::kFloat;
  std::vector<std::int64_t> dims;
  Numbered<double> numbers;  // in row-major order, rounded as the type is

  std::int64_t integer(std::size_t i) const;  // within -2^62 and 2^62
  std::vector<std::int64_t> integers() const;
};
using ConstantRef = std::shared_ptr<const OnnxConstant>;

/// Elements of the largest constant: a mask of 4096 x 4096 positions.
inline constexpr std::int64_t kMostConstantElements = std::int64_t{1} << 24;

/// Why a node has no value; who catches it knows the node.
class FoldError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What the node makes of constants; [input]: nullptr where it is left out. nullopt: no kind that
/// is computed. Throws FoldError where the operands do not fit, or a result is too large.
std::optional<std::vector<ConstantRef>> fold(const OnnxNode& node,
                                             const std::vector<ConstantRef>& inputs);

// The parts of it, by what an op does: element by element, carrying elements elsewhere, products,
// sums.
using FoldInputs = std::vector<ConstantRef>;
std::optional<ConstantRef> fold_elementwise(const OnnxNode& node, const FoldInputs& inputs);
std::optional<std::vector<ConstantRef>> fold_movement(const OnnxNode& node,
                                                      const FoldInputs& inputs);
std::optional<ConstantRef> fold_indexed(const OnnxNode& node, const FoldInputs& inputs);
std::optional<ConstantRef> fold_product(const OnnxNode& node, const FoldInputs& inputs);
std::optional<ConstantRef> fold_reduction(const OnnxNode& node, const FoldInputs& inputs);

// What they share.
const OnnxConstant& operand(const FoldInputs& inputs,
                            std::size_t i);                          // throws where it is left out
std::int64_t count_elements(const std::vector<std::int64_t>& dims);  // throws where too many
OnnxConstant empty_constant(OnnxType type, std::vector<std::int64_t> dims);  // of zeros
ConstantRef done(OnnxConstant constant);                                     // rounds the numbers
std::size_t axis_of(std::int64_t axis, std::size_t dims);  // from the end where it is negative
std::vector<std::int64_t> strides_of(const std::vector<std::int64_t>& dims);
std::vector<std::int64_t> broadcast_dims(const std::vector<std::int64_t>& a,
                                         const std::vector<std::int64_t>& b);
/// The elements of `dims` whose places in `from` are sums over dims of index times step, from
/// `begin`.
OnnxConstant strided(const OnnxConstant& from, const std::vector<std::int64_t>& dims,
                     const std::vector<std::int64_t>& steps, std::int64_t begin = 0);
/// `from` repeated to `dims`, which it broadcasts to.
OnnxConstant expanded(const OnnxConstant& from, const std::vector<std::int64_t>& dims);
/// With one element of each dim along which nothing changes.
OnnxConstant without_repeats(OnnxConstant constant);
/// ONNX's shape of a Reshape: 0 keeps a dim, -1 follows.
std::vector<std::int64_t> reshaped_dims(const std::vector<std::int64_t>& from,
                                        std::vector<std::int64_t> to, bool zero_is_zero);
/// Type of `Cast`'s attribute `to`.
OnnxType cast_type(const OnnxNode& node);
/// The same; nullopt: it is no Cast, or to a type that this version lacks.
std::optional<OnnxType> cast_target(const OnnxNode& node);

}  // namespace trainyard
