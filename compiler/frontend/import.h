// model.onnx to the tensor graph. Everything a model can get wrong is an Error that names the file, and the node, input or tensor; all nodes that
// cannot be imported are listed at once.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace tg {

struct ImportOptions {
  struct Shape {
    std::string input;      // an input's name; "*": every input with free dimensions that is not named itself
    std::vector<i64> dims;
    std::vector<std::string> names;   // of the variables that dims are instead (vars below); "", or none at all: the number counts
    std::string name(size_t i) const { return i < names.size() ? names[i] : ""; }
  };
  struct Var {
    std::string name;       // of a free dimension, as the model or a Shape above calls it; it stays free
    i64 min = 1, max = 1, multiple = 1;
  };
  struct Fixed {
    std::string input;      // an input's name: it becomes a constant of the graph
    std::function<ConstantData(DType declared)> value;
  };
  std::vector<Shape> shapes;
  std::vector<Var> vars;
  std::vector<Fixed> fixed;
  DType default_float = Kind::F32;
  std::function<void(const std::string&)> note;  // remarks for the user; none: base/note.h
};

// The graph's constants borrow from the file, which stays mapped while they live.
Graph import_onnx(const std::string& path, const ImportOptions& options = {});

}  // namespace tg
