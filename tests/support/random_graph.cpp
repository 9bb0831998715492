#include "tests/support/random_graph.h"

#include <algorithm>
#include <array>
#include <vector>

#include "engine/graph/general_shapes.h"
#include "engine/graph/op_table.h"
#include "tests/support/random_tensors.h"

namespace trainyard {

namespace {

constexpr std::size_t kMostRank = 6;

class Generator : RandomTensors {
 public:
  Generator(std::uint64_t seed, const RandomGraph& options) : RandomTensors(seed, options) {
    // Not so small that the variance of a few numbers that are nearly equal is all noise.
    builder_.set_norm_eps(0.1);
  }

  Graph run() {
    const int sources = draw(1, 3);
    for (int i = 0; i < sources; ++i) new_input(random_shape());
    new_parameter(random_shape());
    if (chance(0.5)) new_parameter(random_shape());
    for (int i = 0; i < options_.ops; ++i) {
      builder_.set_layer(i * options_.layers / options_.ops);
      const OpKind kind = options_.images && chance(0.5) ? one_of(kImageKinds) : one_of(kKinds);
      add_op(options_.only && !is_mean_loss(*options_.only) ? *options_.only : kind);
    }
    builder_.set_layer(-1);
    return finish();
  }

 private:
  static constexpr std::array kKinds = {
      OpKind::kView,   OpKind::kPieces, OpKind::kPermute, OpKind::kRoll,    OpKind::kSplit,
      OpKind::kNarrow, OpKind::kConcat, OpKind::kAdd,     OpKind::kMul,     OpKind::kSum,
      OpKind::kBmm,    OpKind::kTanh,   OpKind::kGelu,    OpKind::kLinear,  OpKind::kSub,
      OpKind::kDiv,    OpKind::kWhere,  OpKind::kAffine,  OpKind::kPower,   OpKind::kExp,
      OpKind::kLog,    OpKind::kErf,    OpKind::kSigmoid, OpKind::kSilu,    OpKind::kSoftplus,
      OpKind::kClamp,  OpKind::kCumsum, OpKind::kZeroPad, OpKind::kSoftmax, OpKind::kFlip,
      OpKind::kSin,    OpKind::kCos};

  static constexpr std::array kImageKinds = {
      OpKind::kConv2d,          OpKind::kMaxPool2d,     OpKind::kAvgPool2d, OpKind::kBatchNormalize,
      OpKind::kConvTranspose2d, OpKind::kInterpolate2d, OpKind::kGroupNorm};
  template <typename Kinds>
  OpKind one_of(const Kinds& kinds) {
    return kinds[static_cast<std::size_t>(draw(0, static_cast<int>(kinds.size()) - 1))];
  }

  void add_op(OpKind kind) {
    const int op = num_ops_++;
    if (kind == OpKind::kCausalConv1d || kind == OpKind::kChunkScan)
      return add_state_space(kind, op);
    TensorId x = pick();
    if (shape(x).size() >= kMostRank || num_elements(shape(x)) > most_elements()) {
      kind = OpKind::kNarrow;
    }
    switch (kind) {
      case OpKind::kView: {
        const Shape to = random_extents(num_elements(shape(x)), draw(1, 4));
        add(builder_.view(module(), x, to), op);
        break;
      }
      case OpKind::kPieces: {
        const int dim = random_dim(x);
        add(builder_.pieces(module(), x, dim, random_divisor(shape(x).begin()[dim])), op);
        break;
      }
      case OpKind::kPermute: add(builder_.permute(module(), x, random_order(x)), op); break;
      case OpKind::kRoll: {
        const int dim = random_dim(x), extent = static_cast<int>(shape(x).begin()[dim]);
        add(builder_.roll(module(), x, dim, draw(-extent, 2 * extent)), op);
        break;
      }
      case OpKind::kFlip: add(builder_.flip(module(), x, random_dim(x)), op); break;
      case OpKind::kSplit: add_split(x, op); break;
      case OpKind::kNarrow: add_narrow(x, op); break;
      case OpKind::kZeroPad: add_zero_pad(x, op); break;
      case OpKind::kConcat: add_concat(x, op); break;
      case OpKind::kAdd:
      case OpKind::kMul:
      case OpKind::kSub:
      case OpKind::kDiv: add_broadcast(kind, x, op); break;
      case OpKind::kWhere: add_where(x, op); break;
      case OpKind::kSum: add_sum(x, op); break;
      case OpKind::kCumsum: add(builder_.cumsum(module(), x, random_dim(x)), op); break;
      case OpKind::kSoftmax: add(builder_.softmax(module(), x), op); break;
      case OpKind::kBmm: add_bmm(x, op); break;
      case OpKind::kGather: add_gather(x, op); break;
      case OpKind::kScatter: add_scatter(x, op); break;
      case OpKind::kConv2d: add_convolution(image_of(x), op); break;
      case OpKind::kConvTranspose2d: add_transposed(image_of(x), op); break;
      case OpKind::kMaxPool2d:
      case OpKind::kAvgPool2d: add_pool(kind, image_of(x), op); break;
      case OpKind::kBatchNormalize:
      case OpKind::kInterpolate2d:
      case OpKind::kGroupNorm: add_image_op(kind, image_of(x), op); break;
      case OpKind::kLinear:
        add(builder_.linear(module(), x, random_extent(4), chance(0.5), SplitHint::kNone), op);
        break;
      default: add_pointwise(kind, x, op); break;
    }
  }

