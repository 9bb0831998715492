#include "real/kernels/workspace.h"

#include <algorithm>

#include "engine/base/error.h"
#include "real/kernels/attention_workspace.h"
#include "real/kernels/correction.h"
#include "real/kernels/general_workspace.h"
#include "real/kernels/op_sizes.h"
#include "real/parameters/rank_coordinates.h"

namespace trainyard {

namespace {

using std::int64_t;

/// Numbers that an operator wraps as tensors.
constexpr int64_t kScalars = 64;

/// Both operands in fp32 and, where rows or blocks have scales, these for each element, while they
/// are spread over rows and then over columns; the product in fp32, and in the gradient's type.
int64_t fp8_product(const OpSizes& s) {
  const bool whole = s.reads.back().shape.size() == 1;
  const int64_t operands = s.reads[0].elements() + s.reads[1].elements();
  const OperandSize& out = s.writes.empty() ? s.accumulates[0] : s.writes[0];
  return 4 * (operands * (whole ? 1 : 4) + 2 * out.elements()) + 8 * kScalars;
}

/// x in fp32, scaled and within bounds; of blocks their padded absolutes and scales too.
int64_t quantize(const OpSizes& s) {
  const OperandSize& x = s.reads[0];
  const int64_t all = 4 * x.elements(), edge = 4 * 128 * (x.rows() + x.last() + 128);
  const int64_t of_blocks = s.reads.size() > 1 ? 0 : 4 * (all + edge);
  return 5 * all + of_blocks + x.bytes() + 8 * kScalars;
}

int64_t update_scales(const OpSizes& s) {  // the largest of each column and where it is
  return 64 * s.reads[0].elements() + 8 * kScalars;
}

int64_t linear(const OpSizes& s) {  // [M, K] x [K, N]; the bias is broadcast into the result
  const OperandSize& x = s.reads[0];
  if (is_fp8(x.type)) return fp8_product(s);
  return product_scratch(x.type, x.rows(), s.writes[0].last(), x.last(), false, s.threads);
}

int64_t linear_dx(const OpSizes& s) {  // [M, N] x [N, K]
  if (is_fp8(s.reads[0].type)) return fp8_product(s);
  const OperandSize& dy = s.reads[0];
  return product_scratch(dy.type, dy.rows(), s.writes[0].last(), dy.last(), false, s.threads);
}

/// What a _dw adds to, or writes (weight_gradient.h).
const std::vector<OperandSize>& weight_gradients(const OpSizes& s) {
  return s.accumulates.empty() ? s.writes : s.accumulates;
}

/// dy's sum over the rows, before it is added to the bias gradient; of another type: dy in that
/// type.
int64_t bias_sum(const OpSizes& s) {
  const OperandSize& dy = s.reads[0];
  const DType type = weight_gradients(s).back().type;
  return (dy.last() + (dy.type == type ? 0 : dy.elements())) * size_in_bytes(type);
}

int64_t linear_dw(const OpSizes& s) {  // [N, M] x [M, K], added in place where the types are equal
  if (is_fp8(s.reads[0].type)) return fp8_product(s);
  const OperandSize& dy = s.reads[0];
  const OperandSize& x = s.reads[1];
  const std::vector<OperandSize>& gradients = weight_gradients(s);
  const int64_t sum = gradients.size() > 1 ? bias_sum(s) : 0;
  if (x.type == gradients[0].type) return sum;
  // Else the GEMM in x's type, and its copy in the gradient's type.
  const int64_t elements = gradients[0].elements();
  const int64_t product = elements * size_in_bytes(x.type);
  const int64_t copy = elements * size_in_bytes(gradients[0].type);
  return product +
         std::max(
             {copy, sum, product_scratch(x.type, dy.last(), x.last(), dy.rows(), true, s.threads)});
}

int64_t embedding(const OpSizes& s) {
  // Scratch of a table that is split by rows: places in it (twice, while those outside are
  // replaced) and their marks.
  return s.reads[1].row_shards > 1 ? s.reads[0].elements() * (2 * 8 + 3) : 0;
}

int64_t embedding_dw(const OpSizes& s) {
  // dy in the gradient's type. Of a table that is split by rows: places, marks, which tokens are
  // inside, and their rows of dy.
  const OperandSize& dy = s.reads[0];
  const OperandSize& gradient = weight_gradients(s)[0];
  const int64_t rows = dy.elements() * size_in_bytes(gradient.type);
  const int64_t cast = dy.type == gradient.type ? 0 : rows;
  return cast + (gradient.row_shards > 1 ? rows + s.reads[1].elements() * (3 * 8 + 3) : 0);
}

int64_t layer_norm(const OpSizes& s) {
  // Mean and 1 / deviation of each row, apart; before that weight and bias in the statistics' type.
  const OperandSize& statistics = s.writes[1];
  const int64_t width = s.reads[0].last() * size_in_bytes(statistics.type);
  return std::max(statistics.bytes(), s.reads[1].type == statistics.type ? 0 : 2 * width) +
         s.copied_results();
}

int64_t layer_norm_b(const OpSizes& s) {
  // Mean and 1 / deviation apart; the weight in their type, zeros for the bias, dw, db, and a pair
  // of sums a thread.
  const OperandSize& statistics = s.reads[3];
  const int64_t width = s.reads[1].last() * size_in_bytes(statistics.type);
  const int64_t cast = s.reads[2].type == statistics.type ? 0 : width;
  return statistics.bytes() + cast + (3 + 2 * s.threads) * width + s.copied_results();
}

int64_t rms_norm(const OpSizes& s) {
  // In the statistics' type: x and x / rms where they are not so already, and the weight, and that
  // with what is added to it.
  const DType type = s.writes[1].type;
  const int64_t size = size_in_bytes(type), width = s.reads[1].elements() * size;
  const int64_t shifted = s.attrs.shift == 0 ? 0 : width;
  if (s.reads[0].type == type) return shifted + s.copied_results();
  return 2 * s.reads[0].elements() * size + width + shifted + s.copied_results();
}

int64_t rms_norm_b(const OpSizes& s) {
  // n and dy n; with a dx, n mean(dy w n) too and the rows' means; 16-bit types also dy, w and dx
  // in fp32.
  const DType type = s.reads[3].type;
  const int64_t all = s.reads[1].elements() * size_in_bytes(type);
  const bool wants_dx = !s.writes.empty();
  const bool casts = s.reads[0].type != type;
  const int64_t width = s.reads[2].elements() * size_in_bytes(type);
  return (2 + (wants_dx ? 1 : 0) + (casts ? (wants_dx ? 2 : 1) : 0)) * all + s.reads[3].bytes() +
         (s.attrs.shift == 0 ? 2 : 3) * width + s.copied_results();
}

int64_t bmm(const OpSizes& s) {  // of a 16-bit type one matrix after the other
  const OperandSize& a = s.reads[0];
  const OperandSize& b = s.reads[1];
  const OperandSize& to = s.writes.empty() ? s.accumulates[0] : s.writes[0];
  const bool apart = s.writes.empty() && to.type != a.type;
  const std::int64_t m = *(to.shape.end() - 2), n = to.last();
  const std::int64_t k = a.elements() * n / std::max<std::int64_t>(1, to.elements());
  return (apart ? to.elements() * (size_in_bytes(a.type) + size_in_bytes(to.type)) : 0) +
         product_scratch(a.type, m, n, std::max({k, a.last(), b.last()}), true, s.threads);
}

/// A group's results, its statistics in the type that LibTorch keeps them in, weights in that too.
int64_t batch_norm(const OperandSize& x, const OperandSize& statistics) {
  return 2 * x.bytes() / statistics.shape[0] + 8 * x.shape[1] * 8;
}

/// Sums by group and channel, of which no more than a dozen stand at a time.
int64_t moments_scratch(const OperandSize& moments) { return 12 * moments.bytes() / 3; }

int64_t batch_moments(const OpSizes& s) {  // x in the sums' type
  const OperandSize& sums = s.writes[0];
  const int64_t cast = s.reads[0].type == sums.type ? 0 : s.reads[0].elements();
  return cast * size_in_bytes(sums.type) + moments_scratch(sums);
}

int64_t batch_normalize(const OpSizes& s) {  // y in the moments' type, then in its own
  const int64_t wide = s.reads[0].elements() * size_in_bytes(s.reads[1].type);
  const int64_t cast = s.reads[0].type == s.reads[1].type ? 0 : s.writes[0].bytes();
  return wide + cast + moments_scratch(s.reads[1]);
}

int64_t batch_normalize_b(const OpSizes& s) {  // dy in the moments' type, its product with x
  const int64_t wide = s.reads[0].elements() * size_in_bytes(s.reads[2].type);
  const bool casts = s.reads[0].type != s.reads[2].type;
  return (casts ? 3 : 1) * wide + s.copied_results() + moments_scratch(s.reads[2]);
}

int64_t batch_moments_dx(const OpSizes& s) {
  const int64_t wide = s.reads[1].elements() * size_in_bytes(s.reads[0].type);
  const int64_t cast = s.reads[1].type == s.reads[0].type ? 0 : s.writes[0].bytes();
  return wide + cast + moments_scratch(s.reads[0]);
}

int64_t mse(const OpSizes& s) {  // the difference, in the loss's type too, and its square
  const OperandSize& x = s.reads[0];
  const DType type = s.writes.empty() ? s.accumulates[0].type : s.writes[0].type;
  return (x.type == type ? 2 : 3) * x.elements() * size_in_bytes(type);
}

int64_t gated_dx(const OpSizes& s) {  // dy up, and the two halves before they are packed
  return 3 * s.reads[0].bytes();
}

/// The logits, copied into the loss's type or to put -inf into the columns that are padding.
int64_t masked_logits(const OpSizes& s, DType type) {
  const OperandSize& logits = s.reads[0];
  const bool is_padded = logits.last() * logits.column_shards > s.attrs.vocab;
  return logits.type != type || is_padded ? logits.elements() * size_in_bytes(type) : 0;
}
/// Scratch of each label: its column as int64, up to six marks, what stands there.
int64_t labels(const OperandSize& labels, DType type) {
  return labels.elements() * (8 + 6 + 2 * size_in_bytes(type));
}

int64_t cross_entropy(const OpSizes& s) {
  const OperandSize& result = s.writes[s.accumulates.empty() ? 1 : 0];
  return masked_logits(s, result.type) + labels(s.reads[1], result.type) + s.copied_results();
}

int64_t cross_entropy_max(const OpSizes& s) {
  return masked_logits(s, s.writes[0].type) + s.copied_results();
}

int64_t cross_entropy_sum(const OpSizes& s) {  // less the maxima
  const DType type = s.writes[0].type;
  return masked_logits(s, type) + s.reads[0].elements() * size_in_bytes(type) +
         labels(s.reads[1], type);
}

int64_t cross_entropy_dx(const OpSizes& s) {
  const OperandSize& p = s.reads[1];
  return (p.type == s.writes[0].type ? 0 : p.bytes()) + labels(s.reads[0], p.type) +
         s.copied_results();
}

/// Staging of the tokens, in int64: of the host's heap, not a tensor.
int64_t load(const OpSizes& s) { return s.writes[0].elements() * 8; }

/// A piece of the bucket in fp64: gradient, weights and moments where they are of another type, two
/// directions.
int64_t adamw(const OpSizes& s) {  // the gradient in the weights' type
  const OperandSize& gradient = s.reads.back();
  const DType type = s.accumulates[0].type;
  return gradient.type == type ? 0 : gradient.elements() * size_in_bytes(type);
}

int64_t correct_adamw(const OpSizes& s) {
  return 6 * std::min(kCorrectedAtOnce, s.accumulates[0].elements()) * 8;
}

int64_t correct_sgd(const OpSizes& s) {
  if (s.accumulates[0].type == DType::kFp64) return 0;
  return 2 * std::min(kCorrectedAtOnce, s.accumulates[0].elements()) * 8;
}

int64_t of_forward(OpKind kind, const OpSizes& s) {
  using enum OpKind;
  switch (kind) {
    case kLoad: return load(s);
    case kLinear: return linear(s);
    case kAmax: return s.reads[0].bytes();
    case kQuantize: return quantize(s);
    case kUpdateScales: return update_scales(s);
    case kEmbedding: return embedding(s);
    case kLayerNorm: return layer_norm(s);
    case kRmsNorm: return rms_norm(s);
    case kFlashAttention: return flash_attention_workspace(s);
    case kBlockAttention: return block_attention_workspace(s);
    case kScores: return scores_workspace(s);
    case kSoftmax: return softmax_workspace(s);
    case kContext: return context_workspace(s);
    case kRelativeBias: return relative_bias_workspace(s);
    case kHeadNorm: return head_norm_workspace(s);
    case kRope: return rope_workspace(s);
    case kSwiglu:
    case kGeglu: return s.copied_results();
    case kSelectFirst:
    case kSum: return s.copied_results();
    case kBmm: return bmm(s);
    case kMaxPool2d: return s.copied_results();
    case kBatchNorm: return batch_norm(s.reads[0], s.writes[1]);
    case kBatchMoments: return batch_moments(s);
    case kBatchNormalize: return batch_normalize(s);
    case kMse: return mse(s);
    case kCrossEntropyMax: return cross_entropy_max(s);
    case kCrossEntropySum: return cross_entropy_sum(s);
    case kCrossEntropy: return cross_entropy(s);
    case kAverage:
    case kAdamW: return adamw(s);
    case kCorrectAdamW: return correct_adamw(s);
    case kCorrectSgd: return correct_sgd(s);
    default: return 0;  // element by element into the result, views, or in place
  }
}

int64_t of_backward(OpKind kind, OpPart part, const OpSizes& s) {
  using enum OpKind;
  const bool weight = part == OpPart::kWeightGrad;
  switch (kind) {
    case kLinear: return weight ? linear_dw(s) : linear_dx(s);
    case kAddBias: return weight ? bias_sum(s) : 0;
    case kEmbedding: return embedding_dw(s);
    case kLayerNorm: return layer_norm_b(s);
    case kRmsNorm: return rms_norm_b(s);
    case kFlashAttention: return flash_attention_dx_workspace(s);
    case kBlockAttention: return block_attention_dx_workspace(s);
    case kScores: return scores_dx_workspace(s);
    case kAddAttentionBias: return s.copied_results();
    case kSoftmax: return s.copied_results();
    case kContext: return context_dx_workspace(s);
    case kRelativeBias: return relative_bias_dw_workspace(s);
    case kHeadNorm: return head_norm_b_workspace(s);
    case kRope: return rope_workspace(s);
    case kSwiglu:
    case kGeglu: return gated_dx(s);
    case kCrossEntropy: return cross_entropy_dx(s);
    case kBmm: return bmm(s);
    case kBatchNorm: return batch_norm(s.reads[1], s.reads[3]);
    case kBatchMoments: return batch_moments_dx(s);
    case kBatchNormalize: return batch_normalize_b(s);
    default: return 0;
  }
}

}  // namespace

std::int64_t workspace_bytes(const Program& program, const ProgramOp& op, int threads) {
  check(!moves_data(op.kind), "workspace is declared for the main stream");
  if (op.kind == OpKind::kFree) return 0;
  OpSizes sizes{op, program.attrs[op.attrs], threads, {}, {}, {}};
  const auto collect = [&](const Operands& operands, std::vector<OperandSize>& out) {
    for (const Operand& operand : operands) {
      const Value& value = program.values[operand.value];
      OperandSize size;
      for (const Dim& dim : value.dims) size.shape.push_back(dim.bound);
      const int last = static_cast<int>(value.dims.size()) - 1;
      const TensorSpec spec = spec_of(program, value);
      // Counts for tables and logits, whose dims are cut as one.
      const auto shards = [&](int dim) {
        const bool alike = is_cut_alike(spec.dims.begin()[dim]);
        return alike ? global_extent(spec, dim, 1, program.mesh) : 1;
      };
      size.row_shards = shards(0);
      size.column_shards = shards(last);
      size.type = value.dtype;
      size.given = value.alias.has_value() || value.pool != kNoIndex;
      out.push_back(std::move(size));
    }
  };
  collect(op.reads, sizes.reads);
  collect(op.writes, sizes.writes);
  collect(op.accumulates, sizes.accumulates);
  if (const auto general = general_workspace(op.kind, op.part, sizes)) return kScalars + *general;
  return kScalars + (op.part == OpPart::kForward ? of_forward(op.kind, sizes)
                                                 : of_backward(op.kind, op.part, sizes));
}

}  // namespace trainyard
