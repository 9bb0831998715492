// The bodies of a running Program (timed_body.h): the ranks that meet in one time their parts of it
// together, by constants where nothing but the start of its first collective matters, else op by
// op.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "engine/exec/bodies/timed_body.h"
#include "engine/exec/loop/rank_progress.h"

namespace trainyard {

class JointBodies {
 public:
  /// Both outlive the object.
  JointBodies(const RunPlan& plan, RankProgress& progress)
      : plan_(plan),
        progress_(progress),
        records_(std::find(plan.records.begin(), plan.records.end(), true) != plan.records.end()),
        known_(plan.folds.channels.size()) {}

  /// Main streams of all `members` of `channel`, ranks ascending, are at the body that is number
  /// `number` of the first one's list, `body`: takes them past it. What they are to do is one list
  /// of the Program (make_lists()), at whatever speed.
  void pass(ChannelId channel, const std::vector<Cursor>& members, std::int32_t number,
            const TimedBody& body);

  /// What a body (slowed_body.h) comes to that one rank has passed: all but marks and the step to
  /// the next item.
  void take(Cursor member, const BodyCourse& course);

 private:
  StreamState& main_of(Cursor member) {
    return progress_.rank(member.rank).streams[StreamId::kMain];
  }
  std::vector<BodyCourse> timed(ChannelId channel, const TimedBody& body) const;
  const std::vector<BodyMap>& maps(ChannelId channel, const std::vector<Cursor>& members,
                                   std::int32_t number, const TimedBody& body);
  bool are_constant(const std::vector<Cursor>& members, const std::vector<BodyMap>& maps,
                    const TimedBody& body, Seconds start);
  void pass_mapped(Cursor member, const TimedBody& body, const BodyMap& map, Seconds start);
  void pass_timed(Cursor member, const TimedBody& body, const BodyCourse& course);
  void note_events(Cursor member, StreamId other, const BodyCourse& course);
  /// Rows of a rank at the body. `start`: what the times of the course count from.
  static void record(RankState& state, const StreamState& stream, const BodyCourse& course,
                     Seconds start);
  void note(RankState& state, StreamState& stream, const BodyCourse& course, Seconds main,
            Seconds other, bool update = false);

  const RunPlan& plan_;
  RankProgress& progress_;
  bool records_;  // some ranks keep rows
  std::map<std::vector<std::int64_t>, std::vector<BodyMap>>
      all_maps_;  // by how long messages of the channel take, lists and bodies of the members
  Indexed<ChannelId, Indexed<std::int32_t, const std::vector<BodyMap>*>>
      known_;  // [body]; null: not needed so far
  std::vector<BodyEntry> entries_;
};

}  // namespace trainyard
