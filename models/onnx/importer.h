// One ONNX model on its way into a GraphBuilder: what is known of each value, and a function per
// kind of node.
//
// A value is a constant, an initializer that nothing has asked for yet, or a tensor of the graph. A
// tensor's `dims` are those that ONNX gives it; dims that it only repeats may have one element in
// the graph until somebody needs them all.
#pragma once

#include <boost/container/small_vector.hpp>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/base/name_table.h"
#include "engine/graph/graph_builder.h"
#include "models/onnx/image_windows.h"
#include "models/onnx/onnx_constant.h"
#include "models/onnx/onnx_graph.h"

namespace trainyard {

class OnnxImporter {
 public:
  using Dims = std::vector<std::int64_t>;

  /// What a first run has found out: a value of which only the dims are asked for needs no op.
  struct Reads {
    Numbered<Dims> dims;       // [value]
    Numbered<OnnxType> types;  // [value]
    Numbered<bool> made;       // [value]: by ops
    Numbered<bool> read;       // [value]: by what leads to the loss
    bool all_are_read() const;
  };

  /// `known`: nothing is made that it says nobody reads; nullptr: of a first run. `wider`: dims of
  /// values with a larger batch, of which those that differ are the batch; empty: the first of a
  /// value is; nullptr: this run is the one with the larger batch, and takes means over anything.
  OnnxImporter(const ModelConfig& config, const BuildOptions& options, const Numbered<Dims>* wider,
               const Reads* known = nullptr);

  OnnxGraph run();
  Reads take_reads();  // of the run before, which ends with it

 private:
  static constexpr std::size_t kNobody = -1;

  struct Value {
    enum class Kind : std::uint8_t { kUnknown, kConstant, kInitializer, kTensor, kSequence };
    Kind kind = Kind::kUnknown;
    ConstantRef constant;
    int initializer = -1;
    OnnxType type = OnnxType::kFloat;  // kTensor
    TensorId tensor = kNoIndex;
    TensorId finer = kNoIndex;     // has the same elements; `groups` of its dims are one here
    Numbered<std::size_t> groups;  // [dim]
    Dims dims;                     // as ONNX has them
    bool transposed = false;       // kInitializer: of two dims, the other way round
    // kTensor that follows from one mask and constants: `tensor` is the mask, and the constants are
    // what stands where it is 1, and where it is 0. Of a condition that is data: 1 and 0.
    ConstantRef ones, zeros;
    TensorId chosen = kNoIndex;  // made of them
  };

  /// How an initializer is used, as far as it decides what becomes of it.
  struct Use {
    bool as_weight = false;  // a product, convolution, norm or table reads it
    bool as_is = false;      // not only as the right factor of a MatMul
    bool fixed = false;      // no gradient flows to it, or it is a table that nothing trains
    bool with_constants = false, with_data = false;  // what products multiply it by
    bool scales = false;                             // the scale of a norm
    bool adds = false;                               // a bias
    bool looks_up = false;                           // a table
    std::int64_t fan_in = 0;
    std::int64_t state = 0;   // of a recurrent node: its width
    std::string_view module;  // of the first node that reads it
    bool several = false;     // modules read it
    std::optional<bool> merged;
  };

  /// The parts of a value along an axis, which SequenceAt takes one by one.
  struct Sequence {
    int whole = kNoOnnxValue;
    std::size_t axis = 0;
    Dims sizes;
    bool squeezed = false;        // each is of one element, whose dim is gone
    std::vector<TensorId> parts;  // once one was asked for
  };

  /// A loss, and the input that it compares an output with.
  struct Target {
    int output = kNoOnnxValue;
    OutputLoss loss;
    std::string labels;
  };

  /// A range of each dim of a tensor.
  struct Box {
    Dims begin, end;  // [dim]
    std::int64_t elements() const;
  };

  /// What nodes do with an input of integers, once they have moved its elements.
  struct InputUse {
    bool looked_up = false, cast = false, computed = false;  // in a table; to numbers; otherwise
  };

