#include "engine/program/op_tensors.h"

#include "engine/graph/op_table.h"

namespace trainyard {

namespace {

bool is_parameter(OpKind kind, std::size_t operand) {
  switch (kind) {
    case OpKind::kRelativeBias: return operand == 0;
    case OpKind::kNormalize:
    case OpKind::kBatchNormalize: return operand >= 2;
    case OpKind::kChunkScan: return operand >= 4;
    case OpKind::kCausalConv1d:
    case OpKind::kHeadNorm:
    case OpKind::kGroupNorm:
    case OpKind::kBatchNorm:
    case OpKind::kConv2d:
    case OpKind::kConvTranspose2d:
    case OpKind::kEmbedding:
    case OpKind::kLinear:
    case OpKind::kAddBias:
    case OpKind::kBiasGelu:
    case OpKind::kLayerNorm:
    case OpKind::kRmsNorm: return operand >= 1;
    default: return false;
  }
}
/// A bias_dropout_add without a bias has its residual there. Operands of general kinds may be
/// either.
bool may_be_parameter(const ProgramOp& op, const OpAttrs& attrs, std::size_t operand) {
  if (is_general(op.kind)) return true;
  if (op.kind == OpKind::kBiasDropoutAdd) return attrs.has_bias && operand == 1;
  return is_parameter(op.kind, operand);
}

/// Operands of the forward op.
std::size_t num_operands(OpKind kind, const OpAttrs& attrs) {
  switch (kind) {
    case OpKind::kLinear:
    case OpKind::kConv2d:
    case OpKind::kConvTranspose2d:
    case OpKind::kBiasDropoutAdd: return attrs.has_bias ? 3 : 2;
    case OpKind::kBatchNormalize: return attrs.momentum > 0 ? 6 : 4;
    case OpKind::kBatchNorm: return attrs.momentum > 0 ? 5 : 3;
    case OpKind::kHeadNorm:
    case OpKind::kGroupNorm:
    case OpKind::kCausalConv1d:
    case OpKind::kScatter:
    case OpKind::kWhere: return 3;
    case OpKind::kChunkScan: return 7;
    case OpKind::kLayerNorm: return attrs.unbiased ? 2 : 3;
    case OpKind::kNormalize: return attrs.unbiased ? 3 : 4;
    case OpKind::kFlashAttention: return (attrs.packed ? 1U : 2U) + (attrs.has_mask ? 1U : 0U);
    case OpKind::kBlockAttention: return 2;  // backward reads no other: so far is in the results
    case OpKind::kCrossEntropy: return 4;    // as it is with a split vocabulary
    case OpKind::kEmbedding:
    case OpKind::kAddBias:
    case OpKind::kRmsNorm:
    case OpKind::kBiasGelu:
    case OpKind::kScores:
    case OpKind::kContext:
    case OpKind::kAddAttentionBias:
    case OpKind::kAdd:
    case OpKind::kMul:
    case OpKind::kSub:
    case OpKind::kDiv:
    case OpKind::kGather:
    case OpKind::kCombine:
    case OpKind::kBmm:
    case OpKind::kBce:
    case OpKind::kMse: return 2;
    default: return 1;  // softmax: its mask is not read again
  }
}

/// Results of the forward op; behind the first they are statistics and masks.
std::size_t num_results(OpKind kind) {
  switch (kind) {
    case OpKind::kLayerNorm:
    case OpKind::kRmsNorm:
    case OpKind::kFlashAttention:
    case OpKind::kBlockAttention:
    case OpKind::kDropout:
    case OpKind::kMaxPool2d:
    case OpKind::kHeadNorm:
    case OpKind::kGroupNorm:
    case OpKind::kBatchNorm:
    case OpKind::kBiasDropoutAdd:
    case OpKind::kCrossEntropy: return 2;
    default: return 1;
  }
}

/// No gradient flows to ids, indices, masks, labels, maxima and sums.
bool has_gradient(OpKind kind, const OpAttrs& attrs, std::size_t operand) {
  switch (kind) {
    case OpKind::kEmbedding: return operand == 1;
    case OpKind::kWhere: return operand >= 1;
    case OpKind::kScatter: return operand != 1;
    case OpKind::kFlashAttention: return operand < (attrs.packed ? 1U : 2U);
    case OpKind::kBlockAttention: return operand < 2;
    case OpKind::kGather:
    case OpKind::kSoftmax:
    case OpKind::kCrossEntropy: return operand == 0;
    case OpKind::kCrossEntropyMax:
    case OpKind::kCrossEntropySum:
    case OpKind::kAmax: return false;
    default: return true;
  }
}

/// One instruction, read by the op table.
class OpReader {
 public:
  OpReader(const Program& program, const ProgramOp& op)
      : program_(program),
        op_(op),
        attrs_(program.attrs[op.attrs]),
        reads_(op.reads.begin(),
               op.reads.end() - static_cast<std::ptrdiff_t>(num_scales(program, op))) {}

  OpTensors run() {
    if (op_.kind == OpKind::kSplit && op_.part != OpPart::kForward) {
      read_split();
    } else if (op_.part == OpPart::kForward) {
      read_forward();
    } else {
      read_backward();
    }
    mark_differentiable();
    return std::move(out_);
  }

