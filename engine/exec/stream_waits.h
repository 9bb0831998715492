// Which waits of a segment's ops come down to "the other stream's latest op".
//
// Values local to a call are the bulk of what two streams share: a collective's input and output.
// Where the op that has to have ended is the latest that its stream was given, waiting for it is
// waiting for that stream, and no time of the value itself needs keeping. Exact, not an estimate:
// storages for which it does not hold are left to be tracked one by one.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "engine/program/program.h"

namespace trainyard {

struct StreamWaits {
  std::vector<StreamSet> of_op;  // [op]: bit s: waits for the latest op of stream s
  std::vector<ValueId> covered;  // storages that need no tracking in this segment, ascending
};

class StreamWaitAnalysis {
 public:
  /// `root` [value]: its storage. Both must outlive it.
  StreamWaitAnalysis(const Program& program, const std::vector<ValueId>& root);

  /// `shared` [storage]: touched by more than one stream. `interrupted`: set of streams that other
  /// segments may be given ops on in the midst of this one (calls inside).
  StreamWaits find(const Segment& segment, const std::vector<bool>& shared, StreamSet interrupted);

 private:
  using Latest = std::array<std::int32_t, kNumStreams>;  // by stream: index of an op; -1: none
  static constexpr Latest kNothing = [] {
    Latest out{};
    out.fill(-1);
    return out;
  }();

  /// Latest accesses to one storage, by stream.
  struct Accesses {
    ValueId storage = -1;
    Latest write = kNothing, any = kNothing;
    bool uncovered = false;
  };

  void walk(const Segment& segment, const std::vector<bool>& shared, StreamSet interrupted,
            bool assign);
  void visit(const ProgramOp& op, std::size_t k, const std::vector<bool>& shared,
             StreamSet interrupted, bool assign);
  Accesses& accesses(ValueId storage);

  const Program& program_;
  const std::vector<ValueId>& root_;
  StreamWaits out_;
  std::vector<std::int32_t> place_;  // [storage]: index into accesses_; -1: none
  std::vector<Accesses> accesses_;   // of the segment
  Latest latest_ = kNothing;         // by stream: the op it was given last
  std::array<Latest, kNumStreams>
      synced_{};  // [stream][other]: op of the other known to have ended
  std::vector<std::pair<ValueId, bool>> touched_;
};

}  // namespace trainyard
