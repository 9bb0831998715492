// Bodies and runs of a running Program whose kernels slow down (bodies/slowed_body.h): each is one
// activity of the clock, which says when something in it has ended that others wait for.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>

#include "engine/exec/bodies/joint_bodies.h"
#include "engine/exec/loop/slowdown_clock.h"

namespace trainyard {

class SlowedBodies {
 public:
  /// All outlive the object.
  SlowedBodies(const RunPlan& plan, RankProgress& progress, JointBodies& bodies,
               SlowdownClock& clock)
      : plan_(plan),
        progress_(progress),
        bodies_(bodies),
        clock_(clock) {}

  /// The main stream of a rank is at a run, or at a body with collectives of `channel`, whose
  /// members do all alike; its state says since when, and what the host has issued.
  void begin(std::int32_t call, Cursor member, const StreamItem& item, ChannelId channel);

  /// Main of the rank, an op that others wait for or the last collective has ended. Whether that
  /// was all.
  bool end_part(const Interconnect::Ending& ending);

 private:
  struct Part {
    Cursor member{};
    std::int32_t step = 0;
    std::span<const GivenMark> given;
    Seconds reached = 0;  // marks of which ends are
    bool on_main = false;
  };
  const SlowedSteps& steps_of(const StreamItem& item, const TimedBody* body);

  const RunPlan& plan_;
  RankProgress& progress_;
  JointBodies& bodies_;
  SlowdownClock& clock_;
  Indexed<std::int32_t, Part> parts_;                   // [call]
  std::unordered_map<const void*, SlowedSteps> steps_;  // of bodies and runs of lists
};

}  // namespace trainyard
