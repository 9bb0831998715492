#include "tests/real/recorded_run.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "real/exec/device.h"
#include "real/exec/rank_executor.h"
#include "tests/real/loopback_run.h"

namespace trainyard {

namespace {

class RecordingDevice final : public Device {
 public:
  RecordingDevice(std::unique_ptr<Device> device, RecordedRank& out)
      : device_(std::move(device)),
        out_(out) {}
  void watch(RankExecutor& executor) { executor_ = &executor; }

  at::Device where() const override { return device_->where(); }
  bool immediate() const override { return false; }  // as a GPU: kernels may not look at numbers
  void begin_step(std::size_t num_events, bool timed) override {
    device_->begin_step(num_events, timed);
  }
  void launch(const ProgramOp& op, std::function<void()> work) override {
    out_.streams.push_back({StreamCall::kLaunch, op.stream, &op, -1});
    const IssuedOp& issued = executor_->plan().order().ops[executor_->issuing()];
    const bool views =
        op.kind == OpKind::kSplit || op.kind == OpKind::kJoin || op.kind == OpKind::kEnterTensor;
    const bool communicates = is_communication(op.kind);
    if (!views) {
      access(op.reads, issued, op.kind == OpKind::kFree);
      access(op.accumulates, issued, true);
      if (op.guard) access(Operands{*op.guard}, issued, false);
      if (communicates) access(op.writes, issued, true);
    }
    device_->launch(op, std::move(work));
    if (!views && !communicates) access(op.writes, issued, true);  // results are there now
    ++launches_;
  }
  void wait(StreamId stream, EventId event) override {
    out_.streams.push_back({StreamCall::kWait, stream, nullptr, event});
    device_->wait(stream, event);
  }
  void record(StreamId stream, EventId event) override {
    out_.streams.push_back({StreamCall::kRecord, stream, nullptr, event});
    device_->record(stream, event);
  }
  bool happened(EventId event) override { return device_->happened(event); }
  void finish(StreamId stream, const std::function<void()>& while_waiting) override {
    device_->finish(stream, while_waiting);
  }
  void end_step(const std::function<void()>& while_waiting) override {
    device_->end_step(while_waiting);
  }
  TimeSpan span(std::size_t launch) const override { return device_->span(launch); }
  at::Tensor empty_beside_main(c10::IntArrayRef shape, const at::TensorOptions& options) override {
    at::Tensor out = device_->empty_beside_main(shape, options);
    const auto begin = reinterpret_cast<std::uintptr_t>(out.const_data_ptr());
    out_.beside_main.emplace_back(begin, begin + out.nbytes());
    return out;
  }
  at::Tensor host_number() override { return device_->host_number(); }

 private:
  void access(const Operands& operands, const IssuedOp& issued, bool writes) {
    for (const Operand& operand : operands) {
      const at::Tensor& tensor = executor_->values().tensor(operand.value, issued.mb[operand.slot]);
      std::int64_t extent = 1;  // elements from the first to the last: a view has gaps
      for (std::int64_t d = 0; d < tensor.dim(); ++d)
        extent += (tensor.size(d) - 1) * tensor.stride(d);
      const auto begin = reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr());
      out_.memory.push_back({launches_, begin,
                             begin + static_cast<std::uintptr_t>(extent * tensor.itemsize()),
                             writes});
    }
  }

  std::unique_ptr<Device> device_;
  RecordedRank& out_;
  RankExecutor* executor_ = nullptr;
  std::size_t launches_ = 0;
};

/// A communicator is used by one stream, so that its calls are recorded in their order without a
/// lock.
class RecordingCommunicator final : public Communicator {
 public:
  RecordingCommunicator(std::unique_ptr<Communicator> inner, std::vector<std::int64_t> ranks,
                        std::vector<TransportCall>& out)
      : inner_(std::move(inner)),
        ranks_(std::move(ranks)),
        out_(out) {}
  void all_reduce(at::Tensor& tensor, bool maximum) override {
    note(OpKind::kAllReduce, tensor);
    inner_->all_reduce(tensor, maximum);
  }
  void all_gather(const at::Tensor& part, at::Tensor& whole) override {
    note(OpKind::kAllGather, whole);
    inner_->all_gather(part, whole);
  }
  void reduce_scatter(const at::Tensor& whole, at::Tensor& part) override {
    note(OpKind::kReduceScatter, whole);
    inner_->reduce_scatter(whole, part);
  }
  void all_to_all(const at::Tensor& from, at::Tensor& to, const AllToAllCounts& counts) override {
    note(OpKind::kAllToAll, from);
    inner_->all_to_all(from, to, counts);
  }
  void broadcast(at::Tensor& tensor, int root) override {
    note(OpKind::kBroadcast, tensor);
    inner_->broadcast(tensor, root);
  }
  void reduce(at::Tensor& tensor, int root) override {
    note(OpKind::kReduce, tensor);
    inner_->reduce(tensor, root);
  }
  void send(const at::Tensor& tensor, int member) override {
    note(OpKind::kSend, tensor, member);
    inner_->send(tensor, member);
  }
  void receive(at::Tensor& tensor, int member) override {
    note(OpKind::kRecv, tensor, member);
    inner_->receive(tensor, member);
  }

 private:
  void note(OpKind kind, const at::Tensor& tensor, int member = -1) {
    out_.push_back({kind, static_cast<std::int64_t>(tensor.nbytes()),
                    member < 0 ? -1 : ranks_[static_cast<std::size_t>(member)]});
  }
  std::unique_ptr<Communicator> inner_;
  std::vector<std::int64_t> ranks_;
  std::vector<TransportCall>& out_;
};

class RecordingTransport final : public Transport {
 public:
  RecordingTransport(std::unique_ptr<Transport> inner, RecordedRank& out)
      : inner_(std::move(inner)),
        out_(out) {}
  std::unique_ptr<Communicator> make(const std::string& name,
                                     const std::vector<std::int64_t>& ranks, int member) override {
    return std::make_unique<RecordingCommunicator>(inner_->make(name, ranks, member), ranks,
                                                   out_.calls[group_key(name, ranks)]);
  }

 private:
  std::unique_ptr<Transport> inner_;
  RecordedRank& out_;
};

}  // namespace

RecordedRun run_recorded(const std::string& yaml, const std::vector<std::string>& sets) {
  constexpr std::size_t kMostRanks = 8;
  RecordedRun run;
  run.ranks.resize(kMostRanks);
  std::vector<RecordingDevice*> devices(kMostRanks, nullptr);
  LoopbackOptions options;
  options.device = [&](std::int64_t rank, std::unique_ptr<Device> device) {
    const auto r = static_cast<std::size_t>(rank);
    auto recording = std::make_unique<RecordingDevice>(std::move(device), run.ranks[r]);
    devices[r] = recording.get();
    return recording;
  };
  options.transport = [&](std::int64_t rank, std::unique_ptr<Transport> transport) {
    return std::make_unique<RecordingTransport>(std::move(transport),
                                                run.ranks[static_cast<std::size_t>(rank)]);
  };
  options.ready = [&](std::int64_t rank, RankExecutor& executor) {
    devices[static_cast<std::size_t>(rank)]->watch(executor);
  };
  LoopbackRun done = run_loopback(yaml, sets, options);
  run.ranks.resize(static_cast<std::size_t>(done.program.mesh.num_ranks()));
  // Moving the Program's vectors leaves its ops where the recorded launches point.
  run.program = std::move(done.program);
  return run;
}

}  // namespace trainyard
