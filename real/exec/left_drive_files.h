// What ranks that were ended leave on drives (drive_files.h).
#pragma once

#include <cstdint>
#include <string>

namespace trainyard {

/// The folder of a rank in that of all: "rank-3".
std::string drive_folder_of(std::int64_t rank);

/// Removes the ranks' folders in `folder`, and `folder` if nothing else is in it.
void remove_drive_files(const std::string& folder);

}  // namespace trainyard
