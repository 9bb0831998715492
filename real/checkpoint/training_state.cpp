#include "real/checkpoint/training_state.h"

#include "engine/base/error.h"
#include "engine/base/json_fields.h"

namespace trainyard {

namespace {

constexpr double kLargestScale = 0x1p127;  // the next power of two is no float

/// An object of texts; none where it is missing.
std::map<std::string, std::string> read_texts(const JsonFields& fields, const std::string& key) {
  std::map<std::string, std::string> out;
  if (!fields.has(key)) return out;
  const JsonFields texts = fields.object(key);
  for (const auto& [name, value] : texts.json().items()) out.emplace(name, texts.text(name));
  return out;
}

}  // namespace

std::string training_state_json(const TrainingState& state) {
  return nlohmann::json{{"updates", state.updates},       {"loss_scale", state.loss_scale},
                        {"good_steps", state.good_steps}, {"mask_rule", state.mask_rule},
                        {"trained", state.run.values},    {"files", state.run.contents}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

TrainingState read_training_state(const CheckpointInfo& info, const std::string& index,
                                  const TrainingState& otherwise) {
  // Where it stands in the index, only without the lines.
  const std::string text = "{\"state\":" + info.state + "}";
  const JsonFile file(text, index, JsonFile::Places::kKeys);
  const JsonFields state = JsonFields(file).object("state");
  if (!state.has("updates"))
    state.fail("updates", "missing: the state is not that of a training run");
  TrainingState out = otherwise;
  out.updates = state.integer("updates", 0, info.step);
  if (state.has("loss_scale")) out.loss_scale = state.number("loss_scale");
  if (!(out.loss_scale > 0 && out.loss_scale <= kLargestScale)) {
    state.fail("loss_scale", "expected a number above 0 and at most 2^127, got " +
                                 shorten(*state.find("loss_scale")));
  }
  if (state.has("good_steps")) out.good_steps = state.integer("good_steps", 0, info.step);
  out.mask_rule = state.has("mask_rule") ? state.integer("mask_rule", 1, kMaskRule) : 1;
  out.run = {read_texts(state, "trained"), read_texts(state, "files")};
  // What earlier versions recorded, too.
  out.run.values.emplace("training.seed", std::to_string(info.seed));
  if (info.step > 0)
    out.run.values.emplace("training.global_batch", std::to_string(info.samples / info.step));
  return out;
}

}  // namespace trainyard
