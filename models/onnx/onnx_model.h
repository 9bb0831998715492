// An ONNX file as it was read: nodes, initializers and inputs by number, nothing interpreted yet.
// The format: onnx.proto of the ONNX project, IR version 3 to 13, operator sets 13 to 23.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/indexed.h"

namespace trainyard {

/// Element types of ONNX that models are made of (TensorProto.DataType).
enum class OnnxType : std::uint8_t {
  kFloat,
  kDouble,
  kFloat16,
  kBfloat16,
  kInt64,
  kInt32,
  kInt16,
  kInt8,
  kUint8,
  kBool
};
int size_in_bytes(OnnxType type);
bool is_floating(OnnxType type);

/// Where the elements of a tensor lie, little-endian. They are read when they are asked for.
struct OnnxTensor {
  std::string name;
  OnnxType type = OnnxType::kFloat;
  std::vector<std::int64_t> dims;
  std::string bytes;      // of all elements, where the file itself holds them
  std::string data_file;  // else the file that does, "": nothing was written
  std::int64_t offset = 0;

  std::int64_t num_elements() const;
};

/// The elements as numbers, which hold all integers up to 2^53 exactly. Throws ConfigError where a
/// file of external data is missing or too short.
Numbered<double> read_numbers(const OnnxTensor& tensor, const std::string& model_file);
/// Throws where read_numbers() would.
void check_content(const OnnxTensor& tensor, const std::string& model_file);

// Both are false where the content is not there.
/// Whether all elements are one number.
bool has_equal_elements(const OnnxTensor& tensor, const std::string& model_file);
/// Whether it is a table of sines and cosines of positions, of which each row has both of an angle.
bool has_sinusoids(const OnnxTensor& tensor, const std::string& model_file);
/// Whether b is the matrix a, turned around.
bool is_turned(const OnnxTensor& a, const OnnxTensor& b, const std::string& model_file);

/// Without its fraction, and within -2^62 and 2^62: numbers in files may be anything.
std::int64_t to_integer(double number);

struct OnnxAttribute {
  std::string name;
  double number = 0;  // of a float or an integer
  std::string text;
  std::vector<double> numbers;               // of floats or integers
  std::shared_ptr<const OnnxTensor> tensor;  // of a Constant
  bool is_graph = false;                     // a body of its own: If, Loop, Scan
};

inline constexpr int kNoOnnxValue = -1;

struct OnnxNode {
  std::string op;      // "MatMul"; of other domains "com.microsoft.Gelu"
  std::string name;    // as messages call it
  std::string module;  // dotted path of the module that it was exported from, where that is known
  // Numbers of OnnxModel::values; kNoOnnxValue: left out.
  boost::container::small_vector<int, 4> inputs;
  boost::container::small_vector<int, 2> outputs;
  std::vector<OnnxAttribute> attributes;
  // A node of a branch of an If runs where this value is `holds`. The If itself stands behind both
  // branches: its inputs are the condition and the results of the one and the other.
  int condition = kNoOnnxValue;
  bool holds = true;

  const OnnxAttribute* find(std::string_view attribute) const;
  double number(std::string_view attribute, double fallback) const;
  std::int64_t integer(std::string_view attribute, std::int64_t fallback) const;
  std::vector<std::int64_t> integers(std::string_view attribute) const;  // empty: not there
  std::string text(std::string_view attribute, std::string_view fallback) const;
};

struct OnnxDim {
  std::int64_t size = 0;  // 0: `symbol` says which, or nothing does
  std::string symbol;
};

struct OnnxInput {
  int value = kNoOnnxValue;
  OnnxType type = OnnxType::kFloat;
  std::vector<OnnxDim> dims;
};

struct OnnxModel {
  std::string file;
  std::int64_t opset = 0;
  Numbered<std::string> values;   // names
  std::vector<OnnxInput> inputs;  // those that no initializer fills
  std::vector<int> outputs;
  Numbered<OnnxTensor> initializers;
  Numbered<int> initialized;         // [initializer]: its value
  Numbered<OnnxNode> nodes;          // in an order that they can run in
  std::vector<std::string> buffers;  // patterns of names of initializers that are not trained
};

/// Reads and checks the file. Throws ConfigError, `file: problem`, where it is no model that this
/// version reads: damaged, of an operator set outside 13 to 23, with functions of its own.
std::shared_ptr<const OnnxModel> read_onnx(const std::string& file);

/// The same of a file's content.
std::shared_ptr<const OnnxModel> parse_onnx(const std::string& bytes, const std::string& file);

/// The model with these buffers. No file says which of its tensors are some.
std::shared_ptr<const OnnxModel> with_buffers(std::shared_ptr<const OnnxModel> model,
                                              std::vector<std::string> buffers);

}  // namespace trainyard
