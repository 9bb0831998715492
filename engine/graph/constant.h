// What the constants of a graph hold: masks, tables of indices or angles that a model computes for
// itself, numbers that a file has. A graph and what is compiled from it know them by name alone;
// whoever trains asks for the numbers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

namespace trainyard {

class ConstantContent {
 public:
  virtual ~ConstantContent() = default;

  /// Writes all elements of a constant of integers, row by row, as many as its tensor has. May be
  /// called from several threads at once.
  virtual void fill(std::span<std::int64_t> out) const = 0;
  /// The same of a constant of real numbers.
  virtual void fill(std::span<double> out) const = 0;
};

using Constant = std::shared_ptr<const ConstantContent>;

/// What a function writes when it is asked; the tensor is of integers, or of real numbers.
Constant integer_constant(std::function<void(std::span<std::int64_t>)> make);
Constant real_constant(std::function<void(std::span<double>)> make);

}  // namespace trainyard
