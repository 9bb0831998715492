#include "real/parameters/parameter_layout.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "engine/base/error.h"
#include "engine/passes/plan_mesh.h"
#include "engine/program/own_extents.h"
#include "engine/program/rank_places.h"
#include "engine/sharding/mesh_slice.h"
#include "engine/sharding/spec_boxes.h"
#include "real/parameters/packed_rows.h"

namespace trainyard {

namespace {

/// Values carry the stage behind an @ where several pipeline ranks hold the weight, and behind a >
/// who reads it where it is gathered ahead.
std::string parameter_name(const std::string& value) {
  return value.substr(0, value.find_first_of("@>"));
}

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
      // So are gathered weights and casts of weights, which live for a while.
      const bool root = value.memory == MemoryClass::kParameter &&
                        value.scope == Scope::kPersistent && !value.alias;
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
        note_copy(op);
        note_gather(op);
      }
    };
    const RankClass& list = program_.body[list_at(program_, at_)];
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
    if (op.kind != OpKind::kAdamW && op.kind != OpKind::kSgd && op.kind != OpKind::kAverage) return;
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
        const auto source = source_of_.find(root);  // on NVMe
        states.push_back(source == source_of_.end() ? root : source->second);
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

  /// What has been updated elsewhere are the weights to which it is copied; what is copied from the
  /// weights is gathered.
  void note_copy(const ProgramOp& op) {
    if (op.kind != OpKind::kCopy) return;
    const ValueId from = storage_root(program_, op.reads[0].value);
    const ValueId to = storage_root(program_, op.writes[0].value);
    if (program_.values[to].scope != Scope::kPersistent) {
      source_of_[op.writes[0].value] = op.reads[0].value;
      return;
    }
    auto updated = optimizer_.find(from);
    if (const auto source = source_of_.find(from);
        updated == optimizer_.end() && source != source_of_.end())
      updated = optimizer_.find(source->second);  // by way of the host
    if (updated == optimizer_.end()) return;
    BucketState state = updated->second;
    optimizer_.erase(updated);
    state.parameter = to;
    optimizer_[state.parameter] = state;
  }

  /// What lies in shards is a bucket where it has been gathered.
  void note_gather(const ProgramOp& op) {
    if (op.kind == OpKind::kCopyOut) copied_out_[op.reads[0].value] = op.writes[0].value;
    const bool casts = op.kind == OpKind::kCast ||
                       (op.kind == OpKind::kQuantize && op.group != kNoIndex);  // to 8 bits
    if (!casts && op.kind != OpKind::kAllGather) return;
    const ValueId read = op.reads[0].value, written = op.writes[0].value;
    if (casts) {
      source_of_[written] = read;
      return;
    }
    ValueId shard = read;
    for (auto source = source_of_.find(read); source != source_of_.end();
         source = source_of_.find(shard))
      shard = source->second;
    const Value& value = program_.values[shard];
    if (value.memory == MemoryClass::kParameter && value.scope == Scope::kPersistent &&
        !value.alias)
      gathered_[shard] = {written, op.group};
  }

  void own_shard(BucketState& state, GroupId group, std::int64_t shard) const {
    const Axes& axes = program_.groups[group].axes;
    state.own_begin = place_in_group(program_.mesh, axes, at_) * shard;
    state.own_end = state.own_begin + shard;
    for (const AxisId axis : program_.groups[kDataGroup].axes)
      state.is_copy = state.is_copy || (!has(set_of(axes), axis) && at_[axis] != 0);
  }

  BucketState read(ValueId root) {
    const auto known = optimizer_.find(root);
    check(known != optimizer_.end(), "every bucket of weights is updated");
    BucketState state = known->second;
    const auto gathered = gathered_.find(root);
    const bool in_shards = gathered != gathered_.end();
    ValueId whole = in_shards ? gathered->second.first : root;
    const auto copied = copied_out_.find(whole);
    if (copied != copied_out_.end()) whole = copied->second;
    state.elements = num_elements(program_.values[whole].dims);
    state.own_end = state.elements;
    if (in_shards)
      own_shard(state, gathered->second.second, num_elements(program_.values[root].dims));
    for (const ValueId view : views_[whole]) {
      const Value& value = program_.values[view];
      if (value.owner >= 0) {
        state.owner = value.owner;
      } else if (value.alias->own_shard != kNoIndex) {
        // A gathered bucket's are pieces that stay for a backward.
        if (!in_shards) own_shard(state, value.alias->own_shard, num_elements(value.dims));
      } else if (const auto found = by_name_.find(parameter_name(value.name));
                 found != by_name_.end()) {
        const Axes apart =
            in_shards ? program_.groups[gathered->second.second].axes : shard_axes(whole);
        add_pieces(state, value, model_.parameters[found->second], apart);
      }
    }
    if (state.owner >= 0 &&
        state.owner != place_in_group(program_.mesh, program_.groups[program_.owners].axes, at_)) {
      state.own_end = 0;
      state.master = state.first_moment = state.second_moment = kNoIndex;
    }
    state.held_begin = in_shards ? state.own_begin : 0;
    state.held_end = in_shards ? state.own_end : state.elements;
    if (copied != copied_out_.end())
      state.pieces = pieces_in_shards(
          state.pieces,
          packed_runs(program_, whole, state.elements / num_elements(program_.values[root].dims)));
    std::sort(state.pieces.begin(), state.pieces.end(),
              [](const WeightPiece& a, const WeightPiece& b) { return a.offset < b.offset; });
    return state;
  }

  /// The same of a bucket that is not gathered; none: it has no shards.
  Axes shard_axes(ValueId whole) {
    for (const ValueId view : views_[whole]) {
      const GroupId shards = program_.values[view].alias->own_shard;
      if (shards != kNoIndex) return program_.groups[shards].axes;
    }
    return {};
  }

  /// `apart`: axes along which ranks have a shard each of what they all hold, and store it.
  void add_pieces(BucketState& state, const Value& value, const Parameter& parameter,
                  const Axes& apart) {
    const TensorSpec spec = spec_of(program_, value);
    const Extents whole = global_extents(spec, value.dims, mesh_slice(program_.mesh, at_));
    const std::vector<IndexRanges> held = local_ranges(spec, whole, program_.mesh, at_).value();
    const std::vector<ColumnRange> columns = column_runs(whole, held);
    const std::vector<std::int64_t> own = own_extents(program_, value, at_);
    const std::int64_t width = num_elements(Shape(own.begin(), own.end())) / own.front();
    std::vector<ParameterPart> parts(parameter.parts.begin(), parameter.parts.end());
    if (parts.empty()) parts.push_back({"", whole[0], parameter.deviation});
    WeightPiece piece;
    piece.global_columns = num_elements(parameter.shape) / parameter.shape[0];
    piece.init = parameter.init;
    piece.decay = parameter.decay;
    TensorSpec told_apart = spec;
    told_apart.dims.push_back(split_over(apart));
    piece.owned =
        value.name.find('@') == std::string::npos && first_of_copies(told_apart, program_, at_);
    const bool several = holds_weights(parameter);
    if (!several) parts = {{"", whole[0], parts.front().deviation}};
    std::int64_t begin = 0;  // of the part
    for (const ParameterPart& part : parts) {
      piece.weight = several ? part_name(parameter.name, part.name) : parameter.name;
      const std::int64_t real = several ? part.rows : parameter.shape[0];
      piece.shape = {real};
      if (parameter.shape.size() > 1) piece.shape.push_back(piece.global_columns);
      piece.deviation = part.deviation;
      std::int64_t row = 0;  // of those held
      for (const IndexRange& range : held[0]) {
        const std::int64_t first = std::max(range.begin, begin);
        const std::int64_t last = std::min(range.end, begin + part.rows);
        piece.first_row = first - begin;
        piece.rows = std::min(last, begin + real) - first;  // without padding
        piece.offset = value.alias->offset + (row + first - range.begin) * width;
        if (piece.rows > 0) add_columns(state, piece, columns, width);
        row += range.size();
      }
      begin += part.rows;
    }
    check(begin == whole[0], "the parts fill the parameter");
  }

  /// Neighbouring columns, dims behind the first as one, that a rank holds one behind the other.
  struct ColumnRange {
    std::int64_t whole = 0;  // the first of them in the whole tensor
    std::int64_t held = 0;   // and in what is held
    std::int64_t size = 1;
  };

  static std::vector<ColumnRange> column_runs(const Extents& whole,
                                              const std::vector<IndexRanges>& held) {
    std::vector<ColumnRange> runs = {ColumnRange{}};
    std::int64_t all = 1, own = 1;  // columns of the dims so far
    for (std::size_t d = whole.size(); d-- > 1;) {
      std::vector<ColumnRange> longer;
      std::int64_t at = 0;
      for (const IndexRange& range : held[d]) {
        if (own == all) {
          longer.push_back({range.begin * all, at * own, range.size() * all});
        } else {
          for (std::int64_t i = 0; i < range.size(); ++i) {
            for (const ColumnRange& run : runs)
              longer.push_back(
                  {(range.begin + i) * all + run.whole, (at + i) * own + run.held, run.size});
          }
        }
        at += range.size();
      }
      runs = std::move(longer);
      all *= whole[d];
      own *= at;
    }
    return runs;
  }

  /// Rows whose columns lie one behind the other are one piece.
  static void add_columns(BucketState& state, WeightPiece piece,
                          const std::vector<ColumnRange>& columns, std::int64_t width) {
    const bool one_run = columns.size() == 1;
    const std::int64_t first_row = piece.first_row, offset = piece.offset;
    const std::int64_t rows = std::exchange(piece.rows, one_run ? piece.rows : 1);
    for (std::int64_t r = 0; r < rows; r += piece.rows) {
      for (const ColumnRange& run : columns) {
        piece.first_row = first_row + r;
        piece.first_column = run.whole;
        piece.columns = run.size;
        piece.offset = offset + r * width + run.held;
        state.pieces.push_back(piece);
      }
    }
  }

  const Program& program_;
  const Graph& model_;
  const Coordinate& at_;
  std::unordered_map<std::string, ParameterId> by_name_;
  Indexed<ValueId, bool> used_;
  std::map<ValueId, std::vector<ValueId>> views_;  // by storage root
  std::map<ValueId, BucketState> optimizer_;       // by parameter buffer
  std::map<ValueId, ValueId> source_of_;           // by what a cast or a copy writes: what it reads
  std::map<ValueId, std::pair<ValueId, GroupId>> gathered_;  // of a shard: what, and over whom
  std::map<ValueId, ValueId> copied_out_;  // of what has been gathered: where it is used
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
