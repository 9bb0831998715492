// A model's architecture as numbers: what a study's `model:` block, a named preset or a Hugging
// Face config.json comes down to. models/ turns it into a Graph.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

enum class Family : std::uint8_t {
  kGpt,
  kBert,
  kT5,
  kLlama,
  kVit,
  kResnet,
  kVgg,
  kDensenet,
  kSwin,
  kUnet,
  kNcf,
  kMamba2,
  kClip,
  kOnnx
};
struct OnnxModel;  // models/onnx/onnx_model.h

enum class Activation : std::uint8_t {
  kGelu,      // f(x W1) W2
  kGeluTanh,  // the same with the tanh approximation (GPT-2's gelu_new)
  kRelu,      // T5 1.0
  kSwiglu,    // (silu(x Wg) * x Wu) Wd: two input projections
  kGeglu,     // (gelu(x Wg) * x Wu) Wd: T5 1.1
};

/// How a gpt knows where a token stands. llama's are rotary; bert and t5 have their own.
enum class Positions : std::uint8_t {
  kLearned,     // a table, added to the embedding
  kRotary,      // turns q and k (Su et al. 2021)
  kAlibi,       // scores less a slope per head times the distance (Press et al. 2021)
  kScaledAlibi  // the same before scores are divided by sqrt(head_dim): Falcon's
};

/// What a gpt's MLP reads.
enum class Residual : std::uint8_t {
  kSequential,      // the sum that attention was added to
  kParallel,        // what attention reads, by a norm of its own: GPT-NeoX
  kParallelOneNorm  // the same by the same norm: Falcon 7B
};

std::string_view to_string(Family family);          // gpt, bert, t5, llama, vit, ...
std::string_view to_string(Activation activation);  // gelu, gelu-tanh, relu, swiglu, geglu

/// Families that read and predict tokens.
bool is_of_text(Family family);
/// Those of them in which tokens attend to each other.
bool is_transformer_of_text(Family family);
/// Families that classify images, or each pixel of them.
bool is_of_images(Family family);
/// Those of them that are made of convolutions alone: nothing in them attends.
bool is_convolutional(Family family);
/// Those of them that come in depths, each with stages of its own.
bool has_named_depths(Family family);
/// Whether the family drops anything out.
bool has_dropout(Family family);
/// Whether the family normalises over samples.
bool has_batch_norm(Family family);

/// What a model's speed is counted in: "tokens/s", or, where a sample is no sequence, "samples/s".
std::string_view speed_unit(Family family);

/// Over which samples batch norms take mean and variance.
enum class BatchNorm : std::uint8_t {
  kReplica,      // those of a microbatch that one replica has: PyTorch's DistributedDataParallel
  kSynchronised  // the whole microbatch, whatever replicas have of it
};

/// A loss on an output of an imported model.
enum class ImportedLoss : std::uint8_t {
  kCrossEntropy,        // classes are the last dim; of images the channels
  kMeanSquare,          // of each element and a target
  kBinaryCrossEntropy,  // of each element, a logit, and a target in 0 to 1
};

/// What a sum over all elements of a step's labels is divided by.
enum class LossDivisor : std::uint8_t { kElements, kSamples };

/// One of several losses that are added up.
struct OutputLoss {
  ImportedLoss kind = ImportedLoss::kCrossEntropy;
  double weight = 1;
  LossDivisor divisor = LossDivisor::kElements;
  friend bool operator==(const OutputLoss&, const OutputLoss&) = default;
};

struct ModelConfig {
  // Compiled once, in model_config.cpp: hundreds of files copy, move and destroy it.
  ModelConfig();
  ModelConfig(const ModelConfig&);
  ModelConfig(ModelConfig&&) noexcept;
  ModelConfig& operator=(const ModelConfig&);
  ModelConfig& operator=(ModelConfig&&) noexcept;
  ~ModelConfig();

