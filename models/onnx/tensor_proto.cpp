#include "models/onnx/tensor_proto.h"

#include <cstdint>

namespace trainyard {

std::optional<OnnxType> type_of(int type) {
  using T = onnx::TensorProto;
  switch (type) {
    case T::FLOAT: return OnnxType::kFloat;
    case T::DOUBLE: return OnnxType::kDouble;
    case T::FLOAT16: return OnnxType::kFloat16;
    case T::BFLOAT16: return OnnxType::kBfloat16;
    case T::INT64: return OnnxType::kInt64;
    case T::INT32: return OnnxType::kInt32;
    case T::INT16: return OnnxType::kInt16;
    case T::INT8: return OnnxType::kInt8;
    case T::UINT8: return OnnxType::kUint8;
    case T::BOOL: return OnnxType::kBool;
    default: return std::nullopt;
  }
}

namespace {

template <typename Number, typename List>
std::string bytes_of(const List& list) {
  std::string bytes;
  for (const auto one : list) {
    const auto value = static_cast<Number>(one);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  return bytes;
}

}  // namespace

std::string bytes_of_fields(const onnx::TensorProto& proto, OnnxType type) {
  switch (type) {
    case OnnxType::kFloat: return bytes_of<float>(proto.float_data());
    case OnnxType::kDouble: return bytes_of<double>(proto.double_data());
    case OnnxType::kInt64: return bytes_of<std::int64_t>(proto.int64_data());
    case OnnxType::kInt32: return bytes_of<std::int32_t>(proto.int32_data());
    case OnnxType::kFloat16:
    case OnnxType::kBfloat16:
    case OnnxType::kInt16: return bytes_of<std::uint16_t>(proto.int32_data());
    default: return bytes_of<std::uint8_t>(proto.int32_data());
  }
}

}  // namespace trainyard
