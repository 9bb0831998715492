// ONNX files that stay ones, with nodes, dims and attributes that do not fit.
#pragma once

#include <cstdint>
#include <string>

namespace trainyard {

/// One to three changes; what is no ONNX file comes back as it is.
std::string mutate_onnx(const std::string& bytes, std::uint64_t seed);

}  // namespace trainyard
