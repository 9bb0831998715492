#include "real/cuda/cuda_device.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <array>
#include <chrono>
#include <thread>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/indexed.h"
#include "engine/base/steady_time.h"
#include "real/cuda/cuda.h"

namespace trainyard {

namespace {

using c10::cuda::CUDAEvent;
using c10::cuda::CUDAStream;

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int index)
      : where_(at::kCUDA, static_cast<c10::DeviceIndex>(index)),
        streams_{make_stream(index, StreamId::kMain),  make_stream(index, StreamId::kTp),
                 make_stream(index, StreamId::kFwd),   make_stream(index, StreamId::kBwd),
                 make_stream(index, StreamId::kDp),    make_stream(index, StreamId::kNorm),
                 make_stream(index, StreamId::kFwdIn), make_stream(index, StreamId::kBwdIn),
                 make_stream(index, StreamId::kD2h),   make_stream(index, StreamId::kH2d),
                 make_stream(index, StreamId::kHost),  make_stream(index, StreamId::kNvmeOut),
                 make_stream(index, StreamId::kNvmeIn)},
        beside_main_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, where_.index())) {
    c10::cuda::set_device(where_.index());
    // Memory is taken from the main stream's share and given back to it: a `free` of the Program is
    // on main.
    c10::cuda::setCurrentCUDAStream(stream(StreamId::kMain));
  }

  at::Device where() const override { return where_; }
  bool immediate() const override { return false; }

  void begin_step(std::size_t num_events, bool timed) override {
    while (events_.size() < num_events) events_.emplace_back(cudaEventDisableTiming);
    launches_ = 0;
    timed_ = timed;
    if (!timed) return;
    // Nothing runs now, so the event and the clock are read together.
    if (times_.empty()) times_.emplace_back(cudaEventDefault);
    times_[0].record(stream(StreamId::kMain));
    times_[0].synchronize();
    begin_ = steady_time();
  }

  void launch(const ProgramOp& op, std::function<void()> work) override {
    const CUDAStream on = stream(op.stream);
    if (timed_) time_event(2 * launches_ + 1).record(on);
    if (op.stream == StreamId::kMain) {
      work();
    } else {
      const c10::cuda::CUDAStreamGuard guard(on);
      work();
    }
    if (timed_) time_event(2 * launches_ + 2).record(on);
    ++launches_;
  }

  /// What the host computes, or copies to its drives and back, runs in the thread that launches it,
  /// which waits itself; nothing is launched on these streams, so that what is recorded there has
  /// happened.
  void wait(StreamId waiting, EventId event) override {
    const bool of_host =
        waiting == StreamId::kHost || waiting == StreamId::kNvmeOut || waiting == StreamId::kNvmeIn;
    if (of_host) return events_[event].synchronize();
    events_[event].block(stream(waiting));
  }
  void record(StreamId on, EventId event) override { events_[event].record(stream(on)); }
  bool happened(EventId event) override { return events_[event].query(); }

  void finish(StreamId id, const std::function<void()>& while_waiting) override {
    int looks = 0;
    wait_for(stream(id), looks, while_waiting);
  }

  void end_step(const std::function<void()>& while_waiting) override {
    int looks = 0;
    for (const CUDAStream& one : streams_) wait_for(one, looks, while_waiting);
  }

  TimeSpan span(std::size_t launch) const override {
    const Seconds start = begin_ + elapsed(2 * launch + 1);
    return {start, start, begin_ + elapsed(2 * launch + 2)};
  }

  at::Tensor empty_beside_main(c10::IntArrayRef shape, const at::TensorOptions& options) override {
    const c10::cuda::CUDAStreamGuard guard(beside_main_);
    return at::empty(shape, options);
  }

  at::Tensor host_number() override {
    return at::zeros({}, at::TensorOptions(at::kDouble).pinned_memory(true));
  }

 private:
  static CUDAStream make_stream(int index, StreamId id) {
    // Communication first: whole groups wait for it.
    return c10::cuda::getStreamFromPool(/*isHighPriority=*/id != StreamId::kMain,
                                        static_cast<c10::DeviceIndex>(index));
  }
  static void wait_for(const CUDAStream& one, int& looks,
                       const std::function<void()>& while_waiting) {
    constexpr auto kLook = std::chrono::microseconds(50);
    constexpr int kLooksPerCall = 200;  // of while_waiting
    while (!one.query()) {
      std::this_thread::sleep_for(kLook);
      if (++looks % kLooksPerCall == 0) while_waiting();
    }
  }
  const CUDAStream& stream(StreamId id) const { return streams_[id]; }
  CUDAEvent& time_event(std::size_t i) {
    while (times_.size() <= i) times_.emplace_back(cudaEventDefault);
    return times_[i];
  }
  Seconds elapsed(std::size_t i) const {
    constexpr Seconds kMillisecond = 1e-3;
    return times_[0].elapsed_time(times_[i]) * kMillisecond;
  }

  at::Device where_;
  IndexedArray<StreamId, CUDAStream, kNumStreams> streams_;
  CUDAStream beside_main_;  // nothing is launched on it: the allocator's share of its name
  Numbered<CUDAEvent> events_;
  std::vector<CUDAEvent> times_;  // of the step's begin, then of begin and end of each launch
  Seconds begin_ = 0;
  std::size_t launches_ = 0;
  bool timed_ = false;
};

}  // namespace

int num_cuda_devices() { return c10::cuda::device_count(); }

std::string why_no_cuda() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  return error == cudaSuccess && count > 0 ? "" : std::string("CUDA: ") + cudaGetErrorString(error);
}

std::int64_t free_cuda_bytes(at::Device device) {
  const c10::cuda::CUDAGuard guard(device);
  std::size_t free = 0, total = 0;
  C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return static_cast<std::int64_t>(free);
}

void begin_cuda_peak(at::Device device) {
  c10::cuda::CUDACachingAllocator::resetPeakStats(device.index());
}

std::int64_t peak_cuda_bytes(at::Device device) {
  constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return c10::cuda::CUDACachingAllocator::getDeviceStats(device.index()).allocated_bytes[kAll].peak;
}

std::string cuda_device_name(int index) {
  cudaDeviceProp properties{};
  C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, index));
  return properties.name;
}

std::int64_t cuda_device_memory(int index) {
  cudaDeviceProp properties{};
  C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, index));
  return static_cast<std::int64_t>(properties.totalGlobalMem);
}

void wait_for_current_stream() { c10::cuda::getCurrentCUDAStream().synchronize(); }

int cuda_capability(at::Device device) {
  int major = 0, minor = 0;
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device.index()));
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device.index()));
  return 10 * major + minor;
}

std::unique_ptr<Device> make_cuda_device(int index) {
  if (index >= num_cuda_devices()) {
    throw BackendError("GPU " + std::to_string(index) + " is not there: this process sees " +
                       std::to_string(num_cuda_devices()) +
                       (num_cuda_devices() == 0 ? " (" + why_no_cuda() + ")" : ""));
  }
  return std::make_unique<CudaDevice>(index);
}

}  // namespace trainyard
