#include "real/kernels/attention_workspace.h"

#include <ATen/native/CPUBlas.h>

#include <algorithm>

namespace trainyard {

namespace {

using std::int64_t;

constexpr int64_t kAlignment = 64;  // of what is allocated, in bytes

/// A padding mask [B, Sk], operand `i`, and a window as what is added to the scores, in rows of 16
/// elements.
int64_t additive_mask(const OpSizes& s, std::size_t i, int64_t keys) {
  const int64_t queries = s.reads[0].shape[1], size = size_in_bytes(s.reads[0].type);
  const int64_t row = (keys + 15) / 16 * 16 * size;
  const bool window = s.attrs.attended > 0;
  const int64_t of_window = window ? queries * (row + keys) : 0;
  if (!s.attrs.has_mask) return of_window;
  const OperandSize& mask = s.reads[i];
  return of_window + mask.shape[0] * (window ? queries : 1) * row + mask.elements();
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

/// Scores, maxima, sums and results of a block in accumulation type; 16-bit types: the scores once
/// more.
int64_t scores_of_block(const OpSizes& s, const OperandSize& q, const FlashBlock& block) {
  const int64_t scores = block.keys * (is_16_bit(q.type) ? 2 : 0);
  return block.queries *
         ((block.keys + 2 + s.attrs.head_dim) * accumulation_bytes(q.type) + scores);
}

/// Scores of a block and their gradients, 16-bit types also in that type and with a GEMM's scratch.
int64_t gradients_of_block(const OpSizes& s, const OperandSize& dy, const FlashBlock& block) {
  return block.queries * block.keys * 2 *
             (accumulation_bytes(dy.type) + (is_16_bit(dy.type) ? 2 : 0)) +
         block.queries * accumulation_bytes(dy.type) +
         product_scratch(dy.type, block.keys, s.attrs.head_dim, block.queries, true, 1);
}

/// What runs that meet in a window need: distances, what is hidden, what is added to scores.
int64_t window_of_runs(const OpSizes& s, int64_t queries, int64_t keys, DType type) {
  if (s.attrs.attended == 0) return 0;
  return queries * (keys * (8 + 3) + (keys + 15) / 16 * 16 * size_in_bytes(type));
}

/// Documents one after the other, forward: what each makes, once more where types differ.
int64_t document_attention_workspace(const OpSizes& s) {
  const OperandSize& qkv = s.reads[0];
  const int64_t length = qkv.shape[1];
  const FlashBlock block = flash_block(length, length);
  return s.threads * scores_of_block(s, qkv, block) +
         packed_keys_and_values(s, qkv, length, block) +
         2 * (s.writes[0].bytes() + s.writes[1].bytes()) +
         window_of_runs(s, length, length, qkv.type);
}

/// Backward: dq, dk and dv of a document, and its sums in one piece.
int64_t document_attention_dx_workspace(const OpSizes& s) {
  const OperandSize& dy = s.reads[0];
  const int64_t length = dy.shape[1];
  return s.threads * gradients_of_block(s, dy, flash_block(length, length)) + s.writes[0].bytes() +
         s.reads[3].bytes() + window_of_runs(s, length, length, dy.type);
}

/// q, k or v [B, S, heads * H] by head, for every query head.
int64_t by_query_head(const OpSizes& s, const OperandSize& x) {
  return x.bytes() * (s.attrs.kv_heads == s.attrs.heads ? 1 : 1 + s.attrs.heads / s.attrs.kv_heads);
}

}  // namespace

std::int64_t flash_attention_workspace(const OpSizes& s) {
  if (s.attrs.documents) return document_attention_workspace(s);
  const OperandSize& q = s.reads[0];
  const int64_t keys = s.reads[s.attrs.packed ? 0 : 1].shape[1];
  const FlashBlock block = flash_block(q.shape[1], keys);
  return s.threads * scores_of_block(s, q, block) + packed_keys_and_values(s, q, keys, block) +
         additive_mask(s, s.attrs.packed ? 1 : 2, keys) + s.copied_results();
}

std::int64_t flash_attention_dx_workspace(const OpSizes& s) {
  if (s.attrs.documents) return document_attention_dx_workspace(s);
  // dq, dk and dv apart, then packed.
  const OperandSize& dy = s.reads[0];
  const int64_t keys = s.reads[s.attrs.packed ? 1 : 2].shape[1];
  const FlashBlock block = flash_block(dy.shape[1], keys);
  int64_t apart = 0;
  for (const OperandSize& write : s.writes) apart += write.bytes();
  return std::max(s.threads * gradients_of_block(s, dy, block), apart) +
         additive_mask(s, s.attrs.packed ? 2 : 3, keys);
}

std::int64_t block_attention_workspace(const OpSizes& s) {
  // What the block makes, what was made so far, both weighed in accumulation type, and their sums.
  const OperandSize& q = s.reads[0];
  const int64_t keys = s.reads[1].shape[1];
  const FlashBlock block = flash_block(q.shape[1], keys);
  const int64_t sums = 5 * s.writes[1].bytes();
  const bool in_parts = s.attrs.attended > 0;  // of a run of queries some rows are added to
  const int64_t results =
      q.bytes() + (in_parts ? 8 : 5) * q.elements() * accumulation_bytes(q.type);
  return s.threads * scores_of_block(s, q, block) + packed_keys_and_values(s, q, keys, block) +
         results + sums * (in_parts ? 2 : 1) + window_of_runs(s, q.shape[1], keys, q.type);
}

std::int64_t block_attention_dx_workspace(const OpSizes& s) {
  // dq, dk and dv of a pair of runs apart, and its sums in one piece.
  const OperandSize& dy = s.reads[0];
  const FlashBlock block = flash_block(dy.shape[1], s.reads[2].shape[1]);
  int64_t apart = s.reads[4].bytes();
  for (const OperandSize& write : s.writes) apart += write.bytes();
  return s.threads * gradients_of_block(s, dy, block) + apart +
         window_of_runs(s, dy.shape[1], s.reads[2].shape[1], dy.type);
}

std::int64_t scores_workspace(const OpSizes& s) {  // q and k by head
  const OperandSize& q = s.reads[0];
  const OperandSize& k = s.reads[1];
  return q.bytes() + by_query_head(s, k) + s.copied_results() +
         product_scratch(q.type, q.shape[1], k.shape[1], s.attrs.head_dim, false, s.threads);
}

std::int64_t scores_dx_workspace(const OpSizes& s) {
  // dq and dk by head, and q, k, or one of the results by token.
  const int64_t dq = s.reads[1].bytes(), dk = by_query_head(s, s.reads[2]);
  return dq + dk + std::max(dq, dk) +
         product_scratch(s.reads[0].type, s.reads[2].shape[1], s.attrs.head_dim,
                         s.reads[1].shape[1], true, s.threads);
}

std::int64_t context_workspace(const OpSizes& s) {
  // v by head, then the result by head; a v that is repeated for its query heads stays to the end.
  const OperandSize& v = s.reads[1];
  const int64_t result = s.writes[0].bytes(), by_head = by_query_head(s, v);
  const bool repeated = s.attrs.kv_heads != s.attrs.heads;
  return (repeated ? by_head + result : std::max(by_head, result)) + s.copied_results() +
         product_scratch(v.type, s.writes[0].shape[1], s.attrs.head_dim, v.shape[1], false,
                         s.threads);
}

std::int64_t context_dx_workspace(const OpSizes& s) {
  // dy by head with v by head; dv by head and by token.
  const int64_t dy = s.reads[0].bytes(), v = by_query_head(s, s.reads[2]);
  return v + std::max(dy, v) +
         product_scratch(s.reads[0].type, s.reads[2].shape[1], s.attrs.head_dim,
                         s.reads[0].shape[1], true, s.threads);
}

std::int64_t softmax_workspace(const OpSizes& s) {
  // The scores with -inf where nothing is attended to; with distances in accumulation type, which a
  // result of another type is made in, too.
  const OperandSize& x = s.reads[0];
  const bool masked = s.attrs.causal || s.attrs.attended > 0 || s.attrs.has_mask;
  if (s.attrs.alibi == 0) return (masked ? x.bytes() : 0) + s.copied_results();
  // The square of distances is not larger than the result, which is not made yet.
  const int64_t of_places = 8 * (x.shape[2] + x.shape[3]), of_slopes = 3 * 8 * x.shape[1];
  return (is_16_bit(x.type) ? 2 : 1) * x.elements() * accumulation_bytes(x.type) + of_places +
         of_slopes + 4 * kAlignment + s.copied_results();
}

std::int64_t relative_bias_workspace(
    const OpSizes& s) {  // bucket numbers [Sq, Sk], the table's rows at them [Sq Sk, N]
  const OperandSize& bias = s.writes[0];
  return bias.shape[1] * bias.shape[2] * 8 + bias.bytes() + s.copied_results();
}

std::int64_t relative_bias_dw_workspace(const OpSizes& s) {
  const OperandSize& grad = s.reads[0];
  const DType type = s.accumulates[0].type;
  return grad.shape[1] * grad.shape[2] * 8 +
         (grad.type == type ? 0 : grad.elements() * size_in_bytes(type));
}

std::int64_t rope_workspace(const OpSizes& s) {
  // Angles in fp64 with their cosines and sines, and what scales the frequencies; two products of
  // half the turned features each; 16-bit types also the turned features in fp32.
  const OperandSize& x = s.reads[0];
  const int64_t half = (s.attrs.rotary > 0 ? s.attrs.rotary : s.attrs.head_dim) / 2;
  const int64_t turned =
      x.shape[0] * x.shape[1] * (int64_t{s.attrs.heads} + s.attrs.kv_heads) * half;
  const int64_t size = accumulation_bytes(x.type);
  const int64_t rows = x.shape[1] * (s.attrs.documents ? x.shape[0] : 1);
  // For each row its place, its document and where that begins.
  const int64_t places = s.attrs.documents ? (3 * rows + 8 * x.shape[1]) * 8 : 0;
  const int64_t angles = half * 8 * 4 + rows * half * (2 * 8 + 2 * size) + places;
  return angles + 2 * turned * size + (is_16_bit(x.type) ? 2 * turned * size : 0);
}

namespace {

/// What has a number for each feature of the queries, of which there are no fewer than of others,
/// for each head of them, and for each feature of a head, in accumulation type.
struct HeadNormSizes {
  int64_t all, heads, width;
};
HeadNormSizes head_norm_sizes(const OpSizes& s, const OperandSize& x) {
  const int64_t size = accumulation_bytes(x.type);
  const int64_t heads = x.shape[0] * x.shape[1] * s.attrs.heads * size;
  return {heads * s.attrs.head_dim, heads, s.attrs.head_dim * size};
}

}  // namespace

std::int64_t head_norm_workspace(const OpSizes& s) {
  // Squares, then x / rms; 16-bit types also x in fp32.
  const auto [all, heads, width] = head_norm_sizes(s, s.reads[0]);
  return (is_16_bit(s.reads[0].type) ? 2 : 1) * all + 2 * heads + 2 * width;
}

std::int64_t head_norm_b_workspace(const OpSizes& s) {
  // n, dy n, and with a dx the two terms of it; 16-bit types also dy in fp32.
  const auto [all, heads, width] = head_norm_sizes(s, s.reads[1]);
  const int64_t terms = s.writes.empty() ? 2 : 4;
  return (terms + (is_16_bit(s.reads[1].type) ? 1 : 0)) * all + 2 * heads + 3 * width;
}

}  // namespace trainyard
