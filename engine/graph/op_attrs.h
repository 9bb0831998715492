// What an op is told beside its operands.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>

namespace trainyard {

inline constexpr int kMostDims = 8;

/// Dims of a tensor in an order. Every op has a list, and few of them anything in it: of each dim
/// four bits, which hold one more than it.
class DimList {
 public:
  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = int;
    using difference_type = std::ptrdiff_t;
    using pointer = const int*;
    using reference = int;
    constexpr Iterator() = default;
    constexpr explicit Iterator(std::uint32_t rest) : rest_(rest) {}
    constexpr int operator*() const { return static_cast<int>(rest_ & 15U) - 1; }
    constexpr Iterator& operator++() {
      rest_ >>= 4U;
      return *this;
    }
    constexpr Iterator operator++(int) {
      const Iterator before = *this;
      ++*this;
      return before;
    }
    friend constexpr bool operator==(Iterator, Iterator) = default;

   private:
    std::uint32_t rest_ = 0;
  };

  constexpr DimList() = default;
  constexpr DimList(std::initializer_list<int> dims) {
    for (const int dim : dims) push_back(dim);
  }
  /// `dim`: from 0 to below kMostDims; no more of them than that.
  constexpr void push_back(int dim) {
    bits_ |= static_cast<std::uint32_t>(dim + 1) << (4 * size());
  }
  constexpr std::size_t size() const { return (std::bit_width(bits_) + 3) / 4; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr Iterator begin() const { return Iterator(bits_); }
  constexpr Iterator end() const { return {}; }
  constexpr int operator[](std::size_t i) const { return *Iterator(bits_ >> (4 * i)); }
  friend constexpr bool operator==(const DimList&, const DimList&) = default;

 private:
  std::uint32_t bits_ = 0;
};

/// A number for each of the two dims of an image.
struct HeightWidth {
  std::int32_t height = 0, width = 0;
  friend constexpr bool operator==(const HeightWidth&, const HeightWidth&) = default;
};

/// Rotary frequencies of Llama 3.1: those that turn less than `low` times in `original` positions
/// are `factor` times slower, those that turn more than `high` times as they are, between them
/// mixed linearly. original 0: all are slower. factor 1: all as they are.
struct RopeScaling {
  float factor = 1, low = 1, high = 4;
  std::int32_t original = 0;  // positions
  friend constexpr bool operator==(const RopeScaling&, const RopeScaling&) = default;
};

/// What `combine` makes of two integers: the first three and the two behind them are conditions.
/// Quotients are rounded towards 0, and remainders have the sign of the divisor.
enum class Combination : std::uint8_t {
  kEqual,
  kLess,
  kLessOrEqual,
  kAnd,
  kOr,
  kRemainder,
  kQuotient,
  kLeast,
  kLargest
};
constexpr bool makes_conditions(Combination combination) { return combination <= Combination::kOr; }

/// What an op needs to know beside its operands. Unused fields keep their defaults, so that two ops
/// that do the same compare equal.
struct OpAttrs {
  std::int32_t heads = 0;     // attention ops, rope: query heads (of this rank, after sharding)
  std::int32_t kv_heads = 0;  // the same for key and value heads
  std::int32_t head_dim = 0;
  bool packed = false;  // attention ops: one input holds q, k and v; else q and kv apart
  bool causal = false;
  bool has_mask = false;  // padding mask [B, S_k] among the inputs
  bool has_bias = false;  // linear, bias_dropout_add: a bias; attention: a trained score bias
  float rate = 0;         // dropout probability
  float share = 1;        // sum_squares: 1/n for gradients that n ranks of the norm hold alike
  std::int8_t dim = -1;   // all_gather, reduce_scatter, slice: the tensor dim concerned; -1: flat.
                          // pieces, roll, flip, narrow, concat, split by sizes: the dim
  bool copies = false;   // view, pieces, narrow, split by sizes: into storage of its own, where the
                         // others are views of their operand
  bool maximum = false;  // all_reduce: the largest, not the sum
  bool in_passing = false;  // amax: by the kernel that makes the tensor
  bool partial_gradient =
      false;        // all_gather: its gradient arrives as partial sums (column linear)
  DimList dims;     // permute: which dim of the operand each of the result's is; sum: which go
  float scale = 1;  // attention: of q k^T (T5: 1); linear: of x w^T (T5's tied LM head); losses:
                    // what they weigh
  bool tanh_gelu = false;         // gelu, bias_gelu, geglu: the tanh approximation (GPT-2, T5 1.1)
  float eps = 0;                  // layer_norm, rms_norm: added to the variance
  float rope_base = 0;            // rope: angle of pair i is position * base^(-2i / head_dim)
  std::int32_t first_sample = 0;  // of the microbatch, where a chunk of it begins
  std::int32_t vocab = 0;      // cross_entropy and its parts: classes; further columns are padding
  std::int64_t begin = 0;      // narrow: the first index of the range
  HeightWidth window;          // pools: elements of a window; of a conv2d its weight says it.
                               // quantize: rows and columns that share a scale; 0: all
  HeightWidth stride{1, 1};    // conv2d, pools: from one window to the next
  HeightWidth padding;         // conv2d, pools: around the image, on each side
  HeightWidth dilation{1, 1};  // conv2d: from one element of a window to the next
  std::int32_t groups = 1;     // conv2d: of channels, each a convolution of its own; rms_norm: of
                               // features, each normalised by itself; of all ranks
  std::int32_t samples = 0;    // batch_norm: that are normalised together
  HeightWidth extra;           // conv_transpose2d: rows and columns more, at the end
  bool bilinear = false;       // interpolate2d: between the four nearest, not the nearest one
  std::int64_t end = 0;        // zero_pad: zeros behind the dim; `begin` of them before it
  std::int32_t by = 1;         // roll: from index i to i + by, around the end; ring_shift: the same
                               // of ranks; block_attention: how many the keys have come
  std::int32_t ring = 0;       // block_attention: ranks whose keys come in turn; 0: all are here
  bool rank_work = false;      // block_attention: how many keys its queries see differs by rank
  bool documents = false;      // attention, rope: documents of a sample are sequences of their own
  float shift = 0;             // affine: added to scale x; rms_norm, head_norm: to the weight
  float exponent = 1;          // power
  float low = 0, high = 0;     // clamp
  Combination combination = Combination::kEqual;  // combine
  std::int32_t attended = 0;   // attention: positions that a query sees, itself among them; 0: all
  float softcap = 0;           // attention: scores s become c tanh(s / c); 0: as they are
  float alibi = 0;             // attention: less so many times ALiBi's slope times the distance
  std::int32_t rotary = 0;     // rope: features of a head that turn; 0: all
  RopeScaling rope_scaling{};  // rope
  bool unbiased = false;       // layer_norm: adds no bias
  std::int32_t draw = 0;       // dropouts: which of its module's masks
  float momentum = 0;          // average, batch norms: what running averages take of a microbatch;
                               // of a norm they lie behind weight and bias; 0: it has none
  bool aligned = false;        // interpolate2d: corner elements lie on corner elements
  bool adds = false;           // scatter: to what is there, in place of it
  std::int32_t states = 0;     // chunk_scan, and splits of what it reads: of each channel of a head
  std::int32_t chunk = 0;      // chunk_scan: tokens whose products are taken at once
  friend bool operator==(const OpAttrs&, const OpAttrs&) = default;
};

}  // namespace trainyard
