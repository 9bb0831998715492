// The fastest of the kernels that were timed on a device: what its peak and its memory's bandwidth
// must at least be.
#pragma once

#include <cstddef>
#include <map>
#include <optional>

#include "engine/base/dtype.h"
#include "engine/cost/op_curve.h"

namespace trainyard {

/// A timed kernel may be this much faster than the peak or the bandwidth that its profile states:
/// clocks rise above the nominal one, and figures are rounded.
inline constexpr double kMostOverStated = 1.05;

class FastestKernels {
 public:
  struct One {
    double rate = 0;     // FLOP/s, bytes/s
    std::size_t id = 0;  // as add() was told
  };

  void add(const CurvePoint& point, std::size_t id = 0);

  /// GEMMs and attention, by the type that they multiply.
  const std::map<DType, One>& products() const { return products_; }
  /// Fastest kernel that does nothing but move bytes. Small ones find theirs in caches: those of
  /// less than 4 MiB count only where there are no others. nullopt: none was timed.
  std::optional<One> mover() const;

 private:
  std::map<DType, One> products_;
  std::optional<One> large_mover_, any_mover_;
};

}  // namespace trainyard
