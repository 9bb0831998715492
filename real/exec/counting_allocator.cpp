#include "real/exec/counting_allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <mutex>
#include <unordered_map>

namespace trainyard {

namespace {

struct Counts {
  std::mutex mutex;
  std::unordered_map<void*, std::int64_t> sizes;
  std::int64_t live = 0, peak = 0;
};

Counts& counts() {
  static Counts* const kCounts = new Counts;  // outlives every tensor
  return *kCounts;
}

/// Bytes of one thread: allocated less freed, and the most of it.
struct ThreadCounts {
  std::int64_t live = 0, peak = 0;
};
thread_local ThreadCounts thread_counts;

void count_for_thread(std::int64_t bytes) {
  thread_counts.live += bytes;
  thread_counts.peak = std::max(thread_counts.peak, thread_counts.live);
}

/// The allocator in use before counting began; of the process, as LibTorch's is.
c10::Allocator* usual = nullptr;

/// Hands out what the usual allocator hands out. Its tensors are freed by a function that finds the
/// size by the address: LibTorch wants the address itself as the context.
class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t size) override {
    void* const data = usual->raw_allocate(size);
    if (data != nullptr) {
      Counts& all = counts();
      const std::lock_guard lock(all.mutex);
      all.sizes[data] = static_cast<std::int64_t>(size);
      all.live += static_cast<std::int64_t>(size);
      all.peak = std::max(all.peak, all.live);
      count_for_thread(static_cast<std::int64_t>(size));
    }
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t size) const override {
    default_copy_data(to, from, size);
  }

 private:
  static void release(void* data) {
    if (data == nullptr) return;
    {
      Counts& all = counts();
      const std::lock_guard lock(all.mutex);
      const auto known = all.sizes.find(data);
      all.live -= known->second;
      count_for_thread(-known->second);
      all.sizes.erase(known);
    }
    usual->raw_deallocate(data);
  }
};

}  // namespace

void count_cpu_allocations() {
  static CountingAllocator allocator;
  if (usual != nullptr) return;
  usual = c10::GetCPUAllocator();
  c10::SetCPUAllocator(&allocator, /*priority=*/1);
}

std::int64_t live_cpu_bytes() {
  const std::lock_guard lock(counts().mutex);
  return counts().live;
}

void begin_cpu_peak() {
  const std::lock_guard lock(counts().mutex);
  counts().peak = counts().live;
}

std::int64_t peak_cpu_bytes() {
  const std::lock_guard lock(counts().mutex);
  return counts().peak;
}

void begin_thread_peak() { thread_counts.peak = thread_counts.live; }

std::int64_t thread_peak_over_now() { return thread_counts.peak - thread_counts.live; }

}  // namespace trainyard