  /// Between -1 and 1, so that what grows with x fast stays small.
  TensorId small(TensorId x) { return builder_.activation(module(), OpKind::kTanh, x); }
  /// Between 1/2 and 5/2: what is divided by, and has a logarithm.
  TensorId positive(TensorId x) { return builder_.affine(module(), small(x), 1, 1.5); }

  void add_pointwise(OpKind kind, TensorId x, int op) {
    switch (kind) {
      case OpKind::kAffine: {
        const float shift = chance(0.5) ? 0 : number(-1, 1);
        add(builder_.affine(module(), x, number(-2, 2), shift), op);
        break;
      }
      case OpKind::kPower: {
        constexpr std::array kExponents = {-1.0, 0.0, 0.5, 1.0, 1.7, 2.0, 3.0};
        const double exponent = kExponents[static_cast<std::size_t>(draw(0, 6))];
        add(builder_.power(module(), positive(x), exponent), op);
        break;
      }
      case OpKind::kClamp: {
        const float low = number(-1, 0.5F);
        add(builder_.clamp(module(), x, low, low + number(0, 1)), op);
        break;
      }
      case OpKind::kLog: add(builder_.activation(module(), kind, positive(x)), op); break;
      case OpKind::kExp: add(builder_.activation(module(), kind, small(x)), op); break;
      default: add(builder_.activation(module(), kind, x), op); break;
    }
  }

  void add_split(TensorId x, int op) {
    const int dim = random_dim(x);
    std::vector<std::int64_t> sizes;
    for (std::int64_t left = shape(x).begin()[dim]; left > 0; left -= sizes.back())
      sizes.push_back(random_part(static_cast<int>(left)));
    for (const TensorId part : builder_.split(module(), x, dim, sizes)) add(part, op);
  }

  void add_narrow(TensorId x, int op) {
    const int dim = random_dim(x);
    const auto extent = static_cast<int>(shape(x).begin()[dim]);
    const int begin = extent - random_part(extent);
    add(builder_.narrow(module(), x, dim, begin, random_part(extent - begin)), op);
  }

  void add_zero_pad(TensorId x, int op) {
    const int dim = random_dim(x), each = options_.even ? 2 : 1;
    const int before = each * draw(0, 2), behind = each * draw(0, 2);
    add(builder_.zero_pad(module(), x, dim, before, behind), op);
  }

  void add_concat(TensorId x, int op) {
    const int dim = random_dim(x);
    std::vector<TensorId> parts = {x};
    for (int more = draw(1, 2); more > 0; --more) {
      const TensorId other = find([&](TensorId id) {
        Shape there = shape(id);
        if (there.size() != shape(x).size()) return false;
        there.begin()[dim] = shape(x).begin()[dim];
        return there == shape(x);
      });
      Shape like = shape(x);
      like.begin()[dim] = random_extent(3);
      parts.push_back(other != kNoIndex ? other : use(new_source(like)));
    }
    std::shuffle(parts.begin(), parts.end(), random_);
    add(builder_.concat(module(), parts, dim), op);
  }

  /// What of these extents, or fewer of one element each, goes with x.
  TensorId broadcast_partner(TensorId x) {
    const TensorId found = find([&](TensorId id) {
      const auto both = broadcast_shape(shape(x), shape(id));
      return both && num_elements(*both) <= most_elements();
    });
    return found != kNoIndex ? found : use(new_source(broadcast_extents(x)));
  }
  Shape broadcast_extents(TensorId x) {
    Shape like = shape(x);
    for (std::int64_t& extent : like) {
      if (chance(0.4)) extent = extent == 1 ? random_extent(3) : 1;
    }
    while (like.size() > 1 && chance(0.3)) like.erase(like.begin());
    return like;
  }

