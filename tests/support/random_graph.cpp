#include "tests/support/random_graph.h"

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <vector>

#include "engine/graph/general_shapes.h"
#include "engine/graph/graph_builder.h"

namespace trainyard {

namespace {

constexpr std::int64_t kMostElements = 192, kMostEvenElements = 4096;
constexpr std::size_t kMostRank = 6;

class Generator {
 public:
  Generator(std::uint64_t seed, const RandomGraph& options) : random_(seed), options_(options) {
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
      add_op(options_.only.value_or(options_.images && chance(0.5) ? one_of(kImageKinds)
                                                                   : one_of(kKinds)));
    }
    builder_.set_layer(-1);
    return finish();
  }

 private:
  static constexpr std::array kKinds = {
      OpKind::kView,   OpKind::kPieces, OpKind::kPermute, OpKind::kRoll,  OpKind::kSplit,
      OpKind::kNarrow, OpKind::kConcat, OpKind::kAdd,     OpKind::kMul,   OpKind::kSum,
      OpKind::kBmm,    OpKind::kTanh,   OpKind::kGelu,    OpKind::kLinear};

  static constexpr std::array kImageKinds = {OpKind::kConv2d, OpKind::kMaxPool2d,
                                             OpKind::kAvgPool2d, OpKind::kBatchNormalize};
  template <typename Kinds>
  OpKind one_of(const Kinds& kinds) {
    return kinds[static_cast<std::size_t>(draw(0, static_cast<int>(kinds.size()) - 1))];
  }

  struct Source {
    TensorId id;
    int op;  // which made it; -1: an input, -2: a parameter
    bool read = false;
  };

  int draw(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool chance(double p) { return std::bernoulli_distribution(p)(random_); }
  static std::string numbered(char letter, int number) {
    std::string name(1, letter);
    return name.append(std::to_string(number));
  }
  std::string module() { return numbered('m', modules_++); }
  const Shape& shape(TensorId id) const { return builder_.shape(id); }
  int random_dim(TensorId id) { return draw(0, static_cast<int>(shape(id).size()) - 1); }

  Shape random_shape() {
    Shape out;
    const int rank = draw(1, 4);
    for (int d = 0; d < rank; ++d) out.push_back(random_extent(4));
    return out;
  }
  /// Up to `most`; an even one up to three times as large.
  int random_extent(int most) {
    constexpr std::array kEven = {2, 4, 6, 8, 12};
    return options_.even ? kEven[static_cast<std::size_t>(draw(0, most))] : draw(1, most);
  }
  std::int64_t most_elements() const { return options_.even ? kMostEvenElements : kMostElements; }

  TensorId add(TensorId id, int op) {
    pool_.push_back({id, op});
    return id;
  }
  TensorId new_input(const Shape& extents) {
    return add(builder_.input("input" + std::to_string(sources_++), extents, DType::kFp64), -1);
  }
  TensorId new_parameter(const Shape& extents) {
    return add(builder_.parameter(numbered('w', sources_++), extents), -2);
  }
  TensorId new_source(const Shape& extents) {
    return chance(0.6) ? new_parameter(extents) : new_input(extents);
  }

  TensorId use(TensorId id) {
    for (Source& source : pool_) {
      if (source.id == id) source.read = true;
    }
    return id;
  }
  /// Half of the time one of the latest.
  TensorId pick() {
    const int last = static_cast<int>(pool_.size()) - 1;
    const int at = chance(0.5) ? draw(std::max(0, last - 2), last) : draw(0, last);
    return use(pool_[static_cast<std::size_t>(at)].id);
  }
  /// One of those that `suits` takes; kNoIndex: none is there, or this time another is wanted.
  template <typename Suits>
  TensorId find(const Suits& suits) {
    std::vector<TensorId> found;
    for (const Source& source : pool_) {
      if (suits(source.id)) found.push_back(source.id);
    }
    if (found.empty() || chance(0.3)) return kNoIndex;
    return use(found[static_cast<std::size_t>(draw(0, static_cast<int>(found.size()) - 1))]);
  }

  std::int64_t random_divisor(std::int64_t n) {
    std::vector<std::int64_t> divisors;
    for (std::int64_t d = 1; d <= n; ++d) {
      if (n % d == 0) divisors.push_back(d);
    }
    return divisors[static_cast<std::size_t>(draw(0, static_cast<int>(divisors.size()) - 1))];
  }
  /// Extents of `rank` dims with so many elements.
  Shape random_extents(std::int64_t elements, int rank) {
    Shape out;
    for (int d = 1; d < rank; ++d) {
      out.push_back(random_divisor(elements));
      elements /= out.back();
    }
    out.push_back(elements);
    return out;
  }

  void add_op(OpKind kind) {
    const int op = num_ops_++;
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
      case OpKind::kRoll: add(builder_.roll(module(), x, random_dim(x)), op); break;
      case OpKind::kSplit: add_split(x, op); break;
      case OpKind::kNarrow: add_narrow(x, op); break;
      case OpKind::kConcat: add_concat(x, op); break;
      case OpKind::kAdd:
      case OpKind::kMul: add_broadcast(kind, x, op); break;
      case OpKind::kSum: add_sum(x, op); break;
      case OpKind::kBmm: add_bmm(x, op); break;
      case OpKind::kConv2d:
      case OpKind::kMaxPool2d:
      case OpKind::kAvgPool2d:
      case OpKind::kBatchNormalize: add_image_op(kind, image_of(x), op); break;
      case OpKind::kLinear:
        add(builder_.linear(module(), x, random_extent(4), chance(0.5), SplitHint::kNone), op);
        break;
      default: add(builder_.activation(module(), kind, x), op); break;
    }
  }

