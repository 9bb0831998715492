// The tensors of a random graph so far, and draws of extents and of tensors among them.
#pragma once

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <vector>

#include "engine/graph/graph_builder.h"
#include "tests/support/random_graph.h"

namespace trainyard {

class RandomTensors {
 protected:
  RandomTensors(std::uint64_t seed, const RandomGraph& options)
      : random_(seed),
        options_(options) {}

  struct Source {
    TensorId id;
    int op;  // which made it; -1: an input, -2: a parameter
    bool read = false;
  };

  int draw(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  /// A number between `low` and `high`, as attributes hold it.
  float number(float low, float high) {
    return std::uniform_real_distribution<float>(low, high)(random_);
  }
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
  /// Up to `most`; where they are to be even, or uneven, up to three times as large.
  int random_extent(int most) {
    constexpr std::array kEven = {2, 4, 6, 8, 12};
    constexpr std::array kUneven = {3, 5, 6, 7, 9};
    if (options_.uneven) return kUneven[static_cast<std::size_t>(draw(0, most))];
    return options_.even ? kEven[static_cast<std::size_t>(draw(0, most))] : draw(1, most);
  }
  std::int64_t most_elements() const { return options_.even || options_.uneven ? 4096 : 192; }

  TensorId add(TensorId id, int op) {
    pool_.push_back({id, op});
    return id;
  }
  TensorId new_input(const Shape& extents) {
    return add(builder_.input("input" + std::to_string(sources_++), extents, options_.type), -1);
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

  /// Whether nothing reads what its op has made, or the parameter.
  bool is_left_over(const Source& source) const {
    if (source.op == -1) return false;
    if (source.op == -2) return !source.read;
    return std::none_of(pool_.begin(), pool_.end(),
                        [&](const Source& other) { return other.op == source.op && other.read; });
  }

  std::mt19937_64 random_;
  RandomGraph options_;
  GraphBuilder builder_{"random", options_.type};
  std::vector<Source> pool_;
  int modules_ = 0, sources_ = 0;
};

}  // namespace trainyard
