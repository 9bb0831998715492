// Copies of tensors in 8 bits, and the instructions that make them: of a whole tensor by its
// largest element, of rows and blocks by a kernel that finds theirs itself. Products read a copy
// and its scale, by which its numbers are to be multiplied.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "engine/passes/training_graph.h"
#include "engine/plan/fp8_config.h"

namespace trainyard {

/// Over which axes of the mesh the largest element of a tensor is looked for.
struct AmaxAxes {
  AxisSet current = 0;  // of a tensor as it is
  AxisSet delayed = 0;  // of a step's tensors, once per step
  friend bool operator==(const AmaxAxes&, const AmaxAxes&) = default;
};

/// When weights are cast: they change once per step, but where they are gathered (ZeRO-3) there is
/// nothing to cast before a product is about to read them.
/// With kGathered they are gathered as they are cast, but where others read them, too.
enum class WeightCasts : std::uint8_t { kOncePerStep, kAtUse, kGathered };

/// Which dim of an operand a product sums over: the last, or all others.
enum class SummedDim : std::uint8_t { kLast, kRows };

struct Fp8Copy {
  TensorId data = kNoIndex;
  TensorId scale = kNoIndex;
  TensorId transposed = kNoIndex;  // the same numbers in the other layout; kNoIndex: not made
};

class Fp8Copies {
 public:
  Fp8Copies(TrainingGraph& training, const Fp8Config& config, const AmaxAxes& axes,
            WeightCasts weights);

  /// e5m2, where a recipe has two types, for gradients of activations.
  DType type_of(bool gradient) const;

  /// The copy that a product reads, made in front of `product`, to the end of `list`, unless there
  /// is one. `both`: the product's backward, or its forward, sums over the other dim.
  Fp8Copy get(TensorId of, DType type, SummedDim summed, bool both, const Instruction& product,
              std::vector<Instruction>& list);
  /// The same of a weight, made before the step, or for the forward and for the backward each.
  Fp8Copy get_weight(TensorId of, SummedDim summed, bool both, const Instruction& product,
                     std::vector<Instruction>& list);

  /// From here on the weight is what is gathered of it: in 8 bits, beside a scale.
  void gather_weight(TensorId weight);

  /// A gather of a tensor becomes one of its copy, which products of `layer` and maybe others read.
  void gather(const Instruction& gather, OpId layer, DType type, std::vector<Instruction>& list);

  /// What a step does with the state of delayed scaling; nothing under other recipes.
  void finish();

 private:
  struct Wanted {
    TensorId of;
    DType type;
    SummedDim summed;
    bool weight;
    OpId layer;  // whose product reads it
  };
  /// Scales of one type and stage under delayed scaling, and what they come from.
  struct Delayed {
    TensorId amaxes = kNoIndex, scales = kNoIndex, history = kNoIndex;
    std::int64_t count = 0;
    Instruction last;  // a product of the stage
    std::map<std::string, std::pair<TensorId, TensorId>>
        entries;  // by name: scale, largest element
  };

  Tensor& tensor(TensorId id) { return training_.graph.tensors[id]; }
  TensorRole role_of_copy(bool weight) const;
  /// A second copy of a weight, for the backward.
  bool is_again(bool weight, const Instruction& product) const;
  /// Rows and columns that share a scale.
  HeightWidth window(SummedDim summed, bool weight) const;
  /// Whether products that sum over either dim read the same numbers.
  bool is_shared(bool weight) const;
  Fp8Copy gathered(TensorId weight, SummedDim summed, const Instruction& product,
                   std::vector<Instruction>& list);
  Fp8Copy get_copy(const Wanted& wanted, bool both, const Instruction& beside_op,
                   std::vector<Instruction>& list);
  TensorId copy_of(TensorId of, DType type, std::string_view suffix, bool weight);
  TensorId number(const std::string& name, TensorRole role, const TensorSpec& spec);
  TensorId scale_of(TensorId of, HeightWidth window, std::string_view suffix, bool weight);
  bool is_found_in_passing(TensorId of, const std::vector<Instruction>& list) const;
  TensorId amax(TensorId of, bool weight, const Instruction& product,
                std::vector<Instruction>& list);
  Fp8Copy quantize(const Wanted& wanted, bool transposed, const Instruction& beside_op,
                   std::vector<Instruction>& list);
  void quantize_by_history(const Wanted& wanted, Instruction& cast, Fp8Copy& copy);
  Delayed& delayed(DType type, const Instruction& product);
  TensorId entry(TensorId buffer, std::int64_t index, const std::string& name);
  TensorId transpose(TensorId data, const Instruction& product, std::vector<Instruction>& list);

  TrainingGraph& training_;
  const Fp8Config& config_;
  const AmaxAxes& axes_;
  WeightCasts weights_;
  using Key = std::tuple<TensorId, std::int32_t, std::int32_t, std::int32_t, bool>;
  std::map<Key, Fp8Copy> known_;  // by tensor, stage, rows and columns of a scale; of is_again()
  std::map<TensorId, TensorId> scale_of_gathered_;
  std::map<std::pair<std::int32_t, DType>, Delayed> delayed_;
};

}  // namespace trainyard
