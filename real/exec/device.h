// A device's streams, as the executor drives them: work on a stream runs in the order in which it
// is given, and only events order one stream after another. Driven by one thread, the rank's host.
#pragma once

#include <cstddef>
#include <functional>

#include "engine/base/units.h"
#include "real/exec/issue_order.h"
#include "real/torch.h"

namespace trainyard {

/// When a piece of work ran, in seconds of the steady clock.
struct TimeSpan {
  Seconds ready = 0, start = 0, end = 0;
};

class Device {
 public:
  virtual ~Device() = default;

  /// Where tensors lie.
  virtual at::Device where() const = 0;
  /// Whether what is launched on main has run when launch() returns, so that kernels may look at
  /// numbers. Where it has not, looking would make the host wait for the device.
  virtual bool immediate() const = 0;

  /// Forgets the events of the step before. `timed`: notes when each launch ran.
  virtual void begin_step(std::size_t num_events, bool timed) = 0;
  /// Gives `work` to the op's stream: it enqueues kernels or runs them. What it throws, this or
  /// end_step() throws.
  virtual void launch(const ProgramOp& op, std::function<void()> work) = 0;
  /// What is launched on `stream` from now on runs after `event` has happened.
  virtual void wait(StreamId stream, EventId event) = 0;
  /// `event` happens when all that was launched on `stream` so far has ended.
  virtual void record(StreamId stream, EventId event) = 0;
  virtual bool happened(EventId event) = 0;
  /// The host waits for what was launched on `stream` so far; as end_step().
  virtual void finish(StreamId stream, const std::function<void()>& while_waiting) = 0;
  /// The host waits for all streams. `while_waiting` is called again and again where that may take
  /// long. Throws as soon as it comes to a stream that has failed; called once more per stream, it
  /// has waited for the others too.
  virtual void end_step(const std::function<void()>& while_waiting) = 0;
  /// Span of the step's i-th launch, after end_step() of a timed step.
  virtual TimeSpan span(std::size_t launch) const = 0;

  /// Storage that another stream than main may write first. What kernels of main have taken and
  /// given back for themselves is never in it, since they may still be running: only what the
  /// Program frees, and for that issue_order() lets the writer wait.
  virtual at::Tensor empty_beside_main(c10::IntArrayRef shape, const at::TensorOptions& options) {
    return at::empty(shape, options);
  }

  /// A number on the host, fp64, 0-dim: a copy to it from the device does not keep the host
  /// waiting; it is there after end_step().
  virtual at::Tensor host_number() = 0;
};

}  // namespace trainyard
