// report.html: one run in one file that needs nothing else, no network either.
//
// A page (page/: HTML, CSS, JavaScript, put into the program when it is built) draws the data that
// stands in it as JSON. Everything comes from the files of the run's folder, so that it can be made
// again.
#pragma once

#include <functional>
#include <string>

#include "report/timeline.h"
#include "report/timeline_blob.h"

namespace trainyard {

/// The texts of a run's files, "" where there is none.
struct RunFiles {
  std::string folder;   // for messages
  std::string study;    // study.resolved.yaml
  std::string summary;  // summary.json
  std::string losses;   // losses.csv, of a training run
};

/// The whole page, at most kMaxReportBytes: what is too much is left out, and the page says so. Its
/// data: {version, kind, title, plan, device, summary, study_text, timeline, time_by_rank, losses}.
/// `timeline` may be nullptr: of a training run that has not come to its last step. Throws
/// ConfigError for what is wrong in the files.
std::string report_html(const RunFiles& files, const Timeline* timeline);

inline constexpr std::size_t kMaxReportBytes = 10'000'000;

/// The page that `make` makes of timelines as large as the limits allow, with less of them until it
/// is no larger than kMaxReportBytes.
std::string page_within_limit(const std::function<std::string(const TimelineLimits&)>& make,
                              TimelineLimits limits = {});

}  // namespace trainyard
