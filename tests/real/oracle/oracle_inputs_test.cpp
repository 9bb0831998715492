// Our half of tests/oracle/train.py and train_16_bit.py, which are run by hand and explain
// themselves.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/base/indexed.h"
#include "real/checkpoint/checkpoint.h"
#include "real/checkpoint/checkpoint_writer.h"
#include "real/checkpoint/hugging_face_names.h"
#include "real/checkpoint/save_hugging_face.h"
#include "real/checkpoint/stored_weights.h"
#include "real/data/samples.h"
#include "tests/real/loopback_run.h"
#include "tests/real/oracle/oracle_studies.h"

namespace trainyard::oracle_inputs_test {

namespace {

/// The weights as a checkpoint under `folder`/ours, and as a model of transformers under
/// `folder`/theirs.
void save_weights(const std::map<std::string, std::vector<double>>& weights,
                  const std::vector<HuggingFaceWeight>& names, const ModelConfig& model,
                  const std::string& folder) {
  std::map<std::string, Piece> pieces;
  for (const HuggingFaceWeight& weight : names) {
    pieces.emplace(weight.ours, whole_tensor(weight.ours, DType::kFp32, weight.shape));
  }
  std::vector<Piece> all;
  for (const auto& [name, piece] : pieces) all.push_back(piece);
  begin_checkpoint(folder + "/ours", 0);
  ShardWriter shard(folder + "/ours", 0, 0, all);
  while (const Piece* piece = shard.next()) {
    const std::vector<double>& values = weights.at(piece->tensor);
    const std::vector<float> fp32(values.begin(), values.end());
    shard.append(std::as_bytes(std::span(fp32)));
  }
  commit_checkpoint(folder + "/ours", {}, std::vector{shard.finish()}, 1);
  const Checkpoint ours =
      Checkpoint::open(latest_complete(folder + "/ours").value(), Verify::kChecksums);
  save_hugging_face(ours, model, folder + "/theirs", DType::kFp32);
}

nlohmann::json to_json(const std::vector<HuggingFaceWeight>& names) {
  auto out = nlohmann::json::array();
  for (const HuggingFaceWeight& weight : names) {
    std::vector<std::int64_t> our_rows;
    for (std::int64_t held = 0; held < held_rows(weight); ++held)
      our_rows.push_back(our_row(weight, held));
    out.push_back({{"ours", weight.ours},
                   {"our_rows", our_rows},
                   {"part", weight.part.which},
                   {"parts", weight.part.of},
                   {"theirs", weight.theirs},
                   {"transposed", weight.transposed},
                   {"first_row", weight.first_row},
                   {"rows", held_rows(weight)},
                   {"stacked", weight.rows},
                   {"run", weight.run},
                   {"stride", weight.stride}});
  }
  return out;
}

/// Names of a model that plain_models.py has: ours.
std::vector<HuggingFaceWeight> own_names(const Graph& model) {
  std::vector<HuggingFaceWeight> names;
  for (const StoredWeight& weight : stored_weights(model))
    names.push_back({.ours = weight.name,
                     .shape = weight.shape,
                     .theirs = weight.name,
                     .rows = weight.shape.front(),
                     .their_shape = weight.dims});
  return names;
}

/// What plain_models.py makes the model of.
nlohmann::json plain_model(const std::map<std::string, std::vector<double>>& weights,
                           const std::vector<HuggingFaceWeight>& names, const ModelConfig& model) {
  nlohmann::json out = {{"family", to_string(model.family)},
                        {"norm_eps", model.norm_eps},
                        {"heads", model.heads},
                        {"groups", model.groups},
                        {"image_heads", model.image_heads},
                        {"contrast", model.contrast}};
  for (const HuggingFaceWeight& weight : names)
    out["weights"][weight.ours] = {{"shape", weight.their_shape},
                                   {"values", weights.at(weight.ours)}};
  return out;
}

/// By name of the input, then sample after sample of the whole training.
nlohmann::json inputs_of(const Study& study, const Graph& model) {
  const std::unique_ptr<Samples> samples = make_samples(study);
  nlohmann::json out;
  for (const Tensor& input : model.tensors) {
    if (input.role != TensorRole::kInput || model.constants.contains(input.name)) continue;
    const std::int64_t length = num_elements(input.shape) / input.shape.front();
    auto& list = out[input.name] = nlohmann::json::array();
    for (std::int64_t i = 0; i < kOracleSteps * study.training.global_batch; ++i) {
      if (is_integer(input.dtype)) {
        Numbered<std::int64_t> values(length);
        samples->fill(input.name, i, values);
        list.push_back(std::vector(values.begin(), values.end()));
      } else {
        Numbered<float> values(length);
        samples->fill_numbers(input.name, i, values);
        list.push_back(std::vector(values.begin(), values.end()));
      }
    }
  }
  return out;
}

nlohmann::json to_json(const TrainingConfig& training) {
  return {{"optimizer", training.optimizer == Optimizer::kSgd ? "sgd" : "adamw"},
          {"lr",
           {{"peak", training.lr.peak},
            {"schedule", training.lr.schedule},
            {"warmup", training.lr.warmup}}},
          {"betas", training.betas},
          {"eps", training.eps},
          {"weight_decay", training.weight_decay},
          {"clip_norm", training.clip_norm}};
}

}  // namespace

TEST_CASE("weights and inputs for PyTorch", "[.oracle-inputs]") {
  const char* root = std::getenv("TRAINYARD_ORACLE");
  REQUIRE(root != nullptr);
  for (const OracleStudy& oracle : oracle_studies()) {
    const std::string folder = std::string(root) + "/" + oracle.name;
    const LoopbackRun run = run_loopback(oracle.yaml, {}, {.steps = 0, .noise = kOracleNoise});
    const Prepared prepared = prepare_text(oracle.yaml, {});
    const ModelConfig& model = prepared.study.model;
    const std::vector<HuggingFaceWeight> names =
        oracle.plain ? own_names(prepared.model)
                     : hugging_face_weights(hugging_face_type(model), prepared.model);
    std::filesystem::create_directories(folder);
    if (!oracle.plain) save_weights(run.weights, names, model, folder);

    nlohmann::json json = {{"steps", kOracleSteps},
                           {"global_batch", prepared.study.training.global_batch},
                           {"microbatch", prepared.study.training.microbatch},
                           {"in_16_bit", short_precisions(oracle)},
                           {"names", to_json(names)},
                           {"inputs", inputs_of(prepared.study, prepared.model)}};
    if (oracle.plain) json["plain"] = plain_model(run.weights, names, model);
    for (const OracleTraining& training : oracle_trainings(oracle)) {
      json["trainings"][training.name] =
          to_json(prepare_text(oracle.yaml, training.sets).study.training);
    }
    std::ofstream(folder + "/inputs.json") << json << "\n";
  }
}

}  // namespace trainyard::oracle_inputs_test
