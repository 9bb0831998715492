#include "models/onnx/onnx_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "engine/base/error.h"
#include "engine/base/user_text.h"

namespace trainyard {

namespace {

/// Elements of one tensor whose content is read: no mask or table of indices is larger.
constexpr std::int64_t kMostElements = std::int64_t{1} << 31;

float half_to_float(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const float sign = (bits >> 15) != 0 ? -1.0F : 1.0F;
  if (exponent == 31)
    return fraction != 0 ? std::numeric_limits<float>::quiet_NaN()
                         : sign * std::numeric_limits<float>::infinity();
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
}

template <typename Number>
Number at(const char* bytes, std::size_t i) {
  Number value;
  std::memcpy(&value, bytes + i * sizeof value, sizeof value);
  return value;
}

double element(OnnxType type, const char* bytes, std::size_t i) {
  switch (type) {
    case OnnxType::kFloat: return at<float>(bytes, i);
    case OnnxType::kDouble: return at<double>(bytes, i);
    case OnnxType::kFloat16: return half_to_float(at<std::uint16_t>(bytes, i));
    case OnnxType::kBfloat16:
      return std::bit_cast<float>(std::uint32_t{at<std::uint16_t>(bytes, i)} << 16U);
    case OnnxType::kInt64: return static_cast<double>(at<std::int64_t>(bytes, i));
    case OnnxType::kInt32: return at<std::int32_t>(bytes, i);
    case OnnxType::kInt16: return at<std::int16_t>(bytes, i);
    case OnnxType::kInt8: return at<std::int8_t>(bytes, i);
    case OnnxType::kUint8: return at<std::uint8_t>(bytes, i);
    case OnnxType::kBool: return at<std::uint8_t>(bytes, i) != 0 ? 1 : 0;
  }
  bug("no such type");
}

/// The tensor's bytes, from the model itself or the file that it names.
std::string content(const OnnxTensor& tensor, const std::string& model_file) {
  const std::int64_t elements = tensor.num_elements();
  const std::int64_t size = elements * size_in_bytes(tensor.type);
  const auto fail = [&](const std::string& problem) {
    throw ConfigError(SourcePos{model_file}, "",
                      "tensor " + trainyard::quoted(tensor.name) + " " + problem);
  };
  if (elements > kMostElements) fail("has more than 2^31 elements");
  if (!tensor.bytes.empty() || size == 0) return tensor.bytes;
  if (tensor.data_file.empty()) fail("was written without its content");
  const std::string path =
      (std::filesystem::path(model_file).parent_path() / tensor.data_file).string();
  std::ifstream file(path, std::ios::binary);
  if (!file) fail("lies in " + path + ", which cannot be read");
  file.seekg(tensor.offset);
  std::string bytes;
  // Before memory is taken for what may not be there.
  file.seekg(0, std::ios::end);
  if (file.tellg() - std::streamoff{tensor.offset} < size)
    fail("lies in " + path + ", which ends before it");
  file.seekg(tensor.offset);
  bytes.resize(size);
  file.read(bytes.data(), size);
  if (!file) fail("lies in " + path + ", which cannot be read");
  return bytes;
}

}  // namespace

int size_in_bytes(OnnxType type) {
  switch (type) {
    case OnnxType::kDouble:
    case OnnxType::kInt64: return 8;
    case OnnxType::kFloat:
    case OnnxType::kInt32: return 4;
    case OnnxType::kFloat16:
    case OnnxType::kBfloat16:
    case OnnxType::kInt16: return 2;
    default: return 1;
  }
}

bool is_floating(OnnxType type) { return type <= OnnxType::kBfloat16; }

std::int64_t OnnxTensor::num_elements() const {
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) count *= dim;  // checked when it was read
  return count;
}

Numbered<double> read_numbers(const OnnxTensor& tensor, const std::string& model_file) {
  const std::string bytes = content(tensor, model_file);
  Numbered<double> out(tensor.num_elements());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = element(tensor.type, bytes.data(), i);
  return out;
}

std::int64_t to_integer(double number) {
  constexpr double kMost = 4611686018427387904.0;  // 2^62
  return std::isnan(number) ? 0 : static_cast<std::int64_t>(std::clamp(number, -kMost, kMost));
}

const OnnxAttribute* OnnxNode::find(std::string_view attribute) const {
  const auto is_it = [&](const OnnxAttribute& one) { return one.name == attribute; };
  const auto it = std::find_if(attributes.begin(), attributes.end(), is_it);
  return it == attributes.end() ? nullptr : &*it;
}

double OnnxNode::number(std::string_view attribute, double fallback) const {
  const OnnxAttribute* found = find(attribute);
  return found == nullptr ? fallback : found->number;
}

std::int64_t OnnxNode::integer(std::string_view attribute, std::int64_t fallback) const {
  const OnnxAttribute* found = find(attribute);
  return found == nullptr ? fallback : to_integer(found->number);
}

std::vector<std::int64_t> OnnxNode::integers(std::string_view attribute) const {
  const OnnxAttribute* found = find(attribute);
  if (found == nullptr) return {};
  std::vector<std::int64_t> out;
  for (const double number : found->numbers) out.push_back(to_integer(number));
  return out;
}

std::string OnnxNode::text(std::string_view attribute, std::string_view fallback) const {
  const OnnxAttribute* found = find(attribute);
  return std::string(found == nullptr ? fallback : std::string_view(found->text));
}

}  // namespace trainyard
