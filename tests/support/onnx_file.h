// A model as an ONNX file, written node by node.
#pragma once

#define ONNX_ML 1
#define ONNX_NAMESPACE onnx
#include <onnx/onnx_pb.h>

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace trainyard {

class OnnxFile {
 public:
  using Dims = std::vector<std::variant<std::int64_t, std::string>>;
  using Texts = std::vector<std::string>;

  explicit OnnxFile(std::int64_t opset = 17) {
    model_.set_ir_version(8);
    model_.add_opset_import()->set_version(opset);
  }

  onnx::ModelProto& proto() { return model_; }

  OnnxFile& input(const std::string& name, const Dims& dims,
                  onnx::TensorProto::DataType type = onnx::TensorProto::FLOAT) {
    auto* info = graph().add_input();
    info->set_name(name);
    auto* tensor = info->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    for (const auto& dim : dims) {
      auto* one = tensor->mutable_shape()->add_dim();
      if (const auto* size = std::get_if<std::int64_t>(&dim)) one->set_dim_value(*size);
      if (const auto* symbol = std::get_if<std::string>(&dim)) one->set_dim_param(*symbol);
    }
    return *this;
  }

  /// An initializer of real numbers; without `numbers` the file has only its dims.
  OnnxFile& weight(const std::string& name, const std::vector<std::int64_t>& dims,
                   const std::vector<float>& numbers = {}) {
    auto* tensor = initializer(name, dims, onnx::TensorProto::FLOAT);
    for (const float number : numbers) tensor->add_float_data(number);
    return *this;
  }

  OnnxFile& integers(const std::string& name, const std::vector<std::int64_t>& numbers) {
    const auto count = static_cast<std::int64_t>(numbers.size());
    auto* tensor = initializer(name, {count}, onnx::TensorProto::INT64);
    for (const std::int64_t number : numbers) tensor->add_int64_data(number);
    return *this;
  }

  onnx::TensorProto* initializer(const std::string& name, const std::vector<std::int64_t>& dims,
                                 onnx::TensorProto::DataType type) {
    auto* tensor = graph().add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(type);
    for (const std::int64_t dim : dims) tensor->add_dims(dim);
    return tensor;
  }

  /// A node called as its first output.
  OnnxFile& node(const std::string& op, const Texts& inputs, const Texts& outputs) {
    auto* node = graph().add_node();
    node->set_op_type(op);
    node->set_name(outputs[0]);
    for (const std::string& input : inputs) node->add_input(input);
    for (const std::string& output : outputs) node->add_output(output);
    return *this;
  }
  /// An attribute of the last node.
  OnnxFile& set(const std::string& name, std::int64_t number) {
    auto* attribute = last().add_attribute();
    attribute->set_name(name);
    attribute->set_type(onnx::AttributeProto::INT);
    attribute->set_i(number);
    return *this;
  }
  OnnxFile& set(const std::string& name, const std::vector<std::int64_t>& numbers) {
    auto* attribute = last().add_attribute();
    attribute->set_name(name);
    attribute->set_type(onnx::AttributeProto::INTS);
    for (const std::int64_t number : numbers) attribute->add_ints(number);
    return *this;
  }
  OnnxFile& named(const std::string& name) {
    last().set_name(name);
    return *this;
  }

  OnnxFile& output(const std::string& name) {
    graph().add_output()->set_name(name);
    return *this;
  }

  std::string bytes() const { return model_.SerializeAsString(); }

 private:
  onnx::GraphProto& graph() { return *model_.mutable_graph(); }
  onnx::NodeProto& last() { return *graph().mutable_node(graph().node_size() - 1); }

  onnx::ModelProto model_;
};

}  // namespace trainyard