  // importer.cpp, import_losses.cpp, import_parameters.cpp, import_values.cpp
  Value& value(int id) { return values_[id]; }
  const OnnxTensor& initializer(const Value& v) const { return model_.initializers[v.initializer]; }
  void find_dependent();
  void find_uses();
  void find_fixed();
  void find_named_buffers();
  void find_tied();
  bool is_of_data(int id) const { return of_data_[id]; }
  void note_use(const OnnxNode& node, std::size_t input, Use& use);
  void mark_needed();
  std::vector<std::string> unneeded_nodes() const;
  void find_targets();
  bool is_output(int id) const;
  void bind_inputs();
  void make_input(int id);
  bool is_parameter(int initializer) const;
  bool try_fold(const OnnxNode& node);
  ConstantRef constant_of(int id);  // nullptr: it depends on data or parameters
  std::string parameter_name(int initializer);
  int take_name(std::string_view name);
  TensorId parameter(int initializer, bool transposed);
  bool is_merged(int initializer);
  const std::string& module_now() const;
  const std::string& reader() const;  // the module of the node that runs
  TensorId constant_tensor(const OnnxConstant& constant);
  TensorId shrunk_constant(const OnnxConstant& constant);
  const Dims& dims_of(int id);
  TensorId own_tensor(int id);
  TensorId tensor(int id);        // as it is: dims that are repeated may have one element
  TensorId full_tensor(int id);   // of all its dims
  TensorId beside_data(int id);   // with a row for every sample
  TensorId finer_tensor(int id);  // in dims of which its own are products
  TensorId rows(int id);          // the same, but for the last dim
  void set_finer(const OnnxNode& node, TensorId finer, Dims dims);
  std::size_t batch_axis(int id) const;
  TensorId repeated(TensorId x, const Dims& dims, std::size_t batch_axis = 0);
  TensorId ones_of_batch(std::size_t dims, DType type, std::size_t axis = 0);
  void hold(Value& v, DType type);  // elements of that type
  void set(const OnnxNode& node, TensorId tensor, Dims dims, std::size_t output = 0);
  void set(const OnnxNode& node, TensorId tensor) { set(node, tensor, shape_dims(tensor)); }
  void pass_on(const OnnxNode& node, std::size_t input = 0);
  Dims shape_dims(TensorId tensor) const;
  bool has_input(const OnnxNode& node, std::size_t i) const {
    return i < node.inputs.size() && node.inputs[i] != kNoOnnxValue;
  }
  int in(const OnnxNode& node, std::size_t i) const;
  bool reads_output(const OnnxNode& node, std::size_t i) const;
  static void check_dims(const Dims& dims);  // throws where a graph has not so many
  const OnnxConstant& constant_in(const OnnxNode& node, std::size_t i);
  FoldInputs constants_behind(const OnnxNode& node, std::size_t first);
  Dims axes_in(const OnnxNode& node, std::size_t i);
  Dims reduced_axes(const OnnxNode& node, std::size_t dims);
  std::optional<double> scalar(int id);  // a constant of one value
  static const std::string& module(const OnnxNode& node);
  TensorId finish_loss();
  TensorId loss_on(const Target& target);

  using Handler = void (OnnxImporter::*)(const OnnxNode& node);
  // node_handlers.cpp
  static const std::unordered_map<std::string_view, Handler>& handlers();
  static std::string reason_against(std::string_view op);
  void run_node(const OnnxNode& node);
  bool is_unread(const OnnxNode& node);
  bool is_unread(int id) const;
  void pass_input(const OnnxNode& node) { pass_on(node); }

  // import_branches.cpp
  bool is_batch_size(int id, std::int64_t dim) const;
  void give_shape(const OnnxNode& node);
  void pass_batch_size_on(const OnnxNode& node, FoldInputs inputs);
  bool is_taken(const OnnxNode& node);
  void take_branch(const OnnxNode& node);

  // import_masks.cpp
  struct MaskAlone;
  InputUse use_of_input(int input) const;
  void find_masks();
  bool is_masked(int id) const { return values_[id].ones != nullptr; }
  bool follow_mask(const OnnxNode& node);
  bool move_mask(const OnnxNode& node, int from);
  TensorId chosen(int id);
  void choose(const OnnxNode& node);

  // import_scatters.cpp
  static std::optional<Box> box_of(const Numbered<std::int64_t>& sources, const Dims& dims);
  TensorId with_box(const OnnxNode& node, TensorId x, TensorId update, const Box& box, bool adds);
  TensorId with_elements(const OnnxNode& node, TensorId x, TensorId update,
                         const Numbered<std::int64_t>& sources, bool of_data, bool adds);
  TensorId with_rows(const OnnxNode& node, TensorId x, TensorId update, const OnnxConstant& places,
                     bool adds);
  static bool adds_up(const OnnxNode& node);
  void scatter(const OnnxNode& node);
  void scatter_rows(const OnnxNode& node, bool adds);
  void scatter_elements(const OnnxNode& node, bool adds);

