// `zero:` of study.resolved.yaml.
#include <string>

#include "engine/base/format.h"
#include "engine/base/user_text.h"
#include "study/resolved_text.h"
#include "study/study_words.h"

namespace trainyard {

void write_zero(ResolvedText& out, const ZeroConfig& zero) {
  out.open("zero");
  out.integer("stage", zero.stage);
  if (zero.stage > 0) {
    const bool rows = zero.by == ZeroConfig::By::kRows;
    out.text("by", kZeroByWords[rows ? ZeroConfig::By::kShard : zero.by]);
    if (zero.replicate > 1) out.integer("replicate", zero.replicate);
    if (zero.offload != ZeroConfig::Offload{})
      out.line("offload",
               format("{optimizer: %s, parameters: %s}", kPlaceWords[zero.offload.optimizer].data(),
                      kPlaceWords[zero.offload.parameters].data()));
  }
  if (zero.reduces_whole_each) out.text("reduce", kZeroReduceWords[zero.reduce]);
  if (zero.stage > 1) {
    out.text("reduce", kZeroReduceWords[zero.reduce]);
    if (zero.reduce_dtype) out.text("reduce_dtype", to_string(*zero.reduce_dtype));
  }
  if (zero.stage > 2) {
    std::string units;
    for (const std::string& unit : zero.units)
      units += (units.empty() ? "[" : ", ") + yaml_text(unit);
    out.line("units", units.empty() ? std::string(kLayerUnits) : units + "]");
    out.text("layout", kZeroLayoutWords[zero.by == ZeroConfig::By::kRows ? 1 : 0]);
    if (zero.gathers_fp8) {
      out.text("gather_dtype", kFp8GatherWords[1]);
      out.flag("precompute_scales", zero.precomputes_scales);
    }
    out.integer("prefetch", zero.prefetch);
    out.integer("gathers_in_flight", zero.gathers_in_flight);
    if (zero.reshards_to_some()) {
      out.integer("reshard_after_forward", zero.reshard_after_forward);
    } else {
      out.flag("reshard_after_forward", zero.reshard_after_forward != 1);
    }
  }
  out.close();
}

}  // namespace trainyard
