// Random tensor graphs whose right answer is known up to a bound: each output comes with how far correct compiled code may stray from the
// interpreter. The same seed gives the same graph on every machine.
#pragma once
#include <string>
#include <vector>

#include "ir/eval.h"
#include "ir/graph.h"

namespace tg::fuzz {

struct Options {
  u64 seed = 1;
  int ops = 12;
  i64 max_elems = 3000;        // of one value
  bool special = true;         // NaN, infinities and -0.0 among the inputs
  bool half = true;            // f16 and bf16
  bool wide = true;            // f64
  bool storage = true;         // kinds under 8 bits and 8-bit floats, behind a Cast
  bool free_sizes = false;     // one dimension is a VAR, called v0
  i64 size = -1;               // what it is in the run; -1: by chance
  std::string only;            // names of op groups, comma-separated; empty: all (see kGroups in graph_gen.cc)
};

struct Case {
  Graph graph;
  std::vector<Values> inputs;
  std::vector<std::pair<std::string, i64>> vars;
  std::vector<f64> error;      // by output: largest absolute difference from the interpreter; 0: bit for bit (but for the sign of 0)
  std::vector<std::vector<u8>> storage;  // behind graph.constants
};

Case generate(const Options& o);

// "": got is right. Else where and how far it strays.
std::string difference(const Values& got, const Values& want, f64 error);

}  // namespace tg::fuzz
