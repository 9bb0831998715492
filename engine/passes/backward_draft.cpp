#include "engine/passes/backward_draft.h"

#include "engine/passes/moved_parameters.h"

namespace trainyard {

BackwardDraft::BackwardDraft(StagedGraph staged, DType grad_dtype)
    : stage_(std::move(staged.stage)),
      from_(std::move(staged.from)) {
  out_.graph = std::move(staged.graph);
  out_.num_stages = staged.num_stages;
  out_.forward.reserve(out_.graph.ops.size());
  out_.backward.reserve(out_.graph.ops.size() * 2);
  gradient_.assign(out_.graph.tensors.size(), kNoIndex);
  out_.graph.tensors.reserve(out_.graph.tensors.size() * 2);
  gradient_names_.reserve(gradient_.size());
  for (const Parameter& parameter : out_.graph.parameters) {
    out_.parameter_gradient.push_back(
        parameter.tensor == kNoIndex ? kNoIndex : parameter_gradient(parameter, grad_dtype));
  }
}

TensorId BackwardDraft::root(TensorId id) {
  while (tensor(id).alias != kNoIndex) id = tensor(id).alias;
  return id;
}

TensorId BackwardDraft::parameter_gradient(const Parameter& parameter, DType dtype) {
  Tensor t = tensor(parameter.tensor);
  t.name = "grad." + t.name;
  t.dtype = dtype;
  t.role = TensorRole::kParameterGradient;
  t.spec = dual_of(parameter.used);
  out_.graph.tensors.push_back(std::move(t));
  return TensorId(out_.graph.tensors.size() - 1);
}

TensorId BackwardDraft::new_gradient(TensorId of, std::string_view suffix) {
  Tensor t = tensor(of);
  t.name = "d." + t.name + std::string(suffix);
  const auto& tensors = out_.graph.tensors;
  const auto name_of = [&](std::int32_t id) -> std::string_view {
    return tensors[TensorId(id)].name;
  };
  const auto [first, is_new] = gradient_names_.insert(t.name, tensors.next().number(), name_of);
  if (!is_new) t.name += "~" + std::to_string(++copies_.try_emplace(first, 1).first->second);
  t.role = TensorRole::kActivation;
  t.alias = kNoIndex;
  t.alias_offset = 0;
  t.producer = kNoIndex;
  t.spec = dual_of(read_as(of));
  out_.graph.tensors.push_back(std::move(t));
  return TensorId(out_.graph.tensors.size() - 1);
}

SpecId BackwardDraft::read_as(TensorId id) const { return read_spec(out_.graph, id); }

SpecId BackwardDraft::dual_of(SpecId spec) {
  return spec == kNoIndex ? spec : out_.graph.specs.dual_of(spec);
}

Instruction BackwardDraft::instruction(OpId id, OpPart part) const {
  const Op& of = op(id);
  Instruction result;
  result.kind = of.kind;
  result.part = part;
  result.attrs = of.attrs;
  result.module = of.module;
  result.layer = of.layer;
  result.sublayer = of.sublayer;
  result.chunk = of.chunk;
  result.stage = stage(id);
  result.from = from_[id];
  result.origin = id;
  return result;
}

Instruction BackwardDraft::instruction(OpId id, OpKind kind) const {
  Instruction result = instruction(id, OpPart::kForward);
  result.kind = kind;
  result.attrs = {};
  return result;
}

void BackwardDraft::emit(Instruction instruction) {
  for (const TensorId read : instruction.reads) note_use(read);
  out_.backward.push_back(std::move(instruction));
}

void BackwardDraft::note_use(TensorId id) {
  const TensorId storage = root(id);
  if (!uses_.has(storage)) uses_.resize(out_.graph.tensors.size() * 2, 0);
  ++uses_[storage];
}

bool BackwardDraft::lie_alike(TensorId input, TensorId output) {
  const SpecId a = read_as(input), b = read_as(output);
  if (a == b || a == kNoIndex || b == kNoIndex) return true;
  const TensorSpec &of_input = out_.graph.specs[a], &of_output = out_.graph.specs[b];
  return of_input.dims == of_output.dims && of_input.entered == of_output.entered;
}

bool BackwardDraft::is_alone(TensorId gradient) {
  const TensorId storage = root(gradient);
  return uses_.has(storage) && uses_[storage] == 1;  // its own
}

void BackwardDraft::lie_in(TensorId part, TensorId whole, std::int64_t offset) {
  note_use(whole);
  tensor(part).alias = whole;
  tensor(part).alias_offset = offset;
}

void BackwardDraft::contribute(OpId user, TensorId id, TensorId part) {
  TensorId& sum = gradient_[id];
  note_use(part);
  if (sum == kNoIndex) {
    sum = part;
    return;
  }
  Instruction add = instruction(user, OpKind::kAdd);
  // A transfer's gradient arrives on the stage that sent the value.
  if (from_[user] >= 0) add.stage = from_[user];
  add.from = -1;
  add.reads = {sum, part};
  const TensorId total = new_gradient(id, ".sum");
  add.writes = {total};
  sum = total;
  note_use(total);
  emit(std::move(add));
}

void BackwardDraft::give(OpId user, TensorId id, TensorId part) {
  if (!is_parameter(id)) {
    if (wants_gradient(id)) contribute(user, id, part);
    return;
  }
  Instruction add = instruction(user, OpKind::kAdd);
  add.reads = {part};
  add.accumulates = {accumulated_gradient(id)};
  emit(std::move(add));
}

}  // namespace trainyard
