#include "engine/exec/bodies/slowed_body.h"

#include <algorithm>
#include <numeric>

#include "engine/base/units.h"

namespace trainyard {

namespace {

class StepOrder {
 public:
  StepOrder(const TimedBody& body, const TimedOp* ops) : body_(body), ops_(ops) {
    Seconds launched = 0;
    for (std::uint32_t k = 0; k < body.num_ops; ++k) {
      if (ops[k].kind != TimedKind::kFree) launched += ops[k].launch;
      launched_.push_back(launched);
    }
  }

  SlowedSteps make() {
    out_.num_ops = body_.num_ops;
    std::uint32_t main = next(0, false);
    for (std::uint32_t c = next(0, true); c < body_.num_ops; c = next(c + 1, true)) {
      for (const std::uint32_t behind = c == 0 ? 0 : last_awaited(c) + 1; main < behind;
           main = next(main + 1, false))
        add(main, false);
      add(c, true);
    }
    for (; main < body_.num_ops; main = next(main + 1, false)) add(main, false);
    return std::move(out_);
  }

 private:
  bool is_collective(std::uint32_t k) const { return ops_[k].kind == TimedKind::kCollective; }
  bool waits(std::uint32_t k, StreamId stream) const {
    return k > 0 && (ops_[k].waits & stream_bit(stream)) != 0;
  }

  /// The first op from k on that is a collective, or is none.
  std::uint32_t next(std::uint32_t k, bool collective) const {
    while (k < body_.num_ops && is_collective(k) != collective) ++k;
    return k;
  }

  /// The latest op of main that a collective waits for; 0: none in the body, which begins with a
  /// collective.
  std::uint32_t last_awaited(std::uint32_t k) const {
    std::uint32_t last = 0;
    for (const auto& [op, before] : body_.edges) {
      if (op == k) last = std::max(last, before);
    }
    for (std::uint32_t op = k; op-- > 0 && waits(k, StreamId::kMain);) {
      if (!is_collective(op)) return std::max(last, op);
    }
    return last;
  }

  void add(std::uint32_t k, bool collective) {
    const TimedOp& op = ops_[k];
    SlowedSteps::Step step{k, collective, op.kind == TimedKind::kKernel};
    step.exposed_kind = op.exposed_kind;
    step.message = op.message;
    step.duration = op.duration;
    step.launched = launched_[k];
    step.waits_for_main = collective && waits(k, StreamId::kMain);
    if (!collective && waits(k, body_.stream)) {
      std::uint32_t last = k;
      while (!is_collective(last)) --last;
      step.waits_for_op = static_cast<std::int32_t>(last);
    }
    step.first_edge = static_cast<std::uint32_t>(out_.edges.size());
    for (const auto& [of, before] : body_.edges) {
      if (of == k) out_.edges.push_back(before);
    }
    step.num_edges = static_cast<std::uint32_t>(out_.edges.size()) - step.first_edge;
    out_.as_issued = out_.as_issued && (out_.steps.empty() || out_.steps.back().op < k);
    if (op.kind != TimedKind::kFree) ++out_.num_events;
    if (step.kernel) out_.flop += op.flop;
    out_.steps.push_back(step);
  }

