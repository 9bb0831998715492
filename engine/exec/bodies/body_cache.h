// Which ops of a segment make a body (timed_body.h) at a place of a list: from a collective to the
// last kernel such that everything but the first op waits only for what is inside, or for what was
// known when that began.
//
// The same segment is called for every microbatch, mostly in the same situation. So what was found
// once is kept, with what it asked of accesses from outside the body; where they answer the same
// again, the body is the same, and only its last accesses are noted.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/exec/bodies/timed_body.h"
#include "engine/exec/lists/issue_state.h"

namespace trainyard {

struct FoundBody {
  TimedBody body;            // num_ops 0: none can be made here
  Seconds launch = 0;        // of its ops
  std::int32_t number = -1;  // for the caller
};

class BodyCache {
 public:
  BodyCache(const TimedRank& timed, IssueState& state) : timed_(timed), state_(state) {}

  /// What the first op needs, and what is known to have ended once it is ready.
  struct Entry {
    StreamNeeds needs{};
    StreamClock known{};
    bool after_main = false;  // it waits for what main did before
  };

  /// A body at op k of segment `id`, whose ops are `ops`, which ends before op `limit`; null: none
  /// can be made. Notes its accesses and frees in the state. `needs`: of op k. Valid until the next
  /// call.
  FoundBody* find(SegmentId id, const std::vector<TimedOp>& ops, const Microbatches& mb,
                  std::size_t k, std::size_t limit, const StreamNeeds& needs);
  const Entry& entry() const { return entry_; }

  /// Whether main has come to the body when its first collective can begin, and need not wait for
  /// more before its first kernel. Where kernels slow down all is in order of time, and nothing of
  /// a body may lie before the instant at which main comes to it. Arguments as find()'s, before it.
  bool begins_with_main(const std::vector<TimedOp>& ops, std::size_t k, std::size_t limit,
                        const StreamNeeds& needs) const;

 private:
  /// What an op asks of accesses that may come from outside the body.
  struct Question {
    enum Of : std::uint8_t { kWritten, kRead, kLastFree, kMainBefore, kHostSync, kStream };
    Of of = kWritten;
    bool on_main = false;         // an op of main asks
    bool main_is_fine = false;    // it waits for main's latest op anyway, which is inside
    bool other_is_fine = false;   // main has waited for a collective inside, or does now, so that
                                  // what came before the body has ended
    std::uint8_t microbatch = 0;  // as Dependency's
    StreamSet inside = 0;         // bit s: the body has taken over what stream s did last
    std::uint32_t slot = 0;       // or the stream
    /// Equal questions have equal keys.
    std::uint64_t key() const {
      const unsigned flags = (on_main ? 1U : 0U) | (main_is_fine ? 2U : 0U) |
                             (other_is_fine ? 4U : 0U) | microbatch * 8U;
      return std::uint64_t{slot} << 32U | std::uint64_t{of} << 24U | std::uint64_t{flags} << 16U |
             inside;
    }
  };
  /// The latest access of one of the body's streams to a storage.
  struct Access {
    std::uint32_t slot = 0;
    std::uint8_t microbatch = 0;
    bool writes = false, on_main = false;
    std::uint32_t op = 0;
    friend auto operator<=>(const Access&, const Access&) = default;
  };
  enum class LastFree : std::uint8_t { kAsBefore, kMainBefore, kInside };
  struct Known {
    FoundBody found;
    std::vector<Question> questions;  // all of them answered well
    std::optional<Question> refused;  // and this one, of an op behind the body, not
    std::vector<Access> accesses;
    LastFree last_free = LastFree::kAsBefore;
    std::uint32_t last_free_op = 0;
  };

  /// What main has done in the body being tried.
  struct TrialCourse {
    bool any_main = false;      // begun something
    bool main_entered = false;  // waited for a collective
  };

  bool ask_of(const TimedOp& op, const Microbatches& mb, std::uint32_t at, TrialCourse& course,
              bool& waits_for_other);
  std::uint32_t try_ops(SegmentId id, const Microbatches& mb, std::size_t k,
                        const std::vector<TimedOp>& ops, std::size_t limit);
  bool waits_for_last(std::uint32_t at, const TimedOp& op) const;
  bool waits_for_inside(const TimedOp& op, const Microbatches& mb) const;
  bool fine(const StreamPoint& point, const Question& question) const;
  bool fine(const Question& question, const Microbatches& mb) const;
  void ask(Question question, const StreamAccesses& accesses, std::uint32_t at, bool& waits_inside);
  void ask(const Question& question, const StreamPoint& point);
  void note(const Question& question, bool is_fine);
  void see(const Dependency& d, const Microbatches& mb, bool writes, bool on_main,
           std::uint32_t at);
  void take_back();
  void enter(Known& known, const Microbatches& mb) const;

  const TimedRank& timed_;
  IssueState& state_;
  Entry entry_;
  std::map<std::tuple<SegmentId, std::size_t, std::size_t, bool>, Known>
      known_;  // segment, op, limit, after_main
  // State of the body being tried:
  StreamId stream_ = StreamId::kTp;  // of its collectives
  Known trial_;
  std::vector<std::pair<StreamAccesses*, StreamAccesses>> undo_;
};

}  // namespace trainyard
