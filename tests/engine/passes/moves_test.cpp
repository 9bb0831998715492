// Each move between two specs as ops: what runs in forward, and what differentiate() makes of it.
// The backward of a move from A to B is the move from dual(B) to dual(A): summands of the gradient
// stand where the value is entered (engine/sharding/move.h has the table).
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <variant>

#include "engine/graph/graph_builder.h"
#include "engine/passes/apply_sharding.h"
#include "engine/passes/differentiate.h"
#include "engine/sharding/moved_axes.h"
#include "engine/sharding/spec_text.h"

namespace trainyard::moves_test {

namespace {

const DeviceMesh kMesh = {"", {{"a", 2}, {"b", 2}}, {}};

TensorSpec spec_of_text(const std::string& text) {
  return std::get<TensorSpec>(parse_spec(text, kMesh));
}

std::string names(const Axes& axes) {
  std::string text;
  for (const AxisId axis : axes) text += " " + kMesh.axis_name(axis);
  return text;
}

/// "all_gather 1 over a b": its dim, where it has one, and the axes that its specs say.
template <typename AnOp>
std::string op_text(const Graph& graph, const AnOp& op, TensorId from, TensorId to) {
  std::string text(to_string(op.kind));
  if (op.attrs->dim >= 0) text += " " + std::to_string(op.attrs->dim);
  const auto spec = [&](TensorId id) { return graph.specs[graph.tensors[id].spec]; };
  return text + " over" + names(moved_axes(spec(from), spec(to)));
}

/// The ops that are neither readers nor sums, forward and backward, of a tensor `from` that each of
/// `readers` wants as `to`. A reader's number says in which sublayer it stands.
std::pair<std::string, std::string> moves(const std::string& from, const std::string& to,
                                          const std::vector<int>& readers = {0}) {
  GraphBuilder builder("moved", DType::kFp64);
  builder.set_layer(0);
  const TensorId w = builder.parameter("w", {8, 8});
  const TensorId x = builder.activation("x", OpKind::kTanh, w);
  const TensorId target = builder.input("t", {8, 8}, DType::kFp64);
  std::vector<TensorId> read;
  TensorId sum = kNoIndex;
  for (std::size_t i = 0; i < readers.size(); ++i) {
    if (i > 0 && readers[i] != readers[i - 1]) builder.next_sublayer();
    read.push_back(builder.activation("y" + std::to_string(i), OpKind::kTanh, x));
    sum = i == 0 ? read[0] : builder.add("sum" + std::to_string(i), sum, read[i]);
  }
  const Graph graph = builder.finish(builder.mse("z", sum, target));
  Sharding sharding;
  sharding.mesh = kMesh;
  sharding.stored.assign(graph.tensors.size(), kNoIndex);
  const SpecId was = sharding.specs.add(spec_of_text(from));
  const SpecId wanted = sharding.specs.add(spec_of_text(to));
  const SpecId whole = sharding.specs.add(replicated_spec(2));
  const SpecId loss = sharding.specs.add(replicated_spec(1));
  for (const TensorId id : graph.tensors.keys()) sharding.stored[id] = whole;
  const auto split = [&](std::vector<SpecId> operands, SpecId result) {
    sharding.ops.push_back(sharding.splits.add({{}, std::move(operands), {result}, 0, 0}));
  };
  for (const Op& op : graph.ops) {
    if (op.outputs[0] == x) {
      split({whole}, was);
    } else if (op.kind == OpKind::kMse) {
      split({wanted, whole}, loss);
    } else {
      split(std::vector<SpecId>(op.inputs.size(), wanted), wanted);
      sharding.stored[op.outputs[0]] = wanted;
    }
  }
  sharding.stored[x] = was;
  sharding.stored[graph.loss] = loss;
  auto applied = apply_sharding(graph, sharding);
  if (const auto* reason = std::get_if<Infeasible>(&applied)) return {reason->reason, ""};
  StagedGraph staged;
  staged.graph = std::get<Graph>(std::move(applied));
  staged.stage.assign(staged.graph.ops.size(), 0);
  staged.from.assign(staged.graph.ops.size(), -1);
  std::pair<std::string, std::string> out;
  const auto computes = [](OpKind kind) {
    return kind == OpKind::kTanh || kind == OpKind::kMse || kind == OpKind::kAdd;
  };
  const auto add = [](std::string& to_text, const std::string& one) {
    to_text += (to_text.empty() ? "" : ", ") + one;
  };
  for (const Op& op : staged.graph.ops) {
    if (!computes(op.kind)) add(out.first, op_text(staged.graph, op, op.inputs[0], op.outputs[0]));
  }
  const TrainingGraph training = differentiate(staged, SoftwareProfile{}, DType::kFp64);
  for (const Instruction& op : training.backward) {
    if (!computes(op.kind)) add(out.second, op_text(training.graph, op, op.reads[0], op.writes[0]));
  }
  return out;
}

}  // namespace

TEST_CASE("each move has its op, and its backward is that of the dual specs") {
  struct Case {
    std::string from, to, forward, backward;
  };
  const std::vector<Case> cases = {
      {"[a, R]", "[R, R]", "all_gather 0 over a", "slice 0 over a"},
      {"[a, R]", "[R, R] E(a)", "all_gather 0 over a", "reduce_scatter 0 over a"},
      {"[R, a b]", "[R, R]", "all_gather 1 over a b", "slice 1 over a b"},
      {"[R, b a]", "[R, R] E(a b)", "all_gather 1 over b a", "reduce_scatter 1 over b a"},
      {"[R, R]", "[R, a]", "slice 1 over a", "all_gather 1 over a"},
      {"[R, R] E(a)", "[a, R]", "slice 0 over a", "pad 0 over a"},
      {"[a, R]", "[R, R] P(a)", "pad 0 over a", "slice 0 over a"},
      {"[R, R] P(a)", "[R, R]", "all_reduce over a", ""},
      {"[R, R] P(a b)", "[R, R] E(a b)", "all_reduce over a b", "all_reduce over a b"},
      {"[R, R] P(b)", "[b, R]", "reduce_scatter 0 over b", "all_gather 0 over b"},
      {"[R, R]", "[R, R] E(a b)", "enter_tensor over a b", "all_reduce over a b"},
      {"[R, R] E(a)", "[R, R]", "enter_tensor over a", "keep_on_one over a"},
      {"[R, R]", "[R, R] P(a)", "keep_on_one over a", ""},
      {"[R, R] E(b)", "[R, R] P(b)", "keep_on_one over b", "keep_on_one over b"},
      {"[a, R]", "[R, a]", "all_to_all 1 over a", "all_to_all 0 over a"},
      {"[a b, R]", "[b a, R]", "all_to_all 0 over a b", "all_to_all 0 over b a"},
      {"[4x1:a|4x1:R, R] E(a)", "[R, R] E(a)", "all_gather 0 over a", "reduce_scatter 0 over a"}};
  for (const Case& one : cases) {
    CAPTURE(one.from, one.to);
    const auto [forward, backward] = moves(one.from, one.to);
    CHECK(forward == one.forward);
    CHECK(backward == one.backward);
  }
}

// Gradients of readers that share a move are added before they move back.
TEST_CASE("readers of one sublayer share a move, others move again") {
  using Moves = std::pair<std::string, std::string>;
  CHECK(moves("[R, R]", "[R, R] E(a)", {0, 0, 0}) ==
        Moves{"enter_tensor over a", "all_reduce over a"});
  CHECK(moves("[a, R]", "[R, R]", {0, 0}) == Moves{"all_gather 0 over a", "slice 0 over a"});
  CHECK(moves("[a, R]", "[R, R]", {0, 1, 1}) ==
        Moves{"all_gather 0 over a, all_gather 0 over a", "slice 0 over a, slice 0 over a"});
}

TEST_CASE("a move that no executor has is a reason") {
  CHECK(moves("[R, R] H@1(a)", "[R, R]").first.find("no executor has values that one rank holds") !=
        std::string::npos);
  CHECK(moves("[6x1:a|2x1:R, R] E(a)", "[R, R]").first.empty() == false);
}

TEST_CASE("the axes of a move are those that change, in the order of their list") {
  const auto axes = [](const std::string& from, const std::string& to) {
    return names(moved_axes(spec_of_text(from), spec_of_text(to)));
  };
  CHECK(axes("[b a, R]", "[b, R]") == " a");
  CHECK(axes("[b a, R]", "[R, R]") == " b a");
  CHECK(axes("[R, R] P(a) E(b)", "[R, R] E(a b)") == " a");
  CHECK(axes("[R, a] P(b)", "[R, a b]") == " b");
  CHECK(axes("[a, R] P(b)", "[R, a]") == "");    // two moves
  CHECK(axes("[R, R] E(a)", "[b, R]") == " b");  // of gradients E and R are one
  CHECK(axes("[a, R]", "[a, R]") == "");
}

}  // namespace trainyard::moves_test
