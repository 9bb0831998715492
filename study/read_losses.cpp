// The losses of an imported model: one word, for its first output, or a map of several outputs'.
#include <algorithm>
#include <string>
#include <vector>

#include "engine/base/user_text.h"
#include "models/onnx/onnx_model.h"
#include "study/study_keys.h"
#include "study/study_parts.h"
#include "study/study_words.h"

namespace trainyard {

void read_losses(Section& section, ModelConfig& model) {
  const auto node = section.given("loss");
  if (!node) return section.read(*find_key(model_keys(), "loss"));
  if (!node->is_map()) {
    model.loss = static_cast<ImportedLoss>(read_word(*node, "loss", kImportedLossWords));
    return;
  }
  std::vector<std::string> outputs;
  for (const int id : model.onnx->outputs) outputs.push_back(model.onnx->values[id]);
  for (const std::string& name : node->keys()) {
    Section entry(section.draft(), section.key_path("loss") + "." + name, node->at(name),
                  loss_keys());
    entry.refuse_unknown();
    if (std::find(outputs.begin(), outputs.end(), name) == outputs.end())
      node->at(name).fail("expected an output of the file: " + join_words(outputs));
    OutputLoss& loss = model.losses[name];
    loss.kind =
        static_cast<ImportedLoss>(read_word(entry.required("kind"), "kind", kImportedLossWords));
    entry.number("weight", loss.weight);
    if (const auto divisor = entry.given("divisor"))
      loss.divisor = static_cast<LossDivisor>(read_word(*divisor, "divisor", kLossDivisorWords));
    entry.finish();
  }
  if (model.losses.empty()) node->fail("expected a loss of at least one output");
}

}  // namespace trainyard
