#include "tests/real/exec/whereabouts_run.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "real/exec/device.h"
#include "real/exec/rank_executor.h"
#include "tests/real/loopback_run.h"

namespace trainyard {

namespace {

/// As a GPU: the host hears of what is behind the norm that it has waited for only when it waits
/// for the step. An event that this step has not recorded yet has happened, as one of the last step
/// has.
class LateDevice final : public Device {
 public:
  LateDevice(std::unique_ptr<Device> device, std::vector<Place>& places, std::mutex& mutex)
      : device_(std::move(device)),
        places_(places),
        mutex_(mutex) {}
  void watch(RankExecutor& executor) { executor_ = &executor; }

  at::Device where() const override { return device_->where(); }
  bool immediate() const override { return device_->immediate(); }
  void begin_step(std::size_t num_events, bool timed) override {
    late_.clear();
    is_late_ = false;
    device_->begin_step(num_events, timed);
  }
  void launch(const ProgramOp& op, std::function<void()> work) override {
    device_->launch(op, std::move(work));
  }
  void wait(StreamId stream, EventId event) override { device_->wait(stream, event); }
  void record(StreamId stream, EventId event) override {
    device_->record(stream, event);
    if (is_late_) late_.push_back(event);
  }
  bool happened(EventId event) override {
    return std::find(late_.begin(), late_.end(), event) == late_.end() && device_->happened(event);
  }
  void finish(StreamId stream, const std::function<void()>& while_waiting) override {
    while_waiting();
    device_->finish(stream, while_waiting);
    is_late_ = true;
  }
  void end_step(const std::function<void()>& while_waiting) override {
    device_->end_step([] {});  // what came before the norm has ended
    while_waiting();
    if (late_.empty()) return;
    const IssueOrder& order = executor_->plan().order();
    const auto first = std::find_if(order.ops.begin(), order.ops.end(),
                                    [&](const IssuedOp& op) { return op.event == late_.front(); });
    const auto after =
        std::upper_bound(order.first_op.begin(), order.first_op.end(), first - order.ops.begin());
    const std::lock_guard lock(mutex_);
    places_.push_back({executor_->whereabouts().call,
                       static_cast<std::int32_t>(after - order.first_op.begin() - 1)});
    late_.clear();
  }
  TimeSpan span(std::size_t launch) const override { return device_->span(launch); }
  at::Tensor host_number() override { return device_->host_number(); }

 private:
  std::unique_ptr<Device> device_;
  std::vector<Place>& places_;
  std::mutex& mutex_;
  RankExecutor* executor_ = nullptr;
  std::vector<EventId> late_;  // of ops that have not ended, in the order of issue
  bool is_late_ = false;
};

}  // namespace

std::vector<Place> places_of_late_devices(const std::string& yaml,
                                          const std::vector<std::string>& sets, int steps) {
  std::mutex mutex;
  std::vector<Place> places;
  std::vector<LateDevice*> devices(2);
  LoopbackOptions options;
  options.steps = steps;
  options.device = [&](std::int64_t rank, std::unique_ptr<Device> device) {
    auto late = std::make_unique<LateDevice>(std::move(device), places, mutex);
    devices[static_cast<std::size_t>(rank)] = late.get();
    return late;
  };
  options.ready = [&](std::int64_t rank, RankExecutor& executor) {
    devices[static_cast<std::size_t>(rank)]->watch(executor);
  };
  run_loopback(yaml, sets, options);
  return places;
}

}  // namespace trainyard
