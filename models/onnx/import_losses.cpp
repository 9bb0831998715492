// The losses that a study asks for, on outputs of the file.
#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/user_text.h"
#include "engine/graph/general_shapes.h"
#include "models/onnx/importer.h"

namespace trainyard {

/// The study's losses by output, or one on the first.
void OnnxImporter::find_targets() {
  if (config_.losses.empty())
    targets_.push_back(
        {model_.outputs.front(), {config_.loss, 1, LossDivisor::kElements}, "labels"});
  for (const auto& named : config_.losses) {
    const std::string& name = named.first;
    const auto at = std::find_if(model_.outputs.begin(), model_.outputs.end(),
                                 [&](int id) { return model_.values[id] == name; });
    if (at == model_.outputs.end())
      throw ConfigError(SourcePos{model_.file}, "",
                        "model.loss names " + in_quotes(name) + ", which is no output of it");
    targets_.push_back({*at, named.second, "labels." + name});
  }
}

bool OnnxImporter::is_output(int id) const {
  return std::any_of(targets_.begin(), targets_.end(),
                     [&](const Target& target) { return target.output == id; });
}

TensorId OnnxImporter::finish_loss() {
  TensorId all = kNoIndex;
  for (const Target& target : targets_) {
    const TensorId one = loss_on(target);
    all = all == kNoIndex ? one : graph_.add("loss", all, one);
  }
  return all;
}

TensorId OnnxImporter::loss_on(const Target& target) {
  const std::string& name = model_.values[target.output];
  const auto refuse = [&](const std::string& problem) {
    throw ConfigError({}, target.labels == "labels" ? "model.loss" : "model.loss." + name,
                      "output " + in_quotes(name) + " of " + model_.file + problem);
  };
  if (value(target.output).kind != Value::Kind::kTensor) refuse(" depends on no data");
  TensorId logits = full_tensor(target.output);
  if (is_integer(graph_.type(logits))) refuse(" is of integers or conditions, which have no loss");
  Shape labels = graph_.shape(logits);
  const std::string where = target.labels == "labels" ? "loss" : "loss." + name;
  const auto weight = [&] {
    const std::int64_t of_sample = num_elements(labels) / labels[0];
    return target.loss.weight *
           static_cast<double>(target.loss.divisor == LossDivisor::kSamples ? of_sample : 1);
  };
  if (target.loss.kind != ImportedLoss::kCrossEntropy) {
    const bool binary = target.loss.kind == ImportedLoss::kBinaryCrossEntropy;
    const TensorId targets = graph_.input(target.labels, labels, options_.compute);
    return binary ? graph_.bce(where, logits, targets, weight())
                  : graph_.mse(where, logits, targets, weight());
  }
  if (labels.size() > 3) {  // of images: classes are channels
    DimList order{0};
    for (int d = 2; d < static_cast<int>(labels.size()); ++d) order.push_back(d);
    order.push_back(1);
    logits = graph_.permute(where, logits, order);
    labels = graph_.shape(logits);
  }
  if (labels.size() < 2 || labels.back() == 1)
    refuse(" has one number for each label, " + to_text(graph_.shape(logits)) +
           ", where a cross entropy tells classes apart; say binary_cross_entropy or mean_square");
  labels.pop_back();
  return graph_.cross_entropy(where, logits, graph_.input(target.labels, labels, DType::kInt64), 0,
                              weight());
}

}  // namespace trainyard
