// LSTM, GRU and RNN, step by step: one product of all steps' inputs, and one of each step's state.
#include <algorithm>

#include "engine/base/user_text.h"
#include "models/onnx/importer.h"
#include "models/onnx/slice_range.h"

namespace trainyard {

namespace {

/// As long as a sequence may be, in one direction.
constexpr std::int64_t kMostSteps = 4096;

std::int64_t gates_of(std::string_view op) { return op == "LSTM" ? 4 : op == "GRU" ? 3 : 1; }

/// Those of one direction, as PyTorch has them.
std::string_view usual_activations(std::string_view op) {
  return op == "LSTM" ? "Sigmoid,Tanh,Tanh" : op == "GRU" ? "Sigmoid,Tanh" : "Tanh";
}

/// What an RNN makes states by.
OpKind bent_of(const OnnxNode& node) {
  const bool relu = node.op == "RNN" && node.text("activations", "Tanh").starts_with("Relu");
  return relu ? OpKind::kRelu : OpKind::kTanh;
}

}  // namespace

/// One direction. Tensors of a step have the dims [1, batch, ..]; gates lie behind each other.
struct OnnxImporter::Recurrence {
  GraphBuilder& g;
  std::string where;
  std::int64_t width;    // of a state
  TensorId weight;       // of states: [gates width, width]
  TensorId bias;         // gru: of the products of states; else with those of inputs
  OpKind bent;           // rnn: tanh or relu
  TensorId state, cell;  // behind the steps so far; lstm: its cell

  TensorId gated(OpKind kind, TensorId x) { return g.activation(where, kind, x); }
  TensorId of_state() { return g.lm_head(where, state, weight); }

  /// ONNX's gates are i, o, f, and what goes into the cell.
  void lstm(TensorId in) {
    const std::int64_t sizes[] = {3 * width, width}, each[] = {width, width, width};
    const auto parts = g.split(where, g.add(where, in, of_state()), 2, sizes);
    const auto gates = g.split(where, gated(OpKind::kSigmoid, parts[0]), 2, each);
    const TensorId kept = g.mul(where, gates[2], cell);
    const TensorId taken = g.mul(where, gates[0], gated(OpKind::kTanh, parts[1]));
    cell = g.add(where, kept, taken);
    state = g.mul(where, gates[1], gated(OpKind::kTanh, cell));
  }

  /// z, r, and what a state becomes: n + z (state - n), n = tanh(in + r (state R + bias)).
  void gru(TensorId in) {
    const std::int64_t sizes[] = {2 * width, width}, each[] = {width, width};
    TensorId own = of_state();
    if (bias != kNoIndex) own = g.add(where, own, bias);
    const auto given = g.split(where, in, 2, sizes), from = g.split(where, own, 2, sizes);
    const TensorId opened = gated(OpKind::kSigmoid, g.add(where, given[0], from[0]));
    const auto gates = g.split(where, opened, 2, each);
    const TensorId reset = g.mul(where, gates[1], from[1]);
    const TensorId made = gated(OpKind::kTanh, g.add(where, given[1], reset));
    state = g.add(where, made, g.mul(where, gates[0], g.sub(where, state, made)));
  }

  void rnn(TensorId in) { state = gated(bent, g.add(where, in, of_state())); }

