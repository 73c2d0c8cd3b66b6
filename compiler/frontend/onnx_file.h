// An ONNX file: mapped, parsed by protobuf except for large raw_data, which stays where it is in the mapping. Tensors of the file become
// ConstantData that borrow from it, or from an external data file inside the model's folder.
#pragma once
#include <memory>
#include <string>
#include <unordered_map>

#include "base/file.h"
#include "formats/onnx.pb.h"
#include "ir/graph.h"

namespace tg {

constexpr int kMaxGraphDepth = 64;  // of graphs inside one another

class OnnxFile {
 public:
  explicit OnnxFile(const std::string& path);
  const tgonnx::ModelProto& model() const { return model_; }
  const std::string& path() const { return path_; }
  // `what` names the tensor in errors: initializer "w".
  ConstantData tensor(const tgonnx::TensorProto& t, const std::string& what);

 private:
  std::span<const u8> external(const tgonnx::TensorProto& t, u64 bytes, const std::string& what, std::shared_ptr<const void>* owner);
  std::string path_;
  std::shared_ptr<MappedFile> file_;
  std::unordered_map<std::string, std::shared_ptr<MappedFile>> others_;  // by path after links are resolved
  tgonnx::ModelProto model_;
};

// A TensorProto in a file of its own (ONNX's test data).
ConstantData read_tensor_proto(const std::string& path);

}  // namespace tg
