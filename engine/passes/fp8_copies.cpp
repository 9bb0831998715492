#include "engine/passes/fp8_copies.h"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/base/error.h"
#include "engine/graph/op_table.h"

namespace trainyard {

namespace {

constexpr std::int64_t kHistory = 1024;  // steps: Transformer Engine's amax_history_len

std::int64_t num_blocks(std::int64_t extent, std::int32_t block) {
  return block == 0 ? 1 : (extent + block - 1) / block;
}

Instruction beside(const Instruction& product, OpKind kind) {
  Instruction out = product;
  out.kind = kind;
  out.part = OpPart::kForward;
  out.attrs = {};
  out.reads.clear();
  out.writes.clear();
  out.accumulates.clear();
  return out;
}

AxisSet axes_in(const TensorSpec& spec) {
  AxisSet axes = 0;
  for (const DimSplit& dim : spec.dims) axes = static_cast<AxisSet>(axes | axes_in(dim));
  return axes;
}

/// Candidates for a maximum along these axes.
TensorSpec candidates(AxisSet axes) {
  TensorSpec spec = replicated_spec(1);
  spec.partial = axes;
  spec.maximum = axes != 0;
  return spec;
}

bool is_activation(OpKind kind) {
  return kind == OpKind::kGelu || kind == OpKind::kBiasGelu || kind == OpKind::kRelu ||
         kind == OpKind::kSilu || kind == OpKind::kSwiglu || kind == OpKind::kGeglu;
}

float largest(DType type) { return type == DType::kE5m2 ? 57344.0F : 448.0F; }

}  // namespace

Fp8Copies::Fp8Copies(TrainingGraph& training, const Fp8Config& config, const AmaxAxes& axes,
                     WeightCasts weights)
    : training_(training),
      config_(config),
      axes_(axes),
      weights_(weights) {}

TensorRole Fp8Copies::role_of_copy(bool weight) const {
  const bool of_step = weight && weights_ == WeightCasts::kOncePerStep;
  return of_step ? TensorRole::kOfStep : TensorRole::kActivation;
}

bool Fp8Copies::is_again(bool weight, const Instruction& product) const {
  return weight && weights_ != WeightCasts::kOncePerStep && product.part != OpPart::kForward;
}

DType Fp8Copies::type_of(bool gradient) const {
  return gradient && config_.whole() ? DType::kE5m2 : DType::kE4m3;
}

HeightWidth Fp8Copies::window(SummedDim summed, bool weight) const {
  const bool last = summed == SummedDim::kLast;
  const auto along = [last](std::int32_t block) {
    return last ? HeightWidth{1, block} : HeightWidth{block, 1};
  };
  switch (config_.recipe) {
    case Fp8Recipe::kRowwise: return along(0);
    case Fp8Recipe::kBlockwise: return weight ? HeightWidth{128, 128} : along(128);
    case Fp8Recipe::kMx: return along(32);
    default: return {};
  }
}

bool Fp8Copies::is_shared(bool weight) const {
  return window(SummedDim::kLast, weight) == window(SummedDim::kRows, weight);
}

TensorId Fp8Copies::copy_of(TensorId of, DType type, std::string_view suffix, bool weight) {
  Tensor t = tensor(of);
  t.name += "." + std::string(to_string(type)) + std::string(suffix);
  t.dtype = type;
  t.role = role_of_copy(weight);
  if (weight) t.spec = training_.graph.parameters[t.parameter].used;
  t.producer = kNoIndex;
  t.alias = kNoIndex;
  t.alias_offset = 0;
  t.needs_gradient = false;
  return training_.graph.tensors.add(std::move(t));
}

TensorId Fp8Copies::number(const std::string& name, TensorRole role, const TensorSpec& spec) {
  Tensor t;
  t.name = name;
  t.shape = {1};
  t.dtype = DType::kFp32;
  t.role = role;
  t.spec = training_.graph.specs.add(spec);
  return training_.graph.tensors.add(std::move(t));
}

/// One for each block of rows and columns; the dims of the operand but the last count as rows.
TensorId Fp8Copies::scale_of(TensorId of, HeightWidth window, std::string_view suffix,
                             bool weight) {
  const Shape shape = tensor(of).shape;
  const TensorRole role = role_of_copy(weight);
  TensorSpec spec = replicated_spec(1);
  if (!config_.whole()) {
    spec = replicated_spec(2);
    const TensorSpec& whole = training_.graph.specs[tensor(of).spec];
    AxisSet of_rows = 0;
    for (std::size_t d = 0; d + 1 < whole.dims.size(); ++d)
      of_rows = static_cast<AxisSet>(of_rows | axes_in(whole.dims[d]));
    if (window.height > 0) spec.dims[0] = split_over(axes_of(of_rows));
    if (window.width > 0) spec.dims[1] = split_over(axes_of(axes_in(whole.dims.back())));
  }
  const TensorId id = number(tensor(of).name + ".scale" + std::string(suffix), role, spec);
  if (config_.recipe == Fp8Recipe::kMx) tensor(id).dtype = DType::kE8m0;
  if (!config_.whole()) {
    const std::int64_t rows = num_elements(shape) / shape.back();
    tensor(id).shape = {num_blocks(rows, window.height), num_blocks(shape.back(), window.width)};
  }
  return id;
}

/// Whether the kernel that makes the tensor finds its largest element, too.
bool Fp8Copies::is_found_in_passing(TensorId of, const std::vector<Instruction>& list) const {
  if (config_.fuses_amax == AmaxFusion::kNone) return false;
  const auto made = std::find_if(list.rbegin(), list.rend(), [&](const Instruction& op) {
    return std::find(op.writes.begin(), op.writes.end(), of) != op.writes.end();
  });
  if (made == list.rend()) return false;
  if (config_.fuses_amax == AmaxFusion::kMemoryBound)
    return op_info(made->kind).kernel == KernelClass::kMemoryBound;
  const bool is_norm = made->kind == OpKind::kLayerNorm || made->kind == OpKind::kRmsNorm;
  return is_activation(made->kind) || (is_norm && made->part == OpPart::kForward);
}

/// The largest on all ranks that have parts of the tensor, as far as the axes say.
TensorId Fp8Copies::amax(TensorId of, bool weight, const Instruction& product,
                         std::vector<Instruction>& list) {
  const TensorRole role = role_of_copy(weight);
  const AxisSet split = axes_in(training_.graph.specs[tensor(of).spec]);
  const std::string name = tensor(of).name + ".amax" + (is_again(weight, product) ? ".again" : "");
  Instruction find = beside(product, OpKind::kAmax);
  find.reads = {of};
  find.attrs.set(&OpAttrs::in_passing, !weight && is_found_in_passing(of, list));
  const TensorId own = number(name, role, candidates(split));
  find.writes = {own};
  list.push_back(std::move(find));
  const auto rest = static_cast<AxisSet>(split & ~axes_.current);
  if (rest == split) return own;
  Instruction reduce = beside(product, OpKind::kAllReduce);
  reduce.attrs.set(&OpAttrs::maximum, true);
  reduce.reads = {own};
  const TensorId all = number(name + ".all", role, candidates(rest));
  tensor(all).alias = own;
  reduce.writes = {all};
  list.push_back(std::move(reduce));
  return all;
}

Fp8Copy Fp8Copies::quantize(const Wanted& wanted, bool transposed, const Instruction& beside_op,
                            std::vector<Instruction>& list) {
  const auto& [of, type, summed, weight, layer] = wanted;
  const HeightWidth window = this->window(summed, weight);
  const bool columns = summed == SummedDim::kRows && !is_shared(weight);
  std::string suffix = columns ? ".columns" : "";
  if (is_again(weight, beside_op)) suffix += ".again";
  // Weights of several stages.
  const auto other = known_.lower_bound({of, -1, 0, 0, false});
  if (weight && other != known_.end() && std::get<0>(other->first) == of &&
      std::get<1>(other->first) != beside_op.stage)
    suffix += "@" + std::to_string(beside_op.stage);
  Instruction cast = beside(beside_op, OpKind::kQuantize);
  cast.attrs.set(&OpAttrs::window, window);
  cast.reads = {of};
  Fp8Copy copy;
  copy.data = copy_of(of, type, suffix, weight);
  cast.writes = {copy.data};
  if (config_.recipe == Fp8Recipe::kDelayed) {
    quantize_by_history(wanted, cast, copy);
  } else {
    if (config_.whole()) cast.reads.push_back(amax(of, weight, beside_op, list));
    copy.scale = scale_of(of, window, suffix, weight);
    cast.writes.push_back(copy.scale);
  }
  if (transposed) {
    copy.transposed = copy_of(of, type, suffix + ".transposed", weight);
    cast.writes.push_back(copy.transposed);
  }
  list.push_back(std::move(cast));
  return copy;
}

// --- delayed scaling ---

TensorId Fp8Copies::entry(TensorId buffer, std::int64_t index, const std::string& name) {
  Tensor t = tensor(buffer);
  t.name = name;
  t.shape = {1};
  t.alias = buffer;
  t.alias_offset = index;
  return training_.graph.tensors.add(std::move(t));
}

Fp8Copies::Delayed& Fp8Copies::delayed(DType type, const Instruction& product) {
  const auto [at, fresh] = delayed_.try_emplace({product.stage, type});
  Delayed& of = at->second;
  of.last = product;
  if (!fresh) return of;
  const std::string name =
      "fp8@" + std::to_string(product.stage) + "." + std::string(to_string(type));
  of.amaxes = number(name + ".amaxes", TensorRole::kOfStep, candidates(axes_.delayed));
  of.scales = number(name + ".scales", TensorRole::kKept, replicated_spec(1));
  of.history = number(name + ".history", TensorRole::kKept, replicated_spec(2));
  return of;
}

/// Entries are named by the layer and what they are of, which no plan changes: checkpoints keep
/// them.
void Fp8Copies::quantize_by_history(const Wanted& wanted, Instruction& cast, Fp8Copy& copy) {
  Delayed& state = delayed(wanted.type, cast);
  const std::string of = wanted.weight                 ? ".weight"
                         : wanted.type == DType::kE5m2 ? ".gradient"
                                                       : ".input";
  const std::string name = tensor(training_.graph.ops[wanted.layer].inputs[1]).name + of;
  const auto [known, fresh] = state.entries.try_emplace(name);
  auto& [scale, amax] = known->second;
  if (fresh) {
    scale = entry(state.scales, state.count, name + ".scale");
    amax = entry(state.amaxes, state.count++, name + ".amax");
  }
  copy.scale = scale;
  cast.reads.push_back(scale);
  cast.accumulates = {amax};
}

void Fp8Copies::finish() {
  std::vector<Instruction> zeros;
  for (auto& [key, state] : delayed_) {
    tensor(state.amaxes).shape = {state.count};
    tensor(state.scales).shape = {state.count};
    tensor(state.history).shape = {kHistory, state.count};
    Instruction zero = beside(state.last, OpKind::kZero);
    zero.writes = {state.amaxes};
    zeros.push_back(std::move(zero));
    TensorId amaxes = state.amaxes;
    if (axes_.delayed != 0) {
      Instruction reduce = beside(state.last, OpKind::kAllReduce);
      reduce.attrs.set(&OpAttrs::maximum, true);
      reduce.reads = {amaxes};
      amaxes = number(tensor(amaxes).name + ".all", TensorRole::kOfStep, candidates(0));
      tensor(amaxes).shape = {state.count};
      tensor(amaxes).alias = state.amaxes;
      reduce.writes = {amaxes};
      training_.behind_step.push_back(std::move(reduce));
    }
    Instruction update = beside(state.last, OpKind::kUpdateScales);
    update.attrs.set(&OpAttrs::high, largest(key.second));
    update.reads = {amaxes};
    update.accumulates = {state.history, state.scales};
    training_.behind_step.push_back(std::move(update));
  }
  auto& before = training_.before_step;
  before.insert(before.begin(), std::make_move_iterator(zeros.begin()),
                std::make_move_iterator(zeros.end()));
}

// --- who asks for copies ---

TensorId Fp8Copies::transpose(TensorId data, const Instruction& product,
                              std::vector<Instruction>& list) {
  Tensor t = tensor(data);
  t.name += ".transposed";
  t.alias = kNoIndex;
  if (t.role == TensorRole::kParameter) {
    t.role = TensorRole::kActivation;
    t.spec = training_.graph.parameters[t.parameter].used;
    t.parameter = kNoIndex;
  }
  Instruction copy = beside(product, OpKind::kTranspose);
  copy.reads = {data};
  const TensorId out = training_.graph.tensors.add(std::move(t));
  copy.writes = {out};
  list.push_back(std::move(copy));
  return out;
}

Fp8Copy Fp8Copies::get(TensorId of, DType type, SummedDim summed, bool both,
                       const Instruction& product, std::vector<Instruction>& list) {
  return get_copy({of, type, summed, false, product.origin}, both, product, list);
}

Fp8Copy Fp8Copies::get_weight(TensorId of, SummedDim summed, bool both, const Instruction& product,
                              std::vector<Instruction>& list) {
  if (scale_of_gathered_.contains(of)) return gathered(of, summed, product, list);
  const bool once = weights_ == WeightCasts::kOncePerStep;
  return get_copy({of, type_of(false), summed, true, product.origin}, both && once, product,
                  once ? training_.before_step : list);
}

void Fp8Copies::gather_weight(TensorId weight) {
  const ParameterId parameter = tensor(weight).parameter;
  auto& scales = training_.gathered_scale;
  if (scales.empty()) scales.assign(training_.graph.parameters.size(), kNoIndex);
  const TensorId scale =
      number(tensor(weight).name + ".scale", TensorRole::kParameter, replicated_spec(1));
  tensor(scale).parameter = parameter;
  tensor(weight).dtype = type_of(false);
  scales[parameter] = scale_of_gathered_[weight] = scale;
}

Fp8Copy Fp8Copies::gathered(TensorId weight, SummedDim summed, const Instruction& product,
                            std::vector<Instruction>& list) {
  const TensorId scale = scale_of_gathered_.at(weight);
  if (!config_.transposes || summed == SummedDim::kLast) return {weight, scale};
  Fp8Copy& known = known_[Key{weight, product.stage, 0, 0, is_again(true, product)}];
  if (known.transposed == kNoIndex) known.transposed = transpose(weight, product, list);
  return {known.transposed, scale};
}

Fp8Copy Fp8Copies::get_copy(const Wanted& wanted, bool both, const Instruction& beside_op,
                            std::vector<Instruction>& list) {
  const HeightWidth at = window(wanted.summed, wanted.weight);
  const Key key{wanted.of, beside_op.stage, at.height, at.width,
                is_again(wanted.weight, beside_op)};
  const bool rows = wanted.summed == SummedDim::kRows;
  const bool two_layouts = config_.transposes && is_shared(wanted.weight);
  auto known = known_.find(key);
  if (known == known_.end()) {
    const Fp8Copy made = quantize(wanted, two_layouts && (both || rows), beside_op, list);
    known = known_.emplace(key, made).first;
  }
  Fp8Copy& copy = known->second;
  if (!two_layouts || !rows) return copy;
  if (copy.transposed == kNoIndex) copy.transposed = transpose(copy.data, beside_op, list);
  return {copy.transposed, copy.scale};
}

void Fp8Copies::gather(const Instruction& gather, OpId layer, DType type,
                       std::vector<Instruction>& list) {
  const Fp8Copy part =
      get_copy({gather.reads[0], type, SummedDim::kLast, false, layer}, false, gather, list);
  Instruction move = gather;
  move.reads = {part.data};
  const TensorId whole = copy_of(gather.writes[0], type, "", false);
  move.writes = {whole};
  list.push_back(std::move(move));
  known_[Key{gather.writes[0], gather.stage, 0, 0, false}] = {whole, part.scale};
}

}  // namespace trainyard
