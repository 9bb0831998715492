// From the bytes of an ONNX file, a protocol buffer, to an OnnxModel.
#include <google/protobuf/arena.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/unknown_field_set.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>

#include "engine/base/error.h"
#include "engine/base/name_table.h"
#include "engine/base/user_text.h"
#include "models/onnx/module_path.h"
#include "models/onnx/onnx_model.h"
#include "models/onnx/tensor_proto.h"

namespace trainyard {

namespace {

constexpr std::int64_t kFirstOpset = 13, kLastOpset = 23;
constexpr std::int64_t kMostSize = std::int64_t{1} << 40;
constexpr int kMostDims = 64;
constexpr int kMetadataField = 9;  // of NodeProto, since IR version 10

class Reader {
 public:
  Reader(onnx::ModelProto& proto, std::string file) : proto_(proto) { out_.file = std::move(file); }

  OnnxModel run() {
    read_opset();
    onnx::GraphProto& graph = *proto_.mutable_graph();
    if (graph.sparse_initializer_size() > 0)
      fail("has sparse initializers, which are not modelled");
    reserve(graph);
    for (onnx::TensorProto& tensor : *graph.mutable_initializer())
      add_initializer(tensor, tensor.name());
    for (const onnx::ValueInfoProto& input : graph.input()) add_input(input);
    for (const onnx::NodeProto& node : graph.node()) add_node(node);
    for (const onnx::ValueInfoProto& output : graph.output()) {
      const int value = value_named(output.name());
      if (!known_[value]) fail("output " + in_quotes(output.name()) + ": nothing makes it");
      out_.outputs.push_back(value);
    }
    if (out_.outputs.empty()) fail("has no output");
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw ConfigError(SourcePos{out_.file}, "", problem);
  }

  void read_opset() {
    for (const onnx::OperatorSetIdProto& set : proto_.opset_import()) {
      if (set.domain().empty() || set.domain() == "ai.onnx") out_.opset = set.version();
    }
    if (out_.opset < kFirstOpset || out_.opset > kLastOpset)
      fail("is of operator set " + std::to_string(out_.opset) + "; expected " +
           std::to_string(kFirstOpset) + " to " + std::to_string(kLastOpset) +
           " (torch.onnx.export: opset_version)");
    if (proto_.functions_size() > 0)
      fail("has functions of its own, such as " + in_quotes(proto_.functions(0).name()) +
           ", which are not modelled; export it with them inlined");
  }

  void reserve(const onnx::GraphProto& graph) {
    std::size_t values = graph.initializer().size() + graph.input().size();
    for (const onnx::NodeProto& node : graph.node()) values += node.output().size();
    values_.reserve(values);
    out_.values.reserve(values);
    known_.reserve(values);
    out_.initializers.reserve(graph.initializer().size());
    out_.initialized.reserve(graph.initializer().size());
    out_.nodes.reserve(graph.node().size());
  }

  /// `name` lies in the protocol buffer. Exporters list initializers in the order in which nodes
  /// read them, and nodes read what was made last: mostly no table is asked.
  int value_named(const std::string& name) {
    const auto last = static_cast<int>(out_.values.size()) - 1;
    for (const int likely : {after_, last}) {
      if (has_branches_ || likely < 0 || likely > last || out_.values[likely] != name) continue;
      if (likely == after_) ++after_;
      return likely;
    }
    const int value = looked_up(name);
    if (value < std::ssize(out_.initializers)) after_ = value + 1;
    return value;
  }

  int looked_up(const std::string& name) {
    const auto [value, is_new] =
        values_.insert(name, static_cast<std::int32_t>(out_.values.size()), name_of_);
    if (is_new) {
      if (branch_.condition != kNoOnnxValue) names_of_branch_.push_back(name);
      out_.values.push_back(name);
      known_.push_back(false);
    }
    return value;
  }

  /// `by`() says who makes it, for messages.
  template <typename By>
  int define(const std::string& name, const By& by) {
    const int value = value_named(name);
    if (known_[value]) fail(by() + ": " + in_quotes(name) + " is there already");
    known_[value] = true;
    return value;
  }

  OnnxTensor tensor_of(onnx::TensorProto& proto, const std::string& what) const {
    OnnxTensor out;
    out.name = what;
    const auto type = type_of(proto.data_type());
    if (!type)
      fail("tensor " + in_quotes(what) + ": elements of type " + std::to_string(proto.data_type()) +
           " are not modelled");
    out.type = *type;
    if (proto.dims_size() > kMostDims)
      fail("tensor " + in_quotes(what) + ": more than " + std::to_string(kMostDims) + " dims");
    out.dims.reserve(proto.dims().size());
    std::int64_t elements = 1;
    for (const std::int64_t dim : proto.dims()) {
      if (dim < 0 || __builtin_mul_overflow(elements, dim, &elements) || elements > kMostSize)
        fail("tensor " + in_quotes(what) + ": dims that are negative, or too large");
      out.dims.push_back(dim);
    }
    if (proto.data_location() == onnx::TensorProto::EXTERNAL) {
      read_external(proto, what, out);
      return out;
    }
    out.bytes =
        proto.has_raw_data() ? std::move(*proto.mutable_raw_data()) : bytes_of_fields(proto, *type);
    const std::int64_t size = elements * size_in_bytes(*type);
    if (!out.bytes.empty() && static_cast<std::int64_t>(out.bytes.size()) != size)
      fail("tensor " + in_quotes(what) + ": " + std::to_string(out.bytes.size()) +
           " bytes instead of " + std::to_string(size));
    return out;
  }