  // import_integers.cpp
  bool is_whole(int id) { return !is_floating(type_of(id)); }
  void set_condition(const OnnxNode& node, TensorId tensor, Dims dims, bool holds = true);
  void compare(const OnnxNode& node);
  void is_nan(const OnnxNode& node);
  void logical(const OnnxNode& node);
  void integer_binary(const OnnxNode& node);
  void least_or_largest(const OnnxNode& node);
  void one_hot(const OnnxNode& node);
  void argmax(const OnnxNode& node);
  void cast_mask(const OnnxNode& node, OnnxType to);
  TensorId with_last(const OnnxNode& node, TensorId x, std::size_t axis);
  TensorId with_last_at(const OnnxNode& node, TensorId x, std::size_t axis);
  void topk(const OnnxNode& node);

  // import_gathers.cpp
  void look_up(const OnnxNode& node, int table, int indices, Dims to);
  void gather_elements(const OnnxNode& node);
  void gather_nd(const OnnxNode& node);
  const OnnxNode* maker_of(int id) const;
  int row_of_sample(const OnnxNode& node);
  bool gather_by_sample(const OnnxNode& node);
  TensorId taken(const OnnxNode& node, TensorId x, std::size_t axis, const OnnxConstant& at);
  ConstantRef places_of(const OnnxConstant& tuples, const Dims& dims, int batch_of);
  bool gather_places(const OnnxNode& node);
  std::pair<int, std::int64_t> flat_index(int id);
  bool gather_flat(const OnnxNode& node);
  void rows_of_samples(const OnnxNode& node, TensorId x, TensorId index, const Dims& to);

  // import_elementwise.cpp
  void binary(const OnnxNode& node);
  void with_scalar(const OnnxNode& node, int x, double number, bool first);
  void unary(const OnnxNode& node);
  void gelu(const OnnxNode& node);
  void clip(const OnnxNode& node);
  void where(const OnnxNode& node);
  void cast(const OnnxNode& node);
  OnnxType type_of(int id);
  static OnnxType type_of(DType type);
  void dropout(const OnnxNode& node);
  void reduce(const OnnxNode& node);
  bool is_batch(int id, std::size_t axis) const;
  bool has_batch(int id, std::size_t axis, const Dims& dims) const;
  void softmax(const OnnxNode& node);
  TensorId extreme_of(const OnnxNode& node, TensorId x, std::size_t axis, bool least);
  void extreme(const OnnxNode& node);
  void log_of_sum(const OnnxNode& node);
  void cumsum(const OnnxNode& node);

  // import_activations.cpp, import_attention.cpp
  void bent(const OnnxNode& node);
  void hard(const OnnxNode& node);
  void of_size(const OnnxNode& node);
  TensorId size_of(const OnnxNode& node, TensorId x);
  void attention(const OnnxNode& node);
  TensorId as_scores(int id);
  TensorId for_each_head(const OnnxNode& node, TensorId x, std::int64_t heads);

  // import_einsum.cpp
  struct Lettered {
    TensorId tensor;
    std::string letters;  // of its dims
  };
  TensorId summed_out(const OnnxNode& node, TensorId x, std::string& letters,
                      const std::string& others);
  TensorId product_of(const OnnxNode& node, const Lettered& first, const Lettered& second,
                      const std::string& result, const std::map<char, std::int64_t>& sizes);
  void einsum(const OnnxNode& node);
  TensorId in_order(const OnnxNode& node, TensorId x, const std::string& from,
                    const std::string& to);

  // import_products.cpp
  void matmul(const OnnxNode& node);
  void gemm(const OnnxNode& node);
  void gemm_of_data(const OnnxNode& node);
  void batched(const OnnxNode& node);
  void with_vector(const OnnxNode& node);
  void norm(const OnnxNode& node);
  void norm_in_steps(const OnnxNode& node, std::size_t axis);
  bool is_own(int id);
  void linear(const OnnxNode& node, TensorId x, int initializer, bool transposed, Dims dims);
  std::pair<TensorId, const OnnxNode*> bias_behind(const OnnxNode& node, std::int64_t features);

