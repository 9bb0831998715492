// Inputs of samples as the host's memory has them before they lie in a tensor of the device.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "real/data/samples.h"
#include "real/torch.h"

namespace trainyard {

/// An input of samples that follow each other.
struct WantedInput {
  std::string name;
  std::int64_t first = 0;             // sample, counted through the run
  std::vector<std::int64_t> extents;  // of all samples, which are the first dim
  at::ScalarType type = at::kFloat;   // of their numbers on the host

  std::int64_t elements() const;
  std::int64_t bytes() const { return elements() * static_cast<std::int64_t>(itemsize()); }
  bool operator==(const WantedInput&) const = default;

 private:
  std::size_t itemsize() const { return at::elementSize(type); }
};

/// Numbers of `wanted` on the host, to be drawn; `pinned`: in memory that a GPU reads by itself.
at::Tensor host_memory(const WantedInput& wanted, bool pinned);

class InputDrawer {
 public:
  explicit InputDrawer(const Samples& samples) : samples_(samples) {}

  /// The samples [first, ..) of input `name`, for a tensor as `out`: in its own type where samples
  /// have it or are rounded to it, else in that of the samples.
  static WantedInput wanted(const std::string& name, std::int64_t first, const at::Tensor& out);

  /// Writes them at `to`, in at most `threads` threads; leaves off where `given_up` has become
  /// true. Throws what Samples throw. May be called from several threads at once.
  void draw(const WantedInput& wanted, void* to, std::int64_t threads,
            const std::atomic<bool>* given_up = nullptr) const;

 private:
  const Samples& samples_;
};

}  // namespace trainyard
