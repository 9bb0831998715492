// The words of trace.json that only we read, shared by writer and reader.
#pragma once

#include <array>
#include <string_view>

#include "engine/memory/memory.h"

namespace trainyard::trace_words {

inline constexpr std::string_view kEvents = "traceEvents";  // the list of all
inline constexpr std::string_view kSegment = "trainyard_segment";
inline constexpr std::string_view kGroup = "trainyard_group";

/// Points of a rank's memory that the file leaves out.
inline constexpr std::string_view kMemoryLeftOut = "memory_points_left_out";

/// Counters; as in summary.json.
inline constexpr IndexedArray<MemoryClass, std::string_view, kNumMemoryClasses> kMemory = {
    "parameters", "gradients", "optimizer_state", "activations", "buffers"};

}  // namespace trainyard::trace_words
