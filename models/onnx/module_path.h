// From what PyTorch's exporters write about a node to the dotted path of the module that it belongs
// to: "encoder.layers.3.mlp".
#pragma once

#include <string>
#include <string_view>

namespace trainyard {

/// `node_name`: the TorchScript exporter's "/encoder/layers.3/mlp/MatMul". `scopes`: the
/// "namespace" of the dynamo exporter, ": Model/encoder: Encoder/encoder.layers.3: Layer/linear:
/// aten.linear"; it comes first where there is one. "": neither says.
std::string module_path(std::string_view node_name, std::string_view scopes);

}  // namespace trainyard
