// The cores of this process as a device. The thread that drives it is the main stream and the host,
// whose work runs at once; each stream of communication is a thread of its own, so that overlap is
// real here too.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "real/exec/communication_stream.h"
#include "real/exec/device.h"

namespace trainyard {

class HostDevice : public Device {
 public:
  at::Device where() const override { return at::kCPU; }
  bool immediate() const override { return true; }
  void begin_step(std::size_t num_events, bool timed) override;
  void launch(const ProgramOp& op, std::function<void()> work) override;
  void wait(StreamId stream, EventId event) override;
  void record(StreamId stream, EventId event) override;
  bool happened(EventId event) override;
  void finish(StreamId stream, const std::function<void()>& while_waiting) override;
  void end_step(const std::function<void()>& while_waiting) override;
  TimeSpan span(std::size_t launch) const override;
  at::Tensor host_number() override;

 private:
  struct Stream {
    std::unique_ptr<CommunicationStream> thread;
    std::vector<CompletionPtr> waits;  // of what is launched next
    CompletionPtr last;
  };
  struct Launched {
    TimeSpan span;
    CompletionPtr completion;  // of communication: it has the span
  };
  IndexedArray<StreamId, Stream, kNumStreams> streams_;
  Numbered<CompletionPtr> events_;  // nullptr: has happened
  std::vector<Launched> launched_;
  bool timed_ = false;
};

}  // namespace trainyard
