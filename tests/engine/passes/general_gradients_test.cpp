// The backward of general ops, read line by line: what lies in what is there already, what is
// copied, and what is zero.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/graph/graph_builder.h"
#include "engine/graph/tensor_storage.h"
#include "engine/passes/differentiate.h"
#include "engine/passes/split_backward.h"
#include "tests/support/random_graph.h"

namespace trainyard::general_gradients_test {

namespace {

TrainingGraph training(const Graph& graph) {
  StagedGraph staged;
  staged.graph = graph;
  staged.stage.assign(graph.ops.size(), 0);
  staged.from.assign(graph.ops.size(), -1);
  staged.num_stages = 1;
  return differentiate(staged, SoftwareProfile{}, DType::kFp32);
}

/// Instructions without the losses', each "op reads -> writes +> accumulates"; "in" behind what is
/// a view.
std::string text(const TrainingGraph& t, const std::vector<Instruction>& list) {
  std::string out;
  for (const Instruction& op : list) {
    if (op.kind == OpKind::kMse || op.kind == OpKind::kLoad) continue;
    out += op_name(op.kind, op.part);
    for (const TensorId id : op.reads) out += " " + t.graph.tensors[id].name;
    if (!op.writes.empty()) out += " ->";
    for (const TensorId id : op.writes) {
      const Tensor& tensor = t.graph.tensors[id];
      out += " " + tensor.name;
      if (tensor.alias == kNoIndex) continue;
      out +=
          " in " + t.graph.tensors[tensor.alias].name + "+" + std::to_string(tensor.alias_offset);
    }
    if (!op.accumulates.empty()) out += " +>";
    for (const TensorId id : op.accumulates) out += " " + t.graph.tensors[id].name;
    out += op.attrs->copies ? " copies\n" : "\n";
  }
  return out;
}

struct Small {
  GraphBuilder b{"small", DType::kFp32};
  TensorId x = b.input("x", {4, 6}, DType::kFp32);
  TensorId w = b.parameter("w", {4, 6});
  TensorId wx = b.mul("wx", x, w);

  TrainingGraph against(TensorId y) {
    const TensorId t = b.input("t", b.shape(y), DType::kFp32);
    return training(b.finish(b.mse("loss", y, t)));
  }
};

}  // namespace

TEST_CASE("views of activations lie in them, and so do their gradients the other way round") {
  Small s;
  const TrainingGraph t = s.against(s.b.pieces("p", s.b.view("v", s.wx, {2, 12}), 1, 3));
  CHECK(text(t, t.forward) ==
        "mul x w -> wx.mul\n"
        "view wx.mul -> v.view in wx.mul+0\n"
        "pieces v.view -> p.pieces in v.view+0\n");
  CHECK(text(t, t.backward) ==
        "pieces_dx d.p.pieces -> d.v.view in d.p.pieces+0\n"
        "view_dx d.v.view -> d.wx.mul in d.v.view+0\n"
        "mul_dw d.wx.mul x +> grad.w\n");
}

TEST_CASE("a view of a parameter, of an input or of a range with gaps is a copy") {
  Small s;
  const TensorId columns = s.b.narrow("c", s.wx, 1, 2, 3);
  const TensorId rows = s.b.narrow("r", s.b.view("v", s.w, {6, 4}), 0, 2, 3);
  const TrainingGraph t = s.against(s.b.mul("y", s.b.view("u", columns, {3, 4}), rows));
  CHECK(text(t, t.forward) ==
        "mul x w -> wx.mul\n"
        "narrow wx.mul -> c.narrow copies\n"
        "view w -> v.view copies\n"
        "narrow v.view -> r.narrow in v.view+8\n"
        "view c.narrow -> u.view in c.narrow+0\n"
        "mul u.view r.narrow -> y.mul\n");
  CHECK(text(t, t.backward) ==
        "mul_dx d.y.mul r.narrow -> d.u.view\n"
        "mul_dw d.y.mul u.view -> d.r.narrow\n"
        "view_dx d.u.view -> d.c.narrow in d.u.view+0\n"
        "narrow_dx d.r.narrow -> d.v.view\n"
        "view_dw d.v.view +> grad.w\n"
        "narrow_dx d.c.narrow -> d.wx.mul\n"
        "mul_dw d.wx.mul x +> grad.w\n");
}

TEST_CASE("where a part of a split has no gradient, the whole has zeros there") {
  Small s;
  const std::vector<std::int64_t> sizes = {1, 2, 1};
  const auto parts = s.b.split("s", s.wx, 0, sizes);
  const TrainingGraph t = s.against(parts[1]);
  CHECK(text(t, t.forward) ==
        "mul x w -> wx.mul\n"
        "split wx.mul -> s.split in wx.mul+0 s.split:1 in wx.mul+6 s.split:2 in wx.mul+18\n");
  CHECK(text(t, t.backward) ==
        "zero -> d.s.split.zero\n"
        "zero -> d.s.split:2.zero\n"
        "concat d.s.split.zero d.s.split:1 d.s.split:2.zero -> d.wx.mul\n"
        "mul_dw d.wx.mul x +> grad.w\n");
}

TEST_CASE(
    "a gradient is summed over what its operand was repeated along, and passed on where not") {
  Small s;
  const TensorId bias = s.b.parameter("bias", {6});
  const TensorId whole = s.b.parameter("whole", {4, 6});
  const TrainingGraph t = s.against(s.b.add("z", s.b.add("y", s.wx, bias), whole));
  CHECK(text(t, t.backward) ==
        "add d.z.add +> grad.whole\n"
        "add_dw d.z.add +> grad.bias\n"
        "mul_dw d.z.add x +> grad.w\n");
}

TEST_CASE("the gradients of joined parts are ranges of the whole's") {
  Small s;
  const TrainingGraph rows = s.against(s.b.concat("y", std::vector{s.wx, s.w}, 0));
  CHECK(text(rows, rows.backward) ==
        "narrow d.y.concat -> d.wx.mul in d.y.concat+0\n"
        "narrow d.y.concat -> d.w in d.y.concat+24\n"
        "add d.w +> grad.w\n"
        "mul_dw d.wx.mul x +> grad.w\n");
  Small c;
  const TrainingGraph columns = c.against(c.b.concat("y", std::vector{c.x, c.wx}, 1));
  CHECK(text(columns, columns.backward) ==
        "narrow d.y.concat -> d.wx.mul copies\n"
        "mul_dw d.wx.mul x +> grad.w\n");
}

TEST_CASE("training graphs of random general ops are well-formed, split backward or not") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    TrainingGraph t = training(random_graph(seed, {.ops = 1 + static_cast<int>(seed % 12)}));
    CHECK(find_training_violation(t).empty());
    split_backward(t);
    CHECK(find_training_violation(t).empty());
    for (const Instruction& op : t.forward) {
      for (const TensorId id : op.writes) {
        const TensorId root = storage_of(t.graph, id);
        CHECK(t.graph.tensors[root].role == TensorRole::kActivation);
      }
    }
  }
}

}  // namespace trainyard::general_gradients_test
