// Which initializers of an ONNX model are parameters, and how they start.
#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/match_pattern.h"
#include "engine/base/near_names.h"
#include "engine/base/user_text.h"
#include "models/onnx/importer.h"
#include "models/parameter_forms.h"

namespace trainyard {

namespace {

/// Buffers of PyTorch's and transformers' modules, by the ends of their names.
constexpr std::string_view kBuffers[] = {
    "running_mean", "running_var", "num_batches_tracked", "inv_freq",  "attn_mask",
    "causal_mask",  "cos_cached",  "sin_cached",          "freqs_cos", "freqs_sin"};

/// Made by an exporter, not by whoever wrote the model.
bool is_generated(std::string_view name) {
  return name.starts_with("onnx::") || name.starts_with("val_") || name.starts_with("_val_") ||
         name.starts_with("/") || name.find("_output_") != std::string_view::npos;
}

/// A tensor that the model makes in its forward of numbers in the source: torch.tensor([...]).
bool is_written_out(std::string_view name) {
  const std::string_view last = name.substr(name.rfind('.') + 1);
  return last.starts_with("lifted_tensor_") || last.starts_with("_tensor_constant");
}

/// Whether any does, to some of its operands: comparisons, counts and places have none.
bool passes_gradient(const OnnxNode& node) {
  constexpr std::string_view kNone[] = {
      "Equal", "Less",  "LessOrEqual", "Greater", "GreaterOrEqual", "Not",    "And",   "Or",
      "Xor",   "IsNaN", "IsInf",       "ArgMax",  "ArgMin",         "OneHot", "Shape", "Size"};
  if (std::find(std::begin(kNone), std::end(kNone), node.op) != std::end(kNone)) return false;
  const std::optional<OnnxType> cast = cast_target(node);
  return node.op != "Cast" || (cast && is_floating(*cast));
}

/// Whether the file, or one beside it, has its elements.
bool is_held(const OnnxTensor& tensor, const std::string& model_file) {
  try {
    check_content(tensor, model_file);
  } catch (const ConfigError&) {
    return false;
  }
  return true;
}

}  // namespace

void OnnxImporter::find_dependent() {
  for (const OnnxInput& input : model_.inputs) of_data_[input.value] = true;
  for (const OnnxNode& node : model_.nodes) {
    if (node.op == "Shape" || node.op == "Size") continue;
    const bool any = std::any_of(node.inputs.begin(), node.inputs.end(),
                                 [&](int id) { return id != kNoOnnxValue && is_of_data(id); });
    for (const int id : node.outputs) {
      if (id != kNoOnnxValue) of_data_[id] = any;
    }
  }
}

/// Exporters turn a weight around that a product shares with a table: the copy is that table.
void OnnxImporter::find_tied() {
  std::vector<std::size_t> tables;
  for (std::size_t i = 0; i < uses_.size(); ++i) {
    if (uses_[i].looks_up) tables.push_back(i);
  }
  for (std::size_t i = 0; i < uses_.size(); ++i) {
    const OnnxTensor& copy = model_.initializers[i];
    if (!uses_[i].as_weight || uses_[i].looks_up || !is_generated(copy.name)) continue;
    for (const std::size_t table : tables) {
      if (!is_turned(model_.initializers[table], copy, model_.file)) continue;
      Value& v = value(model_.initialized[i]);
      v.initializer = static_cast<int>(table);
      v.transposed = true;
      break;
    }
  }
}

void OnnxImporter::find_uses() {
  for (std::size_t n = 0; n < model_.nodes.size(); ++n) {
    if (!needed_[n]) continue;
    const OnnxNode& node = model_.nodes[n];
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const int id = node.inputs[i];
      if (id != kNoOnnxValue && value(id).kind == Value::Kind::kInitializer)
        note_use(node, i, uses_[value(id).initializer]);
    }
  }
}

