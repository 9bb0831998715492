#include "real/data/npy_file.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "engine/base/user_text.h"
#include "real/checkpoint/host_file.h"
#include "real/checkpoint/piece.h"

namespace trainyard {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kLengthAt = 8;

struct NpyType {
  std::string_view name;
  DType dtype;
};

constexpr NpyType kTypes[] = {{"<f8", DType::kFp64},  {"<f4", DType::kFp32},
                              {"<f2", DType::kFp16},  {"<i8", DType::kInt64},
                              {"<i4", DType::kInt32}, {"|u1", DType::kUint8}};

/// The header's text behind magic, version and length.
std::string_view header_of(std::string_view bytes, const std::string& path) {
  if (!bytes.starts_with(kMagic) || bytes.size() < kLengthAt + 4)
    refuse(path, "not a .npy file: it does not begin as one");
  const std::size_t width = bytes[kMagic.size()] == 1 ? 2 : 4;
  std::size_t length = 0;
  for (std::size_t i = width; i-- > 0;)
    length = length << 8U | static_cast<unsigned char>(bytes[kLengthAt + i]);
  bytes.remove_prefix(kLengthAt + width);
  if (length > bytes.size())
    refuse(path, "truncated: a header of " + std::to_string(length) + " bytes does not fit in it");
  return bytes.substr(0, length);
}

/// What stands behind 'key':, up to the end of the header.
std::string_view value_of(std::string_view header, const std::string& key,
                          const std::string& path) {
  const std::string quoted_key = "'" + key + "':";
  const std::size_t at = header.find(quoted_key);
  if (at == std::string_view::npos) refuse(path, "its header has no " + key);
  header.remove_prefix(at + quoted_key.size());
  header.remove_prefix(std::min(header.find_first_not_of(' '), header.size()));
  return header;
}

std::string_view type_name(std::string_view value, const std::string& path) {
  if (!value.starts_with('\'')) refuse(path, "elements of several fields are not read");
  value.remove_prefix(1);
  return value.substr(0, value.find('\''));
}

std::vector<std::int64_t> read_shape(std::string_view value, const std::string& path) {
  const std::string_view whole = value.substr(0, value.find(')'));
  std::vector<std::int64_t> shape;
  std::string_view rest = whole;
  if (rest.starts_with('(')) rest.remove_prefix(1);
  while (!rest.empty()) {
    std::int64_t size = -1;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), size);
    if (error != std::errc() || size < 0)
      refuse(path, "its header has the shape " + in_quotes(whole) + ")");
    shape.push_back(size);
    rest = {end, rest.data() + rest.size()};
    rest.remove_prefix(std::min(rest.find_first_not_of(", "), rest.size()));
  }
  return shape;
}

}  // namespace

StoredTensor npy_tensor(const MappedFile& file) {
  const std::string& path = file.path();
  const std::span<const std::byte> bytes = file.bytes();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::string_view header = header_of(text, path);

  StoredTensor tensor;
  tensor.file = path;
  tensor.type_name = type_name(value_of(header, "descr", path), path);
  const auto* const type =
      std::find_if(std::begin(kTypes), std::end(kTypes),
                   [&](const NpyType& one) { return one.name == tensor.type_name; });
  if (type == std::end(kTypes))
    refuse(path, "elements of type " + in_quotes(tensor.type_name) +
                     " are not read; expected <f8, <f4, <f2, <i8, <i4 or |u1");
  tensor.dtype = type->dtype;
  if (!value_of(header, "fortran_order", path).starts_with("False"))
    refuse(path, "is in column order; write it with numpy.ascontiguousarray()");
  tensor.shape = read_shape(value_of(header, "shape", path), path);

  tensor.data = bytes.subspan(header.data() + header.size() - text.data());
  std::int64_t expected = product(tensor.shape);
  if (expected < 0 || __builtin_mul_overflow(expected, size_in_bytes(type->dtype), &expected))
    refuse(path, "shape " + shape_text(tensor.shape) + " is too large");
  if (std::ssize(tensor.data) != expected)
    refuse(path, std::to_string(tensor.data.size()) + " bytes of data, where shape " +
                     shape_text(tensor.shape) + " of " + tensor.type_name + " takes " +
                     std::to_string(expected));
  return tensor;
}

}  // namespace trainyard
