// Sends and receives of pipeline ranks that have tensor degrees of their own: the pieces of
// degree_pieces.h as ops.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/passes/degree_pieces.h"
#include "engine/passes/transfer_ends.h"
#include "engine/program/program.h"

namespace trainyard {

class DegreeTransfers {
 public:
  /// `of_rank`: [pipeline rank], its degree's Program, whose ops and values `out` has taken. Ranks
  /// along `axis` are told apart. All outlive this.
  DegreeTransfers(const Numbered<const Program*>& of_rank, AxisId axis, Program& out)
      : of_rank_(of_rank),
        axis_(axis),
        out_(out) {}

  std::int32_t degree(const Program& program) const {
    return axis_ < program.mesh.num_axes() ? program.mesh.size(axis_) : 1;
  }

  /// What the rank at `place` along the axis sends or receives of a tensor; `joins`: what makes one
  /// value of it, right before it is read. `op`: the end as `out` has it, of whole tensors.
  void add_pieces(const TransferEnd& end, const ProgramOp& op, std::int32_t place,
                  std::vector<ProgramOp>& ops, std::vector<ProgramOp>& joins);

  /// Whether an op adds up, rank by rank, what pipeline ranks share.
  bool is_shared_sum(const Program& program, const ProgramOp& op) const;

  /// In its place, of two pipeline ranks: each sends the other what that has of its gradient, and
  /// adds what comes. `end`: where it stands; `op`: as `out` has it.
  void add_exchange(const TransferEnd& end, const ProgramOp& op, std::int32_t place,
                    std::vector<ProgramOp>& ops);

  /// Why a tensor cannot be sent so; nullopt: all can.
  const std::optional<Infeasible>& problem() const { return problem_; }

 private:
  struct Ends {
    std::vector<DegreePiece> pieces;
    DegreeRuns own;  // what each rank of this end has; empty: the same as the other's, whole
  };
  const Program& program_at(const TransferEnd& end) const { return *of_rank_[end.pipeline_rank]; }
  const std::map<TransferEnd, TransferEnd>& ends_of(const Program& program);
  Ends pieces_of(const TransferEnd& end, bool sends);
  std::vector<ProgramOp> moves(const Ends& ends, bool sends, const ProgramOp& op,
                               std::int32_t offset, std::int32_t place, ProgramOp& join);
  const ProgramOp* shared_sum_at(std::int32_t pipeline_rank, const std::string& group,
                                 const ProgramOp* like) const;
  DegreeRuns runs(const Program& program, const Value& value);
  bool is_one_weight(const Program& program, ValueId gradient) const;
  ValueId view(ValueId whole, const IndexRange& range, const char* how);
  ValueId value_of_other(ValueId own);
  void refuse(std::string reason);

  const Numbered<const Program*>& of_rank_;
  const AxisId axis_;
  Program& out_;
  std::map<const Program*, std::map<TransferEnd, TransferEnd>> ends_;
  std::map<std::tuple<ValueId, std::string, std::int64_t, std::int64_t>, ValueId> views_;
  std::map<ValueId, ValueId> of_other_;
  std::optional<Infeasible> problem_;
};

}  // namespace trainyard