void OnnxImporter::note_use(const OnnxNode& node, std::size_t input, Use& use) {
  if (use.module.empty()) use.module = node.module;
  use.several |= use.module != node.module;
  const std::string& op = node.op;
  const Dims& dims = value(node.inputs[input]).dims;
  const bool product = op == "MatMul" || op == "Gemm";
  // Times what depends on no data alone it is a constant itself: the frequencies of rotary angles.
  const int other = product && node.inputs.size() > 1
                        ? node.inputs[1 - std::min<std::size_t>(input, 1)]
                        : kNoOnnxValue;
  if (other != kNoOnnxValue && input < 2) {
    use.with_data |= is_of_data(other);
    use.with_constants |= !is_of_data(other) && value(other).kind != Value::Kind::kInitializer;
  }
  const bool convolution = op == "Conv" || op == "ConvTranspose";
  const bool norm = op.ends_with("Normalization");
  const bool recurrent = op == "LSTM" || op == "GRU" || op == "RNN";
  use.as_weight |= (product || convolution || norm) || (recurrent && input < 4) ||
                   (op.starts_with("Gather") && input == 0) || op == "Transpose";
  use.scales |= norm && input == 1;
  use.adds |= (norm && input == 2) || ((op == "Gemm" || convolution) && input == 2) ||
              (recurrent && input == 3) || (op == "Add" && dims.size() == 1);
  use.looks_up |= op == "Gather";
  const std::optional<OnnxType> cast = cast_target(node);
  const bool sized = op == "Resize" || op == "Upsample" || op == "Clip" || op == "Pad";
  use.fixed |= (op == "BatchNormalization" && input > 2) || (sized && input > 0) ||
               op == "OneHot" || (op == "Pow" && input == 1) ||
               (op == "Cast" && !(cast && is_floating(*cast)));
  const bool turned = (op == "MatMul" && input == 1 && dims.size() == 2) ||
                      (op == "Gemm" && input == 1 && node.integer("transB", 0) == 0);
  if (!turned) use.as_is = true;
  if (product && dims.size() == 2) use.fan_in = turned ? dims[0] : dims[1];
  if (op == "Transpose" && dims.size() == 2) use.fan_in = dims[1];
  if (recurrent && input > 0 && input < 4) {
    const Dims of_states = has_input(node, 2) ? value(node.inputs[2]).dims : Dims();
    if (of_states.size() == 3) use.state = of_states[2];
  }
  if (convolution && dims.size() > 1) {
    use.fan_in = 1;
    for (std::size_t d = 1; d < dims.size(); ++d) use.fan_in *= dims[d];
  }
}

/// Masks that are only compared with, and tables of the angles of positions that are added:
/// buffers, whatever a model calls them. What the file does not hold cannot be told.
void OnnxImporter::find_fixed() {
  Numbered<bool> reached(model_.values.size(), false);  // by a gradient
  for (const Target& target : targets_) reached[target.output] = true;
  for (std::size_t n = model_.nodes.size(); n-- > 0;) {
    const OnnxNode& node = model_.nodes[n];
    const bool any = std::any_of(node.outputs.begin(), node.outputs.end(),
                                 [&](int id) { return id != kNoOnnxValue && reached[id]; });
    if (!needed_[n] || !any || !passes_gradient(node)) continue;
    for (std::size_t i = node.op == "Where" ? 1 : 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != kNoOnnxValue) reached[node.inputs[i]] = true;
    }
  }
  for (std::size_t i = 0; i < uses_.size(); ++i) {
    const OnnxTensor& tensor = model_.initializers[i];
    if (!is_floating(tensor.type) || tensor.num_elements() == 0) continue;
    if (!reached[model_.initialized[i]] || is_written_out(tensor.name)) {
      uses_[i].fixed |= is_held(tensor, model_.file);
    } else if (!uses_[i].as_weight) {
      uses_[i].fixed |= has_sinusoids(tensor, model_.file);
    }
  }
  find_named_buffers();
}

/// Those that the study names.
void OnnxImporter::find_named_buffers() {
  for (const std::string& pattern : model_.buffers) {
    const auto refuse = [&](const std::string& problem) {
      throw ConfigError({}, "model.buffers", problem);
    };
    bool any = false;
    for (std::size_t i = 0; i < uses_.size(); ++i) {
      const OnnxTensor& tensor = model_.initializers[i];
      if (!matches_pattern(pattern, tensor.name)) continue;
      any = true;
      if (!is_held(tensor, model_.file))
        refuse(in_quotes(tensor.name) + " has no elements in " + model_.file +
               " or beside it, and what is not trained is what the file holds");
      uses_[i].fixed = true;
    }
    if (any) continue;
    std::vector<std::string> names;
    for (const OnnxTensor& tensor : model_.initializers) names.push_back(tensor.name);
    refuse("no tensor of " + model_.file + " is called " + in_quotes(pattern) +
           did_you_mean(pattern, names));
  }
  if (model_.buffers.empty()) return;
  for (int i = 0; i < std::ssize(uses_); ++i) {
    if (is_parameter(i)) return;
  }
  throw ConfigError({}, "model.buffers",
                    "names every tensor of " + model_.file + " that could be trained");
}

