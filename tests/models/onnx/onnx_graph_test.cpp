// What an ONNX file becomes, and what is said of one that does not become a graph.
// tests/real/exec/onnx_models_test.cpp holds whole models to PyTorch.
#include "models/onnx/onnx_graph.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/models/onnx/onnx_files.h"
#include "tests/support/scratch_folder.h"

namespace trainyard::onnx_graph_test {

namespace {

/// x [N, 4] -> x W + b: [N, 3]
OnnxFile classifier(const OnnxFile::Dims& dims = {"N", std::int64_t{4}}) {
  OnnxFile file;
  file.input("x", dims).weight("fc.weight", {3, 4}).weight("fc.bias", {3});
  file.node("Gemm", {"x", "fc.weight", "fc.bias"}, {"y"}).set("transB", 1).output("y");
  return file;
}

}  // namespace

TEST_CASE("a product and its bias are one linear with the file's parameters") {
  const OnnxGraph made = graph_of(classifier());
  CHECK(kinds(made.graph) == std::vector<std::string>{"linear", "cross_entropy"});
  CHECK(parameters(made.graph) == std::vector<std::string>{"fc.weight", "fc.bias"});
  CHECK(made.graph.model_flop_per_microbatch == 2.0 * 2 * 4 * 3);
  CHECK(made.weights.size() == 2);
  CHECK_FALSE(made.weights[0].transposed);

  OnnxFile turned;  // as PyTorch's TorchScript exporter writes a linear of 3 dims
  turned.input("x", {"N", std::int64_t{5}, std::int64_t{4}}).weight("onnx::MatMul_7", {4, 3});
  turned.weight("fc.bias", {3}).node("MatMul", {"x", "onnx::MatMul_7"}, {"h"});
  turned.named("/fc/MatMul").node("Add", {"fc.bias", "h"}, {"y"}).output("y");
  const OnnxGraph other = graph_of(turned);
  CHECK(kinds(other.graph) == std::vector<std::string>{"linear", "cross_entropy"});
  CHECK(parameters(other.graph) == std::vector<std::string>{"fc.weight", "fc.bias"});
  CHECK(other.graph.parameters[ParameterId(0)].shape == Shape{3, 4});
  CHECK(other.weights[0].transposed);
}

TEST_CASE("what the loss does not depend on is named") {
  OnnxFile file = classifier();
  CHECK(graph_of(file).left_out.empty());
  CHECK(left_out_text(graph_of(file), "m.onnx").empty());
  // Another head, and a node on a shape, which is a constant.
  file.weight("aux.weight", {4, 5}).node("MatMul", {"x", "aux.weight"}, {"aux"}).output("aux");
  file.node("Shape", {"x"}, {"shape"}).node("Relu", {"aux"}, {"r"}).node("Sqrt", {"shape"}, {"s"});
  CHECK(graph_of(file).left_out == std::vector<std::string>{"aux", "r"});
  CHECK(left_out_text(graph_of(file), "m.onnx") ==
        "the loss does not depend on 2 operations of m.onnx, which are left out: aux, r");
  for (const std::string name : {"t", "u", "v"}) file.node("Tanh", {"x"}, {name});
  CHECK(left_out_text(graph_of(file), "m.onnx") ==
        "the loss does not depend on 5 operations of m.onnx, which are left out: aux, r, t, u and "
        "1 other");
}

TEST_CASE("a parameter of one dim multiplies as a column") {
  OnnxFile file;  // scores of 5 positions, and a weighted sum of 3 classes
  file.input("x", {"N", std::int64_t{5}, std::int64_t{4}}).weight("query", {4}).weight("w", {5, 3});
  file.node("MatMul", {"x", "query"}, {"scores"}).node("MatMul", {"scores", "w"}, {"y"});
  const Graph graph = graph_of(file.output("y")).graph;
  CHECK(parameters(graph) == std::vector<std::string>{"query", "w"});
  CHECK(kinds(graph) == std::vector<std::string>{"mul", "sum", "linear", "cross_entropy"});
  CHECK(graph.model_flop_per_microbatch == 2.0 * 2 * 5 * 3);  // as PyTorch counts, the second alone
  OnnxFile samples;
  samples.input("x", {"N", std::int64_t{5}}).input("v", {"N"}).node("MatMul", {"v", "x"}, {"y"});
  CHECK(problems_of([&] { graph_of(samples.output("y")); }) ==
        "m.onnx: node 'y' (MatMul): multiplies a vector of samples, or by several matrices, which "
        "is not modelled");
}

TEST_CASE("all nodes without an op are named at once") {
  OnnxFile file = classifier();
  file.node("NonZero", {"y"}, {"where"}).node("Det", {"x"}, {"e"});
  file.node("Hardmax", {"where"}, {"z"}).node("Add", {"z", "e"}, {"sum"});
  file.proto().mutable_graph()->mutable_output(0)->set_name("sum");
  CHECK(problems_of([&] { graph_of(file); }) ==
        "m.onnx: node 'where' (NonZero): makes as many elements as the data say, which is not "
        "modelled\n"
        "m.onnx: node 'e' (Det): no op of this version does that with data");
}

namespace {

/// `y` of the node `op` on x, as a branch of the file's last node.
void add_branch(OnnxFile& file, const std::string& name, const std::string& op,
                const std::vector<std::string>& inputs) {
  auto& graph = *file.proto().mutable_graph();
  auto* attribute = graph.mutable_node(graph.node_size() - 1)->add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::GRAPH);
  auto* body = attribute->mutable_g();
  auto* node = body->add_node();
  node->set_op_type(op);
  node->set_name(op + " of " + name);
  for (const std::string& input : inputs) node->add_input(input);
  node->add_output("made");  // in both branches
  body->add_output()->set_name("made");
}

/// x W where x has so many features, else what no op does; as a scripted model asks for a size.
OnnxFile branching(std::int64_t features) {
  OnnxFile file;
  file.input("x", {"N", std::int64_t{4}}).weight("fc.weight", {4, 3}).integers("at", {features});
  file.node("Shape", {"x"}, {"features"}).set("start", 1).set("end", 2);
  file.node("Equal", {"features", "at"}, {"same"}).node("If", {"same"}, {"y"});
  add_branch(file, "then_branch", "MatMul", {"x", "fc.weight"});
  add_branch(file, "else_branch", "Det", {"x"});
  return file.output("y");
}

}  // namespace

