// Builds a Graph op by op: infers shapes, names tensors after their module, registers parameters,
// and counts the model's FLOP. models/ holds the architectures that call it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/graph/graph.h"

namespace trainyard {

struct AttentionShape {
  std::int32_t heads = 0;
  std::int32_t kv_heads = 0;
  std::int32_t head_dim = 0;
  bool causal = false;
  double dropout = 0;  // of the probabilities
  bool scaled = true;  // scores over sqrt(head_dim); T5 folds this into its initialisation
  double rope_base = 10000;
  double divisor = 1;         // of the scores, beside sqrt(head_dim)
  std::int64_t attended = 0;  // tokens that a token sees, itself among them; 0: all
  double softcap = 0;         // scores s become c tanh(s / c); 0: as they are
  double alibi = 0;           // scores less so many times ALiBi's slope times the distance
  std::int64_t rotary = 0;    // features of a head that turn; 0: all
  RopeScaling rope_scaling{};
};

struct ConvolutionShape {
  HeightWidth window{}, stride{1, 1}, padding{}, dilation{1, 1};
  std::int64_t groups = 1;
  bool bias = false;
};

/// Heads of a state space. Those of a group share what writes their states and what reads them.
struct StateSpaceShape {
  std::int32_t heads = 0, groups = 1;
  std::int32_t head_dim = 0;  // channels of a head
  std::int32_t states = 0;    // of a channel
  std::int32_t chunk = 0;     // tokens whose products are taken at once
};

/// What a scan reads of every token, and of every head.
struct ScanInputs {
  TensorId x, dt, b, c;        // [B, S, N P], [B, S, N], [B, S, G K] twice
  TensorId a_log, dt_bias, d;  // [N]
};

/// Running mean and variance of a batch norm's channels: after each microbatch they are less by
/// `momentum` of themselves, and more by as much of the microbatch's mean and unbiased variance.
struct RunningMoments {
  TensorId mean = kNoIndex, variance = kNoIndex;
  double momentum = 0;
};

struct PoolShape {
  HeightWidth window{}, stride{}, padding{};
};

/// Parameters of an op that are there already.
struct WeightAndBias {
  TensorId weight, bias = kNoIndex;
};

/// How a parameter starts, and what it consists of.
struct ParameterForm {
  Init init = Init::kNormal;
  double deviation = 0.02;                // of draws
  std::vector<ParameterPart> parts = {};  // of a fused weight
  Init bias = Init::kZeros;               // of the weight's bias, where it has one
  double bias_deviation = 0;
  double momentum = 0;  // above 0: of a running average
};

class GraphBuilder {
 public:
  /// Activations and weights are of type `compute`; norms' statistics and the loss are fp32.
  GraphBuilder(std::string name, DType compute);

  /// Ops built from now on belong to this transformer layer (execution order); -1: model ends.
  /// A module lies within one layer: what it is called there is forgotten here.
  void set_layer(std::int32_t layer);
  /// Room for about so many.
  void reserve(std::size_t ops, std::size_t parameters);
  /// Ops built from now on belong to the next sublayer of the layer.
  void next_sublayer() { ++sublayer_; }
  /// Parameters registered from now on belong to the training head, not to the base model.
  void set_head(bool head) { head_ = head; }
  /// Added to the variance by the norms built from now on.
  void set_norm_eps(double eps) { norm_eps_ = eps; }
  /// Added to the weights of the RMS norms built from now on, which then start with as much less.
  void set_norm_shift(double shift) { norm_shift_ = shift; }

  TensorId input(std::string_view name, const Shape& shape, DType dtype);  // data, no gradient
  /// The same numbers for all samples, part of the model: a mask, a table of angles. No gradient.
  TensorId constant(std::string_view name, const Shape& shape, DType dtype, Constant content = {});

  /// Registers a parameter. `padded_rows` > shape[0] pads dim 0 (vocabulary).
  TensorId parameter(std::string_view name, const Shape& shape, SplitHint split = SplitHint::kNone,
                     bool decay = true, std::int64_t padded_rows = 0,
                     const ParameterForm& form = {});
  /// A parameter that the base model counts but this training run does not touch.
  void unused_parameter(std::string_view name, const Shape& shape);

