// The pages of report.html, as the build made them from page/ and sweep_page/ (page/embed_page.cmake).
#pragma once

#include <span>
#include <string_view>

namespace trainyard {

/// A stretch of the page: text as it stands, or a place for the run's title or data.
struct PagePart {
  enum class What { kText, kTitle, kData };
  What what = What::kText;
  std::string_view text;
};

extern const std::span<const PagePart> kReportPage;  // of a run
extern const std::span<const PagePart> kSweepPage;

}  // namespace trainyard
