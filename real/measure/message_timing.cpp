#include "real/measure/message_timing.h"

#include <algorithm>
#include <numeric>

#include "calibrate/measure/timing_summary.h"
#include "engine/base/error.h"
#include "engine/base/indexed.h"
#include "engine/base/steady_time.h"

namespace trainyard {

namespace {

constexpr Bytes kElement = 4;

}  // namespace

const std::vector<std::string>& message_kinds() {
  static const std::vector<std::string> kKinds = {"all_reduce", "all_gather", "reduce_scatter",
                                                  "all_to_all", "send"};
  return kKinds;
}

MessageTimer::MessageTimer(Device& device, Transport& transport, std::int64_t rank,
                           std::int64_t ranks)
    : device_(device),
      rank_(rank),
      ranks_(ranks) {
  Numbered<std::int64_t> members(ranks);
  std::iota(members.begin(), members.end(), 0);
  all_ = transport.make("calibrate.all", members, static_cast<int>(rank));
  if (rank < 2) pair_ = transport.make("calibrate.pair", {0, 1}, static_cast<int>(rank));
}

Seconds MessageTimer::once(const std::function<void()>& call) {
  ProgramOp op;
  op.kind = OpKind::kAllReduce;
  op.stream = StreamId::kTp;
  device_.begin_step(0, /*timed=*/true);
  const Seconds begin = steady_time();
  device_.launch(op, call);
  device_.end_step([] {});
  if (device_.immediate()) return steady_time() - begin;
  const TimeSpan span = device_.span(0);
  return span.end - span.start;
}

void MessageTimer::meet() {
  at::Tensor one = at::ones({1}, at::TensorOptions(at::kFloat).device(device_.where()));
  once([&] { all_->all_reduce(one, false); });
}

Seconds MessageTimer::largest(Seconds time) {
  at::Tensor value = at::full({1}, time, at::TensorOptions(at::kFloat).device(device_.where()));
  once([&] { all_->all_reduce(value, true); });
  return value.item<double>();
}

MessagePoint MessageTimer::time(const std::string& kind, Bytes bytes, int repeats) {
  const std::int64_t part = std::max<std::int64_t>(1, bytes / kElement / ranks_);
  const auto options = at::TensorOptions(at::kFloat).device(device_.where());
  at::Tensor whole = at::zeros({part * ranks_}, options),
             other = at::zeros({part * ranks_}, options);
  at::Tensor own = at::zeros({part}, options);
  const std::vector<std::int64_t> equal(ranks_, part);
  const AllToAllCounts counts{equal, equal};
  std::function<void()> call;
  if (kind == "all_reduce")
    call = [&] { all_->all_reduce(whole, false); };
  else if (kind == "all_gather")
    call = [&] { all_->all_gather(own, whole); };
  else if (kind == "reduce_scatter")
    call = [&] { all_->reduce_scatter(whole, own); };
  else if (kind == "all_to_all")
    call = [&] { all_->all_to_all(whole, other, counts); };
  else if (kind == "send")
    call = [&] {
      if (rank_ == 0)
        pair_->send(whole, 1);
      else if (rank_ == 1)
        pair_->receive(whole, 0);
    };
  else
    bug("a kind of message that is not timed");
  std::vector<Seconds> times;
  for (int i = 0; i < repeats + 1; ++i) {
    meet();
    const Seconds time = largest(once(call));
    if (i > 0) times.push_back(time);  // the first finds cold memory
  }
  const TimingSummary summary = summarise_timings(std::move(times));
  return {part * ranks_ * kElement, summary.median, summary.interval};
}

}  // namespace trainyard
