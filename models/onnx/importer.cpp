#include "models/onnx/importer.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "engine/base/error.h"
#include "engine/base/user_text.h"
#include "engine/graph/dead_ops.h"
#include "models/layer_groups.h"

namespace trainyard {

namespace {

constexpr std::size_t kMostMistakes = 20;

}  // namespace

Shape graph_shape(const std::vector<std::int64_t>& dims) {
  return dims.empty() ? Shape{1} : Shape(dims.begin(), dims.end());
}

OnnxImporter::OnnxImporter(const ModelConfig& config, const BuildOptions& options,
                           const Numbered<Dims>* wider, const Reads* known)
    : config_(config),
      options_(options),
      model_(*config.onnx),
      graph_(config.name, options.compute),
      values_(model_.values.size()),
      uses_(model_.initializers.size()),
      of_data_(model_.values.size(), false),
      needed_(model_.nodes.size(), false),
      readers_(model_.values.size()),
      merged_(model_.nodes.size(), false),
      wider_(wider),
      known_(known),
      operands_(model_.nodes.size() + 1),
      made_by_(model_.values.size(), kNobody),
      parameters_(model_.initializers.size(), kNoIndex) {
  weights_.reserve(model_.initializers.size());
  names_.reserve(model_.initializers.size());
  graph_.reserve(model_.nodes.size(), model_.initializers.size());
}

OnnxGraph OnnxImporter::run() {
  for (std::size_t i = 0; i < model_.initializers.size(); ++i) {
    Value& v = value(model_.initialized[i]);
    v.kind = Value::Kind::kInitializer;
    v.initializer = static_cast<int>(i);
    v.dims = model_.initializers[i].dims;
  }
  has_branches_ = std::any_of(model_.nodes.begin(), model_.nodes.end(),
                              [](const OnnxNode& node) { return node.op == "If"; });
  find_targets();
  bind_inputs();
  mark_needed();
  find_masks();
  find_dependent();
  find_uses();
  find_fixed();
  find_tied();
  std::vector<ConfigError> mistakes;
  for (std::size_t i = 0; i < model_.nodes.size(); ++i) {
    const OnnxNode& node = model_.nodes[i];
    now_ = i;
    if (!needed_[i] || merged_[i] || !is_taken(node) || is_unread(node)) continue;
    // What depends on a node that failed says nothing new.
    const auto unknown = [&](int id) {
      return id != kNoOnnxValue && value(id).kind == Value::Kind::kUnknown;
    };
    const auto last = node.op == "If" ? node.inputs.begin() + 1 : node.inputs.end();
    if (std::any_of(node.inputs.begin(), last, unknown)) continue;
    const auto note = [&](const std::string& problem) {
      if (mistakes.size() < kMostMistakes)
        mistakes.emplace_back(
            SourcePos{model_.file}, "",
            "node " + in_quotes(node.name) + " (" + printable(node.op, 60) + "): " + problem);
    };
    try {
      run_node(node);
    } catch (const FoldError& error) {
      note(error.what());
    } catch (const ConfigError& error) {
      note(error.problem());
    }
  }
  if (!mistakes.empty()) throw ConfigError(mistakes);
  now_ = model_.nodes.size();
  OnnxGraph out;
  out.graph = graph_.finish(finish_loss());
  out.left_out = unneeded_nodes();
  const std::vector<std::string> dead = drop_dead_ops(out.graph);
  out.left_out.insert(out.left_out.end(), dead.begin(), dead.end());
  out.weights = std::move(weights_);
  if (out.weights.size() > out.graph.parameters.size()) {
    std::unordered_set<std::string_view> kept;
    for (const Parameter& parameter : out.graph.parameters) kept.insert(parameter.name);
    std::erase_if(out.weights,
                  [&](const OnnxWeight& one) { return !kept.contains(one.parameter); });
  }
  group_into_layers(out.graph, config_.layer_pattern);
  return out;
}

// --- what is read ---

bool OnnxImporter::Reads::all_are_read() const {
  for (std::size_t id = 0; id < made.size(); ++id) {
    if (made[id] && !read[id]) return false;
  }
  return true;
}

OnnxImporter::Reads OnnxImporter::take_reads() {
  Reads out;
  out.read.assign(values_.size(), false);
  out.made.reserve(values_.size());
  out.dims.reserve(values_.size());
  out.types.reserve(values_.size());
  for (const std::size_t maker : made_by_) out.made.push_back(maker != kNobody);
  for (Value& v : values_) {
    out.dims.push_back(std::move(v.dims));
    out.types.push_back(v.type);
  }
  std::vector<std::size_t> nodes{model_.nodes.size()};
  std::vector<bool> seen(operands_.size(), false);
  while (!nodes.empty()) {
    const std::size_t node = nodes.back();
    nodes.pop_back();
    if (seen[node]) continue;
    seen[node] = true;
    for (const int id : operands_[node]) {
      out.read[id] = true;
      if (made_by_[id] != kNobody) nodes.push_back(made_by_[id]);
    }
  }
  return out;
}

bool OnnxImporter::is_unread(int id) const {
  return known_ != nullptr && known_->made[id] && !known_->read[id];
}

/// Whether its ops would make what only its dims are asked of, which are known.
bool OnnxImporter::is_unread(const OnnxNode& node) {
  bool any = false;
  for (const int id : node.outputs) {
    if (id == kNoOnnxValue || known_ == nullptr || !known_->made[id]) continue;
    if (!is_unread(id)) return false;
    any = true;
  }
  if (!any) return false;
  for (const int id : node.outputs) {
    if (id == kNoOnnxValue) continue;
    value(id).kind = Value::Kind::kTensor;
    value(id).dims = known_->dims[id];
    value(id).type = known_->types[id];
  }
  return true;
}

// --- inputs and initializers ---

void OnnxImporter::bind_inputs() {
  for (const OnnxInput& input : model_.inputs) {
    Value& v = value(input.value);
    v.kind = Value::Kind::kTensor;
    v.type = input.type;
    v.dims = onnx_input_dims(config_, input, options_.microbatch);
  }
}

void OnnxImporter::make_input(int id) {
  Value& v = value(id);
  const DType type = is_masked(id)         ? DType::kUint8
                     : is_floating(v.type) ? options_.compute
                                           : DType::kInt64;
  v.tensor = graph_.input(model_.values[id], graph_shape(v.dims), type);
}

void OnnxImporter::mark_needed() {
  Numbered<bool> read(model_.values.size(), false);
  for (const Target& target : targets_) read[target.output] = true;
  for (std::size_t i = model_.nodes.size(); i-- > 0;) {
    const OnnxNode& node = model_.nodes[i];
    needed_[i] = std::any_of(node.outputs.begin(), node.outputs.end(),
                             [&](int id) { return id != kNoOnnxValue && read[id]; });
    if (!needed_[i]) continue;
    for (const int id : node.inputs) {
      if (id == kNoOnnxValue) continue;
      read[id] = true;
      readers_[id].push_back(static_cast<int>(i));
    }
  }
}

/// Names of nodes that compute with data and lead to no loss.
std::vector<std::string> OnnxImporter::unneeded_nodes() const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < model_.nodes.size(); ++i) {
    const OnnxNode& node = model_.nodes[i];
    const bool of_data = std::any_of(node.outputs.begin(), node.outputs.end(),
                                     [&](int id) { return id != kNoOnnxValue && is_of_data(id); });
    if (!needed_[i] && of_data) names.push_back(node.name);
  }
  return names;
}

