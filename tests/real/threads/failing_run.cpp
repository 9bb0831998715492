#include "tests/real/threads/failing_run.h"

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

#include "engine/base/error.h"
#include "real/exec/communicator.h"
#include "real/exec/host_device.h"
#include "tests/real/loopback_run.h"

namespace trainyard {

namespace {

/// What the two streams and the host of rank 0 know of each other. Outlives the communicators.
class Scene {
 public:
  /// Called by the tensor-parallel stream: fails once the other is busy.
  [[noreturn]] void fail() {
    std::unique_lock lock(mutex_);
    const bool busy = changed_.wait_for(lock, kPatience, [&] { return busy_; });
    out_.was_busy = busy;
    throw BackendError(busy ? "no peer" : "the gradients' stream has not begun to reduce a bucket");
  }
  /// Called by the gradients' stream.
  void be_busy() {
    std::unique_lock lock(mutex_);
    busy_ = true;
    changed_.notify_all();
    if (!changed_.wait_for(lock, kPatience, [&] { return let_go_; })) {
      out_.error = "nothing has told the gradients' stream to let go of its bucket";
    }
    busy_ = false;
  }
  /// Called by the host, which has met the failure and waits for the other streams.
  void let_go() {
    const std::lock_guard lock(mutex_);
    let_go_ = true;
    changed_.notify_all();
  }
  void destroyed() {
    const std::lock_guard lock(mutex_);
    if (busy_) out_.ended_busy = true;
    let_go_ = true;  // so that its thread ends
    changed_.notify_all();
  }
  FailedRun& out() { return out_; }

 private:
  static constexpr auto kPatience = std::chrono::seconds(50);
  std::mutex mutex_;
  std::condition_variable changed_;
  bool busy_ = false, let_go_ = false;
  FailedRun out_;
};

/// The first tensor-parallel transfer behind the first reduction of a bucket fails.
class FailingDevice final : public HostDevice {
 public:
  explicit FailingDevice(Scene& scene) : scene_(scene) {}
  void launch(const ProgramOp& op, std::function<void()> work) override {
    if (op.stream == StreamId::kDp) reduces_ = true;
    const bool fails = reduces_ && op.stream == StreamId::kTp;
    HostDevice::launch(op, fails ? [this] { scene_.fail(); } : std::move(work));
  }
  /// Streams end in the order of StreamId, kTp before kDp: who asks again after the first has
  /// thrown waits for the rest.
  void end_step(const std::function<void()>& while_waiting) override {
    if (failed_) scene_.let_go();
    try {
      HostDevice::end_step(while_waiting);
    } catch (const BackendError&) {
      failed_ = true;
      throw;
    }
  }

 private:
  Scene& scene_;
  bool reduces_ = false, failed_ = false;
};

/// Moves nothing, and takes its time.
class BusyCommunicator final : public Communicator {
 public:
  explicit BusyCommunicator(Scene& scene) : scene_(scene) {}
  ~BusyCommunicator() override { scene_.destroyed(); }
  void all_reduce(at::Tensor&, bool) override { scene_.be_busy(); }
  void all_gather(const at::Tensor&, at::Tensor&) override { scene_.be_busy(); }
  void reduce_scatter(const at::Tensor&, at::Tensor&) override { scene_.be_busy(); }
  void all_to_all(const at::Tensor&, at::Tensor&, const AllToAllCounts&) override {
    scene_.be_busy();
  }
  void broadcast(at::Tensor&, int) override { scene_.be_busy(); }
  void reduce(at::Tensor&, int) override { scene_.be_busy(); }
  void send(const at::Tensor&, int) override { scene_.be_busy(); }
  void receive(at::Tensor&, int) override { scene_.be_busy(); }

 private:
  Scene& scene_;
};

class SceneTransport final : public Transport {
 public:
  SceneTransport(std::unique_ptr<Transport> inner, Scene& scene)
      : inner_(std::move(inner)),
        scene_(scene) {}
  std::unique_ptr<Communicator> make(const std::string& name,
                                     const std::vector<std::int64_t>& ranks, int member) override {
    if (name.starts_with("dp")) return std::make_unique<BusyCommunicator>(scene_);
    return inner_->make(name, ranks, member);
  }

 private:
  std::unique_ptr<Transport> inner_;
  Scene& scene_;
};

}  // namespace

FailedRun run_failing(const std::string& yaml) {
  Scene scene;
  LoopbackOptions options;
  options.device = [&](std::int64_t rank,
                       std::unique_ptr<Device> device) -> std::unique_ptr<Device> {
    if (rank != 0) return device;
    return std::make_unique<FailingDevice>(scene);
  };
  options.transport = [&](std::int64_t rank,
                          std::unique_ptr<Transport> transport) -> std::unique_ptr<Transport> {
    if (rank != 0) return transport;
    return std::make_unique<SceneTransport>(std::move(transport), scene);
  };
  try {
    run_loopback(yaml,
                 {"cluster.ranks=4", "parallel.data=2", "parallel.tensor=2",
                  "training.bucket_elements=4000"},
                 options);
  } catch (const BackendError& error) {
    if (scene.out().error.empty()) scene.out().error = error.what();
  }
  return scene.out();
}

}  // namespace trainyard
