#include "real/comm/gloo.h"

#include <cstdlib>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/indexed.h"
#include "real/comm/rendezvous_store.h"

namespace trainyard {

namespace {

/// Types of 8 bits, which Gloo does not know, as what is moved of them.
at::Tensor as_bytes(const at::Tensor& tensor) {
  const at::ScalarType type = tensor.scalar_type();
  const bool known = type != at::kFloat8_e4m3fn && type != at::kFloat8_e5m2;
  return known ? tensor : tensor.view(at::kByte);
}

class GlooCommunicator final : public Communicator {
 public:
  GlooCommunicator(c10::intrusive_ptr<c10d::ProcessGroupGloo> group, std::string name,
                   std::vector<std::int64_t> ranks)
      : group_(std::move(group)),
        name_(std::move(name)),
        ranks_(std::move(ranks)) {}

  void all_reduce(at::Tensor& tensor, bool maximum) override {
    run("all_reduce", [&] {
      std::vector<at::Tensor> tensors = {tensor};
      c10d::AllreduceOptions options;
      options.reduceOp = maximum ? c10d::ReduceOp::MAX : c10d::ReduceOp::SUM;
      return group_->allreduce(tensors, options);
    });
  }
  void all_gather(const at::Tensor& part, at::Tensor& whole) override {
    run("all_gather", [&] {
      at::Tensor out = as_bytes(whole.view({-1})), flat = as_bytes(part.view({-1}));
      return group_->_allgather_base(out, flat);
    });
  }
  void reduce_scatter(const at::Tensor& whole, at::Tensor& part) override {
    run("reduce_scatter", [&] {
      at::Tensor in = whole.view({-1}), out = part.view({-1});
      return group_->_reduce_scatter_base(out, in);
    });
  }
  void all_to_all(const at::Tensor& from, at::Tensor& to, const AllToAllCounts& counts) override {
    run("all_to_all", [&] {
      at::Tensor in = from.view({-1}), out = to.view({-1});
      std::vector<std::int64_t> received = counts.received, sent = counts.sent;
      return group_->alltoall_base(out, in, received, sent);
    });
  }
  void broadcast(at::Tensor& tensor, int root) override {
    run("broadcast from rank " + std::to_string(ranks_[root]), [&] {
      std::vector<at::Tensor> tensors = {tensor};
      c10d::BroadcastOptions options;
      options.rootRank = root;
      return group_->broadcast(tensors, options);
    });
  }
  void reduce(at::Tensor& tensor, int root) override {
    run("reduce to rank " + std::to_string(ranks_[root]), [&] {
      std::vector<at::Tensor> tensors = {tensor};
      c10d::ReduceOptions options;
      options.rootRank = root;
      return group_->reduce(tensors, options);
    });
  }
  void send(const at::Tensor& tensor, int member) override {
    run("send to rank " + std::to_string(ranks_[member]), [&] {
      std::vector<at::Tensor> tensors = {tensor};
      return group_->send(tensors, member, /*tag=*/0);
    });
  }
  void receive(at::Tensor& tensor, int member) override {
    run("receive from rank " + std::to_string(ranks_[member]), [&] {
      std::vector<at::Tensor> tensors = {tensor};
      return group_->recv(tensors, member, /*tag=*/0);
    });
  }

 private:
  /// Gloo's own messages never say between whom.
  template <typename Call>
  void run(const std::string& what, const Call& call) {
    try {
      call()->wait();
    } catch (const std::exception& error) {
      throw BackendError("Gloo: " + what + " on " + name_ + ": " + error.what());
    }
  }

  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
  std::string name_;
  Numbered<std::int64_t> ranks_;
};

class GlooTransport final : public Transport {
 public:
  GlooTransport(Rendezvous& rendezvous, std::int64_t rank, std::string host,
                std::chrono::milliseconds timeout)
      : rendezvous_(rendezvous),
        rank_(rank),
        host_(std::move(host)),
        timeout_(timeout) {}

  std::unique_ptr<Communicator> make(const std::string& name,
                                     const std::vector<std::int64_t>& ranks, int member) override {
    const std::string key = group_key(name, ranks);
    try {
      auto options = c10d::ProcessGroupGloo::Options::create();
      options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(host_));
      options->threads = 1;
      options->timeout = timeout_;
      auto store = c10::make_intrusive<c10d::PrefixStore>(key, rendezvous_.store().tcp);
      auto group = c10::make_intrusive<c10d::ProcessGroupGloo>(
          store, member, static_cast<int>(ranks.size()), options);
      return std::make_unique<GlooCommunicator>(std::move(group), key, ranks);
    } catch (const std::exception& error) {
      throw BackendError("Gloo: rank " + std::to_string(rank_) + " making group " + key + ": " +
                         error.what());
    }
  }

 private:
  Rendezvous& rendezvous_;
  std::int64_t rank_;
  std::string host_;
  std::chrono::milliseconds timeout_;
};

}  // namespace

std::unique_ptr<Transport> make_gloo_transport(Rendezvous& rendezvous, std::int64_t rank,
                                               const std::string& host,
                                               std::chrono::milliseconds timeout) {
  // LibTorch 2.11's flight recorder, on unless its buffer is empty, adds each process group to a
  // map without a lock when it first sees it (FlightRecorderDetail.hpp, recordWithResetEnabled()).
  // Our streams are threads, so two would do that at once.
  setenv("TORCH_FR_BUFFER_SIZE", "0", /*overwrite=*/1);
  return std::make_unique<GlooTransport>(rendezvous, rank, host, timeout);
}

}  // namespace trainyard
