#include "real/parameters/parameter_layout.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "engine/base/error.h"

namespace trainyard {

namespace {

/// Values carry the stage behind an @ where several pipeline ranks hold the weight.
std::string without_stage(const std::string& value) { return value.substr(0, value.find('@')); }

class BucketReader {
 public:
  BucketReader(const Program& program, const Graph& model, const Coordinate& at)
      : program_(program),
        model_(model),
        at_(at) {
    for (const ParameterId i : model.parameters.keys()) by_name_[model.parameters[i].name] = i;
  }

  std::vector<BucketState> run() {
    find_used();
    std::vector<BucketState> out;
    for (const ValueId v : program_.values.keys()) {
      const Value& value = program_.values[v];
      const bool root = value.memory == MemoryClass::kParameter && !value.alias;
      if (root && used_[v]) out.push_back(read(v));
    }
    return out;
  }

 private:
  /// Values that this rank's calls touch, and all that lie in the same storage.
  void find_used() {
    used_.assign(program_.values.size(), false);
    Indexed<ValueId, bool> roots(program_.values.size(), false);
    const auto touch = [&](const Operands& operands) {
      for (const Operand& operand : operands) {
        roots[storage_root(program_, operand.value)] = true;
      }
    };
    const auto visit = [&](SegmentId id) {
      for (const ProgramOp& op : program_.segments[id].ops) {
        touch(op.reads), touch(op.writes), touch(op.accumulates);
        note_optimizer(op);
      }
    };
    const AxisId stages = stage_axis(program_.mesh);
    const RankClass& list = program_.body[stages == kNoAxis ? 0 : position(at_[stages])];
    for (const Call& call : list.calls) {
      visit(call.segment);
      for (const auto& [place, segment] : call.inside) visit(segment);
    }
    for (const ValueId v : used_.keys()) {
      const auto id = v;
      used_[v] = roots[storage_root(program_, id)];
      if (used_[v] && program_.values[v].alias) views_[storage_root(program_, id)].push_back(id);
    }
  }

  /// An optimizer op names what belongs together: gradient read, state and weights changed.
  void note_optimizer(const ProgramOp& op) {
    if (op.kind != OpKind::kAdamW && op.kind != OpKind::kSgd) return;
    BucketState state;
    state.gradient = storage_root(program_, op.reads.back().value);
    Operands changed = op.accumulates;
    changed.insert(changed.end(), op.writes.begin(), op.writes.end());
    std::vector<ValueId> states;
    for (const Operand& operand : changed) {
      const ValueId root = storage_root(program_, operand.value);
      const Value& value = program_.values[root];
      if (value.memory == MemoryClass::kParameter) {
        state.parameter = root;
      } else {
        states.push_back(root);
      }
    }
    // In this order, each only where it exists: master weights, first and second moment.
    const std::size_t moments = op.kind == OpKind::kAdamW ? 2 : 0;
    check(states.size() >= moments, "AdamW has two moments");
    if (states.size() > moments) state.master = states.front();
    if (moments == 2)
      state.first_moment = states[states.size() - 2], state.second_moment = states.back();
    optimizer_[state.parameter] = state;
  }

  BucketState read(ValueId root) {
    const auto known = optimizer_.find(root);
    check(known != optimizer_.end(), "every bucket of weights is updated");
    BucketState state = known->second;
    state.elements = num_elements(program_.values[root].dims);
    state.own_end = state.elements;
    for (const ValueId view : views_[root]) {
      const Value& value = program_.values[view];
      if (value.owner >= 0) {
        state.owner = value.owner;
      } else if (value.alias->own_shard != kNoIndex) {
        const std::int64_t shard = num_elements(value.dims);
        const Group& group = program_.groups[value.alias->own_shard];
        state.own_begin = place_in_group(program_.mesh, group.axes, at_) * shard;
        state.own_end = state.own_begin + shard;
      } else if (const auto found = by_name_.find(without_stage(value.name));
                 found != by_name_.end()) {
        add_pieces(state, value, model_.parameters[found->second]);
      }
    }
    if (state.owner >= 0 &&
        state.owner != place_in_group(program_.mesh, program_.groups[program_.owners].axes, at_)) {
      state.own_end = 0;
      state.master = state.first_moment = state.second_moment = kNoIndex;
    }
    std::sort(state.pieces.begin(), state.pieces.end(),
              [](const WeightPiece& a, const WeightPiece& b) { return a.offset < b.offset; });
    return state;
  }

  void add_pieces(BucketState& state, const Value& value, const Parameter& parameter) {
    const std::int64_t local_rows = value.dims[0].expected;
    const std::int64_t columns = num_elements(value.dims) / local_rows;
    const TensorSpec spec = spec_of(program_, value);
    const std::int64_t degree = global_extent(spec, 0, 1, program_.mesh);
    std::vector<ParameterPart> parts(parameter.parts.begin(), parameter.parts.end());
    if (parts.empty()) parts.push_back({"", parameter.padded[0], parameter.deviation});
    std::int64_t offset = value.alias->offset;
    for (const ParameterPart& part : parts) {
      WeightPiece piece;
      piece.weight =
          parameter.parts.empty() ? parameter.name : part_name(parameter.name, part.name);
      const std::int64_t rows = part.rows / degree;  // with padding
      const std::int64_t real = parameter.parts.empty() ? parameter.shape[0] : part.rows;
      piece.shape = {real};
      piece.global_columns = num_elements(parameter.shape) / parameter.shape[0];
      if (parameter.shape.size() > 1) piece.shape.push_back(piece.global_columns);
      piece.first_row = shard_start(spec, 0, rows, program_.mesh, at_);
      piece.first_column =
          value.dims.size() > 1 ? shard_start(spec, 1, columns, program_.mesh, at_) : 0;
      piece.rows = std::clamp<std::int64_t>(real - piece.first_row, 0, rows);
      piece.columns = columns;
      piece.offset = offset;
      piece.init = parameter.init;
      piece.deviation = part.deviation;
      piece.decay = parameter.decay;
      piece.owned =
          value.name.find('@') == std::string::npos && first_of_copies(spec, program_.mesh, at_);
      offset += rows * columns;
      if (piece.rows > 0) state.pieces.push_back(std::move(piece));
    }
    check(offset - value.alias->offset == local_rows * columns, "the parts fill the parameter");
  }

  const Program& program_;
  const Graph& model_;
  const Coordinate& at_;
  std::unordered_map<std::string, ParameterId> by_name_;
  Indexed<ValueId, bool> used_;
  std::map<ValueId, std::vector<ValueId>> views_;  // by storage root
  std::map<ValueId, BucketState> optimizer_;       // by parameter buffer
};

}  // namespace

std::vector<BucketState> bucket_states(const Program& program, const Graph& model,
                                       const Coordinate& at) {
  return BucketReader(program, model, at).run();
}

std::string part_name(const std::string& parameter, const std::string& part) {
  const std::size_t leaf = parameter.rfind('.');
  const std::size_t module = parameter.rfind('.', leaf - 1);
  return parameter.substr(0, module + 1) + part + parameter.substr(leaf);
}

}  // namespace trainyard
