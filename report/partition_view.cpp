#include "report/partition_view.h"

#include <nlohmann/json.hpp>

#include "study/study_origin.h"

namespace trainyard {

PartitionView partition_view(const Program& program, const Costs& costs, const PassLog& log,
                             const Study& study) {
  PartitionView out;
  const auto origin = study.origins.find("partition");
  out.chosen = to_string(origin != study.origins.end() ? origin->second : default_origin());
  out.planned = study.planned;
  out.stages = stage_rows(program, costs, log, study);
  out.modules = module_rows(program, costs, std::ssize(out.stages));
  return out;
}

void add_json(const PartitionView& view, nlohmann::ordered_json& out) {
  out["partition"] = {{"chosen", view.chosen}, {"modules", modules_json(view.modules)}};
  out["stages"] = stages_json(view.stages);
  if (!view.planned.empty()) out["planned"] = view.planned;
}

}  // namespace trainyard