TEST_CASE("of an If the branch is read that sizes choose") {
  const Graph graph = graph_of(branching(4)).graph;
  CHECK(kinds(graph) == std::vector<std::string>{"linear", "cross_entropy"});
  CHECK(parameters(graph) == std::vector<std::string>{"fc.weight"});
  CHECK(problems_of([&] { graph_of(branching(5)); }) ==
        "m.onnx: node 'Det of else_branch' (Det): no op of this version does that with data");
  OnnxFile by_data = branching(4);
  by_data.input("same.0", {"N"}, onnx::TensorProto::BOOL);
  by_data.proto().mutable_graph()->mutable_node(2)->set_input(0, "same.0");
  CHECK(problems_of([&] { graph_of(by_data); }) ==
        "m.onnx: node 'y' (If): chooses a branch by data, which is not modelled");
  OnnxFile half = branching(4);
  half.proto().mutable_graph()->mutable_node(2)->mutable_attribute()->RemoveLast();
  CHECK(problems_of([&] { graph_of(half); }) == "m.onnx: node 'y' (If): has no two branches");
}

TEST_CASE("an If that the batch chooses is refused, whatever this batch would choose") {
  // One number of the shape [N, 4], or half of it, is compared with 4.
  const auto problem = [](std::int64_t dim, bool halved, std::int64_t batch) {
    OnnxFile file;
    file.input("x", {"N", std::int64_t{4}}).weight("fc.weight", {4, 3}).integers("four", {4});
    file.integers("dim", {dim}).integers("two", {2}).node("Shape", {"x"}, {"shape"});
    file.node("Gather", {"shape", "dim"}, {"size"}).set("axis", 0);
    if (halved) file.node("Div", {"size", "two"}, {"half"});
    file.node("Less", {"four", halved ? "half" : "size"}, {"more"}).node("If", {"more"}, {"y"});
    add_branch(file, "then_branch", "Det", {"x"});
    add_branch(file, "else_branch", "MatMul", {"x", "fc.weight"});
    return problems_of([&] { graph_of(file.output("y"), batch); });
  };
  const std::string refused =
      "m.onnx: node 'y' (If): chooses a branch by the size of the batch, which differs with "
      "microbatches and replicas; export the branch that is meant";
  const std::int64_t batch = GENERATE(1, 2, 4, 6);
  CAPTURE(batch);
  CHECK(problem(0, false, batch) == refused);
  CHECK(problem(0, true, batch) == refused);  // the same number for 2 and for 3 samples
  CHECK(problem(1, false, batch) == "none");
  CHECK(problem(1, true, batch) == "none");
}

