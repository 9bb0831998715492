// Tensors as the protocol buffer of an ONNX file has them: their types, and elements that stand in
// fields of numbers.
#pragma once

#define ONNX_ML 1
#define ONNX_NAMESPACE onnx
#include <onnx/onnx_pb.h>

#include <optional>
#include <string>

#include "models/onnx/onnx_model.h"

namespace trainyard {

/// The type that a TensorProto::DataType is; nullopt: no op that is modelled has it.
std::optional<OnnxType> type_of(int type);

/// What stands in a field of numbers instead of raw bytes.
std::string bytes_of_fields(const onnx::TensorProto& proto, OnnxType type);

}  // namespace trainyard
