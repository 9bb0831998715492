#include "engine/exec/stream_waits.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace trainyard {

namespace {

using Latest = std::array<std::int32_t, kNumStreams>;  // by stream: index of an op; -1: none
constexpr Latest kNothing = [] {
  Latest latest{};
  for (std::int32_t& op : latest) op = -1;
  return latest;
}();

/// Latest accesses to one storage, by stream.
struct Accesses {
  Latest write = kNothing;
  Latest any = kNothing;
};

class WaitFinder {
 public:
  WaitFinder(const Program& program, const Segment& segment, const std::vector<ValueId>& root,
             const std::vector<bool>& shared, std::uint8_t interrupted)
      : program_(program), segment_(segment), root_(root), shared_(shared), interrupted_(interrupted) {}

  StreamWaits run() {
    walk(/*assign=*/false);
    walk(/*assign=*/true);
    std::sort(out_.covered.begin(), out_.covered.end());
    return std::move(out_);
  }

 private:
  bool candidate(ValueId storage) const {
    const Value& value = program_.values[static_cast<std::size_t>(storage)];
    return shared_[static_cast<std::size_t>(storage)] && value.scope == Scope::kLocal && value.pool < 0;
  }

  /// First walk: which candidates are covered. Second: the waits of the ops.
  void walk(bool assign) {
    accesses_.clear();
    latest_ = kNothing;
    for (Latest& known : synced_) known = kNothing;
    out_.of_op.assign(segment_.ops.size(), 0);
    for (std::size_t k = 0; k < segment_.ops.size(); ++k) visit(k, assign);
    if (assign) return;
    for (const auto& [storage, accesses] : accesses_) {
      if (!uncovered_.contains(storage)) out_.covered.push_back(storage);
    }
  }

  void visit(std::size_t k, bool assign) {
    const ProgramOp& op = segment_.ops[k];
    const auto stream = static_cast<std::size_t>(op.stream);
    const bool frees = op.kind == OpKind::kFree;
    bool waits = false;
    bool outside = false;  // touches what is tracked one by one
    const auto see = [&](const Operand& operand, bool writes) {
      const ValueId storage = root_[static_cast<std::size_t>(operand.value)];
      if (!candidate(storage)) {
        outside = outside || shared_[static_cast<std::size_t>(storage)];
        return;
      }
      Accesses& a = accesses_[storage];
      const Latest& needed = writes || frees ? a.any : a.write;
      for (std::size_t s = 0; s < kNumStreams; ++s) {
        if (s == stream || needed[s] <= synced_[stream][s]) continue;
        waits = true;
        if (needed[s] != latest_[s] || (interrupted_ >> s & 1U) != 0) uncovered_.insert(storage);
        if (assign && !uncovered_.contains(storage)) out_.of_op[k] |= static_cast<std::uint8_t>(1U << s);
        synced_now_[s] = std::max(synced_now_[s], needed[s]);
      }
      touched_.push_back({storage, writes});
    };
    synced_now_ = kNothing;
    touched_.clear();
    for (const Operand& operand : op.reads) see(operand, false);
    if (op.guard) see(*op.guard, false);
    for (const Operand& operand : op.writes) see(operand, true);
    for (const Operand& operand : op.accumulates) see(operand, true);
    for (std::size_t s = 0; s < kNumStreams; ++s) {
      synced_[stream][s] = std::max(synced_[stream][s], synced_now_[s]);
    }
    const auto index = static_cast<std::int32_t>(k);
    for (const auto& [storage, writes] : touched_) {
      Accesses& a = accesses_[storage];
      a.any[stream] = index;
      if (writes) a.write[stream] = index;
    }
    // A free that waits for nothing leaves its stream's time as it was.
    if (!frees || waits || outside) latest_[stream] = index;
  }

  const Program& program_;
  const Segment& segment_;
  const std::vector<ValueId>& root_;
  const std::vector<bool>& shared_;
  std::uint8_t interrupted_;
  StreamWaits out_;
  std::unordered_map<ValueId, Accesses> accesses_;
  std::unordered_set<ValueId> uncovered_;
  Latest latest_ = kNothing;                     // by stream: the op it was given last
  std::array<Latest, kNumStreams> synced_{};     // [stream][other]: op of the other known to have ended
  Latest synced_now_ = kNothing;
  std::vector<std::pair<ValueId, bool>> touched_;
};

}  // namespace

StreamWaits find_stream_waits(const Program& program, const Segment& segment,
                              const std::vector<ValueId>& root, const std::vector<bool>& shared,
                              std::uint8_t interrupted) {
  return WaitFinder(program, segment, root, shared, interrupted).run();
}

}  // namespace trainyard