TEST_CASE("the batch is the microbatch, and other axes are the study's") {
  CHECK(problems_of([&] {
          graph_of(classifier({std::int64_t{8}, std::int64_t{4}}));
        }) ==
        "m.onnx: input 'x' has a batch of 8, and microbatches here are of 2 samples; export it "
        "with a dynamic first axis");
  CHECK(problems_of([&] { graph_of(classifier({std::int64_t{2}, std::int64_t{4}})); }) == "none");
  CHECK(problems_of([&] {
          build_onnx_graph(model_of(classifier(), {{"N", 3}}), {.microbatch = 2});
        }) ==
        "model.axes.N: input 'x' has a batch of 3, and microbatches here are of 2 samples; leave "
        "the axis out, training.microbatch binds it");
  const OnnxFile::Dims open{"N", "width"};
  CHECK(problems_of([&] { model_of(classifier(open)); }) ==
        "m.onnx: input 'x': dim 1 is 'width'; say model.axes: {width: ...}");
  CHECK(problems_of([&] {
          model_of(classifier(open), {{"width", 4}, {"height", 4}});
        }) == "model.axes.height: no input has an axis of this name");
  CHECK(problems_of([&] { model_of(classifier(open), {{"width", 4}}); }) == "none");
  CHECK(problems_of([&] {
          build_onnx_graph(model_of(classifier(open), {{"width", 5}}), {.microbatch = 2});
        }) == "m.onnx: node 'y' (Gemm): multiplies matrices that do not fit");
  OnnxFile unknown = classifier(open);
  unknown.node("NonZero", {"y"}, {"where"}).output("where");
  unknown.proto().mutable_graph()->mutable_output(0)->set_name("where");
  CHECK(problems_of([&] {
          build_onnx_graph(model_of(unknown, {{"width", 4}}), {.microbatch = 2});
        }) ==
        "m.onnx: node 'where' (NonZero): makes as many elements as the data say, which is not "
        "modelled");
}

TEST_CASE("an axis is as long as the tables of the file are") {
  OnnxFile file;  // 6 rows of positions, of which the first are taken
  file.input("ids", {"N", "seq"}, onnx::TensorProto::INT64).weight("table", {9, 3});
  file.weight("positions", {1, 6, 3}).integers("zero", {0}).integers("one", {1});
  file.node("Gather", {"table", "ids"}, {"h"}).set("axis", 0);
  file.node("Shape", {"ids"}, {"shape"}).node("Gather", {"shape", "one"}, {"length"});
  file.node("Slice", {"positions", "zero", "length", "one"}, {"taken"});
  file.node("Add", {"h", "taken"}, {"y"}).output("y");
  const auto problems = [&](std::int64_t seq) {
    return problems_of([&] {
      build_onnx_graph(model_of(file, {{"seq", seq}}), {.microbatch = 2});
    });
  };
  CHECK(problems(6) == "none");
  CHECK(problems(100) ==
        "model.axes.seq: 100 does not fit the model, and 6 does: m.onnx: node 'y' (Add): has "
        "operands that do not fit: 100 and 6 elements of a dim");
}

TEST_CASE("a loss that the output does not suit is refused at the study's key") {
  OnnxFile file;
  file.input("x", {"N", std::int64_t{4}}).weight("w", {1, 4});
  file.node("Gemm", {"x", "w"}, {"y"}).set("transB", 1).output("y");
  const std::string problem =
      "output 'y' of m.onnx has one number for each label, [2, 1], where a cross entropy tells "
      "classes apart; say binary_cross_entropy or mean_square";
  ModelConfig config = model_of(file);
  const auto problems = [&] {
    return problems_of([&] { build_onnx_graph(config, {.microbatch = 2}); });
  };
  CHECK(problems() == "model.loss: " + problem);
  config.losses["y"] = {};
  CHECK(problems() == "model.loss.y: " + problem);
  config.losses["y"].kind = ImportedLoss::kMeanSquare;
  CHECK(problems() == "none");
}

