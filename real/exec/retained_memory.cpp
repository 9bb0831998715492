#include "real/exec/retained_memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <unordered_map>

#include "engine/base/error.h"

namespace trainyard {

namespace {

constexpr std::size_t kSmallest = 64 * 1024;  // below, the C library does well
constexpr std::size_t kPage = 4096;

struct Block {
  void* data = nullptr;
  std::uint64_t freed = 0;  // when, in frees
};

class Blocks {
 public:
  void* take(std::size_t size) {
    const std::lock_guard lock(mutex_);
    std::size_t bytes = (size + kPage - 1) / kPage * kPage;
    // A block somewhat larger than needed is taken too.
    const auto fit = kept_.lower_bound(bytes);
    const bool fits = fit != kept_.end() && fit->first <= bytes + bytes / 8;
    if (fits) bytes = fit->first;
    counts_.live += static_cast<std::int64_t>(bytes);
    counts_.live_peak = std::max(counts_.live_peak, counts_.live);
    void* data = nullptr;
    if (fits) {
      data = fit->second.data;
      kept_.erase(fit);
    } else {
      make_room(bytes);
      data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (data == MAP_FAILED) {
        counts_.live -= static_cast<std::int64_t>(bytes);
        throw BackendError("out of memory: " + std::to_string(bytes) + " bytes for a tensor");
      }
      counts_.mapped += static_cast<std::int64_t>(bytes);
      counts_.mapped_peak = std::max(counts_.mapped_peak, counts_.mapped);
    }
    sizes_[data] = bytes;
    return data;
  }

  /// False: not a block of ours.
  bool give_back(void* data) {
    const std::lock_guard lock(mutex_);
    const auto known = sizes_.find(data);
    if (known == sizes_.end()) return false;
    counts_.live -= static_cast<std::int64_t>(known->second);
    kept_.emplace(known->second, Block{data, ++num_frees_});
    sizes_.erase(known);
    return true;
  }

  RetainedMemory counts() {
    const std::lock_guard lock(mutex_);
    return counts_;
  }

 private:
  /// Unmaps what has waited longest until `bytes` more are within a sixth of what tensors need.
  void make_room(std::size_t bytes) {
    const std::int64_t most = counts_.live_peak + counts_.live_peak / 6;
    while (counts_.mapped + static_cast<std::int64_t>(bytes) > most && !kept_.empty()) {
      const auto oldest = std::min_element(
          kept_.begin(), kept_.end(),
          [](const auto& a, const auto& b) { return a.second.freed < b.second.freed; });
      munmap(oldest->second.data, oldest->first);
      counts_.mapped -= static_cast<std::int64_t>(oldest->first);
      kept_.erase(oldest);
    }
  }

  std::mutex mutex_;
  std::unordered_map<void*, std::size_t> sizes_;  // of live blocks
  std::multimap<std::size_t, Block> kept_;        // by size
  std::uint64_t num_frees_ = 0;
  RetainedMemory counts_;
};

Blocks& blocks() {
  static Blocks* const kBlocks = new Blocks;  // outlives every tensor
  return *kBlocks;
}

class RetainingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t size) override {
    void* const data =
        size < kSmallest ? c10::GetDefaultCPUAllocator()->raw_allocate(size) : blocks().take(size);
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t size) const override {
    default_copy_data(to, from, size);
  }

 private:
  static void release(void* data) {
    if (data == nullptr || blocks().give_back(data)) return;
    c10::GetDefaultCPUAllocator()->raw_deallocate(data);
  }
};

}  // namespace

void retain_cpu_memory() {
  static RetainingAllocator allocator;
  c10::SetCPUAllocator(&allocator, /*priority=*/1);
}

RetainedMemory retained_memory() { return blocks().counts(); }

}  // namespace trainyard
