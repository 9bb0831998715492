#include "system/kept_memory.h"

#include <malloc.h>

namespace trainyard {

void keep_freed_memory() {
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_MXFAST, 0);
  mallopt(M_TOP_PAD, 1 << 22);
}

}  // namespace trainyard
