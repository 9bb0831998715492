// `trainyard export`: the last checkpoint of a run as a model that Hugging Face's transformers
// loads; of models that it has no class for as their weights alone.
#include <filesystem>

#include "app/commands.h"
#include "app/prepare.h"
#include "engine/base/error.h"
#include "real/checkpoint/checkpoint.h"
#include "real/checkpoint/hugging_face_types.h"
#include "real/checkpoint/save_hugging_face.h"
#include "system/output_folder.h"
#include "system/terminal.h"

namespace trainyard {

int run_export(const ExportOptions& options) {
  const std::optional<DType> precision = parse_dtype(options.precision);
  if (!precision ||
      (*precision != DType::kFp32 && *precision != DType::kFp16 && *precision != DType::kBf16)) {
    throw ConfigError("--precision: expected fp32, fp16 or bf16, got '" + options.precision + "'");
  }
  OutputFolder out(options.out, {"export", options.run}, options.overwrite);
  const std::string folder = options.run + "/checkpoints";
  const std::optional<std::string> latest = latest_complete(folder);
  if (!latest) throw ConfigError(folder + ": no complete checkpoint");
  const Prepared prepared = prepare(options.run + "/study.resolved.yaml", {});
  const Checkpoint checkpoint = Checkpoint::open(*latest, Verify::kChecksums);
  const bool has_class = has_hugging_face_type(prepared.study.model.family);
  if (has_class) {
    save_hugging_face(checkpoint, prepared.study.model, options.out, *precision, out.mark());
  } else {
    save_own_weights(checkpoint, prepared.model, options.out, *precision, out.mark());
  }
  out.commit(files_of("export"));
  if (has_class) print_warnings(notes_on_reading(prepared.study.model));
  print_text(options.out +
             (has_class ? ": config.json and model.safetensors of step "
                        : ": model.safetensors of step ") +
             std::to_string(checkpoint.info().step) + "\n");
  return kDone;
}

}  // namespace trainyard