  TensorId embedding(std::string_view module, TensorId tokens, TensorId table);  // [B,S] -> [B,S,D]
  /// x [.., in] -> [.., out]; creates module.weight [out, in] and, with bias, module.bias [out].
  TensorId linear(std::string_view module, TensorId x, std::int64_t out, bool bias, SplitHint split,
                  const ParameterForm& form = {});
  /// LM head: `scale` x [B,S,D] times `table` [V,D] (tied or own), optional bias parameter [V].
  TensorId lm_head(std::string_view module, TensorId x, TensorId table, TensorId bias = kNoIndex,
                   double scale = 1);
  TensorId layer_norm(std::string_view module, TensorId x);
  /// Without a bias where none is given.
  TensorId layer_norm(std::string_view module, TensorId x, const WeightAndBias& given);
  TensorId layer_norm_without_bias(std::string_view module, TensorId x);
  TensorId rms_norm(std::string_view module, TensorId x);
  TensorId rms_norm(std::string_view module, TensorId x, const WeightAndBias& given);
  /// The same of each of so many groups of features.
  TensorId rms_norm_of_groups(std::string_view module, TensorId x, std::int64_t groups);
  /// Self-attention over packed qkv [B,S,(N+2Nkv)H] -> [B,S,NH]. mask [B,S], bias [N,S,S]: -1 none.
  TensorId attention(std::string_view module, TensorId qkv, const AttentionShape& attention,
                     TensorId mask = kNoIndex, TensorId bias = kNoIndex);
  /// Attention of q [B,Sq,NH] over kv [B,Sk,2NkvH] (T5's cross-attention).
  TensorId cross_attention(std::string_view module, TensorId q, TensorId kv,
                           const AttentionShape& attention, TensorId mask = kNoIndex,
                           TensorId bias = kNoIndex);
  /// table [buckets, N] -> bias [N, Sq, Sk]; causal: all buckets look back, else half look ahead.
  TensorId relative_bias(std::string_view module, TensorId table, std::int64_t query_length,
                         std::int64_t key_length, bool causal);
  TensorId rope(std::string_view module, TensorId qkv, const AttentionShape& attention);
  /// RMS norm of each head of q and of k, with the weights q_norm and k_norm of the module.
  TensorId head_norm(std::string_view module, TensorId qkv, const AttentionShape& attention);
  TensorId dropout(std::string_view module, TensorId x, double rate);  // rate 0: returns x
  TensorId add(std::string_view module, TensorId a, TensorId b);  // dims of 1 element are repeated
  /// gelu, relu, tanh, exp, log, erf, sin, cos, sigmoid, silu, softplus (same shape); swiglu, geglu
  /// ([.., 2F] -> [.., F]).
  TensorId activation(std::string_view module, OpKind kind, TensorId x, bool tanh_gelu = false);
  TensorId select_first(std::string_view module, TensorId x);  // [B,S,D] -> [B,D]
  /// Mean over predicted tokens of the negative log-likelihood: logits [.., V], labels [..]. Of the
  /// logits the first `vocab` are classes (0: all), the rest padding.
  TensorId cross_entropy(std::string_view module, TensorId logits, TensorId labels,
                         std::int64_t vocab = 0, double weight = 1);

  // General ops (general_ops.cpp). They throw ConfigError where shapes do not fit; dims count from
  // 0.
  TensorId view(std::string_view module, TensorId x, const Shape& shape);
  /// Dim `dim` as (count, rest).
  TensorId pieces(std::string_view module, TensorId x, int dim, std::int64_t count);
  /// The result's dim i is x's dim dims[i].
  TensorId permute(std::string_view module, TensorId x, const DimList& dims);
  /// Index i -> i + by, around the end.
  TensorId roll(std::string_view module, TensorId x, int dim, std::int64_t by = 1);
  /// Index i -> last - i.
  TensorId flip(std::string_view module, TensorId x, int dim);
  std::vector<TensorId> split(std::string_view module, TensorId x, int dim,
                              std::span<const std::int64_t> sizes);
  TensorId narrow(std::string_view module, TensorId x, int dim, std::int64_t begin,
                  std::int64_t length);
  TensorId concat(std::string_view module, std::span<const TensorId> parts, int dim);
  TensorId mul(std::string_view module, TensorId a, TensorId b);  // dims of 1 element are repeated
  TensorId sub(std::string_view module, TensorId a, TensorId b);
  TensorId div(std::string_view module, TensorId a, TensorId b);
  /// a where `condition` (uint8) is not 0, else b.
  TensorId where(std::string_view module, TensorId condition, TensorId a, TensorId b);
  TensorId affine(std::string_view module, TensorId x, double scale, double shift = 0);
  TensorId power(std::string_view module, TensorId x, double exponent);
  TensorId clamp(std::string_view module, TensorId x, double low, double high);
  TensorId cumsum(std::string_view module, TensorId x, int dim);
  TensorId zero_pad(std::string_view module, TensorId x, int dim, std::int64_t before,
                    std::int64_t behind);
  TensorId softmax(std::string_view module, TensorId x);  // over the last dim
  TensorId sum(std::string_view module, TensorId x, const DimList& dims, bool keepdim = false);
  TensorId bmm(std::string_view module, TensorId a, TensorId b);  // [..,M,K], [..,K,N] -> [..,M,N]
  /// x's rows at an index: x [.., N, H], index [.., M] of integers -> [.., M, H]. From the end
  /// where an index is negative; outer dims of 1 of the index are repeated.
  TensorId gather(std::string_view module, TensorId x, TensorId index);
  /// x [.., N, H] with rows [.., M, H] where gather() would take them from, or, with `adds`, added
  /// to what is there. Of rows of one index any one is written.
  TensorId scatter(std::string_view module, TensorId x, TensorId index, TensorId rows,
                   bool adds = false);
  /// Element by element of integers or conditions, which have no gradient; dims of 1 are repeated.
  TensorId combine(std::string_view module, Combination combination, TensorId a, TensorId b);
  /// Where the largest of each row is, the first of those that are equal; integers: [.., N] ->
  /// [..].
  TensorId argmax(std::string_view module, TensorId x);
  /// Where the largest `count` of each row are, from the largest down, the first of those that are
  /// equal first; integers: [.., N] -> [.., count].
  TensorId topk(std::string_view module, TensorId x, std::int64_t count);
  /// Another type of numbers or integers, through which no gradient goes.
  TensorId cast(std::string_view module, TensorId x, DType type);
  /// `weight` times the mean of the squares of x - target over the elements of the step.
  TensorId mse(std::string_view module, TensorId x, TensorId target, double weight = 1);
  /// The same of the binary cross entropy of logits x; targets lie in 0 to 1.
  TensorId bce(std::string_view module, TensorId x, TensorId target, double weight = 1);