TEST_CASE("what is no model of this format is refused") {
  const ScratchFolder folder;
  CHECK(problems_of([&] { read_onnx(folder / ""); }) ==
        (folder / "") + ": is a folder, where a file of an ONNX model is expected");
  const auto refused = [](const std::string& bytes) {
    return problems_of([&] { parse_onnx(bytes, "m.onnx"); });
  };
  CHECK(refused("") == "m.onnx: is no ONNX model, or is damaged");
  CHECK(refused("weights") == "m.onnx: is no ONNX model, or is damaged");
  const std::string good = classifier().bytes();
  CHECK(refused(good) == "none");
  CHECK(refused(good.substr(0, good.size() - 9)) == "m.onnx: is no ONNX model, or is damaged");
  OnnxFile old = classifier();
  old.proto().mutable_opset_import(0)->set_version(12);
  CHECK(refused(old.bytes()) ==
        "m.onnx: is of operator set 12; expected 13 to 23 (torch.onnx.export: opset_version)");
  OnnxFile function = classifier();
  function.proto().add_functions()->set_name("block");
  CHECK(refused(function.bytes()) ==
        "m.onnx: has functions of its own, such as 'block', which are "
        "not modelled; export it with them inlined");
  OnnxFile twice = classifier();
  twice.node("Relu", {"x"}, {"y"});
  CHECK(refused(twice.bytes()) == "m.onnx: node 'y' (Relu): 'y' is there already");
  OnnxFile late = classifier();
  late.node("Relu", {"z"}, {"w"}).node("Relu", {"y"}, {"z"});
  CHECK(refused(late.bytes()) == "m.onnx: node 'w' (Relu): nothing before it makes 'z'");
  OnnxFile wrong = classifier();
  wrong.weight("v", {2, 2}, {1, 2, 3});
  CHECK(refused(wrong.bytes()) == "m.onnx: tensor 'v': 12 bytes instead of 16");
}

TEST_CASE("external data is read beside the model, and nowhere else") {
  const ScratchFolder folder;
  const auto with = [&](const std::string& location, const std::string& offset) {
    OnnxFile file = classifier();
    auto* tensor = file.proto().mutable_graph()->mutable_initializer(1);
    tensor->set_data_location(onnx::TensorProto::EXTERNAL);
    const auto say = [&](const char* key, const std::string& value) {
      auto* entry = tensor->add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    };
    say("location", location);
    say("offset", offset);
    return file;
  };
  const std::string path = folder.path() + "/m.onnx";
  std::ofstream(folder.path() + "/w.bin", std::ios::binary)
      .write("\0\0\0\0\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40", 16);  // 0, 1, 2, 3
  const auto bias = [&](const OnnxFile& file) {
    const auto model = parse_onnx(file.bytes(), path);
    return read_numbers(model->initializers[1], path);
  };
  // Shapes are enough to simulate.
  CHECK(problems_of([&] {
          ModelConfig config;
          config.family = Family::kOnnx;
          config.onnx = parse_onnx(with("none.bin", "0").bytes(), path);
          build_onnx_graph(config, {.microbatch = 2});
        }) == "none");
  CHECK(bias(with("w.bin", "4")) == std::vector<double>{1, 2, 3});
  CHECK(problems_of([&] { bias(with("w.bin", "8")); }).find("w.bin") != std::string::npos);
  CHECK(problems_of([&] { bias(with("none.bin", "0")); }).find("none.bin") != std::string::npos);
  CHECK(problems_of([&] { bias(with("../w.bin", "0")); }) ==
        path +
            ": tensor 'fc.bias': external data in '../w.bin', which is no file beside the model");
  CHECK(problems_of([&] { bias(with("/etc/passwd", "0")); }).find("no file beside the model") !=
        std::string::npos);
}

TEST_CASE("shapes that the model computes are constants, and need no op") {
  // View x [N, 4, 6] as [N, -1], by way of its own shape; the relu's shape alone is asked for.
  OnnxFile file;
  file.input("x", {"N", std::int64_t{4}, std::int64_t{6}}).integers("first", {0});
  file.integers("rest", {-1}).node("Relu", {"x"}, {"r"}).node("Shape", {"r"}, {"shape"});
  file.node("Gather", {"shape", "first"}, {"n"}).set("axis", 0);
  file.node("Concat", {"n", "rest"}, {"to"}).set("axis", 0);
  file.weight("w", {24, 3}).node("Reshape", {"x", "to"}, {"v"});
  file.node("MatMul", {"v", "w"}, {"y"}).output("y");
  const Graph graph = graph_of(file).graph;
  CHECK(kinds(graph) == std::vector<std::string>{"view", "linear", "cross_entropy"});
  CHECK(graph.tensors[graph.ops[OpId(0)].outputs[0]].shape == Shape{2, 24});
  CHECK(graph.constants.empty());
}

