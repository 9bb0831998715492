#include "real/cuda/nccl.h"

#include <c10/cuda/CUDAStream.h>
#include <nccl.h>

#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/indexed.h"

namespace trainyard {

namespace {

using namespace std::chrono_literals;

ncclDataType_t to_nccl(at::ScalarType type) {
  switch (type) {
    case at::kDouble: return ncclDouble;
    case at::kFloat: return ncclFloat;
    case at::kHalf: return ncclHalf;
    case at::kBFloat16: return ncclBfloat16;
    case at::kLong: return ncclInt64;
    case at::kInt: return ncclInt32;
    case at::kByte:
    case at::kFloat8_e4m3fn:
    case at::kFloat8_e5m2: return ncclUint8;  // which are gathered, never added up
    default: bug("no such type is communicated");
  }
}

std::size_t count(std::int64_t elements) { return static_cast<std::size_t>(elements); }
std::size_t count(const at::Tensor& tensor) { return count(tensor.numel()); }

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(const ncclUniqueId& id, std::string name, std::vector<std::int64_t> ranks,
                   int member, int device, std::chrono::milliseconds timeout)
      : name_(std::move(name)),
        ranks_(std::move(ranks)),
        device_(device),
        timeout_(timeout) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;  // so that a member that does not come is a message, not a hang
    run("making the communicator", [&] {
      return ncclCommInitRankConfig(&comm_, static_cast<int>(ranks_.size()), id, member, &config);
    });
  }
  ~NcclCommunicator() override { abort(); }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  void all_reduce(at::Tensor& tensor, bool maximum) override {
    run("all_reduce", [&] {
      return ncclAllReduce(tensor.const_data_ptr(), tensor.mutable_data_ptr(), count(tensor),
                           to_nccl(tensor.scalar_type()), maximum ? ncclMax : ncclSum, comm_,
                           stream());
    });
  }
  void all_gather(const at::Tensor& part, at::Tensor& whole) override {
    run("all_gather", [&] {
      return ncclAllGather(part.const_data_ptr(), whole.mutable_data_ptr(), count(part),
                           to_nccl(part.scalar_type()), comm_, stream());
    });
  }
  void reduce_scatter(const at::Tensor& whole, at::Tensor& part) override {
    run("reduce_scatter", [&] {
      return ncclReduceScatter(whole.const_data_ptr(), part.mutable_data_ptr(), count(part),
                               to_nccl(part.scalar_type()), ncclSum, comm_, stream());
    });
  }
  void all_to_all(const at::Tensor& from, at::Tensor& to, const AllToAllCounts& counts) override {
    const auto size = count(from.element_size());
    const auto* source = static_cast<const std::byte*>(from.const_data_ptr());
    auto* target = static_cast<std::byte*>(to.mutable_data_ptr());
    const ncclDataType_t type = to_nccl(from.scalar_type());
    run("all_to_all", [&] {
      ncclGroupStart();
      for (std::size_t m = 0; m < ranks_.size(); ++m) {
        const auto sent = count(counts.sent[m]);
        const auto received = count(counts.received[m]);
        if (sent > 0) ncclSend(source, sent, type, static_cast<int>(m), comm_, stream());
        if (received > 0) ncclRecv(target, received, type, static_cast<int>(m), comm_, stream());
        source += sent * size;
        target += received * size;
      }
      return ncclGroupEnd();
    });
  }
  void broadcast(at::Tensor& tensor, int root) override {
    run("broadcast from rank " + std::to_string(ranks_[root]), [&] {
      return ncclBroadcast(tensor.const_data_ptr(), tensor.mutable_data_ptr(), count(tensor),
                           to_nccl(tensor.scalar_type()), root, comm_, stream());
    });
  }
  void reduce(at::Tensor& tensor, int root) override {
    run("reduce to rank " + std::to_string(ranks_[root]), [&] {
      return ncclReduce(tensor.const_data_ptr(), tensor.mutable_data_ptr(), count(tensor),
                        to_nccl(tensor.scalar_type()), ncclSum, root, comm_, stream());
    });
  }
  void send(const at::Tensor& tensor, int member) override {
    run("send to rank " + std::to_string(ranks_[member]), [&] {
      return ncclSend(tensor.const_data_ptr(), count(tensor), to_nccl(tensor.scalar_type()), member,
                      comm_, stream());
    });
  }
  void receive(at::Tensor& tensor, int member) override {
    run("receive from rank " + std::to_string(ranks_[member]), [&] {
      return ncclRecv(tensor.mutable_data_ptr(), count(tensor), to_nccl(tensor.scalar_type()),
                      member, comm_, stream());
    });
  }