  void add_broadcast(OpKind kind, TensorId x, int op) {
    TensorId other = broadcast_partner(x);
    if (chance(0.5)) std::swap(x, other);
    switch (kind) {
      case OpKind::kAdd: add(builder_.add(module(), x, other), op); break;
      case OpKind::kSub: add(builder_.sub(module(), x, other), op); break;
      case OpKind::kDiv: add(builder_.div(module(), x, positive(other)), op); break;
      default: add(builder_.mul(module(), x, other), op); break;
    }
  }

  void add_where(TensorId x, int op) {
    TensorId other = broadcast_partner(x);
    if (chance(0.5)) std::swap(x, other);
    Shape all = broadcast_shape(shape(x), shape(other)).value();
    for (std::int64_t& extent : all) {
      if (chance(0.3)) extent = 1;
    }
    const TensorId condition = builder_.input(numbered('c', sources_++), all, DType::kUint8);
    add(builder_.where(module(), condition, x, other), op);
  }

  void add_sum(TensorId x, int op) {
    DimList dims = random_order(x), some;
    const int count = draw(1, static_cast<int>(dims.size()));
    for (int i = 0; i < count; ++i) some.push_back(dims[static_cast<std::size_t>(i)]);
    add(builder_.sum(module(), x, some, chance(0.5)), op);
  }

  void add_bmm(TensorId x, int op) {
    if (shape(x).size() < 3) {
      const Shape to = random_extents(num_elements(shape(x)), 3);
      x = builder_.view(module(), x, to);
    }
    const Shape a = shape(x);
    const auto batch_dims = static_cast<std::ptrdiff_t>(a.size()) - 2;
    TensorId other = find([&](TensorId id) {
      const Shape& b = shape(id);
      return b.size() == a.size() && std::equal(a.begin(), a.begin() + batch_dims, b.begin()) &&
             b.end()[-2] == a.back();
    });
    if (other == kNoIndex) {
      Shape like(a.begin(), a.begin() + batch_dims);
      like.push_back(a.back());
      like.push_back(random_extent(3));
      other = use(new_source(like));
    }
    add(builder_.bmm(module(), x, other), op);
  }

  void add_gather(TensorId x, int op) {
    x = with_rows(x);
    add(builder_.gather(module(), x, new_index(x)), op);
  }

  void add_scatter(TensorId x, int op) {
    x = with_rows(x);
    const TensorId index = new_index(x);
    const int dim = static_cast<int>(shape(x).size()) - 2;
    const TensorId rows = use(new_source(with_dim(shape(x), dim, shape(index).back())));
    add(builder_.scatter(module(), x, index, rows, chance(0.3)), op);
  }

  TensorId with_rows(TensorId x) {
    if (shape(x).size() > 1) return x;
    const Shape to = random_extents(num_elements(shape(x)), 2);
    return builder_.view(module(), x, to);
  }

  TensorId new_index(TensorId x) {
    Shape like = shape(x);
    like.pop_back();
    for (std::int64_t& extent : like) {
      if (chance(0.2)) extent = 1;
    }
    like.back() = random_extent(3);
    return builder_.input(numbered('i', sources_++), like, DType::kInt64);
  }

  TensorId image_of(TensorId x) {
    if (shape(x).size() == 4) return x;
    const Shape to = random_extents(num_elements(shape(x)), 4);
    return builder_.view(module(), x, to);
  }

  struct Windows {
    HeightWidth window, stride, padding;
  };
  Windows random_windows(const Shape& image) {
    const HeightWidth stride{draw(1, 2), draw(1, 2)}, padding{draw(0, 1), draw(0, 1)};
    const auto size = [&](int dim, std::int32_t pad) {
      const auto most = static_cast<int>(image.begin()[dim]) + 2 * pad;
      return draw(std::min(most, std::max(1, 2 * pad)), std::min(most, 3));
    };
    return {{size(2, padding.height), size(3, padding.width)}, stride, padding};
  }

  void add_convolution(TensorId x, int op) {
    const Shape image = shape(x);
    const auto [window, stride, padding] = random_windows(image);
    ConvolutionShape convolution{window, stride, padding, {}, 1, chance(0.5)};
    const auto covers = [&](int dim, std::int32_t extent, std::int32_t pad) {
      return 2 * (extent - 1) + 1 <= image.begin()[dim] + 2 * pad ? draw(1, 2) : 1;
    };
    convolution.dilation = {covers(2, window.height, padding.height),
                            covers(3, window.width, padding.width)};
    convolution.groups = chance(0.3) ? random_divisor(image[1]) : 1;
    const std::int64_t out = convolution.groups * random_extent(3);
    add(builder_.conv2d(module(), x, out, convolution), op);
  }

