// General ops as the builder makes them: extents, refusals, work of their kernels, and that the
// index space of each op gives the same extents.
#include <algorithm>
#include <catch2/catch.hpp>
#include <span>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/graph/count_work.h"
#include "engine/graph/general_shapes.h"
#include "engine/graph/graph_builder.h"
#include "engine/graph/op_space.h"
#include "engine/graph/op_table.h"
#include "tests/support/random_graph.h"

namespace trainyard::general_ops_test {

namespace {

struct Small {
  GraphBuilder b{"small", DType::kBf16};
  TensorId x = b.input("x", {4, 6, 10}, DType::kBf16);
  TensorId w = b.parameter("w", {6, 10});
};

/// What the builder says of an op that does not fit; "": it took it.
template <typename Build>
std::string refusal(const Build& build) {
  Small s;
  try {
    build(s);
    return "";
  } catch (const ConfigError& error) {
    return error.problem();
  }
}

KernelWork work(OpKind kind, OpPart part, const OpAttrs& attrs, const std::vector<Shape>& reads,
                const std::vector<Shape>& writes, const std::vector<Shape>& accumulates = {}) {
  const auto operands = [](const std::vector<Shape>& shapes, DType type) {
    std::vector<OperandShape> out;
    for (const Shape& shape : shapes) out.push_back({&shape, type});
    return out;
  };
  return kernel_work(kind, part, attrs, operands(reads, DType::kBf16),
                     operands(writes, DType::kBf16), operands(accumulates, DType::kFp32));
}

Extents extents(const Shape& shape) { return Extents(shape.begin(), shape.end()); }

}  // namespace

TEST_CASE("general ops have the extents that their operands and attributes say") {
  Small s;
  GraphBuilder& b = s.b;
  CHECK(b.shape(b.view("m", s.x, {24, 2, 5})) == Shape{24, 2, 5});
  CHECK(b.shape(b.pieces("m", s.x, 1, 3)) == Shape{4, 3, 2, 10});
  CHECK(b.shape(b.permute("m", s.x, {2, 0, 1})) == Shape{10, 4, 6});
  CHECK(b.shape(b.roll("m", s.x, 0)) == Shape{4, 6, 10});
  CHECK(b.shape(b.narrow("m", s.x, 2, 3, 7)) == Shape{4, 6, 7});
  CHECK(b.shape(b.sum("m", s.x, {2, 0})) == Shape{6});
  CHECK(b.shape(b.sum("m", s.x, {1}, /*keepdim=*/true)) == Shape{4, 1, 10});
  CHECK(b.shape(b.sum("m", s.x, {0, 1, 2})) == Shape{1});
  CHECK(b.shape(b.add("m", s.x, s.w)) == Shape{4, 6, 10});
  CHECK(b.shape(b.mul("m", b.view("m", s.w, {1, 60, 1}), b.view("m", s.w, {6, 1, 10}))) ==
        Shape{6, 60, 10});
  CHECK(b.shape(b.bmm("m", s.x, b.view("m", s.x, {4, 10, 6}))) == Shape{4, 6, 6});
  const std::vector<std::int64_t> sizes = {1, 2, 3};
  const std::vector<TensorId> parts = b.split("m", s.x, 1, sizes);
  CHECK(b.shape(parts[2]) == Shape{4, 3, 10});
  CHECK(b.shape(b.concat("m", parts, 1)) == Shape{4, 6, 10});
  CHECK(b.shape(b.zero_pad("m", s.x, 1, 2, 3)) == Shape{4, 11, 10});
  const TensorId index = b.input("i", {4, 3}, DType::kInt64);
  const TensorId row = b.input("row", {1, 3}, DType::kInt64);
  CHECK(b.shape(b.gather("m", s.x, index)) == Shape{4, 3, 10});
  CHECK(b.shape(b.gather("m", s.x, row)) == Shape{4, 3, 10});
  const TensorId same = b.combine("m", Combination::kEqual, index, row);
  CHECK(b.shape(same) == Shape{4, 3});
  CHECK(b.type(same) == DType::kUint8);
  CHECK(b.type(b.combine("m", Combination::kRemainder, index, row)) == DType::kInt64);
  CHECK(b.shape(b.argmax("m", s.x)) == Shape{4, 6});
  CHECK(b.type(b.argmax("m", s.x)) == DType::kInt64);
  CHECK(b.type(b.cast("m", index, DType::kBf16)) == DType::kBf16);
  CHECK(b.shape(b.cumsum("m", s.x, 2)) == Shape{4, 6, 10});
  CHECK(b.shape(b.clamp("m", b.affine("m", s.x, 2, 1), 0, 1)) == Shape{4, 6, 10});
  const TensorId which = b.input("c", {4, 1, 1}, DType::kUint8);
  CHECK(b.shape(b.where("m", which, s.w, b.view("m", s.w, {1, 6, 10}))) == Shape{4, 6, 10});
  CHECK(b.shape(b.div("m", s.w, b.sub("m", s.x, s.w))) == Shape{4, 6, 10});
  const TensorId more = b.view("m", s.x, {2, 2, 6, 10});
  CHECK(b.shape(b.bmm("m", more, b.view("m", s.x, {2, 2, 10, 6}))) == Shape{2, 2, 6, 6});
  const TensorId loss = b.mse("loss", s.x, b.add("m", s.x, s.w));
  CHECK(b.shape(loss) == Shape{1});
}

TEST_CASE("the builder refuses what does not fit, with the extents") {
  CHECK(refusal([](Small& s) {
          s.b.view("m", s.x, {7, 2});
        }) == "m: view does not take [4, 6, 10] to [7, 2]");
  CHECK(refusal([](Small& s) { s.b.pieces("m", s.x, 1, 4); }) ==
        "m: pieces does not take [4, 6, 10] to [4, 4, 1, 10]");
  CHECK(refusal([](Small& s) {
          s.b.permute("m", s.x, {0, 1, 1});
        }) == "m: permute an order of 3 dims names each of them once");
  CHECK(refusal([](Small& s) { s.b.roll("m", s.x, 3); }) ==
        "m: roll does not take [4, 6, 10] to [4, 6, 10]");
  CHECK(refusal([](Small& s) { s.b.narrow("m", s.x, 2, 4, 7); }) ==
        "m: narrow elements 4 to 11 of dim 2 of [4, 6, 10]");
  CHECK(refusal([](Small& s) { s.b.narrow("m", s.x, 2, 4, 0); }) ==
        "m: narrow makes a tensor of [4, 6, 0]");
  CHECK(refusal([](Small& s) {
          s.b.split("m", s.x, 0, std::vector<std::int64_t>{1, 2});
        }) == "m: split does not take [4, 6, 10] to [1, 6, 10] [2, 6, 10]");
  CHECK(refusal([](Small& s) {
          s.b.concat("m", std::vector{s.x, s.w}, 0);
        }) == "m: concat does not take [4, 6, 10] [6, 10] to [10, 6, 10]");
  CHECK(refusal([](Small& s) {
          s.b.add("m", s.x, s.b.view("m", s.w, {10, 6}));
        }) == "m: add does not take [4, 6, 10] [10, 6] to [4, 6, 10]");
  CHECK(refusal([](Small& s) {
          s.b.sum("m", s.x, {1, 1});
        }) == "m: sum sums dims that [4, 6, 10] does not have, or one twice");
  CHECK(refusal([](Small& s) { s.b.bmm("m", s.x, s.x); }) ==
        "m: bmm does not take [4, 6, 10] [4, 6, 10] to [4, 6, 10]");
  CHECK(refusal([](Small& s) { s.b.mse("m", s.x, s.w); }) ==
        "m: mse does not take [4, 6, 10] [6, 10] to [1]");
  CHECK(refusal([](Small& s) {
          s.b.view("m", s.x, {1, 1, 1, 1, 1, 1, 1, 1, 240});
        }) == "m: view makes a tensor of more than 8 dims");
  CHECK(refusal([](Small& s) { s.b.zero_pad("m", s.x, 1, -1, 0); }) ==
        "m: zero_pad pads with fewer than no zeros");
  CHECK(refusal([](Small& s) { s.b.cumsum("m", s.x, 3); }) ==
        "m: cumsum does not take [4, 6, 10] to [4, 6, 10]");
  CHECK(refusal([](Small& s) { s.b.where("m", s.x, s.x, s.x); }) ==
        "m: where has a condition that is not of uint8");
  CHECK(refusal([](Small& s) { s.b.bce("m", s.x, s.w); }) ==
        "m: bce does not take [4, 6, 10] [6, 10] to [1]");
  CHECK(refusal([](Small& s) { s.b.mul("m", s.x, s.b.input("i", {10}, DType::kInt64)); }) ==
        "m: mul operands of several types");
}

TEST_CASE("a roll counts its steps around the dim's end") {
  const auto steps = [](std::int64_t by) {
    Small s;
    const TensorId rolled = s.b.roll("m", s.x, 1, by);  // of 6 indices
    const Graph graph = s.b.finish(s.b.mse("loss", rolled, s.x));
    return graph.ops[OpId(0)].attrs->by;
  };
  CHECK(steps(1) == 1);
  CHECK(steps(-1) == 5);
  CHECK(steps(6) == 0);
  CHECK(steps(-13) == 5);
}

TEST_CASE("images of transposed convolutions are as large as a convolution would read") {
  const auto made = [](const ConvolutionShape& windows, HeightWidth extra = {}) {
    GraphBuilder b{"small", DType::kBf16};
    const TensorId x = b.input("x", {2, 6, 5, 7}, DType::kBf16);
    return b.shape(b.conv_transpose2d("m", x, 4, windows, extra));
  };
  // (5 - 1) stride - 2 padding + dilation (window - 1) + 1, and the same of 7, and the extra ones.
  CHECK(made({.window = {2, 2}, .stride = {2, 2}}) == Shape{2, 4, 10, 14});
  CHECK(made({.window = {3, 3}, .stride = {2, 1}, .padding = {1, 1}}, {1, 0}) ==
        Shape{2, 4, 10, 7});
  CHECK(made({.window = {2, 3}, .dilation = {3, 2}, .groups = 2}) == Shape{2, 4, 8, 11});
  const auto refused = [&](const ConvolutionShape& windows, HeightWidth extra) {
    try {
      made(windows, extra);
      return std::string();
    } catch (const ConfigError& error) {
      return error.problem();
    }
  };
  CHECK(refused({.window = {2, 2}, .stride = {2, 2}}, {2, 0}) ==
        "m: conv_transpose2d adds as many rows or columns as a stride has, or more");
  CHECK(refused({.window = {2, 2}, .groups = 3}, {}) == "m: 3 groups do not divide 4 channels");
}

TEST_CASE("of several results some may be left alone, and losses are only added") {
  const std::vector<std::int64_t> sizes = {2, 4};
  const auto graph_of = [&](auto build) {
    Small s;
    const auto parts = s.b.split("m", s.w, 0, sizes);
    const TensorId loss = s.b.mse("loss", parts[0], s.b.input("t", {2, 10}, DType::kBf16));
    return s.b.finish(build(s.b, parts, loss));
  };
  CHECK(find_violation(graph_of([](auto&, auto&, TensorId loss) { return loss; })).empty());
  CHECK(find_violation(graph_of([](GraphBuilder& b, auto& parts, TensorId loss) {
          b.roll("m", parts[1], 0);
          return loss;
        })) == "tensor 6 'm.roll': needs a gradient, but nothing reads it");
  CHECK(find_violation(graph_of([](GraphBuilder& b, auto&, TensorId loss) {
          return b.sum("m", loss, {0});
        })) == "op 2 sum (m): reads loss 'loss.mse', to which only other losses can be added");
  CHECK(find_violation(graph_of([](GraphBuilder& b, auto& parts, TensorId loss) {
          return b.add("m", loss, b.mse("again", parts[1], parts[1]));
        })).empty());
  Small s;
  CHECK(find_violation(s.b.finish(s.b.sum("m", s.w, {0, 1}))) ==
        "loss 'm.sum' is no loss, nor a sum of losses");
}

TEST_CASE("kernels of general ops move and compute what their operands say") {
  OpAttrs copied, range;
  copied.dim = range.dim = 1;
  copied.copies = range.copies = true;
  const Shape x = {4, 6, 10}, part = {4, 2, 10};
  const Bytes all = 240 * 2, some = 80 * 2;  // bf16
  // Views cost nothing; copied, what is read is written.
  CHECK(work(OpKind::kView, OpPart::kForward, {}, {x}, {{240}}).cls == KernelClass::kNone);
  CHECK(work(OpKind::kPieces, OpPart::kInputGrad, {}, {{240}}, {x}).cls == KernelClass::kNone);
  CHECK(work(OpKind::kView, OpPart::kForward, copied, {x}, {{240}}).bytes == 2 * all);
  CHECK(work(OpKind::kSplit, OpPart::kForward, copied, {x}, {part, {4, 4, 10}}).bytes == 2 * all);
  // A range: only that is read and written; its gradient in zeros, or added to what is there.
  CHECK(work(OpKind::kNarrow, OpPart::kForward, range, {x}, {part}).bytes == 2 * some);
  CHECK(work(OpKind::kNarrow, OpPart::kInputGrad, range, {part}, {x}).bytes == all + 2 * some);
  CHECK(work(OpKind::kNarrow, OpPart::kWeightGrad, range, {part}, {}, {x}).bytes == 3 * some);
  for (const OpKind kind : {OpKind::kPermute, OpKind::kRoll}) {
    CHECK(work(kind, OpPart::kForward, {}, {x}, {x}).bytes == 2 * all);
    CHECK(work(kind, OpPart::kForward, {}, {x}, {x}).cls == KernelClass::kMemoryBound);
    CHECK(work(kind, OpPart::kWeightGrad, {}, {x}, {}, {x}).bytes == all + 2 * 240 * 4);
  }
  CHECK(work(OpKind::kConcat, OpPart::kForward, {}, {part, {4, 4, 10}}, {x}).bytes == 2 * all);
  // Repeated operands are read once.
  CHECK(work(OpKind::kMul, OpPart::kForward, {}, {x, {10}}, {x}).bytes == 2 * all + 10 * 2);
  CHECK(work(OpKind::kMul, OpPart::kWeightGrad, {}, {x, x}, {{10}}).bytes == 2 * all + 10 * 2);
  CHECK(work(OpKind::kSum, OpPart::kForward, {}, {x}, {{6}}).bytes == all + 6 * 2);
  CHECK(work(OpKind::kMse, OpPart::kForward, {}, {x, x}, {{1}}).bytes == 2 * all + 2);
  // 4 products [6, 10] x [10, 3]: 2 FLOP for each of 4 x 6 x 10 x 3 pairs, in all three parts.
  const Shape b = {4, 10, 3}, y = {4, 6, 3};
  struct Product {
    OpPart part;
    std::vector<Shape> reads;
    std::int64_t m, n, k;
  };
  for (const Product& p :
       {Product{OpPart::kForward, {x, b}, 6, 3, 10}, Product{OpPart::kInputGrad, {y, b}, 6, 10, 3},
        Product{OpPart::kWeightGrad, {y, x}, 10, 3, 6}}) {
    const KernelWork w = work(OpKind::kBmm, p.part, {}, p.reads, {{4, p.m, p.n}});
    CHECK(w.cls == KernelClass::kBatchedMatmul);
    CHECK(w.flop == 2.0 * 4 * 6 * 10 * 3);
    CHECK((w.batch == 4 && w.m == p.m && w.n == p.n && w.k == p.k));
    CHECK(w.bytes == (240 + 120 + 72) * 2);
  }
}

TEST_CASE("the index space of a general op gives the extents of its results") {
  int checked = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const Graph graph = random_graph(seed, {.ops = 6});
    CHECK(find_violation(graph).empty());
    for (const Op& op : graph.ops) {
      if (!is_general(op.kind)) continue;
      std::vector<Extents> operands;
      for (const TensorId input : op.inputs)
        operands.push_back(extents(graph.tensors[input].shape));
      const auto space = op_space(graph, op, operands);
      CAPTURE(seed, to_string(op.kind));
      if (const auto* reason = std::get_if<Infeasible>(&space)) FAIL(reason->reason);
      const IndexSpace& found = std::get<IndexSpace>(space);
      REQUIRE(found.results.size() == op.outputs.size());
      for (std::size_t i = 0; i < op.outputs.size(); ++i) {
        const Shape& shape = graph.tensors[op.outputs[i]].shape;
        CHECK(found.extents_of(found.results[i]) == extents(shape));
        ++checked;
      }
    }
  }
  CHECK(checked > 1500);
}

}  // namespace trainyard::general_ops_test
