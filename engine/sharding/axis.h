// Labels of the families of axes, which a ShardingSpec is kept by. Axes of the mesh are a
// DeviceMesh's. `axis` is always the mesh's, `dim` always a tensor's.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace trainyard {

enum class Axis : std::uint8_t { kPp, kDp, kCp, kEp, kTp };
inline constexpr int kNumAxes = 5;
inline constexpr std::array<Axis, kNumAxes> kAllAxes = {Axis::kPp, Axis::kDp, Axis::kCp, Axis::kEp,
                                                        Axis::kTp};

constexpr int index(Axis axis) { return static_cast<int>(axis); }

constexpr std::string_view to_string(Axis axis) {
  constexpr std::string_view kNames[] = {"pp", "dp", "cp", "ep", "tp"};
  return kNames[index(axis)];
}

constexpr std::optional<Axis> parse_axis(std::string_view text) {
  for (Axis axis : kAllAxes) {
    if (to_string(axis) == text) return axis;
  }
  return std::nullopt;
}

}  // namespace trainyard