  /// Some of a dim's indices: an even number of them where that is asked for, and they are even.
  int random_part(int extent) {
    return options_.even && extent % 2 == 0 ? 2 * draw(1, extent / 2) : draw(1, extent);
  }

  DimList random_order(TensorId x) {
    std::vector<int> dims;
    for (int d = 0; d < std::ssize(shape(x)); ++d) dims.push_back(d);
    std::shuffle(dims.begin(), dims.end(), random_);
    DimList out;
    for (const int dim : dims) out.push_back(dim);
    return out;
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

  void add_broadcast(OpKind kind, TensorId x, int op) {
    TensorId other = find([&](TensorId id) {
      const auto both = broadcast_shape(shape(x), shape(id));
      return both && num_elements(*both) <= most_elements();
    });
    if (other == kNoIndex) {
      Shape like = shape(x);
      for (std::int64_t& extent : like) {
        if (chance(0.4)) extent = extent == 1 ? random_extent(3) : 1;
      }
      while (like.size() > 1 && chance(0.3)) like.erase(like.begin());
      other = use(new_source(like));
    }
    if (chance(0.5)) std::swap(x, other);
    add(kind == OpKind::kAdd ? builder_.add(module(), x, other) : builder_.mul(module(), x, other),
        op);
  }

  void add_sum(TensorId x, int op) {
    DimList dims = random_order(x), some;
    const int count = draw(1, static_cast<int>(dims.size()));
    for (int i = 0; i < count; ++i) some.push_back(dims[static_cast<std::size_t>(i)]);
    add(builder_.sum(module(), x, some, chance(0.5)), op);
  }

  void add_bmm(TensorId x, int op) {
    if (shape(x).size() != 3) {
      const Shape to = random_extents(num_elements(shape(x)), 3);
      x = builder_.view(module(), x, to);
    }
    const Shape a = shape(x);
    TensorId other = find([&](TensorId id) {
      const Shape& b = shape(id);
      return b.size() == 3 && b[0] == a[0] && b[1] == a[2];
    });
    if (other == kNoIndex) other = use(new_source({a[0], a[2], random_extent(3)}));
    add(builder_.bmm(module(), x, other), op);
  }

  TensorId image_of(TensorId x) {
    if (shape(x).size() == 4) return x;
    const Shape to = random_extents(num_elements(shape(x)), 4);
    return builder_.view(module(), x, to);
  }

  void add_image_op(OpKind kind, TensorId x, int op) {
    const Shape image = shape(x);
    const auto size = [&](int dim, std::int32_t padding) {
      const auto most = static_cast<int>(image.begin()[dim]) + 2 * padding;
      return draw(std::min(most, std::max(1, 2 * padding)), std::min(most, 3));
    };
    const HeightWidth stride{draw(1, 2), draw(1, 2)}, padding{draw(0, 1), draw(0, 1)};
    const HeightWidth window{size(2, padding.height), size(3, padding.width)};
    if (kind == OpKind::kConv2d) {
      ConvolutionShape convolution{window, stride, padding, {}, 1, chance(0.5)};
      const auto covers = [&](int dim, std::int32_t extent, std::int32_t pad) {
        return 2 * (extent - 1) + 1 <= image.begin()[dim] + 2 * pad ? draw(1, 2) : 1;
      };
      convolution.dilation = {covers(2, window.height, padding.height),
                              covers(3, window.width, padding.width)};
      convolution.groups = chance(0.3) ? random_divisor(image[1]) : 1;
      const std::int64_t out = convolution.groups * random_extent(3);
      add(builder_.conv2d(module(), x, out, convolution), op);
    } else if (kind == OpKind::kMaxPool2d) {
      add(builder_.max_pool2d(module(), x, {window, stride, padding}), op);
    } else if (kind == OpKind::kAvgPool2d) {
      add(builder_.avg_pool2d(module(), x, {window, stride, padding}), op);
    } else {
      const std::int64_t samples = chance(0.5) ? 0 : random_divisor(image[0]);
      add(builder_.batch_norm(module(), x, samples), op);
    }
  }

  /// Whether nothing reads what its op has made, or the parameter.
  bool is_left_over(const Source& source) const {
    if (source.op == -1) return false;
    if (source.op == -2) return !source.read;
    return std::none_of(pool_.begin(), pool_.end(),
                        [&](const Source& other) { return other.op == source.op && other.read; });
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
      const TensorId one = builder_.mse(module(), x, target);
      loss = loss == kNoIndex ? one : builder_.add(module(), loss, one);
    }
    return builder_.finish(loss);
  }

  std::mt19937_64 random_;
  RandomGraph options_;
  GraphBuilder builder_{"random", DType::kFp64};
  std::vector<Source> pool_;
  int modules_ = 0, sources_ = 0, num_ops_ = 0;
};

}  // namespace

Graph random_graph(std::uint64_t seed, const RandomGraph& options) {
  return Generator(seed, options).run();
}

}  // namespace trainyard
