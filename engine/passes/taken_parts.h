// What one Program takes of another: the values that some pipeline ranks touch, and ops that name
// them and the tables by their new numbers.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "engine/program/program.h"

namespace trainyard {

class TakenParts {
 public:
  /// Adds the values of the pipeline ranks `ranks` to `out`, which has the groups already. What
  /// another Program has a value or a pool of that name for gets the mesh's ranks behind it.
  TakenParts(const Program& from, const std::set<std::int32_t>& ranks, Program& out);

  /// The same op there; a send's or receive's transfer is the caller's.
  ProgramOp op(const ProgramOp& of);

 private:
  void take_value(ValueId id);
  GroupId group(GroupId of);
  std::string free_name(const std::string& name, bool taken) const;

  const Program* from_;
  Program* out_;
  Indexed<ValueId, ValueId> values_;
  Indexed<PoolId, PoolId> pools_;
  Indexed<AttrId, AttrId> attrs_;
  Indexed<PathId, PathId> modules_;
};

}  // namespace trainyard