ConstantRef OnnxImporter::constant_of(int id) {
  Value& v = value(id);
  if (v.kind != Value::Kind::kInitializer) return v.constant;
  if (is_parameter(v.initializer)) return nullptr;
  if (v.constant == nullptr) {
    const OnnxTensor& tensor = initializer(v);
    OnnxConstant constant;
    count_elements(tensor.dims);
    constant.type = tensor.type;
    constant.dims = tensor.dims;
    constant.numbers = read_numbers(tensor, model_.file);
    v.constant = done(std::move(constant));
  }
  return v.constant;
}

bool OnnxImporter::try_fold(const OnnxNode& node) {
  for (const int id : node.inputs) {
    if (id != kNoOnnxValue && constant_of(id) == nullptr) return false;
  }
  FoldInputs inputs;
  for (const int id : node.inputs) inputs.push_back(id == kNoOnnxValue ? nullptr : constant_of(id));
  const auto made = fold(node, inputs);
  if (!made) return false;
  for (std::size_t i = 0; i < made->size() && i < node.outputs.size(); ++i) {
    if (node.outputs[i] == kNoOnnxValue) continue;
    Value& v = value(node.outputs[i]);
    v.kind = Value::Kind::kConstant;
    v.constant = (*made)[i];
    v.dims = v.constant->dims;
  }
  if (!of_batch_size_.empty()) pass_batch_size_on(node, inputs);
  return true;
}

