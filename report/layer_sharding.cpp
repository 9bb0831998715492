#include "report/layer_sharding.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/base/format.h"
#include "engine/base/readable.h"
#include "engine/program/mesh_slices.h"
#include "engine/sharding/spec_text.h"

namespace trainyard {

namespace {

class LayerReader {
 public:
  LayerReader(const Program& program, const Graph& model) : program_(program) {
    find_gathers();
    for (const Op& op : model.ops) {
      if (op.layer == out_.layer) modules_.insert(model.modules[op.module]);
    }
    if (modules_.empty()) return;
    // "decoder.layers.0.": what all of its modules begin with.
    const std::string &first = *modules_.begin(), &last = *modules_.rbegin();
    const auto differ = std::mismatch(first.begin(), first.end(), last.begin(), last.end()).first;
    const std::string common(first.begin(), differ);
    out_.path = common == first ? first + "." : common.substr(0, common.rfind('.') + 1);
  }

  LayerSharding run() {
    std::int32_t pipeline_rank = 0;  // of the layer
    for (const SegmentId id : program_.segments.keys()) {
      const Segment& segment = program_.segments[id];
      if (segment.phase != Phase::kForward || segment.slots != 1) continue;
      pipeline_rank = slices_.rank_of_segment[id];
      for (std::size_t k = 0; k < segment.ops.size(); ++k) {
        if (is_of_layer(segment.ops[k])) add(segment, k);
      }
      if (!out_.rows.empty()) break;
    }
    const DeviceMesh& mesh = program_.mesh;
    for (const AxisId axis : mesh.axis_ids()) {
      if (!mesh.axes[axis].stages)
        out_.mesh.push_back({mesh.axis_name(axis), mesh.size(axis, pipeline_rank)});
    }
    return std::move(out_);
  }

 private:
  const Value& value(const Operand& operand) const { return program_.values[operand.value]; }

  bool is_of_layer(const ProgramOp& op) const {
    return op.kind != OpKind::kFree && modules_.contains(program_.modules[op.module]);
  }

  std::string short_name(const std::string& name) const {
    return name.starts_with(out_.path) ? name.substr(out_.path.size()) : name;
  }

  void add_row(std::string op, const Value& of, std::string group, std::string why) {
    out_.rows.push_back({std::move(op), short_name(of.name),
                         to_text(spec_of(program_, of), program_.mesh), size_in_bytes(of),
                         std::move(group), std::move(why)});
  }

  /// What ZeRO-3 gathers, and of what: ranks keep parts of the parameters that lie in it.
  struct Gather {
    const ProgramOp* op = nullptr;
    std::int64_t parameters = 0;
  };

  void find_gathers() {
    for (const Segment& segment : program_.segments) {
      for (const ProgramOp& op : segment.ops) {
        for (const Operand& written : op.writes)
          makers_.try_emplace(storage_root(program_, written.value), &op);
      }
    }
    for (const auto& [root, op] : makers_) {
      const Value& whole = program_.values[root];
      if (whole.memory != MemoryClass::kParameter || whole.scope == Scope::kPersistent) continue;
      const ProgramOp* gather = op;
      if (op->kind == OpKind::kCopyOut) gather = maker(op->reads[0].value);
      if (gather != nullptr && gather->kind == OpKind::kAllGather) gathers_[root].op = gather;
    }
    for (const ValueId v : program_.values.keys()) {
      const ValueId root = storage_root(program_, v);
      const auto found = gathers_.find(root);
      if (found != gathers_.end() && root != v) ++found->second.parameters;
    }
  }

  const ProgramOp* maker(ValueId value) const {
    const auto found = makers_.find(storage_root(program_, value));
    return found == makers_.end() ? nullptr : found->second;
  }

  /// The persistent value of which casts and copies have made what is gathered.
  const Value& kept(const Gather& gather) const {
    ValueId from = gather.op->reads[0].value;
    for (int step = 0; step < kMostSteps; ++step) {
      if (program_.values[storage_root(program_, from)].scope == Scope::kPersistent) break;
      const ProgramOp* op = maker(from);
      if (op == nullptr || op->reads.empty()) break;
      from = op->reads[0].value;
    }
    return program_.values[from];
  }

  static std::string place_words(Space space) {
    switch (space) {
      case Space::kHost: return ", in the host's memory";
      case Space::kNvme: return ", on the host's drives";
      default: return "";
    }
  }

  void add_gather(ValueId root) {
    const Gather& gather = gathers_.at(root);
    const Group& group = program_.groups[gather.op->group];
    const std::string of =
        gather.parameters > 1 ? plural(gather.parameters, "parameter") : "the parameter";
    const Value& part = kept(gather);
    add_row("parameter", part, "",
            "the 1/" +
                std::to_string(group_size(program_.mesh, group.axes, slices_.rank_of_value[root])) +
                " that a rank keeps of " + of + place_words(part.space));
    add_row(op_name(gather.op->kind, gather.op->part), program_.values[root], group.name,
            of + (gather.parameters > 1 ? " are" : " is") + " read whole");
  }

