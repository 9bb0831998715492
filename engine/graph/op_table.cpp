#include "engine/graph/op_table.h"

#include <array>

#include "engine/base/error.h"

namespace trainyard {

namespace {

constexpr std::uint8_t bits(std::initializer_list<int> positions) {
  std::uint8_t mask = 0;
  for (int position : positions) mask = static_cast<std::uint8_t>(mask | (1U << position));
  return mask;
}

/// Facts about the kinds for operands of any dims: those that compute, and communication.
OpInfo general_info(OpKind kind) {
  using enum OpKind;
  using F = BackwardForm;
  switch (kind) {
    case kPermute:
    case kRoll:
    case kFlip:
    case kNarrow:
    case kSum: return {.backward = F::kApart, .weights = bits({0})};
    case kGather:
      return {.backward = F::kApart,
              .dx_saved_inputs = bits({1}),
              .dw_saved_inputs = bits({1}),
              .weights = bits({0})};
    case kScatter:
      return {.backward = F::kFactors, .dx_saved_inputs = bits({1}), .dw_saved_inputs = bits({1})};
    case kCombine:
    case kTopk:
    case kArgmax: return {};
    case kView:
    case kPieces:
    case kConcat: return {.backward = F::kSpecial};
    case kMul:
      return {.backward = F::kFactors, .dx_saved_inputs = bits({1}), .dw_saved_inputs = bits({0})};
    case kSub: return {.backward = F::kFactors, .alias_input = 0};
    case kDiv:
      return {
          .backward = F::kFactors, .dx_saved_inputs = bits({1}), .dw_saved_inputs = bits({0, 1})};
    case kWhere:
      return {.backward = F::kFactors, .dx_saved_inputs = bits({0}), .dw_saved_inputs = bits({0})};
    case kAffine:
    case kCast:
    case kCumsum:
    case kZeroPad: return {.backward = F::kApart};
    case kPower:
    case kExp:
    case kLog:
    case kErf:
    case kSin:
    case kCos:
    case kSigmoid:
    case kSilu:
    case kSoftplus:
    case kClamp: return {.backward = F::kApart, .dx_saved_inputs = bits({0})};
    case kBmm:
      return {.backward = F::kFactors,
              .kernel = KernelClass::kBatchedMatmul,
              .dx_saved_inputs = bits({1}),
              .dw_saved_inputs = bits({0})};
    case kConv2d:
      return {.backward = F::kApart,
              .kernel = KernelClass::kConvolution,
              .dx_saved_inputs = bits({1}),
              .dw_saved_inputs = bits({0}),
              .weights = bits({1, 2})};
    case kConvTranspose2d: return general_info(kConv2d);
    case kCausalConv1d:
      return {.backward = F::kFused, .dx_saved_inputs = bits({0, 1, 2}), .weights = bits({1, 2})};
    case kChunkScan:  // states are computed again
      return {.backward = F::kFused,
              .kernel = KernelClass::kBatchedMatmul,
              .dx_saved_inputs = bits({0, 1, 2, 3, 4, 5, 6}),
              .weights = bits({4, 5, 6})};
    case kInterpolate2d: return {.backward = F::kApart};
    case kGroupNorm:
      return {.backward = F::kFused,
              .dx_saved_inputs = bits({0, 1}),
              .dx_saved_outputs = bits({1}),
              .weights = bits({1, 2})};
    case kMaxPool2d: return {.backward = F::kApart, .dx_saved_outputs = bits({1})};
    case kAvgPool2d: return {.backward = F::kApart};
    case kBatchNorm:
      return {.backward = F::kFused,
              .dx_saved_inputs = bits({0, 1}),
              .dx_saved_outputs = bits({1}),
              .weights = bits({1, 2, 3, 4})};
    case kBatchMoments: return {.backward = F::kApart, .dx_saved_inputs = bits({0})};
    case kBatchNormalize:
      return {
          .backward = F::kFused, .dx_saved_inputs = bits({0, 1, 2}), .weights = bits({2, 3, 4, 5})};
    case kBce:
    case kMse:
      return {.backward = F::kFactors,
              .gradient_in = false,
              .dx_saved_inputs = bits({0, 1}),
              .dw_saved_inputs = bits({0, 1})};
    case kPad:
    case kKeepOnOne: return {.backward = F::kSpecial};
    case kAllReduce:
    case kAllGather:
    case kReduceScatter:
    case kAllToAll:
    case kRingShift:
    case kBroadcast:
    case kReduce:
    case kSend:
    case kRecv: return {.backward = F::kSpecial, .kernel = KernelClass::kNone};
    default: bug("op kind without an entry in the op table");
  }
}

OpInfo make_info(OpKind kind) {
  using enum OpKind;
  using F = BackwardForm;
  using K = KernelClass;
  switch (kind) {
    case kLoad: return {};
    case kEmbedding:
      return {.backward = F::kApart, .dw_saved_inputs = bits({0}), .weights = bits({1})};
    case kLinear:
      return {.backward = F::kApart,
              .kernel = K::kMatmul,
              .dx_saved_inputs = bits({1}),
              .dw_saved_inputs = bits({0}),
              .weights = bits({1, 2})};
    case kAddBias: return {.backward = F::kApart, .weights = bits({1}), .alias_input = 0};
    case kLayerNorm:
    case kRmsNorm:
      return {.backward = F::kFused,
              .dx_saved_inputs = bits({0, 1}),
              .dx_saved_outputs = bits({1}),
              .weights = bits({1, 2})};
    case kNormMoments: return {.backward = F::kApart, .dx_saved_inputs = bits({0})};
    case kNormalize:
      return {.backward = F::kFused, .dx_saved_inputs = bits({0, 1, 2}), .weights = bits({2, 3})};
    case kFlashAttention:
      return {.backward = F::kApart,
              .kernel = K::kFlashAttention,
              .dx_saved_inputs = bits({0, 1, 2, 3}),
              .dx_saved_outputs = bits({0, 1})};
    case kBlockAttention:  // what came so far is in the last block's results, which are saved
      return {.backward = F::kSpecial,
              .kernel = K::kFlashAttention,
              .dx_saved_inputs = bits({0, 1}),
              .dx_saved_outputs = bits({0, 1})};
    case kTranspose: return {.backward = F::kApart};
    case kScores:
      return {.backward = F::kApart, .kernel = K::kBatchedMatmul, .dx_saved_inputs = bits({0, 1})};
    case kAddAttentionBias: return {.backward = F::kApart, .alias_input = 0};
    case kSoftmax: return {.backward = F::kApart, .dx_saved_outputs = bits({0})};
    case kContext:
      return {.backward = F::kApart, .kernel = K::kBatchedMatmul, .dx_saved_inputs = bits({0, 1})};
    case kRelativeBias: return {.backward = F::kApart, .weights = bits({0})};
    case kRope: return {.backward = F::kApart};
    case kHeadNorm:
      return {.backward = F::kFused,
              .dx_saved_inputs = bits({0, 1, 2}),
              .dx_saved_outputs = bits({1}),
              .weights = bits({1, 2})};
    case kDropout: return {.backward = F::kApart, .dx_saved_outputs = bits({1})};
    case kAdd: return {.backward = F::kAlias};
    case kBiasDropoutAdd:  // x[, bias], residual: the last input is the residual
      return {.backward = F::kFused,
              .dx_saved_outputs = bits({1}),
              .weights = bits({1}),
              .alias_input = 2};
    case kGelu:
    case kSwiglu:
    case kGeglu: return {.backward = F::kApart, .dx_saved_inputs = bits({0})};
    case kBiasGelu:
      return {.backward = F::kFused, .dx_saved_inputs = bits({0, 1}), .weights = bits({1})};
    case kRelu:
    case kTanh: return {.backward = F::kApart, .dx_saved_outputs = bits({0})};
    case kSelectFirst: return {.backward = F::kApart};
    case kCrossEntropyMax:
    case kCrossEntropySum: return {};
    case kCrossEntropy:
      return {.backward = F::kApart,
              .gradient_in = false,
              .dx_saved_inputs = bits({1}),
              .dx_saved_outputs = bits({1})};
    case kSplit: return {.backward = F::kSpecial};
    case kEnterTensor:
    case kJoin:
    case kSlice: return {.backward = F::kSpecial, .kernel = K::kNone};
    case kZero:
    case kDeviceCopy:
    case kCopyIn:
    case kCopyOut:
    case kSumSquares:
    case kAmax:
    case kQuantize:
    case kUpdateScales:
    case kAverage:
    case kWithinClip:
    case kBeyondClip: return {};
    case kCopy:
    case kFree:
    case kAttention: return {.kernel = K::kNone};
    case kAdamW:
    case kSgd:
    case kCorrectAdamW:
    case kCorrectSgd: return {.kernel = K::kOptimizer};
    default: return general_info(kind);
  }
}

}  // namespace

bool is_general(OpKind kind) {
  using enum OpKind;
  switch (kind) {
    case kView:
    case kPieces:
    case kPermute:
    case kRoll:
    case kFlip:
    case kSplit:
    case kNarrow:
    case kConcat:
    case kAdd:
    case kMul:
    case kSub:
    case kDiv:
    case kWhere:
    case kAffine:
    case kCast:
    case kPower:
    case kExp:
    case kLog:
    case kErf:
    case kSin:
    case kCos:
    case kSigmoid:
    case kSilu:
    case kSoftplus:
    case kClamp:
    case kCumsum:
    case kZeroPad:
    case kSum:
    case kGather:
    case kScatter:
    case kCombine:
    case kArgmax:
    case kTopk:
    case kBmm:
    case kBce:
    case kMse: return true;
    default: return false;
  }
}

bool makes_views(OpKind kind, OpPart part, const OpAttrs& attrs) {
  const bool back = part != OpPart::kForward;
  switch (kind) {
    case OpKind::kEnterTensor:
    case OpKind::kJoin: return true;
    case OpKind::kView:
    case OpKind::kPieces: return part != OpPart::kWeightGrad && !attrs.copies;
    case OpKind::kSplit: return attrs.dim < 0 || !attrs.copies;
    case OpKind::kNarrow: return !back && !attrs.copies;
    default: return false;
  }
}

const OpInfo& op_info(OpKind kind) {
  static const auto kTable = [] {
    IndexedArray<OpKind, OpInfo, kNumOpKinds> table;
    for (const OpKind of : table.keys()) table[of] = make_info(of);
    return table;
  }();
  return kTable[kind];
}

}  // namespace trainyard
