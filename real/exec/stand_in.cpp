#include "real/exec/stand_in.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace trainyard {

namespace {

constexpr std::int64_t kNoise = 1 << 20;

/// Between -0.01 and 0.01: as small as gradients, and normalised by whatever layer reads them as
/// activations.
at::Tensor make_noise(at::Device device) {
  // Not LibTorch's allocator on a CPU: what it has allocated is the rank's.
  auto* numbers = new std::vector<float>(kNoise);
  std::uint32_t state = 1;
  for (float& number : *numbers) {
    state = state * 1664525U +
            1013904223U;  // Numerical Recipes' generator: evenly spread is all that is asked
    number = 0.02F * (static_cast<float>(state >> 8U) / static_cast<float>(1U << 24U) - 0.5F);
  }
  const at::Tensor host = at::from_blob(
      numbers->data(), {kNoise}, [numbers](void*) { delete numbers; },
      at::TensorOptions(at::kFloat));
  return device.is_cpu() ? host : host.to(device);
}

class StandIn final : public Communicator {
 public:
  StandIn(at::Tensor noise, std::int64_t members, int member)
      : noise_(std::move(noise)),
        members_(members),
        member_(member) {}

  void all_reduce(at::Tensor& tensor, bool) override { tensor.mul_(1); }
  void all_gather(const at::Tensor& part, at::Tensor& whole) override {
    whole.view({members_, part.numel()})
        .copy_(part.view({1, part.numel()}).expand({members_, part.numel()}));
  }
  void reduce_scatter(const at::Tensor& whole, at::Tensor& part) override {
    part.view({-1}).copy_(whole.view({-1}).narrow(0, member_ * part.numel(), part.numel()));
  }
  void all_to_all(const at::Tensor& from, at::Tensor& to, const AllToAllCounts&) override {
    // By counts a rank may receive more than it sends, or less.
    const std::int64_t both = std::min(from.numel(), to.numel());
    if (both < to.numel()) to.zero_();
    to.view({-1}).narrow(0, 0, both).copy_(from.view({-1}).narrow(0, 0, both));
  }
  void broadcast(at::Tensor& tensor, int) override { tensor.mul_(1); }
  void reduce(at::Tensor& tensor, int) override { tensor.mul_(1); }
  void send(const at::Tensor&, int) override {}
  void receive(at::Tensor& tensor, int) override {
    if (!at::isFloatingType(tensor.scalar_type())) {
      tensor.zero_();
      return;
    }
    at::Tensor flat = tensor.view({-1});
    for (std::int64_t at = 0; at < flat.numel(); at += kNoise) {
      const std::int64_t size = std::min(kNoise, flat.numel() - at);
      flat.narrow(0, at, size).copy_(noise_.narrow(0, 0, size));
    }
  }

 private:
  at::Tensor noise_;
  std::int64_t members_;
  int member_;
};

class StandInTransport final : public Transport {
 public:
  explicit StandInTransport(at::Device device) : noise_(make_noise(device)) {}
  std::unique_ptr<Communicator> make(const std::string&, const std::vector<std::int64_t>& ranks,
                                     int member) override {
    return std::make_unique<StandIn>(noise_, static_cast<std::int64_t>(ranks.size()), member);
  }

 private:
  at::Tensor noise_;
};

}  // namespace

std::unique_ptr<Transport> make_stand_in_transport(at::Device device) {
  return std::make_unique<StandInTransport>(device);
}

}  // namespace trainyard