  void check() override {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(comm_, &state);
    if (asked != ncclSuccess) state = asked;
    if (state != ncclSuccess && state != ncclInProgress) fail("communication", state);
  }
  void abort() override {
    // The step is over, or its peers will not come: abort waits for nobody.
    if (comm_ != nullptr) ncclCommAbort(comm_);
    comm_ = nullptr;
  }

 private:
  cudaStream_t stream() const {
    return c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device_));
  }

  /// Calls, and waits until NCCL has taken the call: not until it has run.
  template <typename Call>
  void run(const std::string& what, const Call& call) {
    ncclResult_t state = call();
    const auto give_up = std::chrono::steady_clock::now() + timeout_;
    while (state == ncclInProgress) {
      if (std::chrono::steady_clock::now() > give_up) {
        throw BackendError("NCCL: " + what + " on " + name_ +
                           ": the other members did not come in time");
      }
      std::this_thread::sleep_for(20us);
      if (const ncclResult_t asked = ncclCommGetAsyncError(comm_, &state); asked != ncclSuccess)
        state = asked;
    }
    if (state != ncclSuccess) fail(what, state);
  }

  [[noreturn]] void fail(const std::string& what, ncclResult_t state) const {
    const char* more = ncclGetLastError(comm_);
    throw BackendError("NCCL: " + what + " on " + name_ + ": " + ncclGetErrorString(state) +
                       (more != nullptr && *more != '\0' ? std::string(": ") + more : ""));
  }

  ncclComm_t comm_ = nullptr;
  std::string name_;
  Numbered<std::int64_t> ranks_;
  int device_;
  std::chrono::milliseconds timeout_;
};

class NcclTransport final : public Transport {
 public:
  NcclTransport(Rendezvous& rendezvous, int device, std::chrono::milliseconds timeout)
      : rendezvous_(rendezvous),
        device_(device),
        timeout_(timeout) {}

  std::unique_ptr<Communicator> make(const std::string& name,
                                     const std::vector<std::int64_t>& ranks, int member) override {
    const std::string key = group_key(name, ranks);
    ncclUniqueId id{};
    if (member == 0) {
      if (const ncclResult_t made = ncclGetUniqueId(&id); made != ncclSuccess) {
        throw BackendError("NCCL: making an id for " + key + ": " + ncclGetErrorString(made));
      }
      rendezvous_.set("nccl/" + key, std::string(id.internal, sizeof id.internal));
    } else {
      const std::string text = rendezvous_.get("nccl/" + key);
      check(text.size() == sizeof id.internal, "an id of NCCL has its size");
      std::memcpy(id.internal, text.data(), sizeof id.internal);
    }
    return std::make_unique<NcclCommunicator>(id, key, ranks, member, device_, timeout_);
  }
  std::unique_ptr<Communicator> make_between_hosts(const std::string&,
                                                   const std::vector<std::int64_t>&, int) override {
    bug("NCCL sends from devices to devices");
  }

 private:
  Rendezvous& rendezvous_;
  int device_;
  std::chrono::milliseconds timeout_;
};

}  // namespace

std::unique_ptr<Transport> make_nccl_transport(Rendezvous& rendezvous, int device,
                                               std::chrono::milliseconds timeout) {
  // Kernels of several communicators start in the order in which the host issues them, which fits
  // one order of the whole Program: two ranks cannot each fill their GPU with what the other has
  // yet to start.
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", /*overwrite=*/0);
  return std::make_unique<NcclTransport>(rendezvous, device, timeout);
}

}  // namespace trainyard
