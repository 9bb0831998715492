#include "engine/graph/constant.h"

#include <utility>

#include "engine/base/error.h"

namespace trainyard {

namespace {

class IntegerConstant final : public ConstantContent {
 public:
  explicit IntegerConstant(std::function<void(std::span<std::int64_t>)> make)
      : make_(std::move(make)) {}
  void fill(std::span<std::int64_t> out) const override { make_(out); }
  void fill(std::span<double>) const override { bug("a constant of integers as real numbers"); }

 private:
  std::function<void(std::span<std::int64_t>)> make_;
};

class RealConstant final : public ConstantContent {
 public:
  explicit RealConstant(std::function<void(std::span<double>)> make) : make_(std::move(make)) {}
  void fill(std::span<std::int64_t>) const override { bug("a constant of numbers as integers"); }
  void fill(std::span<double> out) const override { make_(out); }

 private:
  std::function<void(std::span<double>)> make_;
};

}  // namespace

Constant integer_constant(std::function<void(std::span<std::int64_t>)> make) {
  return std::make_shared<IntegerConstant>(std::move(make));
}

Constant real_constant(std::function<void(std::span<double>)> make) {
  return std::make_shared<RealConstant>(std::move(make));
}

}  // namespace trainyard
