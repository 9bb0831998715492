#include "real/kernels/workspace.h"

#include <ATen/native/CPUBlas.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "engine/base/error.h"
#include "real/kernels/correction.h"

namespace trainyard {

namespace {

using std::int64_t;

/// Numbers that an operator wraps as tensors.
constexpr int64_t kScalars = 64;

struct OperandSize {
  std::vector<int64_t> shape;
  DType type = DType::kFp32;
  int64_t row_shards = 1, column_shards = 1;  // ranks among which dim 0 and the last dim are split
  bool given = false;  // its storage is there before the kernel runs: a view, or a slot of a pool

  int64_t elements() const {
    return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  }
  int64_t bytes() const { return elements() * size_in_bytes(type); }
  int64_t last() const { return shape.back(); }
  int64_t rows() const { return elements() / last(); }
};

/// The operands of one op.
struct OpSizes {
  const ProgramOp& op;
  const OpAttrs& attrs;
  int64_t threads;
  std::vector<OperandSize> reads, writes, accumulates;

  /// Results that are made apart and copied to where they belong.
  int64_t copied_results() const {
    int64_t bytes = 0;
    for (const OperandSize& write : writes) bytes += write.given ? write.bytes() : 0;
    return bytes;
  }
};

bool is_16_bit(DType type) { return size_in_bytes(type) == 2; }
int64_t accumulation_bytes(DType type) { return type == DType::kFp64 ? 8 : 4; }
int64_t padded(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/// oneDNN's scratch of one GEMM [m, k] x [k, n] of a 16-bit type. Each thread has a block of at
/// most 256 rows: its sums in fp32, 64 columns wide, the block of the right factor that goes with
/// it and, where the left factor is transposed or k is cut, a copy of its rows. Where k is cut, the
/// sums are up to 1024 columns wide. Fitted to 360 shapes on AVX-512 with AMX; other CPUs block
/// otherwise.
int64_t product_scratch(DType type, int64_t m, int64_t n, int64_t k, bool transposed,
                        int64_t threads) {
  if (!is_16_bit(type)) return 0;
  const bool cut = transposed ? k > 512 : (k > 1024 && m > 256);
  const int64_t rows = std::min<int64_t>(padded(m, 32), 256);
  const int64_t columns = cut ? std::min<int64_t>(padded(n, 64), 1024) : 64;
  const int64_t depth = transposed && cut ? 512 : std::min<int64_t>(padded(k, 64), 1024);
  const int64_t copy = transposed || cut ? 2 * rows * depth : 0;
  return threads * (4 * rows * columns + copy + 2 * 64 * depth + 18 * 1024);
}

int64_t linear(const OpSizes& s) {  // [M, K] x [K, N]; the bias is broadcast into the result
  const OperandSize& x = s.reads[0];
  return product_scratch(x.type, x.rows(), s.writes[0].last(), x.last(), false, s.threads);
}

int64_t linear_dx(const OpSizes& s) {  // [M, N] x [N, K]
  const OperandSize& dy = s.reads[0];
  return product_scratch(dy.type, dy.rows(), s.writes[0].last(), dy.last(), false, s.threads);
}

/// dy's sum over the rows, before it is added to the bias gradient; of another type: dy in that
/// type.
int64_t bias_sum(const OpSizes& s) {
  const OperandSize& dy = s.reads[0];
  const DType type = s.accumulates.back().type;
  return (dy.last() + (dy.type == type ? 0 : dy.elements())) * size_in_bytes(type);
}

int64_t linear_dw(const OpSizes& s) {  // [N, M] x [M, K], added in place where the types are equal
  const OperandSize& dy = s.reads[0];
  const OperandSize& x = s.reads[1];
  const int64_t sum = s.accumulates.size() > 1 ? bias_sum(s) : 0;
  if (x.type == s.accumulates[0].type) return sum;
  // Else the GEMM in x's type, and its copy in the gradient's type.
  const int64_t elements = s.accumulates[0].elements();
  const int64_t product = elements * size_in_bytes(x.type);
  const int64_t copy = elements * size_in_bytes(s.accumulates[0].type);
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
  const OperandSize& gradient = s.accumulates[0];
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
  // In the statistics' type: x and x / rms where they are not so already, and the weight.
  const DType type = s.writes[1].type;
  if (s.reads[0].type == type) return s.copied_results();
  const int64_t size = size_in_bytes(type);
  return 2 * s.reads[0].elements() * size + s.reads[1].elements() * size + s.copied_results();
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
         2 * width + s.copied_results();
}

/// A padding mask [B, Sk] as what is added to the scores.
int64_t additive_mask(const OpSizes& s, std::size_t i) {
  if (!s.attrs.has_mask) return 0;
  return s.reads[i].elements() * (size_in_bytes(s.reads[0].type) + 1);
}

/// Block of LibTorch's flash kernel for CPUs: what a thread works on, queries and 512 keys.
/// Queries: 256 of 768 and more, 64 of 192 and more, else 32
/// (aten/src/ATen/native/cpu/FlashAttentionKernel.cpp).
struct FlashBlock {
  int64_t queries, keys;
};
FlashBlock flash_block(int64_t queries, int64_t keys) {
  return {queries >= 768 ? 256 : queries >= 192 ? 64 : 32, std::min<int64_t>(keys, 512)};
}

int64_t slices(int64_t all, int64_t of) { return (all + of - 1) / of; }

/// Keys and values laid out anew for the processor's matrix units (AMX), where it has some for the
/// type and every block of keys meets enough queries to pay for it; a thread turns one block of
/// keys at a time.
int64_t packed_keys_and_values(const OpSizes& s, const OperandSize& q, int64_t keys,
                               const FlashBlock& block) {
  const bool bf16 = q.type == DType::kBf16;
  if (!is_16_bit(q.type) || !at::native::cpublas::could_pack(bf16 ? at::kBFloat16 : at::kHalf))
    return 0;
  const int64_t batch = q.shape[0], queries = q.shape[1], least = bf16 ? 64 : 16;
  if (queries < least || keys < least) return 0;
  const int64_t at_once = std::min(block.queries, queries);
  const int64_t each = slices(batch * s.attrs.heads * slices(queries, at_once), s.threads);
  const int64_t met = s.attrs.causal ? std::min(queries, keys) : keys;
  const int64_t all = batch * s.attrs.kv_heads * keys;
  if (each * at_once * met < (bf16 ? 4 : 1) * all) return 0;
  const int64_t width = s.attrs.head_dim + s.attrs.head_dim % 2;
  return size_in_bytes(q.type) * width * (2 * all + s.threads * block.keys);
}

int64_t flash_attention(const OpSizes& s) {
  // Scores, maxima, sums and results of a block in accumulation type; 16-bit types: the scores once
  // more.
  const OperandSize& q = s.reads[0];
  const int64_t keys = s.reads[s.attrs.packed ? 0 : 1].shape[1];
  const FlashBlock block = flash_block(q.shape[1], keys);
  const int64_t scores = block.keys * (is_16_bit(q.type) ? 2 : 0);
  const int64_t each =
      block.queries * ((block.keys + 2 + s.attrs.head_dim) * accumulation_bytes(q.type) + scores);
  return s.threads * each + packed_keys_and_values(s, q, keys, block) +
         additive_mask(s, s.attrs.packed ? 1 : 2) + s.copied_results();
}

int64_t flash_attention_dx(const OpSizes& s) {
  // dq, dk and dv apart, then packed. While they are made: scores and their gradients of a block,
  // 16-bit types also in that type and with a GEMM's scratch.
  const OperandSize& dy = s.reads[0];
  const int64_t keys = s.reads[s.attrs.packed ? 1 : 2].shape[1];
  const FlashBlock block = flash_block(dy.shape[1], keys);
  const int64_t each =
      block.queries * block.keys * 2 *
          (accumulation_bytes(dy.type) + (is_16_bit(dy.type) ? 2 : 0)) +
      block.queries * accumulation_bytes(dy.type) +
      product_scratch(dy.type, block.keys, s.attrs.head_dim, block.queries, true, 1);
  int64_t apart = 0;
  for (const OperandSize& write : s.writes) apart += write.bytes();
  return std::max(s.threads * each, apart) + additive_mask(s, s.attrs.packed ? 2 : 3);
}

/// q, k or v [B, S, heads * H] by head, for every query head.
int64_t by_query_head(const OpSizes& s, const OperandSize& x) {
  return x.bytes() * (s.attrs.kv_heads == s.attrs.heads ? 1 : 1 + s.attrs.heads / s.attrs.kv_heads);
}

int64_t scores(const OpSizes& s) {  // q and k by head
  const OperandSize& q = s.reads[0];
  const OperandSize& k = s.reads[1];
  return q.bytes() + by_query_head(s, k) + s.copied_results() +
         product_scratch(q.type, q.shape[1], k.shape[1], s.attrs.head_dim, false, s.threads);
}

int64_t scores_dx(const OpSizes& s) {
  // dq and dk by head, and q, k, or one of the results by token.
  const int64_t dq = s.reads[1].bytes(), dk = by_query_head(s, s.reads[2]);
  return dq + dk + std::max(dq, dk) +
         product_scratch(s.reads[0].type, s.reads[2].shape[1], s.attrs.head_dim,
                         s.reads[1].shape[1], true, s.threads);
}

int64_t context(const OpSizes& s) {
  // v by head, then the result by head; a v that is repeated for its query heads stays to the end.
  const OperandSize& v = s.reads[1];
  const int64_t result = s.writes[0].bytes(), by_head = by_query_head(s, v);
  const bool repeated = s.attrs.kv_heads != s.attrs.heads;
  return (repeated ? by_head + result : std::max(by_head, result)) + s.copied_results() +
         product_scratch(v.type, s.writes[0].shape[1], s.attrs.head_dim, v.shape[1], false,
                         s.threads);
}

int64_t context_dx(const OpSizes& s) {
  // dy by head with v by head; dv by head and by token.
  const int64_t dy = s.reads[0].bytes(), v = by_query_head(s, s.reads[2]);
  return v + std::max(dy, v) +
         product_scratch(s.reads[0].type, s.reads[2].shape[1], s.attrs.head_dim,
                         s.reads[0].shape[1], true, s.threads);
}

int64_t softmax(const OpSizes& s) {  // the scores with -inf where nothing is attended to
  const bool masked = s.attrs.causal || s.attrs.has_mask;
  return (masked ? s.reads[0].bytes() : 0) + s.copied_results();
}

int64_t relative_bias(
    const OpSizes& s) {  // bucket numbers [Sq, Sk], the table's rows at them [Sq Sk, N]
  const OperandSize& bias = s.writes[0];
  return bias.shape[1] * bias.shape[2] * 8 + bias.bytes() + s.copied_results();
}

int64_t relative_bias_dw(const OpSizes& s) {
  const OperandSize& grad = s.reads[0];
  const DType type = s.accumulates[0].type;
  return grad.shape[1] * grad.shape[2] * 8 +
         (grad.type == type ? 0 : grad.elements() * size_in_bytes(type));
}

int64_t rope(const OpSizes& s) {
  // Angles in fp64 with their cosines and sines; two products of half the turned features each;
  // 16-bit types also the turned features in fp32.
  const OperandSize& x = s.reads[0];
  const int64_t half = s.attrs.head_dim / 2;
  const int64_t turned =
      x.shape[0] * x.shape[1] * (int64_t{s.attrs.heads} + s.attrs.kv_heads) * half;
  const int64_t size = accumulation_bytes(x.type);
  const int64_t angles = half * 8 + x.shape[1] * half * (2 * 8 + 2 * size);
  return angles + 2 * turned * size + (is_16_bit(x.type) ? 2 * turned * size : 0);
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
    case kEmbedding: return embedding(s);
    case kLayerNorm: return layer_norm(s);
    case kRmsNorm: return rms_norm(s);
    case kFlashAttention: return flash_attention(s);
    case kScores: return scores(s);
    case kSoftmax: return softmax(s);
    case kContext: return context(s);
    case kRelativeBias: return relative_bias(s);
    case kRope: return rope(s);
    case kSwiglu:
    case kGeglu: return s.copied_results();
    case kSelectFirst: return s.copied_results();
    case kCrossEntropyMax: return cross_entropy_max(s);
    case kCrossEntropySum: return cross_entropy_sum(s);
    case kCrossEntropy: return cross_entropy(s);
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
    case kFlashAttention: return flash_attention_dx(s);
    case kScores: return scores_dx(s);
    case kAddAttentionBias: return s.copied_results();
    case kSoftmax: return s.copied_results();
    case kContext: return context_dx(s);
    case kRelativeBias: return relative_bias_dw(s);
    case kRope: return rope(s);
    case kSwiglu:
    case kGeglu: return gated_dx(s);
    case kCrossEntropy: return cross_entropy_dx(s);
    default: return 0;
  }
}

}  // namespace

std::int64_t workspace_bytes(const Program& program, const ProgramOp& op, int threads) {
  check(!moves_data(op.kind), "workspace is declared for the main stream");
  if (op.kind == OpKind::kFree) return 0;
  OpSizes sizes{op, program.attrs[static_cast<std::size_t>(op.attrs)], threads, {}, {}, {}};
  const auto collect = [&](const Operands& operands, std::vector<OperandSize>& out) {
    for (const Operand& operand : operands) {
      const Value& value = program.values[static_cast<std::size_t>(operand.value)];
      OperandSize size;
      for (const Dim& dim : value.dims) size.shape.push_back(dim.bound);
      for (std::size_t a = 0; a < value.spec.axes.size(); ++a) {
        const AxisPlacement& placement = value.spec.axes[a];
        if (placement.kind != AxisPlacement::Kind::kShard) continue;
        if (placement.dim == 0) size.row_shards *= program.mesh.size[a];
        if (placement.dim + 1U == value.dims.size()) size.column_shards *= program.mesh.size[a];
      }
      size.type = value.dtype;
      size.given = value.alias.has_value() || value.pool >= 0;
      out.push_back(std::move(size));
    }
  };
  collect(op.reads, sizes.reads);
  collect(op.writes, sizes.writes);
  collect(op.accumulates, sizes.accumulates);
  return kScalars + (op.part == OpPart::kForward ? of_forward(op.kind, sizes)
                                                 : of_backward(op.kind, op.part, sizes));
}

}  // namespace trainyard
