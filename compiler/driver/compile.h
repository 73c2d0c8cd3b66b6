// model.onnx to model.tgb, the whole way, and from a bundle's graph to a bundle again. The pipeline is compile.cc; what it reads beside
// these options are the settings (DEV, DEBUG, ...).
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "target/target.h"

namespace tg::driver {

struct InputShape {
  std::string input;      // an input's name; "*": every input with free dimensions that is not named itself
  std::vector<i64> dims;  // empty: a scalar
  std::vector<std::string> names;  // "" or the variable (VarRange) that a dim is instead
};
struct VarRange {
  std::string name;  // of a free dimension, as the model calls it
  i64 min = 1, max = 1, multiple = 1;
};

struct FixedInput {
  std::string input;                                  // an input's name: it becomes a constant of the graph
  std::function<ConstantData(DType declared)> value;  // its elements
};

struct StatePair {
  std::string output, input;  // what a run gives as the output, the next one takes as the input; zeros at first
};

struct KernelPlan;
struct CompiledKernel;

struct OutputOptions {
  std::string path;       // of the .tgb file; replaced whole or not at all
  bool compress = false;  // weights stored with zstd: smaller file, needs a runtime built with TGB_ZSTD
  bool strip = false;     // without the portable part: smaller file, cannot be retuned
  std::string report;     // path of a JSON report; "": none
  // If set, called with the compiled kernels; then no bundle is written.
  std::function<void(const KernelPlan&, std::span<const CompiledKernel>, const Target&)> instead;
};

// Where kernels' Opts come from beside the heuristics and the search that BEAM asks for.
struct SearchOptions {
  std::vector<std::string> logs;  // files of `tgaot log export`
  bool log_required = false;      // a kernel that no log knows is an Error
  std::string like;               // a bundle whose kernels' Opts are taken; "": none
};

struct CompileOptions {
  std::string model;  // path of the .onnx file
  std::vector<InputShape> shapes;  // several of one input: variants
  std::vector<VarRange> vars;
  std::vector<FixedInput> fixed;
  std::vector<StatePair> state;
  OutputOptions output;
  SearchOptions search;
};

// Both print notes, sizes and times on stderr. They throw Error for what the user must mend; then no output file is left or changed.
void compile_model(const CompileOptions&);
// A bundle scheduled and compiled again from its graph, with its weights, for DEV; an empty DEV is the bundle's own target. The bundle's own
// search log is among the logs.
void retune_bundle(const std::string& bundle, const OutputOptions&, const SearchOptions& = {});

}  // namespace tg::driver
