// Every kind of op that a graph or a Program can hold, and which part of it an instruction runs.
// op_table.h has the facts about each kind; the real executor's kernels carry the same names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trainyard {

// X(enumerator, name)
#define TRAINYARD_OP_KINDS(X)                                                                   \
  X(kLoad, "load")                           /* a data input from the host */                   \
  X(kEmbedding, "embedding")                 /* tokens, table -> rows */                        \
  X(kLinear, "linear")                       /* x, w[, b] -> x w^T + b */                       \
  X(kAddBias, "add_bias")                    /* x, b -> x + b */                                \
  X(kLayerNorm, "layer_norm")                /* x, w, b -> y, stats */                          \
  X(kRmsNorm, "rms_norm")                    /* x, w -> y, stats */                             \
  X(kNormMoments, "norm_moments")            /* x -> [sums,] squares, count of features */      \
  X(kNormalize, "normalize")                 /* x, moments, w[, b] -> y */                      \
  X(kAttention, "attention")                 /* composite; select_kernels expands */            \
  X(kFlashAttention, "flash_attention")      /* qkv | q, kv[, mask] -> o, lse */                \
  X(kBlockAttention, "block_attention")      /* q, kv[, o, lse so far] -> o, lse */             \
  X(kTranspose, "transpose")                 /* x -> x in another layout, a copy */             \
  X(kSplit, "split")                         /* packed -> parts, x -> halves or sizes */        \
  X(kJoin, "join")                           /* halves of a batch -> x: in place */             \
  X(kScores, "scores")                       /* q, k -> q k^T per head */                       \
  X(kAddAttentionBias, "add_attention_bias") /* scores, bias -> scores + bias */                \
  X(kSoftmax, "softmax")                     /* scores[, mask] -> probabilities */              \
  X(kContext, "context")                     /* probabilities, v -> p v */                      \
  X(kRelativeBias, "relative_bias")          /* table -> bias per head, q, k */                 \
  X(kRope, "rope")                           /* qkv -> qkv with q, k rotated */                 \
  X(kHeadNorm, "head_norm")                  /* qkv, wq, wk -> q, k of mean square 1 */         \
  X(kDropout, "dropout")                     /* x -> y[, mask] */                               \
  X(kAdd, "add")                             /* a, b -> a + b */                                \
  X(kBiasDropoutAdd, "bias_dropout_add")     /* x[, b], residual -> y[, mask] */                \
  X(kGelu, "gelu")                           /* x -> y */                                       \
  X(kBiasGelu, "bias_gelu")                  /* x, b -> gelu(x + b) */                          \
  X(kRelu, "relu")                           /* x -> y */                                       \
  X(kTanh, "tanh")                           /* x -> y */                                       \
  X(kSwiglu, "swiglu")                       /* [gate up] -> silu(gate) up */                   \
  X(kGeglu, "geglu")                         /* [gate up] -> gelu(gate) up */                   \
  X(kSelectFirst, "select_first")            /* [B,S,H] -> first token [B,H] */                 \
  X(kView, "view")                           /* x -> x in other extents */                      \
  X(kPieces, "pieces")                       /* a dim -> (pieces rest), two dims */             \
  X(kPermute, "permute")                     /* x -> x, dims in another order */                \
  X(kRoll, "roll")                           /* x -> x, a dim's indices one on */               \
  X(kFlip, "flip")                           /* x -> x, a dim's indices turned round */         \
  X(kNarrow, "narrow")                       /* x -> a range of one dim */                      \
  X(kConcat, "concat")                       /* parts -> x, along a dim */                      \
  X(kMul, "mul")                             /* a, b -> a b, element by element */              \
  X(kSub, "sub")                             /* a, b -> a - b */                                \
  X(kDiv, "div")                             /* a, b -> a / b */                                \
  X(kWhere, "where")                         /* c, a, b -> a where c, else b */                 \
  X(kAffine, "affine")                       /* x -> scale x + shift */                         \
  X(kPower, "power")                         /* x -> x^exponent */                              \
  X(kExp, "exp")                             /* x -> e^x */                                     \
  X(kLog, "log")                             /* x -> ln x */                                    \
  X(kErf, "erf")                             /* x -> erf x */                                   \
  X(kSin, "sin")                             /* x -> sin x */                                   \
  X(kCos, "cos")                             /* x -> cos x */                                   \
  X(kSigmoid, "sigmoid")                     /* x -> 1 / (1 + e^-x) */                          \
  X(kSilu, "silu")                           /* x -> x sigmoid(x) */                            \
  X(kSoftplus, "softplus")                   /* x -> ln(1 + e^x) */                             \
  X(kClamp, "clamp")                         /* x -> within low and high */                     \
  X(kCumsum, "cumsum")                       /* x -> sums up to each index */                   \
  X(kZeroPad, "zero_pad")                    /* x -> zeros around a dim */                      \
  X(kSum, "sum")                             /* x -> summed over dims */                        \
  X(kGather, "gather")                       /* x, index -> x's rows at the index */            \
  X(kScatter, "scatter")                     /* x, index, rows -> x with them there */          \
  X(kCombine, "combine")                     /* integers a, b -> integers, or conditions */     \
  X(kArgmax, "argmax")                       /* x -> the last dim's index of the largest */     \
  X(kTopk, "topk")                           /* x -> the last dim's indices of the largest */   \
  X(kBmm, "bmm")                             /* a [B,M,K], b [B,K,N] -> a b */                  \
  X(kCausalConv1d, "causal_conv1d")          /* x, w, b -> silu of the latest tokens' */        \
  X(kChunkScan, "chunk_scan")                /* x, dt, b, c, of heads -> y: state spaces */     \
  X(kConv2d, "conv2d")                       /* images, w[, b] -> images */                     \
  X(kMaxPool2d, "max_pool2d")                /* images -> largest of windows, where */          \
  X(kAvgPool2d, "avg_pool2d")                /* images -> means of windows */                   \
  X(kBatchNorm, "batch_norm")                /* images, w, b -> images, statistics */           \
  X(kBatchMoments, "batch_moments")          /* images -> sums, squares, count */               \
  X(kBatchNormalize, "batch_normalize")      /* images, moments, w, b -> images */              \
  X(kConvTranspose2d, "conv_transpose2d")    /* images, w[, b] -> images */                     \
  X(kInterpolate2d, "interpolate2d")         /* images -> images of other sizes */              \
  X(kGroupNorm, "group_norm")                /* x, w, b -> y, statistics */                     \
  X(kCrossEntropyMax, "cross_entropy_max")   /* logits shard -> row maxima */                   \
  X(kCrossEntropySum, "cross_entropy_sum")   /* logits, max, labels -> sums */                  \
  X(kCrossEntropy, "cross_entropy")          /* logits, labels[, max, sums] -> loss */          \
  X(kMse, "mse")                             /* x, target -> mean square of x - target */       \
  X(kBce, "bce")                             /* logits, targets -> mean binary cross entropy */ \
  X(kEnterTensor, "enter_tensor")            /* identity; its gradient is reduced */            \
  X(kSlice, "slice")                         /* own shard of a replicated tensor */             \
  X(kPad, "pad")                             /* own shard, zeros around it */                   \
  X(kKeepOnOne, "keep_on_one")               /* x on one rank, zeros on the others */           \
  X(kAllReduce, "all_reduce")                                                                   \
  X(kAllGather, "all_gather")                                                                   \
  X(kReduceScatter, "reduce_scatter")                                                           \
  X(kAllToAll, "all_to_all")                                                                    \
  X(kRingShift, "ring_shift") /* each rank's to the `by`-th behind it */                        \
  X(kBroadcast, "broadcast")                                                                    \
  X(kReduce, "reduce") /* the sum, on one rank */                                               \
  X(kSend, "send")                                                                              \
  X(kRecv, "recv")                                                                              \
  X(kZero, "zero")                  /* fills with 0 */                                          \
  X(kCast, "cast")                  /* copies into another type */                              \
  X(kAmax, "amax")                  /* x -> the largest |x| */                                  \
  X(kQuantize, "quantize")          /* x[, amax or scale] -> x in 8 bits[, scale] */            \
  X(kUpdateScales, "update_scales") /* a step's amaxes, history -> scales */                    \
  X(kCopy, "copy")                  /* between a device and its host */                         \
  X(kDeviceCopy, "device_copy")     /* into or out of a transfer buffer */                      \
  X(kFree, "free")                  /* ends lifetimes; takes no time */                         \
  X(kSumSquares, "sum_squares")     /* gradients -> their squared norm */                       \
  X(kAdamW, "adamw")                /* norm, gradients, state -> weights */                     \
  X(kSgd, "sgd")                    /* norm, gradients -> weights */                            \
  X(kAverage, "average")            /* what was averaged -> running averages */                 \
  X(kWithinClip, "within_clip")     /* squared norm -> 1: finite, not clipped */                \
  X(kBeyondClip, "beyond_clip")     /* squared norm -> 1: clipped or not finite */              \
  X(kCorrectAdamW, "correct_adamw") /* norm, was updated, gradients, state -> weights */        \
  X(kCorrectSgd, "correct_sgd")     /* norm, was updated, gradients -> weights */               \
  X(kCopyIn, "copy_in")             /* by parameter -> by shard of a unit */                    \
  X(kCopyOut, "copy_out")           /* by shard of a unit -> by parameter */

