#include "tests/real/threads/touched_run.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "engine/base/philox.h"
#include "real/exec/device.h"
#include "real/exec/rank_executor.h"
#include "real/exec/retained_memory.h"
#include "real/launch/heartbeats.h"

namespace trainyard {

namespace {

/// The elements of a tensor, without a share in its storage.
struct Elements {
  char* data = nullptr;
  std::int64_t size = 1;  // of an element
  std::vector<std::int64_t> sizes, strides;
};

Elements elements_of(const at::Tensor& tensor) {
  return {static_cast<char*>(const_cast<void*>(tensor.const_data_ptr())), tensor.element_size(),
          tensor.sizes().vec(), tensor.strides().vec()};
}

template <typename Word>
void touch_word(char* data, bool writes) {
  auto* word = reinterpret_cast<volatile Word*>(data);
  const Word value = *word;
  if (writes) *word = value;
}

void touch(const Elements& all, bool writes, char* data, std::size_t dim = 0) {
  if (dim == all.sizes.size()) {
    switch (all.size) {
      case 1: return touch_word<std::uint8_t>(data, writes);
      case 2: return touch_word<std::uint16_t>(data, writes);
      case 4: return touch_word<std::uint32_t>(data, writes);
      default: return touch_word<std::uint64_t>(data, writes);
    }
  }
  for (std::int64_t i = 0; i < all.sizes[dim]; ++i) {
    touch(all, writes, data + i * all.strides[dim] * all.size, dim + 1);
  }
}

struct Access {
  Elements elements;
  bool writes;
};

void touch(const std::vector<Access>& accesses) {
  for (const Access& one : accesses) touch(one.elements, one.writes, one.elements.data);
}

constexpr auto kTimeout = std::chrono::seconds(60);

class TouchingDevice final : public Device {
 public:
  /// `store_port`: where heartbeats go; 0: there are none.
  TouchingDevice(std::unique_ptr<Device> device, const TouchOptions& options, std::int64_t rank,
                 int store_port)
      : device_(std::move(device)),
        options_(options),
        key_{options.seed, static_cast<std::uint32_t>(rank)} {
    if (store_port > 0)
      store_ = std::make_unique<Rendezvous>(RendezvousAddress{.port = store_port}, kTimeout);
  }
  void watch(RankExecutor& executor) { executor_ = &executor; }

  at::Device where() const override { return device_->where(); }
  bool immediate() const override { return device_->immediate(); }
  void begin_step(std::size_t num_events, bool timed) override {
    device_->begin_step(num_events, timed);
    if (!store_) return;
    const RankPlan& plan = executor_->plan();
    heartbeats_ = std::make_unique<HeartbeatSender>(*store_, plan.rank(), plan.program(), plan,
                                                    executor_->whereabouts(), kTimeout, [] {});
  }

  void launch(const ProgramOp& op, std::function<void()> work) override {
    const IssuedOp& issued = executor_->plan().order().ops[executor_->issuing()];
    const bool views =
        op.kind == OpKind::kSplit || op.kind == OpKind::kJoin || op.kind == OpKind::kEnterTensor;
    const bool passed_by = executor_->plan().segment(issued.segment)[issued.op].passed_by;
    if (views || (passed_by && !moves_data(op.kind))) return device_->launch(op, std::move(work));
    std::vector<Access> before, behind;
    add(op.reads, issued, op.kind == OpKind::kFree, before);
    add(op.accumulates, issued, true, before);
    if (op.guard) add(Operands{*op.guard}, issued, false, before);
    if (!moves_data(op.kind)) {
      touch(before);
      device_->launch(op, std::move(work));
      add(op.writes, issued, true, behind);  // results are there now
      touch(behind);
      return;
    }
    add(op.writes, issued, true, behind);
    device_->launch(op, [before = std::move(before), behind = std::move(behind),
                         work = std::move(work), first = delay(), last = delay()] {
      std::this_thread::sleep_for(first);
      touch(before);
      work();
      std::this_thread::sleep_for(last);
      touch(behind);
    });
  }

  void wait(StreamId stream, EventId event) override {
    if (options_.main_waits || stream != StreamId::kMain) device_->wait(stream, event);
  }
  void record(StreamId stream, EventId event) override { device_->record(stream, event); }
  bool happened(EventId event) override { return device_->happened(event); }
  void finish(StreamId stream, const std::function<void()>& while_waiting) override {
    device_->finish(stream, while_waiting);
  }
  void end_step(const std::function<void()>& while_waiting) override {
    device_->end_step(while_waiting);
    heartbeats_.reset();
  }
  TimeSpan span(std::size_t launch) const override { return device_->span(launch); }
  at::Tensor host_number() override { return device_->host_number(); }