  std::string name = "custom";  // preset or file it came from
  Family family = Family::kGpt;
  std::int64_t layers = 0;          // T5: of the encoder
  std::int64_t decoder_layers = 0;  // T5 only, else 0
  std::int64_t hidden = 0;          // swin: of the first stage; unet: channels of the first level
  std::int64_t heads = 0;           // swin: of the first stage
  std::int64_t kv_heads = 0;        // = heads without grouped-query attention
  std::int64_t head_dim = 0;        // hidden / heads unless said (T5: d_kv)
  std::int64_t ffn = 0;             // width of the hidden layer of the MLP
  std::int64_t vocab = 0;
  std::int64_t seq_len = 0;
  std::int64_t decoder_seq_len = 0;   // T5 only, else 0
  std::int64_t max_positions = 0;     // rows of a learned position table; 0: none (T5, Llama)
  std::int64_t token_types = 0;       // BERT 2, RoBERTa 1, else 0
  std::int64_t relative_buckets = 0;  // T5's relative attention bias, else 0
  std::int64_t pad_vocab_to = 0;      // vocabulary after padding; a multiple of parallel.tensor
  Activation activation = Activation::kGelu;
  bool tied_embeddings = true;   // LM head shares the token embedding
  bool linear_bias = true;       // biases of projections and MLP
  bool qkv_bias = true;          // biases of query, key, value (Qwen2: true with linear_bias false)
  bool next_sentence = false;    // BERT: train the pooler and the next-sentence head too
  double norm_eps = 1e-5;        // added to the variance by layer norm and RMS norm
  double rope_base = 10000;      // base of rotary angles; no meaning elsewhere
  bool scaled_attention = true;  // scores over sqrt(head_dim); false: GPT only (T5's never are)
  bool layer_scaled_attention = false;  // GPT: over the layer's number too, the first being 1
  std::int64_t attention_window =
      0;  // tokens that a token attends to, itself among them; 0: all before it
  // Decoders: gpt and llama, or the one that is named.
  std::int64_t window_from = 0;   // the first layer that has the window
  std::int64_t window_cycle = 0;  // the last of so many layers attends to all; 0: none does
  double query_scalar = 0;        // llama: scores are over its root; 0: over that of head_dim
  double score_cap = 0;           // scores s become c tanh(s / c); 0: as they are
  double logit_cap = 0;           // the same of logits
  Positions positions = Positions::kLearned;  // gpt
  std::int64_t position_offset = 0;           // gpt: the table's row of the first token (OPT: 2)
  std::int64_t rotary_dim = 0;                // features of a head that turn; 0: all
  double rope_factor = 1;              // rotary angles are so many times smaller; Llama 3.1: of
  double rope_low = 1, rope_high = 4;  // frequencies that turn less than low times, and in part of
  std::int64_t rope_original = 0;      // less than high, in so many positions; 0: of all
  Residual residual = Residual::kSequential;  // gpt
  bool norm_bias = true;                      // gpt: layer norms add a bias
  bool head_norm = false;                     // llama: RMS norm of each head of q and of k (Qwen 3)
  bool offset_norms = false;                  // llama: norms multiply by 1 + weight (Gemma)
  bool branch_norms = false;      // llama: norms behind attention and MLP, too (Gemma 2)
  bool scaled_embedding = false;  // llama: embeddings times sqrt(hidden) (Gemma)
  // Families of images.
  std::int64_t image_size = 0;  // height and width
  std::int64_t patch_size = 0;  // vit, swin: height and width of a patch
  std::int64_t channels = 0;    // of an image: 3
  std::int64_t classes = 0;
  std::int64_t depth = 0;         // the number in a network's name: resnet 50; unet: levels
  std::int64_t width_factor = 0;  // resnet: times the channels of all layers
  std::int64_t window_size = 0;   // swin: patches that attend to each other, along each dim
  BatchNorm batch_norm = BatchNorm::kReplica;
  // Family ncf, whose hidden is the number of factors.
  std::int64_t users = 0;
  std::int64_t items = 0;
  // Family mamba2.
  std::int64_t groups = 0;      // of heads, each with states written and read alike
  std::int64_t state_size = 0;  // of each channel of a head
  std::int64_t conv_width = 0;  // tokens that the causal convolution sees, the current one included
  std::int64_t expand = 0;      // channels of all heads, times hidden
  std::int64_t chunk_size = 0;  // tokens whose products are taken at once
  // Family clip, whose other numbers are the text tower's.
  std::int64_t image_layers = 0;
  std::int64_t image_hidden = 0;
  std::int64_t image_heads = 0;
  std::int64_t projection_dim = 0;  // of what both towers end in
  std::int64_t contrast = 0;        // samples of a microbatch that are told apart
  // Family onnx.
  std::string onnx_file;                            // its path
  std::shared_ptr<const OnnxModel> onnx;            // as it was read; else nullptr
  std::map<std::string, std::int64_t> axes;         // dims that the file names
  ImportedLoss loss = ImportedLoss::kCrossEntropy;  // of the first output, where `losses` is empty
  std::map<std::string, OutputLoss> losses;         // by output
  bool load_weights = false;                        // training starts with those of the file
  std::string layer_pattern;  // which modules are layers (models/layer_groups.h); "": by their size
  friend bool operator==(const ModelConfig&, const ModelConfig&);
};

/// Blocks of each of a convolutional network's stages of equal image size, by its depth; empty: no
/// network of the family has that depth.
///   resnet    He et al. 2015 (arXiv:1512.03385), table 1
///   vgg       Simonyan and Zisserman 2014 (arXiv:1409.1556), table 1: convolutions
///   densenet  Huang et al. 2016 (arXiv:1608.06993), table 1: dense layers
std::vector<std::int64_t> blocks_by_stage(Family family, std::int64_t depth);
/// The depths that the family's networks have, ascending.
std::vector<std::int64_t> depths_of(Family family);

/// Blocks of each of a Swin Transformer's four stages, each of half the image's size (Liu et al.
/// 2021, arXiv:2103.14030, table 7).
std::vector<std::int64_t> swin_stages(std::int64_t layers);
inline constexpr std::int64_t kLeastSwinLayers = 7;
/// Whether q and k are turned.
bool is_rotary(const ModelConfig& config);
/// Whether `layer` has the attention window, where there is one.
bool has_window(const ModelConfig& config, std::int64_t layer);

/// Layers of the whole model: of encoder and decoder, of both towers.
std::int64_t num_layers(const ModelConfig& config);
/// What a sample counts as in a speed: the tokens of its sequences; 1 where it is none.
std::int64_t tokens_per_sample(const ModelConfig& config);

/// Sets what follows from the size of images, patches and depth: layers, and how many tokens a
/// sample is (a convolutional network's is one, and ncf's).
void set_image_numbers(ModelConfig& config);

}  // namespace trainyard
