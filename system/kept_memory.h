// What becomes of memory that this process frees.
#pragma once

namespace trainyard {

/// Freed memory is kept: a Program is a hundred thousand small pieces, and the next one needs as
/// many. Long lists too come from the heap, where the next ones find their pages, and what is freed
/// is joined with its neighbours at once, not all of it in the middle of something else.
void keep_freed_memory();

}  // namespace trainyard