  const TimedBody& body_;
  const TimedOp* ops_;
  std::vector<Seconds> launched_;  // [op]
  SlowedSteps out_;
};

}  // namespace

SlowedSteps make_slowed_steps(const TimedBody& body, const TimedOp* ops) {
  return StepOrder(body, ops).make();
}

void SlowedBody::begin(const SlowedSteps& steps, const BodyEntry& entry, double factor,
                       std::span<const GivenMark> given, const MessageTimes& times,
                       ChannelId channel) {
  steps_ = &steps;
  entry_ = entry;
  factor_ = factor;
  given_ = given;
  times_ = &times;
  channel_ = channel;
  beside_.clear();
  course_.op_end.resize(steps.num_ops);
  course_.op_times.resize(entry.records ? steps.num_ops : 0);
  course_.num_events = steps.num_events;
  course_.flop = steps.flop;
}

void SlowedBody::beside(Seconds at, bool any) {
  beside_.emplace_back(at, any);
  time();
}

/// One pass over the body.
void SlowedBody::time() {
  own_.clear();
  next_beside_ = next_own_ = 0;
  event_ops_.clear();
  course_.events.clear();
  course_.compute = 0;
  course_.main = entry_.main;
  course_.other = entry_.ready;
  for (const Step& step : steps_->steps) {
    if (step.collective)
      time_collective(step);
    else
      time_on_main(step);
  }
  if (own_.empty()) course_.other = course_.main;
  if (steps_->as_issued) return;
  std::vector<std::uint32_t> order(event_ops_.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return event_ops_[a] < event_ops_[b]; });
  std::vector<BodyEvent> events;
  for (const std::uint32_t i : order) events.push_back(course_.events[i]);
  course_.events.swap(events);
}

Seconds SlowedBody::behind_edges(const Step& step, Seconds since) const {
  for (std::uint32_t i = 0; i < step.num_edges; ++i)
    since = std::max(since, course_.op_end[steps_->edges[step.first_edge + i]]);
  return since;
}

void SlowedBody::time_collective(const Step& step) {
  Seconds start = std::max(course_.other, entry_.host + step.launched);
  if (step.waits_for_main) start = std::max(start, course_.main);
  start = behind_edges(step, start);
  if (entry_.records) course_.op_times[step.op] = {step.launched, start, start};
  const Seconds end = start + times_->of(channel_, step.message).total;
  course_.other = course_.op_end[step.op] = end;
  own_.emplace_back(start, end);
  if (end == start) return;
  course_.events.push_back({step.exposed_kind, start, end, 0});
  event_ops_.push_back(step.op);
}

void SlowedBody::time_on_main(const Step& step) {
  Seconds start = course_.main;
  if (step.waits_for_op >= 0)
    start = std::max(start, course_.op_end[position(step.waits_for_op)]);
  else if (own_.empty())
    start = std::max(start, entry_.ready);
  if (step.num_edges > 0) start = behind_edges(step, start);
  if (step.kernel) start = std::max(start, entry_.host + step.launched);
  if (start > course_.main) {
    course_.events.push_back({-1, course_.main, start, step.launched});
    event_ops_.push_back(step.op);
  }
  if (entry_.records) course_.op_times[step.op] = {step.launched, start, start};
  const Seconds taken = step.kernel ? kernel(start, step.duration) : 0;
  course_.compute += taken;
  course_.main = course_.op_end[step.op] = start + taken;
}

/// What a kernel takes that begins at `start`, behind those before it. All collectives that begin
/// before its end are known.
Seconds SlowedBody::kernel(Seconds start, Seconds work) {
  Seconds at = start;
  while (work > 0) {
    while (next_beside_ < beside_.size() && beside_[next_beside_].first <= at) ++next_beside_;
    while (next_own_ < own_.size() && own_[next_own_].second <= at) ++next_own_;
    const bool in_own = next_own_ < own_.size() && own_[next_own_].first <= at;
    const bool slowed = in_own || (next_beside_ > 0 && beside_[next_beside_ - 1].second);
    Seconds until = next_beside_ < beside_.size() ? beside_[next_beside_].first : kForever;
    if (next_own_ < own_.size())
      until = std::min(until, in_own ? own_[next_own_].second : own_[next_own_].first);
    const double pace = slowed ? factor_ : 1;
    if (at + work * pace <= until) return at + work * pace - start;
    work -= (until - at) / pace;
    at = until;
  }
  return at - start;
}

Seconds SlowedBody::next_end(Seconds after) const {
  Seconds next = kForever;
  const auto see = [&](Seconds end) {
    if (end > after) next = std::min(next, end);
  };
  for (const GivenMark& given : given_) see(end_of(given));
  see(course_.main);
  see(course_.other);
  return next;
}

}  // namespace trainyard
