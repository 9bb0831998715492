#include "engine/planner/piece_profile.h"

#include <algorithm>

#include "engine/base/error.h"
#include "engine/planner/choose_cuts.h"

namespace trainyard {

namespace {

/// [op]: its piece.
Indexed<OpId, std::size_t> piece_of_ops(const Graph& graph, const Numbered<OpId>& begins) {
  Indexed<OpId, std::size_t> out(graph.ops.size(), 0);
  std::size_t piece = 0;
  for (const OpId i : graph.ops.keys()) {
    while (piece + 1 < begins.size() && begins[static_cast<std::ptrdiff_t>(piece) + 1] <= i)
      ++piece;
    out[i] = piece;
  }
  return out;
}

double bytes_of(const Tensor& tensor) {
  return static_cast<double>(num_elements(tensor.shape) * size_in_bytes(tensor.dtype));
}

/// Where the bytes of a microbatch lie while it waits for its backward, and while that runs.
class StorageOfPieces {
 public:
  StorageOfPieces(const TrainingGraph& training, const Numbered<OpId>& begins, PieceProfile& out)
      : training_(training),
        tensors_(training.graph.tensors),
        piece_(piece_of_ops(training.graph, begins)),
        out_(out),
        made_(tensors_.size(), Made::kNowhere),
        counted_(tensors_.size(), false) {}

  void add() {
    for (const Instruction& op : training_.forward) note(op, Made::kForward);
    for (const Instruction& op : training_.backward)
      note(op, op.recomputed ? Made::kAgain : Made::kBackward);
    for (const Instruction& op : training_.forward) writer(op);
    for (const Instruction& op : training_.backward) writer(op);
    for (const Instruction& op : training_.backward) {
      double gradients = 0;
      for (const TensorId read : op.reads) {
        const TensorId root = root_of(read);
        if (made_[root] == Made::kForward) count(root, out_.kept);
        if (made_[root] == Made::kBackward) gradients += bytes_of(tensors_[read]);
      }
      for (const TensorId written : op.writes) {
        const TensorId root = root_of(written);
        if (made_[root] == Made::kAgain) count(root, out_.recomputed);
        if (made_[root] == Made::kBackward) gradients += bytes_of(tensors_[written]);
      }
      if (op.origin == kNoIndex) continue;
      double& most = out_.gradients[piece_[op.origin]];
      most = std::max(most, gradients);
    }
  }

 private:
  enum class Made : std::uint8_t { kNowhere, kForward, kAgain, kBackward };

  TensorId root_of(TensorId id) const {
    while (tensors_[id].alias != kNoIndex) id = tensors_[id].alias;
    return id;
  }

  void note(const Instruction& op, Made made) {
    for (const TensorId written : op.writes) {
      const TensorId root = root_of(written);
      if (tensors_[root].role == TensorRole::kActivation && made_[root] == Made::kNowhere)
        made_[root] = made;
    }
  }

  void writer(const Instruction& op) {
    if (of_.empty()) of_.resize(tensors_.size(), kOutside);
    if (op.origin == kNoIndex) return;
    for (const TensorId written : op.writes) {
      std::size_t& piece = of_[root_of(written)];
      if (piece == kOutside) piece = piece_[op.origin];
    }
  }

  void count(TensorId root, std::vector<double>& into) {
    if (counted_[root] || of_[root] == kOutside) return;
    counted_[root] = true;
    into[of_[root]] += bytes_of(tensors_[root]);
  }

  const TrainingGraph& training_;
  const Indexed<TensorId, Tensor>& tensors_;
  Indexed<OpId, std::size_t> piece_;
  PieceProfile& out_;
  Indexed<TensorId, Made> made_;
  Indexed<TensorId, bool> counted_;
  Indexed<TensorId, std::size_t> of_;  // the piece that makes it
};

}  // namespace

ModelPieces pieces_of(const TrainingGraph& training, const HardwareProfile& hardware,
                      const SoftwareProfile& software) {
  const Graph& graph = training.graph;
  const auto profile = profile_ops(training, hardware, software);
  ModelPieces out;
  out.begins = pieces_between(graph, profile, PartitionConfig::Between::kOps);
  for (const OpId begin : out.begins) {
    out.layer.push_back(graph.ops[begin].layer);
    out.inputs.push_back(static_cast<double>(profile[begin].crossing));
    out.back_inputs.push_back(static_cast<double>(profile[begin].back_crossing));
  }
  out.parameters.resize(out.begins.size(), 0);
  const auto piece = piece_of_ops(graph, out.begins);
  Indexed<TensorId, std::size_t> read_by(graph.tensors.size(), kOutside);
  for (const OpId i : graph.ops.keys()) {
    out.parameters[piece[i]] += profile[i].parameters;
    for (const TensorId input : graph.ops[i].inputs) {
      const Tensor& tensor = graph.tensors[input];
      if (tensor.role != TensorRole::kParameter) continue;
      std::size_t& last = read_by[input];
      if (last != kOutside && last != piece[i])
        out.again.push_back({last, piece[i], static_cast<double>(num_elements(tensor.shape))});
      last = piece[i];
    }
  }
  return out;
}

PieceProfile profile_pieces(const TrainingGraph& training, const Numbered<OpId>& begins,
                            const HardwareProfile& hardware, const SoftwareProfile& software,
                            const OpTimes* measured) {
  PieceProfile out;
  const std::size_t count = begins.size();
  for (auto* of : {&out.forward, &out.backward, &out.kept, &out.recomputed, &out.gradients})
    of->resize(count, 0);
  const auto profile = profile_ops(training, hardware, software, measured);
  const auto piece = piece_of_ops(training.graph, begins);
  for (const OpId i : profile.keys()) {
    out.forward[piece[i]] += profile[i].forward;
    out.backward[piece[i]] += profile[i].backward;
  }
  StorageOfPieces(training, begins, out).add();
  return out;
}

TaskGraph tasks_of(const TrainingGraph& training, const ModelPieces& pieces,
                   const PieceProfile& profile, double samples, double bytes_per_parameter) {
  TaskGraph out;
  for (std::size_t p = 0; p < pieces.size(); ++p) {
    TaskCost cost;
    cost.forward = profile.forward[p] / samples;
    cost.backward = profile.backward[p] / samples;
    cost.activation = profile.kept[p] / samples;
    cost.parameters = pieces.parameters[p] * bytes_per_parameter;
    out.tasks.push_back(cost);
    if (p > 0) out.values.push_back({p - 1, 0, {p}, false});
  }
  const Graph& graph = training.graph;
  const auto piece = piece_of_ops(graph, pieces.begins);
  Indexed<TensorId, std::size_t> value(graph.tensors.size(), kOutside);
  for (const OpId i : graph.ops.keys()) {
    for (const TensorId input : graph.ops[i].inputs) {
      const Tensor& tensor = graph.tensors[input];
      if (tensor.role != TensorRole::kActivation || tensor.producer == kNoIndex) continue;
      const std::size_t maker = piece[tensor.producer];
      if (maker == piece[i]) continue;
      if (value[input] == kOutside) {
        value[input] = out.values.size();
        out.values.push_back({maker, bytes_of(tensor) / samples, {}, false});
      }
      std::vector<std::size_t>& readers = out.values[value[input]].readers;
      if (std::ranges::find(readers, piece[i]) == readers.end()) readers.push_back(piece[i]);
    }
  }
  return out;
}

}  // namespace trainyard