TEST_CASE("layers are the numbered modules that hold most parameters, or those of the pattern") {
  OnnxFile file;
  file.input("x", {"N", std::int64_t{4}});
  std::string x = "x";
  for (const std::string path :
       {"stem", "blocks.0.a", "blocks.0.b", "blocks.1.a", "blocks.1.b", "head"}) {
    file.weight(path + ".weight", {4, 4});
    const std::string y = path + "_out";
    std::string name = "/" + path + "/MatMul";
    std::replace(name.begin() + 1, name.end(), '.', '/');
    file.node("MatMul", {x, path + ".weight"}, {y}).named(name);
    x = y;
  }
  ModelConfig config = model_of(file.output(x));
  const auto layers = [&] {
    std::vector<int> out;
    for (const Op& op : build_onnx_graph(config, {.microbatch = 2}).graph.ops)
      out.push_back(op.layer);
    return out;
  };
  CHECK(layers() == std::vector<int>{-1, 0, 0, 1, 1, -1, -1});
  config.layer_pattern = "blocks.3";
  CHECK(problems_of(layers) ==
        "model.layer_pattern: no module is called 'blocks.3'; expected one of: blocks.*");
}

TEST_CASE("means are taken over any dim but the batch, wherever that lies") {
  // x [N, 4, 5] as [4, N, 5], and the mean over one of its dims.
  const auto mean_over = [](std::int64_t axis, std::int64_t batch) {
    OnnxFile file;
    file.input("x", {"N", std::int64_t{4}, std::int64_t{5}}).weight("w", {5, 3});
    file.node("Transpose", {"x"}, {"t"}).set("perm", std::vector<std::int64_t>{1, 0, 2});
    file.node("ReduceMean", {"t"}, {"m"}).set("axes", std::vector<std::int64_t>{axis});
    file.node("MatMul", {"m", "w"}, {"y"}).output("y");
    return problems_of([&] { graph_of(file, batch); });
  };
  const std::int64_t batch = GENERATE(1, 2, 4);
  CAPTURE(batch);
  CHECK(mean_over(0, batch) == "none");
  CHECK(mean_over(1, batch) ==
        "m.onnx: node 'm' (ReduceMean): takes a mean over the batch, which is not modelled");
}

TEST_CASE("tensors of more dims than graphs have are refused by node") {
  OnnxFile file;
  file.input("x", {"N", std::int64_t{4}}).integers("nine", {2, 1, 1, 1, 1, 1, 1, 1, 4});
  file.weight("w", {4, 3}).node("Reshape", {"x", "nine"}, {"v"}).node("Transpose", {"v"}, {"t"});
  file.node("MatMul", {"t", "w"}, {"y"}).output("y");
  CHECK(problems_of([&] { graph_of(file); }) ==
        "m.onnx: node 'v' (Reshape): has 9 dims, of which at most 8 are modelled");
}

TEST_CASE("updates of all elements in their order are what is written, others are refused") {
  // x [N, 2] into zeros, at rows 0, 1 or 1, 0.
  const auto scattered = [](const std::vector<std::int64_t>& rows) {
    OnnxFile file;
    file.input("x", {"N", std::int64_t{2}}).weight("w", {2, 3}).integers("rows", rows);
    file.integers("last", {1}).integers("dims", {2, 2});
    file.node("ConstantOfShape", {"dims"}, {"zeros"}).node("Unsqueeze", {"rows", "last"}, {"at"});
    file.node("ScatterND", {"zeros", "at", "x"}, {"s"}).node("MatMul", {"s", "w"}, {"y"});
    return problems_of([&] { graph_of(file.output("y")); });
  };
  CHECK(scattered({0, 1}) == "none");
  CHECK(scattered({1, 0}) ==
        "m.onnx: node 's' (ScatterND): writes elements that differ from sample to sample, or some "
        "of them twice, which is not modelled");
}

TEST_CASE("an output that no input reaches is no model") {
  OnnxFile file;
  file.input("x", {"N", std::int64_t{4}}).integers("two", {2, 2});
  file.node("ConstantOfShape", {"two"}, {"y"}).output("y");
  CHECK(problems_of([&] { graph_of(file); }) ==
        "model.loss: output 'y' of m.onnx depends on no data");
}

}  // namespace trainyard::onnx_graph_test