  void step(std::string_view op, TensorId in) {
    op == "LSTM" ? lstm(in) : op == "GRU" ? gru(in) : rnn(in);
  }
};

/// A direction's, [1, batch, width]; zeros without the operand.
TensorId OnnxImporter::state_before(const OnnxNode& node, std::size_t input, std::int64_t direction,
                                    const Dims& dims) {
  const bool given = has_input(node, input);
  const ConstantRef constant = given ? constant_of(node.inputs[input]) : nullptr;
  if (given && constant == nullptr) {
    const TensorId all = full_tensor(node.inputs[input]);
    if (graph_.shape(all).size() != 3) throw FoldError("has a state of other dims");
    return viewed(node, graph_.narrow(module(node), all, 0, direction, 1), dims);
  }
  const auto number = given ? scalar(node.inputs[input]) : std::optional(0.0);
  if (!number) throw FoldError("begins with a constant state of several numbers");
  // As long as the batch, which no constant says.
  OnnxConstant one = empty_constant(OnnxType::kFloat, {1, 1, dims[2]});
  std::fill(one.numbers.begin(), one.numbers.end(), *number);
  return graph_.mul("repeated", constant_tensor(one), ones_of_batch(2, options_.compute));
}

/// Gates are cut from weights of all gates: where rows of them are left that nothing reads, the
/// file is none of the module's.
void OnnxImporter::check_whole_weights(const OnnxNode& node, std::size_t input) {
  std::vector<int> behind{node.inputs[input]};
  while (!behind.empty()) {
    const int id = behind.back();
    behind.pop_back();
    if (id == kNoOnnxValue) continue;
    if (made_by_[id] != kNobody) {
      const OnnxNode& maker = model_.nodes[made_by_[id]];
      const bool joins = maker.op == "Concat";
      if (joins || maker.op == "Slice" || maker.op == "Unsqueeze")
        behind.insert(behind.end(), maker.inputs.begin(),
                      joins ? maker.inputs.end() : maker.inputs.begin() + 1);
      continue;
    }
    if (value(id).kind != Value::Kind::kInitializer || value(id).dims.empty()) continue;
    std::int64_t read = 0;
    for (const int reader : readers_[id]) {
      const OnnxNode& cut = model_.nodes[reader];
      if (cut.op != "Slice") return;
      const auto ranges = slice_ranges(cut, dims_of(id), constants_behind(cut, 1));
      if (ranges.size() != 1 || ranges[0].axis != 0 || ranges[0].step != 1) return;
      read = std::max(read, ranges[0].begin + ranges[0].count);
    }
    if (const std::int64_t rows = dims_of(id)[0]; read < rows)
      throw FoldError("reads " + std::to_string(read) + " of the " + std::to_string(rows) +
                      " rows of " + in_quotes(initializer(value(id)).name) +
                      ", and nothing reads the others: so PyTorch writes an LSTM with proj_size, "
                      "whose projection is not in the file; train one without proj_size");
  }
}

/// What is known of a recurrent node's operands before any op is made.
void OnnxImporter::check_recurrence(const OnnxNode& node) {
  const std::string& op = node.op;
  const bool twice = node.text("direction", "forward") == "bidirectional";
  const Dims of_x = dims_of(in(node, 0)), of_w = dims_of(in(node, 1)), of_r = dims_of(in(node, 2));
  if (of_x.size() != 3 || of_w.size() != 3 || of_r.size() != 3 || of_w[0] != (twice ? 2 : 1))
    throw FoldError("has operands of other dims");
  if (node.integer("layout", 0) != 0 || node.integer("input_forget", 0) != 0 ||
      node.find("clip") != nullptr || has_input(node, 7))
    throw FoldError(
        "has the batch first, coupled gates, bounds or peepholes, "
        "which is not modelled");
  if (op == "GRU" && node.integer("linear_before_reset", 0) == 0)
    throw FoldError("resets states before their product, which is not modelled");
  const std::int64_t steps = of_x[0], width = of_r[2];
  // No larger batch says which dim that is of a file for one alone.
  const bool open = wider_ != nullptr && !wider_->empty();
  const bool through_batch =
      open ? (*wider_)[node.inputs[0]].size() == 3 && (*wider_)[node.inputs[0]][0] != steps
           : wider_ != nullptr && steps == options_.microbatch && of_x[1] != steps;
  if (through_batch)
    throw FoldError(
        "goes through the samples of a batch step by step: the model reads dim 0 as steps, and "
        "here "
        "dim 0 of every input is the batch; build the module with batch_first=True, give it inputs "
        "that have the batch first, and export it again");
  if (steps > kMostSteps)
    throw FoldError("goes through " + std::to_string(steps) + " steps, of which at most " +
                    std::to_string(kMostSteps) + " are modelled");
  if (has_input(node, 4)) {
    const auto lengths = scalar(node.inputs[4]);
    if (lengths != static_cast<double>(steps))
      throw FoldError("has sequences of lengths of their own, which is not modelled");
  }
  for (std::size_t weights = 1; weights <= 3; ++weights) {
    if (!has_input(node, weights)) continue;
    if (constant_of(node.inputs[weights]) != nullptr)
      throw FoldError(
          "has weights that the file holds as constants, which are not trained; export the module "
          "traced, whose weights are parameters");
    check_whole_weights(node, weights);
  }
  const std::int64_t gates = gates_of(op);
  if (of_w[1] != gates * width || of_r[1] != gates * width || of_w[2] != of_x[2])
    throw FoldError("has operands that do not fit");
  std::string expected =
      bent_of(node) == OpKind::kRelu ? "Relu" : std::string(usual_activations(op));
  if (twice && node.find("activations") != nullptr) expected += "," + expected;
  if (node.text("activations", usual_activations(op)) != expected)
    throw FoldError("has other activations than PyTorch's, which is not modelled");
}

void OnnxImporter::recurrent(const OnnxNode& node) {
  check_recurrence(node);
  const std::string& op = node.op;
  const std::string direction = node.text("direction", "forward");
  const bool twice = direction == "bidirectional";
  const Dims of_x = dims_of(node.inputs[0]), of_w = dims_of(node.inputs[1]);
  const std::int64_t steps = of_x[0], batch = of_x[1], width = dims_of(node.inputs[2])[2];
  const std::int64_t gates = gates_of(op);
  const std::string& where = module(node);
  const TensorId x = full_tensor(node.inputs[0]);
  const auto one_direction = [&](std::size_t input, std::int64_t at) {
    const TensorId all = full_tensor(node.inputs[input]);
    return twice ? graph_.narrow(where, all, 0, at, 1) : all;
  };
  std::vector<TensorId> outputs, states, cells;
  for (std::int64_t at = 0; at < of_w[0]; ++at) {
    const auto matrix = [&](std::size_t input) {
      const Dims dims = dims_of(node.inputs[input]);
      return viewed(node, one_direction(input, at), {dims[1], dims[2]});
    };
    TensorId in = graph_.lm_head(where, x, matrix(1)), of_states = kNoIndex;
    if (has_input(node, 3)) {
      const std::int64_t halves[] = {gates * width, gates * width};
      const auto biases = graph_.split(where, one_direction(3, at), 1, halves);
      const auto flat = [&](TensorId bias) { return viewed(node, bias, {gates * width}); };
      in = graph_.add(where, in, flat(biases[0]));
      if (op == "GRU") {
        of_states = flat(biases[1]);
      } else {
        in = graph_.add(where, in, flat(biases[1]));
      }
    }
    Dims ones;
    while (std::ssize(ones) < steps) ones.push_back(1);
    const auto each = graph_.split(where, in, 0, ones);
    const Dims of_state{1, batch, width};
    Recurrence recurrence{graph_,
                          where,
                          width,
                          matrix(2),
                          of_states,
                          bent_of(node),
                          state_before(node, 5, at, of_state),
                          op == "LSTM" ? state_before(node, 6, at, of_state) : TensorId(kNoIndex)};
    const bool reverse = direction == "reverse" || at == 1;
    std::vector<TensorId> made(each.size());
    for (std::size_t i = 0; i < each.size(); ++i) {
      const std::size_t step = reverse ? each.size() - 1 - i : i;
      recurrence.step(op, each[step]);
      made[step] = recurrence.state;
    }
    if (reads_output(node, 0)) {
      const TensorId all = made.size() == 1 ? made[0] : graph_.concat(where, made, 0);
      outputs.push_back(graph_.pieces(where, all, 0, steps));  // with a dim of directions behind
    }
    states.push_back(recurrence.state);
    cells.push_back(recurrence.cell);
  }
  const auto give = [&](std::size_t i, const std::vector<TensorId>& of, int dim) {
    if (!reads_output(node, i)) return;
    const TensorId all = of.size() == 1 ? of[0] : graph_.concat(where, of, dim);
    set(node, all, shape_dims(all), i);
  };
  give(0, outputs, 1);
  give(1, states, 0);
  if (op == "LSTM") give(2, cells, 0);
}

}  // namespace trainyard