enum class OpKind : std::uint8_t {
#define TRAINYARD_ENUMERATOR(enumerator, name) enumerator,
  TRAINYARD_OP_KINDS(TRAINYARD_ENUMERATOR)
#undef TRAINYARD_ENUMERATOR
};

inline constexpr int kNumOpKinds = [] {
  constexpr OpKind kAll[] = {
#define TRAINYARD_ELEMENT(enumerator, name) OpKind::enumerator,
      TRAINYARD_OP_KINDS(TRAINYARD_ELEMENT)
#undef TRAINYARD_ELEMENT
  };
  return static_cast<int>(sizeof kAll / sizeof kAll[0]);
}();

/// Which part of an op an instruction runs. Printed as a suffix: linear, linear_dx, linear_dw,
/// layer_norm_b (both halves in one kernel).
enum class OpPart : std::uint8_t { kForward, kInputGrad, kWeightGrad, kBackward };

std::string_view to_string(OpKind kind);
std::string op_name(OpKind kind, OpPart part);  // "linear_dx"

struct KindAndPart {
  OpKind kind;
  OpPart part;
};
std::optional<KindAndPart> parse_op_name(std::string_view name);

constexpr bool is_collective(OpKind kind) {
  return kind == OpKind::kAllReduce || kind == OpKind::kAllGather ||
         kind == OpKind::kReduceScatter || kind == OpKind::kAllToAll ||
         kind == OpKind::kRingShift || kind == OpKind::kBroadcast || kind == OpKind::kReduce;
}
constexpr bool is_transfer(OpKind kind) { return kind == OpKind::kSend || kind == OpKind::kRecv; }
constexpr bool is_communication(OpKind kind) { return is_collective(kind) || is_transfer(kind); }
/// What takes time on links, not in a kernel.
constexpr bool moves_data(OpKind kind) { return is_communication(kind) || kind == OpKind::kCopy; }

}  // namespace trainyard