  // import_images.cpp
  TensorId convolution_bias(const OnnxNode& node);
  void convolution(const OnnxNode& node);
  void transposed_convolution(const OnnxNode& node);
  void pool(const OnnxNode& node);
  TensorId pooled(const OnnxNode& node, TensorId x, const Windows& how);
  TensorId padded_for_largest(const OnnxNode& node, TensorId x, HeightWidth before,
                              HeightWidth behind);
  void global_pool(const OnnxNode& node);
  TensorId as_image(const OnnxNode& node, int id);
  void set_image(const OnnxNode& node, TensorId y, std::size_t dims);
  void batch_norm(const OnnxNode& node);
  RunningMoments running_moments(const OnnxNode& node, const Dims& dims);
  void norm_of_groups(const OnnxNode& node, std::int64_t groups);
  void instance_norm(const OnnxNode& node);
  void group_norm(const OnnxNode& node);
  void resize(const OnnxNode& node);

  // import_volumes.cpp
  TensorId stacked_frames(const OnnxNode& node, TensorId x, const DepthWindows& depth,
                          const Dims& w);
  TensorId every_frame(const OnnxNode& node, TensorId x, std::int64_t first, std::int64_t count,
                       std::int64_t step);
  TensorId stacked_weight(const OnnxNode& node, TensorId weight);
  TensorId frames_in_order(const OnnxNode& node, TensorId y, std::int64_t samples);
  void transposed_volumes(const OnnxNode& node, const Windows& how);
  void pool_volumes(const OnnxNode& node, const Windows& how);
  void resize_volumes(const OnnxNode& node, const Dims& to, bool linear, bool aligned);

  // import_padding.cpp
  void pad(const OnnxNode& node);
  TensorId padded(const OnnxNode& node, TensorId x, int dim, std::int64_t before,
                  std::int64_t behind);

  // import_recurrent.cpp
  struct Recurrence;
  void recurrent(const OnnxNode& node);
  void check_recurrence(const OnnxNode& node);
  void check_whole_weights(const OnnxNode& node, std::size_t input);
  TensorId state_before(const OnnxNode& node, std::size_t input, std::int64_t direction,
                        const Dims& dims);

  // import_movement.cpp
  void reshape(const OnnxNode& node);
  void depth_and_space(const OnnxNode& node);
  void transpose(const OnnxNode& node);
  void transpose_groups(const OnnxNode& node, const Dims& order, const Dims& to);
  void concat(const OnnxNode& node);
  void split(const OnnxNode& node);
  void split_to_sequence(const OnnxNode& node);
  void sequence_at(const OnnxNode& node);
  void slice(const OnnxNode& node);
  void gather(const OnnxNode& node);
  void look_up_along(const OnnxNode& node, std::size_t axis, const Dims& to);
  void gather_rows(const OnnxNode& node);
  void expand(const OnnxNode& node);
  TensorId viewed(const OnnxNode& node, TensorId x, const Dims& dims);
  TensorId stepped(const OnnxNode& node, TensorId x, int dim, std::int64_t begin,
                   std::int64_t count, std::int64_t step);

  const ModelConfig& config_;
  const BuildOptions& options_;
  const OnnxModel& model_;
  GraphBuilder graph_;
  Numbered<Value> values_;  // [value]
  Numbered<Use> uses_;      // [initializer]
  Numbered<bool> of_data_;  // [value]: depends on what inputs hold
  Numbered<bool> needed_;   // [node]: the output depends on it
  Numbered<boost::container::small_vector<int, 2>> readers_;  // [value]: nodes
  Numbered<bool> merged_;                                     // [node]: done with one before it
  const Numbered<Dims>* wider_;
  const Reads* known_;
  std::size_t now_ = 0;  // the node that runs; behind the last the loss
  Numbered<boost::container::small_vector<int, 4>> operands_;  // [node]: values that its ops read
  Numbered<std::size_t> made_by_;  // [value]: the node whose ops make it, or kNobody
  std::vector<Target> targets_;
  std::map<int, Sequence> sequences_;  // by value
  Numbered<TensorId> parameters_;      // [initializer]: that are not merged
  std::map<std::pair<int, std::string>, TensorId> merged_parameters_;  // by initializer and module
  // Constants of which some elements follow from how large the batch is: ones mark those.
  std::unordered_map<int, ConstantRef> of_batch_size_;
  bool has_branches_ = false;
  std::vector<OnnxWeight> weights_;
  NameTable names_;                    // of parameters -> weights_
  std::unordered_map<int, int> next_;  // weights whose names others wanted -> the next number
  TensorId ones_ = kNoIndex;
  int constants_ = 0;
};

/// Dims as the graph has them: at least one.
Shape graph_shape(const std::vector<std::int64_t>& dims);

}  // namespace trainyard
