#include "real/cuda/host_transport.h"

#include <utility>

#include "engine/base/error.h"
#include "real/cuda/cuda.h"

namespace trainyard {

namespace {

class HostCommunicator final : public Communicator {
 public:
  explicit HostCommunicator(std::unique_ptr<Communicator> inner) : inner_(std::move(inner)) {}

  void send(const at::Tensor& tensor, int member) override {
    wait_for_current_stream();
    inner_->send(tensor, member);
  }
  void receive(at::Tensor& tensor, int member) override {
    wait_for_current_stream();
    inner_->receive(tensor, member);
  }
  void all_reduce(at::Tensor&, bool) override { refuse(); }
  void all_gather(const at::Tensor&, at::Tensor&) override { refuse(); }
  void reduce_scatter(const at::Tensor&, at::Tensor&) override { refuse(); }
  void all_to_all(const at::Tensor&, at::Tensor&, const AllToAllCounts&) override { refuse(); }
  void broadcast(at::Tensor&, int) override { refuse(); }
  void reduce(at::Tensor&, int) override { refuse(); }
  void check() override { inner_->check(); }
  void abort() override { inner_->abort(); }

 private:
  [[noreturn]] static void refuse() { bug("hosts send and receive alone"); }
  std::unique_ptr<Communicator> inner_;
};

class TransportWithHosts final : public Transport {
 public:
  TransportWithHosts(std::unique_ptr<Transport> devices, std::unique_ptr<Transport> hosts)
      : devices_(std::move(devices)),
        hosts_(std::move(hosts)) {}

  std::unique_ptr<Communicator> make(const std::string& name,
                                     const std::vector<std::int64_t>& ranks, int member) override {
    return devices_->make(name, ranks, member);
  }
  std::unique_ptr<Communicator> make_between_hosts(const std::string& name,
                                                   const std::vector<std::int64_t>& ranks,
                                                   int member) override {
    return std::make_unique<HostCommunicator>(hosts_->make_between_hosts(name, ranks, member));
  }

 private:
  std::unique_ptr<Transport> devices_, hosts_;
};

}  // namespace

std::unique_ptr<Transport> with_hosts(std::unique_ptr<Transport> devices,
                                      std::unique_ptr<Transport> hosts) {
  return std::make_unique<TransportWithHosts>(std::move(devices), std::move(hosts));
}

}  // namespace trainyard