 private:
  void add(const Operands& operands, const IssuedOp& issued, bool writes,
           std::vector<Access>& out) {
    for (const Operand& operand : operands) {
      out.push_back(
          {elements_of(executor_->values().tensor(operand.value, issued.mb[operand.slot])),
           writes});
    }
  }
  std::chrono::microseconds delay() {
    const std::uint32_t drawn = philox({number_++, 0, 0, 0}, key_)[0];
    return std::chrono::microseconds(drawn %
                                     static_cast<std::uint32_t>(options_.delay.count() + 1));
  }

  std::unique_ptr<Device> device_;
  const TouchOptions& options_;
  PhiloxKey key_;
  std::uint32_t number_ = 0;  // of delays drawn
  RankExecutor* executor_ = nullptr;
  std::unique_ptr<Rendezvous> store_;
  std::unique_ptr<HeartbeatSender> heartbeats_;
};

/// Where the threads of fill_tensors() leave tensors for each other.
class Exchange {
 public:
  at::Tensor swap(std::size_t place, at::Tensor tensor) {
    const std::lock_guard lock(mutex_);
    std::swap(tensors_[place % tensors_.size()], tensor);
    return tensor;
  }

 private:
  std::mutex mutex_;
  std::array<at::Tensor, 3> tensors_;
};

/// Elements of a tensor that holds one number throughout, which it begins with.
bool is_filled(const at::Tensor& tensor) {
  const auto* data = tensor.const_data_ptr<std::int64_t>();
  return std::all_of(data, data + tensor.numel(), [&](std::int64_t x) { return x == data[0]; });
}

int fill_in_one_thread(Exchange& exchange, std::size_t thread, std::size_t rounds) {
  int spoilt = 0;
  for (std::size_t i = 0; i < rounds; ++i) {
    const auto size = static_cast<std::int64_t>((1 + (thread + i) % 4) << 14U);  // 128 KiB and more
    at::Tensor own = at::empty({size}, at::TensorOptions(at::kLong));
    std::fill_n(own.mutable_data_ptr<std::int64_t>(), size,
                static_cast<std::int64_t>(thread * rounds + i));
    const at::Tensor other = exchange.swap(thread + i, std::move(own));
    if (other.defined() && !is_filled(other)) ++spoilt;
  }
  return spoilt;
}

}  // namespace

TouchedRun run_touched(const std::string& yaml, const std::vector<std::string>& sets,
                       const TouchOptions& touches) {
  retain_cpu_memory();
  constexpr std::size_t kMostRanks = 8;
  std::optional<Rendezvous> store;
  if (touches.heartbeats) store.emplace(RendezvousAddress{.server = true}, kTimeout);
  std::vector<TouchingDevice*> devices(kMostRanks, nullptr);
  LoopbackOptions options;
  options.steps = touches.steps;
  options.device = [&](std::int64_t rank, std::unique_ptr<Device> device) {
    auto touching = std::make_unique<TouchingDevice>(std::move(device), touches, rank,
                                                     store ? store->port() : 0);
    devices[static_cast<std::size_t>(rank)] = touching.get();
    return touching;
  };
  options.ready = [&](std::int64_t rank, RankExecutor& executor) {
    devices[static_cast<std::size_t>(rank)]->watch(executor);
  };
  TouchedRun out;
  out.run = run_loopback(yaml, sets, options);
  if (!store) return out;
  out.heartbeats.resize(static_cast<std::size_t>(out.run.program.mesh.num_ranks()));
  for (const Heartbeat& heartbeat : read_heartbeats(*store, out.run.program.mesh.num_ranks())) {
    out.heartbeats[static_cast<std::size_t>(heartbeat.rank)] = heartbeat.where;
  }
  return out;
}

int fill_tensors(std::size_t threads, std::size_t rounds) {
  retain_cpu_memory();
  Exchange exchange;
  std::atomic<int> spoilt = 0;
  std::vector<std::thread> all;
  all.reserve(threads);
  for (std::size_t thread = 0; thread < threads; ++thread) {
    all.emplace_back([&, thread] { spoilt += fill_in_one_thread(exchange, thread, rounds); });
  }
  for (std::thread& thread : all) thread.join();
  return spoilt;
}

}  // namespace trainyard
