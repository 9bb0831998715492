#include "app/solve/written_training.h"

#include <algorithm>
#include <utility>

#include "app/solve/named_nodes.h"
#include "app/solve/problem_keys.h"

namespace trainyard {

namespace {

constexpr std::size_t kMostOps = 200'000;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 50U;

std::int64_t bytes_at(const YamlNode& node, const char* key) {
  const auto value = given(node, key);
  return value ? value->as_integer(0, kMostBytes) : 0;
}

/// An op as it is written.
struct WrittenOp {
  std::vector<std::size_t> reads, saves;  // nodes; itself among what it saves
  std::int64_t bytes = 0, tmp = 0, backward_tmp = 0;
  std::int64_t room = 0;  // bytes of the storage that holds what it makes
  bool input = false, in_place = false, gradient = true;
};

std::vector<std::size_t> read_names(const NamedNodes& names, const YamlNode& list) {
  std::vector<std::size_t> out;
  for (const YamlNode& name : list.items()) {
    const auto found = names.find(name.as_string());
    if (!found) name.fail("no node in front of this one is called " + in_quotes(name.as_string()));
    if (std::find(out.begin(), out.end(), *found) == out.end()) out.push_back(*found);
  }
  return out;
}

/// `before`: the ops in front of it.
WrittenOp read_op(NamedNodes& names, const std::vector<WrittenOp>& before, const YamlNode& node) {
  WrittenOp out;
  if (const auto reads = given(node, "reads")) out.reads = read_names(names, *reads);
  const auto name = given(node, "name");
  const std::size_t own =
      names.add(name ? name->as_string() : std::to_string(names.size()), name ? *name : node);
  out.saves = out.reads;
  if (const auto saves = given(node, "saves")) {
    out.saves = read_names(names, *saves);
    for (const std::size_t saved : out.saves) {
      if (saved != own && std::find(out.reads.begin(), out.reads.end(), saved) == out.reads.end())
        saves->fail("a node saves what it reads, or itself, not " + in_quotes(names.name(saved)));
    }
  }
  out.input = flag_at(node, "input");
  out.in_place = flag_at(node, "in_place");
  out.gradient = flag_at(node, "gradient", !out.input);
  if (out.in_place && out.reads.empty()) node.at("in_place").fail("it reads nothing to write over");
  if (out.input && !out.reads.empty()) node.at("input").fail("an input reads nothing");
  out.bytes = out.in_place ? bytes_at(node, "bytes") : node.at("bytes").as_integer(0, kMostBytes);
  out.room = out.in_place ? before[out.reads[0]].room : out.bytes;
  if (out.bytes > out.room) {
    node.at("bytes").fail("in place, it has the " + std::to_string(out.room) + " bytes of " +
                          in_quotes(names.name(out.reads[0])) + ", got " +
                          std::to_string(out.bytes));
  }
  out.tmp = bytes_at(node, "tmp");
  out.backward_tmp = bytes_at(node, "backward_tmp");
  node.finish();
  return out;
}

class WrittenTraining {
 public:
  explicit WrittenTraining(const NamedNodes& names) : names_(names) {}

  TrainingGraph make(const std::vector<WrittenOp>& ops) {
    made_.resize(ops.size());
    gradients_.resize(ops.size());
    for (std::size_t n = 0; n < ops.size(); ++n) forward(n, ops[n]);
    out_.graph.loss = made_.back();
    for (std::size_t n = ops.size(); n-- > 0;) backward(n, ops);
    return std::move(out_);
  }

 private:
  TensorId tensor(const std::string& name, std::int64_t bytes, OpId producer) {
    Tensor& added = out_.graph.tensors.emplace_back();
    added.name = name;
    added.shape = {bytes};
    added.dtype = DType::kUint8;
    added.producer = producer;
    return TensorId(out_.graph.tensors.size() - 1);
  }

  void forward(std::size_t n, const WrittenOp& from) {
    const OpId id(n);
    made_[n] = tensor(names_.name(n), from.bytes, id);
    Tensor& made = out_.graph.tensors[made_[n]];
    if (from.input) made.role = TensorRole::kInput;
    if (from.in_place) made.alias = made_[from.reads[0]];
    Instruction instruction;
    instruction.origin = id;
    for (const std::size_t read : from.reads) instruction.reads.push_back(made_[read]);
    instruction.writes = {made_[n]};
    if (from.tmp > 0) instruction.writes.push_back(tensor(names_.name(n) + ".tmp", from.tmp, id));
    Op& op = out_.graph.ops.emplace_back();
    op.inputs.assign(instruction.reads.begin(), instruction.reads.end());
    op.outputs = {made_[n]};
    out_.forward.push_back(std::move(instruction));
  }

  void backward(std::size_t n, const std::vector<WrittenOp>& ops) {
    const WrittenOp& from = ops[n];
    const bool loss = n + 1 == ops.size();
    if (from.input || !from.gradient || (!loss && gradients_[n] == kNoIndex)) return;
    const OpId id(n);
    const std::string name = "d." + names_.name(n);
    Instruction instruction;
    instruction.origin = id;
    if (!loss) instruction.reads.push_back(gradients_[n]);
    for (const std::size_t saved : from.saves) instruction.reads.push_back(made_[saved]);
    std::vector<std::pair<TensorId, TensorId>> added;  // to the gradient of a value
    for (const std::size_t read : from.reads) {
      if (ops[read].input || !ops[read].gradient) continue;
      const TensorId made = tensor(name + "." + names_.name(read), gradient_bytes(read, ops), id);
      instruction.writes.push_back(made);
      if (gradients_[read] == kNoIndex)
        gradients_[read] = made;
      else
        added.emplace_back(gradients_[read], made);
    }
    if (from.backward_tmp > 0)
      instruction.writes.push_back(tensor(name + ".tmp", from.backward_tmp, id));
    out_.backward.push_back(std::move(instruction));
    for (const auto& [sum, more] : added) {
      Instruction add;
      add.origin = id;
      add.reads = {sum, more};
      add.writes = {sum};
      out_.backward.push_back(std::move(add));
    }
  }

  /// As large as the value; of what was written in place, as what it was written over.
  std::int64_t gradient_bytes(std::size_t n, const std::vector<WrittenOp>& ops) const {
    while (ops[n].in_place) n = ops[n].reads[0];
    return ops[n].bytes;
  }

  const NamedNodes& names_;
  TrainingGraph out_;
  std::vector<TensorId> made_;
  std::vector<TensorId> gradients_;
};

}  // namespace

TrainingGraph read_written_training(const YamlNode& problem) {
  const YamlNode list = problem.at("nodes");
  NamedNodes names;
  std::vector<WrittenOp> ops;
  for (const YamlNode& node : list.items()) {
    if (ops.size() == kMostOps)
      list.fail("expected at most " + std::to_string(kMostOps) + " nodes");
    ops.push_back(read_op(names, ops, node));
  }
  if (ops.empty()) list.fail("expected at least one node");
  return WrittenTraining(names).make(ops);
}

}  // namespace trainyard
