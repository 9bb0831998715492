// Pages as the build made them from report/page/, report/sweep_page/ and calibrate/validate/page/
// (embed_page.cmake).
#pragma once

#include <span>
#include <string_view>

namespace trainyard {

/// A stretch of a page: text as it stands, or a place for the title or the data.
struct PagePart {
  enum class What { kText, kTitle, kData };
  What what = What::kText;
  std::string_view text;
};

extern const std::span<const PagePart> kReportPage;
extern const std::span<const PagePart> kValidationPage;
extern const std::span<const PagePart> kRunPage;
extern const std::span<const PagePart> kSweepPage;
extern const std::span<const PagePart> kCalibrationPage;

}  // namespace trainyard
