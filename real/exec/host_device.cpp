#include "real/exec/host_device.h"

#include <string>
#include <utility>

namespace trainyard {

namespace {

Seconds seconds(Clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

}  // namespace

void HostDevice::begin_step(std::size_t num_events, bool timed) {
  events_.assign(num_events, nullptr);
  launched_.clear();
  timed_ = timed;
}

void HostDevice::launch(const ProgramOp& op, std::function<void()> work) {
  if (is_compute(op.stream)) {
    Launched main;
    if (timed_) main.span.ready = main.span.start = seconds(Clock::now());
    work();
    if (!timed_) return;
    main.span.end = seconds(Clock::now());
    launched_.push_back(std::move(main));
    return;
  }
  Stream& stream = streams_[op.stream];
  if (!stream.thread) {
    stream.thread =
        std::make_unique<CommunicationStream>("comm" + std::to_string(static_cast<int>(op.stream)));
  }
  stream.last = stream.thread->enqueue(std::exchange(stream.waits, {}), std::move(work));
  if (timed_) launched_.push_back({{}, stream.last});
}

void HostDevice::wait(StreamId stream, EventId event) {
  const CompletionPtr& completion = events_[event];
  if (!completion) return;
  if (is_compute(stream)) {
    completion->wait();
  } else {
    streams_[stream].waits.push_back(completion);
  }
}

void HostDevice::record(StreamId stream, EventId event) {
  // Work on these streams has ended when its launch returns.
  if (is_compute(stream)) return;
  events_[event] = streams_[stream].last;
}

bool HostDevice::happened(EventId event) {
  const CompletionPtr& completion = events_[event];
  return !completion || completion->done();
}

void HostDevice::finish(StreamId stream, const std::function<void()>&) {
  const CompletionPtr& last = streams_[stream].last;
  if (last) last->wait();
}

void HostDevice::end_step(const std::function<void()>&) {
  for (Stream& stream : streams_) {
    // Forgotten, so that the next call goes on with the streams behind one that has failed.
    if (const CompletionPtr last = std::exchange(stream.last, nullptr)) last->wait();
  }
}

TimeSpan HostDevice::span(std::size_t launch) const {
  const Launched& one = launched_[launch];
  if (!one.completion) return one.span;
  const Seconds start = seconds(one.completion->start());
  return {start, start, seconds(one.completion->end())};
}

at::Tensor HostDevice::host_number() {
  // Not LibTorch's allocator: what it has allocated is what the Program says is alive.
  auto* number = new double(0);
  return at::from_blob(
      number, at::IntArrayRef{}, [](void* data) { delete static_cast<double*>(data); },
      at::TensorOptions(at::kDouble));
}

}  // namespace trainyard
