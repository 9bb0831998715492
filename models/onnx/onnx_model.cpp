#include "models/onnx/onnx_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "engine/base/error.h"
#include "engine/base/mapped_file.h"
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

/// The tensor's bytes, in the model itself or in the file that it names.
struct Content {
  std::optional<MappedFile> file;
  std::span<const std::byte> bytes;
};

/// nullopt: `problem` says what is wrong.
std::optional<Content> find_content(const OnnxTensor& tensor, const std::string& model_file,
                                    std::string& problem) {
  const std::int64_t elements = tensor.num_elements();
  const std::int64_t size = elements * size_in_bytes(tensor.type);
  Content out;
  if (elements > kMostElements) {
    problem = "has more than 2^31 elements";
  } else if (!tensor.bytes.empty() || size == 0) {
    out.bytes = std::as_bytes(std::span(tensor.bytes));
  } else if (tensor.data_file.empty()) {
    problem = "was written without its content";
  } else {
    const std::string path =
        (std::filesystem::path(model_file).parent_path() / tensor.data_file).string();
    try {
      out.bytes = out.file.emplace(path).bytes();
    } catch (const ConfigError& error) {
      problem = std::string("lies in ") + error.what();
      return std::nullopt;
    }
    const std::int64_t has = std::ssize(out.bytes);
    if (has < size || tensor.offset > has - size) {
      problem = "lies in " + path + ", which ends before it";
      return std::nullopt;
    }
    out.bytes = out.bytes.subspan(tensor.offset, size);
  }
  return problem.empty() ? std::optional(std::move(out)) : std::nullopt;
}

Content content(const OnnxTensor& tensor, const std::string& model_file) {
  std::string problem;
  auto found = find_content(tensor, model_file, problem);
  if (!found)
    throw ConfigError(SourcePos{model_file}, "",
                      "tensor " + in_quotes(tensor.name) + " " + problem);
  return std::move(*found);
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
  const Content from = content(tensor, model_file);
  Numbered<double> out(tensor.num_elements());
  const auto* bytes = reinterpret_cast<const char*>(from.bytes.data());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = element(tensor.type, bytes, i);
  return out;
}

void check_content(const OnnxTensor& tensor, const std::string& model_file) {
  content(tensor, model_file);
}

bool has_equal_elements(const OnnxTensor& tensor, const std::string& model_file) {
  std::string problem;
  const auto found = find_content(tensor, model_file, problem);
  if (!found) return false;
  const std::span<const std::byte> bytes = found->bytes;
  const int size = size_in_bytes(tensor.type);
  return std::ssize(bytes) <= size ||
         std::memcmp(bytes.data(), bytes.data() + size, bytes.size() - size) == 0;
}

bool has_sinusoids(const OnnxTensor& tensor, const std::string& model_file) {
  Numbered<std::int64_t> dims;
  for (const std::int64_t dim : tensor.dims) {
    if (dim != 1) dims.push_back(dim);
  }
  if (dims.size() != 2 || dims[1] % 2 != 0 || !is_floating(tensor.type)) return false;
  std::string problem;
  const auto found = find_content(tensor, model_file, problem);
  if (!found || found->bytes.empty()) return false;
  const auto* bytes = reinterpret_cast<const char*>(found->bytes.data());
  const std::int64_t rows = dims[0], columns = dims[1], half = columns / 2;
  const double near = size_in_bytes(tensor.type) > 2 ? 1e-5 : 0.02;  // types of 16 bits round
  // A sine and its cosine are neighbours, or lie in the same place of either half.
  const auto holds = [&](std::int64_t first, std::int64_t apart) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t i = 0; i < half; ++i) {
        const std::int64_t at = r * columns + i * first;
        const double a = element(tensor.type, bytes, at);
        const double b = element(tensor.type, bytes, at + apart);
        if (std::abs(a * a + b * b - 1) > near) return false;
        if (r == 0 && a != 0 && b != 0) return false;                                  // angle 0
        if (r == 1 && i == 0 && (std::abs(a) == 1 || std::abs(b) == 1)) return false;  // it turns
      }
    }
    return true;
  };
  return holds(2, 1) || holds(1, half);
}

bool is_turned(const OnnxTensor& a, const OnnxTensor& b, const std::string& model_file) {
  if (a.type != b.type || a.dims.size() != 2 || b.dims.size() != 2 || a.dims[0] != b.dims[1] ||
      a.dims[1] != b.dims[0])
    return false;
  std::string problem;
  const auto of_a = find_content(a, model_file, problem);
  const auto of_b = find_content(b, model_file, problem);
  if (!of_a || !of_b || of_a->bytes.empty()) return false;
  const std::int64_t rows = a.dims[0], columns = a.dims[1], size = size_in_bytes(a.type);
  const std::byte* from_a = of_a->bytes.data();
  const std::byte* from_b = of_b->bytes.data();
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      if (std::memcmp(from_a + (r * columns + c) * size, from_b + (c * rows + r) * size, size) != 0)
        return false;
    }
  }
  return true;
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

std::shared_ptr<const OnnxModel> with_buffers(std::shared_ptr<const OnnxModel> model,
                                              std::vector<std::string> buffers) {
  // Weights may be gigabytes: a model that nobody else has is not copied.
  auto own = model.use_count() == 1 ? std::const_pointer_cast<OnnxModel>(model)
                                    : std::make_shared<OnnxModel>(*model);
  own->buffers = std::move(buffers);
  return own;
}

}  // namespace trainyard
