#include "tests/real/test_device.h"

#include <ATen/detail/CUDAHooksInterface.h>

#include <cstdlib>
#include <string_view>
#include <utility>

#include "real/cuda/cuda.h"
#include "real/cuda/cuda_device.h"
#include "real/exec/host_device.h"

namespace trainyard {

namespace {

class StagedCommunicator final : public Communicator {
 public:
  explicit StagedCommunicator(std::unique_ptr<Communicator> inner) : inner_(std::move(inner)) {}

  void all_reduce(at::Tensor& tensor, bool maximum) override {
    changed(tensor, [&](at::Tensor& host) { inner_->all_reduce(host, maximum); });
  }
  void all_gather(const at::Tensor& part, at::Tensor& whole) override {
    changed(whole, [&](at::Tensor& host) { inner_->all_gather(part.cpu(), host); });
  }
  void reduce_scatter(const at::Tensor& whole, at::Tensor& part) override {
    changed(part, [&](at::Tensor& host) { inner_->reduce_scatter(whole.cpu(), host); });
  }
  void all_to_all(const at::Tensor& from, at::Tensor& to, const AllToAllCounts& counts) override {
    changed(to, [&](at::Tensor& host) { inner_->all_to_all(from.cpu(), host, counts); });
  }
  void broadcast(at::Tensor& tensor, int root) override {
    changed(tensor, [&](at::Tensor& host) { inner_->broadcast(host, root); });
  }
  void reduce(at::Tensor& tensor, int root) override {
    changed(tensor, [&](at::Tensor& host) { inner_->reduce(host, root); });
  }
  void send(const at::Tensor& tensor, int member) override {
    finish(tensor);
    inner_->send(tensor.cpu(), member);
  }
  void receive(at::Tensor& tensor, int member) override {
    changed(tensor, [&](at::Tensor& host) { inner_->receive(host, member); });
  }
  void check() override { inner_->check(); }
  void abort() override { inner_->abort(); }

 private:
  template <typename Call>
  static void changed(at::Tensor& tensor, const Call& call) {
    finish(tensor);
    at::Tensor host = tensor.cpu();
    call(host);
    if (!tensor.is_cpu()) tensor.copy_(host);
  }
  /// A tensor in the host's memory may have been copied to by the current stream, or be copied
  /// from.
  static void finish(const at::Tensor& tensor) {
    if (tensor.is_cpu()) wait_for_current_stream();
  }
  std::unique_ptr<Communicator> inner_;
};

class StagedTransport final : public Transport {
 public:
  explicit StagedTransport(std::unique_ptr<Transport> inner) : inner_(std::move(inner)) {}
  std::unique_ptr<Communicator> make(const std::string& name,
                                     const std::vector<std::int64_t>& ranks, int member) override {
    return std::make_unique<StagedCommunicator>(inner_->make(name, ranks, member));
  }

 private:
  std::unique_ptr<Transport> inner_;
};

}  // namespace

bool tests_on_gpu() {
  const char* device = std::getenv("TRAINYARD_TEST_DEVICE");
  return device != nullptr && std::string_view(device) == "cuda";
}

at::Device test_device() { return tests_on_gpu() ? at::Device(at::kCUDA, 0) : at::kCPU; }

std::unique_ptr<Device> make_test_device() {
  if (tests_on_gpu()) return make_cuda_device(0);
  return std::make_unique<HostDevice>();
}

void finish_test_device() {
  if (tests_on_gpu()) at::detail::getCUDAHooks().deviceSynchronize(0);
}

std::unique_ptr<Transport> test_transport(std::unique_ptr<Transport> inner) {
  if (!tests_on_gpu()) return inner;
  return std::make_unique<StagedTransport>(std::move(inner));
}

}  // namespace trainyard
