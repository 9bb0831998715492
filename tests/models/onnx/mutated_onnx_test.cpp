// Damaged ONNX files: each ends in a message that names the file, or in a graph.
// bench/fuzz_inputs.cpp takes 100,000 of them under the sanitizers.
#include "tests/support/mutated_onnx.h"

#include <catch2/catch.hpp>

#include "engine/base/error.h"
#include "models/model.h"
#include "models/onnx/onnx_graph.h"
#include "tests/support/mutated_text.h"
#include "tests/support/scratch_folder.h"

namespace trainyard::mutated_onnx_test {

TEST_CASE("damaged ONNX files end in a message or in a graph") {
  const std::string folder = TRAINYARD_SOURCE_DIR "/tests/golden/onnx/";
  const std::string files[] = {read_text(folder + "recommender-script.onnx"),
                               read_text(folder + "densenet-script.onnx"),
                               read_text(folder + "recommender-dynamo.onnx")};
  int refused = 0, taken = 0;
  for (std::uint64_t seed = 0; seed < 900; ++seed) {
    CAPTURE(seed);
    try {
      ModelConfig config;
      config.family = Family::kOnnx;
      config.norm_eps = 1e-5;
      if (seed % 3 != 1) config.loss = ImportedLoss::kBinaryCrossEntropy;
      config.onnx =
          parse_onnx(seed / 3 % 2 == 0 ? mutate_onnx(files[seed % 3], seed)
                                       : mutate_text(files[seed % 3], files[seed / 6 % 3], seed),
                     "m.onnx");
      set_onnx_numbers(config);
      build_model(config, {.microbatch = 2});
      ++taken;
    } catch (const ConfigError& error) {
      ++refused;
      const std::string what = error.what();
      CHECK((what.starts_with("m.onnx: ") || what.starts_with("model: ")));
    }
  }
  CHECK(refused > 300);
  CHECK(taken > 30);
}

}  // namespace trainyard::mutated_onnx_test
