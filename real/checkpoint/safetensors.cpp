#include "real/checkpoint/safetensors.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "engine/base/error.h"
#include "engine/base/json_fields.h"
#include "real/checkpoint/piece.h"

namespace trainyard {

namespace {

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit
constexpr const char* kMetadataKey = "__metadata__";

struct FormatType {
  std::string_view name;
  int bytes;
  std::optional<DType> dtype;
};

constexpr FormatType kTypes[] = {
    {"F64", 8, DType::kFp64},  {"F32", 4, DType::kFp32},     {"F16", 2, DType::kFp16},
    {"BF16", 2, DType::kBf16}, {"I64", 8, DType::kInt64},    {"I32", 4, DType::kInt32},
    {"U8", 1, DType::kUint8},  {"BOOL", 1, std::nullopt},    {"I8", 1, std::nullopt},
    {"I16", 2, std::nullopt},  {"U16", 2, std::nullopt},     {"U32", 4, std::nullopt},
    {"U64", 8, std::nullopt},  {"F8_E4M3", 1, std::nullopt}, {"F8_E5M2", 1, std::nullopt},
};

std::string format_name(DType dtype) {
  for (const FormatType& type : kTypes) {
    if (type.dtype == dtype) return std::string(type.name);
  }
  bug("safetensors has no " + std::string(to_string(dtype)));
}

const FormatType* find_type(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                         [&](const FormatType& type) { return type.name == name; });
  return found == std::end(kTypes) ? nullptr : found;
}

std::string header_text(std::span<const SafetensorsEntry> entries,
                        const std::map<std::string, std::string>& metadata,
                        std::int64_t& data_bytes) {
  nlohmann::json header = nlohmann::json::object();
  if (!metadata.empty()) header[kMetadataKey] = metadata;
  data_bytes = 0;
  for (const SafetensorsEntry& entry : entries) {
    const std::int64_t bytes = product(entry.shape) * size_in_bytes(entry.dtype);
    check(entry.key != kMetadataKey && !header.contains(entry.key), "an entry's key is its own");
    header[entry.key] = {{"dtype", format_name(entry.dtype)},
                         {"shape", entry.shape},
                         {"data_offsets", {data_bytes, data_bytes + bytes}}};
    data_bytes += bytes;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // so that the data begin aligned
  return text;
}

/// The header's text, its length checked against the file's.
std::string_view find_header(std::span<const std::byte> bytes, const std::string& path) {
  const std::string size = std::to_string(bytes.size());
  if (bytes.size() < kLengthBytes) {
    refuse(path, "not a safetensors file: " + size + " bytes are less than the 8 it begins with");
  }
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;) {
    length = length << 8U | std::to_integer<std::uint64_t>(bytes[i]);
  }
  if (length > kMaxHeaderBytes) {
    refuse(path, "not a safetensors file: its header would take " + std::to_string(length) +
                     " bytes, more than the " + std::to_string(kMaxHeaderBytes) + " allowed");
  }
  if (length > bytes.size() - kLengthBytes) {
    refuse(path, "truncated: a header of " + std::to_string(length) + " bytes does not fit in " +
                     size + " bytes");
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
  if (!text.starts_with('{')) refuse(path, "not a safetensors file: its header is no JSON object");
  return text;
}

struct Placed {
  std::int64_t begin;
  std::int64_t end;
  std::string key;
};

/// Data follow each other from the first byte to the last, each as long as its type and shape say.
void check_layout(std::vector<Placed>& placed, std::int64_t data_bytes, const std::string& path) {
  std::sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  std::int64_t reached = 0;
  for (const Placed& at : placed) {
    if (at.begin < reached) {
      refuse(path, at.key + ": begins at byte " + std::to_string(at.begin) +
                       " of the data, inside the tensor before it, which ends at " +
                       std::to_string(reached));
    }
    if (at.begin > reached) {
      refuse(path, at.key + ": begins at byte " + std::to_string(at.begin) +
                       " of the data, a gap after " + std::to_string(reached));
    }
    reached = at.end;
  }
  if (reached > data_bytes) {
    refuse(path, "truncated: " + std::to_string(reached) + " bytes of data expected, " +
                     std::to_string(data_bytes) + " are there");
  }
  if (reached < data_bytes) {
    refuse(path, std::to_string(data_bytes - reached) + " extra bytes after the last tensor");
  }
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::string& path,
                                     std::span<const SafetensorsEntry> entries,
                                     const std::map<std::string, std::string>& metadata)
    : file_(path) {
  const std::string header = header_text(entries, metadata, left_);
  if (header.size() > kMaxHeaderBytes) {
    throw BackendError(path + ": a header of " + std::to_string(header.size()) +
                       " bytes is more than safetensors allows");
  }
  std::byte length[kLengthBytes];
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    length[i] = static_cast<std::byte>(header.size() >> 8U * i & 0xffU);
  }
  file_.append(length);
  file_.append(std::as_bytes(std::span(header)));
}

void SafetensorsWriter::append(std::span<const std::byte> bytes) {
  left_ -= static_cast<std::int64_t>(bytes.size());
  check(left_ >= 0, "no more data than the header announced");
  file_.append(bytes);
}

FileStamp SafetensorsWriter::finish() {
  check(left_ == 0, "all the data that the header announced");
  return file_.finish();
}

SafetensorsFile::SafetensorsFile(const std::string& path) : path_(path), file_(path) {
  const std::string_view text = find_header(file_.bytes(), path);
  const std::span<const std::byte> data = file_.bytes().subspan(kLengthBytes + text.size());
  const auto data_bytes = static_cast<std::int64_t>(data.size());
  const JsonFile header(text, path, JsonFile::Places::kKeys);

  std::vector<Placed> placed;
  std::map<std::string, Placed> places;
  for (const auto& [key, value] : header.root().items()) {
    const JsonFields fields(header, {key}, value);
    if (key == kMetadataKey) {
      for (const auto& [name, entry] : value.items()) metadata_[name] = fields.text(name);
      continue;
    }
    SafetensorsTensor tensor;
    tensor.dtype_name = fields.text("dtype");
    const FormatType* type = find_type(tensor.dtype_name);
    if (type == nullptr) fields.fail("dtype", "unknown type '" + tensor.dtype_name + "'");
    tensor.dtype = type->dtype;
    tensor.shape = fields.integers("shape");

    const std::vector<std::int64_t> offsets = fields.integers("data_offsets");
    if (offsets.size() != 2 || offsets[0] > offsets[1]) {
      fields.fail("data_offsets", "expected a begin and an end, got " + shape_text(offsets));
    }
    std::int64_t bytes = product(tensor.shape);
    if (bytes < 0 || __builtin_mul_overflow(bytes, type->bytes, &bytes)) {
      fields.fail("shape", shape_text(tensor.shape) + " is too large");
    }
    if (offsets[1] - offsets[0] != bytes) {
      fields.fail("data_offsets", std::to_string(offsets[1] - offsets[0]) + " bytes, where shape " +
                                      shape_text(tensor.shape) + " of " + tensor.dtype_name +
                                      " takes " + std::to_string(bytes));
    }
    placed.push_back({offsets[0], offsets[1], key});
    places.emplace(key, placed.back());
    tensors_.emplace(key, std::move(tensor));
  }
  check_layout(placed, data_bytes, path);
  for (auto& [key, tensor] : tensors_) {
    const Placed& at = places.at(key);
    tensor.data = data.subspan(at.begin, at.end - at.begin);
  }
}

}  // namespace trainyard
