#include "engine/program/verify_specs.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "engine/graph/op_parameters.h"
#include "engine/graph/op_space.h"
#include "engine/graph/op_table.h"
#include "engine/program/dim_cuts.h"
#include "engine/program/mesh_slices.h"
#include "engine/program/op_tensors.h"
#include "engine/program/spec_moves.h"
#include "engine/program/spec_steps.h"
#include "engine/program/spec_uses.h"
#include "engine/program/unseen_operands.h"
#include "engine/program/violation.h"
#include "engine/sharding/spec_boxes.h"
#include "engine/sharding/uneven_pieces.h"

namespace trainyard {

namespace {

using Problem = std::optional<std::string>;

bool is_backward(Phase phase) {
  return phase == Phase::kBackward || phase == Phase::kBackwardInput ||
         phase == Phase::kBackwardWeight;
}

/// The parts of a weight's or a bias's rows, which are cut alike: how index spaces write them.
std::string rows_of(const TensorSpec& weight, const DeviceMesh& mesh) {
  const DimSplit& rows = weight.dims[0];
  if (rows.parts.size() < 2) return "o";
  const auto fewest = std::min_element(
      rows.parts.begin(), rows.parts.end(),
      [](const DimPart& a, const DimPart& b) { return a.axes.size() < b.axes.size(); });
  std::string text;
  for (std::size_t p = 0; p < rows.parts.size(); ++p) {
    // A rank sees one of the index that all parts have, and what of the part lies in it.
    const DimPart& part = rows.parts[p];
    const std::int64_t local = piece_sizes(part, 0, mesh).most;
    text += (p == 0 ? "[o=1 u" : " | o u") + std::to_string(p) + "=" + std::to_string(local);
    if (part.axes.size() == fewest->axes.size()) text += "!";
  }
  return text + "]";
}

class SpecChecks {
 public:
  explicit SpecChecks(const Program& program) : program_(program), whole_(kMostDims + 1) {
    for (std::size_t dims = 0; dims < whole_.size(); ++dims) whole_[dims] = replicated_spec(dims);
  }

  void run() {
    find_constants();
    find_forms();
    check_views();
    for (const SegmentId id : program_.segments.keys()) {
      const Segment& segment = program_.segments[id];
      pipeline_rank_ = slices_.rank_of_segment[id];
      for (std::size_t k = 0; k < segment.ops.size(); ++k) {
        const ProgramOp& op = segment.ops[k];
        if (op.kind == OpKind::kFree || op.kind == OpKind::kZero || is_transfer(op.kind)) continue;
        // What backward adds up, joins or takes apart are gradients, of which E and R are one; what
        // it does again of the forward has been looked at there.
        const bool of_gradients = op.part == OpPart::kForward && is_backward(segment.phase);
        if (!first_time(op, of_gradients)) continue;
        if (const Problem problem = problem_of(op, of_gradients))
          fail("segment ", segment.name, " op ", std::to_string(k), ": ", op_name(op.kind, op.part),
               op.module == PathId(0) ? "" : " (" + program_.modules[op.module] + ")", ": ",
               *problem);
      }
    }
  }

 private:
  const TensorSpec& spec(const Value& value) const {
    return value.spec == kNoIndex ? whole_[value.dims.size()] : program_.specs[value.spec];
  }

  const DeviceMesh& mesh() const { return slices_.of_rank[pipeline_rank_]; }

  // --- what repeats is looked at once ---

  static void add(std::string& key, std::int64_t number) {
    key.append(reinterpret_cast<const char*>(&number), sizeof number);
  }

  /// What is loaded, and what is made of nothing else: no gradient flows to it. A value that
  /// arrives from another stage is named after the one that was sent.
  void find_constants() {
    constant_.assign(program_.values.size(), false);
    std::unordered_set<std::string> names;
    const auto note = [&](ValueId id) {
      const std::string& name = program_.values[id].name;
      constant_[id] = true;
      names.insert(name);
    };
    // Transfers stand behind what reads them: once more for each stage that passes something on.
    std::size_t before = 0;
    do {
      before = names.size();
      find_constants_once(names, note);
    } while (names.size() != before);
  }

