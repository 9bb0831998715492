#include "real/kernels/kernel.h"

#include "engine/base/error.h"
#include "real/kernels/kernels.h"

namespace trainyard {

void KernelCall::set(std::size_t i, at::Tensor result) {
  check(result.scalar_type() == write_types[i], "a kernel's result has the Program's type");
  if (writes[i].defined()) {
    writes[i].copy_(result.sizes() == writes[i].sizes() ? result
                                                        : result.reshape(writes[i].sizes()));
    return;
  }
  // Not a view of something larger: its storage would outlive what the Program frees.
  if (!result.is_contiguous()) result = result.contiguous();
  writes[i] = result.sizes() == c10::IntArrayRef(write_shapes[i]) ? std::move(result)
                                                                  : result.view(write_shapes[i]);
}

void KernelCall::give(const at::Tensor& gradient) {
  if (accumulates.empty()) {
    out(0).copy_(gradient);
  } else {
    accumulates[0].add_(gradient);
  }
}

at::Tensor KernelCall::out(std::size_t i) {
  if (!writes[i].defined()) {
    writes[i] = at::empty(write_shapes[i], at::TensorOptions(write_types[i]).device(device));
  }
  return writes[i];
}

at::ScalarType to_torch(DType type) {
  switch (type) {
    case DType::kFp64: return at::kDouble;
    case DType::kFp32:
    case DType::kTf32: return at::kFloat;
    case DType::kFp16: return at::kHalf;
    case DType::kBf16: return at::kBFloat16;
    case DType::kFp8:
    case DType::kE4m3: return at::kFloat8_e4m3fn;
    case DType::kE5m2: return at::kFloat8_e5m2;
    case DType::kE8m0: return at::kFloat8_e8m0fnu;
    case DType::kInt64: return at::kLong;
    case DType::kInt32: return at::kInt;
    case DType::kUint8: return at::kByte;
  }
  bug("no such type");
}

Kernel find_kernel(OpKind kind, OpPart part) {
  struct Parts {
    Kernel forward = nullptr, input_grad = nullptr, weight_grad = nullptr, backward = nullptr;
  };
  const auto of_kind = [](OpKind k) -> Parts {
    using enum OpKind;
    switch (k) {
      case kEmbedding: return {.forward = embedding, .weight_grad = embedding_dw};
      case kLinear: return {.forward = linear, .input_grad = linear_dx, .weight_grad = linear_dw};
      case kAddBias: return {.forward = add_bias, .weight_grad = add_bias_dw};
      case kLayerNorm: return {.forward = layer_norm, .backward = layer_norm_b};
      case kRmsNorm: return {.forward = rms_norm, .backward = rms_norm_b};
      case kHeadNorm: return {.forward = head_norm, .backward = head_norm_b};
      case kNormMoments: return {.forward = norm_moments, .input_grad = norm_moments_dx};
      case kNormalize: return {.forward = normalize, .backward = normalize_b};
      case kBlockAttention: return {.forward = block_attention, .input_grad = block_attention_dx};
      case kFlashAttention: return {.forward = flash_attention, .input_grad = flash_attention_dx};
      case kTranspose: return {.forward = transpose, .input_grad = transpose};
      case kScores: return {.forward = scores, .input_grad = scores_dx};
      case kAddAttentionBias:
        return {.forward = add_attention_bias, .input_grad = add_attention_bias_dx};
      case kSoftmax: return {.forward = softmax, .input_grad = softmax_dx};
      case kContext: return {.forward = context, .input_grad = context_dx};
      case kRelativeBias: return {.forward = relative_bias, .weight_grad = relative_bias_dw};
      case kRope: return {.forward = rope, .input_grad = rope_dx};
      case kDropout: return {.forward = dropout, .input_grad = dropout_dx};
      case kAdd: return {.forward = add, .input_grad = add_backward, .weight_grad = add_backward};
      case kGelu: return {.forward = gelu, .input_grad = gelu_dx};
      case kRelu: return {.forward = relu, .input_grad = relu_dx};
      case kTanh: return {.forward = tanh, .input_grad = tanh_dx};
      case kSwiglu: return {.forward = swiglu, .input_grad = swiglu_dx};
      case kGeglu: return {.forward = geglu, .input_grad = geglu_dx};
      case kSelectFirst: return {.forward = select_first, .input_grad = select_first_dx};
      case kView:
      case kPieces: return {.forward = view, .input_grad = view, .weight_grad = view};
      case kPermute:
        return {.forward = permute, .input_grad = permute_dx, .weight_grad = permute_dx};
      case kRoll: return {.forward = roll, .input_grad = roll_dx, .weight_grad = roll_dx};
      case kFlip: return {.forward = flip, .input_grad = flip, .weight_grad = flip};
      case kSplit: return {.forward = split};
      case kNarrow: return {.forward = narrow, .input_grad = narrow_dx, .weight_grad = narrow_dw};
      case kConcat: return {.forward = concat};
      case kMul: return {.forward = mul, .input_grad = mul_backward, .weight_grad = mul_backward};
      case kSub: return {.forward = sub, .input_grad = add_backward, .weight_grad = sub_dw};
      case kDiv: return {.forward = div, .input_grad = div_dx, .weight_grad = div_dw};
      case kWhere: return {.forward = where, .input_grad = where_dx, .weight_grad = where_dw};
      case kAffine: return {.forward = affine, .input_grad = affine_dx};
      case kPower: return {.forward = power, .input_grad = power_dx};
      case kExp: return {.forward = exp, .input_grad = exp_dx};
      case kLog: return {.forward = log, .input_grad = log_dx};
      case kErf: return {.forward = erf, .input_grad = erf_dx};
      case kSin: return {.forward = sin, .input_grad = sin_dx};
      case kCos: return {.forward = cos, .input_grad = cos_dx};
      case kSigmoid: return {.forward = sigmoid, .input_grad = sigmoid_dx};
      case kSilu: return {.forward = silu, .input_grad = silu_dx};
      case kSoftplus: return {.forward = softplus, .input_grad = softplus_dx};
      case kClamp: return {.forward = clamp, .input_grad = clamp_dx};
      case kCumsum: return {.forward = cumsum, .input_grad = cumsum_dx};
      case kZeroPad: return {.forward = zero_pad, .input_grad = zero_pad_dx};
      case kSum: return {.forward = sum, .input_grad = sum_dx, .weight_grad = sum_dx};
      case kGather: return {.forward = gather, .input_grad = gather_dx, .weight_grad = gather_dw};
      case kScatter:
        return {.forward = scatter, .input_grad = scatter_dx, .weight_grad = scatter_dw};
      case kCombine: return {.forward = combine};
      case kArgmax: return {.forward = argmax};
      case kTopk: return {.forward = topk};
      case kBmm: return {.forward = bmm, .input_grad = bmm_dx, .weight_grad = bmm_dw};
      case kConv2d: return {.forward = conv2d, .input_grad = conv2d_dx, .weight_grad = conv2d_dw};
      case kCausalConv1d: return {.forward = causal_conv1d, .backward = causal_conv1d_b};
      case kChunkScan: return {.forward = chunk_scan, .backward = chunk_scan_b};
      case kConvTranspose2d:
        return {.forward = conv_transpose2d,
                .input_grad = conv_transpose2d_dx,
                .weight_grad = conv_transpose2d_dw};
      case kInterpolate2d: return {.forward = interpolate2d, .input_grad = interpolate2d_dx};
      case kGroupNorm: return {.forward = group_norm, .backward = group_norm_b};
      case kMaxPool2d: return {.forward = max_pool2d, .input_grad = max_pool2d_dx};
      case kAvgPool2d: return {.forward = avg_pool2d, .input_grad = avg_pool2d_dx};
      case kBatchNorm: return {.forward = batch_norm, .backward = batch_norm_b};
      case kBatchMoments: return {.forward = batch_moments, .input_grad = batch_moments_dx};
      case kBatchNormalize: return {.forward = batch_normalize, .backward = batch_normalize_b};
      case kMse: return {.forward = mse, .input_grad = mse_dx, .weight_grad = mse_dw};
      case kBce: return {.forward = bce, .input_grad = bce_dx, .weight_grad = bce_dw};
      case kCrossEntropyMax: return {.forward = cross_entropy_max};
      case kCrossEntropySum: return {.forward = cross_entropy_sum};
      case kCrossEntropy: return {.forward = cross_entropy, .input_grad = cross_entropy_dx};
      case kZero: return {.forward = zero};
      case kCast: return {.forward = cast, .input_grad = cast};
      case kDeviceCopy: return {.forward = cast};
      case kAmax: return {.forward = amax};
      case kQuantize: return {.forward = quantize};
      case kUpdateScales: return {.forward = update_scales};
      case kSumSquares: return {.forward = sum_squares};
      case kAdamW: return {.forward = adamw};
      case kSgd: return {.forward = sgd};
      case kAverage: return {.forward = average};
      case kWithinClip: return {.forward = within_clip};
      case kBeyondClip: return {.forward = beyond_clip};
      case kCorrectAdamW: return {.forward = correct_adamw};
      case kCorrectSgd: return {.forward = correct_sgd};
      default: return {};
    }
  };
  const Parts parts = of_kind(kind);
  switch (part) {
    case OpPart::kForward: return parts.forward;
    case OpPart::kInputGrad: return parts.input_grad;
    case OpPart::kWeightGrad: return parts.weight_grad;
    case OpPart::kBackward: return parts.backward;
  }
  return nullptr;
}

}  // namespace trainyard
