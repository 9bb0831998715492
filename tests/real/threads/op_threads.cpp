#include "tests/real/threads/op_threads.h"

#include "real/torch.h"

namespace trainyard {

void set_op_threads(int threads) { at::set_num_threads(threads); }

}  // namespace trainyard
