// Which function makes ops of which kind of node, and why some kinds have none.
#include "models/onnx/importer.h"

namespace trainyard {

const std::unordered_map<std::string_view, OnnxImporter::Handler>& OnnxImporter::handlers() {
  using I = OnnxImporter;
  static const std::unordered_map<std::string_view, Handler> table = {
      {"Add", &I::binary},
      {"Sub", &I::binary},
      {"Mul", &I::binary},
      {"Div", &I::binary},
      {"Pow", &I::binary},
      {"Relu", &I::unary},
      {"Tanh", &I::unary},
      {"Exp", &I::unary},
      {"Log", &I::unary},
      {"Erf", &I::unary},
      {"Sin", &I::unary},
      {"Cos", &I::unary},
      {"Sigmoid", &I::unary},
      {"Softplus", &I::unary},
      {"Sqrt", &I::unary},
      {"Reciprocal", &I::unary},
      {"Neg", &I::unary},
      {"Abs", &I::of_size},
      {"Softsign", &I::of_size},
      {"Mish", &I::of_size},
      {"LeakyRelu", &I::bent},
      {"PRelu", &I::bent},
      {"Elu", &I::bent},
      {"Selu", &I::bent},
      {"Celu", &I::bent},
      {"HardSigmoid", &I::hard},
      {"HardSwish", &I::hard},
      {"Gelu", &I::gelu},
      {"Clip", &I::clip},
      {"Where", &I::where},
      {"Cast", &I::cast},
      {"CastLike", &I::cast},
      {"Identity", &I::pass_input},
      {"Dropout", &I::dropout},
      {"ReduceSum", &I::reduce},
      {"ReduceMean", &I::reduce},
      {"ReduceL1", &I::reduce},
      {"ReduceL2", &I::reduce},
      {"ReduceSumSquare", &I::reduce},
      {"ReduceMax", &I::extreme},
      {"ReduceMin", &I::extreme},
      {"Softmax", &I::softmax},
      {"LogSoftmax", &I::log_of_sum},
      {"ReduceLogSumExp", &I::log_of_sum},
      {"CumSum", &I::cumsum},
      {"Equal", &I::compare},
      {"Less", &I::compare},
      {"LessOrEqual", &I::compare},
      {"Greater", &I::compare},
      {"GreaterOrEqual", &I::compare},
      {"IsNaN", &I::is_nan},
      {"And", &I::logical},
      {"Or", &I::logical},
      {"Xor", &I::logical},
      {"Mod", &I::integer_binary},
      {"Min", &I::least_or_largest},
      {"Max", &I::least_or_largest},
      {"OneHot", &I::one_hot},
      {"ArgMax", &I::argmax},
      {"TopK", &I::topk},
      {"MatMul", &I::matmul},
      {"Gemm", &I::gemm},
      {"Einsum", &I::einsum},
      {"Attention", &I::attention},
      {"LayerNormalization", &I::norm},
      {"RMSNormalization", &I::norm},
      {"Conv", &I::convolution},
      {"ConvTranspose", &I::transposed_convolution},
      {"MaxPool", &I::pool},
      {"AveragePool", &I::pool},
      {"GlobalAveragePool", &I::global_pool},
      {"GlobalMaxPool", &I::global_pool},
      {"BatchNormalization", &I::batch_norm},
      {"InstanceNormalization", &I::instance_norm},
      {"GroupNormalization", &I::group_norm},
      {"Resize", &I::resize},
      {"Pad", &I::pad},
      {"LSTM", &I::recurrent},
      {"GRU", &I::recurrent},
      {"RNN", &I::recurrent},
      {"Reshape", &I::reshape},
      {"Flatten", &I::reshape},
      {"Squeeze", &I::reshape},
      {"Unsqueeze", &I::reshape},
      {"Transpose", &I::transpose},
      {"DepthToSpace", &I::depth_and_space},
      {"SpaceToDepth", &I::depth_and_space},
      {"Concat", &I::concat},
      {"Split", &I::split},
      {"Slice", &I::slice},
      {"SplitToSequence", &I::split_to_sequence},
      {"SequenceAt", &I::sequence_at},
      {"Gather", &I::gather},
      {"GatherElements", &I::gather_elements},
      {"GatherND", &I::gather_nd},
      {"ScatterND", &I::scatter},
      {"ScatterElements", &I::scatter},
      {"Expand", &I::expand},
      {"Tile", &I::expand},
  };
  return table;
}

/// Said of a kind without a handler.
std::string OnnxImporter::reason_against(std::string_view op) {
  if (op == "Loop" || op == "Scan")
    return "has a body that runs several times, which is not modelled; an nn.EmbeddingBag is "
           "exported as one: nn.Embedding and a sum or mean over its rows are the same";
  if (op.starts_with("Random") || op == "Bernoulli" || op == "Multinomial")
    return "draws random numbers, of which dropouts alone are modelled; make "
           "them an input";
  if (op == "GridSample")
    return "takes elements of an image at places that are data, which is not modelled";
  if (op == "NonZero" || op == "Unique" || op == "Compress")
    return "makes as many elements as the data say, which is not modelled";
  return "no op of this version does that with data";
}

}  // namespace trainyard