/// Conditions choose between 1 and 0, until something follows from them.
void OnnxImporter::hold(Value& v, DType type) {
  v.type = type_of(type);
  if (type != DType::kUint8) return;
  v.ones = done({OnnxType::kBool, {}, {1}});
  v.zeros = done({OnnxType::kBool, {}, {0}});
}

void OnnxImporter::set(const OnnxNode& node, TensorId tensor, Dims dims, std::size_t output) {
  if (output >= node.outputs.size() || node.outputs[output] == kNoOnnxValue) return;
  check_dims(dims);
  Value& v = value(node.outputs[output]);
  made_by_[node.outputs[output]] = now_;
  v.kind = Value::Kind::kTensor;
  v.tensor = tensor;
  if (tensor != kNoIndex) hold(v, graph_.type(tensor));
  v.finer = kNoIndex;
  v.dims = std::move(dims);
}

/// Whether anything reads the node's i-th result.
bool OnnxImporter::reads_output(const OnnxNode& node, std::size_t i) const {
  return i < node.outputs.size() && node.outputs[i] != kNoOnnxValue &&
         (!readers_[node.outputs[i]].empty() || is_output(node.outputs[i]));
}

void OnnxImporter::pass_on(const OnnxNode& node, std::size_t input) {
  const int from = in(node, input);
  if (value(from).kind == Value::Kind::kTensor) {
    value(from).finer == kNoIndex ? tensor(from) : finer_tensor(from);
    made_by_[node.outputs[0]] = now_;
  }
  value(node.outputs[0]) = value(from);
}

void OnnxImporter::check_dims(const Dims& dims) {
  if (dims.size() > kMostDims)
    throw FoldError("has " + std::to_string(dims.size()) + " dims, of which at most " +
                    std::to_string(kMostDims) + " are modelled");
}

int OnnxImporter::in(const OnnxNode& node, std::size_t i) const {
  if (!has_input(node, i)) throw FoldError("lacks its operand " + std::to_string(i));
  const Value& v = values_[node.inputs[i]];
  if (v.kind != Value::Kind::kConstant) check_dims(v.dims);
  return node.inputs[i];
}

const OnnxConstant& OnnxImporter::constant_in(const OnnxNode& node, std::size_t i) {
  const ConstantRef constant = constant_of(in(node, i));
  if (constant == nullptr)
    throw FoldError("operand " + std::to_string(i) +
                    " depends on data, where a constant is expected");
  return *constant;
}

FoldInputs OnnxImporter::constants_behind(const OnnxNode& node, std::size_t first) {
  FoldInputs out(first);
  for (std::size_t i = first; i < node.inputs.size(); ++i) {
    if (has_input(node, i)) constant_in(node, i);
    out.push_back(has_input(node, i) ? constant_of(node.inputs[i]) : nullptr);
  }
  return out;
}

OnnxImporter::Dims OnnxImporter::axes_in(const OnnxNode& node, std::size_t i) {
  return has_input(node, i) ? constant_in(node, i).integers() : node.integers("axes");
}

std::optional<double> OnnxImporter::scalar(int id) {
  const ConstantRef constant = constant_of(id);
  if (constant == nullptr || constant->numbers.empty()) return std::nullopt;
  const double first = constant->numbers[0];
  const bool same = std::all_of(constant->numbers.begin(), constant->numbers.end(),
                                [&](double x) { return x == first; });
  return same ? std::optional(first) : std::nullopt;
}

const std::string& OnnxImporter::module(const OnnxNode& node) {
  static const std::string whole = "model";
  return node.module.empty() ? whole : node.module;
}

void OnnxImporter::run_node(const OnnxNode& node) {
  if (node.op == "If") return take_branch(node);
  if (node.op == "Shape" || node.op == "Size") return give_shape(node);
  if (try_fold(node) || follow_mask(node)) return;
  const auto handler = handlers().find(node.op);
  if (handler == handlers().end()) throw FoldError(reason_against(node.op));
  (this->*handler->second)(node);
}

}  // namespace trainyard