  void read_external(const onnx::TensorProto& proto, const std::string& what,
                     OnnxTensor& out) const {
    for (const auto& entry : proto.external_data()) {
      if (entry.key() == "location") out.data_file = entry.value();
      if (entry.key() == "offset") {
        std::istringstream text(entry.value());
        if (!(text >> out.offset) || out.offset < 0)
          fail("tensor " + in_quotes(what) + ": offset " + in_quotes(entry.value()));
      }
    }
    // A file beside the model, or below it: nothing else of this machine.
    const std::string& at = out.data_file;
    if (at.empty() || at.front() == '/' || at.find("..") != std::string::npos ||
        at.find('\0') != std::string::npos)
      fail("tensor " + in_quotes(what) + ": external data in " + in_quotes(at) +
           ", which is no file beside the model");
  }

  /// `name` lies in the protocol buffer, as the tensor itself need not.
  void add_initializer(onnx::TensorProto& proto, const std::string& name) {
    const auto by = [] { return std::string("initializer"); };
    out_.initialized.push_back(define(name, by));
    out_.initializers.push_back(tensor_of(proto, name));
  }

  void add_input(const onnx::ValueInfoProto& proto) {
    const int filled = values_.find(proto.name(), name_of_);
    // Before IR version 4 initializers were inputs, too.
    if (filled >= 0 && known_[filled]) return;
    OnnxInput input;
    input.value = define(proto.name(), [] { return std::string("input"); });
    const auto& type = proto.type();
    const auto element =
        type.has_tensor_type() ? type_of(type.tensor_type().elem_type()) : std::nullopt;
    if (!element)
      fail("input " + in_quotes(proto.name()) + " is no tensor of a type that is modelled");
    input.type = *element;
    for (const auto& dim : type.tensor_type().shape().dim()) {
      OnnxDim one;
      if (dim.has_dim_value()) one.size = dim.dim_value();
      if (dim.has_dim_param()) one.symbol = dim.dim_param();
      if (one.size < 0 || one.size > kMostSize)
        fail("input " + in_quotes(proto.name()) + ": a dim of " + std::to_string(one.size));
      input.dims.push_back(std::move(one));
    }
    if (std::ssize(input.dims) > kMostDims)
      fail("input " + in_quotes(proto.name()) + " has too many dims");
    out_.inputs.push_back(std::move(input));
  }

  void add_node(const onnx::NodeProto& proto) {
    OnnxNode node;
    const bool standard = proto.domain().empty() || proto.domain() == "ai.onnx";
    node.op = standard ? proto.op_type() : proto.domain() + "." + proto.op_type();
    node.name = proto.name().empty() && proto.output_size() > 0 ? proto.output(0) : proto.name();
    const auto who = [&] {
      return "node " + in_quotes(node.name) + " (" + printable(node.op, 60) + ")";
    };
    node.inputs.reserve(proto.input().size());
    for (const std::string& input : proto.input()) {
      if (input.empty()) {
        node.inputs.push_back(kNoOnnxValue);
        continue;
      }
      const int value = value_named(input);
      if (!known_[value]) fail(who() + ": nothing before it makes " + in_quotes(input));
      node.inputs.push_back(value);
    }
    if (node.op == "If") add_branches(proto, node);
    for (const std::string& output : proto.output())
      node.outputs.push_back(output.empty() ? kNoOnnxValue : define(output, who));
    if (node.outputs.empty()) fail(who() + ": has no output");
    node.module = module_path(proto.name(), metadata(proto));
    node.condition = branch_.condition;
    node.holds = branch_.holds;
    for (const onnx::AttributeProto& attribute : proto.attribute())
      node.attributes.push_back(attribute_of(attribute, who));
    out_.nodes.push_back(std::move(node));
  }

  /// Nodes of both branches, and what they make as inputs of the If.
  void add_branches(const onnx::NodeProto& proto, OnnxNode& node) {
    const auto wrong = [&] { fail("node " + in_quotes(node.name) + " (If): has no two branches"); };
    if (node.inputs.size() != 1 || node.inputs[0] == kNoOnnxValue) wrong();
    has_branches_ = true;
    for (const std::string_view name : {"then_branch", "else_branch"}) {
      const auto& attributes = proto.attribute();
      const auto at = std::find_if(attributes.begin(), attributes.end(),
                                   [&](const auto& one) { return one.name() == name; });
      if (at == attributes.end() || at->g().output_size() != proto.output_size()) wrong();
      const Branch outer = branch_;
      const std::size_t outer_names = names_of_branch_.size();
      branch_ = {node.inputs[0], name == "then_branch"};
      for (const onnx::TensorProto& tensor : at->g().initializer()) {
        onnx::TensorProto copy = tensor;
        add_initializer(copy, tensor.name());
      }
      for (const onnx::NodeProto& one : at->g().node()) add_node(one);
      for (const onnx::ValueInfoProto& output : at->g().output()) {
        const int value = value_named(output.name());
        if (!known_[value]) wrong();
        node.inputs.push_back(value);
      }
      branch_ = outer;
      // The other branch may call its own as this one does.
      for (std::size_t i = outer_names; i < names_of_branch_.size(); ++i)
        values_.erase(names_of_branch_[i], name_of_);
      names_of_branch_.resize(outer_names);
    }
  }