  template <typename Note>
  void find_constants_once(const std::unordered_set<std::string>& names, const Note& note) const {
    for (const Segment& segment : program_.segments) {
      for (const ProgramOp& op : segment.ops) {
        const bool of_constants =
            !op.reads.empty() && op.accumulates.empty() &&
            std::all_of(op.reads.begin(), op.reads.end(),
                        [&](const Operand& read) { return constant_[read.value]; });
        for (const Operand& written : op.writes) {
          const std::string& name = program_.values[written.value].name;
          const bool arrives =
              op.kind == OpKind::kRecv && names.contains(name.substr(0, name.rfind('@')));
          if (op.kind == OpKind::kLoad || of_constants || arrives) note(written.value);
        }
      }
    }
  }

  /// All of a value that the checks of an op depend on, as a number.
  void find_forms() {
    std::unordered_map<std::string, std::int32_t> known;
    std::string key;
    form_.reserve(program_.values.size());
    for (const Value& value : program_.values) {
      key.clear();
      add(key, value.spec.number());
      add(key, position(value.dtype) << 2 | (is_stored(value) ? 2 : 0) |
                   (constant_[ValueId(form_.size())] ? 1 : 0));
      for (const Dim& dim : value.dims) add(key, dim.expected);
      pipeline_rank_ = slices_.rank_of_value[ValueId(form_.size())];
      add(key, pipeline_rank_);
      const auto [it, fresh] = known.try_emplace(key, static_cast<std::int32_t>(known.size()));
      if (fresh) check_local(value);
      form_.push_back(it->second);
    }
  }

  bool first_time(const ProgramOp& op, bool of_gradients) {
    key_.clear();
    add(key_, of_gradients);
    add(key_, pipeline_rank_);
    add(key_, static_cast<std::int64_t>(op.kind) << 8 | static_cast<std::int64_t>(op.part));
    add(key_, op.attrs.number());
    add(key_, op.group.number());
    for (const auto* operands : {&op.reads, &op.writes, &op.accumulates}) {
      add(key_, -1);
      for (const Operand& operand : *operands) add(key_, form_[operand.value]);
    }
    if (seen_.contains(key_)) return false;
    seen_.insert(key_);
    return true;
  }

  // --- values ---

  /// Dims whose extent the spec says have as much of it as some rank has.
  void check_local(const Value& value) const {
    if (value.spec == kNoIndex) return;
    const TensorSpec& of = program_.specs[value.spec];
    if (of.dims.size() != value.dims.size())
      fail("value ", value.name, ": its spec has ", std::to_string(of.dims.size()), " dims");
    for (std::size_t d = 0; d < of.dims.size(); ++d) {
      const DimSplit& split = of.dims[d];
      if (split.parts.front().count == 0) continue;
      if (!some_rank_has(split, counted_extent(split), value.dims[d].expected))
        fail("value ", value.name, ": no rank has ", std::to_string(value.dims[d].expected),
             " elements of its dim ", std::to_string(d));
    }
  }

  bool some_rank_has(const DimSplit& split, std::int64_t extent, std::int64_t local) const {
    const Axes axes = axes_of(axes_in(split));
    Coordinate at = uniform_coordinate(mesh(), 0);
    const std::int64_t ranks = group_size(mesh(), axes);
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      std::int64_t left = rank;
      for (const AxisId axis : axes) {
        at.begin()[axis] = static_cast<std::int32_t>(left % mesh().size(axis));
        left /= mesh().size(axis);
      }
      std::int64_t here = 0;
      for (const IndexRange& range : dim_ranges(split, extent, mesh(), at)) here += range.size();
      if (here == local) return true;
    }
    return false;
  }

  /// A view that no op writes has what its storage has: parameters and their gradients in buckets.
  void check_views() const {
    Indexed<ValueId, bool> written(program_.values.size(), false), used = written;
    for (const Segment& segment : program_.segments) {
      for (const ProgramOp& op : segment.ops) {
        for (const Operand& operand : op.writes) written[operand.value] = true;
        for (const auto* operands : {&op.reads, &op.accumulates}) {
          for (const Operand& operand : *operands) used[operand.value] = true;
        }
      }
    }
    for (const ValueId id : program_.values.keys()) {
      const Value& value = program_.values[id];
      const bool shard = value.alias && (value.alias->own_shard != kNoIndex || value.owner >= 0);
      // Buckets whose copies are gathered ahead have views that nobody reads.
      if (!value.alias || written[id] || !used[id] || shard) continue;
      const Value& in = program_.values[value.alias->in];
      const TensorSpec &of = spec(value), &of_storage = spec(in);
      if (value.spec == in.spec) continue;
      const bool alike = of.partial == of_storage.partial && of.held == of_storage.held &&
                         split_axes(of) == split_axes(of_storage);
      if (!alike) fail("value ", value.name, ": is not as ", in.name, ", in which it lies");
    }
  }
  static AxisSet split_axes(const TensorSpec& of) {
    AxisSet axes = 0;
    for (const DimSplit& dim : of.dims) axes = static_cast<AxisSet>(axes | axes_in(dim));
    return axes;
  }