  void add_transposed(TensorId x, int op) {
    ConvolutionShape convolution{.window = {draw(1, 3), draw(1, 3)},
                                 .stride = {draw(1, 2), draw(1, 2)},
                                 .dilation = {draw(1, 2), draw(1, 2)},
                                 .bias = chance(0.5)};
    const auto [window, stride, padding, dilation, groups, bias] = convolution;
    // No more padding than what a window of one element would be left of.
    convolution.padding = {draw(0, std::min(1, dilation.height * (window.height - 1) / 2)),
                           draw(0, std::min(1, dilation.width * (window.width - 1) / 2))};
    const HeightWidth extra{draw(0, std::max(stride.height, dilation.height) - 1),
                            draw(0, std::max(stride.width, dilation.width) - 1)};
    convolution.groups = chance(0.3) ? random_divisor(shape(x)[1]) : 1;
    const std::int64_t out = convolution.groups * random_extent(3);
    add(builder_.conv_transpose2d(module(), x, out, convolution, extra), op);
  }

  /// Ops of tensors of their own, which all have gradients.
  void add_state_space(OpKind kind, int op) {
    if (kind == OpKind::kChunkScan) return add_scan(op);
    const Shape tokens = {draw(1, 3), draw(1, 7), random_extent(4)};
    const TensorId x = small(use(new_parameter(tokens)));
    add(builder_.causal_conv1d(module(), x, draw(1, 4)), op);
  }

  /// Sequences of one to three chunks, or of one that is shorter than it may be.
  void add_scan(int op) {
    StateSpaceShape space;
    space.groups = draw(1, 2), space.heads = space.groups * draw(1, 3);
    space.head_dim = draw(1, 4), space.states = draw(1, 4), space.chunk = draw(1, 4);
    const std::int64_t batch = draw(1, 2), length = space.chunk * draw(1, 3);
    const auto of_tokens = [&](std::int64_t width) {
      return small(use(new_parameter({batch, length, width})));
    };
    const std::int64_t read = std::int64_t{space.groups} * space.states;
    if (chance(0.2)) space.chunk += static_cast<std::int32_t>(length);
    const auto of_heads = [&] { return use(new_parameter({space.heads})); };
    const TensorId x = of_tokens(std::int64_t{space.heads} * space.head_dim);
    const TensorId dt = of_tokens(space.heads), b = of_tokens(read), c = of_tokens(read);
    const TensorId a_log = of_heads(), bias = of_heads(), d = of_heads();
    add(builder_.chunk_scan(module(), {x, dt, b, c, a_log, bias, d}, space), op);
  }

  void add_pool(OpKind kind, TensorId x, int op) {
    const auto [window, stride, padding] = random_windows(shape(x));
    const PoolShape pool{window, stride, padding};
    const bool largest = kind == OpKind::kMaxPool2d;
    add(largest ? builder_.max_pool2d(module(), x, pool) : builder_.avg_pool2d(module(), x, pool),
        op);
  }

  void add_image_op(OpKind kind, TensorId x, int op) {
    const Shape image = shape(x);
    if (kind == OpKind::kInterpolate2d) {
      const auto size = [&](std::int64_t extent) { return draw(1, 2 * static_cast<int>(extent)); };
      const HeightWidth to{size(image[2]), size(image[3])};
      const bool bilinear = chance(0.6);
      add(builder_.interpolate2d(module(), x, to, bilinear, bilinear && chance(0.5)), op);
    } else if (kind == OpKind::kGroupNorm) {
      add(builder_.group_norm(module(), x, random_divisor(image[1])), op);
    } else {
      const std::int64_t samples = chance(0.5) ? 0 : random_divisor(image[0]);
      add(builder_.batch_norm(module(), x, samples), op);
    }
  }

  Graph finish() {
    TensorId loss = kNoIndex;
    const std::size_t all = pool_.size();
    for (std::size_t i = 0; i < all || loss == kNoIndex; ++i) {
      if (i == all) new_parameter(random_shape());
      if (!is_left_over(pool_[i])) continue;
      const TensorId x = use(pool_[i].id);
      TensorId target = find([&](TensorId id) { return shape(id) == shape(x); });
      if (target == kNoIndex) target = use(new_source(shape(x)));
      const OpKind kind = chance(0.3) ? OpKind::kBce : OpKind::kMse;
      const bool bce = options_.only.value_or(kind) == OpKind::kBce;
      const TensorId one =
          bce ? builder_.bce(module(), x, target) : builder_.mse(module(), x, target);
      loss = loss == kNoIndex ? one : builder_.add(module(), loss, one);
    }
    return builder_.finish(loss);
  }

  int num_ops_ = 0;
};

}  // namespace

Graph random_graph(std::uint64_t seed, const RandomGraph& options) {
  return Generator(seed, options).run();
}

}  // namespace trainyard