  void add(const Segment& segment, std::size_t k) {
    const ProgramOp& op = segment.ops[k];
    for (const Operand& read : op.reads) {
      const bool parameter = value(read).memory == MemoryClass::kParameter;
      if (!parameter || !seen_.insert(value(read).name).second) continue;
      const ValueId root = storage_root(program_, read.value);
      const bool gathered = gathers_.contains(root);
      if (gathered && seen_.insert(program_.values[root].name + ".gather").second) add_gather(root);
      add_row("parameter", value(read), "",
              gathered && root != read.value ? "part of " + program_.values[root].name : "");
    }
    for (const Operand& written : op.writes) {
      add_row(op_name(op.kind, op.part), value(written),
              is_collective(op.kind) ? program_.groups[op.group].name : "", why(segment, k));
    }
  }

  /// What a move is for, "" of other ops: summands are added up for whoever reads them next; all
  /// else is moved for its reader.
  std::string why(const Segment& segment, std::size_t k) const {
    const ProgramOp& op = segment.ops[k];
    switch (op.kind) {
      case OpKind::kAllReduce:
      case OpKind::kReduceScatter:
      case OpKind::kReduce:
        return (program_.attrs[op.attrs].maximum ? "finds the largest of "
                                                 : "adds up the summands of ") +
               short_name(program_.modules[op.module]);
      case OpKind::kEnterTensor:
        return reader_of(segment, k) + " is split: each rank has a summand of the gradient";
      case OpKind::kAllGather:
        return reader_of(segment, k) +
               (is_whole(op) ? " reads all of it" : " reads what the group has of it");
      case OpKind::kSlice: return reader_of(segment, k) + " reads its part of it";
      case OpKind::kAllToAll: return reader_of(segment, k) + " reads it split otherwise";
      case OpKind::kPad:
      case OpKind::kKeepOnOne: return reader_of(segment, k) + " takes it as a summand";
      case OpKind::kBroadcast: return reader_of(segment, k) + " reads what one rank has";
      case OpKind::kRingShift: return reader_of(segment, k) + " meets those of the rank before";
      default: return "";
    }
  }

  /// Whether nothing splits any more the dim that is gathered.
  bool is_whole(const ProgramOp& op) const {
    const int dim = program_.attrs[op.attrs].dim;
    return dim < 0 || !is_split(spec_of(program_, value(op.writes[0])).dims.begin()[dim]);
  }

  std::string reader_of(const Segment& segment, std::size_t k) const {
    const ValueId made = segment.ops[k].writes[0].value;
    for (std::size_t i = k + 1; i < segment.ops.size(); ++i) {
      const ProgramOp& op = segment.ops[i];
      const bool reads = std::any_of(op.reads.begin(), op.reads.end(),
                                     [&](const Operand& read) { return read.value == made; });
      if (!reads || op.kind == OpKind::kFree) continue;
      // Ops of the layer itself add up what its modules make.
      const std::string& module = program_.modules[op.module];
      return module + "." == out_.path ? std::string(op_name(op.kind, op.part))
                                       : short_name(module);
    }
    return "a later op";
  }

  const Program& program_;
  const MeshSlices slices_ = mesh_slices(program_);
  std::set<std::string> modules_;
  std::set<std::string> seen_;  // parameters, and what they are gathered in
  static constexpr int kMostSteps = 8;
  std::map<ValueId, const ProgramOp*> makers_;  // of storage roots, the first
  std::map<ValueId, Gather> gathers_;           // of storage roots
  LayerSharding out_;
};

std::size_t widest(const LayerSharding& layer, std::string LayerSharding::Row::*column) {
  std::size_t width = 0;
  for (const auto& row : layer.rows) width = std::max(width, (row.*column).size());
  return width;
}

}  // namespace

LayerSharding layer_sharding(const Program& program, const Graph& model) {
  return LayerReader(program, model).run();
}

std::string layer_sharding_text(const LayerSharding& layer) {
  using Row = LayerSharding::Row;
  std::string text = "layer " + std::to_string(layer.layer) + " (" + layer.path +
                     "), forward: what a rank holds of each tensor\n";
  const auto width = [&](std::string Row::*column) {
    return static_cast<int>(widest(layer, column));
  };
  for (const Row& row : layer.rows) {
    text += format("  %-*s  %-*s  %-*s  %10s", width(&Row::op), row.op.c_str(), width(&Row::tensor),
                   row.tensor.c_str(), width(&Row::spec), row.spec.c_str(),
                   bytes_text(row.bytes).c_str());
    if (!row.group.empty()) text += " over " + row.group;
    if (!row.why.empty()) text += (row.group.empty() ? "  " : ": ") + row.why;
    text += '\n';
  }
  return text;
}

nlohmann::ordered_json layer_sharding_json(const LayerSharding& layer) {
  nlohmann::ordered_json out = {{"layer", layer.layer}, {"path", layer.path}};
  out["tensors"] = nlohmann::ordered_json::array();
  for (const auto& row : layer.rows) {
    nlohmann::ordered_json one = {
        {"op", row.op}, {"tensor", row.tensor}, {"spec", row.spec}, {"bytes", row.bytes}};
    if (!row.group.empty()) one["group"] = row.group;
    if (!row.why.empty()) one["why"] = row.why;
    out["tensors"].push_back(std::move(one));
  }
  out["mesh"] = nlohmann::ordered_json::array();
  for (const auto& axis : layer.mesh)
    out["mesh"].push_back({{"axis", axis.name}, {"ranks", axis.ranks}});
  if (layer.groups.empty()) return out;
  for (const auto& group : layer.groups) {
    out["groups"].push_back({{"name", group.name},
                             {"ranks", group.ranks},
                             {"link", group.link},
                             {"bytes_per_s", group.each}});
  }
  return out;
}

}  // namespace trainyard
