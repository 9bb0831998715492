// Where the parts of an installation lie: the running program's own folder, and what was built or
// installed with it.
#pragma once

#include <string>

namespace trainyard {

/// Folder of the running program; "" where the system does not say.
std::string program_folder();

/// The file `name` beside the running program, or in the lib/trainyard of its installation; "": in
/// neither.
std::string beside_program(const std::string& name);

}  // namespace trainyard