  // Ops of images [N, C, H, W] (image_ops.cpp); they throw ConfigError where a window does not fit.
  /// Creates module.weight [out, C / groups, window] and, with bias, module.bias [out].
  TensorId conv2d(std::string_view module, TensorId x, std::int64_t out,
                  const ConvolutionShape& convolution, const ParameterForm& form = {});
  TensorId conv2d(std::string_view module, TensorId x, const WeightAndBias& given,
                  const ConvolutionShape& convolution);
  /// What a convolution of the same windows would take to x. Creates module.weight
  /// [C, out / groups, window] and, with bias, module.bias [out].
  TensorId conv_transpose2d(std::string_view module, TensorId x, std::int64_t out,
                            const ConvolutionShape& convolution, HeightWidth extra = {},
                            const ParameterForm& form = {});
  TensorId conv_transpose2d(std::string_view module, TensorId x, const WeightAndBias& given,
                            const ConvolutionShape& convolution, HeightWidth extra = {});
  /// To `size`, whose elements lie evenly over the image, or `aligned`: corners on corners.
  TensorId interpolate2d(std::string_view module, TensorId x, HeightWidth size, bool bilinear,
                         bool aligned = false);
  /// Each sample's groups of channels to mean 0 and deviation 1, times module.weight plus
  /// module.bias.
  TensorId group_norm(std::string_view module, TensorId x, std::int64_t groups);
  TensorId group_norm(std::string_view module, TensorId x, std::int64_t groups,
                      const WeightAndBias& given);
  TensorId max_pool2d(std::string_view module, TensorId x, const PoolShape& pool);
  TensorId avg_pool2d(std::string_view module, TensorId x, const PoolShape& pool);
  /// Each channel to mean 0 and deviation 1 over `samples` samples (0: all of the microbatch, on
  /// whatever ranks), times module.weight plus module.bias, [C] each.
  /// With running_moments() where `momentum` is above 0.
  TensorId batch_norm(std::string_view module, TensorId x, std::int64_t samples,
                      double momentum = 0);
  TensorId batch_norm(std::string_view module, TensorId x, std::int64_t samples,
                      const WeightAndBias& given, const RunningMoments& running = {});
  /// module.running_mean and module.running_var, [C] each.
  RunningMoments running_moments(std::string_view module, std::int64_t channels, double momentum);

  // Ops of state spaces (state_space_ops.cpp).
  /// What a projection makes of tokens, [B, S, 2 N P + 2 G K + N]: the gate, what is convolved, and
  /// dt. Views.
  std::array<TensorId, 3> split_projection(std::string_view module, TensorId x,
                                           const StateSpaceShape& space);
  /// [B, S, N P + 2 G K]: x, b and c. Views.
  std::array<TensorId, 3> split_convolved(std::string_view module, TensorId x,
                                          const StateSpaceShape& space);
  /// silu of each channel of x [B, S, C] in the latest `width` tokens, its own among them, weighed.
  /// Creates module.weight [C, 1, 1, width] and module.bias [C].
  TensorId causal_conv1d(std::string_view module, TensorId x, std::int64_t width,
                         const ParameterForm& form = {});
  /// Token by token, of each head with A = -exp(a_log) and dt = softplus(dt + dt_bias):
  /// state <- exp(dt A) state + dt b x^T, y = c state + d x.
  TensorId chunk_scan(std::string_view module, const ScanInputs& inputs,
                      const StateSpaceShape& space);

