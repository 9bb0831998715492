#include "tests/real/threads/failing_run.h"

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "engine/base/error.h"
#include "real/exec/communicator.h"
#include "tests/real/loopback_run.h"

namespace trainyard {

namespace {

/// What the two streams of rank 0 know of each other. Outlives the communicators.
class Scene {
 public:
  bool is_busy() {
    const std::lock_guard lock(mutex_);
    return busy_;
  }
  void fail() {
    {
      const std::lock_guard lock(mutex_);
      failed_ = true;
    }
    changed_.notify_all();
    throw BackendError("no peer");
  }
  /// Until the other stream has failed, and as much longer as a rank needs to end.
  void be_busy() {
    std::unique_lock lock(mutex_);
    busy_ = true;
    changed_.wait_for(lock, std::chrono::seconds(20), [&] { return failed_; });
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    lock.lock();
    busy_ = false;
    out_.was_busy = failed_;
  }
  void destroyed() {
    const std::lock_guard lock(mutex_);
    if (busy_) out_.ended_busy = true;
  }
  FailedRun& out() { return out_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool busy_ = false, failed_ = false;
  FailedRun out_;
};

/// Fails where the other one is busy.
class FailingCommunicator final : public Communicator {
 public:
  FailingCommunicator(std::unique_ptr<Communicator> inner, Scene& scene)
      : inner_(std::move(inner)), scene_(scene) {}
  void all_reduce(at::Tensor& tensor, bool maximum) override { now().all_reduce(tensor, maximum); }
  void all_gather(const at::Tensor& part, at::Tensor& whole) override {
    now().all_gather(part, whole);
  }
  void reduce_scatter(const at::Tensor& whole, at::Tensor& part) override {
    now().reduce_scatter(whole, part);
  }
  void all_to_all(const at::Tensor& from, at::Tensor& to) override { now().all_to_all(from, to); }
  void broadcast(at::Tensor& tensor, int root) override { now().broadcast(tensor, root); }
  void reduce(at::Tensor& tensor, int root) override { now().reduce(tensor, root); }
  void send(const at::Tensor& tensor, int member) override { now().send(tensor, member); }
  void receive(at::Tensor& tensor, int member) override { now().receive(tensor, member); }

 private:
  Communicator& now() {
    if (scene_.is_busy()) scene_.fail();
    return *inner_;
  }
  std::unique_ptr<Communicator> inner_;
  Scene& scene_;
};

/// Moves nothing, and takes its time.
class BusyCommunicator final : public Communicator {
 public:
  explicit BusyCommunicator(Scene& scene) : scene_(scene) {}
  ~BusyCommunicator() override { scene_.destroyed(); }
  void all_reduce(at::Tensor&, bool) override { scene_.be_busy(); }
  void all_gather(const at::Tensor&, at::Tensor&) override { scene_.be_busy(); }
  void reduce_scatter(const at::Tensor&, at::Tensor&) override { scene_.be_busy(); }
  void all_to_all(const at::Tensor&, at::Tensor&) override { scene_.be_busy(); }
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
      : inner_(std::move(inner)), scene_(scene) {}
  std::unique_ptr<Communicator> make(const std::string& name,
                                     const std::vector<std::int64_t>& ranks, int member) override {
    if (name.starts_with("dp")) return std::make_unique<BusyCommunicator>(scene_);
    auto inner = inner_->make(name, ranks, member);
    if (!name.starts_with("tp")) return inner;
    return std::make_unique<FailingCommunicator>(std::move(inner), scene_);
  }

 private:
  std::unique_ptr<Transport> inner_;
  Scene& scene_;
};

}  // namespace

FailedRun run_failing(const std::string& yaml) {
  Scene scene;
  LoopbackOptions options;
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
    scene.out().error = error.what();
  }
  return scene.out();
}

}  // namespace trainyard
