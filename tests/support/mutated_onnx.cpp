#include "tests/support/mutated_onnx.h"

#include <random>

#include "tests/support/onnx_file.h"

namespace trainyard {

namespace {

class Mutation {
 public:
  Mutation(onnx::GraphProto& graph, std::uint64_t seed) : graph_(graph), random_(seed) {}

  void change() {
    if (graph_.node_size() == 0) return;
    switch (below(9)) {
      case 0: return change_node();
      case 1: return change_input(any_node());
      case 2: return change_dims();
      case 3: return change_initializer();
      case 4: any_node().clear_attribute(); return;
      case 5:
        graph_.mutable_node()->SwapElements(at(graph_.node_size()), at(graph_.node_size()));
        return;
      case 6: return drop_input(any_node());
      default: return change_attribute(any_node());
    }
  }

 private:
  std::uint64_t below(int n) { return n > 0 ? random_() % static_cast<std::uint64_t>(n) : 0; }
  int at(int n) { return static_cast<int>(below(n)); }
  onnx::NodeProto& any_node() { return *graph_.mutable_node(at(graph_.node_size())); }

  std::int64_t number() {
    constexpr std::int64_t kNumbers[] = {0,         1,         -1,           2, 3, 7, 1000, -9,
                                         1LL << 31, 1LL << 62, -(1LL << 62), 64};
    return kNumbers[below(std::size(kNumbers))];
  }

  /// Another kind, that the graph has or not.
  void change_node() {
    constexpr const char* kKinds[] = {
        "Reshape",    "Slice",   "Transpose", "Split",  "Expand", "Concat",   "Conv",  "Gather",
        "MaxPool",    "Pad",     "Resize",    "CumSum", "Range",  "Tile",     "Where", "MatMul",
        "ReduceMean", "Softmax", "Equal",     "And",    "Cast",   "ScatterND"};
    any_node().set_op_type(kKinds[below(std::size(kKinds))]);
  }

  /// Reads what another node makes or an initializer holds.
  void change_input(onnx::NodeProto& node) {
    if (node.input_size() == 0) return;
    std::string& input = *node.mutable_input(at(node.input_size()));
    if (below(2) == 0 && graph_.initializer_size() > 0) {
      input = graph_.initializer(at(graph_.initializer_size())).name();
    } else {
      input = any_node().output(0);
    }
  }

  static void drop_input(onnx::NodeProto& node) {
    if (node.input_size() > 0) node.mutable_input()->RemoveLast();
  }

  void change_dims() {
    if (graph_.input_size() == 0) return;
    auto* shape = graph_.mutable_input(at(graph_.input_size()))
                      ->mutable_type()
                      ->mutable_tensor_type()
                      ->mutable_shape();
    if (shape->dim_size() == 0 || below(4) == 0) {
      shape->add_dim()->set_dim_value(number());
    } else {
      shape->mutable_dim(at(shape->dim_size()))->set_dim_value(number());
    }
  }

  void change_initializer() {
    if (graph_.initializer_size() == 0) return;
    auto* tensor = graph_.mutable_initializer(at(graph_.initializer_size()));
    if (tensor->dims_size() == 0) return;
    tensor->set_dims(at(tensor->dims_size()), number());
    if (below(2) == 0) tensor->clear_raw_data();
  }

  void change_attribute(onnx::NodeProto& node) {
    if (node.attribute_size() == 0) return;
    auto* attribute = node.mutable_attribute(at(node.attribute_size()));
    switch (below(4)) {
      case 0: attribute->set_i(number()); break;
      case 1: attribute->set_f(static_cast<float>(number())); break;
      case 2: attribute->add_ints(number()); break;
      default:
        if (attribute->ints_size() > 0) attribute->set_ints(at(attribute->ints_size()), number());
        if (attribute->has_t() && attribute->t().dims_size() > 0)
          attribute->mutable_t()->set_dims(0, number());
        if (attribute->has_t() && attribute->t().raw_data().size() == sizeof(std::int64_t)) {
          const std::int64_t value = number();
          attribute->mutable_t()->set_raw_data(&value, sizeof value);
        }
    }
  }

  onnx::GraphProto& graph_;
  std::mt19937_64 random_;
};

}  // namespace

std::string mutate_onnx(const std::string& bytes, std::uint64_t seed) {
  onnx::ModelProto model;
  if (!model.ParseFromString(bytes)) return bytes;
  Mutation mutation(*model.mutable_graph(), seed);
  for (std::uint64_t i = 0; i <= seed % 3; ++i) mutation.change();
  return model.SerializeAsString();
}

}  // namespace trainyard
