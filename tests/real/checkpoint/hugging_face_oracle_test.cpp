// Our half of tests/oracle/hugging_face_names.py, which is run by hand and explains itself.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "models/hugging_face.h"
#include "models/model.h"
#include "real/checkpoint/checkpoint_writer.h"
#include "real/checkpoint/hugging_face_names.h"
#include "real/checkpoint/hugging_face_weights.h"
#include "real/checkpoint/save_hugging_face.h"
#include "real/checkpoint/stored_weights.h"
#include "tests/real/checkpoint/checkpoint_fixture.h"
#include "tests/support/scratch_folder.h"

namespace trainyard::hugging_face_oracle_test {

TEST_CASE("theirs to ours and back, for the oracle", "[.][oracle]") {
  const char* root = std::getenv("TRAINYARD_ORACLE");
  REQUIRE(root != nullptr);
  for (const auto& entry : std::filesystem::directory_iterator(root)) {
    const std::string folder = entry.path().string();
    const std::string config_path = folder + "/theirs/config.json";
    ModelConfig config = read_hugging_face_config(config_path).config;
    const auto json = nlohmann::json::parse(read_text(config_path));
    config.next_sentence = json.at("architectures")[0] == "BertForPreTraining";

    const HuggingFaceWeights theirs = HuggingFaceWeights::open(folder + "/theirs", config);
    std::vector<Piece> pieces;
    for (const StoredWeight& weight : stored_weights(graph_of_weights(config))) {
      pieces.push_back(whole_tensor(weight.name, DType::kFp32, weight.shape));
    }
    begin_checkpoint(folder + "/ours", 1);
    ShardWriter shard(folder + "/ours", 1, 0, pieces);
    while (const Piece* piece = shard.next()) {
      std::vector<std::byte> bytes(static_cast<std::size_t>(num_bytes(*piece)));
      theirs.read(*piece, bytes);
      shard.append(bytes);
    }
    commit_checkpoint(folder + "/ours", at_step(1), std::vector{shard.finish()}, 1);
    const Checkpoint ours =
        Checkpoint::open(latest_complete(folder + "/ours").value(), Verify::kChecksums);
    save_hugging_face(ours, config, folder + "/again", DType::kFp32);
  }
}

}  // namespace trainyard::hugging_face_oracle_test
