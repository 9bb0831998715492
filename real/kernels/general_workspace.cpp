#include "real/kernels/general_workspace.h"

#include <algorithm>

#include "real/kernels/state_space_workspace.h"

namespace trainyard {

namespace {

using std::int64_t;

const OperandSize& gradient_of(const OpSizes& s) {
  return s.writes.empty() ? s.accumulates[0] : s.writes[0];
}

/// What is added to, or summed up in, another type is copied into that.
int64_t cast(const OpSizes& s, int64_t elements) {
  const DType type = gradient_of(s).type;
  return s.reads[0].type == type ? 0 : elements * size_in_bytes(type);
}

/// A gradient of the operand's elements that is added to what is there.
int64_t added(const OpSizes& s, int64_t elements) {
  return s.accumulates.empty() ? 0 : cast(s, elements);
}

/// On CPUs LibTorch sums a 16-bit type over dims that lie apart in fp32: all of it, and the result.
int64_t summed_apart(const OpSizes& s) {
  const std::vector<int64_t>&whole = s.reads[0].shape, &left = gradient_of(s).shape;
  if (!is_16_bit(s.reads[0].type) || gradient_of(s).type != s.reads[0].type) return 0;
  const std::ptrdiff_t missing = std::ssize(whole) - std::ssize(left);
  int runs = 0;  // of neighbouring dims that go
  bool in_run = false;
  for (std::ptrdiff_t d = 0; d < std::ssize(whole); ++d) {
    if (whole.begin()[d] == 1) continue;
    const bool goes = d < missing || left.begin()[d - missing] == 1;
    if (goes && !in_run) ++runs;
    in_run = goes;
  }
  return runs < 2 ? 0 : 4 * (s.reads[0].elements() + gradient_of(s).elements());
}

/// dy summed over what the operand was repeated along.
int64_t summed(const OpSizes& s) {
  return cast(s, s.reads[0].elements()) + gradient_of(s).bytes() + summed_apart(s);
}

/// dy times or over the other operand, where that is not the result itself, and its sum.
int64_t factor_gradient(const OpSizes& s) {
  int64_t elements = 0;
  for (const OperandSize& read : s.reads) elements = std::max(elements, read.elements());
  return elements * size_in_bytes(s.reads[0].type) + cast(s, elements) + gradient_of(s).bytes() +
         summed_apart(s);
}

int64_t where(const OpSizes& s, bool back) {  // the condition as what it is of, once more of any
  const OperandSize& condition = s.reads[back ? 1 : 0];
  return condition.elements() + (back ? factor_gradient(s) : 0);
}

int64_t erf_dx(const OpSizes& s) {  // 16-bit types: x and the result in fp32
  const OperandSize& x = s.reads[1];
  return (is_16_bit(x.type) ? 2 * x.elements() * 4 : 0) + s.copied_results();
}

int64_t cumsum_dx(const OpSizes& s) {  // the other way round, and its sums
  return 2 * s.reads[0].bytes() + s.copied_results();
}

/// Places from the end counted from the beginning, and where they are so; rows of a gradient in the
/// type in which they are added up.
int64_t gather(const OpSizes& s, bool back) {
  const OperandSize& index = s.reads[1];
  if (back) return 3 * index.bytes() + cast(s, s.reads[0].elements());
  // Where rows are looked up by the index repeated, that and the rows apart.
  const OperandSize& rows = s.writes[0];
  return 3 * index.bytes() + rows.elements() * 8 + 2 * rows.bytes();
}

/// The index as gather() has it; a gradient apart, and in the type in which it is added up.
int64_t scatter(const OpSizes& s, OpPart part) {
  const OperandSize& index = s.reads[1];
  if (part == OpPart::kForward) {
    const OperandSize &rows = s.reads[2], &y = s.writes[0];
    return 3 * index.bytes() + rows.elements() * 8 + 2 * rows.bytes() +
           (is_16_bit(y.type) ? 4 * (rows.elements() + y.elements()) : 0);
  }
  const OperandSize& made = gradient_of(s);
  const int64_t rows = part == OpPart::kWeightGrad ? made.elements() * 8 : 0;
  return 3 * index.bytes() + rows + 2 * made.elements() * size_in_bytes(s.reads[0].type) +
         cast(s, made.elements());
}

/// A comparison's truth values, before they are numbers; operands that are repeated.
int64_t combine(const OpSizes& s) { return 3 * s.writes[0].elements() + s.copied_results(); }

/// A sum for each element, and a term of it; operands of another type in the loss's.
int64_t bce(const OpSizes& s) {
  const OperandSize& x = s.reads[0];
  const DType type = s.writes.empty() ? s.accumulates[0].type : s.writes[0].type;
  return (x.type == type ? 2 : 4) * x.elements() * size_in_bytes(type);
}

/// The gradient of each element in the loss's type, and one more; 16-bit operands in that, too.
int64_t mean_loss_gradient(const OpSizes& s) {
  const OperandSize& x = s.reads[0];
  return (is_16_bit(x.type) ? 3 : 2) * x.elements() * accumulation_bytes(x.type);
}

/// Which elements a row and a column lie between, and their shares. LibTorch interpolates where the
/// channels of an element lie together, and copies images there and back; gradients only where they
/// lie so already, in images of one element. Of 16-bit types it adds them up in fp32.
int64_t interpolation(const OpSizes& s, bool back) {
  const OperandSize& from = s.reads[0];
  const OperandSize& to = s.writes[0];
  const int64_t copies = !back                                ? from.bytes() + to.bytes()
                         : from.shape[2] * from.shape[3] == 1 ? to.bytes()
                                                              : 0;
  return 4 * 8 * (to.shape[2] + to.shape[3]) + copies +
         (is_16_bit(to.type) ? (to.elements() + from.elements()) * 4 : 0);
}

/// Statistics apart, the weights in their type.
int64_t group_norm(const OpSizes& s) {
  const OperandSize& statistics = s.writes[1];
  const int64_t casts = s.reads[1].type == statistics.type ? 0 : 2 * s.reads[1].elements();
  // A sample's scales and shifts by channel.
  const int64_t channels = 2 * s.reads[0].shape[0] * s.reads[0].shape[1];
  return statistics.bytes() + (casts + channels) * size_in_bytes(statistics.type) +
         s.copied_results();
}

/// Sums of dy and dy x by sample and channel; the statistics apart; the weights and their
/// gradients.
int64_t group_norm_b(const OpSizes& s) {
  const OperandSize& x = s.reads[1];
  const OperandSize& statistics = s.reads[3];
  const int64_t channels = x.shape[1], sums = 2 * x.shape[0] * channels;
  return statistics.bytes() +
         (sums + 3 * channels + 2 * s.threads * channels) * size_in_bytes(statistics.type) +
         s.copied_results();
}

int64_t wide(const OperandSize& x, const OperandSize& moments) {
  return x.elements() * size_in_bytes(moments.type);
}
/// Numbers of rows, of which no more than a dozen stand at a time.
int64_t row_scratch(const OperandSize& moments) { return 6 * moments.bytes(); }

/// Squares, and x in the moments' type; the way back x times them, and that cast.
int64_t norm_moments(const OpSizes& s, bool back) {
  const OperandSize& moments = back ? s.reads[0] : s.writes[0];
  const OperandSize& x = s.reads[back ? 1 : 0];
  const bool casts = x.type != moments.type;
  const int copies = (casts ? 1 : 0) + (back ? 0 : 1);
  return copies * wide(x, moments) + (back && casts ? x.bytes() : 0) + row_scratch(moments) +
         s.copied_results();
}

/// x - m, or x in the moments' type, and y in that, and cast; the weights in it.
int64_t normalize(const OpSizes& s) {
  const OperandSize& moments = s.reads[1];
  const OperandSize& w = s.reads[2];
  const bool casts = s.reads[0].type != moments.type, has_mean = moments.last() == 3;
  return ((casts ? 1 : 0) + (casts || has_mean ? 1 : 0)) * wide(s.reads[0], moments) +
         (casts ? s.writes[0].bytes() : 0) + s.copied_results() + row_scratch(moments) +
         3 * w.elements() * size_in_bytes(moments.type);
}

int64_t normalize_b(const OpSizes& s) {  // z, dy w and a product of two, of 16 bits dy too
  const OperandSize& moments = s.reads[2];
  const OperandSize& w = s.reads[3];
  const bool casts = s.reads[1].type != moments.type;
  return (casts ? 4 : 3) * wide(s.reads[1], moments) + (casts ? s.reads[1].bytes() : 0) +
         s.copied_results() + row_scratch(moments) + 4 * w.elements() * size_in_bytes(moments.type);
}

/// Without AVX-512 oneDNN finds the gradient of 3 x 3 windows in fp32 as Winograd does, from tiles
/// of 6 x 6: 36 sums on each thread in place of 9.
std::int64_t weight_gradient_workspace(const OpSizes& s, const OperandSize& x, const OperandSize& w,
                                       const OperandSize& y) {
  const bool tiles = x.type == DType::kFp32 && w.shape[2] == 3 && w.shape[3] == 3;
  return convolution_workspace(s, x, w, y) + (tiles ? s.threads * 3 * 4 * w.elements() : 0);
}

}  // namespace

std::int64_t convolution_workspace(const OpSizes& s, const OperandSize& x, const OperandSize& w,
                                   const OperandSize& y) {
  const int64_t windows = y.shape[0] * y.shape[2] * y.shape[3];
  const int64_t columns = windows * (w.elements() / w.shape[0]) * size_in_bytes(x.type);
  // Tensors of 16 bits have their channels in blocks of 16 in oneDNN.
  const auto bytes = [&](const OperandSize& of, std::initializer_list<int> channels) {
    int64_t size = size_in_bytes(of.type);
    for (int dim = 0; dim < 4; ++dim) {
      const bool blocked =
          is_16_bit(x.type) && std::find(channels.begin(), channels.end(), dim) != channels.end();
      size *= blocked ? (of.shape[dim] + 15) / 16 * 16 : of.shape[dim];
    }
    return size;
  };
  const int64_t weight = bytes(w, {0, 1});
  const int64_t copies = bytes(x, {1}) + weight + bytes(y, {1});
  const int64_t scratch = is_16_bit(x.type) ? 3 * 65536 : 65536;
  return columns + 3 * copies + s.threads * (weight / size_in_bytes(w.type) * 4 + scratch);
}

std::optional<std::int64_t> general_workspace(OpKind kind, OpPart part, const OpSizes& s) {
  using enum OpKind;
  const bool back = part != OpPart::kForward, weight = part == OpPart::kWeightGrad;
  switch (kind) {
    case kView:
    case kPieces:
    case kPermute:
    case kRoll:
    case kNarrow: return added(s, s.reads[0].elements());
    case kSum:
      if (!back) return std::nullopt;
      return s.accumulates.empty() ? 0 : added(s, s.accumulates[0].elements());
    case kAdd: return back ? summed(s) : added(s, s.reads[0].elements());
    case kSub: return !back ? 0 : weight ? factor_gradient(s) : summed(s);
    case kMul:
    case kDiv: return back ? factor_gradient(s) : 0;
    case kWhere: return where(s, back);
    case kFlip: return s.reads[0].bytes() + added(s, s.reads[0].elements());
    case kErf: return back ? erf_dx(s) : 0;
    case kSigmoid: return back ? s.reads[1].bytes() : 0;
    case kClamp: return back ? 3 * s.reads[1].elements() : 0;
    case kCumsum: return back ? cumsum_dx(s) : 0;
    case kGather: return gather(s, back);
    case kScatter: return scatter(s, part);
    case kCombine: return combine(s);
    case kArgmax: return s.writes[0].bytes();
    case kTopk: return 2 * s.reads[0].elements() * 8 + 2 * s.reads[0].bytes();
    case kMse:
      if (!back) return std::nullopt;
      return mean_loss_gradient(s);
    case kBce: return back ? mean_loss_gradient(s) : bce(s);
    case kInterpolate2d: return interpolation(s, back);
    case kNormMoments: return norm_moments(s, back);
    case kNormalize: return back ? normalize_b(s) : normalize(s);
    case kGroupNorm: return back ? group_norm_b(s) : group_norm(s);
    case kCausalConv1d: return causal_conv1d_workspace(s, back);
    case kChunkScan: return chunk_scan_workspace(s, back);
    case kConv2d:
      if (!back) return convolution_workspace(s, s.reads[0], s.reads[1], s.writes[0]);
      return weight ? weight_gradient_workspace(
                          s, s.reads[1], s.accumulates.empty() ? s.writes[0] : s.accumulates[0],
                          s.reads[0])
                    : convolution_workspace(s, s.writes[0], s.reads[1], s.reads[0]);
    case kConvTranspose2d:  // the other way round: y as the images of which x is what windows make
      if (!back) return convolution_workspace(s, s.writes[0], s.reads[1], s.reads[0]);
      return weight ? weight_gradient_workspace(s, s.reads[0], gradient_of(s), s.reads[1])
                    : convolution_workspace(s, s.reads[0], s.reads[1], s.writes[0]);
    default: return std::nullopt;
  }
}

}  // namespace trainyard