  // --- ops ---

  Problem problem_of(const ProgramOp& op, bool of_gradients) const {
    switch (op.kind) {
      case OpKind::kSumSquares: return find_norm_problem(program_, op, pipeline_rank_);
      case OpKind::kAdamW:
      case OpKind::kSgd:
      case OpKind::kAverage:
      case OpKind::kCorrectAdamW:
      case OpKind::kCorrectSgd: return find_update_problem(program_, op);
      case OpKind::kUpdateScales: return find_scales_problem(program_, op);
      case OpKind::kQuantize: return find_quantize_problem(program_, op);
      case OpKind::kAmax:
        if (op.group != kNoIndex) return find_amaxes_problem(program_, op);
        break;
      case OpKind::kTranspose:
        if (program_.attrs[op.attrs].heads != 0) break;
        return is_fp8(program_.values[op.reads[0].value].dtype)
                   ? find_quantize_problem(program_, op)
                   : find_unlike(program_, op);
      case OpKind::kCast:
      case OpKind::kCopy:
      case OpKind::kDeviceCopy:
      case OpKind::kCopyIn:
      case OpKind::kCopyOut:
      case OpKind::kWithinClip:
      case OpKind::kBeyondClip: return find_unlike(program_, op);
      case OpKind::kJoin: return find_join_problem(program_, op);
      case OpKind::kLoad: return load_problem(op);
      case OpKind::kNarrow:
        if (takes_part(program_, op)) return find_part_problem(program_, op, mesh());
        break;
      case OpKind::kSplit:
        if (program_.attrs[op.attrs].heads == 0 && program_.attrs[op.attrs].dim < 0)
          return find_unlike(program_, op);
        break;
      case OpKind::kAdd:
        if (of_gradients && adds_alike(program_, op)) return std::nullopt;
        if (op.part == OpPart::kForward && op.reads.size() < 2) return find_unlike(program_, op);
        break;
      default: break;
    }
    if (is_spec_move(op.kind)) return move_problem(op);
    // Gradients of a split's parts; of chunks, each rank's own rows, those of parts and whole
    // alike.
    if (of_gradients && op.kind == OpKind::kConcat &&
        (!joined_problem(op) || !find_unlike(program_, op)))
      return std::nullopt;
    return use_problem(op, of_gradients);
  }

  Problem load_problem(const ProgramOp& op) const {
    for (const Operand& operand : op.writes) {
      const Value& value = program_.values[operand.value];
      if (spec(value).partial != 0) return value.name + " is summands";
    }
    return std::nullopt;
  }

  Problem move_problem(const ProgramOp& op) const {
    if (op.reads.size() != 1 || op.writes.size() != 1) return "reads 1 and writes 1 value";
    const Value& from = program_.values[op.reads[0].value];
    const Value& to = program_.values[op.writes[0].value];
    const OpAttrs& attrs = program_.attrs[op.attrs];
    const Axes group = op.group == kNoIndex ? Axes{} : program_.groups[op.group].axes;
    const SpecMove move{op.kind, spec(from), spec(to), group, attrs.dim, attrs.maximum};
    const Problem problem = find_move_problem(move, mesh());
    if (!problem) return std::nullopt;
    return from.name + " -> " + to.name + ": " + *problem;
  }

  Problem use_problem(const ProgramOp& op, bool of_gradients) const {
    const OpTensors tensors = find_op_tensors(program_, op);
    if (!tensors.problem.empty()) return tensors.problem;
    UsedTensors used;
    for (std::size_t i = 0; i < tensors.operands.size(); ++i) {
      UsedTensor& one = used.operands.emplace_back(used_tensor(tensors.operands[i]));
      if (tensors.operands[i].any() == nullptr) one.local = unseen_extents(op.kind, i, tensors);
    }
    for (const OpTensor& result : tensors.results) used.results.push_back(used_tensor(result));
    for (auto* of : {&used.operands, &used.results}) {
      for (UsedTensor& one : *of) one.differentiable = one.differentiable && !of_gradients;
    }
    std::string rows = "o";
    const bool convolves = op.kind == OpKind::kCausalConv1d;
    if (op.kind == OpKind::kLinear || op.kind == OpKind::kAddBias || convolves) {
      const std::size_t dims = convolves ? 4 : op.kind == OpKind::kLinear ? 2 : 1;
      if (used.operands.size() < 2 || used.operands[1].local.size() != dims) return "has no weight";
      const Value* weight = tensors.operands[1].any();
      if (weight != nullptr) rows = rows_of(spec(*weight), mesh());
    }
    return space_problem(op.kind, program_.attrs[op.attrs], rows, used);
  }