  const Shape& shape(TensorId tensor) const;
  DType type(TensorId tensor) const { return graph_.tensors[tensor].dtype; }

  /// Ends the graph. `loss` is a scalar (several losses: add() them).
  Graph finish(TensorId loss);

 private:
  struct StringHash {  // lets module_index() look a string_view up without copying it
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };

  /// Appends an op with one output; inputs of -1 are left out.
  TensorId add_op(std::string_view module, OpKind kind, const OpAttrs& attrs,
                  std::initializer_list<TensorId> inputs, const Shape& output, DType dtype) {
    return add_op(module, kind, attrs, {inputs.begin(), inputs.size()}, output, dtype);
  }
  TensorId add_op(std::string_view module, OpKind kind, const OpAttrs& attrs,
                  std::span<const TensorId> inputs, const Shape& output, DType dtype);
  void append(std::string_view module, Op op);  // with its inputs and outputs
  /// The same of a general op, whose result has the type of its first input.
  TensorId add_general(std::string_view module, OpKind kind, const OpAttrs& attrs,
                       std::span<const TensorId> inputs, const Shape& output);
  TensorId broadcast_op(std::string_view module, OpKind kind, TensorId a, TensorId b);
  void refuse_misfit(const Op& op) const;
  /// Throws ConfigError with the op's module and kind where there is a problem.
  void refuse(const Op& op, const std::string& problem) const;
  void refuse_image_misfit() const;  // of the latest op
  enum class Parts : std::uint8_t { kCopies, kViews };
  std::vector<TensorId> add_split(std::string_view module, TensorId x, int dim,
                                  std::span<const std::int64_t> sizes, const OpAttrs& attrs,
                                  Parts are);
  std::array<TensorId, 3> split_views(std::string_view module, TensorId x, const OpAttrs& attrs,
                                      const std::array<std::int64_t, 3>& sizes);
  /// Another result of the latest op: saved for its backward, which has no gradient for it.
  void add_saved_result(std::string name, const Shape& shape, DType dtype);
  TensorId norm_weight(const std::string& module, std::int64_t features,
                       double shift = 0);  // starts with 1 - shift, which is 1 or 0
  TensorId zero_bias(const std::string& module, std::int64_t features);
  /// The bias of a weight of this form.
  TensorId add_bias(const std::string& module, std::int64_t features, const ParameterForm& form,
                    SplitHint split = SplitHint::kNone);
  std::int32_t next_draw(std::string_view module, OpKind kind);
  /// The same of an op of images.
  TensorId add_image_op(std::string_view module, OpKind kind, const OpAttrs& attrs,
                        std::initializer_list<TensorId> inputs, const Shape& output, DType dtype);
  TensorId norm(std::string_view module, OpKind kind, TensorId x, const WeightAndBias& given,
                std::int64_t num_statistics);
  TensorId mean_loss(std::string_view module, OpKind kind, TensorId x, TensorId target,
                     double weight);
  /// An op whose result is no number that a gradient flows to.
  TensorId add_without_gradient(std::string_view module, OpKind kind, const OpAttrs& attrs,
                                std::span<const TensorId> inputs, const Shape& output, DType dtype);
  TensorId input_tensor(std::string_view name, const Shape& shape, DType dtype, bool constant);
  TensorId attention_op(std::string_view module, TensorId q, TensorId kv,
                        const AttentionShape& attention, TensorId mask, TensorId bias);
  TensorId add_tensor(Tensor tensor);
  PathId module_index(std::string_view module);
  std::string activation_name(PathId module, OpKind kind);

  Graph graph_;
  RecentAttrs recent_attrs_;
  DType compute_;
  std::int32_t layer_ = -1;
  std::int8_t sublayer_ = 0;
  bool head_ = false;
  double norm_eps_ = 1e-5;
  double norm_shift_ = 0;
  // Kept for the current layer only, so that they stay small where models have 10^5 layers.
  std::unordered_map<std::string, PathId, StringHash, std::equal_to<>> module_indices_;
  // How many ops of each kind a module has.
  Indexed<PathId, boost::container::small_vector<std::pair<OpKind, std::int32_t>, 3>> num_uses_;
  // Dropouts of a module, by kind; kept, since a module may be called in several layers.
  std::map<std::pair<OpKind, std::string>, std::int32_t> num_draws_;
};

}  // namespace trainyard
