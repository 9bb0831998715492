// report.html of validate --run.
#include <nlohmann/json.hpp>

#include "calibrate/validate/run_comparison.h"
#include "report/fill_page.h"
#include "report/report.h"
#include "report/timeline_blob.h"

namespace trainyard {

std::string run_comparison_page(const RunComparison& comparison) {
  TimelineLimits half;  // there are two timelines
  half.max_pattern_ops /= 2;
  half.max_calls /= 2;
  half.max_memory_points = 0;  // memory is the Program's on both sides
  return page_within_limit(
      [&](const TimelineLimits& limits) {
        nlohmann::ordered_json data;
        data["version"] = 1;
        data["kind"] = "compared";
        data["comparison"] = run_comparison_data(comparison);
        data["timeline"] = timeline_blob(comparison.timeline, limits);
        data["simulated"] = timeline_blob(comparison.simulated, limits);
        return fill_page(kRunPage, page_title(comparison.run), data);
      },
      half);
}

}  // namespace trainyard
