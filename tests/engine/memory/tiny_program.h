// Programs of a few values, for peaks that are derived by hand.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/program/program.h"

namespace trainyard {

/// A Program written value by value and op by op; sizes in bytes.
struct TinyProgram {
  Program program;

  ValueId add(const std::string& name, std::int64_t bytes, Scope scope,
              MemoryClass memory = MemoryClass::kActivation) {
    Value v;
    v.name = name;
    v.dims = {Dim{bytes, bytes, -1}};
    v.dtype = DType::kUint8;
    v.scope = scope;
    v.memory = memory;
    program.values.push_back(v);
    return ValueId(program.values.size() - 1);
  }
  ValueId view(const std::string& name, ValueId of, std::int64_t bytes) {
    const ValueId id = add(name, bytes, program.values[of].scope);
    program.values.back().alias = Alias{of, 0, kNoIndex};
    return id;
  }
  SegmentId segment(const std::string& name, std::vector<ProgramOp> ops) {
    Segment s;
    s.name = name;
    s.ops = std::move(ops);
    program.segments.push_back(std::move(s));
    return SegmentId(program.segments.size() - 1);
  }
  void list(const std::vector<std::pair<SegmentId, Microbatch>>& calls) {
    RankClass& rank = program.body.emplace_back();
    for (const auto& [segment, mb] : calls) {
      Call call;
      call.segment = segment;
      call.mb = {mb, -1};
      rank.calls.push_back(call);
    }
  }
};

inline ProgramOp op(const std::vector<ValueId>& reads, const std::vector<ValueId>& writes) {
  ProgramOp out;
  for (const ValueId id : reads) out.reads.push_back({id, 0});
  for (const ValueId id : writes) out.writes.push_back({id, 0});
  return out;
}

inline ProgramOp free_of(const std::vector<ValueId>& values) {
  ProgramOp out = op(values, {});
  out.kind = OpKind::kFree;
  return out;
}

}  // namespace trainyard
