// Tensors in files: .npy, and .pb holding an ONNX TensorProto.
#pragma once
#include <string>
#include <vector>

#include "base/types.h"
#include "formats/dtype.h"

namespace tg {

struct TensorFile {
  tgf::Dtype dtype = tgf::Dtype::F32;
  std::vector<i64> dims;
  std::vector<u8> bytes;  // densely packed, little-endian
};

// `wanted` is the dtype that the tensor should have: .npy files hold kinds that npy cannot name as unsigned integers of their width (those
// under 8 bits one a byte), which are taken for `wanted`. Another dtype, a damaged file or another kind of file is an Error with its path.
TensorFile read_tensor_file(const std::string& path, tgf::Dtype wanted);

}  // namespace tg
