#include "engine/exec/loop/slowed_bodies.h"

#include <algorithm>
#include <limits>

namespace trainyard {

void SlowedBodies::begin(std::int32_t call, Cursor member, const StreamItem& item,
                         ChannelId channel) {
  if (!parts_.has(call)) parts_.resize(call + 1);
  RankState& state = progress_.rank(member.rank);
  StreamState& stream = state.streams[StreamId::kMain];
  const StreamList& list = *state.list;
  const std::span<const GivenMark> given =
      std::span(list.given).subspan(item.first_given, item.num_given);
  parts_[call] = {member, stream.step, given, -std::numeric_limits<double>::infinity(), true};
  stream.gathered = true;
  const TimedBody* body = item.kind == ItemKind::kBody ? &list.bodies.all[item.body] : nullptr;
  const BodyEntry entry{item.op, stream.ready, stream.end, stream.issued, state.records};
  clock_.new_body(call).begin(steps_of(item, body), entry, plan_.slowdown.compute_by_communication,
                              given, plan_.times, channel);
  clock_.start_body(call, member.rank, std::max(stream.ready, stream.end));
}

bool SlowedBodies::end_part(const Interconnect::Ending& ending) {
  Part& part = parts_[ending.call];
  const SlowedBody& body = clock_.body(ending.call);
  RankState& state = progress_.rank(part.member.rank);
  for (const GivenMark& given : part.given) {
    const Seconds end = body.end_of(given);
    if (end > part.reached && end <= ending.end) progress_.reach(state, part.step, given.mark, end);
  }
  part.reached = ending.end;
  if (part.on_main && body.course().main <= ending.end) {
    part.on_main = false;
    bodies_.take(part.member, body.course());
    ++state.streams[StreamId::kMain].next;
    progress_.runnable().push_back(part.member);
  }
  return body.end() <= ending.end;
}

const SlowedSteps& SlowedBodies::steps_of(const StreamItem& item, const TimedBody* body) {
  const void* key = body;
  if (body == nullptr) key = item.run;
  const auto [it, fresh] = steps_.try_emplace(key);
  if (fresh) {
    TimedBody run;
    if (body == nullptr) run.num_ops = item.run->num_ops;
    it->second = make_slowed_steps(body == nullptr ? run : *body, item.op);
  }
  return it->second;
}

}  // namespace trainyard