  /// The exporter's "namespace" of a node; "": it says none.
  static std::string metadata(const onnx::NodeProto& proto) {
    const auto& fields = onnx::NodeProto::GetReflection()->GetUnknownFields(proto);
    for (int i = 0; i < fields.field_count(); ++i) {
      const auto& field = fields.field(i);
      const bool is_entry = field.number() == kMetadataField &&
                            field.type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED;
      onnx::StringStringEntryProto entry;
      if (is_entry && entry.ParseFromString(field.length_delimited()) && entry.key() == "namespace")
        return entry.value();
    }
    return {};
  }

  template <typename Who>
  OnnxAttribute attribute_of(const onnx::AttributeProto& proto, const Who& who) const {
    OnnxAttribute out;
    out.name = proto.name();
    using T = onnx::AttributeProto;
    switch (proto.type()) {
      case T::FLOAT: out.number = proto.f(); break;
      case T::INT: out.number = static_cast<double>(proto.i()); break;
      case T::STRING: out.text = proto.s(); break;
      case T::FLOATS: out.numbers.assign(proto.floats().begin(), proto.floats().end()); break;
      case T::INTS: out.numbers.assign(proto.ints().begin(), proto.ints().end()); break;
      case T::TENSOR: {
        onnx::TensorProto copy = proto.t();
        out.tensor = std::make_shared<OnnxTensor>(tensor_of(copy, who()));
        break;
      }
      case T::GRAPH:
      case T::GRAPHS: out.is_graph = true; break;
      case T::STRINGS:  // one behind the other
        for (const std::string& text : proto.strings())
          out.text += out.text.empty() ? text : "," + text;
        break;
      default: break;  // sparse tensors, types: no op that is modelled has them
    }
    return out;
  }

  struct Branch {
    int condition = kNoOnnxValue;
    bool holds = true;
  };

  onnx::ModelProto& proto_;
  OnnxModel out_;
  Branch branch_;                                  // whose nodes are read
  std::vector<std::string_view> names_of_branch_;  // of values of that, and those around it
  NameTable values_;
  int after_ = 0;              // the initializer that was read last
  bool has_branches_ = false;  // two values may have one name
  struct NameOfValue {
    const OnnxModel& model;
    std::string_view operator()(std::int32_t value) const { return model.values[value]; }
  } name_of_{out_};
  Numbered<bool> known_;  // [value]: something makes it
};

/// Without protobuf's own lines on stderr.
bool parse(onnx::ModelProto& proto, const std::string& bytes) {
  google::protobuf::LogSilencer quiet;
  google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  google::protobuf::io::CodedInputStream coded(&stream);
  return proto.ParseFromCodedStream(&coded) && coded.ConsumedEntireMessage();
}

}  // namespace

std::shared_ptr<const OnnxModel> parse_onnx(const std::string& bytes, const std::string& file) {
  google::protobuf::ArenaOptions blocks;
  blocks.max_block_size = std::size_t{1} << 20;
  google::protobuf::Arena arena(blocks);
  onnx::ModelProto& proto = *google::protobuf::Arena::CreateMessage<onnx::ModelProto>(&arena);
  if (bytes.size() > 0x7fffffff)
    throw ConfigError(SourcePos{file}, "", "is larger than 2 GiB; keep weights in external data");
  if (!parse(proto, bytes) || !proto.has_graph())
    throw ConfigError(SourcePos{file}, "", "is no ONNX model, or is damaged");
  return std::make_shared<OnnxModel>(Reader(proto, file).run());
}

std::shared_ptr<const OnnxModel> read_onnx(const std::string& file) {
  struct stat status {};
  if (stat(file.c_str(), &status) == 0 && S_ISDIR(status.st_mode))
    throw ConfigError(SourcePos{file}, "",
                      "is a folder, where a file of an ONNX model is expected");
  std::ifstream stream(file, std::ios::binary | std::ios::ate);
  if (!stream) throw ConfigError(SourcePos{file}, "", "cannot be read");
  const std::streamoff size = stream.tellg();
  if (size < 0 || size > 0x7fffffff)
    throw ConfigError(
        SourcePos{file}, "",
        size < 0 ? "cannot be read" : "is larger than 2 GiB; keep weights in external data");
  std::string bytes(size, '\0');
  stream.seekg(0);
  stream.read(bytes.data(), size);
  if (!stream) throw ConfigError(SourcePos{file}, "", "cannot be read");
  return parse_onnx(bytes, file);
}

}  // namespace trainyard
