#include "engine/exec/bodies/joint_bodies.h"

#include <algorithm>
#include <utility>

namespace trainyard {

void JointBodies::pass(ChannelId channel, const std::vector<Cursor>& members, std::int32_t number,
                       const TimedBody& body) {
  const std::vector<BodyMap>& maps = this->maps(channel, members, number, body);
  Seconds start = progress_.start();  // of the first collective
  for (const Cursor member : members) {
    const StreamState& its = main_of(member);
    start = std::max({start, its.ready, its.issued + progress_.item_at(member).op->launch});
  }
  if (are_constant(members, maps, body, start)) {
    for (std::size_t i = 0; i < maps.size(); ++i) pass_mapped(members[i], body, maps[i], start);
    return;
  }
  entries_.clear();
  for (const Cursor member : members) {
    const StreamState& its = main_of(member);
    entries_.push_back({progress_.item_at(member).op, its.ready, its.end, its.issued,
                        progress_.rank(member.rank).records});
  }
  const auto courses = timed(channel, body);
  for (std::size_t i = 0; i < courses.size(); ++i) pass_timed(members[i], body, courses[i]);
}

/// Times the body on the ranks in entries_.
std::vector<BodyCourse> JointBodies::timed(ChannelId channel, const TimedBody& body) const {
  return time_body(body, entries_,
                   [&](MessageId message) { return plan_.times.of(channel, message).total; });
}

/// Maps of the body that begins where the members are, one per member.
const std::vector<BodyMap>& JointBodies::maps(ChannelId channel, const std::vector<Cursor>& members,
                                              std::int32_t number, const TimedBody& body) {
  auto& of_channel = known_[channel];
  if (!of_channel.has(number)) of_channel.resize(number + 1, nullptr);
  const std::vector<BodyMap>*& known = of_channel[number];
  if (known != nullptr) return *known;
  std::vector<std::int64_t> key = {plan_.times.alike(channel)};
  entries_.clear();
  for (const Cursor member : members) {
    const StreamItem& item = progress_.item_at(member);
    key.push_back(static_cast<std::int64_t>(plan_.list_of[member.rank]));
    key.push_back(item.body);
    constexpr Seconds kLongAgo = -1e30;
    entries_.push_back({item.op, 0, body.main_follows ? kLongAgo : 0, kLongAgo, records_});
  }
  const auto [it, fresh] = all_maps_.try_emplace(std::move(key));
  if (fresh) it->second = map_body(timed(channel, body), progress_.kinds().size());
  known = &it->second;
  return *known;
}

/// Whether all of it is `start` plus constants.
bool JointBodies::are_constant(const std::vector<Cursor>& members, const std::vector<BodyMap>& maps,
                               const TimedBody& body, Seconds start) {
  for (std::size_t i = 0; i < maps.size(); ++i) {
    const StreamState& its = main_of(members[i]);
    const BodyCourse& course = maps[i].course;
    const bool constant =
        its.issued + course.slack <= start &&
        (body.main_follows ? its.end <= start + course.first_kernel : its.end == start) &&
        // Else the gap before the first kernel is the host's in part, which depends on the ops in
        // it.
        (its.issued + course.first_launch <= its.end || its.end == start + course.first_kernel);
    if (!constant) return false;
  }
  return true;
}

void JointBodies::pass_mapped(Cursor member, const TimedBody& body, const BodyMap& map,
                              Seconds start) {
  RankState& state = progress_.rank(member.rank);
  StreamState& stream = state.streams[StreamId::kMain];
  const StreamItem& item = progress_.item_at(member);
  const BodyCourse& course = map.course;
  StepAccount& account = state.account(stream.step);
  const std::uint32_t at = state.list->streams[StreamId::kMain][stream.next];
  const Seconds begin = start + course.first_kernel;
  const Seconds entry = stream.end;
  if (begin > entry) {
    progress_.note_gap(account, stream, state, entry, begin, stream.issued + course.first_launch);
  }
  const bool first = body.stream == StreamId::kTp;
  for (const BodyEvent& event : map.reaching) {
    progress_.note_event(account, StreamId::kMain,
                         {at, static_cast<std::int16_t>(event.kind), first, start + event.begin,
                          start + event.end, 0});
  }
  for (const BodyEvent& event : map.open) {
    account.open_events.push_back(
        {at, -1, false, start + event.begin, start + event.end, stream.issued + event.issued});
  }
  for (const auto& [kind, seconds] : map.exposed) {
    account.exposed[kind] += seconds;
  }
  if (state.records) record(state, stream, course, start);
  note(state, stream, course, start + course.main, start + course.other);
  const GivenMark* given = state.list->given.data() + item.first_given;
  for (std::uint32_t i = 0; i < item.num_given; ++i) {
    Seconds end = stream.end;
    if (given[i].op < body.num_ops) {
      end = start + course.op_end[given[i].op];
      if (item.op[given[i].op].kind != TimedKind::kCollective) end = std::max(end, entry);
    }
    progress_.reach(state, stream.step, given[i].mark, end);
  }
  ++stream.next;
}

void JointBodies::pass_timed(Cursor member, const TimedBody& body, const BodyCourse& course) {
  RankState& state = progress_.rank(member.rank);
  const StreamItem& item = progress_.item_at(member);
  StreamState& stream = state.streams[StreamId::kMain];
  note_events(member, body.stream, course);
  if (state.records) record(state, stream, course, 0);
  note(state, stream, course, course.main, course.other);
  const GivenMark* given = state.list->given.data() + item.first_given;
  for (std::uint32_t i = 0; i < item.num_given; ++i) {
    const bool inside = given[i].op < course.op_end.size();
    progress_.reach(state, stream.step, given[i].mark,
                    inside ? course.op_end[given[i].op] : stream.end);
  }
  ++main_of(member).next;
}

void JointBodies::take(Cursor member, const BodyCourse& course) {
  RankState& state = progress_.rank(member.rank);
  const TimedOp& first = *progress_.item_at(member).op;
  note_events(member, first.message == kNoIndex ? StreamId::kMain : first.stream, course);
  StreamState& stream = state.streams[StreamId::kMain];
  if (state.records) record(state, stream, course, 0);
  note(state, stream, course, course.main, course.other, first.update);
}

void JointBodies::note_events(Cursor member, StreamId other, const BodyCourse& course) {
  RankState& state = progress_.rank(member.rank);
  const StreamState& stream = state.streams[StreamId::kMain];
  StepAccount& account = state.account(stream.step);
  const std::uint32_t at = state.list->streams[StreamId::kMain][stream.next];
  for (const BodyEvent& event : course.events) {
    if (event.kind < 0) {
      progress_.note_gap(account, stream, state, event.begin, event.end,
                         stream.issued + event.issued);
    } else {
      progress_.note_event(account, StreamId::kMain,
                           {at, static_cast<std::int16_t>(event.kind), other == StreamId::kTp,
                            event.begin, event.end, 0});
    }
  }
}

void JointBodies::record(RankState& state, const StreamState& stream, const BodyCourse& course,
                         Seconds start) {
  const StreamItem& item = state.list->items[state.list->streams[StreamId::kMain][stream.next]];
  for (std::uint32_t k = 0; k < course.op_times.size(); ++k) {
    if (item.op[k].kind == TimedKind::kFree) continue;
    const BodyOpTimes& times = course.op_times[k];
    const Seconds issued = stream.issued + times.launched;
    // A mapped course knows nothing of the rank's own entry, for which the others may have waited.
    const Seconds ready = std::max(issued, k == 0 ? stream.ready : start + times.ready);
    RankProgress::record(state, stream, item, k, issued, ready, start + times.start,
                         start + course.op_end[k]);
  }
}

/// What a body comes to; its streams end at `main` and `other`.
void JointBodies::note(RankState& state, StreamState& stream, const BodyCourse& course,
                       Seconds main, Seconds other, bool update) {
  StepAccount& account = state.account(stream.step);
  (update ? account.optimizer : account.compute) += course.compute;
  account.flop += course.flop;
  account.end = std::max({account.end, main, other});
  progress_.count_events(course.num_events);
  stream.end = main;
  stream.gathered = false;
}

}  // namespace trainyard
