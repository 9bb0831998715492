// Three figures that people call a run's memory.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "engine/base/indexed.h"

namespace trainyard {

/// allocated: what lives in the framework's allocator at the peak. reserved: and the blocks that it
/// keeps without anything in them. driver: and context, communicators and workspaces, as nvidia-smi
/// shows it.
enum class MemoryKind : std::uint8_t { kAllocated, kReserved, kDriver };
inline constexpr IndexedArray<MemoryKind, std::string_view, 3> kMemoryKindWords = {
    "allocated", "reserved", "driver"};

}  // namespace trainyard