  /// General kinds have dims of any meaning (but of heads), of which local extents alone do not
  /// tell which are broadcast or regrouped: their index space is that of the whole tensors, cut as
  /// these are. So is a convolution's, whose groups are those of all ranks.
  Problem space_problem(OpKind kind, const OpAttrs& attrs, const std::string& rows,
                        const UsedTensors& used) const {
    const bool whole = (is_general(kind) && attrs.heads == 0) || attrs.groups > 1 ||
                       kind == OpKind::kConv2d || kind == OpKind::kConvTranspose2d;
    std::vector<Extents> operands, results;
    const auto extents_of = [&](const UsedTensor& tensor) {
      const TensorSpec* of = tensor.value != nullptr ? tensor.value : tensor.gradient;
      return whole && of != nullptr ? whole_extents(*of, tensor.local, mesh()) : tensor.local;
    };
    for (const UsedTensor& result : used.results) results.push_back(extents_of(result));
    for (const UsedTensor& operand : used.operands) {
      const bool unseen = operand.value == nullptr && operand.gradient == nullptr;
      operands.push_back(whole && unseen ? unseen_whole(kind, operands, results[0])
                                         : extents_of(operand));
    }
    const OpParameters parameters = op_parameters(kind, attrs, operands, results);
    const auto found = op_space(
        OpForm{kind, attrs, operands.size(), used.results.size(), rows, parameters}, operands);
    if (const auto* reason = std::get_if<Infeasible>(&found)) return reason->reason;
    auto space = std::get<IndexSpace>(found);
    const auto cut = [&](const UsedTensor& tensor, const IndexedTensor& indexed) {
      const TensorSpec* of = tensor.value != nullptr ? tensor.value : tensor.gradient;
      if (whole && of != nullptr)
        cut_indices(std::get<IndexSpace>(found), indexed, *of, mesh(), space);
    };
    for (std::size_t i = 0; i < used.operands.size(); ++i) cut(used.operands[i], space.operands[i]);
    for (std::size_t i = 0; i < used.results.size(); ++i) cut(used.results[i], space.results[i]);
    return find_use_problem(space, used, mesh());
  }

  /// The gradients of a split's parts, joined: of them E and P are what they are of gradients.
  Problem joined_problem(const ProgramOp& op) const {
    if (op.writes.size() + op.accumulates.size() != 1) return "joins several tensors";
    const auto gradient = [&](const Operand& operand) {
      return used_tensor({nullptr, &program_.values[operand.value]});
    };
    UsedTensors used;
    used.operands.push_back(gradient(op.writes.empty() ? op.accumulates[0] : op.writes[0]));
    for (const Operand& read : op.reads) used.results.push_back(gradient(read));
    return space_problem(OpKind::kSplit, program_.attrs[op.attrs], "o", used);
  }

  UsedTensor used_tensor(const OpTensor& of) const {
    UsedTensor out;
    out.differentiable = of.differentiable;
    out.stored = of.stored;
    if (of.any() == nullptr) return out;
    if (of.value != nullptr && constant_[ValueId(of.value - &program_.values[ValueId(0)])])
      out.differentiable = false;
    out.name = of.any()->name;
    out.local = local_extents_of(*of.any());
    if (of.value != nullptr) out.value = &spec(*of.value);
    if (of.gradient != nullptr) out.gradient = &spec(*of.gradient);
    return out;
  }

  const Program& program_;
  const MeshSlices slices_ = mesh_slices(program_);
  std::vector<TensorSpec> whole_;  // [number of dims]
  Indexed<ValueId, bool> constant_;
  Indexed<ValueId, std::int32_t> form_;
  std::unordered_set<std::string> seen_;
  std::string key_;
  std::int32_t pipeline_rank_ = 0;  // of the segment or the value looked at
};

}  // namespace

void check_specs(const Program& program) {
  if (program.specs.size() > 0) SpecChecks(program).run();
}

}  // namespace trainyard
