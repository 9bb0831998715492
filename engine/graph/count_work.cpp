#include "engine/graph/count_work.h"

#include <algorithm>

#include "engine/base/error.h"
#include "engine/graph/op_table.h"
#include "engine/graph/state_space_shapes.h"

namespace trainyard {

namespace {

std::int64_t last(const Shape& shape) { return shape.back(); }
std::int64_t rows(const Shape& shape) {
  return shape.empty() || shape.back() == 0 ? 0 : num_elements(shape) / shape.back();
}

Bytes size(const OperandShape& operand) {
  return num_elements(*operand.shape) * size_in_bytes(operand.dtype);
}

void set_linear(KernelWork& work, OpPart part, std::span<const OperandShape> reads) {
  // forward: x, w [out, in]; dx: dy, w; dw: dy, x.
  const Shape& a = *reads[0].shape;
  const Shape& b = *reads[1].shape;
  work.dtype = reads[1].dtype;
  switch (part) {
    case OpPart::kForward: work.m = rows(a), work.n = b[0], work.k = last(a); break;
    case OpPart::kInputGrad: work.m = rows(a), work.n = last(b), work.k = last(a); break;
    default: work.m = last(a), work.n = last(b), work.k = rows(a); break;
  }
  work.flop =
      2.0 * static_cast<double>(work.m) * static_cast<double>(work.n) * static_cast<double>(work.k);
}

/// The share of the square of queries and keys that is computed. A window of w of n keys leaves w n
/// - w (w - 1) / 2 pairs, counting those that the first queries lack.
double attended_share(const OpAttrs& attrs, std::int64_t keys) {
  if (attrs.attended == 0) return attrs.causal ? 0.5 : 1.0;
  const auto n = static_cast<double>(keys);
  const double w = attrs.attended;
  return std::min(attrs.causal ? 0.5 : 1.0, (w * n - w * (w - 1) / 2) / (n * n));
}

void set_attention(KernelWork& work, OpKind kind, OpPart part, const OpAttrs& attrs,
                   std::span<const OperandShape> reads, std::span<const OperandShape> writes) {
  work.head_dim = attrs.head_dim;
  const bool forward = part == OpPart::kForward;
  const double heads = attrs.heads;
  const double head_dim = attrs.head_dim;
  if (kind == OpKind::kFlashAttention || kind == OpKind::kBlockAttention) {
    // forward reads qkv | q, kv; backward reads do first. Of a block in a ring whose sequence lies
    // in two runs from both ends a rank computes half, too: of its own keys what is not behind, of
    // earlier ranks' the first half, and of later ranks' with the second half of its queries.
    const Shape& q = *reads[forward ? 0 : 1].shape;
    const Shape& kv = attrs.packed ? q : *reads[forward ? 1 : 2].shape;
    work.dtype = reads[0].dtype;
    work.batch = q[0] * attrs.heads;
    work.m = q[1], work.n = kv[1], work.k = attrs.head_dim;
    if (kind == OpKind::kBlockAttention) work.blocks = attrs.ring, work.block = attrs.by;
    const double square = static_cast<double>(q[0]) * heads * static_cast<double>(q[1]) *
                          static_cast<double>(kv[1]) * head_dim;
    work.flop = (forward ? 4.0 : 10.0) * square * attended_share(attrs, kv[1]);
    return;
  }
  // The [B, N, Sq, Sk] operand: what scores writes (reads first in its backward), what context
  // reads.
  const Shape* square = nullptr;
  if (kind == OpKind::kScores) square = forward ? writes[0].shape : reads[0].shape;
  if (kind == OpKind::kContext) square = forward ? reads[0].shape : reads[1].shape;
  work.dtype = reads[0].dtype;
  work.batch = (*square)[0] * (*square)[1] * (forward ? 1 : 2);
  work.m = (*square)[2];
  work.n = kind == OpKind::kScores ? (*square)[3] : attrs.head_dim;
  work.k = kind == OpKind::kScores ? attrs.head_dim : (*square)[3];
  work.flop = 2.0 * static_cast<double>(num_elements(*square)) * head_dim * (forward ? 1.0 : 2.0);
}

void set_batched_product(KernelWork& work, OpPart part, std::span<const OperandShape> reads) {
  // forward: a [..,M,K], b [..,K,N]; dx: dy [..,M,N], b; dw: dy, a.
  const Shape& first = *reads[0].shape;
  const Shape& second = *reads[1].shape;
  const auto row_count = [](const Shape& shape) { return shape.end()[-2]; };
  work.batch = rows(first) / row_count(first);
  switch (part) {
    case OpPart::kForward:
      work.m = row_count(first), work.n = second.back(), work.k = first.back();
      break;
    case OpPart::kInputGrad:
      work.m = row_count(first), work.n = row_count(second), work.k = first.back();
      break;
    default: work.m = second.back(), work.n = first.back(), work.k = row_count(first); break;
  }
  work.flop = 2.0 * static_cast<double>(work.batch) * static_cast<double>(work.m) *
              static_cast<double>(work.n) * static_cast<double>(work.k);
}

/// As mamba_ssm's kernels do it, one for each product, between which states of chunks and products
/// of tokens lie in memory in fp32; the backward makes them again.
void set_scan(KernelWork& work, OpPart part, const OpAttrs& attrs,
              std::span<const OperandShape> reads) {
  // forward: x, dt, b, c, ..; backward: dy, x, dt, b, c, ..
  const bool forward = part == OpPart::kForward;
  const Shape& x = *reads[0].shape;
  const std::int64_t tokens = tokens_of_chunk(attrs, x[1]), chunks = x[0] * x[1] / tokens;
  const std::int64_t states = chunks * x[2] * attrs.states * 4;
  const std::int64_t products = chunks * attrs.kv_heads * tokens * tokens * 4;
  // x, b and c are read for the states and for what is read of them; the way back reads x and dy
  // for each of five gradients.
  if (forward) {
    work.bytes += size(reads[0]) + size(reads[2]) + 3 * states + 2 * products;
  } else {
    work.bytes += 4 * (size(reads[0]) + size(reads[1])) + 6 * states + 4 * products;
  }
  work.batch = chunks * attrs.heads;
  work.m = tokens, work.n = attrs.head_dim, work.k = tokens;
  work.flop = scan_flop(part, attrs, x);
}

/// As a product of matrices, one per group: [N u z, c x y] x [c x y, o] of windows. Of one channel
/// in and out there is nothing to multiply with: each element is read and written.
void set_convolution(KernelWork& work, OpPart part, const OpAttrs& attrs,
                     std::span<const OperandShape> reads, std::span<const OperandShape> writes,
                     std::span<const OperandShape> accumulates) {
  // forward: x, w -> y; dx: dy, w; dw: dy, x.
  const Shape& y = part == OpPart::kForward ? *writes[0].shape : *reads[0].shape;
  const Shape& w = part == OpPart::kWeightGrad
                       ? *(accumulates.empty() ? writes : accumulates)[0].shape
                       : *reads[1].shape;
  const std::int64_t windows = y[0] * y[2] * y[3];
  const Shape& x = part == OpPart::kInputGrad ? *writes[0].shape
                   : part == OpPart::kForward ? *reads[0].shape
                                              : *reads[1].shape;
  work.batch = x[1] / w[1];  // groups of this rank
  const std::int64_t channels = w[0] / work.batch, window = w[1] * w[2] * w[3];
  work.dtype = reads[1].dtype;
  switch (part) {
    case OpPart::kForward: work.m = windows, work.n = channels, work.k = window; break;
    case OpPart::kInputGrad: work.m = windows, work.n = window, work.k = channels; break;
    default: work.m = channels, work.n = window, work.k = windows; break;
  }
  work.flop = 2.0 * static_cast<double>(work.batch) * static_cast<double>(work.m) *
              static_cast<double>(work.n) * static_cast<double>(work.k);
  work.images = (num_elements(x) + num_elements(y)) * size_in_bytes(work.dtype);
  const HeightWidth one{1, 1};
  work.winograd = w[2] == 3 && w[3] == 3 && attrs.stride == one && attrs.dilation == one;
  if (work.batch > 1 && channels == 1 && w[1] == 1) work.cls = KernelClass::kMemoryBound;
}

/// A convolution's gradient of its images as forward, and the other way round: the same products.
void set_transposed(KernelWork& work, OpPart part, const OpAttrs& attrs,
                    std::span<const OperandShape> reads, std::span<const OperandShape> writes,
                    std::span<const OperandShape> accumulates) {
  switch (part) {
    case OpPart::kForward:
      set_convolution(work, OpPart::kInputGrad, attrs, reads.first(2), writes, {});
      break;
    case OpPart::kInputGrad:
      set_convolution(work, OpPart::kForward, attrs, reads, writes, {});
      break;
    default: {
      const OperandShape swapped[] = {reads[1], reads[0]};
      set_convolution(work, OpPart::kWeightGrad, attrs, swapped, writes, accumulates);
    }
  }
}

/// Only the range is touched of the whole tensor; its gradient is cleared first where it is new.
void set_narrow(KernelWork& work, OpPart part, std::span<const OperandShape> reads,
                std::span<const OperandShape> writes) {
  switch (part) {
    case OpPart::kForward: work.bytes = 2 * size(writes[0]); break;
    case OpPart::kInputGrad: work.bytes = 2 * size(reads[0]) + size(writes[0]); break;
    default: work.bytes = 3 * size(reads[0]); return;
  }
  work.m = rows(*writes[0].shape), work.n = last(*writes[0].shape);
}

/// Only the rows that are looked up are touched; a gradient that is new is cleared first.
void set_gather(KernelWork& work, OpPart part, std::span<const OperandShape> reads,
                std::span<const OperandShape> writes, std::span<const OperandShape> accumulates) {
  // forward: x, index -> rows; dx, dw: d rows, index.
  const bool forward = part == OpPart::kForward;
  const OperandShape& rows_of_y = forward ? writes[0] : reads[0];
  work.bytes = size(reads[1]) + (forward ? 2 : 3) * size(rows_of_y);
  if (!forward && accumulates.empty()) work.bytes += size(writes[0]);
  work.m = rows(*rows_of_y.shape), work.n = last(*rows_of_y.shape);
}

void set_scatter(KernelWork& work, OpPart part, std::span<const OperandShape> reads) {
  // forward: x, index, rows -> y, whose rows are written twice; dx: dy, index -> dx, of which rows
  // become 0; d rows: as rows that are looked up.
  if (part == OpPart::kForward) work.bytes += size(reads[2]);
  if (part == OpPart::kWeightGrad) work.bytes -= size(reads[0]);
}

/// What a backward op makes beside the gradients of its activations, if only in passing.
void set_parts_of_gradients(KernelWork& work, const OpAttrs& attrs,
                            std::span<const OperandShape> reads,
                            std::span<const OperandShape> writes) {
  // linear_dw, bias_gelu_b, bias_dropout_add_b: dy first. scores_dx writes dq and dk; dv is as dk.
  const bool sums = work.kind == OpKind::kLinear ? work.part == OpPart::kWeightGrad
                                                 : work.part != OpPart::kForward;
  if (sums && attrs.has_bias) work.summed_for_bias = size(reads[0]);
  if (!attrs.packed || work.part == OpPart::kForward) return;
  if (work.kind == OpKind::kFlashAttention) work.packed_gradients = size(writes[0]);
  if (work.kind == OpKind::kScores && writes.size() == 2)
    work.packed_gradients = size(writes[0]) + 2 * size(writes[1]);
}

KernelForm form_of(OpKind kind, OpPart part, const OpAttrs& attrs,
                   std::span<const OperandShape> reads, std::span<const OperandShape> writes,
                   std::span<const OperandShape> accumulates) {
  KernelForm form;
  form.kind = kind;
  form.part = part;
  const auto add = [&](std::span<const OperandShape> operands, std::uint8_t& count) {
    for (const OperandShape& operand : operands) {
      if (form.num_operands() == KernelForm::kMostOperands) return;
      form.types[form.num_operands()] = operand.dtype;
      ++count;
    }
  };
  add(reads, form.num_reads);
  add(writes, form.num_writes);
  add(accumulates, form.num_accumulates);
  if (attrs.causal) form.set(FormFlag::kCausal);
  if (attrs.has_mask) form.set(FormFlag::kMask);
  if (attrs.packed) form.set(FormFlag::kPacked);
  if (attrs.kv_heads != attrs.heads) form.set(FormFlag::kGrouped);
  if (attrs.scale != 1) form.set(FormFlag::kScaled);
  if (attrs.tanh_gelu) form.set(FormFlag::kTanh);
  if (attrs.attended > 0) form.set(FormFlag::kWindow);
  if (attrs.alibi != 0) form.set(FormFlag::kAlibi);
  return form;
}

void set_largest(KernelWork& work, std::span<const OperandShape> operands) {
  for (const OperandShape& operand : operands) {
    if (num_elements(*operand.shape) <= work.m * work.n || operand.shape->empty()) continue;
    work.m = rows(*operand.shape);
    work.n = last(*operand.shape);
  }
}

}  // namespace

KernelWork kernel_work(OpKind kind, OpPart part, const OpAttrs& attrs,
                       std::span<const OperandShape> reads, std::span<const OperandShape> writes,
                       std::span<const OperandShape> accumulates) {
  KernelWork work;
  work.cls = op_info(kind).kernel;
  if (kind == OpKind::kSlice && attrs.dim >= 0)
    work.cls = KernelClass::kMemoryBound;  // else a view
  if (makes_views(kind, part, attrs)) work.cls = KernelClass::kNone;
  work.kind = kind;
  work.part = part;
  if (work.cls == KernelClass::kNone) return work;
  for (const OperandShape& operand : reads) work.bytes += size(operand);
  for (const OperandShape& operand : writes) work.bytes += size(operand);
  for (const OperandShape& operand : accumulates) work.bytes += 2 * size(operand);
  if (!reads.empty()) work.dtype = reads[0].dtype;
  work.form = form_of(kind, part, attrs, reads, writes, accumulates);
  for (const auto operands : {reads, writes, accumulates}) set_largest(work, operands);
  switch (kind) {
    case OpKind::kLinear: set_linear(work, part, reads); break;
    case OpKind::kBmm: set_batched_product(work, part, reads); break;
    case OpKind::kGroupNorm:
    case OpKind::kBatchNorm:
      // Read once for the sums, and again when they are known.
      work.bytes += size(reads[0]) + (part == OpPart::kForward ? 0 : size(reads[1]));
      break;
    case OpKind::kConv2d: set_convolution(work, part, attrs, reads, writes, accumulates); break;
    case OpKind::kConvTranspose2d:
      set_transposed(work, part, attrs, reads, writes, accumulates);
      break;
    case OpKind::kChunkScan: set_scan(work, part, attrs, reads); break;
    case OpKind::kCausalConv1d: {  // dy first on the way back, whose kernel makes y's operand again
      const Shape& w = *reads[part == OpPart::kForward ? 1 : 2].shape;
      work.flop = (part == OpPart::kForward ? 2.0 : 6.0) *
                  static_cast<double>(num_elements(*reads[0].shape) * w.back());
      break;
    }
    case OpKind::kNarrow: set_narrow(work, part, reads, writes); break;
    case OpKind::kGather: set_gather(work, part, reads, writes, accumulates); break;
    case OpKind::kScatter: set_scatter(work, part, reads); break;
    case OpKind::kZeroPad:
      if (part == OpPart::kInputGrad) work.bytes = 2 * size(writes[0]);  // not the zeros' gradient
      break;
    case OpKind::kEmbedding:
      // Only the rows looked up are touched, not the whole table: tokens, rows in, rows out.
      if (part == OpPart::kForward) {
        work.bytes = size(reads[0]) + 2 * size(writes[0]);
        work.m = num_elements(*reads[0].shape), work.n = last(*reads[1].shape),
        work.k = rows(*reads[1].shape);
      } else {
        work.bytes = size(reads[1]) + 3 * size(reads[0]);  // gradient rows read, table rows updated
        // The gradient of a gathered table is written: zeros first.
        const bool written = accumulates.empty();
        if (written) work.bytes += size(writes[0]);
        work.m = num_elements(*reads[1].shape), work.n = last(*reads[0].shape),
        work.k = rows(*(written ? writes : accumulates)[0].shape);
      }
      break;
    case OpKind::kFlashAttention:
    case OpKind::kBlockAttention:
    case OpKind::kScores:
    case OpKind::kContext: set_attention(work, kind, part, attrs, reads, writes); break;
    case OpKind::kSoftmax:
    case OpKind::kAddAttentionBias:
    case OpKind::kDropout: work.head_dim = attrs.head_dim; break;  // of probabilities; else 0
    case OpKind::kAdd: work.of_gradients = !accumulates.empty(); break;
    case OpKind::kZero: work.of_gradients = true; break;
    // Casts to 8 bits are a library's kernels, or the compiler's.
    case OpKind::kAmax:
      work.plain_copy = true;
      if (attrs.in_passing) work.bytes -= size(reads[0]);
      break;
    case OpKind::kTranspose: work.plain_copy = attrs.heads == 0; break;
    case OpKind::kQuantize:
    case OpKind::kDeviceCopy:
    case OpKind::kCopyIn:
    case OpKind::kCopyOut: work.plain_copy = true; break;
    case OpKind::kSlice:
      // Only the own shard is touched.
      work.bytes = 2 * size(writes[0]);
      work.m = rows(*writes[0].shape), work.n = last(*writes[0].shape);
      work.plain_copy = true;
      break;
    case OpKind::kPad:
    case OpKind::kKeepOnOne: work.plain_copy = true; break;
    default: break;
  }
  set_parts_of_gradients(work, attrs, reads, writes);
  return work;
}

Flop scan_flop(OpPart part, const OpAttrs& attrs, const Shape& x) {
  const std::int64_t tokens = tokens_of_chunk(attrs, x[1]);
  const auto in_chunk = static_cast<double>(x[0] * x[1] * tokens);  // pairs of tokens
  const double channels = double{1} * attrs.heads * attrs.head_dim;
  const double scores = in_chunk * attrs.kv_heads * attrs.states, context = in_chunk * channels;
  // The last chunk leaves no state that is read, and the first reads none.
  const double states = static_cast<double>(x[0] * (x[1] - tokens)) * channels * attrs.states;
  // Back: scores again, of which two gradients; those of what is read and of the decays; states
  // again, and gradients of x, b, c and of the states.
  return part == OpPart::kForward ? 2 * (scores + context + 2 * states)
                                  : 2 * (3 * scores + 2 * context + 5 * states);
}

Flop attention_flop(OpPart part, const OpAttrs& attrs, double pairs) {
  return (part == OpPart::kForward ? 4.0 : 10.0) * pairs * attrs.heads * attrs.head_dim;
}

}  // namespace trainyard
