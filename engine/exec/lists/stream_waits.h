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
  std::vector<StreamSet> of_op;  // [op]: streams whose latest op it waits for
  std::vector<ValueId> covered;  // storages that need no tracking in this segment, ascending
};

class StreamWaitAnalysis {
 public:
  /// `root`: storages. Both must outlive it.
  StreamWaitAnalysis(const Program& program, const Indexed<ValueId, ValueId>& root);

  /// `shared`: touched by more than one stream. `interrupted`: set of streams that other
  /// segments may be given ops on in the midst of this one (calls inside).
  StreamWaits find(const Segment& segment, const Indexed<ValueId, bool>& shared,
                   StreamSet interrupted);

 private:
  using Latest = IndexedArray<StreamId, std::int32_t, kNumStreams>;  // index of an op; -1: none
  static constexpr Latest kNothing = [] {
    Latest out{};
    out.fill(-1);
    return out;
  }();

  /// Latest accesses to one storage, by stream.
  struct Accesses {
    ValueId storage = kNoIndex;
    Latest write = kNothing, any = kNothing;
    bool uncovered = false;
  };

  void walk(const Segment& segment, const Indexed<ValueId, bool>& shared, StreamSet interrupted,
            bool assign);
  void visit(const ProgramOp& op, std::size_t k, const Indexed<ValueId, bool>& shared,
             StreamSet interrupted, bool assign);
  Accesses& accesses(ValueId storage);

  const Program& program_;
  const Indexed<ValueId, ValueId>& root_;
  StreamWaits out_;
  Indexed<ValueId, std::int32_t> place_;      // of storages: index into accesses_; -1: none
  Indexed<std::int32_t, Accesses> accesses_;  // of the segment
  Latest latest_ = kNothing;                  // by stream: the op it was given last
  IndexedArray<StreamId, Latest, kNumStreams>
      synced_{};  // [other]: op of the other known to have ended
  std::vector<std::pair<ValueId, bool>> touched_;
};

}  // namespace trainyard
