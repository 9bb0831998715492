#include "real/train/input_drawer.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <type_traits>

#include "engine/base/error.h"
#include "engine/base/indexed.h"
#include "real/exec/thread_ranges.h"

namespace trainyard {

namespace {

/// Fills all samples: fill(i, numbers of sample i), which are rounded to Stored.
template <typename Stored, typename Number>
void draw_as(const WantedInput& wanted, void* to, std::int64_t threads,
             const std::atomic<bool>* given_up,
             const std::function<void(std::int64_t, std::span<Number>)>& fill) {
  const std::int64_t samples = wanted.extents[0];
  if (samples == 0) return;
  const std::int64_t each = wanted.elements() / samples;
  Stored* const out = static_cast<Stored*>(to);
  constexpr std::int64_t kLeastNumbers = 1 << 14;  // of a thread
  const std::int64_t least = kLeastNumbers / std::max<std::int64_t>(1, each);
  for_thread_ranges(samples, least, threads, [&](std::int64_t begin, std::int64_t end) {
    Numbered<Number> sample(std::is_same_v<Stored, Number> ? 0 : each);
    for (std::int64_t i = begin; i < end; ++i) {
      if (given_up != nullptr && *given_up) return;
      Stored* const mine = out + i * each;
      if constexpr (std::is_same_v<Stored, Number>) {
        fill(i, {mine, mine + each});
      } else {
        fill(i, std::span<Number>(sample));
        for (std::int64_t k = 0; k < each; ++k) mine[k] = static_cast<Stored>(sample[k]);
      }
    }
  });
}

}  // namespace

std::int64_t WantedInput::elements() const { return c10::multiply_integers(extents); }

at::Tensor host_memory(const WantedInput& wanted, bool pinned) {
  const at::TensorOptions options(wanted.type);
  if (pinned) return at::empty(wanted.extents, options.pinned_memory(true));
  // Not LibTorch's, whose allocator counts values of the Program.
  auto* const memory = new std::byte[wanted.bytes()];
  return at::from_blob(
      memory, wanted.extents, [memory](void*) { delete[] memory; }, options);
}

WantedInput InputDrawer::wanted(const std::string& name, std::int64_t first,
                                const at::Tensor& out) {
  return {name, first, out.sizes().vec(), out.is_floating_point() ? out.scalar_type() : at::kLong};
}

void InputDrawer::draw(const WantedInput& wanted, void* to, std::int64_t threads,
                       const std::atomic<bool>* given_up) const {
  const auto doubles = [&](std::int64_t i, std::span<double> sample) {
    samples_.fill_doubles(wanted.name, wanted.first + i, sample);
  };
  const auto floats = [&](std::int64_t i, std::span<float> sample) {
    samples_.fill_numbers(wanted.name, wanted.first + i, sample);
  };
  const auto whole = [&](std::int64_t i, std::span<std::int64_t> sample) {
    samples_.fill(wanted.name, wanted.first + i, sample);
  };
  switch (wanted.type) {
    case at::kDouble: return draw_as<double, double>(wanted, to, threads, given_up, doubles);
    case at::kFloat: return draw_as<float, float>(wanted, to, threads, given_up, floats);
    case at::kHalf: return draw_as<at::Half, float>(wanted, to, threads, given_up, floats);
    case at::kBFloat16: return draw_as<at::BFloat16, float>(wanted, to, threads, given_up, floats);
    case at::kLong:
      return draw_as<std::int64_t, std::int64_t>(wanted, to, threads, given_up, whole);
    default: bug("inputs of type " + std::string(c10::toString(wanted.type)));
  }
}

}  // namespace trainyard