 private:
  const Value* value(const Operand& operand) const { return &program_.values[operand.value]; }
  std::vector<OpTensor>& operands() { return out_.operands; }
  std::vector<OpTensor>& results() { return out_.results; }

  void read_forward() {
    for (const Operand& read : reads_) operands().push_back({value(read), nullptr});
    // The loss, a first result, is accumulated.
    for (const auto* written : {&op_.accumulates, &op_.writes}) {
      for (const Operand& one : *written) results().push_back({value(one), nullptr});
    }
    for (std::size_t i = 0; i < operands().size(); ++i) {
      OpTensor& one = operands()[i];
      one.stored = is_stored(*one.value);
    }
  }

  /// Gradients of the parts are written into that of what holds them.
  void read_split() {
    if (op_.writes.size() != 1) {
      out_.problem = "has not one packed gradient";
      return;
    }
    operands().push_back({nullptr, value(op_.writes[0])});
    for (const Operand& read : reads_) results().push_back({nullptr, value(read)});
  }

  void read_backward() {
    const OpInfo& info = op_info(op_.kind);
    operands().resize(num_operands(op_.kind, attrs_));
    results().resize(num_results(op_.kind));
    const bool weights = op_.part == OpPart::kWeightGrad;
    std::size_t next = 0;
    if (info.gradient_in && next < reads_.size()) results()[0].gradient = value(reads_[next++]);
    const unsigned saved = weights ? info.dw_saved_inputs : info.dx_saved_inputs;
    for (std::size_t i = 0; i < operands().size(); ++i) {
      if ((saved >> i & 1U) == 0 || next >= reads_.size()) continue;
      operands()[i].value = value(reads_[next++]);
      operands()[i].stored = is_stored(*operands()[i].value);
    }
    for (std::size_t i = 0; i < results().size() && !weights; ++i) {
      if ((info.dx_saved_outputs >> i & 1U) == 0 || next >= reads_.size()) continue;
      results()[i].value = value(reads_[next++]);
    }
    if (next != reads_.size()) out_.problem = "reads more than its backward needs";
    if (is_general(op_.kind)) return give_general_gradient();
    const Operands& of_parameters =
        weights && op_.accumulates.empty() ? op_.writes : op_.accumulates;
    if (!weights) give_gradients(op_.writes, false);
    if (weights || op_.part == OpPart::kBackward) give_gradients(of_parameters, true);
  }

  /// _dx is of the first operand that has one, _dw of the last: a parameter's is accumulated.
  void give_general_gradient() {
    const Operands& given = op_.writes.empty() ? op_.accumulates : op_.writes;
    if (given.size() != 1) {
      out_.problem = "makes " + std::to_string(given.size()) + " gradients, not one";
      return;
    }
    std::size_t of = op_.kind == OpKind::kWhere ? 1 : 0;
    if (op_.part == OpPart::kWeightGrad) {
      of = operands().size() - 1;
      while (!has_gradient(op_.kind, attrs_, of)) --of;
    }
    operands()[of].gradient = value(given[0]);
  }

  /// The written gradients, in the order of the operands that they are of.
  void give_gradients(const Operands& written, bool parameters) {
    if (written.empty()) return;
    std::size_t next = 0;
    for (std::size_t i = 0; i < operands().size(); ++i) {
      if (may_be_parameter(op_, attrs_, i) != parameters || !has_gradient(op_.kind, attrs_, i))
        continue;
      if (static_cast<int>(i) == op_info(op_.kind).alias_input) continue;
      if (next >= written.size()) {
        out_.problem = "writes fewer gradients than it has operands";
        return;
      }
      operands()[i].gradient = value(written[next++]);
    }
    if (next != written.size()) out_.problem = "writes more gradients than it has operands";
  }

  void mark_differentiable() {
    const auto integer = [](const OpTensor& one) {
      return one.any() != nullptr && is_integer(one.any()->dtype);
    };
    for (std::size_t i = 0; i < operands().size(); ++i)
      operands()[i].differentiable = has_gradient(op_.kind, attrs_, i) && !integer(operands()[i]);
    const bool statistics = op_.kind == OpKind::kCrossEntropyMax ||
                            op_.kind == OpKind::kCrossEntropySum || op_.kind == OpKind::kAmax;
    const std::size_t values = op_.kind == OpKind::kSplit ? results().size() : 1;
    for (std::size_t i = 0; i < results().size(); ++i)
      results()[i].differentiable = !statistics && i < values && !integer(results()[i]);
  }

  const Program& program_;
  const ProgramOp& op_;
  const OpAttrs& attrs_;
  Operands reads_;  // without scales
  OpTensors out_;
};

}  // namespace

bool is_stored(const Value& value) {
  return value.scope == Scope::kPersistent || value.memory == MemoryClass::kParameter;
}

std::size_t num_scales(const Program& program, const ProgramOp& op) {
  const bool casts = op.kind == OpKind::kLinear && op.reads.size() > 3 &&
                     is_fp8(program.values[op.reads[0].value].dtype);
  return casts ? 2 : 0;
}

OpTensors find_op_tensors(const Program& program, const ProgramOp& op) {
  return OpReader(program, op).run();
}

}  // namespace trainyard
