// The figures of this machine's load, as /proc/stat and the clocks of processes have them.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "calibrate/measure/machine_load.h"

namespace trainyard {

/// `stat` is /proc/stat, or a file of its form. Of the CPUs alone that this process may run on: in
/// a container with CPUs of its own, what runs elsewhere on the host is no load. `own`: the
/// processes that measure; one that has ended keeps what it had.
LoadSource load_source(const std::string& stat, std::vector<pid_t> own);

}  // namespace trainyard
