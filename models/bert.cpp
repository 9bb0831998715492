// BERT and RoBERTa: post-LN encoder trained by masked tokens and, for BERT where asked, by next
// sentence (Devlin et al. 2019, Liu et al. 2019; Hugging Face's BertForPreTraining and
// RobertaForMaskedLM). RoBERTa is BERT with one token type and positions that start at 2, which is
// why its table of 514 rows serves sequences of 512; the data loader makes the positions.
#include "models/blocks.h"
#include "models/families.h"

namespace trainyard {

namespace {

TensorId bert_embedding(ModelBuilder& m, TensorId table) {
  const ModelConfig& config = m.config;
  const TensorId tokens = token_input(m, "tokens", config.seq_len);
  const TensorId types = token_input(m, "token_types", config.seq_len);
  const TensorId positions = token_input(m, "positions", config.seq_len);
  TensorId x = m.graph.embedding("embedding.tokens", tokens, table);
  x = m.graph.add("embedding", x,
                  small_embedding(m, "embedding.token_types", types, config.token_types));
  x = m.graph.add("embedding", x,
                  small_embedding(m, "embedding.positions", positions, config.max_positions));
  x = m.graph.layer_norm("embedding.norm", x);
  return m.graph.dropout("embedding", x, m.options.dropout);
}

TensorId bert_layer(ModelBuilder& m, const std::string& layer, TensorId x, TensorId mask) {
  TensorId h = self_attention(m, layer + ".attention", x, {.mask = mask});
  x = add_residual(m, layer, layer + ".attention", x, h);
  x = m.graph.layer_norm(layer + ".norm_1", x);

  m.graph.next_sublayer();
  h = mlp(m, layer + ".mlp", x);
  x = add_residual(m, layer, layer + ".mlp", x, h);
  return m.graph.layer_norm(layer + ".norm_2", x);
}

/// BERT's head activates as its MLPs do, RoBERTa's by exact gelu whatever those do (Hugging Face's
/// BertPredictionHeadTransform and RobertaLMHead). Beside a gated MLP, which neither has, gelu too.
TensorId head_activation(ModelBuilder& m, TensorId x) {
  const bool is_roberta = m.config.token_types == 1;
  const Activation activation = is_roberta ? Activation::kGelu : m.config.activation;
  const OpKind kind = activation == Activation::kRelu ? OpKind::kRelu : OpKind::kGelu;
  return m.graph.activation("mlm_head", kind, x, activation == Activation::kGeluTanh);
}

TensorId masked_token_loss(ModelBuilder& m, TensorId x, TensorId tokens) {
  const ModelConfig& config = m.config;
  const TensorId table = output_table(m, "mlm_head.weight", tokens);
  m.graph.set_head(true);
  x = m.graph.linear("mlm_head.dense", x, config.hidden, /*bias=*/true, SplitHint::kNone);
  x = head_activation(m, x);
  x = m.graph.layer_norm("mlm_head.norm", x);
  const TensorId bias =
      m.graph.parameter("mlm_head.bias", {config.vocab}, SplitHint::kVocabulary,
                        /*decay=*/false, config.pad_vocab_to, {.init = Init::kZeros});
  m.graph.set_head(false);
  const TensorId logits = m.graph.lm_head("mlm_head", x, table, bias);
  return m.graph.cross_entropy("loss", logits, token_input(m, "labels", config.seq_len),
                               config.vocab);
}

/// The pooler belongs to the base model, the classifier over it to the training head.
TensorId next_sentence_loss(ModelBuilder& m, TensorId x) {
  x = m.graph.select_first("pooler", x);
  x = m.graph.linear("pooler", x, m.config.hidden, /*bias=*/true, SplitHint::kNone);
  x = m.graph.activation("pooler", OpKind::kTanh, x);
  m.graph.set_head(true);
  x = m.graph.linear("next_sentence_head", x, 2, /*bias=*/true, SplitHint::kNone);
  m.graph.set_head(false);
  const TensorId labels =
      m.graph.input("next_sentence_labels", {m.options.microbatch}, DType::kInt64);
  return m.graph.cross_entropy("next_sentence_loss", x, labels);
}

}  // namespace

Graph build_bert(const ModelConfig& config, const BuildOptions& options) {
  ModelBuilder m(config, options);
  const TensorId table = vocabulary_table(m, "embedding.tokens.weight");
  TensorId x = bert_embedding(m, table);
  const TensorId mask = m.graph.input("mask", {options.microbatch, config.seq_len}, DType::kUint8);
  for (std::int32_t i = 0; i < config.layers; ++i) {
    m.graph.set_layer(i);
    x = bert_layer(m, "encoder.layers." + std::to_string(i), x, mask);
  }
  m.graph.set_layer(-1);
  TensorId loss = masked_token_loss(m, x, table);
  if (config.next_sentence) {
    loss = m.graph.add("loss", loss, next_sentence_loss(m, x));
  } else {
    m.graph.unused_parameter("pooler.weight", {config.hidden, config.hidden});
    m.graph.unused_parameter("pooler.bias", {config.hidden});
  }
  return m.graph.finish(loss);
}

}  // namespace trainyard