bool OnnxImporter::is_parameter(int index) const {
  const OnnxTensor& tensor = model_.initializers[index];
  const Use& use = uses_[index];
  const bool fixed = use.fixed || (use.with_constants && !use.with_data);
  if (!is_floating(tensor.type) || fixed || tensor.num_elements() == 0) return false;
  for (const std::string_view end : kBuffers) {
    if (tensor.name.ends_with(end)) return false;
  }
  if (use.as_weight) return true;
  // One number is a constant, unless it is a module's: the bias of one feature, the slope of a
  // PReLU.
  const bool of_module = tensor.name.ends_with("weight") || tensor.name.ends_with("bias");
  return !is_generated(tensor.name) && (tensor.num_elements() > 1 || of_module);
}

/// Whether it is a parameter as the file has it.
bool OnnxImporter::is_own(int id) {
  const Value& v = value(id);
  return v.kind == Value::Kind::kInitializer && !v.transposed && is_parameter(v.initializer);
}

std::string OnnxImporter::parameter_name(int index) {
  const OnnxTensor& tensor = model_.initializers[index];
  const Use& use = uses_[index];
  std::string name = tensor.name;
  const std::string_view of = is_merged(index) ? std::string_view(module_now()) : use.module;
  const bool of_another =
      is_merged(index) && !(name.starts_with(of) && name.substr(of.size()).starts_with('.'));
  if ((is_generated(name) || of_another) && !of.empty())
    name = std::string(of) + (use.adds && !use.scales ? ".bias" : ".weight");
  const int holder = take_name(name);
  if (holder < 0) return name;
  int& next = next_.try_emplace(holder, 1).first->second;
  std::string other;
  do {
    other = name + "_" + std::to_string(next++);
  } while (take_name(other) >= 0);
  return other;
}

/// Which of the weights has the name; -1: none, and it is that of the next one from now on.
int OnnxImporter::take_name(std::string_view name) {
  const auto name_of = [&](std::int32_t i) -> std::string_view { return weights_[i].parameter; };
  const auto [holder, is_new] =
      names_.insert(name, static_cast<std::int32_t>(weights_.size()), name_of);
  return is_new ? -1 : holder;
}

/// Exporters make one of initializers that are equal, as norms and biases of a model that was never
/// trained are: ones, or zeros, that modules of their own read are parameters of their own.
bool OnnxImporter::is_merged(int index) {
  Use& use = uses_[index];
  if (!use.several || !(use.scales || use.adds)) return false;
  if (!use.merged) {
    const OnnxTensor& tensor = model_.initializers[index];
    use.merged = tensor.dims.size() == 1 && has_equal_elements(tensor, model_.file);
  }
  return *use.merged;
}

/// Nodes of no module count as modules of their own.
const std::string& OnnxImporter::module_now() const {
  if (now_ == model_.nodes.size()) return reader();
  const OnnxNode& node = model_.nodes[now_];
  return node.module.empty() ? node.name : node.module;
}

const std::string& OnnxImporter::reader() const {
  static const std::string loss = "loss";
  return now_ == model_.nodes.size() ? loss : module(model_.nodes[now_]);
}

TensorId OnnxImporter::parameter(int index, bool transposed) {
  TensorId& known =
      is_merged(index)
          ? merged_parameters_.try_emplace({index, module_now()}, kNoIndex).first->second
          : parameters_[index];
  if (known != kNoIndex) return known;
  const OnnxTensor& tensor = model_.initializers[index];
  const Use& use = uses_[index];
  Shape shape = graph_shape(tensor.dims);
  if (transposed) std::reverse(shape.begin(), shape.end());
  // As PyTorch's modules start, but for tables, which are as transformers' are, and biases.
  ParameterForm form = use.fan_in > 0 ? uniform_by_fan_in(use.fan_in) : ParameterForm();
  if (use.scales) form.init = Init::kOnes;
  if (use.adds && !use.scales) form.init = Init::kZeros;
  if (use.state > 0) form = uniform_by_fan_in(use.state);  // biases of recurrent modules, too
  const bool decay = shape.size() > 1 && !use.scales && !use.adds;
  std::string name = parameter_name(index);
  const TensorId id = graph_.parameter(name, shape, SplitHint::kNone, decay, 0, form);
  weights_.push_back({std::move(name), &tensor, transposed});
  return known = id;
}

}  // namespace trainyard
