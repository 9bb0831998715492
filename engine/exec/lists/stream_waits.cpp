#include "engine/exec/lists/stream_waits.h"

#include <algorithm>

namespace trainyard {

StreamWaitAnalysis::StreamWaitAnalysis(const Program& program,
                                       const Indexed<ValueId, ValueId>& root)
    : program_(program),
      root_(root),
      place_(program.values.size(), -1) {}

StreamWaits StreamWaitAnalysis::find(const Segment& segment, const Indexed<ValueId, bool>& shared,
                                     StreamSet interrupted) {
  out_ = {};
  walk(segment, shared, interrupted, /*assign=*/false);
  for (const Accesses& of : accesses_) {
    if (!of.uncovered) out_.covered.push_back(of.storage);
  }
  std::sort(out_.covered.begin(), out_.covered.end());
  walk(segment, shared, interrupted, /*assign=*/true);
  for (const Accesses& of : accesses_) place_[of.storage] = -1;
  accesses_.clear();
  return std::move(out_);
}

/// First walk: which storages are covered. Second: the waits of the ops.
void StreamWaitAnalysis::walk(const Segment& segment, const Indexed<ValueId, bool>& shared,
                              StreamSet interrupted, bool assign) {
  for (Accesses& of : accesses_) of.write = of.any = kNothing;
  latest_ = kNothing;
  synced_.fill(kNothing);
  out_.of_op.assign(segment.ops.size(), 0);
  for (std::size_t k = 0; k < segment.ops.size(); ++k)
    visit(segment.ops[k], k, shared, interrupted, assign);
}

StreamWaitAnalysis::Accesses& StreamWaitAnalysis::accesses(ValueId storage) {
  std::int32_t& place = place_[storage];
  if (place < 0) {
    place = static_cast<std::int32_t>(accesses_.size());
    accesses_.emplace_back().storage = storage;
  }
  return accesses_[place];
}

void StreamWaitAnalysis::visit(const ProgramOp& op, std::size_t k,
                               const Indexed<ValueId, bool>& shared, StreamSet interrupted,
                               bool assign) {
  const StreamId stream = op.stream;
  const bool frees = op.kind == OpKind::kFree;
  bool waits = false;
  bool outside = false;  // touches what is tracked one by one
  Latest synced_now = kNothing;
  touched_.clear();
  const auto see = [&](const Operand& operand, bool writes) {
    const ValueId storage = root_[operand.value];
    if (!shared[storage]) return;
    const Value& value = program_.values[storage];
    if (value.scope != Scope::kLocal || value.pool != kNoIndex) {
      outside = true;
      return;
    }
    Accesses& a = accesses(storage);
    const Latest& needed = writes || frees ? a.any : a.write;
    for (const StreamId s : kAllStreams) {
      if (s == stream || needed[s] <= synced_[stream][s]) continue;
      waits = true;
      if (needed[s] != latest_[s] || (interrupted & stream_bit(s)) != 0) a.uncovered = true;
      if (assign && !a.uncovered) out_.of_op[k] |= stream_bit(s);
      synced_now[s] = std::max(synced_now[s], needed[s]);
    }
    touched_.push_back({storage, writes});
  };
  for (const Operand& operand : op.reads) see(operand, false);
  if (op.guard) see(*op.guard, false);
  for (const Operand& operand : op.writes) see(operand, true);
  for (const Operand& operand : op.accumulates) see(operand, true);
  for (const StreamId s : kAllStreams)
    synced_[stream][s] = std::max(synced_[stream][s], synced_now[s]);
  const auto index = static_cast<std::int32_t>(k);
  for (const auto& [storage, writes] : touched_) {
    Accesses& a = accesses(storage);
    a.any[stream] = index;
    if (writes) a.write[stream] = index;
  }
  // A free that waits for nothing leaves its stream's time as it was.
  if (!frees || waits || outside) latest_[stream] = index;
}

}  // namespace trainyard
