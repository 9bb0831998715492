// The .npy format: one tensor in one file, as numpy.save() writes it.
//
//   6 bytes         \x93NUMPY
//   2 bytes         version: 1.0, 2.0 or 3.0
//   2 or 4 bytes    N, little-endian; 4 from version 2.0 on
//   N bytes         {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }, padded with spaces
//   the rest        data, row by row
//
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html describes it.
#pragma once

#include "engine/base/mapped_file.h"
#include "real/data/stored_tensor.h"

namespace trainyard {

/// The tensor of `file`, which it refers to. Throws ConfigError, "FILE: reason", where the file is
/// not of the format, cut short, or in column order.
StoredTensor npy_tensor(const MappedFile& file);

}  // namespace trainyard
